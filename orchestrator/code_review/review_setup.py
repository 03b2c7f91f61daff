"""Sets up a review: from a policy, a change and a journal to the state of the flow."""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from orchestrator.catalog.settings import ReviewSettings
from orchestrator.catalog.verdict_policy import VerdictPolicy
from orchestrator.code_review.agents.briefs import PROMPTS
from orchestrator.code_review.agents.guard_placement import Guards
from orchestrator.code_review.agents.participants import named_vendors
from orchestrator.code_review.analyzer_types import ResultCache
from orchestrator.code_review.analyzers import check_data_files
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.findings.carried_findings import NOTHING_HANDED_OVER, HandedOver
from orchestrator.code_review.findings.correction_requests import ReportCheck, ReportCorrections
from orchestrator.code_review.findings.located_findings import ProposedFix
from orchestrator.code_review.findings.required_checks import required
from orchestrator.code_review.policy_loading import Policy
from orchestrator.code_review.repository_guidance import read_guidance
from orchestrator.code_review.review_state import ReviewInputs, ReviewState
from orchestrator.code_review.review_workspace import (
    IterationFocus,
    ReviewWorkspace,
    open_review_workspace,
)
from orchestrator.code_review.tools.path_globs import matches_any
from orchestrator.code_review.tools.program_output_files import ProgramOutputs
from orchestrator.code_review.tools.registry import build
from orchestrator.code_review.tools.tool_inputs import NO_FILES, GivenFiles, ToolInputs
from orchestrator.engine.agent_context import AgentRuntime
from orchestrator.engine.budget import Account
from orchestrator.engine.executor import Executor
from orchestrator.engine.field_types import shared_fields
from orchestrator.engine.journal import Journal
from orchestrator.engine.model_call_events import note_once
from orchestrator.engine.model_routing import ModelChoice, choose_named_model
from orchestrator.engine.observer_events import Event, Observer, ignore_event
from orchestrator.engine.ports import Approver, Model, Rollback, Tool
from orchestrator.engine.tool_registry import Registry
from orchestrator.engine.types import AgentSpec
from orchestrator.engine.untrusted_text import run_nonce
from orchestrator.sandbox.level_and_launchers import SANDBOX
from orchestrator.sandbox.worker_pool import WorkerPool

SANDBOX_OFF = (
    "the sandbox is off: programs that read the change are not confined; set sandbox: auto in "
    "config/defaults.yaml"
)


class OpenModel(Struct, frozen=True):
    """A model that is ready for calls.

    Attributes:
        choose_model: the model and effort that an agent gets.
        notes: for a person, about the models, such as a missing price.
    """

    model: Model
    choose_model: Callable[[AgentSpec], ModelChoice] = choose_named_model
    notes: tuple[str, ...] = ()


@asynccontextmanager
async def open_review(  # noqa: PLR0913 - every input of a review, as a plain value
    policy: Policy,
    change: Change,
    journal: Journal,
    *,
    model: OpenModel,
    pool: WorkerPool,
    tools: Sequence[Tool] = (),
    approver: Approver | None = None,
    rollback: Rollback | None = None,
    given: GivenFiles = NO_FILES,
    cache: ResultCache | None = None,
    run_directory: Path | None = None,
    handed_over: HandedOver = NOTHING_HANDED_OVER,
    patches: Mapping[str, tuple[ProposedFix, ...]] | None = None,
    observer: Observer = ignore_event,
) -> AsyncIterator[ReviewState]:
    """Set up a review with ``ReviewInputs``; its temporary files are removed at the end.

    Args:
        pool: open worker processes for checks; the caller closes them.
        tools: those of MCP servers, beside the review's own.
        approver, rollback: without them, irreversible calls and tools that write are refused.
        cache, run_directory: None analyzes every file, and keeps no output of programs.

    Raises:
        ReplayMismatch, SandboxError: the run had another policy; the required sandbox is missing.
    """
    journal.note("intake/catalog", dict(policy.digests))
    settings, catalog = policy.settings, policy.catalog
    SANDBOX.use(settings.sandbox)
    notes = _announce((*policy.notes, *model.notes), policy, journal, observer)
    left_out, cores = excluded(change, catalog.verdict_policy), len(os.sched_getaffinity(0))
    async with open_review_workspace(
        change, policy.rules, left_out, cores=cores, max_bytes=settings.limits.max_file_bytes
    ) as workspace:
        await _read_guidance(policy, workspace, journal)
        tool_inputs = _tool_inputs(policy, workspace, pool, given, cache)
        guards = Guards(catalog.guards, policy.environment, policy.author_tier, journal)
        executor = Executor(
            Registry([*build(tool_inputs, catalog.tool_policy), *tools]),
            catalog.tool_policy.for_environment(policy.environment),
            journal,
            guards=guards.calls(catalog.tool_policy),
            approver=approver,
            rollback=rollback,
            outputs=ProgramOutputs(run_directory, pool, journal.redact) if run_directory else None,
            nonce=await run_nonce(journal),
            observer=observer,
        )
        check = ReportCorrections(workspace, tool_inputs.focus, journal, executor.nonce).check
        runtime = _make_runtime(model, guards, executor, settings, journal, observer, check)
        bounds, used = settings.run_bounds, journal.spent()  # of all sessions of the run
        budget = Account("the run", bounds, used=used, elapsed=journal.elapsed)
        inputs = ReviewInputs(
            workspace, catalog, settings, budget, pool, tool_inputs.data["fixes"],
            catalog.guards.resolve_tier(policy.author_tier), notes, handed_over, patches,
        )  # fmt: skip
        yield ReviewState(inputs, runtime, tool_inputs.focus, written=dict(patches or {}))


async def _read_guidance(policy: Policy, workspace: ReviewWorkspace, journal: Journal) -> None:
    """Read the repository's guidance, if a model takes part; a resumed run must find the same."""
    if not policy.settings.has_model:
        return
    change, objects = workspace.change, workspace.contents.objects
    found = await read_guidance(change, objects, policy.settings, policy.layers)
    journal.note("intake/guidance", {f"{one.path}:{one.first_line}": one.sha256 for one in found})
    workspace.guidance = found


def _make_runtime(  # noqa: PLR0917 - called once, with names that say what they are
    model: OpenModel,
    guards: Guards,
    executor: Executor,
    settings: ReviewSettings,
    journal: Journal,
    observer: Observer,
    check_report: ReportCheck,
) -> AgentRuntime:
    return AgentRuntime(
        model=guards.model(model.model),
        executor=executor,
        journal=journal,
        observer=observer,
        rules=PROMPTS["rules"],
        choose_model=model.choose_model,
        loops=settings.loops,
        outgoing=guards.outgoing(model.model),
        check_report=check_report,
    )


def _announce(
    given: Sequence[str], policy: Policy, journal: Journal, observer: Observer
) -> tuple[str, ...]:
    """Record the providers; record, show and return the notes, which a resumed run shows again."""
    settings = policy.settings
    if settings.has_model:
        vendors = ", ".join(named_vendors(policy.catalog, settings))
        journal.note("intake/provider", {"provider": vendors})
    notes = (*given, *([SANDBOX_OFF] if settings.sandbox == "off" else []))
    for note in notes:
        note_once(journal, note)
        observer(Event("note", journal.elapsed(), detail=note))
    return notes


def _tool_inputs(
    policy: Policy,
    workspace: ReviewWorkspace,
    pool: WorkerPool,
    given: GivenFiles,
    cache: ResultCache | None,
) -> ToolInputs:
    """What the review's own tools are built from; writes the data files that checks read."""
    checks = required(policy.catalog.verdict_policy.required_checks, workspace.open_paths)
    return ToolInputs(
        **shared_fields(policy, ToolInputs),
        workspace=workspace,
        pool=pool,
        focus=IterationFocus(),
        required_checks=[rule.name for rule in checks],
        data=check_data_files.write_all(policy.layers, workspace.root),
        given=given,
        cache=cache,
    )


def excluded(change: Change, policy: VerdictPolicy) -> dict[str, str]:
    """The changed files that the policy excludes: path → why."""
    return {
        file.path: exclusion.why
        for file in change.files
        for exclusion in reversed(policy.exclude)
        if matches_any(file.path, exclusion.paths)
    }
