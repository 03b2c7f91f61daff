"""A person's decisions on a run: feedback on findings, raised limits, another outcome.

Feedback is a note in the journal, outside of verdict and digest. It is a weak label
(``memory.comment_feedback``): the person has seen the verdict. A grant is recorded with the name
before it applies. An override is for one head.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

import msgspec
from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from orchestrator.app.human_decisions.approvals import current_user
from orchestrator.app.memory.waiver_files import find_finding
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.stored_runs import parse_verdict
from orchestrator.app.runs.verdict_recording import VERDICT, has_ended
from orchestrator.app.types import ReviewOptions
from orchestrator.catalog.settings import RunBounds
from orchestrator.catalog.shared_literals import Outcome
from orchestrator.code_review.verdict.document_parts import Override
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.journal import IMPORTED, EffectResult, Journal
from orchestrator.engine.journal_keys import FEEDBACK, GRANT, Key
from orchestrator.engine.journal_rows import decodable
from orchestrator.engine.ports import Row, RunMeta, SystemClock
from orchestrator.errors import InputError
from orchestrator.stores.sql_store import RunStore

Said = Literal["useful", "not-useful", "fixed"]
SAID: tuple[Said, ...] = get_args(Said)


class FindingFeedback(Struct, frozen=True):
    """A person's feedback on a finding.

    Attributes:
        finding: its id in the run, ``F3``.
        identity: equal for the finding in all reviews of its change.
        at: when, in UTC, ISO 8601.
    """

    finding: str
    identity: str
    said: Said
    who: str
    at: str

    def __str__(self) -> str:
        return f"{self.finding} is {self.said.replace('-', ' ')}"


class FeedbackNote(Struct, frozen=True):
    """The body of a run's note: all feedback on its findings, the newest last.

    Attributes:
        message: the newest feedback in words, for timelines.
    """

    message: str
    feedback: tuple[FindingFeedback, ...]


_NOTE = msgspec.json.Decoder(FeedbackNote)


def read_feedback(row: Row | None) -> tuple[FindingFeedback, ...]:
    """All that was said in a run, the newest last; None: the run has no note of it.

    Raises:
        msgspec.DecodeError: the row is no such note.
    """
    return () if row is None else _NOTE.decode(decodable(row.body)).feedback


def newest_feedback(given: Sequence[FindingFeedback]) -> dict[str, FindingFeedback]:
    """Identity of a finding → what counts: the newest that was said of it."""
    return {one.identity: one for one in given}


def record_feedback(repo: Path | None, run_id: str, finding_id: str, said: Said) -> FindingFeedback:
    """Record what a person says of a finding; the same again is not recorded twice.

    Args:
        finding_id: ``F3``, or its fingerprint.

    Raises:
        RunNotFound: no run has that name.
        InputError: the run has not ended, or has no such finding.
        RunLocked: a process works on the run.
    """

    async def work(store: RunStore, run: RunMeta, journal: Journal) -> FindingFeedback:
        if not has_ended(journal):
            raise InputError(f"{run.run_id} has no final verdict yet; finish it first")
        row = await store.find(run.run_id, VERDICT)
        assert row is not None
        finding = find_finding(parse_verdict(row), finding_id)
        before = read_feedback(await store.find(run.run_id, FEEDBACK))
        who, newest = current_user(), newest_feedback(before).get(finding.identity)
        if newest is not None and (newest.said, newest.who) == (said, who):
            return newest
        at = datetime.fromtimestamp(SystemClock().now(), UTC).isoformat(timespec="seconds")
        new = FindingFeedback(finding.id, finding.identity, said, who, at)
        note = FeedbackNote(f"{new}, says {who}", (*before, new))
        journal.renew_note(FEEDBACK, to_builtins(note))
        return new

    return state_directory.decide_on(repo, run_id, work)


GRANTED = {f"max_{name}": name for name in ("tool_calls", "tokens", "minutes", "usd")}
"""Option of a review that a person may raise later → the bound that it sets."""


async def record_grant(journal: Journal, present: RunBounds, grant: Mapping[str, float]) -> None:
    """Record a person's grant before it is used.

    Args:
        present: the limits in force.
        grant: option → the new limit of the whole run.

    Raises:
        InputError: it raises no limit.
    """
    for option, value in grant.items():
        limit = getattr(present, GRANTED[option])
        if value <= limit:
            flag = option.replace("_", "-")
            raise InputError(
                f"--{flag} {value:g} raises nothing: the run's limit is {limit:g} already; name a "
                "higher one"
            )

    async def perform() -> EffectResult:
        return EffectResult({"who": current_user(), "at": SystemClock().now()})

    number = 1 + sum(Key.parse(key).part == GRANT for key, _ in journal.records())
    await journal.effect(Key(GRANT, number=number), dict(grant), perform)


def require_stopped_by_limit(verdict: Verdict) -> None:
    """Check that a finished run stopped at a limit, so that it can continue with a higher one."""
    if verdict.stop.reason != "budget":
        raise InputError(
            f"{verdict.run_id} is finished and did not stop at a limit ({verdict.stop.reason}); "
            "start a new review"
        )


def with_grants(options: ReviewOptions, journal: Journal) -> ReviewOptions:
    """The options of a review with what was granted since, in this state and not elsewhere."""
    granted: dict[str, float] = {}
    for text, record in journal.records():
        key = Key.parse(text)
        if key.part == IMPORTED:  # this machine does not know who granted it
            granted.clear()
        elif key.part == GRANT and record.ended:
            granted |= record.body["asked"]
    return replace(options, **granted)


def override_verdict(repo: Path | None, run_id: str, outcome: Outcome, reason: str) -> Verdict:
    """Record a person's outcome in addition to the computed one; returns the verdict with it.

    The computed outcome, the findings and the digest stay. A review of another head has none.

    Raises:
        RunNotFound: no run has that name.
        InputError: the run has no verdict yet, an incomplete one, or the same outcome already.
    """

    async def work(store: RunStore, run: RunMeta, journal: Journal) -> Verdict:
        known = journal.noted(VERDICT)
        if known is None:
            raise InputError(f"{run.run_id} has no verdict yet; finish it first")
        verdict = convert(json.loads(json.dumps(known)), Verdict)
        if verdict.status == "incomplete" and outcome == "merge":
            raise InputError(
                f"{run.run_id} is incomplete, and incomplete is never merge: close its gaps, "
                f"as diffcourt show {run.run_id} says"
            )
        present = verdict.override.verdict if verdict.override else verdict.verdict
        if outcome == present:
            raise InputError(
                f"the outcome of {run.run_id} is {outcome} already; name another with --verdict"
            )
        at = datetime.fromtimestamp(SystemClock().now(), UTC).isoformat(timespec="seconds")
        override = Override(outcome, verdict.change.head, current_user(), at, reason)
        verdict = replace(verdict, override=override)
        journal.renew_note(VERDICT, to_builtins(verdict))
        return verdict

    return state_directory.decide_on(repo, run_id, work)
