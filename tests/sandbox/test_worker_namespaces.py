"""Checks in bubblewrap namespaces: other files do not exist there, and no check runs outside."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from orchestrator.errors import SandboxError
from orchestrator.sandbox import bubblewrap, process_confinement, run_program, worker_pool
from orchestrator.sandbox.level_and_launchers import Sandbox
from orchestrator.sandbox.worker_pool import WorkerPool

pytestmark = pytest.mark.skipif(
    not process_confinement.is_available(), reason="programs cannot be confined here"
)
FIND = bubblewrap.find_bwrap  # before the suite runs without
needs_bwrap = pytest.mark.skipif(
    bubblewrap.find_bwrap() is None, reason="bubblewrap is not installed"
)
CHECKS = """
import os, signal

def look(job):
    def stat(path):
        try:
            return os.stat(path).st_size
        except OSError as fault:
            return fault.strerror
    return {"mine": open(job["mine"]).read(), "outside": stat(job["outside"]),
        "us": stat(f"/proc/{job['us']}"), "number": os.getpid()}

def end(job):
    os.kill(os.getpid(), signal.SIGKILL)
"""
NO_NAMESPACES = "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
JUST_EXEC = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n'


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    own = Sandbox()
    monkeypatch.setattr(bubblewrap, "find_bwrap", FIND)
    for module in (run_program, worker_pool):
        monkeypatch.setattr(module, "SANDBOX", own)
    yield own
    own.close()


@pytest.fixture
def shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a script in the place of bwrap."""

    def make(body: str) -> None:
        script = tmp_path / "bwrap"
        script.write_text(body)
        script.chmod(0o755)
        monkeypatch.setattr(bubblewrap, "find_bwrap", lambda: str(script))

    return make


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[WorkerPool]:
    home = tmp_path / "home"
    home.mkdir()
    (home / "rogue.py").write_text(CHECKS)
    (home / "file").write_text("mine")
    (tmp_path / "secret").write_text("secret")
    made = WorkerPool(1, home=home, prefix="rogue", reads=[home])
    yield made
    made.close()


async def looked(workers: WorkerPool, tmp_path: Path) -> dict[str, object]:
    job = {
        "mine": str(tmp_path / "home/file"),
        "outside": str(tmp_path / "secret"),
        "us": os.getpid(),
    }
    seen: dict[str, object] = await workers.call("rogue:look", job, seconds=20)
    return seen


@needs_bwrap
async def test_a_check_sees_what_it_was_given_and_not_even_that_more_exists(
    sandbox: Sandbox, pool: WorkerPool, tmp_path: Path
) -> None:
    pool.start()
    async with pool as workers:
        seen = await looked(workers, tmp_path)
        absent = "No such file or directory"
        assert (seen["mine"], seen["outside"], seen["us"]) == ("mine", absent, absent)
        with pytest.raises(SandboxError, match="ended by signal 9"):
            await workers.call("rogue:end", {}, seconds=20)
        assert (await looked(workers, tmp_path))["number"] != seen["number"]
    pool.close()
    with anyio.fail_after(20):  # what is killed takes a moment to be gone
        while (await anyio.run_process(["pgrep", "-f", str(tmp_path)], check=False)).stdout:
            await anyio.sleep(0.05)


async def test_where_namespaces_are_unavailable_checks_run_at_the_next_level(
    sandbox: Sandbox, shim: Callable[[str], None], pool: WorkerPool, tmp_path: Path
) -> None:
    shim(NO_NAMESPACES)
    pool.start()
    with anyio.fail_after(20):
        while pool._server is not None and pool._server.alive:
            await anyio.sleep(0.01)
    async with pool as workers:
        assert (await looked(workers, tmp_path))["outside"] == len("secret")
    assert sandbox.level == "landlock"


async def test_namespaces_that_were_not_made_or_were_lost_are_refused(
    sandbox: Sandbox, shim: Callable[[str], None], pool: WorkerPool, tmp_path: Path
) -> None:
    shim(JUST_EXEC)
    async with pool as workers:
        with pytest.raises(
            SandboxError, match="shares our net, pid, mnt, ipc, uts, cgroup namespace"
        ):
            await looked(workers, tmp_path)
        assert sandbox.level == "bubblewrap"
        shim(NO_NAMESPACES)
        with pytest.raises(SandboxError, match="No permissions to create new namespace"):
            await looked(workers, tmp_path)
