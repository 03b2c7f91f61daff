"""Guards of tool calls: rate limits, repetition, sensitive operations."""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from orchestrator.engine.journal_rows import GuardWarning
from orchestrator.engine.ports import Guard, GuardedCall, Ruling
from orchestrator.errors import GuardRefused

ALLOW = Ruling()


class RateGuard:
    """Limits the calls of a tool per run and per minute.

    Args:
        per_run, per_minute: tool → limit; ``*`` stands for any other tool.
        now: seconds, any origin.
    """

    name = "rate"

    def __init__(
        self, per_run: Mapping[str, int], per_minute: Mapping[str, int], now: Callable[[], float]
    ) -> None:
        self._per_run, self._per_minute, self._now = per_run, per_minute, now
        self._count: Counter[str] = Counter()
        self._recent: dict[str, deque[float]] = {}

    def check(self, call: GuardedCall) -> Ruling:
        """Block a call over either limit."""
        tool = call.tool.name
        limit = self._per_run.get(tool, self._per_run.get("*"))
        if limit is not None and self._count[tool] >= limit:
            return Ruling("block", f"{tool} was already called {limit} times in this run")
        limit = self._per_minute.get(tool, self._per_minute.get("*"))
        recent = self._recent.setdefault(tool, deque())
        while recent and recent[0] <= self._now() - 60:
            recent.popleft()
        if limit is not None and len(recent) >= limit:
            return Ruling("block", f"{tool} was called {limit} times within a minute")
        return ALLOW

    def admitted(self, call: GuardedCall) -> None:
        """Count a call that goes ahead."""
        self._count[call.tool.name] += 1
        if not call.replayed:
            self._recent.setdefault(call.tool.name, deque()).append(self._now())

    def withdrawn(self, call: GuardedCall) -> None:
        """Uncount a call for the run; the attempt still counts for its minute."""
        self._count[call.tool.name] -= 1


class RepetitionGuard:
    """Limits how often an agent makes the same call with the same arguments."""

    name = "repetition"

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._seen: Counter[tuple[str, str]] = Counter()

    def check(self, call: GuardedCall) -> Ruling:
        """Block the call once it has been made ``limit`` times."""
        if self._seen[call.agent, call.fingerprint] >= self._limit:
            times = "once" if self._limit == 1 else f"{self._limit} times"
            return Ruling(
                "block",
                f"{call.tool.name} was already called {times} with these arguments; "
                "its result will not differ",
            )
        return ALLOW

    def admitted(self, call: GuardedCall) -> None:
        """Count a call that goes ahead."""
        self._seen[call.agent, call.fingerprint] += 1

    def withdrawn(self, call: GuardedCall) -> None:
        """Uncount a call that did not go ahead."""
        self._seen[call.agent, call.fingerprint] -= 1


class SensitiveGuard:
    """Refuses tools that carry a sensitive tag."""

    name = "sensitive"

    def __init__(self, tags: frozenset[str]) -> None:
        self._tags = tags

    def check(self, call: GuardedCall) -> Ruling:
        """Block a tool that carries one of the tags."""
        hit = sorted(self._tags & call.tool.tags)
        if hit:
            return Ruling("block", f"{call.tool.name} is a sensitive operation ({', '.join(hit)})")
        return ALLOW

    def admitted(self, call: GuardedCall) -> None:
        """Do nothing: this guard keeps no state."""

    def withdrawn(self, call: GuardedCall) -> None:
        """Do nothing: this guard keeps no state."""


class SofterGuard:
    """A guard that warns, or asks a person to confirm, if the wrapped guard would block."""

    def __init__(self, guard: Guard, action: Literal["warn", "confirm"]) -> None:
        self.name, self._guard = guard.name, guard
        self._action: Literal["warn", "confirm"] = action
        self.admitted, self.withdrawn = guard.admitted, guard.withdrawn

    def check(self, call: GuardedCall) -> Ruling:
        """Replace the wrapped guard's block by this guard's action."""
        ruling = self._guard.check(call)
        return replace(ruling, action=self._action) if ruling.action == "block" else ruling


def apply_guards(
    guards: Sequence[Guard], call: GuardedCall, *, observe_only: bool = False
) -> tuple[GuardedCall, list[GuardWarning]]:
    """Ask every guard in order; a later guard sees what an earlier one modified.

    Args:
        observe_only: every ruling becomes a warning and changes nothing.

    Returns:
        The call as modified by guards, and the warnings.

    Raises:
        GuardRefused: names the guard and its reason.
    """
    warnings: list[GuardWarning] = []
    for guard in guards:
        ruling = guard.check(call)
        if observe_only and ruling.action in {"block", "confirm", "modify"}:
            warnings.append(GuardWarning(guard.name, ruling.reason, observed=True))
            continue
        if ruling.action == "block":
            raise GuardRefused(guard.name, ruling.reason)
        if ruling.action == "warn":
            warnings.append(GuardWarning(guard.name, ruling.reason))
        if ruling.action == "confirm":
            call = replace(call, confirm=ruling.reason)
        if ruling.action == "modify" and ruling.arguments is not None:
            call = replace(call, arguments=ruling.arguments)
            warnings.append(GuardWarning(guard.name, f"arguments modified: {ruling.reason}"))
    return call, warnings
