"""Approvals: a person's decisions on calls that cannot be undone, and how long they are valid.

A call that waits is a note ``asked/N/CALL`` in the journal; what a person decides is a note
``approval/N/CALL``. A decision is for exactly one request: the digest of tool, arguments and the
state of the world that was shown. The next row under the call's key uses it up, so it cannot be
used twice. An approval is also claimed outside the journal before the call starts, because somebody
could restore an older copy of the journal.

Clocks can be put back, so time alone does not decide: that an approval was found to have expired is
a note ``expired/N/CALL`` and a claim, and one from the future is refused.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct, to_builtins

from orchestrator.engine.canonical_json import digest
from orchestrator.engine.journal import APPROVAL, Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.ports import Clock, GuardedCall, UsedApprovals
from orchestrator.engine.types import Json
from orchestrator.errors import ApprovalPending, Denied, InputError, StoreError

ASKED = "asked"
EXPIRED = "expired"
DEFAULT_VALID_SECONDS = 24 * 3600.0
SKEW_SECONDS = 60.0
"""By so much the clock of who approves may be ahead of the clock of who performs the call."""


class Decision(Struct, frozen=True):
    """A person's decision about a call.

    Attributes:
        id: unique; identifies a copy of the decision.
        request: digest of what it is for.
        who: the name of the person.
        at, until: seconds since the epoch; it is not valid later than ``until``.
        reason: why; the agent of a denied call is told. May be empty.
    """

    id: str
    approved: bool
    request: str
    who: str
    at: float
    until: float
    reason: str = ""


def request_digest(tool: str, arguments: Mapping[str, Json], world: str) -> str:
    """Digest of what an approval is bound to: tool, all arguments, state of the world."""
    return digest([tool, dict(arguments), world])


def approval_id(run_id: str, call: str, request: str) -> str:
    """A short digest that names one request of one call of one run, for a person to type."""
    return digest([run_id, call, request])[:12]


def pending_approvals(journal: Journal) -> dict[str, Mapping[str, Json]]:
    """The calls that wait for a person: call → what is asked, with its digest."""
    latest = {Key.parse(key).subject: body for key, body in journal.notes(ASKED).items()}
    return {call: body for call, body in latest.items() if not journal.recorded(call)}


def is_future(decision: Mapping[str, Any], now: float) -> bool:
    """Whether a decision was made later than now, by more than two clocks may differ."""
    return bool(now < decision["at"] - SKEW_SECONDS)


def record_decision(
    journal: Journal,
    call: str,
    *,
    approved: bool,
    who: str,
    now: float,
    seconds: float,
    reason: str = "",
) -> Decision:
    """Record a person's decision about a call that waits.

    Args:
        seconds: how long it is valid.
    """
    pending = pending_approvals(journal).get(call)
    if pending is None:
        known = ", ".join(pending_approvals(journal)) or "none"
        raise InputError(f"no call {call} waits for a person here; waiting: {known}")
    until, request = now + seconds, str(pending["request"])
    decision = Decision(secrets.token_hex(16), approved, request, who, now, until, reason)
    journal.add_note(APPROVAL, to_builtins(decision), call)
    return decision


class RecordedApprovals:
    """An approver that reads recorded decisions, and stops the run if there is none.

    Args:
        world: what a decision is bound to besides the call, such as the head commit's id.
        used: where used approvals are recorded outside the journal; None for a journal that is
            kept in memory.
    """

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        world: Callable[[], Awaitable[str]],
        used: UsedApprovals | None = None,
    ) -> None:
        self._journal, self._clock, self._world, self._used = journal, clock, world, used

    async def approve(self, call: GuardedCall, ref: str) -> None:
        """Return if a person has approved exactly this call, and use the approval up.

        Raises:
            Denied: a person has denied it.
            ApprovalPending: there is no decision yet, or it has expired.
            StoreError: the use of the approval cannot be recorded.
        """
        world = await self._world()
        request = request_digest(call.tool.name, call.arguments, world)
        why = await self._why_not(call, ref, request)
        if not why:
            return
        pending: dict[str, Json] = {
            "agent": call.agent,
            "tool": call.tool.name,
            "arguments": self._journal.redact.json(dict(call.arguments)),
            "level": call.tool.level.name,
            "world": world,
            "request": request,
        }
        if pending_approvals(self._journal).get(ref) != pending:
            self._journal.add_note(ASKED, pending, ref)
            await self._journal.flush()
        short = approval_id(self._journal.run_id, ref, request)
        raise ApprovalPending(
            self._journal.run_id, short, call.tool.name, why, call=ref, arguments=call.arguments
        )

    async def _why_not(self, call: GuardedCall, ref: str, request: str) -> str:
        """Why the call may not start, empty when it may."""
        decided = self._journal.decisions.get(ref)
        if decided is None:
            return "nobody has decided yet"
        if decided["request"] != request:
            return "the decision is no longer valid: it was for another request"
        if not decided["approved"]:
            why = f": {reason}" if (reason := decided.get("reason")) else ""
            raise Denied(f"{decided['who']} has denied {call.tool.name}{why}")
        now = self._clock.now()
        if is_future(decided, now):
            return "the approval is not valid: by this machine's clock it was given in the future"
        expired = {body["id"] for body in self._journal.notes(EXPIRED).values()}
        if decided["id"] in expired or now > decided["until"]:
            if decided["id"] not in expired:
                await self._record_expiry(decided["id"], ref)
            return "the approval is no longer valid: it has expired"
        if self._used is not None and not await self._used.claim(decided["id"]):
            return (
                "the approval was already used, so the call may have happened: check, and "
                "approve it again only if it did not"
            )
        return ""

    async def _record_expiry(self, decision: str, ref: str) -> None:
        """Record that an approval has expired, here and where older journals are recognized."""
        self._journal.add_note(EXPIRED, {"id": decision}, ref)
        await self._journal.flush()
        if self._used is not None:
            with suppress(StoreError):  # without the log, no call that needs it can start either
                await self._used.claim(decision)
