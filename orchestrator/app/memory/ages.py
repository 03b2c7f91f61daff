"""Finds entries of the memory that no review has used for a long time."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date

from msgspec import Struct

from orchestrator.app.memory.dismissals import DISMISSAL_FILE
from orchestrator.app.memory.past_reviews import DatedVerdict
from orchestrator.catalog.repository_memory import PreferencesFrontMatter
from orchestrator.catalog.yaml_parsing import YamlNode
from orchestrator.catalog.yaml_validation import convert_node, parse_yaml, split_front_matter
from orchestrator.data_directories import CONVENTIONS, FAILURES, OVERLAY, PREFERENCES
from orchestrator.errors import ConfigError, InputError

UNUSED_DAYS = 180

_USED = {"dismissed", "reopened", "lowered", "cited"}
_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_TEXTS = tuple(f"{OVERLAY}/{name}" for name in (CONVENTIONS, PREFERENCES, FAILURES))


class MemoryEntry(Struct, frozen=True):
    """An entry of the memory.

    Attributes:
        name: a fingerprint, a rule, or the text of a list item.
        first, last: its lines, 1-based and inclusive.
        added: the day in the entry, YYYY-MM-DD; may be empty.
    """

    file: str
    name: str
    first: int
    last: int
    added: str


class UnusedEntry(Struct, frozen=True):
    """An entry that was last used, or added, long ago."""

    entry: MemoryEntry
    since: str
    ever_used: bool


def find_unused(
    files: Mapping[str, str], reviews: Sequence[DatedVerdict], days: int = UNUSED_DAYS
) -> list[UnusedEntry]:
    """The entries that no review has used for a number of days before the newest review.

    An entry counts as at most as old as the oldest review, since earlier uses are unknown.

    Args:
        files: name → text.

    Raises:
        ConfigError: a file cannot be read.
    """
    known = sorted(review.day for review in reviews if review.day)
    if not known:
        return []
    newest = date.fromisoformat(known[-1])
    uses = [
        (review.day, use.file, use.entry)
        for review in reviews
        for use in review.verdict.memory
        if use.effect in _USED and review.day
    ]
    found: list[UnusedEntry] = []
    for entry in list_entries(files):
        used = [day for day, file, name in uses if file == entry.file and _is_of(entry, name)]
        since = max([known[0], entry.added, *used])
        if (newest - date.fromisoformat(since)).days >= days:
            found.append(UnusedEntry(entry, since, bool(used)))
    return found


def _is_of(entry: MemoryEntry, name: str) -> bool:
    return name == entry.name or (entry.file in _TEXTS and name.strip() in entry.name)


def list_entries(files: Mapping[str, str]) -> list[MemoryEntry]:
    """The entries of the memory: dismissals, preferences, and items of lists in its texts."""
    found: list[MemoryEntry] = []
    for file, text in files.items():
        if file in _TEXTS:
            found += _items(file, text)
        if file == f"{OVERLAY}/{PREFERENCES}" and text.startswith("---"):
            page = split_front_matter(text.encode(), file)
            errors: list[ConfigError] = []
            front = convert_node(PreferencesFrontMatter, page.head, errors)
            if front is None:
                raise errors[0]
            end = text.split("\n").index("---", 1)
            names = [(rule.rule or "", "") for rule in front.rules]
            found += _listed(file, text, page.head.at("rules"), names, end)
        if file == DISMISSAL_FILE.name and text.strip():
            known = DISMISSAL_FILE.read(text.encode())
            names = [(one.rule or one.fingerprint, str(one.on or "")) for one in known]
            node = parse_yaml(text.encode(), file).at(DISMISSAL_FILE.key)
            found += _listed(file, text, node, names, text.rstrip("\n").count("\n") + 1)
    return found


def _listed(
    file: str, text: str, node: YamlNode, names: Sequence[tuple[str, str]], end: int
) -> Iterator[MemoryEntry]:
    """The items of a list of YAML, each with the comments above it.

    Args:
        names: name and day of each.
        end: the last line of the list.
    """
    lines = text.split("\n")

    def start(line: int) -> int:
        while line > 1 and lines[line - 2].lstrip().startswith("#"):
            line -= 1
        return line

    starts = [start(node.at(number).line) for number in range(len(names))]
    ends = [*starts[1:], end + 1]
    for (name, day), first, after in zip(names, starts, ends, strict=False):
        yield MemoryEntry(file, name, first, max(first, after - 1), day)


def _items(file: str, text: str) -> Iterator[MemoryEntry]:
    """The top-level list items; lines indented below an item belong to it."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line.startswith(("- ", "* ")):
            continue
        last = number
        while last < len(lines) and lines[last].startswith((" ", "\t")) and lines[last].strip():
            last += 1
        whole = "\n".join(lines[number - 1 : last])
        days = [day for day in _DATE.findall(whole) if _is_day(day)]
        yield MemoryEntry(file, whole, number, last, max(days, default=""))


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def remove_entries(files: Mapping[str, str], gone: Iterable[MemoryEntry]) -> dict[str, str]:
    """The files without these entries.

    Raises:
        InputError: an entry shares lines with another, so a person must remove it.
    """
    after, removed = dict(files), list(gone)
    for file, text in files.items():
        entries = [entry for entry in removed if entry.file == file]
        cut = {number for entry in entries for number in range(entry.first, entry.last + 1)}
        if not cut:
            continue
        kept = [line for number, line in enumerate(text.split("\n"), 1) if number not in cut]
        after[file] = _close_lists("\n".join(kept), file)
        rest = [entry.name for entry in list_entries({file: text}) if entry not in entries]
        try:
            left = [entry.name for entry in list_entries({file: after[file]})]
        except ConfigError:
            left = []
        if left != rest or not after[file].strip():
            raise InputError(
                f"{file}: entries share lines with others; remove line {min(cut)} by hand"
            )
    return after


def _close_lists(text: str, file: str) -> str:
    """The text with a list that has become empty written as ``[]``."""
    key = DISMISSAL_FILE.key if file == DISMISSAL_FILE.name else "rules"
    return re.sub(rf"^{key}:[ \t]*\n(?![ \t]*(?:#|- ))", f"{key}: []\n", text, flags=re.MULTILINE)
