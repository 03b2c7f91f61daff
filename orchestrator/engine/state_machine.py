"""The main loop: runs a flow of states to a final state."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.journal_rows import Note, read_row
from orchestrator.engine.observer_events import Event, Observer
from orchestrator.engine.ports import Row
from orchestrator.errors import AnswerPending, ApprovalPending, FlowError

Context = TypeVar("Context")

MAX_STEPS = 1000
"""A flow that takes more steps is in an endless loop."""


class State(Struct, Generic[Context], frozen=True):
    """One state. A final state has no handler and no targets.

    Attributes:
        pauses: a final state from which a resumed run may continue, once what was missing is
            there. So each time that it is entered has a note of its own.
    """

    name: str
    handler: Callable[[Context], Awaitable[str]] | None = None
    targets: tuple[str, ...] = ()
    pauses: bool = False


class Flow(Struct, Generic[Context], frozen=True):
    """A flow: its first state and its transition table. Its handlers return the next state.

    >>> async def draft(text):
    ...     text.append("a draft")
    ...     return "Done"
    >>> async def main():
    ...     text, flow = [], Flow.of("Draft", [State("Draft", draft, ("Done",)), State("Done")])
    ...     async with Harness.open(None, "run-1") as harness:
    ...         print(await harness.run_flow(flow, text), text)
    >>> anyio.run(main)
    Done ['a draft']

    Attributes:
        when_waiting: called in place of a handler that needs a person's answer or approval, where
            its state may lead to one that pauses. Elsewhere, or with None, that error ends the run.
    """

    initial: str
    states: Mapping[str, State[Context]]
    when_waiting: Callable[[Context], Awaitable[str]] | None = None

    @classmethod
    def of(
        cls,
        initial: str,
        states: Sequence[State[Context]],
        when_waiting: Callable[[Context], Awaitable[str]] | None = None,
    ) -> "Flow[Context]":
        """Build a flow from its states.

        Raises:
            FlowError: two states have the same name.
        """
        table = {state.name: state for state in states}
        if len(table) != len(states):
            raise FlowError("two states have the same name")
        return cls(initial, table, when_waiting)


def check(flow: Flow[Context]) -> None:
    """Check a transition table as a graph.

    Raises:
        FlowError: a target that is not a state, an unreachable state, a state from which no final
            state can be reached, a final state with targets, or no final state at all.
    """
    import networkx as nx  # noqa: PLC0415 - a third of a second, and only tests and docs check

    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(flow.states)
    for state in flow.states.values():
        for target in state.targets:
            if target not in flow.states:
                raise FlowError(f"{state.name} leads to {target}, which is not a state")
            graph.add_edge(state.name, target)
        if (state.handler is None) != (not state.targets):
            raise FlowError(f"{state.name} must have a handler and targets, or neither")
    if flow.initial not in graph:
        raise FlowError(f"the initial state {flow.initial} is not a state")
    reached = nx.descendants(graph, flow.initial) | {flow.initial}
    if lost := sorted(set(graph) - reached):
        raise FlowError(f"never reached: {', '.join(lost)}")
    finals = [name for name, state in flow.states.items() if state.handler is None]
    ending = set(finals).union(*(nx.ancestors(graph, final) for final in finals))
    if stuck := sorted(set(graph) - ending):
        raise FlowError(f"no way to an end from: {', '.join(stuck)}")


def diagram(flow: Flow[Context]) -> str:
    """The transition table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {flow.initial}"]
    for state in flow.states.values():
        lines += [f"    {state.name} --> {target}" for target in state.targets or ("[*]",)]
    return "\n".join(lines) + "\n"


async def run(flow: Flow[Context], context: Context, journal: Journal, observer: Observer) -> str:
    """Run a flow to a final state and return its name; each step is journaled before it runs.

    Raises:
        FlowError: a handler returned a state that the table does not allow.
    """
    current = flow.states[flow.initial]
    for step in range(1, MAX_STEPS + 1):
        key = Key("state", number=step)
        if current.pauses:
            key = replace(key, subject=str(1 + len(journal.notes(key))))
        journal.note(key, {"state": current.name})
        observer(Event("state", journal.elapsed(), detail=current.name))
        if current.handler is None:
            await journal.flush()
            return current.name
        try:
            target = await current.handler(context)
        except (AnswerPending, ApprovalPending):
            pauses = any(flow.states[name].pauses for name in current.targets)
            if flow.when_waiting is None or not pauses:
                raise
            target = await flow.when_waiting(context)
        if target not in current.targets:
            allowed = ", ".join(current.targets)
            raise FlowError(f"{current.name} may lead to {allowed}; its handler said {target}")
        current = flow.states[target]
    raise FlowError(f"no end after {MAX_STEPS} steps")


def recorded_states(rows: Iterable[Row]) -> Iterator[tuple[Row, Note]]:
    """The notes of the states that a run has entered, with their rows."""
    for row in rows:
        if Key.parse(row.key).part == "state" and isinstance(note := read_row(row), Note):
            yield row, note
