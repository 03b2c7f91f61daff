"""The reviews that run for the coding agents of one server, each in a thread of its own."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path

import anyio
from anyio.from_thread import run_sync
from anyio.lowlevel import current_token
from msgspec.structs import replace

from orchestrator.app.check_worker_startup import start_workers
from orchestrator.app.run_review import ReviewSession, open_kept_run, open_new_run
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.run_progress import RunProgress
from orchestrator.app.types import ReviewOptions
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.errors import DiffcourtError, InputError, RunNotFound
from orchestrator.providers.calling_agent import HostModel, Question

MAX_RUNNING = 4
"""Reviews at the same time."""

MAX_STARTED = 200
"""Reviews of one server: a coding agent in a loop must not spend without end."""

Open = Callable[..., AbstractContextManager[ReviewSession]]
"""Opens its session, given ``observer``, ``pool`` and ``host``."""


class ServedReview:
    """One review, and the thread that it runs in.

    Attributes:
        verdict: None until it has ended.
        error: why it has ended without a verdict.
        shown: what its host was shown → the question in which.
    """

    def __init__(self, run_id: str, repo: Path | None, opening: Open) -> None:
        self.run_id, self._repo = run_id, repo
        self.host, self.progress = HostModel(), RunProgress(run_id)
        self.verdict: Verdict | None = None
        self.error, self._stopped = "", False
        self.shown: dict[str, str] = {}
        self.opening = opening
        self._cancel: Callable[[], object] = bool  # nothing to cancel yet
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._thread.is_alive()

    @property
    def question(self) -> Question | None:
        """The question that waits longest for its answer."""
        return next(iter(self.host.waiting()), None)

    def stop(self, wait: float | None = None) -> None:
        """Interrupt it and wait, at most some seconds; the run can be continued later."""
        self._stopped = True
        with suppress(RuntimeError):  # its loop has ended
            self._cancel()
        self._thread.join(wait)

    def _run(self) -> None:
        try:
            with start_workers(self._repo) as pool:
                how = {"observer": self.progress.add, "pool": pool, "host": self.host}
                with self.opening(**how) as session:
                    anyio.run(self._review, session)
        except DiffcourtError as error:
            self.error = str(error)
        except Exception as error:  # the agent is told, and the server goes on
            self.error = f"an internal error: {type(error).__name__}; see diffcourt runs"

    async def _review(self, session: ReviewSession) -> None:
        with anyio.CancelScope() as scope:
            token = current_token()
            self._cancel = lambda: run_sync(scope.cancel, token=token)
            if not self._stopped:
                self.verdict = await session.review()


class ServedReviews:
    """The reviews of one repository that coding agents have started.

    Args:
        options: those of every review; an agent chooses only what ``start`` takes.
    """

    def __init__(self, options: ReviewOptions) -> None:
        self.options, self.repo = options, options.repo
        self._reviews: dict[str, ServedReview] = {}
        self._latest: dict[str | None, str] = {}  # a client → the run that it called last
        self._lock = threading.Lock()

    def resolve(self, name: str, client: str | None) -> str:
        """The id of a run; ``latest`` is the client's, before the first here the repository's.

        Raises:
            InputError: it could be another client's; of None nobody knows which it is.
        """
        if name not in {"", state_directory.LATEST}:
            return name
        if self._reviews and (client is None or client not in self._latest):
            raise InputError("latest could be another client's run: name the run by its id")
        return self._latest.get(client, state_directory.LATEST)

    def start(
        self, client: str | None, worktree: bool, paths: tuple[str, ...], provider: str | None
    ) -> ServedReview:
        """Start a review.

        Raises:
            InputError: too many run, or were started.
        """
        provider = provider or self.options.provider
        options = replace(self.options, worktree=worktree, paths=paths, provider=provider)
        run_id = state_directory.new_run_id()
        return self._take(client, run_id, partial(open_new_run, options, run_id=run_id))

    def open(self, name: str, client: str | None) -> ServedReview:
        """A review of this server, or another run of the store, which is continued.

        Raises:
            RunNotFound: no run has that name.
            InputError: too many run, or were started.
        """
        run_id = self.resolve(name, client)
        opening: Open | None = None
        if (known := self._reviews.get(run_id)) is None or not known.is_running:
            try:
                with state_directory.open_run(self.repo, run_id) as (_, found):
                    run_id = found.run_id
            except RunNotFound:
                if known is None:
                    raise
                opening = known.opening  # it was stopped before it was stored
        return self._take(client, run_id, opening or partial(open_kept_run, self.repo, run_id))

    def _take(self, client: str | None, run_id: str, opening: Open) -> ServedReview:
        """The review of a run that runs or has a verdict here, else a new one."""
        with self._lock:
            found = self._reviews.get(run_id)
            if found is None or not (found.is_running or found.verdict):
                running = sum(review.is_running for review in self._reviews.values())
                if running >= MAX_RUNNING or len(self._reviews) >= MAX_STARTED:
                    raise InputError(
                        f"{running} reviews run and {len(self._reviews)} were started; the limits "
                        f"are {MAX_RUNNING} and {MAX_STARTED}: wait, or start the server again"
                    )
                found = self._reviews[run_id] = ServedReview(run_id, self.repo, opening)
            self._latest[client] = run_id
            return found

    def close(self) -> None:
        """Interrupt what runs; it can be continued by another server."""
        for review in list(self._reviews.values()):
            review.stop()
