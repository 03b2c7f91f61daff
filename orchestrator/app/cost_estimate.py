"""Estimate what a review will cost. No model is called, and nothing is kept."""

import os
import tempfile
from pathlib import Path

import anyio

from orchestrator.app.check_worker_startup import new_pool
from orchestrator.app.find_change import resolve_change
from orchestrator.app.model_opening import route_agents
from orchestrator.app.policy_sources import load_policy, read_layers, required_prices
from orchestrator.app.run_review import require_source
from orchestrator.app.types import ReviewOptions
from orchestrator.code_review.agents.model_skills import choose_packs
from orchestrator.code_review.agents.shared_opening import open_for_models
from orchestrator.code_review.cost_estimate import ReviewEstimate, estimate
from orchestrator.code_review.review_setup import OpenModel, open_review
from orchestrator.engine.journal import open_journal
from orchestrator.engine.ports import SystemClock
from orchestrator.providers.offline import OfflineModel
from orchestrator.sandbox import scratch_directory
from orchestrator.stores.sqlite_journal import MemoryStore
from orchestrator.stores.writer_identity import this_process

NAME = "estimate"


def estimate_cost(options: ReviewOptions) -> ReviewEstimate:
    """Estimate what a review will cost. It needs no key.

    Raises:
        DiffcourtError: the change cannot be reviewed; says what to do.
    """
    require_source(options)
    return anyio.run(_estimate, options)


async def _estimate(options: ReviewOptions) -> ReviewEstimate:
    clock = SystemClock()
    store = MemoryStore(clock)
    await store.create(NAME, clock.now(), {})
    with tempfile.TemporaryDirectory(
        dir=scratch_directory.work_directory(), ignore_cleanup_errors=True
    ) as scratch:
        async with open_journal(NAME, store, clock, holder=this_process()) as journal:
            change = await resolve_change(options, Path(scratch), journal)
            policy = load_policy(await read_layers(change), options)
            choose, _, notes = route_agents(
                policy.settings, policy.catalog, os.environ, required_prices(policy, options)
            )
            model = OpenModel(OfflineModel(), choose, notes)  # it is never called
            async with open_review(policy, change, journal, model=model, pool=new_pool()) as state:
                if state.given.settings.has_model:
                    await open_for_models(state, analyze=False)
                    await choose_packs(state)
                return estimate(state)
