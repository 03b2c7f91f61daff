"""Added blocks of Python that already exist elsewhere.

Lines are compared without indentation; blank lines, comments, docstrings, imports, lone brackets
and lines that pass a value on under its own name do not count. A moved block appears once, and a
block that appeared twice in base is not new.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator

from msgspec import Struct
from msgspec.structs import replace

from diffchecks.check_io import CheckReply, Gap, RawFinding, Source, read
from diffchecks.jobs import ComparisonJob
from diffchecks.path_kinds import is_product

LINES = 12  # significant lines that make a block
WORDS = 25  # least number of different words in it: tables and boilerplate have fewer

_INSIGNIFICANT = re.compile(
    r"(?:#.*|import\b.*|from\b.*\bimport\b.*|@\w+|pass|else:|try:|[\W_]*"
    # a parameter with its type or default, an argument, an attribute named as its parameter
    r"|\w+(?:: [^=]+)?(?: ?= ?[\w.]+)?,|(\w+)=\1,?|self\.(\w+) = \2)"
)
_QUOTES = re.compile(r'"""|\'\'\'')
_WORD = re.compile(r"[A-Za-z_]\w+")

Block = tuple[str, ...]


class LineWindow(Struct, frozen=True):
    """``LINES`` significant lines in a row.

    Attributes:
        first, last: line numbers, 1-based.
    """

    path: str
    first: int
    last: int
    block: Block


def find_windows(root: str, path: str) -> Iterator[LineWindow]:
    """All windows of consecutive significant lines of a file."""
    kept: list[tuple[int, str]] = []
    quoted = False
    for number, line in enumerate(Source(path, read(root, path)).lines, 1):
        text = " ".join(line.split())
        marks = len(_QUOTES.findall(text))
        if (
            not quoted
            and not text.startswith(('"""', "'''"))
            and not _INSIGNIFICANT.fullmatch(text)
        ):
            kept.append((number, text))
        quoted ^= marks % 2 == 1
    for at in range(len(kept) - LINES + 1):
        part = kept[at : at + LINES]
        yield LineWindow(path, part[0][0], part[-1][0], tuple(text for _, text in part))


def run(job: ComparisonJob) -> CheckReply:
    """Report added lines that repeat code elsewhere in head, once for each pair of files."""
    gaps: dict[str, str] = {}
    examined: list[str] = []
    written: dict[Block, list[LineWindow]] = defaultdict(list)
    for file in job.files:
        path = file.path
        if file.status in {"deleted", "mode"} or not is_product(path):
            continue
        added = frozenset(file.added)
        try:
            for window in find_windows(job.head_root, path):
                if window.first in added and window.last in added and _says_enough(window.block):
                    written[window.block].append(window)
            examined.append(path)
        except Gap as why:
            gaps[path] = str(why)
    found = _findings(job, written, gaps) if written else []
    examined = [path for path in examined if path not in gaps]
    return CheckReply(found, examined, gaps)


def _says_enough(block: Block) -> bool:
    return len({word for line in block for word in _WORD.findall(line)}) >= WORDS


def _findings(
    job: ComparisonJob, written: dict[Block, list[LineWindow]], gaps: dict[str, str]
) -> list[RawFinding]:
    head = _places(job, "head", written, gaps)
    twice = {block for block, places in head.items() if len(places) > 1}
    base = _places(job, "base", twice, gaps)
    before = Counter({block: len(places) for block, places in base.items()})
    found: dict[tuple[str, str], RawFinding] = {}
    for block in sorted(twice, key=lambda block: (written[block][0].path, written[block][0].first)):
        if before[block] > 1:
            continue
        ours = written[block][0]
        other = next(place for place in head[block] if place != ours)
        pair = ours.path, other.path
        if pair[::-1] in found and pair not in found:
            continue  # both are new: reported once
        message = f"These lines also appear at {other.path}:{other.first}"
        if pair in found:
            last = max(found[pair].end_line, ours.last)
            found[pair] = replace(found[pair], end_line=last)
        else:
            found[pair] = RawFinding(
                "copy", ours.path, ours.first, message, key=" ".join(pair), end_line=ours.last
            )
    return list(found.values())


def _places(
    job: ComparisonJob, side: str, blocks: Collection[Block], gaps: dict[str, str]
) -> dict[Block, list[LineWindow]]:
    """The places of these blocks in a side's product files; an unreadable file is a gap."""
    root, tree, links = job.side(side)
    starts = {block[0] for block in blocks}
    found: dict[Block, list[LineWindow]] = defaultdict(list)
    for path in tree:
        if path in links or not path.endswith(".py") or not is_product(path):
            continue
        try:
            for window in find_windows(root, path):
                if window.block[0] in starts and window.block in blocks:
                    found[window.block].append(window)
        except Gap as why:
            gaps.setdefault(path, str(why))
    return found
