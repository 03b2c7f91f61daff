"""Approvals: what a person decided about a call that cannot be undone, and how long it holds.

A call that waits is a note ``asked/N/CALL`` in the journal; what a person says to it is a note
``approval/N/CALL``. A decision speaks of exactly one request: the digest of tool, arguments and the
state of the world that was shown. It is used up by the next thing that happens under the call's
key, so it cannot be used twice.
"""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct, to_builtins

from orchestrator.engine.canonical_json import digest
from orchestrator.engine.journal import APPROVAL, Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.ports import Clock, GuardedCall
from orchestrator.engine.types import Json
from orchestrator.errors import ApprovalPending, Denied, InputError

ASKED = "asked"
DEFAULT_VALID_SECONDS = 24 * 3600.0


class Decision(Struct, frozen=True):
    """A person's decision about a call.

    Attributes:
        request: digest of what it speaks of.
        who: by which name the person is known here.
        at, until: seconds since the epoch; it does not hold later than ``until``.
    """

    approved: bool
    request: str
    who: str
    at: float
    until: float


def request_digest(tool: str, arguments: Mapping[str, Json], world: str) -> str:
    """Digest of what an approval is bound to: tool, all arguments, state of the world."""
    return digest([tool, dict(arguments), world])


def pending_approvals(journal: Journal) -> dict[str, Mapping[str, Json]]:
    """The calls that wait for a person: call → what is asked, with its digest."""
    latest = {Key.parse(key).subject: body for key, body in journal.notes(ASKED).items()}
    return {call: body for call, body in latest.items() if not journal.recorded(call)}


def record_decision(
    journal: Journal, call: str, *, approved: bool, who: str, now: float, seconds: float
) -> Decision:
    """Record a person's decision about a call that waits.

    Args:
        seconds: how long it holds.

    Raises:
        InputError: no call of that name waits.
    """
    pending = pending_approvals(journal).get(call)
    if pending is None:
        known = ", ".join(pending_approvals(journal)) or "none"
        raise InputError(f"no call {call} waits for a person here; waiting: {known}")
    decision = Decision(approved, str(pending["request"]), who, now, now + seconds)
    journal.add_note(APPROVAL, to_builtins(decision), call)
    return decision


class RecordedApprovals:
    """An approver that reads recorded decisions, and stops the run where there is none.

    Args:
        world: says what a decision is bound to besides the call, such as the head commit's id.
    """

    def __init__(self, journal: Journal, clock: Clock, world: Callable[[], Awaitable[str]]) -> None:
        self._journal, self._clock, self._world = journal, clock, world

    async def approve(self, call: GuardedCall, ref: str) -> None:
        """Return if a person has approved exactly this call.

        Raises:
            Denied: a person has said no.
            ApprovalPending: nobody has decided yet, or what was said no longer holds.
        """
        world = await self._world()
        request = request_digest(call.tool.name, call.arguments, world)
        decision = self._journal.decisions.get(ref)
        if decision is not None and decision["request"] == request:
            if not decision["approved"]:
                raise Denied(f"{decision['who']} has said no to {call.tool.name}")
            if self._clock.now() <= decision["until"]:
                return
        why = "nobody has decided yet" if decision is None else "what was said no longer holds"
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
        raise ApprovalPending(self._journal.run_id, ref, call.tool.name, why)
