"""Overrides: a person's decision against a computed outcome, with name and reason, for one head."""

import json
from datetime import UTC, datetime
from pathlib import Path

import anyio
from msgspec import convert, to_builtins
from msgspec.structs import replace

from orchestrator.app.human_decisions.approvals import current_user
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.verdict_recording import VERDICT
from orchestrator.catalog.shared_literals import Outcome
from orchestrator.code_review.verdict.document_parts import Override
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.ports import RunMeta, SystemClock
from orchestrator.errors import InputError
from orchestrator.stores.base import RunStore


def override_verdict(repo: Path | None, run_id: str, outcome: Outcome, reason: str) -> Verdict:
    """Record a person's outcome in addition to the computed one; returns the verdict with it.

    The computed outcome, the findings and the digest stay. A review of another head has none.

    Raises:
        RunNotFound: no run has that name.
        InputError: the run has no verdict yet, an incomplete one, or the same outcome already.
    """

    async def work(store: RunStore, run: RunMeta) -> Verdict:
        async with state_directory.open_soon(store, run.run_id) as journal:
            known = journal.noted(VERDICT)
            if known is None:
                raise InputError(f"{run.run_id} has no verdict yet; finish it first")
            verdict = convert(json.loads(json.dumps(known)), Verdict)
            if verdict.status == "incomplete" and outcome == "merge":
                raise InputError(
                    f"{run.run_id} is incomplete, and incomplete is never merge: review what is "
                    "missing, or exclude it in base"
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
            await journal.flush()
            return verdict

    with state_directory.open_run(repo, run_id) as (store, run):
        return anyio.run(work, store, run)
