"""What the agents' calls showed, read back from the journal: the evidence of a review.

The journal is the only source. An agent's report is a claim about these calls, never a substitute.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct

from orchestrator.engine.agent import AgentResult
from orchestrator.engine.journal import Journal
from orchestrator.engine.untrusted_text import unframe
from orchestrator.review.findings.types import AnalysisResult
from orchestrator.review.verdict.decision import ToolHealth

_CALL = re.compile(r"(\d+)/act/([^/]+)/(?:attempt(\d+)/)?turn(\d+)/tool(\d+)/(.+)")
_ANSWER = re.compile(r".+/turn\d+/tool\d+/([^/]+)")
Order = tuple[int, str, int, int, int]
_AGENT = re.compile(r"(\d+)/act/([^/]+)")


class Call(Struct, frozen=True):
    """One analyzer's call by a specialist.

    Attributes:
        ref: its key in the journal.
        why: empty when it went well, else why it did not.
        result: what the analyzer gave; empty for a refusal or a time-out.
    """

    ref: str
    iteration: int
    agent: str
    tool: str
    why: str
    result: AnalysisResult


class Work(Struct, frozen=True):
    """One agent's work in one iteration."""

    iteration: int
    result: AgentResult


def calls(journal: Journal, analyzers: Collection[str]) -> list[Call]:
    """All calls of these tools by specialists, by iteration, agent, attempt, turn and place.

    Looking around is no evidence and its failures are no gaps, so other tools are left out.
    """
    found: list[tuple[Order, Call]] = []
    for key, value in journal.outcomes().items():
        if (match := _CALL.fullmatch(key)) and match.group(6) in analyzers:
            result = AnalysisResult.from_json(value["data"])
            why = "" if value["ok"] else (result.error or value["code"])
            found.append(_entry(match, key, why, result))
    for key, (code, reason) in journal.refusals().items():
        if (match := _CALL.fullmatch(key)) and match.group(6) in analyzers:
            found.append(_entry(match, key, f"{code}: {reason}", AnalysisResult()))
    return [call for _, call in sorted(found, key=lambda pair: pair[0])]


def _entry(match: re.Match[str], key: str, why: str, result: AnalysisResult) -> tuple[Order, Call]:
    iteration, agent, attempt, turn, place, tool = match.groups()
    order = int(iteration), agent, int(attempt or 1), int(turn), int(place)
    return order, Call(key, int(iteration), agent, tool, why, result)


def answers(journal: Journal, nonce: str, places: Collection[str], tool: str) -> Iterator[str]:
    """What a tool answered, as text.

    Args:
        places: prefixes of the keys of the calls that count.
    """
    for key, value in journal.outcomes().items():
        match = _ANSWER.fullmatch(key)
        if match and match[1] == tool and value["ok"] and key.startswith(tuple(places)):
            yield unframe(value["content"], nonce)


def work(journal: Journal) -> list[Work]:
    """What every agent came to, by iteration and name."""
    found = [
        Work(int(match.group(1)), AgentResult(**value))
        for key, value in journal.outcomes().items()
        if (match := _AGENT.fullmatch(key))
    ]
    return sorted(found, key=lambda entry: (entry.iteration, entry.result.agent))


def latest(entries: Iterable[Work]) -> dict[str, Work]:
    """Each agent's last work."""
    return {entry.result.agent: entry for entry in entries}


def gaps(entries: Sequence[Call]) -> dict[tuple[str, str], str]:
    """(tool, path) → why; a path that a later call did look at is no gap any more."""
    open_gaps: dict[tuple[str, str], str] = {}
    for call in entries:
        for path in call.result.examined:
            open_gaps.pop((call.tool, path), None)
        for path, why in call.result.gaps.items():
            open_gaps[call.tool, path] = why
    return open_gaps


def health(entries: Sequence[Call]) -> dict[str, ToolHealth]:
    """How each analyzer fared, by the tool's name."""
    open_gaps = gaps(entries)
    last = {call.tool: call for call in entries}
    return {
        tool: ToolHealth(
            call.why,
            frozenset(path for name, path in open_gaps if name == tool),
            frozenset(p for one in entries if one.tool == tool for p in one.result.given),
        )
        for tool, call in last.items()
    }


def failures(entries: Sequence[Call], team: Iterable[Work]) -> dict[str, str]:
    """What a further iteration might mend: ``agent/tool`` or agent → why it failed."""
    last: dict[str, Call] = {f"{call.agent}/{call.tool}": call for call in entries}
    failed = {name: call.why for name, call in last.items() if call.why}
    for name, entry in latest(team).items():
        if entry.result.status != "ok":
            failed[name] = f"{entry.result.status}: {entry.result.detail}"
    return failed
