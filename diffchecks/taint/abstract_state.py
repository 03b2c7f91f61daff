"""The state of the abstract machine: variables, heap objects, and facts about origins."""

from collections.abc import Hashable, Iterable
from typing import Any, Literal

from msgspec import Struct, field

from diffchecks.taint.abstract_values import (
    SLICE,
    UNKNOWN,
    Facts,
    Taint,
    Value,
    ancestors,
    join,
    merge_taints,
    same_value,
)

Kind = Literal["dict", "list", "instance", "cells"]
_MAX_REACHED = 200


class HeapObject(Struct, frozen=True, eq=False):
    """An immutable heap object; a change replaces it.

    Attributes:
        kind: ``list`` also covers tuples and sets; ``cells`` is an external object.
        items: by constant key, position, attribute name, or tuple of constants.
        rest: the value of any other key; None: nothing.
        cls: the class of an instance.
    """

    kind: Kind
    items: dict[Hashable, Value] = field(default_factory=dict)
    rest: Value | None = None
    cls: Any = None

    def get(self, key: Hashable) -> Value | None:
        """The value under a known key; None: none."""
        found = self.items.get(key)
        if found is None:
            return self.rest
        return found if self.rest is None else join(found, self.rest)

    def any(self) -> Value | None:
        """The value that an unknown key may have; None: the object is empty."""
        values = list(self.items.values())
        if self.rest is not None:
            values.append(self.rest)
        if not values:
            return None
        joined = values[0]
        for value in values[1:]:
            joined = join(joined, value)
        return joined

    def put(self, key: Hashable, value: Value) -> "HeapObject":
        """A copy with a value under a known key."""
        return HeapObject(self.kind, {**self.items, key: value}, self.rest, self.cls)

    def add(self, value: Value) -> "HeapObject":
        """A copy with a value under an unknown key."""
        rest = value if self.rest is None else join(self.rest, value)
        return HeapObject(self.kind, self.items, rest, self.cls)

    def merge(self, other: "HeapObject") -> "HeapObject":
        """A copy with the items of another mapping, which replace its own."""
        merged = HeapObject(self.kind, {**self.items, **other.items}, self.rest, self.cls)
        return merged if other.rest is None else merged.add(other.rest)

    def widen(self) -> "HeapObject":
        """A copy without positions."""
        return HeapObject(self.kind, {}, self.any(), self.cls)


def join_objects(left: HeapObject, right: HeapObject) -> HeapObject:
    """The join of two objects."""
    if left is right:
        return left
    if left.kind == "list" and (
        len(left.items) != len(right.items) or left.rest is not None or right.rest is not None
    ):
        left, right = left.widen(), right.widen()
    items: dict[Hashable, Value] = {}
    for key in {**left.items, **right.items}:
        left_item, right_item = left.items.get(key), right.items.get(key)
        items[key] = (
            join(left_item, right_item)
            if left_item and right_item
            else left_item or right_item or UNKNOWN
        )
    if left.rest is None or right.rest is None:
        rest = left.rest or right.rest
    else:
        rest = join(left.rest, right.rest)
    return HeapObject(left.kind, items, rest, left.cls or right.cls)


def _same_object(left: HeapObject, right: HeapObject) -> bool:
    if left is right:
        return True
    if left.items.keys() != right.items.keys() or (left.rest is None) != (right.rest is None):
        return False
    if left.rest is not None and right.rest is not None and not same_value(left.rest, right.rest):
        return False
    return all(same_value(value, right.items[key]) for key, value in left.items.items())


class Heap:
    """Numbers heap objects, and holds those of module bodies, which all states share."""

    def __init__(self) -> None:
        self.shared: dict[int, HeapObject] = {}
        self._next = 0

    def allocate(self) -> int:
        """Return an unused number."""
        self._next += 1
        return self._next


class AbstractState:
    """The abstract state at one point of one activation.

    Attributes:
        facts: known facts about origins at this point.
        live: False if this point is unreachable.
    """

    __slots__ = ("facts", "heap", "live", "objects", "vars")

    def __init__(self, heap: Heap) -> None:
        self.heap = heap
        self.vars: dict[str, Value] = {}
        self.objects: dict[int, HeapObject] = {}
        self.facts: Facts = {}
        self.live = True

    def copy(self) -> "AbstractState":
        """An independent copy; immutable values and objects are shared."""
        other = AbstractState(self.heap)
        other.vars, other.objects = dict(self.vars), dict(self.objects)
        other.facts, other.live = dict(self.facts), self.live
        return other

    def object(self, loc: int) -> HeapObject:
        """The object with a number."""
        found = self.objects.get(loc)
        return found if found is not None else self.heap.shared.get(loc, _EMPTY)

    def of(self, value: Value) -> list[HeapObject]:
        """The objects that a value may be."""
        return [self.object(loc) for loc in value.locs]

    def listed(self, value: Value) -> list[Value] | None:
        """The items of a list, tuple or set that is known as a whole; None for any other value."""
        objects = self.of(value)
        if len(objects) != 1 or objects[0].kind != "list" or objects[0].rest is not None:
            return None
        return list(objects[0].items.values())

    def learn(self, facts: Facts) -> None:
        """Add facts about origins."""
        for origin, known in facts.items():
            self.facts[origin] = self.facts.get(origin, frozenset()) | known
            if SLICE in origin:
                lacks = frozenset(fact for fact in known if fact.startswith("lacks "))
                whole = origin[: origin.rindex(SLICE)]
                self.facts[whole] = self.facts.get(whole, frozenset()) | lacks

    def facts_of(self, taint: Taint) -> frozenset[str]:
        """All facts about a taint at this point."""
        known = taint.facts
        if self.facts:
            for origin in ancestors(taint.origin):
                known |= self.facts.get(origin, frozenset())
        return known

    def settle(self, value: Value) -> Value:
        """The value with this path's facts, before it is joined with a path without them."""
        if not value.taints or not self.facts:
            return value
        return value.with_taints(
            tuple(taint.with_facts(self.facts_of(taint)) for taint in value.taints)
        )


_EMPTY = HeapObject("cells", rest=UNKNOWN)


def join_states(states: Iterable[AbstractState], heap: Heap) -> AbstractState:
    """The join of the states of several paths; unreachable ones do not count."""
    alive = [state for state in states if state.live]
    if not alive:
        dead = AbstractState(heap)
        dead.live = False
        return dead
    joined = alive[0]
    for state in alive[1:]:
        joined = _join_two(joined, state)
    return joined


def _join_two(left: AbstractState, right: AbstractState) -> AbstractState:
    if left is right:
        return left
    out = AbstractState(left.heap)
    variables, objects = dict(left.vars), dict(left.objects)
    out.vars, out.objects = variables, objects
    for name, value in right.vars.items():
        known = variables.get(name)
        if known is value:
            continue
        if known is None:
            variables[name] = value
        else:
            variables[name] = join(left.settle(known), right.settle(value))
    for loc, obj in right.objects.items():
        mine = objects.get(loc)
        if mine is not obj:
            mine = mine or left.heap.shared.get(loc)
            objects[loc] = obj if mine is None else join_objects(mine, obj)
    if left.facts and right.facts:
        for origin, known_facts in left.facts.items():
            both = known_facts & right.facts.get(origin, frozenset())
            if both:
                out.facts[origin] = both
    return out


def same_state(left: AbstractState, right: AbstractState) -> bool:
    """Whether two states are equal, which means that a loop has reached its fixed point."""
    if left.live != right.live or left.facts != right.facts:
        return False
    if left.vars.keys() != right.vars.keys():
        return False
    if not all(same_value(value, right.vars[name]) for name, value in left.vars.items()):
        return False
    return all(
        _same_object(obj, right.objects[loc])
        for loc, obj in left.objects.items()
        if loc in right.objects
    )


def collect_taints(value: Value, state: AbstractState) -> tuple[Taint, ...]:
    """The taints of a value and of everything that it contains."""
    if not value.locs:
        return value.taints
    groups = [value.taints]
    for obj in reachable_objects(value, state).values():
        if obj.rest is not None and obj.rest.taints:
            groups.append(obj.rest.taints)
        groups.extend(item.taints for item in obj.items.values() if item.taints)
    return merge_taints(*groups)


def reachable_objects(value: Value, state: AbstractState) -> dict[int, HeapObject]:
    """The objects that a value may be or contain, up to a maximum depth."""
    found: dict[int, HeapObject] = {}
    fresh = list(value.locs)
    while fresh and len(found) < _MAX_REACHED:
        loc = fresh.pop()
        if loc in found:
            continue
        obj = found[loc] = state.object(loc)
        if obj.rest is not None:
            fresh.extend(obj.rest.locs)
        for item in obj.items.values():
            if item.locs:
                fresh.extend(item.locs)
    return found
