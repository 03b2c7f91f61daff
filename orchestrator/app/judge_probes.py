"""Asking the judge anew about a recorded review: once more, reversed, or padded.

What it says is kept in ``judgings.db`` beside the runs, never in the finished run, so that the same
question is paid for once.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.app import state_directory
from orchestrator.app.own_secrets import make_redactor
from orchestrator.app.policy_sources import detect_author_tier, detect_environment
from orchestrator.app.provider_selection import open_model
from orchestrator.catalog.fields import OFFLINE
from orchestrator.engine.agent import AgentRuntime
from orchestrator.engine.budget import Account
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.escalation import Task
from orchestrator.engine.executor import Executor
from orchestrator.engine.journal import Journal, open_journal
from orchestrator.engine.judge import Mark
from orchestrator.engine.model_routing import ModelChoice
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.team import run_task
from orchestrator.engine.types import AgentSpec, Criterion
from orchestrator.review.agents import judging
from orchestrator.review.agents.guards import Guards
from orchestrator.review.findings.journal_queries import answers
from orchestrator.review.review_state import ReviewState
from orchestrator.review.setup import OpenModel
from orchestrator.stores.lease_holder import this_process
from orchestrator.stores.sqlite import SqliteStore

AS_IS = "as-is"
PADDING = " ".join(
    ["This sentence says nothing of the change; it is here to make the text longer."] * 5
)

Scores = Mapping[str, Mark]
Evidence = dict[str, Any]


def as_is(evidence: Evidence) -> Evidence:
    """The evidence as the run's own judge was shown it."""
    return evidence


def reversed_order(evidence: Evidence) -> Evidence:
    """Every list in it the other way round: the same evidence in another order."""
    return {
        name: value[::-1] if isinstance(value, list) else value for name, value in evidence.items()
    }


def padded(evidence: Evidence) -> Evidence:
    """Every finding's detail longer by neutral text, and a remark where there is no finding."""
    findings = [
        {**finding, "detail": f"{finding['detail']} {PADDING}".strip()}
        for finding in evidence["findings"]
    ]
    return {**evidence, "findings": findings, "remark": PADDING}


PROBES: Mapping[str, Callable[[Evidence], Evidence]] = MappingProxyType(
    {"reversed": reversed_order, "padded": padded}
)


class JudgeOptions(Struct, frozen=True):
    """Whether and how the judge is asked.

    Attributes:
        provider: who serves the judge; ``offline`` asks nobody.
        repeat: how often each review is judged anew; 0: only what no record answers.
        probes: judge it with its evidence reversed, and padded, as well.
    """

    provider: str = OFFLINE
    repeat: int = 0
    probes: bool = False


NO_JUDGE = JudgeOptions()


class JudgeRequest(Struct, frozen=True):
    """A recorded review, and who is to judge it.

    Attributes:
        folder: where the answers are kept.
    """

    state: ReviewState
    folder: Path
    asking: JudgeOptions


class Judge:
    """A model that judges one recorded review. Use ``open_judge``."""

    def __init__(self, state: ReviewState, runtime: AgentRuntime) -> None:
        self._state, self._harness = state, runtime
        bounds = state.settings.run_bounds
        self._budget = Account("judging anew", bounds)

    async def say(
        self, criteria: Sequence[Criterion], probe: str = AS_IS, number: int = 1
    ) -> Scores:
        """Its marks.

        Args:
            probe: how the evidence is shown, of ``PROBES``.
            number: which asking of the same question.
        """
        evidence = PROBES.get(probe, as_is)(judging.judge_evidence(self._state))
        task = judging.build_judge_task(self._state, criteria, "", evidence)
        placed = self._placed(task, probe, number)
        result = await run_task(placed, self._harness, self._budget)
        nonce = self._harness.executor.nonce
        told = partial(answers, self._harness.journal, nonce, [f"{placed.key}/"])
        return await judging.read_marks(
            criteria, result, judging.citable_sources(self._state, told)
        )

    def _placed(self, task: Task, probe: str, number: int) -> Task:
        """The task under a key that says all that its answer depends on.

        An answer that failed is not asked for again under its key but under the next.
        """
        model, choice = self._harness.model.name, self._harness.choose_model(task.spec)
        asked = digest([task.spec.digest, model, choice.model, choice.effort, task.brief])
        known, attempt = self._harness.journal.outcomes(asked), 1
        while known.get(key := f"{asked}/{probe}/{number}/{attempt}", _OK)["status"] != "ok":
            attempt += 1
        return replace(task, key=key)


_OK = {"status": "ok"}


@asynccontextmanager
async def open_judge(question: JudgeRequest) -> AsyncIterator[Judge | None]:
    """The judge of a recorded review; None where nobody is to be asked.

    Raises:
        InputError: there is no such provider, or its key is missing.
        StoreError: another process judges the same run.
    """
    state, asking = question.state, question.asking
    if asking.provider == OFFLINE:
        yield None
        return
    settings = replace(state.settings, provider=asking.provider)
    async with (
        _kept(question.folder, state.journal.run_id) as journal,
        open_model(settings, state.catalog, journal) as model,
    ):
        yield Judge(state, _harness(state, journal, model))


@asynccontextmanager
async def _kept(folder: Path, run_id: str) -> AsyncIterator[Journal]:
    """The journal of what was judged anew of a run."""
    store, clock = SqliteStore(folder / state_directory.JUDGINGS), SystemClock()
    try:
        if run_id not in {run.run_id for run in await store.runs()}:
            await store.create(run_id, clock.now(), {})
        async with open_journal(
            run_id, store, clock, holder=this_process(), redact=make_redactor(os.environ)
        ) as journal:
            yield journal
    finally:
        store.close()


def _harness(state: ReviewState, journal: Journal, opened: OpenModel) -> AgentRuntime:
    """The run's own tools and rules, with a live model, over a journal apart."""
    recorded, old = state.runtime, state.runtime.executor
    executor = Executor(
        old.registry, old.policy, journal, nonce=old.nonce, observer=recorded.observer
    )
    guards = Guards(state.catalog.guards, detect_environment(), detect_author_tier(), journal)

    def choose(spec: AgentSpec) -> ModelChoice:
        # Without the next stages: the judge of the first one is what is measured.
        return replace(opened.choose_model(spec), next_stages=())

    return replace(
        recorded,
        model=guards.model(opened.model),
        executor=executor,
        journal=journal,
        choose_model=choose,
        outgoing=guards.outgoing(opened.model),
    )
