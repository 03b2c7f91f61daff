"""Loop detection: stops an agent that repeats its turns or its failures.

Each turn is compared with the last few: what the agent said and called, together with the results,
so that reading a file page by page is not a loop. All of it is in the journal, so a resumed run
stops at the same turn.
"""

import re
from collections import deque
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated

from msgspec import Meta

from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.field_types import PositiveInt, Strict, UnitFloat
from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.types import Block, Text, ToolCall, ToolResult

_ENDS = 2000  # characters at each end of a long turn; the middle is ignored
_NUMBER = re.compile(r"\d+")


class LoopPolicy(Strict, frozen=True):
    """When an agent's turns count as a loop.

    Attributes:
        window: number of recent turns compared.
        repeats: this many similar turns among them, or turns in which one tool fails the same way
            with no success in between, end its work.
        similarity: turns with at least this similarity count as the same, 0 to 1.
    """

    window: PositiveInt = 8
    repeats: Annotated[int, Meta(ge=2)] = 4
    similarity: UnitFloat = 0.9


class _Turn:
    """A turn's text, calls and results."""

    def __init__(self, text: str, calls: list[ToolCall], results: Sequence[ToolResult]) -> None:
        self.tools = [call.name for call in calls]
        self._text, self._calls, self._results = text, calls, results

    @cached_property
    def shingles(self) -> frozenset[int]:
        """Hashes of all runs of three words of all of it; a shorter text is one run."""
        requests = [canonical([call.name, dict(call.arguments)]).decode() for call in self._calls]
        trace = "\n".join([self._text, *requests, *map(_seen, self._results)])
        if len(trace) > 2 * _ENDS:
            trace = trace[:_ENDS] + trace[-_ENDS:]
        words = trace.split()
        runs = zip(words, words[1:], words[2:], strict=False)
        return frozenset(map(hash, runs)) or frozenset([hash((*words,))])

    def alike(self, other: "_Turn", similarity: float) -> bool:
        """Whether the Jaccard similarity of their shingles reaches ``similarity``."""
        own, others = self.shingles, other.shingles
        shared = len(own & others)
        return shared >= similarity * (len(own) + len(others) - shared)


DEFAULT_LOOP_POLICY = LoopPolicy()


class LoopDetector:
    """Detects loops in the turns of one agent.

    Args:
        key: the agent's task or attempt; a note below it says why it was ended.

    Attributes:
        reason: why its work should end, in words; empty while there is no loop.
    """

    def __init__(self, policy: LoopPolicy, journal: Journal, key: Key) -> None:
        self.reason = ""
        self._policy, self._journal, self._key = policy, journal, key
        self._turns: deque[_Turn] = deque(maxlen=policy.window)
        self._failing: dict[str, tuple[str, int]] = {}

    def observe(self, blocks: Sequence[Block], results: Sequence[ToolResult] = ()) -> None:
        """Observe one turn: the model's blocks, and the results of its calls in order."""
        calls = [block for block in blocks if isinstance(block, ToolCall)]
        text = "".join(block.text for block in blocks if isinstance(block, Text))
        if calls or text:
            turn = _Turn(text, calls, results)
            same = [before for before in self._turns if before.tools == turn.tools]
            self._turns.append(turn)
            if len(same) + 1 >= self._policy.repeats:
                alike = 1 + sum(turn.alike(before, self._policy.similarity) for before in same)
                if alike >= self._policy.repeats:
                    self._cut(f"{alike} of its last {len(self._turns)} turns are nearly the same")
        for name in dict.fromkeys(call.name for call in calls):
            own = [r for call, r in zip(calls, results, strict=True) if call.name == name]
            self._failed(name, own)

    def _failed(self, tool: str, results: Sequence[ToolResult]) -> None:
        """Count a turn in which every call of a tool failed."""
        if any(result.ok for result in results):
            self._failing.pop(tool, None)
            return
        signature = _NUMBER.sub("#", f"{results[0].code} {_seen(results[0])}"[:_ENDS])
        before, times = self._failing.get(tool, ("", 0))
        times = times + 1 if signature == before else 1
        self._failing[tool] = signature, times
        if times >= self._policy.repeats:
            self._cut(f"{tool} failed the same way {times} times: {results[0].code}")

    def _cut(self, why: str) -> None:
        if not self.reason:
            self.reason = f"it went round in circles: {why}"
            self._journal.note(self._key.at("loop"), {"state": "cut", "why": why})


def _seen(result: ToolResult) -> str:
    """A result's text, without the journal key that a refusal may name."""
    return result.content.replace(result.ref, "") if result.ref else result.content
