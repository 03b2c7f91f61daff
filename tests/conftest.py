"""Shared by the whole suite: both event loops, an empty home, no network.

The engine, the workers, the stores, and streams and stops of providers are tested on both. Whole
reviews, and tests marked `either_loop`, run on one of the two each.
"""

import gc
import importlib
import os
import signal
import socket
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, settings

from orchestrator import program_search
from orchestrator.app import check_worker_startup
from orchestrator.ci_systems import CI_SYSTEMS
from orchestrator.code_review.analyzers.program_execution import Program
from orchestrator.sandbox import bubblewrap
from orchestrator.sandbox.level_and_launchers import SANDBOX
from tests import kept_outputs, long_tests
from tests.kept_workers import KeptWorkers
from tests.ordinary_user import as_ordinary_user
from tests.report.browser import Browser
from tests.stores.postgres_server import NoServer, Server, server

# The suite tries the same examples each time, however busy the machine is: whether a change passes
# is not left to chance. New ones are looked for by `make properties`.
settings.register_profile(
    "suite",
    max_examples=30,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "search", settings.get_profile("suite"), max_examples=5000, derandomize=False
)
settings.load_profile("suite")

# It counts only if it is set before numpy is loaded: the cores are taken by the other tests.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A suite in the background ignores Ctrl-C, and so would each program that a test ends by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


MEMORY = Path("/dev/shm")
MIN_ROOM = 4 << 30
"""Bytes that have to be free there; the folders of three runs are kept."""


def _write_in_memory() -> None:
    """Give tests folders that wait for no disk, where they can run what they write.

    Each commit of a journal waits for a disk, as it should, and a file system that has had many
    files looks long for room for each new one.
    """
    if MEMORY.is_dir():
        there = os.statvfs(MEMORY)
        runs = not there.f_flag & os.ST_NOEXEC
        if runs and there.f_bavail * there.f_frsize >= MIN_ROOM:
            for name in ("PYTEST_DEBUG_TEMPROOT", "TMPDIR"):
                os.environ.setdefault(name, str(MEMORY))
            tempfile.tempdir = None  # which it may have looked for before


_write_in_memory()

FIND_BWRAP = bubblewrap.find_bwrap  # before the suite runs without
TESTS = Path(__file__).parent
ROOT = TESTS.parent
REVIEWS = TESTS / "review"
SERVERS = ("browser", "postgres")
"""Fixtures that take seconds to start: one worker runs all the tests that need one."""
WAITING = (TESTS / "service", TESTS / "review/proofs")
STALE = pytest.StashKey[list[str]]()
"""Lines of the table of long tests that no test has, where all were collected."""


def pytest_xdist_auto_num_workers() -> int:
    """Two more than there are cores: a third of the time tests wait for what they started."""
    return (os.cpu_count() or 1) + 2


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one of two loops where it does not matter which, half of the tests each.

    Tests that wait for processes come first, while other workers compute. At the end, nobody else
    would be left to compute.
    """
    is_within = cache(Path.is_relative_to)  # for each file once, not for each of its tests

    def turn(item: pytest.Item) -> int:
        if is_within(item.path, TESTS / "torture"):
            return 0  # the longest
        for at, fixture in enumerate(SERVERS, 1):
            if fixture in getattr(item, "fixturenames", ()) or fixture in item.name:
                return at
        return 3 if any(is_within(item.path, folder) for folder in WAITING) else 4

    items.sort(key=turn)
    for item in items:
        for marker in item.iter_markers("attack"):
            item.user_properties.append(("attack", marker.args[0]))
    twins: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        loop = item.callspec.params.get("anyio_backend") if hasattr(item, "callspec") else None
        either = is_within(item.path, REVIEWS) or item.get_closest_marker("either_loop")
        if loop and either:
            twins[item.nodeid.replace(loop, "")].append(item)
    left = {
        pair[1 - zlib.crc32(name.encode()) % 2] for name, pair in twins.items() if len(pair) == 2
    }
    left |= _mark_long_tests(config, [item for item in items if item not in left])
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=sorted(left, key=lambda item: item.nodeid))


def _mark_long_tests(config: pytest.Config, items: list[pytest.Item]) -> set[pytest.Item]:
    """Mark them, and return those to leave out: all, unless tests are chosen by place or name."""
    table = long_tests.LongTests(long_tests.TABLE.read_text())
    found = {item for item in items if item.nodeid in table}
    for item in found:
        item.add_marker("long")
    if not _runs_everything(config):
        return set()
    config.stash[STALE] = table.stale(item.nodeid.partition("::")[0] for item in items)
    is_chosen = config.option.markexpr or config.option.keyword
    return set() if is_chosen else found


def _runs_everything(config: pytest.Config) -> bool:
    return bool(config.args == config.getini("testpaths"))


def _import_share(config: pytest.Config) -> None:
    """Begin with other tests than the other workers: what one has compiled, the others only load."""
    worker = getattr(config, "workerinput", None)
    if worker is None or not _runs_everything(config):
        return
    number = int(worker["workerid"].removeprefix("gw"))
    for path in sorted(TESTS.rglob("test_*.py"))[number :: worker["workercount"]]:
        with suppress(Exception, pytest.skip.Exception):  # collection says what is wrong
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Look for no garbage in what is imported and collected, then or later: it lives to the end."""
    gc.disable()
    try:
        _import_share(session.config)
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)  # as often as usual it takes a fifteenth of the time
        gc.enable()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have a worker report what failed and each test's call, unless times of the rest are asked for.

    Most tests take less time than to tell of their start, set-up and end.
    """
    option, plugins = session.config.option, session.config.pluginmanager.get_plugins()
    if option.durations is not None or option.xmlpath:
        return
    for interactor in (it for it in plugins if type(it).__name__ == "WorkerInteractor"):
        interactor.sendevent = partial(_send_event, interactor.sendevent)


def _send_event(send: Callable[..., None], name: str, **given: Any) -> None:
    report = given.get("data", {}) if name == "testreport" else {}
    is_routine = report.get("outcome") == "passed" and report["when"] != "call"
    if name != "logstart" and not is_routine:
        send(name, **given)


def _list_attacks(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a row for each attack of `make attack`: whether it was held, and by how many tests."""
    outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, attack in report.user_properties:
                if name == "attack":
                    outcomes[attack][outcome] += 1
    for attack, counts in sorted(outcomes.items()):
        got_through = counts["failed"] + counts["error"]
        result = "GOT THROUGH" if got_through else "held" if counts["passed"] else "not tried"
        terminalreporter.write_line(f"{result:<12} {counts.total():>3} tests  {attack}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List each reason for skipped tests once, and the attacks when only those were run."""
    if terminalreporter.config.getoption("markexpr") == "attack":
        _list_attacks(terminalreporter)
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count} skipped: {reason}")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One PostgreSQL server for all the tests of a process that need one."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    try:
        with server() as started:
            yield started
    except NoServer as why:
        pytest.skip(str(why))


@pytest.fixture(scope="session")
def _chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture
def browser(_chromium: Browser) -> Iterator[Browser]:
    """One browser for all the tests of a process; each has pages of its own."""
    yield _chromium
    _chromium.close_pages()


@pytest.fixture(scope="session", autouse=True)
def _no_rooms() -> Iterator[None]:
    """Run without bubblewrap: namespaces for each of a thousand repositories take long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bubblewrap, "find_bwrap", lambda: None)
        yield


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    """The thread in which servers run."""
    with start_blocking_portal() as opened:
        yield opened


@pytest.fixture
def namespaces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Bubblewrap, without which the rest of the suite runs; skips where it is not installed."""
    if FIND_BWRAP() is None:
        pytest.skip("bubblewrap is not installed")
    SANDBOX.close()
    monkeypatch.setattr(bubblewrap, "find_bwrap", FIND_BWRAP)
    yield
    SANDBOX.close()


@pytest.fixture(scope="session", autouse=True)
def _kept_processes() -> Iterator[None]:
    """Reviews of one process share what forks their workers, and what linters print."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check_worker_startup, "WorkerPool", KeptWorkers)
        patch.setattr(Program, "run", kept_outputs.run)
        yield


@pytest.fixture
def file_modes_hold() -> Iterator[None]:
    """Permissions of files hold for root too, and for what it starts, as for an ordinary user."""
    if os.geteuid() != 0:
        yield
        return
    SANDBOX.close()  # what is started next has the rights of now
    try:
        with as_ordinary_user():
            yield
    finally:
        SANDBOX.close()


@pytest.fixture(scope="session", autouse=True)
def _sealed_environment(_empty_home: Callable[[], Path]) -> Iterator[None]:
    """No keys, no marks of CI and no one's home, for tests and for what is made once for many."""
    with pytest.MonkeyPatch.context() as patch:
        _seal_environment(patch)
        _set_home(patch, _empty_home())
        yield


def _seal_environment(patch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_TOKEN")) or name.startswith(("GIT_", "DIFFCOURT_")):
            patch.delenv(name)
        if name.startswith(("GITHUB_", "CI_MERGE_REQUEST_")):
            patch.delenv(name)  # of the pull request that runs the suite
    for name in {name for system in CI_SYSTEMS for name in system.markers}:
        patch.delenv(name, raising=False)  # CI may run tests and spend


def _set_home(patch: pytest.MonkeyPatch, home: Path) -> None:
    patch.setenv("HOME", str(home))
    for name in ("CONFIG", "CACHE", "STATE"):
        patch.setenv(f"XDG_{name}_HOME", str(home / f".{name.lower()}"))


@pytest.fixture(scope="session")
def _empty_home(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Gives an empty directory: again the last one, if nobody wrote in it."""
    homes = [tmp_path_factory.mktemp("home")]

    def get() -> Path:
        if any(homes[-1].iterdir()):
            homes.append(tmp_path_factory.mktemp("home"))
        return homes[-1]

    return get


@pytest.fixture(autouse=True)
def _sealed(monkeypatch: pytest.MonkeyPatch, _empty_home: Callable[[], Path]) -> None:
    """An empty home, and a failure for whoever dials out."""
    monkeypatch.setattr(program_search, "_distrusted", set())  # of repositories of other tests
    monkeypatch.setattr(program_search, "_given", {})
    _set_home(monkeypatch, _empty_home())

    real = socket.socket.connect

    def connect(self: socket.socket, address: Any) -> None:
        local = self.family == socket.AF_UNIX or (
            isinstance(address, tuple) and address[0] in {"127.0.0.1", "::1", "localhost"}
        )
        if not local:
            raise AssertionError(f"the suite runs without a network; something dialed {address!r}")
        real(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
