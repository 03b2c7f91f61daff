"""Opening a case: from a change and a policy to everything that the flow needs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from msgspec import Struct, to_builtins

from orchestrator.catalog.catalog import Catalog, load
from orchestrator.catalog.data_sources import Source
from orchestrator.catalog.fields import Environment
from orchestrator.catalog.settings import Settings
from orchestrator.engine.agent import AgentRuntime
from orchestrator.engine.budget import Account
from orchestrator.engine.events import Event, Observer
from orchestrator.engine.executor import Executor
from orchestrator.engine.journal import Journal
from orchestrator.engine.loop_detection import LoopPolicy
from orchestrator.engine.model_call_log import EventForwarder, note_once
from orchestrator.engine.model_routing import ModelChoice, choose_named_model
from orchestrator.engine.ports import Approver, Model, Rollback, Tool
from orchestrator.engine.skills import UseSkill
from orchestrator.engine.tool_registry import Registry, ToolPolicy
from orchestrator.engine.types import AgentSpec, Bounds
from orchestrator.engine.untrusted_text import run_nonce
from orchestrator.review import reference_checks
from orchestrator.review.agents.guards import Guards
from orchestrator.review.agents.planning import RULES
from orchestrator.review.analyzers import check_data
from orchestrator.review.analyzers.result_cache import Answers
from orchestrator.review.change.types import Change
from orchestrator.review.coverage_reports import CoverageReport
from orchestrator.review.report_contracts import contracts
from orchestrator.review.review_state import ReviewState
from orchestrator.review.rule_table import load_rules
from orchestrator.review.session import open_session
from orchestrator.review.tools.plan_tools import Focus
from orchestrator.review.tools.registry import TOOLS, build
from orchestrator.review.tools.tool_inputs import Ground
from orchestrator.review.verdict.decision import excluded, required
from orchestrator.sandbox.process_sandbox import SANDBOX
from orchestrator.sandbox.worker_pool import WorkerPool


class Serving(Struct, frozen=True):
    """A model, how an agent's wish for one is met, and what a person should know of it.

    Attributes:
        secrets: the keys that it may be called with, under whatever name they are kept.
        calls: tells what happens around calls; None where nothing does.
    """

    model: Model
    choose_model: Callable[[AgentSpec], ModelChoice] = choose_named_model
    notes: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    calls: EventForwarder | None = None


@asynccontextmanager
async def no_more_tools(
    catalog: Catalog, settings: Settings, journal: Journal
) -> AsyncIterator[Sequence[Tool]]:
    """A review with its own tools alone."""
    yield ()


async def no_coverage(settings: Settings, journal: Journal) -> Sequence[CoverageReport]:
    """A review that knows nothing of what tests ran."""
    return ()


class Opening(Struct, frozen=True):
    """What the application brings to a case.

    Attributes:
        sources: layers of the catalog, lowest first.
        adjust: applies what the person said on the command line to the settings.
        serve: opens the model that the settings name, and says which model serves which agent.
        environment: ``ci`` or ``local``: which column of the tool policy and of the guards holds.
        tier: who the change's author counts as for the guards; empty: as the config says.
        pool: where checks run; open, and closed by whoever opened it.
        approver: who is asked before what cannot be undone; None: nobody, and it is refused.
        rollback: puts back what a writing tool did; None: nothing may write.
        more_tools: opens tools from elsewhere, for the time of the case.
        coverage: finds the coverage reports.
        answers: what analyzers said of files in earlier reviews; None: everything is asked again.
    """

    sources: Sequence[Source]
    adjust: Callable[[Settings], Settings]
    serve: Callable[[Settings, Catalog], AbstractAsyncContextManager[Serving]]
    environment: Environment
    observer: Observer
    pool: WorkerPool
    approver: Callable[[Journal], Approver] | None = None
    rollback: Rollback | None = None
    more_tools: Callable[
        [Catalog, Settings, Journal], AbstractAsyncContextManager[Sequence[Tool]]
    ] = no_more_tools
    coverage: Callable[[Settings, Journal], Awaitable[Sequence[CoverageReport]]] = no_coverage
    answers: Answers | None = None
    tier: str = ""


def read_catalog(sources: Sequence[Source]) -> Catalog:
    """The catalog, checked against the tools and contracts that a review has.

    Raises:
        ConfigError: the first fault.
    """
    return load(sources, tools=TOOLS.keys(), contracts=contracts())


@asynccontextmanager
async def open_case(
    change: Change, journal: Journal, opening: Opening
) -> AsyncIterator[ReviewState]:
    """Everything the flow needs, closed and removed at the end.

    Raises:
        ConfigError: a fault in the catalog.
        ReplayMismatch: the catalog is not the one the run began with.
        SandboxError: the sandbox that the settings ask for cannot be had.
    """
    sources = opening.sources
    catalog, rules = read_catalog(sources), load_rules(sources)
    reference_checks.check(catalog, rules, sources)
    more = {"config/rules": rules.digest, **check_data.digests(sources)}
    journal.note("intake/catalog", {**catalog.digests, **more})
    settings = opening.adjust(catalog.settings)
    SANDBOX.use(settings.sandbox)
    left_out = excluded(change, catalog.verdict_policy)
    cores = len(os.sched_getaffinity(0))
    async with (
        opening.serve(settings, catalog) as serving,
        open_session(
            change, rules, left_out, cores=cores, max_bytes=settings.limits.max_file_bytes
        ) as session,
        opening.more_tools(catalog, settings, journal) as from_elsewhere,
    ):
        focus = Focus()
        paths = [file.path for file in change.files if not session.left_out(file)]
        checks = [rule.name for rule in required(catalog.verdict_policy.required_checks, paths)]
        known = check_data.write(check_data.TAINT, sources, session.root / "taint")
        languages = check_data.write(check_data.PATTERNS, sources, session.root / "patterns")
        reports = await opening.coverage(settings, journal)
        ground = Ground(
            session=session,
            pool=opening.pool,
            specialists=settings.specialists,
            focus=focus,
            required=checks,
            knowledge=known,
            languages=languages,
            coverage=reports,
            answers=opening.answers,
            tests=settings.tests,
        )
        tools = [UseSkill(), *build(ground, catalog.tool_policy), *from_elsewhere]
        journal.redact.add(serving.secrets)
        _listen(serving, journal, opening.observer)
        guards = Guards(catalog.guards, opening.environment, opening.tier, journal)
        runtime = AgentRuntime(
            model=guards.model(serving.model),
            executor=_executor(Registry(tools), catalog, guards, opening, await run_nonce(journal)),
            journal=journal,
            observer=opening.observer,
            rules=RULES,
            choose_model=serving.choose_model,
            loops=LoopPolicy(**to_builtins(settings.loops)),
            outgoing=guards.outgoing(serving.model),
        )
        budget = _budget(settings, journal)
        yield ReviewState(session, catalog, settings, runtime, budget, focus, serving.notes)


def _listen(serving: Serving, journal: Journal, observer: Observer) -> None:
    """Note, and tell, what is known of the models, and from now on what happens around calls."""
    if serving.calls is not None:
        serving.calls.listen(journal, observer)
    for note in serving.notes:
        note_once(journal, note)
        observer(Event("note", journal.elapsed(), detail=note))


def _executor(
    registry: Registry, catalog: Catalog, guards: Guards, opening: Opening, nonce: str
) -> Executor:
    given, journal = catalog.tool_policy, guards.journal
    policy = ToolPolicy(
        environment=opening.environment,
        max_level=given.level(opening.environment),
        allow={
            name: frozenset(access.allow)
            for name, access in given.agents.items()
            if access.allow is not None
        },
        deny={name: frozenset(access.deny) for name, access in given.agents.items()},
        failures=given.per_tool("failures"),
        pause=given.per_tool("pause"),
        sensitive=frozenset(given.sensitive),
    )
    return Executor(
        registry,
        policy,
        journal,
        guards=guards.calls(given),
        approver=opening.approver(journal) if opening.approver else None,
        rollback=opening.rollback,
        nonce=nonce,
        observer=opening.observer,
    )


def _budget(settings: Settings, journal: Journal) -> Account:
    bounds: Bounds = settings.run_bounds
    return Account("the run", bounds, used=journal.spent(), elapsed=journal.elapsed)
