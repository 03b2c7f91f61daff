"""The worker processes for checks, which start before most of the program is imported."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from diffchecks import PREFIX
from orchestrator.code_review.change.git.repository_layout import repository_directories
from orchestrator.errors import DiffcourtError
from orchestrator.sandbox.level_and_launchers import SANDBOX
from orchestrator.sandbox.worker_pool import WorkerPool

PRELOADED = (f"{PREFIX}worker_preload",)
"""What the process that forks the workers imports; without it all are slower and none fails."""


def new_pool() -> WorkerPool:
    """A pool with one worker for each available core; none is started yet."""
    return WorkerPool(len(os.sched_getaffinity(0)), prefix=PREFIX, modules=PRELOADED)


@contextmanager
def start_workers(repo: Path | None) -> Iterator[WorkerPool]:
    """Start workers and a sandbox in other processes while the caller continues."""
    pool = new_pool()
    pool.start()
    with suppress(DiffcourtError):  # the first program raises the error again
        SANDBOX.start(repository_directories((repo or Path()).absolute()))
    with closing(pool):
        yield pool
