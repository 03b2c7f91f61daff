"""The processes that checks run in, started before the rest of the program is even imported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from orchestrator.errors import SandboxError
from orchestrator.resources import FOLDERS, data_root
from orchestrator.sandbox import warden
from orchestrator.sandbox.worker import WorkerPool

CHECKS = "orchestrator.review.checks.everything"


def new_pool() -> WorkerPool:
    """Workers for a review: as many as there are cores to run on. None is started yet."""
    data = [data_root() / folder for folder in FOLDERS]
    return WorkerPool(len(os.sched_getaffinity(0)), modules=[CHECKS], reads=data)


@contextmanager
def workers() -> Iterator[WorkerPool]:
    """Workers that start now, in processes of their own, while the caller goes on."""
    pool = new_pool()
    pool.start()
    with suppress(SandboxError):  # a failure shows at the first program
        warden.start()
    try:
        yield pool
    finally:
        pool.close()
