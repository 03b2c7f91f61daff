"""Patches to the files of the repository's memory in the work tree; nothing is written there."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import anyio
from msgspec import Struct

from diffchecks.safe_paths import SafeDirectory
from orchestrator.app.memory.ages import (
    UNUSED_DAYS,
    UnusedEntry,
    find_unused,
    list_entries,
    remove_entries,
)
from orchestrator.app.memory.dismissals import DISMISSAL_FILE, is_same_dismissal
from orchestrator.app.memory.past_reviews import PastReviews
from orchestrator.app.memory.proposals import MAX_LINES, Proposals, propose
from orchestrator.app.memory.reviewed_findings import find_outcomes
from orchestrator.app.memory.waiver_files import extend_file
from orchestrator.app.runs.state_directory import repo_root
from orchestrator.data_directories import CONVENTIONS, FAILURES, MEMORY_FILES, OVERLAY
from orchestrator.errors import InputError

MAX_NAME = 100
"""Characters of an entry that are shown of it."""

_LINE = re.compile(r"[^\n]*\n|[^\n]+")

TITLES = {CONVENTIONS: "Conventions", FAILURES: "What past reviews missed or got wrong"}


class MemoryChange(Struct, frozen=True):
    """A proposed change of the memory.

    Attributes:
        before, after: name of a file → text; empty for one that is not there.
        notes: for the user.
    """

    before: Mapping[str, str]
    after: Mapping[str, str]
    notes: Sequence[str]


def propose_entries(repo: Path | None, reviews: PastReviews) -> MemoryChange:
    """The entries that past reviews suggest to add.

    Raises:
        InputError: a file of the memory cannot be read or extended.
        ConfigError: one has an error.
    """
    before = read_memory(repo)
    outcomes, why = anyio.run(find_outcomes, repo or Path(), reviews.verdicts)
    after = add_proposals(before, propose(reviews.verdicts, outcomes))
    had, has = list_entries(before), list_entries(after)
    notes = [f"{_count(len(has) - len(had), 'entry', 'entries')} proposed from {_of(reviews)}."]
    if why:
        notes.append(f"What became of findings in the base branch is not known: {why}.")
    unused = find_unused(before, reviews.verdicts)
    notes += map(_describe, unused)
    if unused:
        notes.append("diffcourt remember --prune writes the patch that removes what is not used.")
    return MemoryChange(before, after, notes)


def prune_entries(repo: Path | None, reviews: PastReviews) -> MemoryChange:
    """The memory without entries that no review has used for long.

    Raises:
        InputError: a file of the memory cannot be read, or an entry must be removed by hand.
        ConfigError: one has an error.
    """
    before = read_memory(repo)
    unused = find_unused(before, reviews.verdicts)
    after = remove_entries(before, [one.entry for one in unused])
    found = _count(len(unused), "entry", "entries")
    notes = [f"{found} not used for {UNUSED_DAYS} days, by {_of(reviews)}."]
    return MemoryChange(before, after, [*notes, *map(_describe, unused)])


def _describe(unused: UnusedEntry) -> str:
    entry = unused.entry
    name = entry.name.split("\n")[0][:MAX_NAME]
    used = "last used" if unused.ever_used else "not used since"
    return f"{entry.file}:{entry.first}: {name}: {used} {unused.since}"


def _of(reviews: PastReviews) -> str:
    found = _count(len(reviews.verdicts), "review", "reviews")
    if reviews.passed_over:
        found += f" ({reviews.passed_over} of another version of Diffcourt passed over)"
    return found


def _count(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


def read_memory(repo: Path | None) -> dict[str, str]:
    """The texts of the memory in the work tree; empty for missing files."""
    found: dict[str, str] = {}
    with SafeDirectory(repo_root(repo or Path()).resolve()) as tree:
        for name in MEMORY_FILES:
            path = f"{OVERLAY}/{name}"
            try:
                found[path] = tree.read(path).decode() if tree.is_file(path) else ""
            except UnicodeDecodeError:
                raise InputError(f"{path} is not UTF-8; save it as UTF-8") from None
    return found


def add_proposals(before: Mapping[str, str], proposals: Proposals) -> dict[str, str]:
    """The files, extended by proposals that they do not contain yet.

    Args:
        before: name → text, of all files of the memory.

    Raises:
        InputError: the file of dismissals cannot be extended.
    """
    after = dict(before)
    for name, lines in ((CONVENTIONS, proposals.conventions), (FAILURES, proposals.failures)):
        path = f"{OVERLAY}/{name}"
        new = [line for what, line in lines.items() if f"- {what}" not in before[path]]
        if new:
            text = before[path] or f"# {TITLES[name]}\n\n"
            text = text if text.endswith("\n") else f"{text}\n"
            after[path] = text + "".join(f"- {line}\n" for line in new[:MAX_LINES])
    path = DISMISSAL_FILE.name
    for dismissal, entry in proposals.dismissals:
        data = after[path].encode()
        known = DISMISSAL_FILE.read(data.strip() and data)
        if not any(is_same_dismissal(one, dismissal) for one in known):
            after[path] = extend_file(DISMISSAL_FILE, data, dismissal, entry)
    return after


def make_patch(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The differences as a patch for ``git apply``; empty without any."""
    return "".join(
        "".join(_file_patch(name, before[name], text))
        for name, text in sorted(after.items())
        if text != before[name]
    )


def _file_patch(name: str, before: str, after: str) -> Iterator[str]:
    yield f"diff --git a/{name} b/{name}\n"
    old, new = f"a/{name}", f"b/{name}"
    if not before:
        yield "new file mode 100644\n"
        old = "/dev/null"
    lines = difflib.unified_diff(_LINE.findall(before), _LINE.findall(after), old, new)
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
