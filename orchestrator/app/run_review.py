"""A review from its change to its verdict: wires the flow to what is outside, and runs it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from orchestrator.app import state_directory
from orchestrator.app.analysis_cache import open_analysis_cache
from orchestrator.app.approvals import head_now
from orchestrator.app.budget_reporter import Ticker
from orchestrator.app.coverage_reports import taken_in
from orchestrator.app.mcp.tools import open_tools
from orchestrator.app.policy_sources import environment, tier
from orchestrator.app.provider_selection import serve
from orchestrator.app.rollback import scopes
from orchestrator.app.types import ReviewOptions
from orchestrator.catalog.data_sources import Source
from orchestrator.catalog.settings import Settings
from orchestrator.engine import state_machine
from orchestrator.engine.approvals import RecordedApprovals
from orchestrator.engine.events import Observer
from orchestrator.engine.journal import Journal
from orchestrator.engine.ports import SystemClock
from orchestrator.review.assemble_verdict import conclude
from orchestrator.review.change.types import Change
from orchestrator.review.flow import FLOW
from orchestrator.review.setup import Opening, open_case
from orchestrator.review.verdict.model import Verdict


async def reviewed(
    run: state_directory.Run,
    change: Change,
    layers: Sequence[Source],
    journal: Journal,
    observer: Observer,
) -> Verdict:
    """Run the flow over a change.

    Args:
        layers: of the catalog, as ``policy.sources`` gives them.

    Raises:
        DiffcourtError: it cannot be reviewed; says what to do.
    """
    options, ticker = run.options, Ticker(observer)
    top = state_directory.top(options.repo or Path())
    with open_analysis_cache(options) as answers:
        opening = Opening(
            sources=layers,
            adjust=partial(adjusted, options),
            serve=serve,
            environment=environment(),
            tier=tier(),
            observer=ticker,
            pool=run.pool,
            approver=partial(_approver, run, change),
            rollback=scopes(options.repo, run.folder, run.run_id),
            coverage=partial(taken_in, options, top, run.scratch),
            more_tools=partial(open_tools, repo=options.repo, environment=os.environ),
            answers=answers,
        )
        async with run.pool, open_case(change, journal, opening) as state:
            ticker.account = state.budget
            await state_machine.run(FLOW, state, journal, ticker)
            return await conclude(state)


def _approver(run: state_directory.Run, change: Change, journal: Journal) -> RecordedApprovals:
    """What a person said counts while the head that they were shown is still the head."""
    head = partial(head_now, run.options.as_meta(), change.head)
    return RecordedApprovals(journal, SystemClock(), head)


def adjusted(options: ReviewOptions, settings: Settings) -> Settings:
    """The settings with what the person said on top."""
    bounds = {
        "iterations": options.max_iterations,
        "tool_calls": options.max_tool_calls,
        "minutes": options.max_minutes,
        "usd": options.max_usd,
    }
    said = {name: value for name, value in bounds.items() if value is not None}
    chosen = {"provider": options.provider, "pattern": options.pattern}
    update: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
    update["bounds"] = replace(settings.bounds, **said)
    return replace(settings, **update)
