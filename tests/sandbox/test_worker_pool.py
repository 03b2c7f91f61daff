"""The worker pool against checks that misbehave in every way a hostile file can make them."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from diffchecks import PREFIX
from orchestrator.errors import SandboxError
from orchestrator.sandbox import process_confinement, scratch_directory, worker_pool
from orchestrator.sandbox.worker_pool import PACKAGE_PARENT, WorkerPool

Pool = Callable[..., WorkerPool]


CHECKS = """
import os, signal, subprocess, sys, time

print("printed while importing")

def echo(job):
    print("noise on standard output")
    sys.stderr.write("x" * 300_000)
    return job

def pid(job):
    return os.getpid()

def big(job):
    return "x" * job["size"]

def sleep(job):
    time.sleep(job["for"])
    return "woke"

def until(job):
    while not os.path.exists(job["path"]):
        time.sleep(0.01)
    return "seen"

def span(job):
    began = time.monotonic()
    time.sleep(job["for"])
    return [began, time.monotonic()]

def nap_with_child(job):
    os.fork()
    time.sleep(60)

def attempt(job):
    import socket
    def tried(action):
        try:
            action()
        except OSError as fault:
            return fault.strerror
    return [
        tried(lambda: open(job["outside"])),
        tried(lambda: open(job["home"] + "/new", "w")),
        tried(lambda: os.chmod(job["home"], 0o777)),
        tried(lambda: os.listdir("/proc/self")),
        tried(lambda: socket.create_connection(("127.0.0.1", 1))),
        tried(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)),
        tried(lambda: os.execv("/bin/true", ["true"])),
        tried(os.setsid),
    ]

def regex(job):
    import re
    return bool(re.match(r"(a+)+$", "a" * 64 + "b"))

def memory(job):
    return len(bytearray(4 << 30))

def kill(job):
    os.kill(os.getpid(), getattr(signal, job["signal"]))

def leave(job):
    os._exit(job["code"])

def garbage(job):
    for stream in range(3, 64):
        try:
            os.write(stream, job["text"].encode())
        except OSError:
            pass
    return "after garbage"

def recurse(job):
    return recurse(job)

def wrong(job):
    raise KeyError("two\\nlines")

def unspeakable(job):
    return {1, 2}

def environment(job):
    return dict(os.environ)

def path(job):
    return sys.path[0]
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "rogue.py").write_text(CHECKS)
    return tmp_path


@pytest.fixture
def pool(home: Path) -> Pool:
    def make(size: int = 1) -> WorkerPool:
        return WorkerPool(size, home=home, prefix="rogue", reads=[home])

    return make


def running(pid: int) -> bool:
    """Whether a process of that id runs (one that has ended and waits to be reaped does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def child_of(pid: int) -> str:
    """The number of the process that another has started, empty when there is none."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()


async def gone(pid: int) -> bool:
    """Wait until a process has ended."""
    with anyio.move_on_after(30):
        while running(pid):
            await anyio.sleep(0.01)
    return not running(pid)


async def test_reply_is_what_the_check_returned_whatever_it_prints(pool: Pool) -> None:
    job = {"name": "caf\udce9", "n": [1, 2.5, None], "newline": "a\nb"}
    async with pool() as workers:
        assert await workers.call("rogue:echo", job, seconds=20) == job
        assert await workers.call("rogue:echo", job, seconds=20) == job


async def test_a_worker_is_kept_for_the_next_call(pool: Pool) -> None:
    async with pool() as workers:
        pids = {await workers.call("rogue:pid", {}, seconds=20) for _ in range(3)}
    assert len(pids) == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_call_that_is_cancelled_as_its_reply_arrives_ends_quietly(
    pool: Pool, home: Path
) -> None:
    said: list[str] = []
    job = {"path": str(home / "go")}
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: said.append(context["message"]))
    async with pool() as workers:
        await workers.call("rogue:pid", {}, seconds=20)
        async with anyio.create_task_group() as group:
            group.start_soon(partial(workers.call, "rogue:until", job, seconds=20))
            await anyio.wait_all_tasks_blocked()
            assert workers._server is not None
            (home / "go").touch()
            arrived = select.poll()
            arrived.register(workers._server.sockets[0], select.POLLIN)
            assert arrived.poll(20_000)  # and the loop, which stands still, does not know yet
            loop.call_soon(group.cancel_scope.cancel)
            await anyio.sleep_forever()
        assert await workers.call("rogue:echo", {"x": 1}, seconds=20) == {"x": 1}
    assert said == []


async def test_megabytes_go_both_ways(pool: Pool) -> None:
    async with pool() as workers:
        assert len(await workers.call("rogue:big", {"size": 5_000_000}, seconds=20)) == 5_000_000
        job = {"text": "y" * 5_000_000}
        assert await workers.call("rogue:echo", job, seconds=20) == job


async def test_a_reply_beyond_the_limit_is_an_error(pool: Pool) -> None:
    async with pool() as workers:
        with pytest.raises(SandboxError, match="replied with more than"):
            await workers.call("rogue:big", {"size": (64 << 20) + 1}, seconds=60)
        assert await workers.call("rogue:pid", {}, seconds=20)


@pytest.mark.either_loop
@pytest.mark.parametrize(
    ("function", "job", "says"),
    [
        ("rogue:kill", {"signal": "SIGSEGV"}, r"rogue: the worker was ended by signal 11"),
        ("rogue:kill", {"signal": "SIGALRM"}, r"rogue: ran longer than"),  # its own alarm
        ("rogue:leave", {"code": 9}, r"rogue: the worker ended with exit code 9"),
        ("rogue:memory", {}, r"rogue: the worker needed more than 2048 MiB"),
        ("rogue:garbage", {"text": "not json\n"}, r"reply was not readable"),
        ("rogue:garbage", {"text": '{"id": 99, "result": 1}\n'}, r"reply was not readable"),
        ("rogue:regex", {}, r"rogue: ran longer than 0\.5 s"),
    ],
)
async def test_a_broken_worker_is_named_and_replaced(
    pool: Pool, function: str, job: dict[str, object], says: str
) -> None:
    async with pool() as workers:
        before = await workers.call("rogue:pid", {}, seconds=20)
        with pytest.raises(SandboxError, match=says) as caught:
            await workers.call(function, job, seconds=0.5 if "regex" in function else 20)
        assert "\n" not in str(caught.value)
        assert await gone(before)
        assert await workers.call("rogue:pid", {}, seconds=20) != before


@pytest.mark.either_loop
@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("rogue:wrong", r"^rogue: KeyError: 'two\\nlines'$"),
        ("rogue:recurse", r"^rogue: RecursionError: "),
        ("rogue:unspeakable", r"^rogue: TypeError: Object of type set"),
        ("rogue:missing", r"^rogue: AttributeError: "),
        ("rogue_missing:run", r"^rogue_missing: ModuleNotFoundError: "),
    ],
)
async def test_an_exception_is_one_line_and_the_worker_stays(
    pool: Pool, function: str, says: str
) -> None:
    async with pool() as workers:
        before = await workers.call("rogue:pid", {}, seconds=20)
        with pytest.raises(SandboxError, match=says) as caught:
            await workers.call(function, {}, seconds=20)
        assert "\n" not in str(caught.value)
        assert await workers.call("rogue:pid", {}, seconds=20) == before


@pytest.mark.parametrize(
    "function", ["os:getcwd", "orchestrator.errors:DiffcourtError", "rogue:a:b", "rogue.pid", ""]
)
async def test_only_checks_can_be_called(pool: Pool, function: str) -> None:
    async with pool() as workers:
        with pytest.raises(SandboxError, match="is not a check"):
            await workers.call(function, {}, seconds=20)


async def test_other_calls_go_on_while_one_breaks(pool: Pool) -> None:
    results: list[object] = []

    async def call(function: str, job: dict[str, Any], seconds: float) -> None:
        try:
            results.append(await workers.call(function, job, seconds=seconds))
        except SandboxError as fault:
            results.append(str(fault))

    async with pool(2) as workers, anyio.create_task_group() as group:
        group.start_soon(call, "rogue:sleep", {"for": 1}, 20)
        group.start_soon(call, "rogue:kill", {"signal": "SIGKILL"}, 20)
        group.start_soon(call, "rogue:sleep", {"for": 60}, 0.3)
    assert sorted(map(str, results)) == [
        "rogue: ran longer than 0.3 s",
        "rogue: the worker was ended by signal 9 (Killed)",
        "woke",
    ]


async def test_a_call_is_answered_while_another_runs(pool: Pool, home: Path) -> None:
    results: list[object] = []

    async def wait() -> None:
        job = {"path": str(home / "go")}
        results.append(await workers.call("rogue:until", job, seconds=60))

    async with pool(2) as workers, anyio.create_task_group() as group:
        group.start_soon(wait)
        results.append(await workers.call("rogue:echo", {}, seconds=20))
        (home / "go").touch()
    assert results == [{}, "seen"]


async def test_no_more_than_size_run_at_once(pool: Pool) -> None:
    """Each call says by the machine's own clock from when until when it ran."""
    spans: list[list[float]] = []

    async def call() -> None:
        spans.append(await workers.call("rogue:span", {"for": 0.05}, seconds=20))

    async with pool(2) as workers, anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(call)
    for began, _ in spans:
        assert sum(other <= began < ended for other, ended in spans) <= 2


async def test_cancelling_a_call_kills_its_worker_and_what_that_started(pool: Pool) -> None:
    async with pool() as workers:
        worker = await workers.call("rogue:pid", {}, seconds=20)
        async with anyio.create_task_group() as group:

            async def call() -> None:
                await workers.call("rogue:nap_with_child", {}, seconds=60)

            group.start_soon(call)
            with anyio.fail_after(20):
                while not (child := child_of(worker)):
                    await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        assert await gone(worker)
        assert await gone(int(child))
        assert await workers.call("rogue:pid", {}, seconds=20)


@pytest.mark.skipif(
    not process_confinement.is_available(), reason="workers cannot be confined here"
)
async def test_a_worker_reads_what_it_was_given_and_can_do_nothing_else(
    pool: Pool, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "secret"
    outside.write_text("secret")
    async with pool() as workers:
        job = {"outside": str(outside), "home": str(home)}
        refused = await workers.call("rogue:attempt", job, seconds=20)
    assert None not in refused
    assert {*refused} == {"Permission denied", "Operation not permitted"}


async def test_a_worker_that_could_read_the_canary_serves_nobody(
    pool: Pool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What must be denied is not: as if the kernel had stopped to deny it."""
    (home / "canary").write_text("")
    monkeypatch.setattr(scratch_directory, "canary_file", lambda: home / "canary")
    with anyio.fail_after(30):
        async with pool() as workers:
            with pytest.raises(SandboxError, match="could not be confined"):
                await workers.call("rogue:pid", {}, seconds=20)


def test_prestarted_workers_serve_one_event_loop_after_the_other(pool: Pool) -> None:
    workers, pids = pool(), []

    async def visit() -> None:
        async with workers:
            pids.append(await workers.call("rogue:pid", {}, seconds=20))
            with pytest.raises(SandboxError, match="longer than"):
                await workers.call("rogue:sleep", {"for": 60}, seconds=0.1)
            pids.append(await workers.call("rogue:pid", {}, seconds=20))
            with anyio.move_on_after(0.1):
                await workers.call("rogue:sleep", {"for": 60}, seconds=60)

    workers.start()
    for backend in ("asyncio", "trio", "asyncio"):
        anyio.run(visit, backend=backend)
    assert len({*pids}) == 6
    workers.close()
    assert all(anyio.run(gone, pid) for pid in pids)


def test_a_worker_serves_the_next_event_loop_until_the_pool_is_started_anew(pool: Pool) -> None:
    pids: list[int] = []

    async def visit() -> None:
        async with workers:
            pids.append(await workers.call("rogue:pid", {}, seconds=20))

    with closing(pool()) as workers:
        workers.start()
        for backend in ("asyncio", "trio"):
            anyio.run(visit, backend=backend)
        os.kill(pids[0], signal.SIGKILL)  # while no event loop runs
        anyio.run(seen_dead, workers, pids[0])
        anyio.run(visit)
        workers.close()
        workers.start()
        anyio.run(visit)
    assert pids[0] == pids[1]
    assert len({*pids}) == 3


async def test_nothing_is_left_when_the_pool_closes(pool: Pool) -> None:
    async with pool(2) as workers:
        pid = await workers.call("rogue:pid", {}, seconds=20)
        assert running(pid)
    assert await gone(pid)
    with pytest.raises(SandboxError, match="closed"):
        await workers.call("rogue:pid", {}, seconds=20)


async def test_an_exception_in_the_body_passes_as_it_is(pool: Pool) -> None:
    with pytest.raises(ZeroDivisionError):
        async with pool() as workers:
            pid = await workers.call("rogue:pid", {}, seconds=20)
            raise ZeroDivisionError
    assert await gone(pid)


async def seen_dead(workers: WorkerPool, pid: int) -> None:
    """Wait until the fork server has seen that its only worker is dead."""
    assert await gone(pid)
    (slot,) = workers._slots
    with anyio.fail_after(20):
        while not slot._has_unread_data():
            await anyio.sleep(0.01)


async def test_a_worker_that_died_while_idle_is_replaced(pool: Pool) -> None:
    async with pool() as workers:
        pid = await workers.call("rogue:pid", {}, seconds=20)
        os.kill(pid, signal.SIGKILL)
        await seen_dead(workers, pid)
        assert await workers.call("rogue:pid", {}, seconds=20) != pid


async def test_nothing_starts_before_it_is_needed(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_pool, "ISOLATED_PYTHON", ("/nonexistent/python", "-I"))
    async with pool() as workers:
        with pytest.raises(SandboxError, match="could not be started"):
            await workers.call("rogue:pid", {}, seconds=20)


async def test_a_worker_that_cannot_start_says_why(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho first >&2\necho 'no space left' >&2\nexit 3\n")
    python.chmod(0o755)
    monkeypatch.setattr(worker_pool, "ISOLATED_PYTHON", (str(python), "-I"))
    async with pool() as workers:
        with pytest.raises(SandboxError, match=r"could not start: no space left$"):
            await workers.call("rogue:pid", {}, seconds=20)


async def test_workers_can_be_started_ahead_and_share_what_was_imported(
    pool: Pool, home: Path
) -> None:
    (home / "heavy.py").write_text("import os\nIMPORTED_BY = os.getpid()\n")
    rogue = home / "rogue.py"
    rogue.write_text(
        f"{rogue.read_text()}\ndef heavy(job):\n    import heavy\n    return heavy.IMPORTED_BY\n"
    )
    ahead = WorkerPool(
        2, home=home, prefix="rogue", reads=[home], modules=["heavy", "there_is_no_such_module"]
    )
    ahead.start()
    async with ahead as workers:
        importers = {await workers.call("rogue:heavy", {}, seconds=20) for _ in range(2)}
        assert len(importers) == 1
        assert await workers.call("rogue:pid", {}, seconds=20) not in importers
        (fork_server_id,) = importers
    ahead.close()
    assert await gone(fork_server_id)


def test_a_pool_that_was_started_and_never_entered_leaves_nothing(home: Path) -> None:
    ahead = WorkerPool(1, home=home, prefix="rogue", reads=[home])
    ahead.start()
    ahead.close()
    assert not subprocess.run(
        ["pgrep", "-f", str(home)], capture_output=True, text=True, check=False
    ).stdout


async def test_workers_have_none_of_our_environment(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setenv("CANARY", "ours")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    async with pool() as workers:
        assert "CANARY" not in await workers.call("rogue:environment", {}, seconds=20)
        assert await workers.call("rogue:path", {}, seconds=20) == str(home)


async def test_the_package_is_found_without_being_installed() -> None:
    async with WorkerPool(1, prefix=PREFIX) as workers:
        job = {"root": str(PACKAGE_PARENT), "paths": []}
        reply = await workers.call("diffchecks.conflict_markers:run", job, seconds=20)
    assert reply == {"findings": [], "examined": [], "gaps": {}, "facts": {}}


def test_a_killed_parent_leaves_no_busy_worker(home: Path) -> None:
    script = textwrap.dedent("""
        import anyio, pathlib, sys
        from orchestrator.sandbox import bubblewrap
        from orchestrator.sandbox.worker_pool import WorkerPool

        bubblewrap.find_bwrap = lambda: None  # in namespaces, process ids differ
        home = pathlib.Path(sys.argv[1])

        async def main():
            async with WorkerPool(1, home=home, prefix="rogue", reads=[home]) as pool:
                print(await pool.call("rogue:pid", {}, seconds=20), flush=True)
                await pool.call("rogue:regex", {}, seconds=1)

        anyio.run(main)
    """)
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(home)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(PACKAGE_PARENT)},
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    time.sleep(0.3)
    assert running(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 30
    while running(pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert not running(pid)
