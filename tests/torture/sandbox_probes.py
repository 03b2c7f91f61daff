"""What hostile code would try from inside of the sandbox, at each level there is."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from orchestrator.errors import SandboxError
from orchestrator.sandbox import bubblewrap, kernel_calls, run_program
from orchestrator.sandbox.level_and_launchers import Sandbox
from orchestrator.sandbox.program_permissions import Permissions, ResourceLimits
from tests.torture.processes import Figures

FULL = 3
SAMPLE = 1
"""Rounds at each level."""

LIMITS = ResourceLimits(seconds=60, memory=1 << 30, file_size=1 << 20, processes=60)
UNCOUNTED = ResourceLimits(seconds=60, processes=100_000)
TOGETHER = ResourceLimits(memory=64 << 20, processes=120)
"""What control groups leave to all programs of a sandbox that is probed."""

HOSTILE = r"""
import ctypes, json, os, socket, sys
about, held = json.loads(sys.argv[1]), {}
libc = ctypes.CDLL(None, use_errno=True)
outside, work = about["outside"], about["work"]

def probe(name, attempt):
    try:
        held[name] = attempt() is False
    except Exception:
        held[name] = True

def call(name, *arguments):
    number = about["calls"][name]
    if number is None:
        return False
    return libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)) >= 0

def write(path):
    with open(path, "w") as file:
        file.write("x")

def send(family, kind, address):
    with socket.socket(family, kind) as s:
        s.settimeout(1)
        s.connect(address)
        s.send(b"leak")

probe("tcp", lambda: send(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", about["tcp"])))
probe("udp", lambda: send(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", about["udp"])))
probe("tcp6", lambda: send(socket.AF_INET6, socket.SOCK_STREAM, ("::1", about["tcp6"])))
probe("unix", lambda: send(socket.AF_UNIX, socket.SOCK_STREAM, about["unix"]))
probe("unix abstract", lambda: send(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + about["abstract"]))
probe("unix by a pair", lambda: socket.socketpair(
    socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"leak", about["datagram"]))
probe("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
probe("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
def opens(family, kind):
    try:
        socket.socket(family, kind).close()
    except OSError as error:
        return error.errno != 1  # another refusal is that of a kernel without the family
    return True
probe("any family", lambda: any(opens(f, k) for f in range(64) for k in (1, 2, 3, 5)))
probe("link in", lambda: os.link(outside + "/secret", work + "/linked"))
probe("write in /tmp", lambda: write("/tmp/diffcourt-probe"))
probe("write in /dev/shm", lambda: write("/dev/shm/diffcourt-probe"))
probe("write in home", lambda: write(about["home"] + "/diffcourt-probe"))
probe("read out", lambda: open(outside + "/secret").read())
def by_link():
    os.symlink(outside + "/secret", work + "/link")
    open(work + "/link").read()
probe("read by a link", by_link)
probe("read /etc/shadow", lambda: open("/etc/shadow").read())
probe("list home", lambda: os.listdir(about["home"]))
probe("list /", lambda: os.listdir("/"))
probe("own environment", lambda: "DIFFCOURT_PROBE" in os.environ)
probe("our environment", lambda: open(f"/proc/{about['us']}/environ", "rb").read())
probe("parent's environment", lambda: open(f"/proc/{os.getppid()}/environ", "rb").read())
probe("own /proc", lambda: open("/proc/self/maps").read())
probe("list /proc", lambda: os.listdir("/proc"))
probe("root by /proc", lambda: os.listdir(f"/proc/{about['us']}/root"))
def _open(n):
    try:
        os.fstat(n)
    except OSError:
        return False
    return True
probe("descriptors", lambda: any(_open(n) for n in range(3, 1000)))
probe("ptrace", lambda: libc.ptrace(16, about["victim"], 0, 0) == 0)
probe("memory of another", lambda: call("process_vm_readv", about["victim"], 0, 0, 0, 0, 0))
probe("signal", lambda: os.kill(about["victim"], 0))
probe("signal us", lambda: os.kill(about["us"], 0))
def in_child(attempt):
    child = os.fork()
    if child == 0:
        try:
            attempt()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0
probe("new session", lambda: in_child(os.setsid))
probe("new group", lambda: in_child(lambda: os.setpgid(0, 0)))
probe("mount", lambda: libc.mount(b"none", work.encode(), b"tmpfs", 0, None) == 0)
probe("device", lambda: os.mknod(work + "/device", 0o20666, os.makedev(1, 3)))
probe("keys", lambda: call("keyctl", 0, -3, 0))
probe("bpf", lambda: call("bpf", 0, 0, 0))
probe("page faults", lambda: call("userfaultfd", 1))
probe("performance events", lambda: call("perf_event_open", 0, 0, -1, -1, 0))
probe("shared memory", lambda: call("shmget", 0x5eed, 4096, 0o1666))
probe("message queue", lambda: call("msgget", 0x5eed, 0o1666))
probe("files by handle", lambda: call("open_by_handle_at", -100, 0, 0))
probe("privileges", lambda: libc.prctl(38, 0, 0, 0, 0) == 0 or libc.prctl(39, 0, 0, 0, 0) != 1)
def work_buffer():
    global buffer
    buffer = ctypes.create_string_buffer(200)
    return ctypes.addressof(buffer)
probe("io_uring", lambda: call("io_uring_setup", 1, work_buffer()))
probe("write in .git", lambda: write(about["repo"] + "/.git/config"))
probe("hook", lambda: write(about["repo"] + "/.git/hooks/post-checkout"))
probe("write in the repository", lambda: write(about["repo"] + "/file"))
probe("write out", lambda: write(outside + "/new"))
probe("write over", lambda: write(outside + "/secret"))
probe("truncate", lambda: os.truncate(outside + "/secret", 0))
probe("make folder", lambda: os.mkdir(outside + "/folder"))
probe("permissions", lambda: os.chmod(outside + "/secret", 0o666))
probe("times", lambda: os.utime(outside + "/secret", (1, 1)))
probe("move in", lambda: os.rename(outside + "/secret", work + "/moved"))
probe("remove", lambda: os.unlink(outside + "/secret"))
probe("become root", lambda: os.setuid(0))
probe("chroot", lambda: os.chroot(work))
probe("user namespace", lambda: libc.unshare(0x10000000) == 0)
def enter(folder, name, value):
    with open(folder + "/" + name, "w") as file:
        file.write(value)
for number, folder in enumerate(about["groups"]):
    probe(f"leave group {number}", lambda: enter(os.path.dirname(folder), "cgroup.procs", "0"))
    probe(f"more processes {number}", lambda: enter(folder, "pids.max", "max"))
    probe(f"more memory {number}", lambda: enter(folder, "memory.limit_in_bytes", "-1"))
    probe(f"group of its own {number}", lambda: os.mkdir(folder + "/own"))
print(json.dumps(held))
"""

DAEMON = """
import os, sys, time
if os.fork() == 0:
    for leave in (os.setsid, lambda: os.setpgid(0, 0)):
        try:
            leave()
        except OSError:
            pass
    if os.fork() == 0:
        for number in range(3):
            os.close(number)
        while True:
            open(sys.argv[1], "a").write("x")
            time.sleep(0.02)
    os._exit(0)
time.sleep(0.5)
"""

BOMB = """
import os, time
made = 0
try:
    while made < 500:
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        made += 1
except OSError:
    pass
print(made, flush=True)
"""

HOGS = """
import os, time
for _ in range(20):
    if os.fork() == 0:
        held = bytearray(6 << 20)
        time.sleep(5)
        os._exit(0)
print(sum(os.wait()[1] == 9 for _ in range(4)), flush=True)
"""


@contextmanager
def surroundings(root: Path) -> Iterator[dict[str, object]]:
    """Something to reach for: listeners, a secret, a process, a repository."""
    root.chmod(0o755)
    names = ("outside", "work", "repo")
    folders = {name: root / name for name in names}
    for folder in folders.values():
        folder.mkdir(mode=0o755)
    (folders["outside"] / "secret").write_text("secret")
    (folders["outside"] / "secret").chmod(0o644)
    subprocess.run(["git", "init", "-q", str(folders["repo"])], check=True)
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_INET6) as tcp6,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram,
        subprocess.Popen(["sleep", "120"]) as victim,
    ):
        udp.bind(("127.0.0.1", 0))
        tcp6.bind(("::1", 0))
        tcp6.listen()
        unix.bind(str(root / "unix"))
        datagram.bind(str(root / "datagram"))
        abstract.bind(f"\0diffcourt-{os.getpid()}")
        for listener in (unix, abstract):
            listener.listen()
        try:
            yield {
                **{name: str(folder) for name, folder in folders.items()},
                "tcp": tcp.getsockname()[1],
                "tcp6": tcp6.getsockname()[1],
                "udp": udp.getsockname()[1],
                "unix": str(root / "unix"),
                "datagram": str(root / "datagram"),
                "abstract": f"diffcourt-{os.getpid()}",
                "home": str(Path.home()),
                "us": os.getpid(),
                "victim": victim.pid,
                "calls": numbers(),
                "groups": groups(),
            }
        finally:
            victim.kill()


def used_sandbox() -> Sandbox:
    """The sandbox of ``run_program``, which the tests and ``run`` replace."""
    sandbox: Sandbox = vars(run_program)["SANDBOX"]
    return sandbox


def groups() -> list[str]:
    """The folders of the control group that programs are in."""
    sandbox = used_sandbox()
    _ = sandbox.level
    return [part._path for part in sandbox._launchers[0].cgroup._parts]


def numbers() -> dict[str, int | None]:
    from orchestrator.sandbox import seccomp_filter

    column = seccomp_filter._ARCHES[os.uname().machine][0]
    return {name: pair[column] for name, pair in seccomp_filter._NUMBERS.items()}


async def python(
    script: str,
    *arguments: str,
    permissions: Permissions,
    cwd: Path,
    limits: ResourceLimits = LIMITS,
) -> bytes:
    argv = [sys.executable, "-I", "-S", "-c", script, *arguments]
    return (await run_program.run(argv, permissions=permissions, cwd=cwd, limits=limits)).stdout


async def probes() -> dict[str, bool]:
    """What was tried → whether it was stopped."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DIFFCOURT_PROBE", "SECRET")
        root = Path(folder)
        with surroundings(root) as about:
            work = root / "work"
            permissions = Permissions(reads=(root / "repo",), writes=(work,))
            told = await python(HOSTILE, json.dumps(about), permissions=permissions, cwd=work)
            held: dict[str, bool] = json.loads(told)
            held |= await outcomes(permissions, work)
    return held


async def outcomes(permissions: Permissions, work: Path) -> dict[str, bool]:
    """Probes that are judged from outside, by what they left."""
    filled = "while True: open('big', 'ab').write(b'x' * 100000)"
    await python(filled, permissions=permissions, cwd=work)
    greedy = "x = bytearray(2 << 30); print('leak')"
    await python(DAEMON, str(work / "alive"), permissions=permissions, cwd=work)
    size = (work / "alive").stat().st_size if (work / "alive").exists() else 0
    await anyio.sleep(0.2)
    after = (work / "alive").stat().st_size if (work / "alive").exists() else 0
    held = {
        "disk, one file": (work / "big").stat().st_size <= LIMITS.file_size,
        "memory": await python(greedy, permissions=permissions, cwd=work) == b"",
        "daemon": size == after,
    }
    sandbox = used_sandbox()
    if "memory" in sandbox.controllers:
        try:
            await python(HOGS, permissions=permissions, cwd=work)
        except SandboxError as fault:
            held["memory of many processes"] = "ended: over 64 MB" in str(fault)
        else:
            held["memory of many processes"] = False
    if kernel_calls.can_change_user() or sandbox.level == "bubblewrap":
        made = int(await python(BOMB, permissions=permissions, cwd=work) or 0)
        held["fork bomb"] = made < LIMITS.processes
    if "pids" in sandbox.controllers:
        made = int(await python(BOMB, permissions=permissions, cwd=work, limits=UNCOUNTED) or 0)
        held["fork bomb without a limit of its own"] = made < TOGETHER.processes
    return held


async def leaks() -> list[str]:
    """The names of the probes that got through at the level in use."""
    return sorted(name for name, stopped in (await probes()).items() if not stopped)


def run(count: int, say: Callable[[str], None] = print) -> Figures:
    """Probe each level ``count`` times; returns probes that were stopped, and that were not."""
    passed = failed = 0
    untried: list[str] = []
    for level in ("bubblewrap", "landlock"):
        if level == "bubblewrap" and bubblewrap.find_bwrap() is None:
            untried.append("bubblewrap is not installed, so its level is not probed")
            continue
        sandbox, patch = Sandbox(TOGETHER), pytest.MonkeyPatch()
        patch.setattr(run_program, "SANDBOX", sandbox)
        try:
            sandbox.use(level)
            if sandbox.missing_limits_reason:
                untried.append(f"limits of {level}: {sandbox.missing_limits_reason}")
            for _ in range(count):
                begun = time.monotonic()
                held = anyio.run(probes)
                got = sorted(name for name, stopped in held.items() if not stopped)
                passed, failed = passed + len(held) - len(got), failed + len(got)
                took = time.monotonic() - begun
                print(f"  {level}: {len(held)} probes, {took:.1f} s")
                for name in got:
                    say(f"{level}: got through: {name}")
        except SandboxError as fault:
            say(f"{level}: {fault}")
            failed += 1
        finally:
            sandbox.close()
            patch.undo()
    return Figures(passed, failed, tuple(untried))
