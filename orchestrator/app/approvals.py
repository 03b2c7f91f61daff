"""List the pending irreversible calls of a run; record a decision, and who made it."""

import getpass
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from orchestrator.app import state_directory
from orchestrator.app.types import is_program_run, review_options
from orchestrator.code_review.change.git.commands import Git
from orchestrator.engine.approvals import (
    DEFAULT_VALID_SECONDS,
    Decision,
    pending_approvals,
    record_decision,
)
from orchestrator.engine.ports import RunMeta, SystemClock
from orchestrator.engine.types import Json
from orchestrator.errors import InputError
from orchestrator.stores.base import RunStore


def current_user() -> str:
    """The login name of the user who started this command, and the name of the machine."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a user without an entry in passwd; OSError from Python 3.13
        name = f"user {os.getuid()}"
    return f"{name} on {socket.gethostname()}"


async def current_head(options: Mapping[str, Any], reviewed: str) -> str:
    """The present head commit of a review, to which an approval is bound besides the call.

    Args:
        reviewed: the head that it reviews; for a patch or a work tree it is also the present one.
    """
    if options["has_diff"] or options["worktree"]:
        return reviewed
    git = await Git.open(Path(options["repo"] or "."))
    return await git.commit(options["head"] or "HEAD")


def pending_calls(repo: Path | None, run_id: str) -> dict[str, Mapping[str, Json]]:
    """The calls of a run that wait for an approval.

    Raises:
        RunNotFound: no run has that name.
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
    """Record the user's decision on a pending call, under their login name.

    Args:
        seconds: how long the decision is valid.

    Raises:
        RunNotFound: no run has that name.
        InputError: no such call is pending, or the head has moved since it was reviewed.
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
                        "requested; start a new review"
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
