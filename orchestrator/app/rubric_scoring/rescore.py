"""Scores recorded runs with another rubric by replay: no agent or tool runs again.

    copy of the run's rows  →  the flow over the copy, in replay only  →  its evidence
    evidence + new rubric   →  measured criteria by code; judged ones as recorded, or judged again
                               (repeatedly; with evidence reversed or padded)

New judgings are kept in a separate journal (``judgings.db``), so that each is paid for once. The
run's own journal is only read.
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, field
from msgspec.structs import replace

from orchestrator.app.check_worker_startup import new_pool
from orchestrator.app.event_loop import blocking
from orchestrator.app.model_opening import open_model
from orchestrator.app.policy_sources import (
    detect_author_tier,
    detect_environment,
    load_policy,
    read_layers,
)
from orchestrator.app.previous_reviews import noted_change_name, noted_hand_over
from orchestrator.app.process_secrets import make_redactor
from orchestrator.app.review_inputs.copied_inputs import copy_given_files
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.verdict_recording import VERDICT
from orchestrator.app.types import ReviewOptions, review_options
from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.catalog.unknown_name_checks import JUDGE
from orchestrator.code_review.agents import judging
from orchestrator.code_review.agents.guard_placement import Guards
from orchestrator.code_review.agents.skill_requirements import skill_requirements
from orchestrator.code_review.change.types import change_from_json
from orchestrator.code_review.findings.evidence_from_journal import answers
from orchestrator.code_review.findings.measured_criteria import score_measured
from orchestrator.code_review.review_flow import FLOW
from orchestrator.code_review.review_setup import OpenModel, open_review
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine import state_machine
from orchestrator.engine.agent_context import AgentRuntime
from orchestrator.engine.agent_tasks import Task, run_task
from orchestrator.engine.budget import Account
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.executor import Executor
from orchestrator.engine.journal import Journal, open_journal
from orchestrator.engine.journal_keys import INTAKE, Key
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.ports import RunMeta, SystemClock
from orchestrator.engine.rubric_scoring import CriterionMark, Scorecard, score_rubric
from orchestrator.engine.types import Criterion, Rubric
from orchestrator.errors import DiffcourtError, InputError, StoreError
from orchestrator.providers.offline import OfflineModel
from orchestrator.stores.sql_store import RunStore
from orchestrator.stores.sqlite_journal import MemoryStore, SqliteStore
from orchestrator.stores.writer_identity import this_process
from orchestrator.tuning.file_formats.item_files import name_judge
from orchestrator.tuning.file_formats.rubric_file import describe_wording, digest_criteria

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


PROBES: Mapping[str, Callable[[Evidence], Evidence]] = {
    "reversed": reverse_evidence,
    "padded": pad_evidence,
}


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


class Rescored(Struct, frozen=True):
    """A run scored with another rubric.

    Attributes:
        card: the new score, with recorded marks of judged criteria whose texts are unchanged.
        reused: judged criteria whose recorded score is kept.
        recorded_judge: the judge of the recorded scores.
        judge: the judge of new scores: model, prompt and rubric; empty without new scores.
        change_name: the name of its pull request or branch; may be empty.
        repeats: the judge's marks, one mapping per repetition.
        probes: probe → its marks.
        at: when the run began, ISO 8601.
    """

    verdict: Verdict
    card: Scorecard
    reused: tuple[str, ...]
    recorded_judge: str = ""
    judge: str = ""
    change_name: str = ""
    repeats: tuple[Scores, ...] = ()
    probes: Mapping[str, Scores] = field(default_factory=dict)
    at: str = ""


class NotRescored(Struct, frozen=True):
    """A run that could not be scored, and why."""

    run_id: str
    why: str


@blocking
async def rescore(
    repo: Path | None, names: Sequence[str], rubric: Rubric, options: JudgeOptions = NO_JUDGE
) -> list[Rescored | NotRescored]:
    """Score recorded runs with a rubric.

    Args:
        names: run names as ``diffcourt show`` accepts them; none for every finished run, oldest
            first.

    Raises:
        RunNotFound: no run has such a name.
        InputError: there is no such provider, or its key is missing.
    """
    directory = state_directory.state_dir(repo)
    out: list[Rescored | NotRescored] = []
    with state_directory.open_store(repo) as store:
        runs = await store.runs()
        chosen = [state_directory.find_run(name, runs) for name in names] if names else runs[::-1]
        for run in {r.run_id: r for r in chosen}.values():
            if not names and await store.find(run.run_id, VERDICT) is None:
                continue
            try:
                async with _replay(store, run) as (state, verdict):
                    done = await _score_run(state, verdict, rubric, directory, options)
                    at = datetime.fromtimestamp(run.started, UTC).isoformat(timespec="seconds")
                    out.append(replace(done, at=at))
            except InputError:
                raise
            except DiffcourtError as error:
                out.append(NotRescored(run.run_id, str(error)))
    return out


@asynccontextmanager
async def _replay(store: RunStore, run: RunMeta) -> AsyncIterator[tuple[ReviewState, Verdict]]:
    """A finished run's final state, replayed from a copy of its rows.

    Raises:
        StoreError: it is not finished, or its replay gives another score.
        ReplayMismatch: rules or agents have changed since the run.
    """
    clock = SystemClock()
    copy = MemoryStore(clock)
    await copy.restore(run, await store.rows(run.run_id))
    holder = this_process()
    async with open_journal(run.run_id, copy, clock, holder=holder, replay_only=True) as journal:
        known, taken_in = journal.noted(VERDICT), journal.outcomes(INTAKE).get(INTAKE)
        if known is None or taken_in is None:
            raise StoreError("no verdict yet; finish the run: diffcourt resume")
        verdict, change = convert(known, Verdict), change_from_json(taken_in)
        if verdict.stop.reason == "cancelled":
            raise StoreError("it was cancelled, so there is no complete review to score")
        options = ReviewOptions.of_meta(review_options(run), None)
        policy = load_policy(await read_layers(change), options)
        model = OpenModel(OfflineModel())
        async with (
            new_pool() as pool,
            open_review(
                policy,
                change,
                journal,
                model=model,
                pool=pool,
                given=await copy_given_files(
                    options,
                    policy.settings,
                    change,
                    journal,
                    pool=pool,
                    root=Path(),
                    scratch=Path(),
                ),
                handed_over=noted_hand_over(journal),
            ) as state,
        ):
            await state_machine.run(FLOW, state, journal, ignore_event)
            _require_same_score(state.scorecard, verdict)
            yield state, verdict


def _require_same_score(card: Scorecard | None, verdict: Verdict) -> None:
    """Require the replay's scores to equal the verdict's."""
    if card is None:
        raise StoreError("the change is empty, so nothing was scored")
    recorded = {c.id: c.score for c in verdict.score.criteria}
    total = None if card.total is None else round(card.total, 4)
    if total != verdict.score.total or recorded != {n: m.score for n, m in card.marks.items()}:
        raise StoreError("the replay gives a different score than the verdict")


async def _score_run(
    state: ReviewState, verdict: Verdict, rubric: Rubric, directory: Path, options: JudgeOptions
) -> Rescored:
    paths = [file.path for file in state.given.workspace.change.files]
    recorded = await _read_recorded_marks(state, rubric)
    marks = {
        **score_measured(
            state.synthesis,
            paths,
            state.checks,
            state.calls(),
            state.team(),
            skill_requirements(state),
        ),
        **recorded,
    }
    criteria = judging.judged_criteria(rubric)
    missing = [c for c in criteria if c.id not in recorded]
    name = noted_change_name(state.journal)
    # A verdict names only all models of its run.
    calls = ((Key.parse(key), value) for key, value in state.journal.outcomes().items())
    models = {v["model"] for key, v in calls if key.step == "model" and key.part == "judge"}
    old = name_judge(sorted(models), state.policy_digests)
    async with open_judge(state, options.provider, directory) as judge_:
        if judge_ is None or not criteria:
            card = score_rubric(
                rubric, marks, asked=bool(state.scorecard and state.scorecard.asked)
            )
            return Rescored(verdict, card, tuple(recorded), old, "", name)
        if missing:
            marks |= await judge_.score(missing)
        repeats = [await judge_.score(criteria, number=n + 1) for n in range(options.repeat)]
        names = PROBES if options.probes else ()
        probes = {name: await judge_.score(criteria, name) for name in names}
        other = digest_criteria(rubric) if missing else ""
        asked = judge_.model and name_judge([judge_.model], state.policy_digests, other)
    card = score_rubric(rubric, marks, asked=True)
    return Rescored(verdict, card, tuple(recorded), old, asked, name, tuple(repeats), probes)


async def _read_recorded_marks(state: ReviewState, rubric: Rubric) -> dict[str, CriterionMark]:
    """The recorded marks of judged criteria whose text and judge are unchanged."""
    outcome = state.iteration.judged
    if outcome is None or outcome.status != "ok" or dict(rubric.judge) != dict(state.rubric.judge):
        return {}
    known = judging.citable_sources(state, state.answers())
    marks = await judging.read_marks(judging.judged_criteria(state.rubric), outcome, known)
    old = {c.id: describe_wording(c) for c in judging.judged_criteria(state.rubric)}
    return {
        c.id: marks[c.id]
        for c in judging.judged_criteria(rubric)
        if old.get(c.id) == describe_wording(c)
    }
