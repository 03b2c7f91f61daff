"""What a program that is not confined can read of the process that started it."""

import subprocess
import sys

import pytest

STARTER = """
import ctypes, os
from pathlib import Path

import anyio

from orchestrator.sandbox.run_program import start_unconfined

async def start():
    command = ["/bin/sh", "-c", "exec 2>&1; tr '\\\\0' ' ' < /proc/$PPID/environ"]
    process = await start_unconfined(command, cwd=Path("/"), env={})
    async for data in process.stdout:
        print(data.decode())
    await process.wait()

anyio.run(anyio.run_process, ["/bin/true"])  # imports what a start needs while it can be read
if os.geteuid() == 0:  # root may read everything
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # dumpable, as a program is that a user starts
assert b"kept-from-children" in Path("/proc/self/environ").read_bytes()
anyio.run(start)
print("ended")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_a_server_cannot_read_our_environment_in_proc() -> None:
    run = subprocess.run(
        [sys.executable, "-c", STARTER],
        env={"PATH": "/usr/bin:/bin", "SOME_API_KEY": "kept-from-children"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "kept-from-children" not in run.stdout
    assert "ermission denied" in run.stdout
    assert run.stdout.endswith("ended\n")
