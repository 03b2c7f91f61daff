"""A person's word on a call that waits: the human path of what cannot be undone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from orchestrator.app import state_directory
from orchestrator.app.current_user import current_user
from orchestrator.app.types import is_program_run, review_options
from orchestrator.engine.approvals import (
    DEFAULT_VALID_SECONDS,
    Decision,
    pending_approvals,
    record_decision,
)
from orchestrator.engine.ports import RunMeta, SystemClock
from orchestrator.engine.types import Json
from orchestrator.errors import InputError
from orchestrator.review.change.git.commands import Git
from orchestrator.stores.base import RunStore


async def current_head(options: Mapping[str, Any], reviewed: str) -> str:
    """The head of a review as it stands now: what an approval is bound to besides the call.

    Args:
        options: what the review was asked for.
        reviewed: the head that it reviews; of a patch or a work tree that is all there is.
    """
    if options["has_diff"] or options["worktree"]:
        return reviewed
    git = await Git.open(Path(options["repo"] or "."))
    return await git.commit(options["head"] or "HEAD")


def pending_calls(repo: Path | None, run_id: str) -> dict[str, Mapping[str, Json]]:
    """The calls of a run that wait for a person.

    Raises:
        RunNotFound: there is none of that name.
    """

    async def look(store: RunStore, run: RunMeta) -> dict[str, Mapping[str, Json]]:
        async with state_directory.open_writing(store, run.run_id) as journal:
            return pending_approvals(journal)

    with state_directory.open_run(state_directory.state_dir(repo), run_id) as (store, run):
        return anyio.run(look, store, run)


def decide_call(
    repo: Path | None,
    run_id: str,
    call: str,
    *,
    approved: bool,
    seconds: float = DEFAULT_VALID_SECONDS,
) -> Decision:
    """Record what a person says to a call, under the name that the system knows them by.

    Args:
        seconds: how long it holds.

    Raises:
        RunNotFound: there is none of that name.
        InputError: no such call waits, or the head has moved since it was reviewed.
    """

    async def work(store: RunStore, run: RunMeta) -> Decision:
        async with state_directory.open_writing(store, run.run_id) as journal:
            call_asked = pending_approvals(journal).get(call)
            if call_asked is not None:
                reviewed = str(call_asked["world"])
                now = reviewed
                if not is_program_run(run):
                    now = await current_head(review_options(run), reviewed)
                if now != reviewed:
                    raise InputError(
                        f"the head has moved from {reviewed[:12]} to {now[:12]} since this was "
                        "asked; start a new review of it"
                    )
            who = current_user()
            at = SystemClock().now()
            decision = record_decision(
                journal, call, approved=approved, who=who, now=at, seconds=seconds
            )
            await journal.flush()
            return decision

    with state_directory.open_run(state_directory.state_dir(repo), run_id) as (store, run):
        return anyio.run(work, store, run)
