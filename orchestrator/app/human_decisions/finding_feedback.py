"""People's feedback on a run's findings: a note in its journal, outside of verdict and digest.

Feedback is a weak label (``memory.comment_feedback``): the person has seen the verdict.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

import anyio
import msgspec
from msgspec import Struct, to_builtins

from orchestrator.app.human_decisions.approvals import current_user
from orchestrator.app.memory.waiver_files import find_finding
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.stored_runs import parse_verdict
from orchestrator.app.runs.verdict_recording import VERDICT, has_ended
from orchestrator.engine.journal_keys import FEEDBACK
from orchestrator.engine.journal_rows import decodable
from orchestrator.engine.ports import Row, RunMeta, SystemClock
from orchestrator.errors import InputError
from orchestrator.stores.base import RunStore

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

    async def work(store: RunStore, run: RunMeta) -> FindingFeedback:
        async with state_directory.open_soon(store, run.run_id) as journal:
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
            await journal.flush()
            return new

    with state_directory.open_run(repo, run_id) as (store, run):
        return anyio.run(work, store, run)
