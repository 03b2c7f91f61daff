"""Tests that the change takes away: not moved, renamed or merged, and their subject stays."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from orchestrator.review.checks.python_paths import is_product_path, nearest
from orchestrator.review.checks.python_source import (
    Finding,
    Job,
    NotParsedError,
    Pair,
    finding,
    read_text,
)
from orchestrator.review.checks.python_tests import Case, Suite

NAMES_SHOWN = 5
SAME_LINES = 0.5  # share of equal lines from which on two tests are one that was renamed
WORD_LENGTH = 4  # shorter names say too little of what a test is about

_WORD = re.compile(r"[A-Za-z_]\w*")
# Functions, classes, parameters and keywords, and what a module assigns; no local variables.
_DEFINED = re.compile(
    r"(?<=def )\w+|(?<=class )\w+|[A-Za-z_]\w*(?=: |=[^\s=])|^[A-Za-z_]\w*(?= = )", re.MULTILINE
)
_OWN = re.compile(r"([A-Za-z_]\w*) (?:=|in) |\bas ([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is kept of a test when its file's syntax tree is let go."""

    dotted: str
    text: frozenset[str]
    counts: bool
    parametrized: bool

    @property
    def name(self) -> str:
        return self.dotted.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class _File:
    """A test file that lost tests.

    Attributes:
        path: where to say so in head, None when the file is gone.
        line: of the last test before the lost ones that still stands, else of the first line.
        lost: those of base that head does not have under their name.
        came: tests that the file gained.
    """

    old_path: str
    path: str | None
    line: int
    lost: tuple[_Kept, ...]
    came: tuple[_Kept, ...]


class Removals:
    """Collects what each file lost, and decides when all files are known."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._files: list[_File] = []
        self._came: list[_Kept] = []
        self._names: set[str] = set()
        self._lines: list[tuple[str, int]] = []

    def add(self, pair: Pair, before: Suite, after: Suite) -> None:
        """Note the tests of one file, of both sides."""
        came, lost = _only_in(after, before), _only_in(before, after)
        self._came += came
        self._names |= {case.name for case in came}
        if pair.head and (first := pair.head.first_line):
            self._lines.append((pair.path, first))
        if lost and pair.old_path:
            first_lost = before.functions[lost[0].dotted]
            line = self._line(before, after, first_lost) or self._first_line(pair.path)
            path = pair.path if pair.head and line else None
            self._files.append(_File(pair.old_path, path, line, lost, came))

    def findings(self) -> Iterator[Finding]:
        """One finding for each file that really lost tests."""
        vanished = self._vanished_words() if self._files else frozenset()
        for file in self._files:
            lost = [case for case in file.lost if self._is_missed(case, vanished)]
            if not lost or self._merged(file, lost):
                continue
            place = (file.path, file.line) if file.path else self._near(file.old_path)
            if place:
                yield self._finding(file, lost, *place)

    @staticmethod
    def _finding(file: _File, lost: list[_Kept], path: str, line: int) -> Finding:
        names = [case.dotted for case in lost]
        shown = ", ".join(names[:NAMES_SHOWN])
        more = len(names) - NAMES_SHOWN
        where = "" if file.path else f" with {file.old_path}"
        return finding(
            "removed",
            path,
            line,
            f"{len(names)} test{'s are' if len(names) > 1 else ' is'} gone{where}: {shown}"
            + (f" and {more} more" if more > 0 else ""),
            key=f"{file.old_path}: {' '.join(sorted(names))}",
            detail="\n".join(names),
        )

    def _is_missed(self, case: _Kept, vanished: frozenset[str]) -> bool:
        if case.name in self._names or not case.counts:
            return False
        words = {word for line in case.text for word in _WORD.findall(line)}
        own = {name for line in case.text for names in _OWN.findall(line) for name in names}
        if not vanished.isdisjoint((words - own) | set(case.name.split("_"))):
            return False
        return not any(_alike(case, other) for other in self._came)

    @staticmethod
    def _merged(file: _File, lost: list[_Kept]) -> bool:
        """Rewritten: as many came as went, or what came stands for several cases."""
        return len(file.came) >= len(lost) or any(case.parametrized for case in file.came)

    def _vanished_words(self) -> frozenset[str]:
        """Names that were taken away themselves: that no changed product file has any more, or
        that fewer of them define.
        """
        words: Counter[str] = Counter()
        defined: Counter[str] = Counter()
        for file in self._job["files"]:
            path, old = file["path"], file["old_path"]
            deleted = file["status"] == "deleted"
            if old and is_product_path(old):
                words.update(_matches(_WORD, self._job["base_root"], old))
                defined.update(_matches(_DEFINED, self._job["base_root"], old))
                defined.update([old.rpartition("/")[2].removesuffix(".py")] if deleted else ())
            if not deleted and is_product_path(path):
                kept = _matches(_WORD, self._job["head_root"], path)
                words.update(dict.fromkeys(kept, -len(self._job["files"])))
                defined.subtract(_matches(_DEFINED, self._job["head_root"], path))
        gone = {word for word, files in (*words.items(), *defined.items()) if files > 0}
        return frozenset(word for word in gone if len(word) >= WORD_LENGTH)

    @staticmethod
    def _line(before: Suite, after: Suite, lost: Case) -> int:
        """The nearest test before the lost one that head still has, else its class, else 0."""
        earlier = [case for case in before.functions.values() if case.line < lost.line]
        owner = lost.dotted.rpartition(".")[0]
        for case in reversed(earlier):
            still = after.functions.get(case.dotted)
            if still and case.dotted.rpartition(".")[0] == owner:
                return still.line
        return after.classes[owner].line if owner in after.classes else 0

    def _first_line(self, path: str) -> int:
        return next((line for known, line in self._lines if known == path), 0)

    def _near(self, path: str) -> tuple[str, int] | None:
        """A place in head to say it: a changed file, else a test beside it."""
        changed = dict(self._lines)
        if near := nearest(path, changed):
            return near, changed[near]
        tree = (one for one in self._job["head_tree"] if one.endswith(".py"))
        beside = nearest(path, (one for one in tree if not one.endswith("__init__.py")))
        return (beside, 1) if beside else None


def _only_in(one: Suite, other: Suite) -> tuple[_Kept, ...]:
    return tuple(
        _Kept(
            dotted,
            frozenset(case.text),
            case.assertions > 0 and case.mark is None,
            case.parametrized,
        )
        for dotted, case in one.functions.items()
        if dotted not in other.functions
    )


def _alike(case: _Kept, other: _Kept) -> bool:
    return len(case.text & other.text) >= SAME_LINES * max(len(case.text), 1)


def _matches(sign: re.Pattern[str], root: str, path: str) -> set[str]:
    with suppress(NotParsedError):
        return set(sign.findall(read_text(root, path))) if path.endswith(".py") else set()
    return set()
