"""The change's tests in a sandbox: what is reported of them, and what hostile tests can do."""

import hashlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from diffchecks.test_quality.failed_tests import read_failed_tests
from diffchecks.test_quality.test_run_influences import find_test_setup_files
from diffchecks.xml_reports import ReportError
from orchestrator.app.run_review import run_review
from orchestrator.code_review.analyzers.run_tests import NOT_ALLOWED, NOT_RUN
from orchestrator.code_review.findings.gap_remedies import TOOL_SETTINGS
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.observer_events import ignore_event
from orchestrator.errors import InputError, SandboxError
from orchestrator.report.verdict_text import render_verdict
from orchestrator.sandbox import bubblewrap, isolated_run, private_paths, scratch_directory
from orchestrator.sandbox.isolated_run import NO_SANDBOX, TimeUp, run_isolated
from orchestrator.sandbox.private_paths import require_shareable
from orchestrator.sandbox.program_permissions import ResourceLimits
from tests.review.review_kit import change, in_ci, options

RULES = {"qa.tests-fail", "qa.flaky-test"}
REPORT = """\
import sys
from pathlib import Path

def tell(*failing):
    cases = "".join(f'<testcase classname="tests.test_pay" name="{n}"><failure/></testcase>' for n in failing)
    Path("out.xml").write_text(f'<testsuite><testcase classname="a" name="b"/>{cases}</testsuite>')
    sys.exit(bool(failing))
"""
PAY = "def test_pay():\n    assert pay(1) == 1\n\n\ndef test_refund():\n    pass\n"


def settings(**more: object) -> dict[str, str]:
    said = {"command": [sys.executable, "check.py"], "seconds": 20, **more}
    return {".diffcourt/config/defaults.yaml": "tests: " + json.dumps(said) + "\n"}


def reviewed(path: Path, base: str, head: str, **more: object) -> Verdict:
    files = {"report.py": REPORT, "tests/test_pay.py": PAY, **settings(report="out.xml", **more)}
    repo = change(path, {**files, "check.py": base}, {"check.py": head, "pay.py": "A = 1\n"})
    return run_review(options(repo.path, run_tests=True), ignore_event)


def told(verdict: Verdict) -> list[tuple[str, str, int]]:
    return [(f.rule, f.path, f.start_line) for f in verdict.findings if f.rule in RULES]


def gaps(verdict: Verdict) -> set[tuple[str, str]]:
    return {(s.path, s.why) for s in verdict.skipped if s.tool == "run_tests"}


PASS = "from report import tell\ntell()\n"
FAIL = "from report import tell\ntell('test_pay[1]')\n"


def test_tests_that_pass_fail_or_failed_before(namespaces: None, tmp_path: Path) -> None:
    passed = reviewed(tmp_path / "pass", PASS, PASS + "# said\n")
    assert told(passed) == []
    assert gaps(passed) == set()
    assert {"check.py", "pay.py"} <= {c.path for c in passed.checked if "run_tests" in c.by}
    fails = reviewed(tmp_path / "fail", PASS, FAIL)
    assert told(fails) == [("qa.tests-fail", "tests/test_pay.py", 1)]
    assert gaps(fails) == set()
    one_more = reviewed(tmp_path / "more", FAIL, FAIL.replace(")", ", 'test_refund')"))
    assert told(one_more) == [("qa.tests-fail", "tests/test_pay.py", 5)]
    assert {path for path, _ in gaps(one_more)} == {"check.py", "pay.py"}
    assert all("also fail without this change" in why for _, why in gaps(one_more))


def test_a_test_that_passes_when_run_again_is_flaky(
    namespaces: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing stays in the namespaces, so what differs comes from outside: each run takes one byte.
    monkeypatch.setattr(private_paths, "SYSTEM_PRIVATE", ())
    monkeypatch.setattr(private_paths, "_first_special_file", lambda *given: None)
    place = tmp_path / "turns"
    os.mkfifo(place)
    held = os.open(place, os.O_RDWR)
    os.write(held, b"10")
    flaky = (
        "import os\nfrom report import tell\n"
        f"byte = os.read(os.open({str(place)!r}, os.O_RDONLY), 1)\n"
        "tell(*['test_refund'] * int(byte))\n"
    )
    verdict = reviewed(tmp_path / "repo", PASS, flaky, reads=[str(place)])
    os.close(held)
    assert told(verdict) == [("qa.flaky-test", "tests/test_pay.py", 5)]
    assert gaps(verdict) == set()


def test_the_exit_status_decides_and_not_the_report(namespaces: None, tmp_path: Path) -> None:
    lies = "import os\n" + PASS.replace("tell()", "try:\n    tell()\nfinally:\n    os._exit(3)")
    verdict = reviewed(tmp_path / "lies", PASS, lies)
    assert told(verdict) == [("qa.tests-fail", "check.py", 1)]
    assert ("out.xml", "names no failed test, but the exit status is 3, which decides") in gaps(
        verdict
    )


BROKEN = "def f():\n    return 2\n"
RUN = "import unittest\nunittest.main(module=None, argv=['x', 'discover', '-s', 'tests'])\n"
TEST = "import unittest\nfrom a import f\n\n\nclass T(unittest.TestCase):\n    def test_f(self):\n        self.assertEqual(f(), 1)\n"
FORGERIES = {
    "tests/test_a.py": "import os\nos._exit(0)\n",
    "tests/test_0.py": "import atexit, os\natexit.register(os._exit, 0)\n",
    "unittest.py": "def main(**_):\n    pass\n",
    "run.py": "",
}
REQUIRED = "required_checks:\n  - {name: tests-run, tools: [run_tests], when: ['**']}\n"


def checked_with_tests(path: Path, head: Mapping[str, str | bytes | None]) -> Verdict:
    said = settings(command=[sys.executable, "run.py"])
    policy = {".diffcourt/config/verdict.yaml": REQUIRED}
    base = {"run.py": RUN, "a.py": "def f():\n    return 1\n", "tests/test_a.py": TEST}
    repo = change(path, {**said, **policy, **base}, head)
    return run_review(options(repo.path, run_tests=True), ignore_event)


def test_a_pass_that_the_changes_own_tests_forge_is_named_as_theirs(
    namespaces: None, tmp_path: Path
) -> None:
    for number, (path, forged) in enumerate(FORGERIES.items()):
        verdict = checked_with_tests(tmp_path / f"{number}", {"a.py": BROKEN, path: forged})
        (check,) = verdict.required_checks
        assert check.status == "passed_by_own_tests", path
        assert check.detail == f"the change alters {path}; base's tests fail with head's code"
        (found,) = (f for f in verdict.findings if f.rule == "qa.base-tests-fail")
        assert (found.path, found.start_line, found.severity) == ("a.py", 2, "low")
    page = render_verdict(verdict, width=200)
    assert "tests-run  passed, by the change's own tests: the change alters run.py" in page
    gone = {"a.py": BROKEN, "tests/test_a.py": None, "tests/test_b.py": ""}
    deleted = checked_with_tests(tmp_path / "deleted", gone)
    assert deleted.required_checks[0].status == "passed_by_own_tests"


def test_what_the_tests_print_is_kept_with_their_exit_status(
    namespaces: None, tmp_path: Path
) -> None:
    token = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"[::-1]
    loud = f"import sys\nprint('told')\nprint('x' * 100_000)\nsys.exit('token {token}')\n"
    verdict = checked_with_tests(tmp_path / "repo", {"run.py": loud})
    (kept,) = (artifact for artifact in verdict.artifacts if artifact.name == "run_tests")
    assert [code for _, code in kept.exit_statuses] == [1, 1, 0]
    (place,) = (tmp_path / "repo/.diffcourt/state/runs").glob(f"*/{kept.path}")
    data = place.read_bytes()
    assert (hashlib.sha256(data).hexdigest(), len(data)) == (kept.sha256, kept.bytes)
    assert data.startswith(f"== {sys.executable}: exit status 1\n-- stdout".encode())
    assert b"told" in data
    assert b"bytes left out]" in data
    assert b"token [redacted]" in data


def test_changed_tests_are_confirmed_by_those_of_base(namespaces: None, tmp_path: Path) -> None:
    more = TEST.replace("test_f", "test_more")
    right = {"a.py": "def f():\n    return 1 + 0\n", "tests/test_b.py": more}
    confirmed = checked_with_tests(tmp_path / "right", right)
    assert confirmed.required_checks[0].status == "ran"
    untouched = checked_with_tests(tmp_path / "untouched", {"a.py": right["a.py"]})
    assert untouched.required_checks[0].status == "ran"
    assert not any(f.rule == "qa.base-tests-fail" for f in confirmed.findings)


LEAVES = "import os\nos._exit(0)\n"
BY_OWN_TESTS = [
    ({"conftest.py": ""}, "the change alters conftest.py; base's tests pass with head's code"),
    ({"pytest.ini": "[pytest]\n"}, "the change alters pytest.ini; base's tests pass with"),
    (
        {"x.egg-info/entry_points.txt": "[pytest11]\nx = x\n"},
        "the change alters x.egg-info/entry_points.txt; base's tests pass with",
    ),
    ({"a.py": LEAVES}, "a.py now uses os._exit, which can make tests pass"),
    (
        {"a.py": "import unittest\nunittest.TestCase.assertEqual = lambda *_: None\n" + BROKEN},
        "a.py now uses unittest, which can make tests pass",
    ),
    ({"tests/test_b.py": LEAVES}, "tests/test_b.py now uses os._exit, which can make tests pass"),
]


@pytest.mark.parametrize(("head", "why"), BY_OWN_TESTS)
def test_a_pass_counts_as_the_changes_own_where_it_reaches_the_runner(
    namespaces: None, tmp_path: Path, head: dict[str, str], why: str
) -> None:
    (check,) = checked_with_tests(tmp_path, head).required_checks
    assert check.detail.startswith(why)
    assert check.status == "passed_by_own_tests"


@pytest.mark.parametrize(
    ("path", "decides"),
    [
        ("tests/test_a.py", True),
        ("conftest.py", True),
        ("src/sitecustomize.py", True),
        ("pyproject.toml", True),
        ("hooks.pth", True),
        ("package.json", True),
        ("tools/check.sh", True),
        ("run/suite.py", True),
        ("json/__init__.py", True),
        ("pytest.py", True),
        ("src/unittest/__init__.py", True),
        ("evil.dist-info/entry_points.txt", True),
        ("email/send.py", False),  # a package of base that happens to have such a name
        ("src/app.py", False),
        ("docs/guide.md", False),
    ],
)
def test_files_that_influence_the_result_of_tests(path: str, decides: bool) -> None:
    found = find_test_setup_files(
        [path], ["sh", "./tools/check.sh", "-m", "run.suite"], ["email/a.py"]
    )
    assert list(found) == ([path] if decides else [])


def test_without_a_sandbox_nothing_runs(tmp_path: Path) -> None:
    verdict = reviewed(tmp_path, PASS, FAIL)
    assert told(verdict) == []
    why = f"{NOT_RUN}{NO_SANDBOX}"
    assert gaps(verdict) == {("check.py", why), ("pay.py", why)}
    assert "\n" not in why
    for how in ("apt-get install bubblewrap", "apparmor_restrict_unprivileged_userns=0", "GitLab"):
        assert how in why


SERVER = "import socket\nsocket.socket(socket.AF_UNIX).connect({!r})\n" + PASS


def test_a_strangers_base_does_not_open_this_machine_to_its_tests(
    namespaces: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_paths, "SYSTEM_PRIVATE", (Path("/proc"),))
    home, services = Path(os.environ["HOME"]), tmp_path / "services"
    services.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{services}/s")
        server.listen()
        for number, (reads, private) in enumerate(
            [
                (["/proc"], "/proc is private"),
                ([str(home)], f"{home} is private"),
                ([str(services)], f"{services}/s is a socket"),
            ]
        ):
            repo = tmp_path / f"repo{number}"
            verdict = reviewed(repo, PASS, SERVER.format(f"{services}/s"), reads=reads)
            assert {path for path, _ in gaps(verdict)} == {"check.py", "pay.py"}
            assert all(private in why for _, why in gaps(verdict)), gaps(verdict)


UNIX = """
import os, socket, sys
one, other = socket.socketpair()
one.send(b"x")
socket.socket(socket.AF_INET).bind(("127.0.0.1", 0))
def refused(attempt):
    try:
        attempt()
    except PermissionError:
        return True
    return False
service, data = sys.argv[1:]
tries = [
    lambda: socket.socket(socket.AF_UNIX).connect(service),
    lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"leak", data),
]
os._exit(sum(refused(attempt) << 3 + number for number, attempt in enumerate(tries)))
"""


async def test_a_socket_that_appears_below_reads_cannot_be_reached(
    namespaces: None, tmp_path: Path
) -> None:
    services = tmp_path / "services"
    services.mkdir()
    with (
        socket.socket(socket.AF_UNIX) as service,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as data,
    ):
        service.bind(f"{services}/s")
        service.listen()
        data.bind(f"{services}/d")
        data.setblocking(False)
        for path in services.iterdir():
            path.chmod(0o777)
        services.chmod(0o755)
        argv = [sys.executable, "-c", UNIX, f"{services}/s", f"{services}/d"]
        assert (await run_isolated(argv, tree(), reads=[services])).code == 0b11 << 3
        with pytest.raises(BlockingIOError):
            data.recv(1)
        own = "import socket; socket.socket(socket.AF_UNIX).bind('/tmp/s')"
        assert (await run_isolated([sys.executable, "-c", own], tree())).code == 0


SOCKETS = r"""
import ctypes, errno, json, mmap, os, socket, sys
def error(open_one, *given):
    try:
        open_one(*given)
    except OSError as error:
        return error.errno
    return 0
def ends(code):
    memory = mmap.mmap(-1, 4096, prot=7)
    memory.write(code)
    child = os.fork()
    if child == 0:
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        os._exit(ctypes.CFUNCTYPE(ctypes.c_int)(address)() >= 0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])
libc = ctypes.CDLL(None, use_errno=True)
kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET)
found = {}
for family in range(64):
    errors = {error(socket.socket, family, kind) for kind in kinds}
    pairs = {error(socket.socketpair, family, kind) for kind in kinds[:2]}
    found[family] = [errors != {errno.EPERM}, pairs != {errno.EPERM}]
sockets, pairs = ([f for f, opened in found.items() if opened[n]] for n in (0, 1))
netlink = [p for p in range(32) if not error(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, p)]
ring = libc.syscall(425, 1, ctypes.create_string_buffer(200))
# int 0x80: socketcall and socket of 32-bit programs; and the number of the ABI x32
others = ["b8660000 00cd80c3", "b8670100 00cd80c3", "b8290000 400f05c3"]
ended = [ends(bytes.fromhex(code)) for code in others] if os.uname().machine == "x86_64" else [True]
print(json.dumps([sockets, pairs, netlink, ring, all(ended)]))
"""


@pytest.mark.attack("sockets that no network namespace confines, such as vsock")
@pytest.mark.parametrize("shares", [False, True])
async def test_code_of_the_change_opens_sockets_of_listed_families_only(
    namespaces: None, tmp_path: Path, shares: bool
) -> None:
    done = await run_isolated(
        [sys.executable, "-c", SOCKETS], tree(), reads=[tmp_path] if shares else []
    )
    unix = [] if shares else [socket.AF_UNIX]
    families = [*unix, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK]
    assert json.loads(done.stdout) == [families, [socket.AF_UNIX], [0], -1, True]


@pytest.mark.parametrize(
    "path",
    ["/", "/proc/1", "/sys", "/dev/shm", "/run/user", "/var", "/var/run/x", "/tmp/x", "/root"],
)
def test_paths_of_the_system_that_hold_secrets_are_private(path: str) -> None:
    with pytest.raises(SandboxError, match="is private"):
        require_shareable([Path(path)], [])


def test_what_only_programs_need_may_be_shared_and_a_link_to_a_secret_may_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_paths, "SYSTEM_PRIVATE", ())
    secret, link, pipe = tmp_path / "secret", tmp_path / "link", tmp_path / "deep" / "pipe"
    secret.mkdir()
    pipe.parent.mkdir()
    link.symlink_to(secret)
    require_shareable([Path("/usr/share"), pipe.parent], [secret, Path("/")])
    with pytest.raises(SandboxError, match=r"missing, which does not exist; install there"):
        require_shareable([tmp_path / "missing"], [secret])
    os.mkfifo(pipe)
    for path in (link, tmp_path / "deep" / ".." / "secret", secret / "below", tmp_path):
        with pytest.raises(SandboxError, match=rf"{secret} is private"):
            require_shareable([path], [secret])
    with pytest.raises(SandboxError, match=r"pipe is a socket, pipe or device"):
        require_shareable([pipe.parent], [])


def test_the_repositorys_command_runs_only_where_somebody_or_ci_allowed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"check.py": PASS, **settings()}
    repo = change(tmp_path, files, {"pay.py": "A = 1\n"})

    def why(**given: Any) -> set[str]:
        return {why for _, why in gaps(run_review(options(repo.path, **given), ignore_event))}

    action = run_review(options(repo.path), ignore_event).stop.next_human_action
    assert action == (
        f"Let run_tests do its work: {NOT_ALLOWED}. To do without it, add run_tests to `deny` "
        f"under `environments` in {TOOL_SETTINGS}."
    )
    assert why() == {NOT_ALLOWED}
    assert why(run_tests=True) == {f"{NOT_RUN}{NO_SANDBOX}"}
    in_ci(monkeypatch)
    assert why() == {f"{NOT_RUN}{NO_SANDBOX}"}
    monkeypatch.setenv("DIFFCOURT_RUN_TESTS", "0")
    assert why() == {NOT_ALLOWED}
    monkeypatch.delenv("GITHUB_ACTIONS")
    monkeypatch.setenv("DIFFCOURT_RUN_TESTS", "1")
    assert why() == {f"{NOT_RUN}{NO_SANDBOX}"}
    monkeypatch.setenv("DIFFCOURT_RUN_TESTS", "perhaps")
    monkeypatch.setenv("DIFFCOURT_RUN_TEST", "0")
    with pytest.raises(InputError, match="no variable DIFFCOURT_RUN_TEST; did you mean .*_TESTS?"):
        why()
    monkeypatch.delenv("DIFFCOURT_RUN_TEST")
    with pytest.raises(InputError, match="DIFFCOURT_RUN_TESTS must be 1 or 0, not 'perhaps'"):
        why()


HOSTILE = """
import os, signal, socket, sys, time
secret, port, out = sys.argv[1:]
got = []
def attempt(name, what):
    try:
        what()
        got.append(name)
    except OSError:
        pass
attempt("read", lambda: open(secret).read())
attempt("network", lambda: socket.create_connection(("127.0.0.1", int(port)), 1))
attempt("elsewhere", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(("192.0.2.1", 9)))
attempt("write", lambda: open(out, "w"))
attempt("system", lambda: open("/usr/written", "w"))
attempt("descriptor", lambda: os.fstat(3))
attempt("root", lambda: os.setuid(0) if os.getuid() else os.mount)
if os.environ.keys() - {"PATH", "HOME", "TMPDIR", "LC_ALL", "LC_CTYPE", "PYTHONUNBUFFERED", "PYTHONHASHSEED"}:
    got.append("environment")
attempt("disk", lambda: open("/tmp/big", "wb").write(bytes(80 << 20)))
open("said", "w").write(" ".join(got))
open("out.xml", "w").write("first")
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(0.2)
            open("out.xml", "w").write("forged")
    os._exit(0)
attempt("kill", lambda: os.kill(1, signal.SIGKILL))
print("1 passed")
"""


def tree() -> Path:
    place = scratch_directory.work_directory() / f"tree-{time.monotonic_ns()}"
    place.mkdir()
    return place


async def test_hostile_tests_reach_nothing_and_outlive_nothing(
    namespaces: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap, "TMP_BYTES", 64 << 20)
    secret, place = tmp_path / "secret", tree()
    secret.write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        argv = [sys.executable, "-c", HOSTILE, str(secret), port, str(tmp_path / "out")]
        assert (await run_isolated(argv, place)).code == 0
    assert (place / "out.xml").read_text() == "first"
    await anyio.sleep(0.5)
    assert (place / "out.xml").read_text() == "first"
    assert (place / "said").read_text() in {"", "kill"}  # a signal to it is ignored, or refused
    assert not (tmp_path / "out").exists()


async def test_a_run_ends_with_its_timeout_its_caller_and_its_sandbox(
    namespaces: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats = "import time\nwhile True:\n open('beats', 'a').write('x')\n time.sleep(.05)"
    argv, timed, left = [sys.executable, "-c", beats], tree(), tree()
    with pytest.raises(TimeUp, match=r"longer than 3 s"):
        await run_isolated(argv, timed, limits=ResourceLimits(seconds=3))
    # Of all processes together: the first one waits for two that work, and says so unasked.
    spins = f"{sys.executable} -c 'while True: pass'"
    busy = [
        sys.executable,
        "-c",
        f"import ctypes, os\nctypes.CDLL(None).prctl(15, b'\\xff')\nprint('begun')\nos.system({spins + ' & ' + spins!r})",
    ]
    limits = ResourceLimits(seconds=300, processor_seconds=1)
    with pytest.raises(TimeUp, match=r"longer than 1 s of processor time") as late:
        await run_isolated(busy, timed, limits=limits)
    assert late.value.output.stdout == b"begun\n"
    monkeypatch.setattr(isolated_run, "MAX_IDLE_SECONDS", 0.5)
    with pytest.raises(TimeUp, match=r"longer than 0.5 s in which nothing happened"):
        await run_isolated(["sleep", "300"], timed, limits=ResourceLimits(300, 60))
    async with anyio.create_task_group() as group:
        group.start_soon(run_isolated, argv, left)
        while not (left / "beats").is_file():
            await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    counted = [(place / "beats").stat().st_size for place in (timed, left)]
    await anyio.sleep(0.3)
    assert [(place / "beats").stat().st_size for place in (timed, left)] == counted
    with pytest.raises(SandboxError, match="no-such-program: No such file"):
        await run_isolated(["no-such-program"], timed)
    with pytest.raises(SandboxError, match="No such file"):
        await run_isolated(argv, timed, reads=[tmp_path / "nothing"])
    for body, why in (
        ('while [ "$1" != -- ]; do shift; done; shift; exec "$@"', "shares our"),
        ("exit 0", "bwrap ran nothing"),
    ):
        shim = tmp_path / "bwrap"
        shim.write_text(f"#!/bin/sh\n{body}\n")
        shim.chmod(0o755)
        monkeypatch.setattr(bubblewrap, "find_bwrap", lambda: str(tmp_path / "bwrap"))
        with pytest.raises(SandboxError, match=why):
            await run_isolated([sys.executable, "-c", "open('late', 'w')"], timed)
    assert not (timed / "late").exists()


def _no_process(pid: int) -> int:
    raise ProcessLookupError(3, "No such process")


@pytest.mark.parametrize("open_pidfd", [os.pidfd_open, _no_process], ids=["alive", "gone"])
async def test_a_sandbox_that_ends_at_once_says_why_also_where_its_process_is_gone(
    open_pidfd: Callable[[int], int],
    namespaces: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "pidfd_open", open_pidfd)
    with pytest.raises(SandboxError, match="No such file"):
        await run_isolated([sys.executable], tree(), reads=[tmp_path / "nothing"])


def test_a_report_is_parsed_without_a_dtd() -> None:
    with pytest.raises(ReportError, match="DTD"):
        read_failed_tests(b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>')
    with pytest.raises(ReportError, match="not well-formed"):
        read_failed_tests(b"<testsuite>")
    with pytest.raises(ReportError, match="names no test"):
        read_failed_tests(b"<testsuite/>")
    (test,) = read_failed_tests(
        b'<s><testcase name="a&#10;b"><error/></testcase><testcase name="c"/></s>'
    )
    assert test.shown == "a?b"
