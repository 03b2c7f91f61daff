"""Removed escaping, constant-time comparison and secure randomness, from the differing lines."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from diffchecks.check_io import RawFinding
from diffchecks.data_files import read_patterns, vocabulary
from diffchecks.file_patterns import file_names, matches


def find_lost_wrapping(files: Sequence["ChangedText"]) -> Iterator[RawFinding]:
    """Report protective calls around a value that are gone in head, in any language."""
    added = strip_whitespace("\n".join(file.added_text for file in files))
    for file in files:
        for hunk in file.hunks() if file.base else ():
            if hunk.base:
                yield from find_lost_protections(file, hunk, added)


def name_once(findings: Iterable[RawFinding]) -> Iterator[RawFinding]:
    """What is lost in the same way in several places of a file: once, with the other lines."""
    found: dict[tuple[str, object], list[RawFinding]] = {}
    for one in findings:
        same = _PATTERNS["same"].search(one.message)
        found.setdefault((one.path, same[0] if same else one), []).append(one)
    for first, *others in found.values():
        also = tell_other_lines({other.line for other in others} - {first.line})
        yield replace(first, message=first.message + also)


BEHIND = 12  # characters after a call that must also follow its argument
MAX_HUNK_CHARACTERS = 50_000  # characters of a hunk; a larger one was rewritten
BELOW = 3  # common lines below that are compared; the first may be empty
LINES = 40  # that a value and what goes before it may span
SHOWN = 60  # characters of an argument in a message
OTHERS = 5  # further places of a finding that a message names

_PATTERNS = read_patterns("lost_wrapping")


class WrittenCall(Struct, frozen=True):
    """A call as written: its dotted name, its arguments, and its place in the text."""

    name: str
    arguments: list[str]
    start: int
    end: int


def find_lost_protections(
    file: "ChangedText", hunk: "LineRange", added: str
) -> Iterator[RawFinding]:
    """Report protections that a hunk removes.

    Args:
        added: all lines that the change adds in any file, without white space.
    """
    old, new = file.was(hunk), file.now(hunk)
    if not new or max(len(old), len(new)) > MAX_HUNK_CHARACTERS:
        return
    yield from _unwrapped(file, hunk, added)
    yield from _unreplaced(file, hunk, added)
    yield from _unsubstituted(file, hunk, added)
    constant_time, secure = vocabulary("constant_time"), vocabulary("secure_random")
    if constant_time.search(old) and not constant_time.search(file.added_text):
        yield from _compared_plainly(file, hunk, old)
    before, after = secure.search(old), vocabulary("predictable").search(new)
    if before and after and not (secure.search(new) or vocabulary("predictable").search(old)):
        line = hunk.head.start + new.count("\n", 0, after.start())
        says = f"{after.group().rstrip('(')} in place of {before.group().rstrip('(')}"
        yield RawFinding("random-weakened", file.path, line, f"Predictable random numbers: {says}")


def find_calls(text: str, named: re.Pattern[str]) -> Iterator[WrittenCall]:
    """Calls of functions with such names, outer ones first."""
    last = -1
    for word in named.finditer(text):
        behind = _PATTERNS["name_behind"].match(text, word.end())
        before = _PATTERNS["name_before"].search(text, max(0, word.start() - SHOWN), word.start())
        found = split_arguments(text, behind.end()) if behind else None
        if behind and before and found and before.start() != last:
            last = before.start()
            name = text[last : behind.end() - 1]
            yield WrittenCall(name, found[0], last, found[1])


def _unwrapped(file: "ChangedText", hunk: "LineRange", added: str) -> Iterator[RawFinding]:
    """Values that base escapes with a call and that head uses without it."""
    old = file.was(hunk)
    for call in find_calls(old, vocabulary("escapes")):
        value = strip_whitespace(call.arguments[0])
        if (
            vocabulary("not_escaping").search(call.name)
            or _PATTERNS["literal"].fullmatch(value)
            or file.added_calls[_PATTERNS["parts"].split(call.name)[-1]] >= 0
            or file.is_escaped(hunk, call)
        ):
            continue
        line = _line_with(file, hunk, _line_before(old, call.start) + value, old[call.end :]) or 0
        shown = " ".join(call.arguments[0].split())
        above = "\n".join([shown, *file.head[max(0, line - LINES) : line]])
        if line and not _PATTERNS["number"].match(above) and f"{call.name}({value}" not in added:
            says = f"{call.name}() no longer wraps {shown[:SHOWN]}"
            yield RawFinding("escape-removed", file.path, line, says)


def _unreplaced(file: "ChangedText", hunk: "LineRange", added: str) -> Iterator[RawFinding]:
    """Values whose special characters were replaced in base, and are not in head."""
    old = file.was(hunk)
    for word in _PATTERNS["replaces"].finditer(old):
        call_match = _PATTERNS["one"].match(old, word.end())
        found = split_arguments(old, call_match.end()) if call_match else None
        value = _line_before(old, word.start())
        says = call_match and (call_match[1] or call_match[3])
        if not (call_match and found and value and says and _PATTERNS["means"].search(says)):
            continue
        call = strip_whitespace(old[word.start() : found[1]])
        taken_out = not strip_whitespace(found[0][0]).strip("'\"`")
        line = _line_with(file, hunk, value, old[found[1] :])
        if line and not taken_out and call not in added:
            says = f"Special characters are no longer replaced: {call[:SHOWN]} was removed"
            yield RawFinding("escape-removed", file.path, line, says)


def _unsubstituted(file: "ChangedText", hunk: "LineRange", added: str) -> Iterator[RawFinding]:
    """Values of which a pattern's matches were replaced in base, and are not in head."""
    old = file.was(hunk)
    for call in find_calls(old, _PATTERNS["substitutes"]):
        if not _PATTERNS["taken_out"].match("\0".join(call.arguments)):
            continue
        value = strip_whitespace(call.arguments[2])
        line = _line_with(file, hunk, _line_before(old, call.start) + value, old[call.end :])
        if line and strip_whitespace(old[call.start : call.end]) not in added:
            says = f"Matches of {call.arguments[0].strip()[:SHOWN]} are no longer replaced"
            yield RawFinding("escape-removed", file.path, line, says)


def _line_before(text: str, at: int) -> str:
    """The text of the same line before a position, without white space."""
    return strip_whitespace(text[text.rfind("\n", 0, at) + 1 : at])


def _line_with(file: "ChangedText", hunk: "LineRange", begins: str, goes_on: str) -> int | None:
    """The added line with this beginning that continues like the old one."""
    below = file.base[hunk.base.stop - 1 : hunk.base.stop - 1 + BELOW]
    moved = begins + strip_whitespace("\n".join([goes_on, *below]))[:BEHIND]
    lines = file.squeezed_head
    for number in hunk.head:
        line = lines[number - 1]
        if line and (moved.startswith(line) or line.startswith(moved)):
            last = min(number + LINES, hunk.head.stop - 1 + BELOW)
            if "".join(lines[number - 1 : last]).startswith(moved):
                return number
    return None


def _compared_plainly(file: "ChangedText", hunk: "LineRange", old: str) -> Iterator[RawFinding]:
    """A constant-time comparison that became an ordinary one."""
    for call in find_calls(old, vocabulary("constant_time")):
        bare = _PATTERNS["bytes"].sub
        values = [bare(r"\1\2\3", strip_whitespace(argument)) for argument in call.arguments]
        for number in hunk.head:
            line = file.squeezed_head[number - 1]
            if (
                _PATTERNS["compares"].search(line)
                and len(values) > 1
                and all(value in line for value in values)
            ):
                says = f"Compared without {call.name}(): its timing reveals how much is right"
                yield RawFinding("comparison-timing", file.path, number, says)
                break


def tell_other_lines(lines: Iterable[int]) -> str:
    """The end of a message: other places of the same defect, bounded; empty: none."""
    others = sorted(set(lines))
    shown = ", ".join(map(str, others[:OTHERS])) + (", …" if len(others) > OTHERS else "")
    return f"; also at line{'s' * (len(others) > 1)} {shown}" if others else ""


MAX_CALL = 600  # characters; longer text is data, not arguments

_OPENING, _CLOSING, _QUOTES = "([{", ")]}", "\"'`"


def strip_whitespace(text: str) -> str:
    """Remove all white space, so that only a different layout makes no difference."""
    return "".join(text.split())


def split_arguments(text: str, start: int) -> tuple[list[str], int] | None:
    """Split the arguments between two brackets at their commas.

    Returns:
        The parts as written, and the offset after the closing bracket; None if there is none within
        ``MAX_CALL``.
    """
    parts: list[str] = []
    depth, begin, quote, at = 0, start, "", start
    while at < min(len(text), start + MAX_CALL):
        char = text[at]
        if quote:
            at += char == "\\"
            quote = "" if char == quote else quote
        elif char in _QUOTES:
            quote = char
        elif char in _OPENING:
            depth += 1
        elif char in _CLOSING and depth == 0:
            return [*parts, text[begin:at]], at + 1
        elif char in _CLOSING:
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[begin:at])
            begin = at + 1
        at += 1
    return None


class LineRange(Struct, frozen=True):
    """Line numbers removed from base and added in head; either may be empty."""

    base: range
    head: range


def without_comments(path: str, lines: list[str]) -> list[str]:
    """The lines of a file with blanks for its comments and docstrings."""
    by_hash, by_both = (
        matches(path, file_names(f"commented_by_{how}")) for how in ("hash", "both")
    )
    text = "\n".join(lines)
    for kind in ["comment"] * (not by_hash) + ["hash_comment"] * (by_hash or by_both):
        text = _PATTERNS[kind].sub(lambda one: one["kept"] or "\n" * one[0].count("\n"), text)
    return text.split("\n") if lines else []


class ChangedText(Struct, dict=True, eq=False):
    """The lines of a changed file in base and head, and the numbers of differing lines."""

    path: str
    base: list[str]
    head: list[str]
    removed: frozenset[int]
    added: frozenset[int]

    @cached_property
    def code(self) -> "ChangedText":
        """The text without comments, which protect nothing, whatever they say."""
        base, head = (without_comments(self.path, lines) for lines in (self.base, self.head))
        return ChangedText(self.path, base, head, self.removed, self.added)

    @cached_property
    def added_text(self) -> str:
        """The added lines, joined."""
        return _joined(self.head, sorted(self.added))

    @cached_property
    def squeezed_head(self) -> list[str]:
        """The lines of head without white space."""
        return [strip_whitespace(line) for line in self.head]

    @cached_property
    def added_calls(self) -> Counter[str]:
        """Name → how many more calls of it are added than removed."""
        calls = Counter(_PATTERNS["called"].findall(self.added_text))
        calls.subtract(_PATTERNS["called"].findall(_joined(self.base, sorted(self.removed))))
        return calls

    def hunks(self) -> Iterator[LineRange]:
        """All hunks in the order of the text."""
        old = new = 1
        while old <= len(self.base) or new <= len(self.head):
            before, after = old, new
            while old in self.removed:
                old += 1
            while new in self.added:
                new += 1
            if (before, after) == (old, new):
                old, new = old + 1, new + 1
            else:
                yield LineRange(range(before, old), range(after, new))

    def place(self, removed_line: int) -> int:
        """The line of head at the place of a line of base that goes, or next to it."""
        return self.place_of(next(hunk for hunk in self.hunks() if removed_line in hunk.base))

    def place_of(self, hunk: LineRange) -> int:
        """The first line of a hunk in head, or the one next to it, that is not blank."""
        after, before = range(hunk.head.stop, len(self.head) + 1), range(hunk.head.start - 1, 0, -1)
        near = (n for n in (*hunk.head, *after, *before) if n <= len(self.head))
        return next((n for n in near if self.head[n - 1].strip()), 1)

    def was(self, hunk: LineRange) -> str:
        """The text of a hunk in base."""
        return _joined(self.base, hunk.base)

    def now(self, hunk: LineRange) -> str:
        """The text of a hunk in head."""
        return _joined(self.head, hunk.head)

    def is_escaped(self, hunk: LineRange, call: WrittenCall) -> bool:
        """Whether what base gives the result of a call to escapes values itself."""
        above, old = self.base[: hunk.base.start - 1][-LINES:], self.was(hunk)
        before = "\n".join([*above, old[: call.start] + call.name])[-MAX_CALL:]
        shown = f"{before}\0{old[call.end : call.end + BEHIND]}"
        return _PATTERNS["escapes_itself"].search(shown) is not None

    def only_escapes_less(self, hunk: LineRange) -> bool:
        """Whether only escapes go of values that are escaped anyway."""
        old = self.was(hunk)
        for call in reversed([*find_calls(old, vocabulary("escapes"))]):
            if self.is_escaped(hunk, call):
                old = old[: call.start] + call.arguments[0] + old[call.end :]
        return strip_whitespace(old) == strip_whitespace(self.now(hunk))


def _joined(lines: list[str], numbers: Collection[int]) -> str:
    return "\n".join(lines[number - 1] for number in numbers if 0 < number <= len(lines))
