"""Judges a recorded review again: repeatedly, and with perturbed evidence (reversed, padded)."""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.app.model_opening import open_model
from orchestrator.app.policy_sources import detect_author_tier, detect_environment
from orchestrator.app.process_secrets import make_redactor
from orchestrator.app.runs import state_directory
from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.catalog.unknown_name_checks import JUDGE
from orchestrator.code_review.agents import judging
from orchestrator.code_review.agents.guard_placement import Guards
from orchestrator.code_review.findings.evidence_from_journal import answers
from orchestrator.code_review.review_setup import OpenModel
from orchestrator.code_review.review_state import ReviewState
from orchestrator.engine.agent_context import AgentRuntime
from orchestrator.engine.agent_tasks import Task, run_task
from orchestrator.engine.budget import Account
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.executor import Executor
from orchestrator.engine.journal import Journal, open_journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.rubric_scoring import CriterionMark
from orchestrator.engine.types import Criterion
from orchestrator.stores.sqlite_journal import SqliteStore
from orchestrator.stores.writer_identity import this_process

AS_IS = "as-is"
PADDING = " ".join(
    ["This sentence says nothing of the change; it is here to make the text longer."] * 5
)

Scores = Mapping[str, CriterionMark]
Evidence = dict[str, Any]


def reverse_evidence(evidence: Evidence) -> Evidence:
    """The same evidence with every list in reverse order."""
    return {
        name: value[::-1] if isinstance(value, list) else value for name, value in evidence.items()
    }


def pad_evidence(evidence: Evidence) -> Evidence:
    """The same evidence with neutral text appended to every finding, and as a remark."""
    findings = [
        {**finding, "detail": f"{finding['detail']} {PADDING}".strip()}
        for finding in evidence["findings"]
    ]
    return {**evidence, "findings": findings, "remark": PADDING}


PROBES: Mapping[str, Callable[[Evidence], Evidence]] = MappingProxyType(
    {"reversed": reverse_evidence, "padded": pad_evidence}
)


class JudgeOptions(Struct, frozen=True):
    """Whether and how a recorded review is judged again.

    Attributes:
        provider: serves the judge; ``offline`` calls no model.
        repeat: number of repetitions per review; 0 judges only criteria without a recorded score.
        probes: also judge with reversed and with padded evidence.
    """

    provider: str = OFFLINE
    repeat: int = 0
    probes: bool = False


NO_JUDGE = JudgeOptions()


class Judge:
    """A model that judges one recorded review. Use ``open_judge``."""

    def __init__(self, state: ReviewState, runtime: AgentRuntime) -> None:
        self._state, self._runtime = state, runtime
        bounds = state.given.settings.run_bounds
        self._budget = Account("judging again", bounds)
        self.model = ""  # that was asked

    async def score(
        self, criteria: Sequence[Criterion], probe: str = AS_IS, number: int = 1
    ) -> Scores:
        """The judge's marks."""
        evidence = await judging.judge_evidence(self._state)
        if probe in PROBES:
            evidence = PROBES[probe](evidence)
        task = judging.build_judge_task(self._state, criteria, Key(REJUDGE), evidence)
        keyed = self._assign_key(task, probe, number)
        choice = self._runtime.choose_model(task.spec)
        self.model = choice.model or self._runtime.model.name
        result = await run_task(keyed, self._runtime, self._budget)
        nonce = self._runtime.executor.nonce
        quoted = partial(answers, self._runtime.journal, nonce, [keyed.key])
        return await judging.read_marks(
            criteria, result, judging.citable_sources(self._state, quoted)
        )

    def _assign_key(self, task: Task, probe: str, number: int) -> Task:
        """The task under a key made from everything on which its result depends.

        A failed attempt is repeated under the next key.
        """
        model, choice = self._runtime.model.name, self._runtime.choose_model(task.spec)
        request = digest([task.spec.digest, model, choice.model, choice.effort, task.brief])
        known, attempt = self._runtime.journal.outcomes(), 1
        while True:
            key = Key(REJUDGE, name=f"{request}.{probe}.{number}.{attempt}")
            if known.get(str(key), _OK)["status"] == "ok":
                return replace(task, key=key)
            attempt += 1


_OK = {"status": "ok"}
REJUDGE = "rejudge"


@asynccontextmanager
async def open_judge(
    state: ReviewState, provider: str, directory: Path
) -> AsyncIterator[Judge | None]:
    """The judge of a recorded review; None with the ``offline`` provider.

    Raises:
        InputError: the provider is unknown, or its key is missing.
        StoreError: another process is judging the same run.
    """
    if provider == OFFLINE:
        yield None
        return
    settings, catalog = replace(state.given.settings, provider=provider), state.given.catalog
    async with (
        open_judgings(directory, state.journal.run_id) as journal,
        open_model(settings, catalog, journal, agents=[catalog.agents[JUDGE]]) as model,
    ):
        journal.redact.add_filter(state.journal.redact)
        yield Judge(state, _build_runtime(state, journal, model))


@asynccontextmanager
async def open_judgings(directory: Path, run_id: str) -> AsyncIterator[Journal]:
    """The journal of later judgings: of a run, or of labeled items."""
    clock = SystemClock()
    with closing(SqliteStore(directory / state_directory.JUDGINGS)) as store:
        if run_id not in {run.run_id for run in await store.runs()}:
            await store.create(run_id, clock.now(), {})
        async with open_journal(
            run_id, store, clock, holder=this_process(), redact=make_redactor(os.environ)
        ) as journal:
            yield journal


def _build_runtime(state: ReviewState, journal: Journal, opened: OpenModel) -> AgentRuntime:
    """The run's own tools and rules, with a live model, over a separate journal."""
    recorded, old = state.runtime, state.runtime.executor
    executor = Executor(
        old.registry, old.policy, journal, nonce=old.nonce, observer=recorded.observer
    )
    guards = Guards(state.given.catalog.guards, detect_environment(), detect_author_tier(), journal)

    return replace(
        recorded,
        model=guards.model(opened.model),
        executor=executor,
        journal=journal,
        choose_model=opened.choose_model,
        outgoing=guards.outgoing(opened.model),
    )
