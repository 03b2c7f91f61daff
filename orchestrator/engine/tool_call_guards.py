"""Guards of tool calls: rate limits, repetition, sensitive operations."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from inspect import iscoroutinefunction, signature
from typing import Any, Literal, get_args

from msgspec.structs import replace

from orchestrator.engine.canonical_json import is_json
from orchestrator.engine.journal_rows import GuardWarning
from orchestrator.engine.ports import Guard, GuardedCall, Ruling, RulingAction
from orchestrator.errors import GuardRefused, InputError, Refused

ALLOW = Ruling()
_ACTIONS = get_args(RulingAction)


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
        self._recent: defaultdict[str, deque[float]] = defaultdict(deque)

    def check(self, call: GuardedCall) -> Ruling:
        """Block a call over either limit."""
        tool = call.tool.name
        limit = self._per_run.get(tool, self._per_run.get("*"))
        if limit is not None and self._count[tool] >= limit:
            return Ruling("block", f"{tool} was already called {limit} times in this run")
        limit = self._per_minute.get(tool, self._per_minute.get("*"))
        recent = self._recent[tool]
        while recent and recent[0] <= self._now() - 60:
            recent.popleft()
        if limit is not None and len(recent) >= limit:
            return Ruling("block", f"{tool} was called {limit} times within a minute")
        return ALLOW

    def admitted(self, call: GuardedCall) -> None:
        """Count a call that goes ahead."""
        self._count[call.tool.name] += 1
        if not call.replayed:
            self._recent[call.tool.name].append(self._now())

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
    """Asks a person about tools that carry a sensitive tag, or refuses them.

    Args:
        action: ``confirm`` or ``block``.
    """

    name = "sensitive"

    def __init__(
        self, tags: Collection[str], action: Literal["block", "confirm"] = "confirm"
    ) -> None:
        self._tags = frozenset(tags)
        self._action: Literal["block", "confirm"] = action

    def check(self, call: GuardedCall) -> Ruling:
        """Hold back a tool that carries one of the tags."""
        hit = ", ".join(sorted(self._tags & call.tool.tags))
        why = f"{call.tool.name} is a sensitive operation ({hit})"
        return Ruling(self._action, why) if hit else ALLOW


class SafeGuard:
    """A guard as calls meet it: what it leaves out has a default, and if it fails, it refuses.

    Raises:
        InputError: it has no name, or no ``check`` that takes a call and answers at once.
    """

    def __init__(self, guard: Guard) -> None:
        name = getattr(guard, "name", "")
        if not isinstance(name, str) or not name or not hasattr(guard, "check"):
            raise InputError(f"{guard!r} is no guard: it needs a name and check(call)")
        self.name, self._parts = name, dict[str, Callable[[GuardedCall], Any]]()
        for part in ("check", "admitted", "withdrawn"):
            method = self._parts[part] = getattr(guard, part, _nothing)
            if not callable(method) or iscoroutinefunction(method) or not _takes_a_call(method):
                raise InputError(f"guard {name}: {part} must be a plain function of one call")

    def check(self, call: GuardedCall) -> Ruling:
        """The guard's ruling.

        Raises:
            GuardRefused: it failed, or what it returned is no ruling.
        """
        ruling = self._call("check", call)
        if isinstance(ruling, Ruling) and ruling.action in _ACTIONS:
            changed = ruling.arguments
            if changed is None and ruling.action != "modify":
                return ruling
            if isinstance(changed, Mapping) and is_json(dict(changed)):
                return ruling
        raise GuardRefused(self.name, f"its check returned {ruling!r:.80}, which is no ruling")

    def admitted(self, call: GuardedCall) -> None:
        """Count a call that starts."""
        self._call("admitted", call)

    def withdrawn(self, call: GuardedCall) -> None:
        """Uncount a call; a failure changes nothing, since the call is refused already."""
        with suppress(Refused):
            self._call("withdrawn", call)

    def _call(self, part: str, call: GuardedCall) -> Any:
        try:
            return self._parts[part](call)
        except Refused:
            raise
        except Exception as error:
            why = f"its {part} failed: {type(error).__name__}: {error}"
            raise GuardRefused(self.name, why) from error


def _nothing(call: GuardedCall) -> None:
    """What a guard that counts nothing does about a call that starts, or that is withdrawn."""


def _takes_a_call(method: Callable[..., object]) -> bool:
    try:
        signature(method).bind(None)
    except (TypeError, ValueError):
        return False
    return True


class SofterGuard(SafeGuard):
    """A guard that warns, or asks a person to confirm, if the wrapped guard would block."""

    def __init__(self, guard: Guard, action: Literal["warn", "confirm"]) -> None:
        super().__init__(guard)
        self._action: Literal["warn", "confirm"] = action

    def check(self, call: GuardedCall) -> Ruling:
        """Replace the wrapped guard's block by this guard's action."""
        ruling = super().check(call)
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
        try:
            ruling = guard.check(call)
        except GuardRefused as failed:
            ruling = Ruling("block", failed.reason)
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
