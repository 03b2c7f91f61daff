"""Which level is used, and that none of them is believed: it is tried before every program."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.cli.commands import doctor
from orchestrator.errors import SandboxError
from orchestrator.sandbox import (
    bubblewrap,
    kernel_calls,
    level_and_launchers,
    level_descriptions,
    process_confinement,
    run_program,
    scratch_directory,
)
from orchestrator.sandbox.level_and_launchers import Sandbox, Setting
from orchestrator.sandbox.program_permissions import Permissions, ResourceLimits
from tests.torture import sandbox_probes

pytestmark = [
    pytest.mark.either_loop,
    pytest.mark.skipif(
        not process_confinement.is_available(), reason="programs cannot be confined here"
    ),
]
needs_bwrap = pytest.mark.skipif(
    bubblewrap.find_bwrap() is None, reason="bubblewrap is not installed"
)
FIND = bubblewrap.find_bwrap  # before the suite runs without
Shim = Callable[[str], None]


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """A sandbox of the test's own, whose level is yet to be decided."""
    own = Sandbox(sandbox_probes.TOGETHER)
    monkeypatch.setattr(bubblewrap, "find_bwrap", FIND)
    monkeypatch.setattr(run_program, "SANDBOX", own)
    monkeypatch.setattr(level_descriptions, "SANDBOX", own)
    yield own
    own.close()


@pytest.fixture
def shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shim:
    """Puts a script in the place of bwrap."""

    def make(body: str) -> None:
        script = tmp_path / "bwrap"
        script.write_text(f"#!/bin/sh\n{body}")
        script.chmod(0o755)
        monkeypatch.setattr(bubblewrap, "find_bwrap", lambda: str(script))

    return make


async def word(text: str = "served") -> str:
    """What a program says that runs in the sandbox."""
    return (
        (await run_program.run(["/bin/echo", text], permissions=Permissions()))
        .stdout.decode()
        .strip()
    )


JUST_EXEC = 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"'
ADDING = (
    'for a; do shift; if [ "$a" = --remount-ro ]; then set -- "$@" {}; fi; '
    'set -- "$@" "$a"; done; exec bwrap "$@"'
)
WITHOUT = 'for a; do shift; [ "$a" = {} ] || set -- "$@" "$a"; done; exec bwrap "$@"'


async def test_a_bwrap_that_only_runs_what_it_is_given_is_refused(
    sandbox: Sandbox, shim: Shim
) -> None:
    shim(JUST_EXEC)
    for _ in range(2):
        with pytest.raises(
            SandboxError, match="shares our net, pid, mnt, ipc, uts, cgroup namespace"
        ):
            await word()
    assert sandbox.level == "bubblewrap"


@needs_bwrap
@pytest.mark.parametrize(
    ("left_out", "why"),
    [
        ("--unshare-net", "shares our net namespace"),
        ("--unshare-pid", "shares our pid namespace"),
        ("--unshare-ipc", "shares our ipc namespace"),
        ("--unshare-uts", "shares our uts namespace"),
        ("--unshare-cgroup-try", "shares our cgroup namespace"),
        ("--new-session", "shares our session"),
        ("--die-with-parent", "would outlive it"),
    ],
)
async def test_a_bwrap_that_leaves_out_an_isolation_is_refused(
    sandbox: Sandbox, shim: Shim, left_out: str, why: str
) -> None:
    shim(WITHOUT.format(left_out))
    with pytest.raises(SandboxError, match=why):
        await word()


@needs_bwrap
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to keep")
async def test_a_bwrap_that_keeps_capabilities_is_refused(sandbox: Sandbox, shim: Shim) -> None:
    shim(ADDING.format("--cap-add CAP_SYS_ADMIN"))
    with pytest.raises(SandboxError, match="has capabilities that nobody asked for"):
        await word()


@needs_bwrap
@pytest.mark.parametrize(
    ("added", "why"),
    [
        ("--bind {0} {0}", "{0} is mounted in its namespaces, which was not requested"),
        (
            "--bind {0} /usr/share",
            "/usr/share is mounted in its namespaces, which was not requested",
        ),
        ("--bind /usr /usr", "/usr can be written in its namespaces"),
        ("--ro-bind {0} /usr", "/usr is another file in its namespaces"),
        ("--bind {0} /dev/host", "/dev/host is mounted in its namespaces, which was not requested"),
        ("--ro-bind {0} /usr/share", "/usr/share is mounted in its namespaces, which was not"),
        ("--bind {0} {1}/sub", "{1}/sub is mounted in its namespaces, which was not requested"),
        ("--bind {0} /tmp/x/y", "/tmp/x/y is mounted in its namespaces, which was not requested"),
        ("--bind /dev/shm /tmp/../dev/shm", "{2}"),
        ("--tmpfs /etc/new --remount-ro /etc/new", "/etc/new is mounted in its namespaces"),
    ],
)
async def test_a_bwrap_that_mounts_what_nobody_asked_for_is_refused(
    sandbox: Sandbox, shim: Shim, tmp_path: Path, added: str, why: str
) -> None:
    host = tmp_path / "host"
    host.mkdir()
    work = scratch_directory.work_directory()
    shared = "/dev/shm is not a new one of its namespaces"
    if str(work).startswith("/dev/shm/"):
        shared = "our files are visible in its namespaces"  # which is noticed first
    places = (host, work, shared)
    shim(ADDING.format(added.format(*places)))
    with pytest.raises(SandboxError, match=re.escape(why.format(*places))):
        await word()


@needs_bwrap
async def test_a_bwrap_that_leaves_the_root_writable_is_refused(
    sandbox: Sandbox, shim: Shim
) -> None:
    shim(
        'for a; do shift; [ "$a" = --remount-ro ] && a=--chdir; set -- "$@" "$a"; done; '
        'exec bwrap "$@"'
    )
    with pytest.raises(SandboxError, match="/ is not a new one of its namespaces"):
        await word()


async def test_doctor_runs_a_program_and_says_when_it_is_refused(
    sandbox: Sandbox, shim: Shim
) -> None:
    shim(JUST_EXEC)
    refusal = await level_descriptions.try_program()
    assert "shares our net, pid, mnt, ipc, uts, cgroup namespace" in refusal
    report = replace(level_descriptions.describe_sandbox(), refusal=refusal)
    assert dict(doctor._sandbox(report))["level"] == (
        f"bubblewrap, but it refuses every program: {refusal}"
    )


async def test_lost_namespaces_are_the_next_level_and_it_is_said(
    sandbox: Sandbox, shim: Shim
) -> None:
    shim("echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    assert await word() == "served"
    assert (sandbox.level, "No permissions" in sandbox.level_reason) == ("landlock", True)
    assert "No permissions" in level_descriptions.describe_sandbox().reason


async def test_lost_namespaces_are_refused_where_they_were_asked_for(
    sandbox: Sandbox, shim: Shim
) -> None:
    shim("echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    with pytest.raises(SandboxError, match="No permissions to create new namespace"):
        sandbox.use("bubblewrap")
    with pytest.raises(SandboxError, match="No permissions to create new namespace"):
        await word()


async def test_a_missing_bwrap_is_the_next_level_or_refused(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap, "find_bwrap", lambda: None)
    with pytest.raises(SandboxError, match="requires the sandbox bubblewrap"):
        sandbox.use("bubblewrap")
    sandbox.use("auto")
    assert await word() == "served"
    assert await level_descriptions.try_program() == ""
    report = level_descriptions.describe_sandbox()
    assert (report.level, report.reason) == ("landlock", "bubblewrap is not installed")
    assert report.hint.startswith("apt-get install bubblewrap")


async def test_where_namespaces_are_forbidden_the_setting_that_allows_them_is_named(
    sandbox: Sandbox, shim: Shim
) -> None:
    shim("echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1")
    report = level_descriptions.describe_sandbox()
    assert (report.level, "uid map" in report.reason) == ("landlock", True)
    assert "kernel.apparmor_restrict_unprivileged_userns=0" in report.hint


@needs_bwrap
async def test_namespaces_lost_in_the_middle_are_refused_and_not_gone_without(
    sandbox: Sandbox, shim: Shim, tmp_path: Path
) -> None:
    assert await word() == "served"
    assert sandbox.level == "bubblewrap"
    shim("echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    with pytest.raises(SandboxError, match="No permissions"):
        await run_program.run(["/bin/ls"], permissions=Permissions((tmp_path,)))
    assert sandbox.level == "bubblewrap"


async def test_without_landlock_there_is_no_level_but_none(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(level_and_launchers, "is_available", lambda: False)
    with pytest.raises(SandboxError, match="requires the sandbox landlock"):
        sandbox.use("landlock")
    sandbox.use("auto")
    assert await word() == "served"
    assert sandbox.level == "none"


@pytest.mark.parametrize(
    "broken", ["restrict_paths", "install_seccomp_filter", "no_new_privileges"]
)
async def test_a_confinement_that_does_nothing_is_refused(
    sandbox: Sandbox, tmp_path: Path, broken: str
) -> None:
    """The child believes that it confined itself, as with a kernel that says yes and does no."""
    canary = tmp_path / "canary"
    canary.write_text("")
    script = f"""
import sys
sys.path.insert(0, {str(Path(process_confinement.__file__).parents[2])!r})
from orchestrator.sandbox import process_confinement, kernel_calls
kernel_calls.{broken} = lambda *given, **named: None
try:
    process_confinement.confine(reads=[], writes=[], canary={str(canary)!r},
        user=61500 if kernel_calls.can_change_user() else None, program=["/bin/true"],
        system=process_confinement.system_rules([]))
except (process_confinement.DenialError, OSError) as fault:
    print("refused:", fault)
"""
    done = await anyio.run_process([sys.executable, "-I", "-S", "-c", script])
    assert done.stdout.startswith(b"refused:")


@pytest.mark.attack("a filter of system calls that lets a family of sockets through")
@pytest.mark.parametrize("missing", ["_VSOCK", "_CRYPTO", "_UNNAMED"])
async def test_a_filter_that_opens_one_more_family_is_refused(missing: str) -> None:
    """Whatever the kernel answers for a family, the filter must have answered before it."""
    script = f"""
import sys
sys.path.insert(0, {str(Path(process_confinement.__file__).parents[2])!r})
from orchestrator.sandbox import process_confinement, kernel_calls, seccomp_filter
process_confinement.namespace_error = lambda request: ""
kernel_calls.can_change_user = lambda: False
seccomp_filter._INET6 = process_confinement.{missing}
try:
    process_confinement.confine_test_code("", None, unix_sockets=True)
except process_confinement.DenialError as fault:
    print("refused:", fault)
"""
    done = await anyio.run_process([sys.executable, "-I", "-S", "-c", script])
    assert done.stdout.startswith(b"refused: a socket of family ")


async def test_a_launcher_that_died_is_one_clear_line_and_then_replaced(sandbox: Sandbox) -> None:
    assert await word() == "served"
    running = run_program.start(["/bin/sleep", "60"], permissions=Permissions())
    for launcher in sandbox._launchers:
        assert launcher._process is not None
        launcher._process.kill()
    with pytest.raises(SandboxError, match="launcher process has exited"):
        await running.wait()
    await running.aclose()
    with anyio.fail_after(20):
        while any(launcher.alive for launcher in sandbox._launchers):
            await anyio.sleep(0.01)
    assert await word() == "served"


async def test_a_canary_that_is_gone_refuses_everything(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(scratch_directory, "canary_file", lambda: tmp_path / "none")
    sandbox.use("landlock")
    with pytest.raises(SandboxError, match="the canary cannot be opened before"):
        await word()


LEVELS = [pytest.param("bubblewrap", marks=needs_bwrap), "landlock"]


@pytest.mark.parametrize("level", LEVELS)
async def test_nothing_gets_out(sandbox: Sandbox, level: Setting) -> None:
    """The short form of the torture module; each probe is one thing that hostile code would try."""
    sandbox.use(level)
    assert await sandbox_probes.leaks() == []


@pytest.mark.parametrize("level", LEVELS)
async def test_limits_hold_before_the_first_instruction(sandbox: Sandbox, level: Setting) -> None:
    sandbox.use(level)
    limits = ResourceLimits(memory=1 << 30, file_size=1 << 20, files=64, processes=100)
    names = ("AS", "FSIZE", "NOFILE", "CORE", "NPROC")
    asked = f"import resource\nfor n in {names}: print(*resource.getrlimit(getattr(resource, 'RLIMIT_' + n)))"
    argv = [sys.executable, "-I", "-S", "-c", asked]
    told = (
        (await run_program.run(argv, permissions=Permissions(), limits=limits))
        .stdout.decode()
        .splitlines()
    )
    assert told[:4] == [f"{bound} {bound}" for bound in (1 << 30, 1 << 20, 64, 0)]
    if kernel_calls.can_change_user():
        assert told[4] == "100 100"


@pytest.mark.parametrize("level", LEVELS)
async def test_processes_that_a_program_started_end_with_it(
    sandbox: Sandbox, level: Setting, tmp_path: Path
) -> None:
    sandbox.use(level)
    permissions = Permissions(writes=(tmp_path,))
    behind = "(while :; do echo x >> alive; sleep 0.05; done) >/dev/null 2>&1 &"
    begun = "until [ -s alive ]; do sleep 0.05; done"
    await run_program.run(
        ["/bin/sh", "-c", f"{behind} {begun}"], permissions=permissions, cwd=tmp_path
    )
    size = (tmp_path / "alive").stat().st_size
    await anyio.sleep(0.3)
    assert 0 < size == (tmp_path / "alive").stat().st_size


@pytest.mark.parametrize("level", LEVELS)
async def test_running_out_of_time_ends_it_at_once(sandbox: Sandbox, level: Setting) -> None:
    sandbox.use(level)
    begun = time.monotonic()
    with pytest.raises(SandboxError, match=r"ran longer than 0.5 s"):
        await run_program.run(
            ["/bin/sleep", "60"], permissions=Permissions(), limits=ResourceLimits(seconds=0.5)
        )
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("level", LEVELS)
async def test_a_box_says_what_may_be_read_and_written(
    sandbox: Sandbox, level: Setting, tmp_path: Path
) -> None:
    sandbox.use(level)
    mine, other = tmp_path / "mine", tmp_path / "other"
    for folder in (mine, other):
        folder.mkdir(mode=0o700)
        (folder / "file").write_text(folder.name)
    told = "cat file; echo new > made; cat ../other/file"
    done = await run_program.run(
        ["/bin/sh", "-c", told], permissions=Permissions((mine,)), cwd=mine
    )
    assert (done.stdout, (mine / "made").exists()) == (b"mine", False)
    done = await run_program.run(
        ["/bin/sh", "-c", told], permissions=Permissions((), (mine,)), cwd=mine
    )
    assert (done.stdout, (mine / "made").read_text()) == (b"mine", "new\n")


def test_another_process_of_ours_has_a_sandbox_of_its_own(sandbox: Sandbox) -> None:
    sandbox.use("landlock")
    anyio.run(word)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if anyio.run(word) == "served" else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert anyio.run(word) == "served"


@needs_bwrap
async def test_a_directory_that_was_removed_and_made_again_is_seen_by_the_next_program(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    for number in (1, 2):
        folder.mkdir()
        (folder / "file").write_text(f"{number}\n")
        permissions = Permissions(reads=(folder,))
        done = await run_program.run(["/bin/cat", "file"], permissions=permissions, cwd=folder)
        assert done.stdout == b"%d\n" % number
        (folder / "file").unlink()
        folder.rmdir()
