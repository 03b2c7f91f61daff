"""Cgroups: what the machine offers, and that processes in one are limited and ended with it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from orchestrator.errors import SandboxError
from orchestrator.sandbox import (
    bubblewrap,
    cgroups,
    isolated_run,
    level_descriptions,
    process_confinement,
    run_program,
    worker_pool,
)
from orchestrator.sandbox.cgroups import Cgroup, Hierarchy, hierarchies
from orchestrator.sandbox.level_and_launchers import Sandbox
from orchestrator.sandbox.program_permissions import Permissions, ResourceLimits
from orchestrator.sandbox.worker_pool import WorkerPool
from tests.torture.sandbox_probes import BOMB, HOGS

FIND = bubblewrap.find_bwrap  # before the suite runs without
Case = tuple[str, str, list[Hierarchy]]
SMALL = ResourceLimits(memory=64 << 20, processes=60)
UNIFIED = Path("/sys/fs/cgroup/unified")


def offered() -> tuple[str, ...]:
    group = Cgroup(SMALL)
    try:
        return group.controllers
    finally:
        group.close()


HOLDS = offered()
needs_memory = pytest.mark.skipif(
    "memory" not in HOLDS, reason="no writable cgroups with a limit on memory"
)
needs_pids = pytest.mark.skipif(
    "pids" not in HOLDS, reason="no writable cgroups with a limit on processes"
)
needs_bwrap = pytest.mark.skipif(
    bubblewrap.find_bwrap() is None, reason="bubblewrap is not installed"
)
needs_unified = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access(UNIFIED, os.W_OK) or not (UNIFIED / "cgroup.procs").exists(),
    reason="no writable cgroup hierarchy of version 2",
)

# --- what the kernel says -> where groups can be made ---------------------------------------------

HYBRID = (
    "5:pids:/user.slice\n4:memory:/user.slice/s-1\n3:cpu,cpuacct:/\n2:name=systemd:/x\n0::/user.slice\n",
    "30 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "31 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "32 30 0:30 / /sys/fs/cgroup/memory rw,relatime shared:7 - cgroup cgroup rw,memory\n"
    "33 30 0:31 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
    "34 30 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n",
    [
        Hierarchy(1, ("pids",), "/sys/fs/cgroup/pids", "/sys/fs/cgroup/pids/user.slice"),
        Hierarchy(1, ("memory",), "/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/user.slice/s-1"),
        Hierarchy(1, ("cpu",), "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct"),
    ],
)
SECOND = (
    "0::/user.slice/user-1000.slice/run-7.scope\n",
    "26 25 0:23 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
    [
        Hierarchy(
            2,
            ("memory", "pids", "cpu"),
            "/sys/fs/cgroup",
            "/sys/fs/cgroup/user.slice/user-1000.slice/run-7.scope",
        )
    ],
)
CONTAINER = (  # of version 1: the mount shows the container's own group as its root
    "4:memory:/docker/abc\n3:pids:/docker/abc\n",
    "30 23 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
    "31 23 0:31 /docker/other /sys/fs/cgroup/pids ro - cgroup cgroup rw,pids\n",
    [Hierarchy(1, ("memory",), "/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory")],
)
OF_ITS_OWN = (
    "0::/\n",
    "30 23 0:30 / /sys/fs/cgroup\\040here rw - cgroup2 cgroup rw\n",
    [Hierarchy(2, ("memory", "pids", "cpu"), "/sys/fs/cgroup here", "/sys/fs/cgroup here")],
)
ABOVE: Case = ("0::/../../elsewhere\n", "30 23 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n", [])
NONE: Case = ("", "30 23 0:30 / / rw - ext4 /dev/sda rw\n", [])


@pytest.mark.parametrize(
    ("own", "mounts", "there"), [HYBRID, SECOND, CONTAINER, OF_ITS_OWN, ABOVE, NONE]
)
def test_where_groups_can_be_made_is_read_from_the_kernels_own_words(
    own: str, mounts: str, there: list[Hierarchy]
) -> None:
    assert hierarchies(own, mounts) == there


def test_both_cgroup_versions_get_the_same_limits() -> None:
    limits = ResourceLimits(memory=1 << 30, processes=7)
    gib = str(1 << 30)
    assert cgroups.settings(1, limits, 4) == {
        "memory": [("memory.limit_in_bytes", gib), ("memory.memsw.limit_in_bytes", gib)],
        "pids": [("pids.max", "7")],
        "cpu": [("cpu.shares", "4096")],
    }
    assert cgroups.settings(2, limits, 4) == {
        "memory": [("memory.max", gib), ("memory.swap.max", "0")],
        "pids": [("pids.max", "7")],
        "cpu": [("cpu.weight", "400")],
    }


def test_the_shared_limits_are_at_least_those_of_one_program() -> None:
    alone, all_of_them = ResourceLimits(), cgroups.shared_limits()
    assert all_of_them.memory >= alone.memory
    assert all_of_them.processes > alone.processes


# --- real groups ----------------------------------------------------------------------------------

ENTER = """
import os, sys, time
for number in filter(None, sys.argv[1].split(",")):
    os.write(int(number), b"0")
"""


@contextmanager
def small() -> Iterator[Cgroup]:
    group = Cgroup(SMALL)
    try:
        yield group
    finally:
        group.close()


def run_in(group: Cgroup, script: str) -> str:
    """What a child of ours says that goes into the group, and is bound by nothing else."""
    numbers = ",".join(map(str, group.procs_files))
    command = [sys.executable, "-I", "-S", "-c", ENTER + script, numbers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=group.procs_files) as child:
        assert child.stdout is not None
        return child.stdout.readline().decode().strip()


def is_alive(number: int) -> bool:
    """Whether there is such a process, and it is not only waited for."""
    return Path(f"/proc/{number}/exe").exists()


def folders(group: Cgroup) -> list[Path]:
    return [Path(part._path) for part in group._parts]


@needs_memory
def test_many_small_processes_are_bound_together_and_counted() -> None:
    with small() as group:
        assert run_in(group, HOGS) == "4"  # none ended of itself
        assert group.oom_kills() >= 4
        assert group.oom_error == "ended: over 64 MB of memory, including what ran beside it"


@needs_pids
def test_a_fork_bomb_is_limited_and_ended_for_any_user() -> None:
    with small() as group:
        assert int(run_in(group, BOMB)) == SMALL.processes - 1
        places = folders(group)
        left = cgroups.processes(str(places[0]))
        assert len(left) >= SMALL.processes - 2
    assert not any(place.exists() for place in places)
    assert not any(is_alive(number) for number in left)


@needs_pids
def test_a_daemon_ends_with_its_group_whatever_session_it_is_in() -> None:
    with small() as group:
        daemon = "import time\nif os.fork():\n os._exit(0)\nos.setsid()\nprint(os.getpid(), flush=True)\ntime.sleep(60)"
        command = [sys.executable, "-I", "-S", "-c", ENTER + daemon]
        numbers = ",".join(map(str, group.procs_files))
        child = subprocess.Popen(
            [*command, numbers], stdout=subprocess.PIPE, pass_fds=group.procs_files
        )
        assert child.stdout is not None
        with child.stdout as said:
            number = int(said.readline())
        child.wait()
        assert is_alive(number)
    assert not is_alive(number)


@needs_pids
def test_processes_of_a_killed_run_are_ended_by_the_next_start() -> None:
    script = f"""
import os, signal, subprocess, sys
from orchestrator.sandbox.program_permissions import ResourceLimits
from orchestrator.sandbox.cgroups import Cgroup
group = Cgroup(ResourceLimits())
left = subprocess.Popen([sys.executable, "-I", "-S", "-c", {ENTER + "import time; time.sleep(60)"!r},
    ",".join(map(str, group.procs_files))], pass_fds=group.procs_files, stdout=subprocess.DEVNULL)
while str(left.pid) not in open(group._parts[-1]._path + "/cgroup.procs").read().split():
    pass
print(left.pid, *[part._path for part in group._parts], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    with small() as living:
        done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=False)
        left, *places = done.stdout.decode().split()
        assert done.returncode == -9
        for _ in range(1000):  # another process on this machine may be removing them just now
            with small():
                assert all(place.exists() for place in folders(living))
            if not any(Path(place).exists() for place in places):
                break
        assert not any(Path(place).exists() for place in places)
    assert not is_alive(int(left))


def test_where_there_are_no_groups_the_reason_is_said_and_nothing_else_happens() -> None:
    script = (
        "from orchestrator.sandbox.cgroups import Cgroup, shared_limits\n"
        "group = Cgroup(shared_limits())\n"
        "print(group.controllers, group.procs_files, group.oom_kills(), group.missing_reason)\n"
        "group.close()"
    )
    python = [sys.executable, "-c", script]
    hidden = 'umount --lazy --recursive /sys/fs/cgroup || exit 77; exec "$@"'
    wrap = ["unshare", "--mount", "/bin/sh", "-c", hidden, "sh"]
    done = subprocess.run([*wrap, *python], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("no mount namespaces")
    assert done.stdout.decode().strip() == (
        "() [] 0 memory, processes, processors: this system has no such cgroups"
    )


@pytest.mark.skipif(os.geteuid() != 0 or not HOLDS, reason="not root, or no writable cgroups")
def test_an_ordinary_user_is_told_that_the_group_is_not_its_own() -> None:
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setuid(65534)
        group = Cgroup(SMALL)
        os._exit(0 if not group.controllers and "is not writable" in group.missing_reason else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# --- version 2 ------------------------------------------------------------------------------------


@contextmanager
def unified_cgroup() -> Iterator[Path]:
    place = UNIFIED / f"diffcourt.test-{os.getpid()}"
    place.mkdir()
    try:
        yield place
    finally:
        for folder in (place / cgroups.LEAF, place):
            if folder.exists():
                cgroups._remove(str(folder))


@needs_unified
def test_a_process_goes_into_a_leaf_with_its_children_and_never_with_strangers() -> None:
    script = """
import os, subprocess, sys
from orchestrator.sandbox import cgroups
place = sys.argv[1]
none = subprocess.DEVNULL
child = subprocess.Popen(["/bin/sleep", "60"], stdout=none, stderr=none)
cgroups.enter_leaf(place)
print(sorted(cgroups.processes(place + "/" + cgroups.LEAF)) == sorted([os.getpid(), child.pid]),
    cgroups.processes(place))
child.kill()
"""
    enter = ["/bin/sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"']
    with unified_cgroup() as place:
        alone = [*enter, str(place), sys.executable, "-c", script, str(place)]
        done = subprocess.run(alone, stdout=subprocess.PIPE, check=True)
        assert done.stdout.decode().split() == ["True", "[]"]
        with subprocess.Popen([*enter, str(place), "/bin/sleep", "60"]) as stranger:
            while stranger.pid not in cgroups.processes(str(place)):
                time.sleep(0.01)
            done = subprocess.run(alone, stderr=subprocess.PIPE, check=False)
            assert b"contains processes of others" in done.stderr
            stranger.kill()


@needs_unified
def test_a_group_of_version_2_is_ended_as_a_whole() -> None:
    bomb = 'echo $$ > "$0/cgroup.procs"; for i in 1 2 3 4 5; do sleep 60 & done; wait'
    with unified_cgroup() as place:
        with subprocess.Popen(["/bin/sh", "-c", bomb, str(place)]) as child:
            while len(cgroups.processes(str(place))) < 6:
                time.sleep(0.01)
            cgroups._remove(str(place))
            assert child.wait() == -9
        assert not place.exists()


@needs_unified
def test_a_group_without_our_controllers_or_not_delegated_is_left_alone() -> None:
    with unified_cgroup() as place:
        tree = Hierarchy(2, ("memory", "pids"), str(UNIFIED), str(place))
        with pytest.raises(cgroups.NotDelegatedError, match="has no such controllers"):
            cgroups.find_parent(tree)
        assert not cgroups._is_delegated(str(place), str(UNIFIED))
        os.setxattr(place, "trusted.delegate", b"1")
        assert cgroups._is_delegated(str(place), str(UNIFIED))
        assert not cgroups._is_delegated(str(UNIFIED), str(UNIFIED))  # the machine's own


# --- programs -------------------------------------------------------------------------------------


@pytest.fixture
def anyio_backend() -> str:
    """One is enough: how programs are waited for on both, the tests of the levels say."""
    return "asyncio"


@pytest.fixture(params=[pytest.param("bubblewrap", marks=needs_bwrap), "landlock"])
def sandbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """One whose programs have little together."""
    if not process_confinement.is_available():
        pytest.skip("programs cannot be confined here")
    monkeypatch.setattr(bubblewrap, "find_bwrap", FIND)
    own = Sandbox(SMALL)
    for module in (run_program, level_descriptions, isolated_run):
        monkeypatch.setattr(module, "SANDBOX", own)
    own.use(request.param)
    yield own
    own.close()


async def python(script: str, limits: ResourceLimits = ResourceLimits()) -> str:
    """What a program says whose own limits are wide."""
    argv = [sys.executable, "-I", "-S", "-c", script]
    return (
        (await run_program.run(argv, permissions=Permissions(), limits=limits))
        .stdout.decode()
        .strip()
    )


@needs_memory
async def test_a_program_that_takes_too_much_with_all_it_starts_is_a_named_gap(
    sandbox: Sandbox,
) -> None:
    with pytest.raises(SandboxError) as caught:
        await python(HOGS)
    assert str(caught.value).endswith(": ended: over 64 MB of memory, including what ran beside it")
    assert await python("print('the next one runs')") == "the next one runs"


@needs_pids
async def test_a_program_that_only_forks_is_bound_with_no_limit_of_its_own(
    sandbox: Sandbox,
) -> None:
    made = int(await python(BOMB, ResourceLimits(processes=100_000)))
    assert 0 < made < SMALL.processes
    assert await python("print('the next one runs')") == "the next one runs"


@needs_pids
async def test_a_program_that_cannot_be_started_for_that_says_why(sandbox: Sandbox) -> None:
    with anyio.fail_after(60):
        script = BOMB + "time.sleep(60)"
        bomb = run_program.start(
            [sys.executable, "-I", "-S", "-c", script], permissions=Permissions()
        )
        try:
            assert int(await bomb.stdout.receive()) > 0
            with pytest.raises(SandboxError, match="could not be started: Resource temporarily"):
                await run_program.run(["/bin/true"], permissions=Permissions())
        finally:
            await bomb.aclose()
    assert await python("print('the next one runs')") == "the next one runs"


@needs_pids
async def test_limits_that_are_lost_in_the_middle_are_refused(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert await python("print('served')") == "served"
    monkeypatch.setattr(cgroups, "_own_hierarchies", list)
    with pytest.raises(SandboxError, match="cgroup limits are no longer in force: memory"):
        sandbox.new_cgroup()
    if sandbox.level == "bubblewrap":  # another directory needs other namespaces
        with pytest.raises(SandboxError, match="no longer in force"):
            await run_program.run(["/bin/true"], permissions=Permissions((tmp_path,)))


async def test_without_groups_programs_run_with_limits_of_their_own(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.close()
    monkeypatch.setattr(cgroups, "_own_hierarchies", list)
    assert await python("print('served')") == "served"
    assert sandbox.controllers == ()
    said = level_descriptions.describe_sandbox().limits
    why = "memory, processes, processors: this system has no such cgroups"
    assert said == f"each program separately; {why}"


@needs_pids
async def test_which_limits_hold_is_said_in_one_line(sandbox: Sandbox) -> None:
    said = level_descriptions.describe_sandbox().limits
    assert "60 processes" in said
    assert "\n" not in said


@needs_memory
@pytest.mark.parametrize("sandbox", [pytest.param("bubblewrap", marks=needs_bwrap)], indirect=True)
async def test_tests_of_the_change_that_take_too_much_are_a_named_gap(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    command = [sys.executable, "-I", "-S", "-c", HOGS]
    with pytest.raises(SandboxError, match="ended: over 64 MB of memory"):
        await isolated_run.run_isolated(command, tmp_path)
    command[-1] = BOMB + "os._exit(made >= 60)"
    limits = ResourceLimits(processes=100_000)
    assert (await isolated_run.run_isolated(command, tmp_path, limits=limits)).code == 0


@needs_memory
async def test_a_check_that_takes_too_much_is_a_named_gap_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(worker_pool, "shared_limits", lambda: SMALL)
    (tmp_path / "greedy.py").write_text("def take(job):\n    return len(bytearray(job['size']))\n")
    async with WorkerPool(1, home=tmp_path, prefix="greedy", reads=[tmp_path]) as workers:
        with pytest.raises(SandboxError) as caught:
            await workers.call("greedy:take", {"size": 128 << 20}, seconds=20)
        assert await workers.call("greedy:take", {"size": 1}, seconds=20) == 1
    said = "greedy: the worker ended: over 64 MB of memory, including what ran beside it"
    assert str(caught.value) == said
