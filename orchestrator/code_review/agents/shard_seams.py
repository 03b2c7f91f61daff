"""What lies between the shares of agents of one role: definitions in one, uses in another.

Such agents see only their own files. Where the change alters a definition, each agent is told the
uses and the contract that are in another's share, so that no caller is read without its callee.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set

from msgspec import Struct

from orchestrator.code_review.agents.names_used_elsewhere import DEFINES, REMOVED, TELLING
from orchestrator.code_review.change.numbered_diff import NumberedFileDiff
from orchestrator.code_review.verdict.document_parts import AgentShare

SEAMS = "Definitions that the change alters and that files in other agents' shares use or contain:"

SHOWN = 30
CONTRACT_LINES = 8
"""Of a definition of a type; of a function its first line."""

USES = 3
WIDTH = 160

_TYPE = re.compile(r"\b(?:class|interface|struct|trait|enum|type)\b")
_LINE = re.compile(r"[ \d]{5,} ([ \d]{5,}) ([-+ ])")
_NAME = re.compile(r"[A-Za-z_]\w*")


class _Definition(Struct, frozen=True):
    """A definition that the change alters: where it is, what it says and what it said in base."""

    name: str
    path: str
    line: int
    contract: Sequence[str]

    @property
    def place(self) -> str:
        return f"{self.name} ({self.path}{f':{self.line}' if self.line else ', removed'})"


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
    altered = [one for path in diffs for one in _altered(path, diffs[path], lines.get(path, []))]
    uses = _uses({one.name for one in altered}, lines)
    found: dict[str, list[str]] = {}
    for one in altered:
        telling, near = TELLING.match(one.name), neighbors.get(one.path, ())
        for user, numbers in uses.get(one.name, {}).items():
            if user != one.path and (telling or user in near):
                places = f"{user}:{', '.join(map(str, numbers[:USES]))}"
                for owner, reader in _between(shares, one.path, user):
                    told = f"- {one.place} is used in {places}, which {reader} reads"
                    found.setdefault(owner, []).append(told)
                    told = f"- {places} uses {one.place}, which {owner} reads:"
                    found.setdefault(reader, []).append("\n".join([told, *one.contract]))
    return {agent: list(dict.fromkeys(told))[:SHOWN] for agent, told in found.items()}


def _between(shares: Sequence[AgentShare], path: str, user: str) -> Iterator[tuple[str, str]]:
    """The agents of one role of which the first has only the one file, the second the other."""
    for own in (share for share in shares if path in share.paths and user not in share.paths):
        for other in (share for share in shares if share.role == own.role):
            if user in other.paths and path not in other.paths:
                yield own.agent, other.agent


def _uses(names: Set[str], lines: Mapping[str, Sequence[str]]) -> dict[str, dict[str, list[int]]]:
    """Name → path → the numbers of the lines that have it."""
    found: dict[str, dict[str, list[int]]] = {}
    for path, text in lines.items():
        for number, line in enumerate(text, 1):
            for name in names & set(_NAME.findall(line)):
                found.setdefault(name, {}).setdefault(path, []).append(number)
    return found


def _altered(path: str, part: NumberedFileDiff, text: Sequence[str]) -> Iterator[_Definition]:
    """The definitions around the lines that the change adds or removes, and removed ones."""
    removed = {
        name: f"    - {line[1].strip()[:WIDTH]}"
        for line in filter(None, map(REMOVED.match, part.lines))
        for name in DEFINES.findall(line[1])
    }
    touched, at = set[int](), 0
    for line in filter(None, map(_LINE.match, part.lines)):
        at = int(line[1]) if line[1].strip() else at
        touched |= {at} if line[2] != " " else set()
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
            yield _Definition(name, path, start, [*filter(None, [removed.get(name)]), *shown])
    for gone, written in removed.items():
        if gone not in seen:
            yield _Definition(gone, path, 0, [written])
