"""Record what a person says of a finding, in the journal of a run that has ended."""

from datetime import UTC, datetime
from pathlib import Path

import anyio
from msgspec import to_builtins

from orchestrator.app.human_decisions.approvals import current_user
from orchestrator.app.human_decisions.feedback_notes import (
    FeedbackNote,
    FindingFeedback,
    Said,
    newest_feedback,
    read_feedback,
)
from orchestrator.app.memory.waiver_files import find_finding
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.stored_runs import parse_verdict
from orchestrator.app.runs.verdict_recording import VERDICT, has_ended
from orchestrator.engine.journal_keys import FEEDBACK
from orchestrator.engine.ports import RunMeta, SystemClock
from orchestrator.errors import InputError
from orchestrator.stores.base import RunStore


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
        async with state_directory.open_writing(store, run.run_id) as journal:
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
