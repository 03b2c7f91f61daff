"""Code that the finders of claims looked up, for a reader who did not make the claims.

A verifier would look most of it up again. It is chosen by the names in a claim and its argument,
which the verifier is not shown, and it is code only.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from itertools import chain, zip_longest

from msgspec import Struct

from diffchecks.path_kinds import is_code
from orchestrator.code_review.agents.briefs import Span, spans_around
from orchestrator.code_review.agents.files_read import lines_looked_up
from orchestrator.code_review.agents.names_across_files import TELLING
from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.findings.citations import read_lines
from orchestrator.code_review.findings.finding_context import find_block
from orchestrator.code_review.findings.verification import telling_names
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.verdict.model import Finding

MAX_CHARACTERS, MAX_OF_ALL = 6_000, 18_000
"""For one finding, and for all."""

MAX_WEAKER = 5
"""How many times less than the best block for a finding another may have in common with it."""

MAX_WHOLE = 40
"""Lines of a function that is shown whole; of a longer one, those around the names."""

RARE, NEAR, NEAR_COMMON = 6, 5, 2
"""Blocks that have a rare name; lines around it in a longer function, and around another name."""


class _Block(Struct, frozen=True):
    """A function, or lines outside of functions, and the names in each of its lines.

    Attributes:
        name: the function's; empty outside of functions.
    """

    path: str
    side: SideName
    name: str
    first: int
    lines: Sequence[str]
    names: Sequence[Set[str]]

    @property
    def all_names(self) -> Set[str]:
        return frozenset[str]().union(*self.names)

    def near(self, wanted: Mapping[str, int]) -> set[int]:
        """The numbers of all lines of a short block, of a longer one so many around names."""
        numbers = range(self.first, self.first + len(self.lines))
        if len(numbers) <= MAX_WHOLE:
            return {*numbers}
        widths = (max((wanted.get(name, -1) for name in names), default=-1) for names in self.names)
        around = (range(at - most, at + most + 1) for at, most in zip(numbers, widths, strict=True))
        return {*chain.from_iterable(around)} & {*numbers}


async def choose_looked_up(
    state: ReviewState, findings: Sequence[Finding], around: int
) -> list[Span]:
    """What concerns the findings in what agents read or searched, best first by turns.

    A block counts by the names that it shares with a finding; one that few blocks have counts most,
    and that of a function itself.

    Args:
        around: lines before and after each finding that are shown anyway.
    """
    blocks = await _blocks(state)
    having = Counter(name for block in blocks for name in block.all_names)
    defined = {block.name for block in blocks}
    ranked = list[list[tuple[_Block, Mapping[str, int]]]]()
    for finding in findings:
        said, quoted = f"{finding.title}\n{finding.detail}", finding.evidence.quote
        wanted = {n for n in telling_names(said) if n in defined or TELLING.fullmatch(n)}
        if is_code(finding.path):
            wanted |= telling_names(f"{quoted}\n{finding.cause_quote}")
        score = {
            at: (block.name in wanted) + sum(1 / having[n] for n in block.all_names & wanted)
            for at, block in enumerate(blocks)
        }
        least = max(score.values(), default=0) / MAX_WEAKER
        order = {at: (-score[at], blocks[at].side != "head") for at in score}
        best = sorted((at for at in score if score[at] > least), key=order.__getitem__)
        around_it = {name: NEAR if having[name] <= RARE else NEAR_COMMON for name in wanted}
        ranked.append([(blocks[at], around_it) for at in best])
    told, shown = set[tuple[str, str]](), defaultdict[tuple[str, SideName], set[int]](set)
    for path, side, first, last in spans_around(findings, around):
        shown[path, side].update(range(first, last + 1))
    chosen, room = list[Span](), min(MAX_OF_ALL, MAX_CHARACTERS * len(findings))
    for block, wanted in filter(None, chain.from_iterable(zip_longest(*ranked))):
        if block.name and (block.path, block.name) in told and block.side == "base":
            continue  # head's lines are shown with those that the change removes
        told.add((block.path, block.name))
        place = block.path, block.side
        fresh = block.near(wanted) - shown[place]
        if (size := sum(len(block.lines[number - block.first]) for number in fresh)) <= room:
            room -= size
            shown[place] |= fresh
            chosen += ((*place, number, number) for number in fresh)
    return chosen


async def _blocks(state: ReviewState) -> list[_Block]:
    found = list[_Block]()
    for (side, path), numbers in lines_looked_up(state).items():
        lines, last = await read_lines(state.given.workspace, side, path), 0
        for number in sorted(n for n in numbers if n <= len(lines)):
            if number <= last or not lines[number - 1].strip():
                continue
            block = find_block(lines, number, number)
            first, last = max(block.start, last + 1), max(block.end, number)
            own = lines[first - 1 : last]
            found.append(_Block(path, side, block.name, first, own, [*map(telling_names, own)]))
    return found
