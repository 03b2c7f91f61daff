"""Hostile tests of a change, a few attacks at a time, in namespaces: their effects outside."""

import hashlib
import json
import os
import random
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.code_review.analyzers.run_tests import save_report
from orchestrator.errors import SandboxError
from orchestrator.sandbox import bubblewrap, isolated_run, scratch_directory
from orchestrator.sandbox.level_and_launchers import Sandbox
from orchestrator.sandbox.program_permissions import ResourceLimits
from tests.torture.processes import Figures
from tests.torture.sandbox_probes import TOGETHER

FULL = 300
SAMPLE = 5
"""Runs, each with two to five attacks."""

LIMITS = ResourceLimits(seconds=20, memory=1 << 30, file_size=1 << 20, processes=80)
REPORT = "out.xml"
TRUTH = "<testsuite/>"

HOSTILE = r"""
import ctypes, json, os, signal, socket, sys, time
about = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
report, outside = about["report"], about["outside"]

def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
inherited = [number for number in range(3, 1000) if is_open(number)]

def daemon(work, *leave):
    if os.fork():
        return
    for step in leave:
        step()
    if os.fork():
        os._exit(0)
    for name in ("SIGTERM", "SIGHUP", "SIGINT"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    while True:
        time.sleep(0.02)
        try:
            work()
        except OSError:
            pass

def forge():
    with open(report + ".new", "w") as file:
        file.write("forged")
    os.rename(report + ".new", report)

def send(family, kind, address):
    with socket.socket(family, kind) as s:
        s.settimeout(1)
        s.connect(address)
        s.send(b"leak")

def write(path):
    with open(path, "w") as file:
        file.write("leak")

def bomb():
    for _ in range(300):
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)

def called(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "refused")

def enter_group():
    for base, _, names in os.walk("/sys/fs/cgroup"):
        if "cgroup.procs" in names:
            write(base + "/cgroup.procs")
            return
    raise OSError("none")

harmless = {
    "linger": lambda: daemon(forge),
    "linger in a session": lambda: daemon(forge, os.setsid),
    "linger in a group": lambda: daemon(forge, lambda: os.setpgid(0, 0)),
    "linger and reach out": lambda: daemon(lambda: write(outside + "/late"), os.setsid),
    "fork": bomb,
    "fill /tmp": lambda: open("/tmp/big", "wb").write(bytes(70 << 20)),
    "fill shared memory": lambda: open("/dev/shm/big", "wb").write(bytes(20 << 20)),
    "kill all": lambda: [os.kill(n, 15) for n in range(2, 200) if n != os.getpid()],
    "kill the first": lambda: os.kill(1, 9),
    "links": lambda: os.symlink(outside + "/secret", "linked"),
    "close": lambda: os.closerange(0, 100),
    "many files": lambda: [write(f"file{n}") for n in range(300)],
}
refused = {
    "read": lambda: open(outside + "/secret").read(),
    "read by a link": lambda: (os.symlink(outside + "/secret", "to"), open("to").read()),
    "write": lambda: write(outside + "/new"),
    "write over": lambda: write(outside + "/secret"),
    "link in": lambda: os.link(outside + "/secret", "hard"),
    "write beside": lambda: write("../beside"),
    "write in the system": lambda: write("/usr/diffcourt-probe"),
    "tcp": lambda: send(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", about["tcp"])),
    "unix": lambda: send(socket.AF_UNIX, socket.SOCK_STREAM, about["unix"]),
    "abstract": lambda: send(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + about["abstract"]),
    "elsewhere": lambda: send(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 9)),
    "descriptors": lambda: inherited or os.fstat(-1),
    "signal us": lambda: os.kill(about["us"], 0),
    "our environment": lambda: open(f"/proc/{about['us']}/environ", "rb").read(),
    "mount": lambda: called(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)),
    "namespaces": lambda: called(libc.unshare(0x10000000)),
    "root": lambda: called(libc.setuid(0)),
    "chroot": lambda: os.chroot("."),
    "device": lambda: os.mknod("device", 0o20666, os.makedev(1, 3)),
    "leave the control group": enter_group,
}
with open(report, "w") as file:
    file.write(about["truth"])
got = []
with open("said", "w") as said:
    for name in about["attacks"]:
        try:
            (refused.get(name) or harmless[name])()
        except (OSError, ProcessLookupError):
            continue
        if name in refused:
            said.write(name + "\n")
            said.flush()
os._exit(about["code"])
"""
_NAMES = HOSTILE.partition("harmless = {")[2].partition("\nwith open")[0]
ATTACKS = [line.split('"')[1] for line in _NAMES.splitlines() if line.startswith('    "')]


def _replace_by_link(report: Path, secret: Path) -> None:
    report.unlink()
    report.symlink_to(secret)


def _replace_by_pipe(report: Path, _: Path) -> None:
    report.unlink()
    os.mkfifo(report)


def _replace_by_directory(report: Path, _: Path) -> None:
    report.unlink()
    report.mkdir()


LAST_WORDS: dict[str, Callable[[Path, Path], None]] = {
    "as it was": lambda report, _: None,
    "a link": _replace_by_link,
    "a pipe": _replace_by_pipe,
    "a folder": _replace_by_directory,
    "gone": lambda report, _: report.unlink(),
}
"""What may stand in the report's place when it is read."""


@contextmanager
def surroundings(root: Path) -> Iterator[tuple[dict[str, Any], list[socket.socket]]]:
    """Something to reach for, and who listens."""
    outside = root / "outside"
    outside.mkdir(mode=0o777)
    outside.chmod(0o777)
    (outside / "secret").write_text("secret")
    (outside / "secret").chmod(0o666)
    abstract = f"diffcourt-{os.getpid()}-{root.name}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_UNIX) as hidden,
    ):
        unix.bind(str(root / "unix"))
        hidden.bind(f"\0{abstract}")
        for listener in (tcp, unix, hidden):
            listener.listen()
            listener.setblocking(False)
        yield (
            {
                "tcp": tcp.getsockname()[1],
                "unix": str(root / "unix"),
                "abstract": abstract,
                "outside": str(outside),
                "us": os.getpid(),
                "report": REPORT,
                "truth": TRUTH,
            },
            [tcp, unix, hidden],
        )


def state_of(root: Path) -> str:
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(bytes(p) + p.read_bytes() for p in files)).hexdigest()


def left(token: str) -> bool:
    """Whether a process of that run still lives."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if token.encode() in process.read_bytes() and process.parent.name != str(os.getpid()):
                return True
        except OSError:
            continue
    return False


def called_on(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


async def one(seed: int, root: Path) -> list[str]:
    """What got through in one run."""
    choose = random.Random(seed)
    attacks = choose.sample(ATTACKS, choose.randint(2, 5))
    code, token = choose.randrange(2), f"run-{seed}-{root.name}"
    tree = root / "tree"
    tree.mkdir()
    with surroundings(root) as (about, listeners):
        told = json.dumps({**about, "attacks": attacks, "code": code, "token": token})
        before = state_of(root / "outside")
        ended: object
        try:
            done = await isolated_run.run_isolated(
                [sys.executable, "-I", "-S", "-c", HOSTILE, told], tree, limits=LIMITS
            )
            ended = done.code
        except SandboxError as why:
            ended = str(why)
        faults = [f"{attacks}: lives on"] * left(token)
        first = (tree / REPORT).read_bytes() if (tree / REPORT).exists() else b""
        await anyio.sleep(0.06)
        if (tree / REPORT).exists() and (tree / REPORT).read_bytes() != first:
            faults.append(f"{attacks}: the report changed after the end")
        if state_of(root / "outside") != before or (root / "beside").exists():
            faults.append(f"{attacks}: files outside changed")
        faults += [f"{attacks}: reached {at}" for at in listeners if called_on(at)]
        said = (tree / "said").read_text().split("\n")[:-1] if (tree / "said").exists() else []
        faults += [f"{name}: was not refused" for name in said]
        if ended != code and not {"kill all", "close", "fork"} & {*attacks}:
            faults.append(f"{attacks}: ended with {ended}, not {code}")
    return faults + replaced(choose.choice(list(LAST_WORDS)), tree, root)


def replaced(how: str, tree: Path, root: Path) -> list[str]:
    """A report is read only where it is one, whatever stands in its place."""
    if not (tree / REPORT).is_file():
        return []
    LAST_WORDS[how](tree / REPORT, root / "outside/secret")
    keep = root / "kept"
    fault = save_report(tree, REPORT, keep)
    if how == "as it was":
        return [] if not fault and keep.exists() else [f"a report was not read: {fault}"]
    return [f"{how} was read as a report"] if keep.exists() or not fault else []


async def rounds(count: int, say: Callable[[str], None]) -> int:
    failed = 0
    for seed in range(count):
        with tempfile.TemporaryDirectory(dir=scratch_directory.work_directory()) as folder:
            os.chmod(folder, 0o755)
            root = Path(folder)
            if faults := await one(seed, root):
                failed += 1
                say(f"{seed}: {'; '.join(faults)}")
    return failed


def run(count: int, say: Callable[[str], None] = print) -> Figures:
    """Run so many hostile suites; returns those that got nowhere, and those that did."""
    if bubblewrap.find_bwrap() is None:
        return Figures(0, 0, ("bubblewrap is not installed",))
    sandbox, patch = Sandbox(TOGETHER), pytest.MonkeyPatch()
    patch.setattr(isolated_run, "SANDBOX", sandbox)
    begun = time.monotonic()
    try:
        sandbox.use("bubblewrap")
        failed = anyio.run(rounds, count, say)
    finally:
        sandbox.close()
        patch.undo()
    print(f"{count} suites of hostile tests, {time.monotonic() - begun:.0f} s")
    return Figures(count - failed, failed)
