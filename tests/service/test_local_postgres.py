"""A PostgreSQL of our own: started once, found again, private, and never run as root."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg")

import psycopg

from orchestrator.errors import InputError
from orchestrator.service import local_postgres
from orchestrator.service.local_postgres import start_local_postgres
from tests.stores.postgres_server import _unprivileged


@pytest.fixture
def place() -> Iterator[Path]:
    if not any(Path("/").glob(f"{pattern[1:]}/postgres") for pattern in local_postgres.PLACES):
        pytest.skip("PostgreSQL is not installed")
    root = Path(tempfile.mkdtemp(prefix="pg-"))
    if user := _unprivileged():
        os.chown(root, user["user"], user["group"])
    yield root / "own"
    pid = root / "own/data/postmaster.pid"
    if pid.exists():
        os.kill(int(pid.read_text().split()[0]), signal.SIGQUIT)
    shutil.rmtree(root, ignore_errors=True)


def as_user(work: Callable[[], Any]) -> Any:
    """What a function returns in a process of an ordinary user."""
    ours, theirs = multiprocessing.Pipe()

    def child() -> None:
        if user := _unprivileged():
            os.setgroups([])
            os.setgid(user["group"])
            os.setuid(user["user"])
        try:
            theirs.send((work(), ""))
        except BaseException:
            theirs.send((None, traceback.format_exc()))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    theirs.close()  # or a child that died would be waited for
    result, error = ours.recv()
    process.join()
    assert not error, error
    return result


def processes_in(place: Path) -> list[str]:
    """The processes that work in a directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if process.joinpath("cwd").readlink() == place:
                found.append(process.name)
    return found


def answers(address: str) -> Any:
    with psycopg.connect(address) as db:
        return db.execute("SELECT pg_postmaster_start_time()").fetchone()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_it_starts_once_is_found_again_and_starts_anew_after_its_end(place: Path) -> None:
    address = as_user(lambda: start_local_postgres(place))
    began = answers(address)
    assert as_user(lambda: start_local_postgres(place)) == address
    assert answers(address) == began
    # Only its user can reach it, and only with the password.
    assert (place / "run").stat().st_mode & 0o777 == 0o700
    assert (place / "password").stat().st_mode & 0o777 == 0o600
    assert "scram-sha-256" in (place / "data/pg_hba.conf").read_text()
    pid_file = place / "data/postmaster.pid"
    pid = int(pid_file.read_text().split()[0])
    os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 60
    while processes_in(place / "data") or Path(f"/proc/{pid}").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    # The number in the file is another process's now, of the same user; it is no server.
    with subprocess.Popen(["sleep", "60"], **_unprivileged()) as other:
        pid_file.write_text(pid_file.read_text().replace(str(pid), str(other.pid), 1))
        assert as_user(lambda: start_local_postgres(place)) == address
        assert answers(address) != began
        other.kill()


def test_it_does_not_run_as_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(InputError, match="does not run as root; make a user and run as it"):
        start_local_postgres(tmp_path)
