"""A real PostgreSQL server for the length of a test run, on a socket of its own."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")


class NoServer(Exception):
    """None can be started here; says why."""


def _program(name: str) -> str:
    found = shutil.which(name) or next(
        (str(file) for place in PLACES for file in Path("/").glob(f"{place[1:]}/{name}")), None
    )
    if found is None:
        raise NoServer(f"PostgreSQL has no {name} here; install the postgresql package")
    return found


def _unprivileged() -> dict[str, Any]:
    """The server refuses to run as root: become nobody."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


class Server:
    """One server; ``address(schema)`` is what ``DIFFCOURT_STORE`` takes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self._as: dict[str, Any] = _unprivileged()
        if self._as:
            os.chown(folder, self._as["user"], self._as["group"])
        self._run(
            _program("initdb"), "-D", str(self.data), "-A", "trust", "-U", "test", "--no-sync"
        )
        self.start()

    def _run(self, *argv: str) -> None:
        done = subprocess.run(
            argv, cwd=self.folder, capture_output=True, text=True, check=False, **self._as,
        )  # fmt: skip
        if done.returncode != 0:
            raise NoServer(f"PostgreSQL: {argv[0]} failed: {done.stderr.strip()}")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [_program("postgres"), "-D", str(self.data), "-k", str(self.folder),
                 "-c", "listen_addresses=", "-c", "fsync=off", "-c", "full_page_writes=off"],
                cwd=self.folder, stdout=log, stderr=log, **self._as,
            )  # fmt: skip
        for _ in range(600):
            if self.process.poll() is None and self._answers():
                return
            time.sleep(0.1)
        raise NoServer(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-500:]}")

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.address()).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, sent: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT cuts its clients off cleanly, SIGQUIT is a crash."""
        self.process.send_signal(sent)
        self.process.wait(timeout=30)

    def address(self, schema: str = "public") -> str:
        """Where its one database is, and a schema in it."""
        option = quote(f"-csearch_path={schema}", safe="")
        return (
            f"postgresql://test@/postgres?host={quote(str(self.folder), safe='')}&options={option}"
        )

    def fresh(self, schema: str) -> str:
        """The address of an empty schema."""
        import psycopg

        with psycopg.connect(self.address()) as db:
            db.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
            db.execute(f'CREATE SCHEMA "{schema}"')
        return self.address(schema)


@contextmanager
def server() -> Iterator[Server]:
    """A running server in a folder with a short name: a socket's path has at most 107 bytes.

    Raises:
        NoServer: says why there is none.
    """
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        started = Server(folder)
        try:
            yield started
        finally:
            if started.process.poll() is None:
                started.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
