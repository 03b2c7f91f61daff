"""The processes that checks run in, started before the rest of the program is even imported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.sandbox.worker import WorkerPool

CHECKS = "orchestrator.review.checks.everything"


def new_pool() -> WorkerPool:
    """Workers for a review: as many as there are cores to run on. None is started yet."""
    return WorkerPool(len(os.sched_getaffinity(0)), modules=[CHECKS])


@contextmanager
def workers() -> Iterator[WorkerPool]:
    """Workers that start now, in processes of their own, while the caller goes on."""
    pool = new_pool()
    pool.start()
    try:
        yield pool
    finally:
        pool.close()
