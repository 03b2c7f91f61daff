"""List the pending calls of a run that need approval; record a decision and who made it."""

import os
import pwd
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from orchestrator.app.runs import state_directory
from orchestrator.app.runs.verdict_recording import has_ended, require_not_ended
from orchestrator.app.types import is_program_run, review_options
from orchestrator.ci_systems import find_ci_system
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.change.git.repository_layout import find_repository
from orchestrator.code_review.change.worktree_snapshot import snapshot_worktree
from orchestrator.engine.approvals import (
    DEFAULT_VALID_SECONDS,
    Decision,
    approval_id,
    is_future,
    pending_approvals,
    record_decision,
)
from orchestrator.engine.journal import APPROVAL, Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.ports import RunMeta, SystemClock
from orchestrator.engine.types import Json
from orchestrator.errors import InputError, approve_command
from orchestrator.stores.sql_store import RunStore


class PendingCall(Struct, frozen=True):
    """A call that waits for a person's approval.

    Attributes:
        call: its key in the journal.
        approval: the short digest of what is requested, by which it is approved.
        request: agent, tool, arguments, level, and the digest of the request.
    """

    run_id: str
    call: str
    approval: str
    request: Mapping[str, Any]


ACTING_FOR = "DIFFCOURT_ACTING_FOR"
"""The variable that names the person for whom a page started this process."""

_person: ContextVar[str] = ContextVar("person", default="")


@contextmanager
def acting_for(person: str) -> Iterator[None]:
    """Record decisions in this context under a person's name and the user of this process.

    Args:
        person: the name with which the person is signed in; empty: the user of this process.
    """
    token = _person.set(person)
    try:
        yield
    finally:
        _person.reset(token)


def current_user() -> str:
    """The user of this process, the machine, and the user of the CI job, if any.

    It begins with the person for whom the process acts, if that is another.
    """
    own = _own_user()
    person = _person.get() or os.environ.get(ACTING_FOR, "").strip()
    return f"{person} (through {own})" if person else own


def _own_user() -> str:
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # a user without an entry in passwd
        name = f"user {uid}"
    system = find_ci_system(os.environ)
    claimed = os.environ.get(system.user, "") if system else ""
    ci = f" (according to CI: {claimed})" if claimed else ""
    return f"{name} on {socket.gethostname()}{ci}"


async def current_head(options: Mapping[str, Any], reviewed: str) -> str:
    """The present state of what is reviewed, to which an approval is bound in addition to the call.

    The head commit; for a work tree or a patch, a digest of the present files on disk.

    Args:
        reviewed: the head that it reviews; the result for a patch outside a repository.
    """
    repo = Path(options["repo"] or ".")
    if not (options["has_diff"] or options["worktree"] or options["staged"]):
        return await (await Git.open(repo)).commit(options["head"] or "HEAD")
    found = find_repository(repo)
    if found is None or found.work_tree is None:
        return reviewed
    git = await Git.open(repo)
    with tempfile.TemporaryDirectory() as scratch:
        _, tree, _ = await snapshot_worktree(git, repo, Path(scratch))
    return f"{reviewed}+{tree}"


def pending_calls(repo: Path | None, run_id: str) -> list[PendingCall]:
    """The calls of a run that wait for an approval."""

    async def look(_: RunStore, run: RunMeta, journal: Journal) -> list[PendingCall]:
        return [] if has_ended(journal) else _pending(run.run_id, pending_approvals(journal))

    return state_directory.decide_on(repo, run_id, look)


def _pending(run_id: str, requests: Mapping[str, Mapping[str, Json]]) -> list[PendingCall]:
    return [
        PendingCall(run_id, call, approval_id(run_id, call, str(body["request"])), body)
        for call, body in requests.items()
    ]


def decide_call(
    repo: Path | None,
    run_id: str,
    call: str,
    *,
    approved: bool,
    shown: Callable[[PendingCall], str],
    seconds: float = DEFAULT_VALID_SECONDS,
    who: str = "",
    reason: str = "",
) -> tuple[PendingCall, Decision]:
    """Record a person's decision on a pending call; returns both.

    Args:
        call: the short digest of the request; or the call's key, where the run is named by its id.
        shown: describes a call in one line, for an error.
        seconds: how long the decision is valid.
        who: the person; empty for the operating system's user.
        reason: why, for the journal; the agent of a denied call is told.

    Raises:
        RunNotFound: no run has that name.
        InputError: no such call is pending, ``latest`` may be another run than the one that was
            listed, the head has moved since the call was requested, somebody else has decided, or
            the run has ended.
        RunLocked: a process works on the run.
    """

    async def work(_: RunStore, run: RunMeta, journal: Journal) -> tuple[PendingCall, Decision]:
        require_not_ended(journal)
        found = _find_pending(journal, call)
        if run_id == state_directory.LATEST and call != found.approval:
            command = approve_command(run.run_id, found.approval, repo)
            command = command if approved else command.replace("approve", "deny", 1)
            raise InputError(
                f"latest is now {run.run_id}, where {shown(found)}; if you mean that call, "
                f"type: {command}"
            )
        await _require_same_world(run, found)
        name, at = who or current_user(), SystemClock().now()
        _require_first(journal, found, name, at)
        decision = record_decision(
            journal, found.call, approved=approved, who=name, now=at, seconds=seconds, reason=reason
        )
        return found, decision

    return state_directory.decide_on(repo, run_id, work)


def _find_pending(journal: Journal, call: str) -> PendingCall:
    """The pending call of that key or digest."""
    waiting = _pending(journal.run_id, pending_approvals(journal))
    for candidate in waiting:
        if call in {candidate.approval, candidate.call}:
            return candidate
    known = ", ".join(f"{one.approval} ({one.call})" for one in waiting) or "none"
    before = _earlier_decision(journal, call)
    raise InputError(f"no call {call} is pending in {journal.run_id}{before}; pending: {known}")


def _require_first(journal: Journal, pending: PendingCall, who: str, now: float) -> None:
    """Check that nobody else has decided: the first decision counts."""
    known = journal.decisions.get(pending.call)
    if known is None or known["request"] != pending.request["request"]:
        return
    if is_future(known, now) or now > known["until"]:
        return
    if known["who"] != who:
        raise InputError(
            f"{_describe_decision(known)}; only they can change that, until the run continues"
        )


def _earlier_decision(journal: Journal, call: str) -> str:
    """The decision on a call that no longer waits, to append to an error."""
    for key, decision in journal.notes(APPROVAL).items():
        subject = Key.parse(key).subject
        if call in {subject, approval_id(journal.run_id, subject, str(decision["request"]))}:
            return f": {_describe_decision(decision)}"
    return ""


def _describe_decision(decision: Mapping[str, Any]) -> str:
    at = datetime.fromtimestamp(decision["at"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{decision['who']} {'approved' if decision['approved'] else 'denied'} it at {at}"


async def _require_same_world(run: RunMeta, pending: PendingCall) -> None:
    """Check that the reviewed state is still that for which the call was requested."""
    if is_program_run(run):
        return
    then = str(pending.request["world"])
    current = await current_head(review_options(run), then.partition("+")[0])
    if current == then:
        return
    if "+" in then:
        raise InputError(
            "files of the work tree have changed since this was requested; start a new review"
        )
    raise InputError(
        f"the head has moved from {then[:12]} to {current[:12]} since this was requested; "
        "start a new review"
    )
