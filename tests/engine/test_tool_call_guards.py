"""Guards of calls, each by itself: what they count, when they block, and in which words."""

from typing import Any

import pytest

from orchestrator.engine.journal_rows import GuardWarning
from orchestrator.engine.ports import Guard, GuardedCall, Ruling
from orchestrator.engine.tool_call_guards import (
    RateGuard,
    RepetitionGuard,
    SafeGuard,
    SensitiveGuard,
    SofterGuard,
    apply_guards,
)
from orchestrator.engine.types import Level, ToolSpec
from orchestrator.errors import GuardRefused, InputError

ALLOW = Ruling()


def call(tool: str = "t", *tags: str, agent: str = "a", **more: Any) -> GuardedCall:
    spec = ToolSpec(tool, "does", {"type": "object"}, Level.READ, frozenset(tags))
    return GuardedCall(agent, spec, {"text": "x"}, "print", **more)


def start(guard: RateGuard | RepetitionGuard, *calls: GuardedCall) -> None:
    for each in calls:
        assert guard.check(each) == ALLOW
        guard.admitted(each)


def test_calls_of_a_run_are_counted_for_each_tool_and_withdrawn_ones_are_not() -> None:
    guard = RateGuard({"t": 2, "*": 1}, {}, lambda: 0.0)
    start(guard, call(), call(), call("other"), call("third"))
    assert guard.check(call()) == Ruling("block", "t was already called 2 times in this run")
    assert guard.check(call("other")).action == "block"
    guard.withdrawn(call())
    start(guard, call())
    guard.withdrawn(call())
    guard.withdrawn(call())
    start(guard, call(), call())
    assert guard.check(call()).action == "block"
    assert RateGuard({"t": 0}, {}, lambda: 0.0).check(call()).action == "block"
    assert RateGuard({}, {}, lambda: 0.0).check(call()) == ALLOW


def test_calls_of_a_minute_count_until_it_is_over_but_not_those_on_record() -> None:
    now = [0.0]
    guard = RateGuard({}, {"t": 2, "*": 1}, lambda: now[0])
    start(guard, call(), call(), call("other"))
    blocked = Ruling("block", "t was called 2 times within a minute")
    assert guard.check(call()) == blocked
    assert guard.check(call("other")).action == "block"
    guard.withdrawn(call())
    now[0] = 59.99
    assert guard.check(call()) == blocked
    now[0] = 60.0
    start(guard, call(replayed=True), call(replayed=True), call())
    now[0] = 119.99
    start(guard, call())
    assert guard.check(call()) == blocked
    now[0] = 120.0
    start(guard, call())


@pytest.mark.parametrize(("limit", "times"), [(1, "once"), (2, "2 times")])
def test_equal_calls_of_one_agent_are_counted(limit: int, times: str) -> None:
    guard = RepetitionGuard(limit)
    start(guard, *[call()] * limit)
    why = f"t was already called {times} with these arguments; its result will not differ"
    assert guard.check(call()) == Ruling("block", why)
    start(guard, call(agent="b"))
    guard.withdrawn(call())
    start(guard, call())
    assert guard.check(call()).action == "block"
    for _ in range(limit):
        guard.withdrawn(call())
    start(guard, *[call()] * limit)
    assert guard.check(call()).action == "block"


def test_a_tool_is_sensitive_by_any_of_the_tags() -> None:
    guard = SensitiveGuard(["network", "execution", "credentials"])
    why = "t is a sensitive operation (execution, network)"
    assert guard.check(call("t", "network", "slow", "execution")) == Ruling("confirm", why)
    assert guard.check(call("t", "slow")) == ALLOW
    assert SensitiveGuard({"a"}, "block").check(call("t", "a")).action == "block"


class Given:
    """A guard with one answer, which remembers what it was told."""

    name = "given"

    def __init__(self, ruling: Any = ALLOW, fails: str = "") -> None:
        self._ruling, self._fails = ruling, fails
        self.told: list[tuple[str, GuardedCall]] = []

    def _hear(self, part: str, given: GuardedCall) -> None:
        self.told.append((part, given))
        if part == self._fails:
            raise ValueError("no")

    def check(self, call: GuardedCall) -> Any:
        self._hear("check", call)
        return self._ruling

    def admitted(self, call: GuardedCall) -> None:
        self._hear("admitted", call)

    def withdrawn(self, call: GuardedCall) -> None:
        self._hear("withdrawn", call)


@pytest.mark.parametrize("name", [None, "", 3])
def test_a_guard_needs_a_name_and_a_check(name: object) -> None:
    with pytest.raises(InputError, match=r"is no guard: it needs a name and check\(call\)$"):
        SafeGuard(type("Named", (), {"name": name, "check": lambda self, call: ALLOW})())
    with pytest.raises(InputError, match="is no guard"):
        SafeGuard(type("Nameless", (), {"check": lambda self, call: ALLOW})())
    with pytest.raises(InputError, match="is no guard"):
        SafeGuard(type("Unchecked", (), {"name": "n"})())


@pytest.mark.parametrize("part", ["check", "admitted", "withdrawn"])
def test_each_part_of_a_guard_is_a_plain_function_of_one_call(part: str) -> None:
    async def later(self: object, call: GuardedCall) -> None: ...

    for wrong in (3, later, lambda self: None, lambda self, a, b: None):
        guard = type("Wrong", (Given,), {part: wrong})()
        with pytest.raises(InputError) as refused:
            SafeGuard(guard)
        assert str(refused.value) == f"guard given: {part} must be a plain function of one call"


def test_a_guard_is_told_the_call_and_a_failure_refuses_it_by_its_name() -> None:
    heard, one = Given(), call()
    guard = SafeGuard(heard)
    assert (guard.name, guard.check(one)) == ("given", ALLOW)
    guard.admitted(one)
    guard.withdrawn(one)
    assert heard.told == [("check", one), ("admitted", one), ("withdrawn", one)]
    for part in ("check", "admitted"):
        with pytest.raises(GuardRefused) as refused:
            getattr(SafeGuard(Given(fails=part)), part)(one)
        why = f"its {part} failed: ValueError: no"
        assert (refused.value.guard, refused.value.reason) == ("given", why)
    SafeGuard(Given(fails="withdrawn")).withdrawn(one)  # it is refused already


@pytest.mark.parametrize(
    "odd",
    [None, True, Ruling("perhaps"), Ruling("modify"), Ruling("modify", "", {"a": {1}})],  # type: ignore[arg-type]
)
def test_what_is_no_ruling_refuses(odd: object) -> None:
    with pytest.raises(GuardRefused) as refused:
        SafeGuard(Given(odd)).check(call())
    assert refused.value.guard == "given"
    assert refused.value.reason == f"its check returned {odd!r:.80}, which is no ruling"


def test_a_softer_guard_only_changes_a_block() -> None:
    for ruling in (ALLOW, Ruling("warn", "w"), Ruling("modify", "m", {"a": 1})):
        assert SofterGuard(Given(ruling), "warn").check(call()) == ruling
    heard, one = Given(Ruling("block", "why")), call()
    softer = SofterGuard(heard, "confirm")
    assert (softer.name, softer.check(one)) == ("given", Ruling("confirm", "why"))
    softer.admitted(one)
    assert heard.told == [("check", one), ("admitted", one)]


def test_a_later_guard_sees_what_an_earlier_one_made_of_the_call() -> None:
    last = Given(Ruling("warn", "odd"))
    guards = [
        Given(Ruling("confirm", "ask")), Given(), Given(Ruling("modify", "less", {"text": "y"})),
        Given(Ruling("modify", "nothing")), last,
    ]  # fmt: skip
    made, warnings = apply_guards(guards, call())
    assert (made.confirm, made.arguments) == ("ask", {"text": "y"})
    assert warnings == [
        GuardWarning("given", "arguments modified: less"), GuardWarning("given", "odd"),
    ]  # fmt: skip
    assert last.told == [("check", made)]


@pytest.mark.parametrize("failing", [Given(Ruling("block", "no")), SafeGuard(Given(fails="check"))])
def test_a_block_or_a_failure_ends_it(failing: Any) -> None:
    after = Given()
    with pytest.raises(GuardRefused) as refused:
        apply_guards([failing, after], call())
    assert refused.value.guard == "given"
    assert refused.value.reason in {"no", "its check failed: ValueError: no"}
    assert after.told == []


def test_of_a_run_that_only_observes_nothing_is_refused_or_changed() -> None:
    guards: list[Guard] = [
        Given(Ruling("block", "b")), Given(Ruling("confirm", "c")), Given(Ruling("warn", "w")),
        Given(Ruling("modify", "m", {"text": "y"})), SafeGuard(Given(fails="check")),
    ]  # fmt: skip
    made, warnings = apply_guards(guards, one := call(), observe_only=True)
    assert made == one
    assert warnings == [
        GuardWarning("given", "b", observed=True),
        GuardWarning("given", "c", observed=True),
        GuardWarning("given", "w"),
        GuardWarning("given", "m", observed=True),
        GuardWarning("given", "its check failed: ValueError: no", observed=True),
    ]
