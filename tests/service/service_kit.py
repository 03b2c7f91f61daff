"""A service on this machine: a real database, real workers as processes, a forge's repository."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import procrastinate
import psycopg
from psycopg.rows import dict_row

from orchestrator.service.changes import Enqueuing, Push, enqueue_command, enqueue_post, record_push
from orchestrator.service.database import prepare_database
from orchestrator.service.job_queue import make_queue
from orchestrator.stores.postgres import PostgresStore
from tests.posting.forge_server import TOKEN
from tests.posting.forgejo_server import ForgejoServer
from tests.posting.github_server import GitHubServer
from tests.review.review_kit import change

SECRET = "hook-secret"
HEAD = "a" * 40
UNSAFE = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"

_WAITING_WRITERS = """
SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'diffcourt_journal'::regclass
"""


class Service:
    """A database, a repository as a forge has it, and a configuration."""

    def __init__(
        self,
        address: str,
        folder: Path,
        forge: ForgejoServer | GitHubServer,
        *,
        stalled: float = 6.0,
        patience: float = 60.0,
    ) -> None:
        self.address, self.folder, self.forge = address, folder, forge
        self.cwd, self.path = folder, os.environ["PATH"]  # of the server and the workers
        self._asked: psycopg.Connection[dict[str, Any]] | None = None
        self._waits, self._patience = False, patience
        self.server_pid = 0
        self.repo = change(folder / "origin", {"app.py": ""}, {"app.py": UNSAFE})
        self.repo.git("config", "uploadpack.allowAnySHA1InWant", "true")
        self.base, self.head = (
            self.repo.git("rev-parse", "HEAD~1"),
            self.repo.git("rev-parse", "HEAD"),
        )
        self.repo.git("update-ref", "refs/pull/12/head", self.head)
        self.clone_url = f"{forge.url}/clones/shop.git"
        forge.head = self.head
        kind = "github" if isinstance(forge, GitHubServer) else "forgejo"
        self.config = folder / "service.yaml"
        self.config.write_text(
            "database: {env: SERVICE_DATABASE}\n"
            f"forges:\n  forge:\n    kind: {kind}\n    url: {forge.url}\n"
            "    webhook_secret: {env: SERVICE_SECRET}\n    token: {env: SERVICE_TOKEN}\n"
            "review: {provider: offline}\n"
            f"worker: {{cache: {folder / 'cache'}, concurrency: 2, grace: 0.2}}\n"
            f"queue: {{heartbeat: {stalled / 3}, stalled: {stalled}, sweep: 0.3, poll: 0.3, retry: 0.1}}\n"
        )
        prepare_database(address)
        PostgresStore(address, "none").close()  # makes its tables

    def configure(self, line: str) -> None:
        """Add a line to the configuration."""
        with self.config.open("a") as file:
            file.write(f"{line}\n")

    def configure_worker(self, **given: float) -> None:
        """Change settings of the workers."""
        more = "".join(f", {name}: {value}" for name, value in given.items())
        self.config.write_text(
            self.config.read_text().replace(", grace: 0.2", f", grace: 0.2{more}")
        )

    def pull_request(self, action: str = "opened", **given: Any) -> dict[str, Any]:
        """The body of a webhook of the forge."""
        repository = {"full_name": "acme/shop", "clone_url": self.clone_url}
        request = {
            "number": 12,
            "title": "Ship it",
            "body": None,
            "head": {"sha": HEAD},
            "base": {"sha": self.base, "repo": repository},
            "additions": 3,
            "deletions": 1,
            **given,
        }
        return {"action": action, "pull_request": request, "repository": repository}

    def push(self, number: int = 12, head: str = "", *, debounce: float = 0.0) -> str:
        """Record a push as a webhook would; returns the change's name."""
        pushed = Push(
            forge="forge",
            installation="7",
            repository="acme/shop",
            number=number,
            clone_url=f"file://{self.repo.path}",
            base=self.base,
            head=head or self.head,
        )

        async def record(db: psycopg.AsyncConnection, queue: procrastinate.App) -> None:
            await record_push(db, queue, pushed, Enqueuing(debounce=debounce, slots=64))

        self._transact(record)
        return pushed.change

    def comment(self, body: str, author: str) -> None:
        """Have somebody write a comment, and its command recorded as a webhook would."""
        assert isinstance(self.forge, GitHubServer)
        number = int(self.forge.comment(body, author)["id"])

        async def record(db: psycopg.AsyncConnection, queue: procrastinate.App) -> None:
            await enqueue_command(db, queue, "forge:acme/shop#12", number, body)

        self._transact(record)

    def post(self, change: str) -> None:
        """Have a change's verdict posted again, as a command in a comment does."""

        async def enqueue(db: psycopg.AsyncConnection, queue: procrastinate.App) -> None:
            await enqueue_post(db, queue, change)

        self._transact(enqueue)

    def _transact(
        self, work: Callable[[psycopg.AsyncConnection, procrastinate.App], Awaitable[None]]
    ) -> None:
        async def transact() -> None:
            queue, _ = make_queue(self.address)
            async with queue.open_async():
                connector: Any = queue.connector
                async with connector.pool.connection() as db, db.transaction():
                    await work(db, queue)

        asyncio.run(transact())

    def rows(self, query: str, *values: object) -> list[dict[str, Any]]:
        """What the database answers."""
        if self._asked is not None:
            with suppress(psycopg.OperationalError):  # the database was started anew meanwhile
                return self._asked.execute(query.encode(), values).fetchall()
            self._asked.close()
        db = psycopg.connect(self.address, row_factory=dict_row, autocommit=True)
        if self._waits:
            self._asked = db
            return db.execute(query.encode(), values).fetchall()
        with db:
            return db.execute(query.encode(), values).fetchall()

    def jobs(self, queue: str = "review") -> list[dict[str, Any]]:
        """The jobs of a queue, oldest first."""
        return self.rows(
            "SELECT * FROM procrastinate_jobs WHERE queue_name = %s ORDER BY id", queue
        )

    def statuses(self) -> list[str]:
        """The states that the forge was told, oldest first."""
        assert isinstance(self.forge, ForgejoServer)
        return [status["state"] for status in self.forge.statuses]

    def is_posted(self) -> bool:
        """Whether the newest push has its post."""
        rows = self.rows("SELECT 1 FROM service_changes WHERE posted_head = head")
        return len(rows) == 1

    def wait(self, done: Callable[[], Any], seconds: float | None = None) -> Any:
        """Wait until something is so, with one connection; returns it."""
        end = time.monotonic() + (seconds or self._patience)
        with self._one_connection():
            while not (value := done()):
                if time.monotonic() > end:
                    raise AssertionError(f"it did not come to this: {self.jobs()}\n{self.log()}")
                time.sleep(0.05)
        return value

    @contextmanager
    def _one_connection(self) -> Iterator[None]:
        """Keep the connection of the first question for the next ones."""
        self._waits = True
        try:
            yield
        finally:
            self._waits = False
            if self._asked is not None:
                self._asked.close()
            self._asked = None

    @contextmanager
    def journals_held(self) -> Iterator[None]:
        """Nobody can write a journal meanwhile: a review stands still in the middle."""
        with psycopg.connect(self.address) as db:
            db.execute("LOCK TABLE diffcourt_journal IN EXCLUSIVE MODE")
            yield
            db.rollback()

    def reviewing(self, *workers: subprocess.Popen[bytes]) -> int:
        """The process of a review that has begun its run under one of the workers."""

        def find() -> int:
            found = [child for worker in workers for child in children(worker.pid)]
            return found[0] if found and self.rows(_WAITING_WRITERS) else 0

        return int(self.wait(find))

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        """Kill a worker, whose jobs count as those of a dead one at once."""
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        self.rows("UPDATE procrastinate_workers SET last_heartbeat = '-infinity' RETURNING 1")

    def log(self) -> str:
        """What the workers wrote."""
        return "\n".join(file.read_text() for file in sorted(self.folder.glob("worker-*.log")))

    @contextmanager
    def server(self) -> Iterator[str]:
        """The server in a process of its own; its address."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with self._process("server", "serve", "--port", str(port)) as process:
            self.server_pid = process.pid
            url = f"http://127.0.0.1:{port}"
            self.wait(lambda: _answers(port))
            yield url

    @contextmanager
    def worker(self, name: str = "a") -> Iterator[subprocess.Popen[bytes]]:
        """A worker in a session of its own."""
        with self._process(name, "work") as process:
            yield process

    @contextmanager
    def _process(self, name: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        home = self.folder / f"home-{name}"
        home.mkdir(exist_ok=True)
        with (self.folder / f"worker-{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [Path(sys.executable).with_name("diffcourt"), *words, "--config", self.config],
                stdout=log,
                stderr=log,
                cwd=self.cwd,
                env={
                    "PATH": self.path,
                    "HOME": str(home),
                    "SERVICE_DATABASE": self.address,
                    "SERVICE_SECRET": SECRET,
                    "SERVICE_TOKEN": TOKEN,
                },
                start_new_session=True,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def children(pid: int) -> list[int]:
    """The reviews that a worker runs."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in listed if b"review_process" in _command(child)]


def is_gone(pid: int) -> bool:
    """Whether a process has ended, whoever has yet to take note of it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return True
    return state in "ZX"


def _command(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
