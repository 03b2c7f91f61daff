"""Lines that protect, or may, and that a change removes or alters, in any language.

Settings that are known to harden are findings. No rule counts most others: agents get them as
leads. Whether the code is as safe without them is a question about the program, not its syntax. A
denial of access that goes without a trace is told to people as well, and decides nothing either.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from diffchecks.check_io import RawFinding
from diffchecks.data_files import read_patterns, read_yaml, vocabulary
from diffchecks.path_kinds import path_kinds
from diffchecks.removed_controls.lost_wrapping import ChangedText, strip_whitespace

ALTERED, CONDITION, OTHER = "altered-condition", "removed-condition", "removed-protection"
LEADS = read_yaml("texts.yaml")["removed_checks"]
"""Code → message."""
DENIAL = "denial-removed"
"""The code of a condition about access that rejected, and of which nothing is left."""
MESSAGES = {**LEADS, DENIAL: "Nothing takes the place of a condition that denied access here"}

MAX_LINES = 60  # removed lines of a hunk; with more, the code was replaced
MAX_CHARACTERS = 1_000  # of a line; a longer one is data or generated
SPAN = 5  # lines from a condition to the end of its rejection
_NOT_IN = frozenset({"tests", "samples", "documents", "generated", "vendored"})
_NOT_CODE = frozenset({".md", ".rst", ".txt", ".lock", ".json", ".po", ".svg"})

_PATTERNS = read_patterns("removed_checks")


def find_removed_checks(files: Sequence[ChangedText]) -> Iterator[RawFinding]:
    """At most one for each hunk."""
    new = [line for file in files for line in file.added_text.split("\n")]
    came = _protecting("\n".join(filter(_is_code, new)))
    moved = set(map(strip_whitespace, new))
    for file in files:
        suffix = PurePosixPath(file.path).suffix.lower()
        if not file.base or suffix in _NOT_CODE or not path_kinds(file.path).isdisjoint(_NOT_IN):
            continue
        own = _protecting(file.added_text)
        for hunk in file.hunks():
            lines = hunk.base if len(hunk.base) <= MAX_LINES else range(0)
            now = file.now(hunk).split("\n") if lines else ()
            alters = any(map(_PATTERNS["condition"].match, now))
            for number in lines:
                line = file.base[number - 1]
                if not _is_code(line) or strip_whitespace(line) in moved:
                    continue
                words = _protecting(line)
                span = file.base[number - 1 : min(number - 1 + SPAN, hunk.base.stop - 1)]
                rejected = "\n".join(span)
                code = _lead(line, rejected, alters=alters, lost=not words <= came)
                denies = vocabulary("about_access").search(line)  # a condition about access
                if code == CONDITION and not words <= own and denies:
                    code = DENIAL if vocabulary("rejects").search(rejected) else code
                if code:
                    # The removed line is not in the message: it may hold a secret.
                    where = file.path, file.place_of(hunk), MESSAGES[code]
                    yield RawFinding(code, *where, removed_path=file.path, removed_line=number)
                    break


def _lead(line: str, span: str, *, alters: bool, lost: bool) -> str:
    """The code of a removed line's lead; empty: none.

    Args:
        span: the line and the removed ones below it.
        alters: another condition comes in its place.
        lost: a word about protection occurs in nothing that the change adds.
    """
    if not _PATTERNS["condition"].match(line):
        return OTHER if lost else ""
    if alters:
        return ALTERED if lost or vocabulary("may_protect").search(line) else ""
    return CONDITION if lost or vocabulary("rejects").search(span) else ""


def _is_code(line: str) -> bool:
    return len(line) <= MAX_CHARACTERS and not vocabulary("idle").match(line)


def _protecting(text: str) -> frozenset[str]:
    """The words that speak of protection, in lower case."""
    words = frozenset(map(str.lower, _PATTERNS["word"].findall(text)))
    return frozenset(filter(vocabulary("may_protect").search, words))


def find_lost_settings(files: Sequence[ChangedText]) -> Iterator[RawFinding]:
    """Lines of ``tables/lost_settings.yaml`` that go, one for each file; what they harden stays."""
    came = {word for file in files for word in _PATTERNS["key"].findall(file.added_text)}
    for file in files:
        rows = [
            row for row in read_yaml("lost_settings.yaml") if re.search(row["files"], file.path)
        ]
        counts = rows and file.head and path_kinds(file.path).isdisjoint(_NOT_IN)
        lost = {
            match["key"]: number
            for row in rows
            for number in (sorted(file.removed) if counts else ())
            if (match := re.search(row["line"], file.base[number - 1][:MAX_CHARACTERS]))
            and match["key"] not in came
            and not re.search(rf"\b{re.escape(match['key'])}\b", head := "\n".join(file.head))
            and not re.search(row.get("unless", "(?!)"), head)
            and _owner_stays(file, number)
        }
        for number in list(lost.values())[:1]:
            where = file.path, file.place(number), f"This protection is gone: {', '.join(lost)}"
            yield RawFinding(
                "hardening-removed", *where, removed_path=file.path, removed_line=number
            )


def _owner_stays(file: ChangedText, number: int) -> bool:
    """Whether the line above that holds a removed one is in head; what only hardens is passed."""
    line = file.base[number - 1]
    depth = len(line) - len(line.lstrip())
    for above in reversed(file.base[: number - 1]):
        if above.strip() and (own := len(above) - len(above.lstrip())) < depth:
            if not _PATTERNS["only_hardens"].search(above):
                return strip_whitespace(above) in file.squeezed_head
            depth = own
    return True
