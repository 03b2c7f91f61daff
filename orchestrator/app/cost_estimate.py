"""What a review will cost, before anything is spent. No model is called, and nothing is kept."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio

from orchestrator.app.policy_sources import environment, sources, tier
from orchestrator.app.provider_selection import offer
from orchestrator.app.review_service import need_something, take_in
from orchestrator.app.run_review import adjusted
from orchestrator.app.types import ReviewOptions
from orchestrator.app.worker_pool import new_pool
from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.settings import Settings
from orchestrator.engine.events import ignore_event
from orchestrator.engine.journal import open_journal
from orchestrator.engine.ports import SystemClock
from orchestrator.providers.offline import OfflineModel
from orchestrator.review.cost_estimate import Estimate, estimate
from orchestrator.review.setup import Opening, Serving, open_case
from orchestrator.sandbox import scratch_directory
from orchestrator.stores.lease_holder import this_process
from orchestrator.stores.memory import MemoryStore

NAME = "estimate"


def estimated(options: ReviewOptions) -> Estimate:
    """What this review would cost. It needs no key.

    Raises:
        DiffcourtError: it cannot be reviewed; says what to do.
    """
    need_something(options)
    return anyio.run(_estimate, options)


async def _estimate(options: ReviewOptions) -> Estimate:
    clock = SystemClock()
    store = MemoryStore(clock)
    await store.create(NAME, clock.now(), {})
    with tempfile.TemporaryDirectory(
        dir=scratch_directory.folder(), ignore_cleanup_errors=True
    ) as folder:
        async with open_journal(NAME, store, clock, holder=this_process()) as journal:
            change = await take_in(options, Path(folder), journal)
            opening = Opening(
                sources=await sources(change),
                adjust=partial(adjusted, options),
                serve=_nobody,
                environment=environment(),
                tier=tier(),
                observer=ignore_event,
                pool=new_pool(),
            )
            async with open_case(change, journal, opening) as state:
                return estimate(state)


@asynccontextmanager
async def _nobody(settings: Settings, catalog: Catalog) -> AsyncIterator[Serving]:
    """Who would answer; but nobody is ever asked."""
    choose, notes = offer(settings, catalog, os.environ)
    yield Serving(OfflineModel(), choose, notes)
