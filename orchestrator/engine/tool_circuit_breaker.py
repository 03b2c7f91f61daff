"""A circuit breaker per tool: one that keeps failing is disabled for a while, for all agents.

::

    closed ── fails N times in a row ─────> open ── M calls were refused ───> half-open
      ^                                      ^                                    │
      │                                      └───────────── fails ────────────────┤
      └──────────────────────────────── succeeds ─────────────────────────────────┘

Half-open lets one call through as a trial. The breaker counts calls and not seconds, and what it
counts are rows of the journal in their order, so a resumed run starts with the same state. A tool
that answers that something does not exist has not failed.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.engine.journal import Journal
from orchestrator.engine.tool_call_records import ended_calls
from orchestrator.errors import ToolDown

BREAKER = "breaker"
"""Topic of a note for each transition: breaker/1/TOOL."""

FAILURE_CODES = frozenset({"failed", "timeout"})
DEFAULT_PAUSE = 10
"""Calls that are refused before one is let through, where nothing else is said."""


@dataclass
class _State:
    """State of one tool: failures in a row, calls refused since it opened, a trial under way."""

    failed: int = 0
    refused: int = 0
    trying: bool = False


class ToolBreaker:
    """The breakers of a run's tools.

    Args:
        failures: tool → this many failures in a row open its breaker; ``*`` is any other tool; a
            tool without a number is never disabled.
        pause: tool → this many calls are refused before one is let through; ``*`` as above.
    """

    def __init__(
        self, journal: Journal, failures: Mapping[str, int], pause: Mapping[str, int]
    ) -> None:
        self._journal, self._failures, self._pause = journal, failures, pause
        self._tools: defaultdict[str, _State] = defaultdict(_State)
        for call in ended_calls(journal) if failures else ():
            if call.code == ToolDown.code:
                self._tools[call.tool].refused += 1
            elif call.completed:
                self._count(call.tool, call.code)

    def check(self, tool: str) -> None:
        """Let a call pass, or refuse it.

        Raises:
            ToolDown: says how often it failed, and when it is tried again.
        """
        state = self._tools[tool]
        if not self._is_open(tool):
            return
        left = self._most(tool) - state.refused
        if state.trying or left > 0:
            state.refused += 1
            until = f"for the next {left - 1} {'call' if left == 2 else 'calls'}"
            if left == 1:
                until = "until the next call, which tries it again"
            if left <= 0:
                until = "while another call tries it again"
            failed = f"{tool} failed {state.failed} times in a row"
            raise ToolDown(f"{failed}; it is disabled {until}")

    def begin(self, tool: str) -> None:
        """Note that a call starts."""
        if self._is_open(tool):
            self._tools[tool].trying = True
            refused = self._tools[tool].refused
            self._note(tool, "half-open", f"{refused} calls were refused; one is let through")

    def abandon(self, tool: str) -> None:
        """Note that a call was cut off before it ended."""
        self._tools[tool].trying = False

    def record(self, tool: str, code: str) -> None:
        """Count a call that ended with this code."""
        state = self._tools[tool]
        was_open, was_tried = self._is_open(tool), state.trying
        state.trying = False
        self._count(tool, code)
        if self._is_open(tool) and (was_tried or not was_open):
            self._note(tool, "open", f"it failed {state.failed} times in a row; the last: {code}")
        elif was_open and not self._is_open(tool):
            self._note(tool, "closed", "it answers again")

    def _count(self, tool: str, code: str) -> None:
        state = self._tools[tool]
        if code not in FAILURE_CODES:
            state.failed = state.refused = 0
            return
        if state.refused >= self._most(tool):
            state.refused = 0
        state.failed += 1

    def _is_open(self, tool: str) -> bool:
        failed = self._tools[tool].failed
        limit = self._failures.get(tool, self._failures.get("*")) if failed else None
        return limit is not None and failed >= limit

    def _most(self, tool: str) -> int:
        return self._pause.get(tool, self._pause.get("*", DEFAULT_PAUSE))

    def _note(self, tool: str, state: str, why: str) -> None:
        self._journal.add_note(BREAKER, {"state": state, "why": why}, tool)
