"""Calls and values that a change replaces with less safe ones, from the differing lines."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath

from msgspec import Struct, convert, field

from diffchecks import shorten
from diffchecks.check_io import RawFinding
from diffchecks.data_files import (
    compile_expression,
    read_names,
    read_patterns,
    read_yaml,
    vocabulary,
)
from diffchecks.removed_controls.lost_wrapping import (
    MAX_HUNK_CHARACTERS,
    SHOWN,
    ChangedText,
    LineRange,
    strip_whitespace,
)

_NEGATES = read_names("negated_flags")
_PROTECTS = read_names("protecting_flags")
_EXPOSES = read_names("exposing_flags")
CODE = "unsafe-replacement"
NEAR = 8  # lines around a directory name in which it is compared

_SUFFIXES = read_yaml("language_suffixes.yaml")
_KNOWN = frozenset(" ".join(_SUFFIXES.values()).split())


class UnsafeReplacement(Struct, frozen=True):
    """A safe call and its unsafe counterpart: ``tables/unsafe_replacements.yaml``.

    Attributes:
        language: the group of suffixes to which it applies.
        says: what is wrong with the unsafe one.
    """

    safe: re.Pattern[str]
    unsafe: re.Pattern[str]
    says: str
    language: str = field(name="in")


@cache
def load_replacements() -> list[UnsafeReplacement]:
    """Load the known pairs."""
    rows = read_yaml("unsafe_replacements.yaml")
    return convert(rows, list[UnsafeReplacement], dec_hook=compile_expression)


def find_unsafe_replacements(file: ChangedText) -> Iterator[RawFinding]:
    """Report what each hunk of a file replaces with something less safe."""
    suffix = PurePosixPath(file.path).suffix.lower()
    if suffix not in _KNOWN:
        return
    for hunk in file.hunks() if file.base else ():
        old, new = file.was(hunk), file.now(hunk)
        if old and new and max(len(old), len(new)) <= MAX_HUNK_CHARACTERS:
            for find in _OF_PROGRAMS if suffix in _SUFFIXES["any"].split() else ():
                yield from find(file, hunk)
            if replaced := _replaced(old, new, suffix):
                at, says = replaced
                line = hunk.head.start + new.count("\n", 0, at)
                yield RawFinding(CODE, file.path, line, says, confidence=0.7)


def _replaced(before: str, after: str, suffix: str) -> tuple[int, str] | None:
    """The place of the first replaced pair in the text, and a message."""
    for pair in load_replacements():
        if suffix not in _SUFFIXES[pair.language].split() or not pair.unsafe.search(after):
            continue
        if len(pair.unsafe.findall(after)) <= len(pair.unsafe.findall(before)):
            continue
        safe, unsafe = pair.safe.search(before), pair.unsafe.search(after)
        if safe and unsafe and len(pair.safe.findall(after)) < len(pair.safe.findall(before)):
            old, new = (f"`{shorten(' '.join(one[0].split()), SHOWN)}`" for one in (safe, unsafe))
            return unsafe.start(), f"{new} in place of {old}: {pair.says}"
    return None


_PATTERNS = read_patterns("unsafe_replacements")


def _unbounded(file: ChangedText, hunk: LineRange) -> Iterator[RawFinding]:
    """A bounded repetition in a pattern that became unbounded, in an otherwise equal line."""
    lines = {
        _PATTERNS["bounded"].sub("*", strip_whitespace(file.base[n - 1])): n
        for n in hunk.base
        if _PATTERNS["bounded"].search(file.base[n - 1])
    }
    for number in hunk.head if lines else ():
        text = file.squeezed_head[number - 1]
        if not _PATTERNS["bounded"].search(text) and _PATTERNS["endless"].sub("*", text) in {
            _PATTERNS["endless"].sub("*", old) for old in lines
        }:
            says = "A repetition of the pattern is no longer bounded"
            yield RawFinding("bound-removed", file.path, number, says, confidence=0.7)


def _without_separator(file: ChangedText, hunk: LineRange) -> Iterator[RawFinding]:
    """A path prefix check whose directory is no longer followed by a separator."""
    lines = {
        vocabulary("path_separator").sub("", text)
        for number in hunk.base
        if vocabulary("path_separator").search(text := strip_whitespace(file.base[number - 1]))
    }
    elsewhere = _PATTERNS["appends"].search(strip_whitespace(file.now(hunk)))
    for number in hunk.head if lines and not elsewhere else ():
        text = file.squeezed_head[number - 1]
        near = file.head[max(0, number - 1 - NEAR) : number + NEAR]
        if text in lines and _PATTERNS["begins"].search("\n".join(near)):
            says = "A folder whose name only begins like this one passes: the separator is gone"
            yield RawFinding("condition-weakened", file.path, number, says, confidence=0.8)


# What may be skipped without harm, unless such a word stands beside it.
_GUARDS = _PROTECTS | read_names("guarding_words")
LARGE = 1000  # growth from which a larger number is too large
LONG_LINE = 1_000  # characters; a longer one is generated
SPAN = 60  # characters before a value that contain its name


def _weaker_values(file: ChangedText, hunk: LineRange) -> Iterator[RawFinding]:
    """A less safe flag or number, in an otherwise equal line that base has not as well."""
    lines = {
        key: parts
        for number in hunk.base
        if len(parts := _PATTERNS["value"].split(strip_whitespace(file.base[number - 1]))) > 1
        for key in (tuple(parts[::2]), tuple(parts))
    }
    for number in hunk.head if lines else ():
        new = _PATTERNS["value"].split(file.squeezed_head[number - 1])
        old = lines.get(tuple(new)) or lines.get(tuple(new[::2]), new)
        for at in range(1, len(new), 2):
            before = new[at - 1][-SPAN:]
            last = _PATTERNS["own_name"].findall(before)[0]
            named, own = (
                frozenset(part.lower() for part in _PATTERNS["parts"].findall(text))
                for text in (before, last)
            )
            if not read_names("interface_flags").isdisjoint(own):
                named -= {"entities", "escape", "validate", "verify"}
            if old[at] != new[at] and _is_weaker(named, old[at], new[at]):
                says = f"A weaker value replaces {old[at]}: {file.head[number - 1].strip()[:SHOWN]}"
                yield RawFinding("hardening-removed", file.path, number, says, confidence=0.7)
                break


def _lost_options(file: ChangedText, hunk: LineRange) -> Iterator[RawFinding]:
    """A protecting option that is no longer passed, in an otherwise equal line."""
    lines: dict[str, str] = {}
    for number in hunk.base:
        text = strip_whitespace(file.base[number - 1])
        for option in _PATTERNS["option"].finditer(text) if len(text) <= LONG_LINE else ():
            off = _PATTERNS["turned_off"].fullmatch(option["value"]) is not None
            exposes = option["name"] == "resolve_entities"
            if off == exposes and option["name"] not in file.added_text:
                rest = text[: option.start()], text[option.end() :]
                lines |= {joint.join(rest): option["name"] for joint in ("", ",")}
    for number in hunk.head if lines else ():
        if name := lines.get(file.squeezed_head[number - 1]):
            says = f"The option {name} is no longer set"
            yield RawFinding("hardening-removed", file.path, number, says, confidence=0.7)


_OF_PROGRAMS = (_unbounded, _without_separator, _weaker_values, _lost_options)


def _is_weaker(named: frozenset[str], old: str, new: str) -> bool:
    old, new = old.lower(), new.lower()
    if {old, new} == {"true", "false"}:
        protects = not named.isdisjoint(_PROTECTS)
        exposes = named & _EXPOSES - {"skip"} or ("skip" in named and named & _GUARDS)
        if exposes or (protects and named & _NEGATES):
            return new == "true"
        return protects and new == "false"
    if not {old, new}.isdisjoint({"true", "false"}):
        return False
    before, after = int(old), int(new)
    if named & read_names("lower_bounds"):
        return 0 < 2 * after <= before
    return (
        bool(named & read_names("upper_bounds"))
        and named.isdisjoint(read_names("bounds_of_work"))
        and before > 0
        and (after <= 0 or after >= max(LARGE, 4 * before))
    )
