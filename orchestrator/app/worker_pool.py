"""The processes that checks run in, started before the rest of the program is even imported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrator.checks import PREFIX
from orchestrator.errors import DiffcourtError
from orchestrator.resources import DATA_DIRECTORIES, data_root
from orchestrator.review.change.git.directories import repository_directories
from orchestrator.sandbox.process_sandbox import SANDBOX
from orchestrator.sandbox.worker_pool import WorkerPool


def new_pool() -> WorkerPool:
    """Workers for a review: as many as there are cores to run on. None is started yet."""
    data = [data_root() / folder for folder in DATA_DIRECTORIES]
    return WorkerPool(
        len(os.sched_getaffinity(0)), prefix=PREFIX, modules=[f"{PREFIX}preload"], reads=data
    )


@contextmanager
def start_workers(repo: Path | None) -> Iterator[WorkerPool]:
    """Workers and a sandbox that start now, in processes of their own, while the caller goes on.

    Args:
        repo: the repository that will be reviewed, None for where we stand.
    """
    pool = new_pool()
    pool.start()
    with suppress(DiffcourtError):  # a failure shows at the first program
        SANDBOX.start(repository_directories((repo or Path()).absolute()))
    try:
        yield pool
    finally:
        pool.close()
