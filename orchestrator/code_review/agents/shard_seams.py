"""What lies between the shares of agents of one role: definitions in one, uses in another.

Such agents see only their own files. Where the change alters a definition, each agent is told the
uses and the contract that are in another's share, so that no caller is read without its callee.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import permutations

from orchestrator.code_review.agents.names_used_elsewhere import DEFINES, TELLING
from orchestrator.code_review.change.numbered_diff import NumberedFileDiff
from orchestrator.code_review.verdict.document_parts import AgentShare

SEAMS = "Definitions that the change alters and that files in other agents' shares use or contain:"

SHOWN = 30
CONTRACT_LINES = 8
"""Of a definition of a type; of a function its first line."""

USES = 3
WIDTH = 160

_TYPE = re.compile(r"\b(?:class|interface|struct|trait|enum|type)\b")
_NAME = re.compile(r"[A-Za-z_]\w*")


def find_seams(
    shares: Sequence[AgentShare],
    diffs: Mapping[str, NumberedFileDiff],
    texts: Mapping[str, str],
    neighbors: Mapping[str, Sequence[str]],
) -> dict[str, list[str]]:
    """Agent → lines about definitions and uses that are in different shares of its role.

    Args:
        texts: path → text in head.
        neighbors: path → the files that it imports or that import it; a telling name also counts
            where no import is seen.
    """
    lines = {path: text.splitlines() for path, text in texts.items()}
    altered = [(path, *one) for path in diffs for one in _altered(diffs[path], lines.get(path, []))]
    uses = _find_uses({name for _, name, *_ in altered}, lines)
    found: dict[str, dict[str, None]] = {}
    for path, name, line, contract in altered:
        for user, numbers in uses.get(name, {}).items():
            if user == path or not (TELLING.match(name) or user in neighbors.get(path, ())):
                continue
            used = f"{user}:{', '.join(map(str, numbers[:USES]))}"
            defined = f"{name} ({path}{f':{line}' if line else ', removed'})"
            for own, other in permutations(shares, 2):
                mine, theirs = {*own.paths} - {*other.paths}, {*other.paths} - {*own.paths}
                if own.role == other.role and path in mine and user in theirs:
                    told = f"- {defined} is used in {used}, which {other.agent} reads"
                    found.setdefault(own.agent, {})[told] = None
                    told = f"- {used} uses {defined}, which {own.agent} reads:"
                    found.setdefault(other.agent, {})["\n".join([told, *contract])] = None
    return {agent: list(told)[:SHOWN] for agent, told in found.items()}


def _find_uses(
    names: Set[str], lines: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, list[int]]]:
    """Name → path → the numbers of the lines that have it."""
    found: dict[str, dict[str, list[int]]] = {}
    for path, text in lines.items():
        for number, line in enumerate(text, 1):
            for name in names & set(_NAME.findall(line)):
                found.setdefault(name, {}).setdefault(path, []).append(number)
    return found


def _altered(
    part: NumberedFileDiff, text: Sequence[str]
) -> Iterator[tuple[str, int, Sequence[str]]]:
    """Name, line in head and contract of definitions with changed lines; line 0: removed."""
    removed = {
        name: f"    - {line.text.strip()[:WIDTH]}"
        for line in part.hunk_lines
        if line.sign == "-"
        for name in DEFINES.findall(line.text)
    }
    touched, at = set[int](), 0
    for line in part.hunk_lines:
        at = line.new or at
        touched |= {at} if line.sign in "+-" else set()
    name, start, seen = "", 0, set[str]()
    for number, written in enumerate(text, 1):
        if defined := DEFINES.findall(written):
            name, start = defined[0], number
        if number in touched and name and name not in seen:
            seen.add(name)
            size = CONTRACT_LINES if _TYPE.search(text[start - 1]) else 1
            shown = [
                f"    + {line.rstrip()[:WIDTH]}" for line in text[start - 1 : start - 1 + size]
            ]
            yield name, start, [*filter(None, [removed.get(name)]), *shown]
    yield from ((name, 0, [was]) for name, was in removed.items() if name not in seen)
