"""Tests that the change removes, empties, skips or omits."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

from msgspec import Struct

from diffchecks import name_some
from diffchecks.check_io import CheckReply, Gap, RawFinding, nothing_to_compare
from diffchecks.data_files import read_names, read_patterns
from diffchecks.jobs import ComparisonJob
from diffchecks.path_kinds import is_product, is_test
from diffchecks.python.imported_files import module_index, scan_imports
from diffchecks.python.source_definitions import (
    ChangedModule,
    ParsedModule,
    gap_on_error,
    read_pairs,
    read_text,
)
from diffchecks.python.syntax_tree_cache import all_blocks
from diffchecks.test_quality.non_python_tests import (
    compare_non_python_tests,
    holds_non_python_tests,
)
from diffchecks.test_quality.python_tests import Case, Suite, read_suite


def run(job: ComparisonJob) -> CheckReply:
    """Report weakened tests; Python is parsed, other languages are read by pattern."""
    tree = chain(job.base_tree, job.head_tree)
    if not any(is_test(path) or holds_non_python_tests(path) for path in tree):
        return nothing_to_compare("the project has no tests")
    gaps: dict[str, str] = {}
    findings: list[RawFinding] = []
    examined: list[str] = []
    removals, coverage = RemovedTests(job), UntestedCode(job)
    for pair in read_pairs(job, gaps):
        with gap_on_error(gaps, pair.path):
            findings += _compare(pair, removals)
            coverage.add(pair)
            examined.append(pair.path)
    findings += [*removals.findings(), *coverage.findings()]
    by_pattern = compare_non_python_tests(job)
    return CheckReply(
        findings + by_pattern.findings, examined + by_pattern.examined, gaps | by_pattern.gaps
    )


def _compare(pair: ChangedModule, removals: "RemovedTests") -> Iterator[RawFinding]:
    """Compare the tests of one file; removed tests are only recorded."""
    before, after = Suite({}, {}, None), Suite({}, {}, None)
    if pair.head and is_test(pair.path):
        after = read_suite(pair.head)
    if pair.old_path and is_test(pair.old_path) and (base := pair.base()):
        before = read_suite(base)
    removals.add(pair, before, after)
    yield from _skipped(pair.path, before, after)
    for dotted, case in after.functions.items():
        old = before.functions.get(dotted)
        if old is None or old.text != case.text:
            yield from _emptied(pair.path, old, case) if old else ()
            yield from _trivial(pair, old, case)


def _skipped(path: str, before: Suite, after: Suite) -> Iterator[RawFinding]:
    if after.mark and not before.mark and before.functions:
        message = f"All tests of this file are now marked {after.mark.how}"
        yield RawFinding("skipped", path, after.mark.line, message, key="<module>")
    for known, new in ((before.classes, after.classes), (before.functions, after.functions)):
        for dotted, case in new.items():
            old = known.get(dotted)
            if old and case.mark and not old.mark:
                message = f"The existing test {dotted} is now marked {case.mark.how}"
                line = case.mark.line
                yield RawFinding("skipped", path, line, message, key=dotted, scope=dotted)


def _emptied(path: str, before: Case, after: Case) -> Iterator[RawFinding]:
    """A test that lost all its assertions, unless a new call may assert instead."""
    if (
        before.assertions
        and not after.assertions
        and not after.mark
        and all(map(_PATTERNS["asks_only"].fullmatch, after.calls - before.calls))
    ):
        message = f"{after.dotted} had {before.assertions} assertions and now has none"
        yield RawFinding(
            "assertions-removed", path, after.line, message, key=after.dotted, scope=after.dotted
        )


def _trivial(pair: ChangedModule, old: Case | None, new: Case) -> Iterator[RawFinding]:
    """A test whose assertions are all always true."""
    trivial = new.trivial
    if new.assertions > len(trivial) or (old and len(old.trivial) >= len(trivial)):
        return
    for line in trivial:
        if line in pair.added:
            message = f"{new.dotted} asserts only this, which is always true"
            yield RawFinding(
                "trivial-assertion", pair.path, line, message, key=new.dotted, scope=new.dotted
            )
            return


NAMES_SHOWN = 5
SAME_LINES = 0.5  # share of equal lines from which a test counts as renamed
WORD_LENGTH = 4  # shorter names say too little about the subject of a test

# Names of functions, classes, parameters, keywords and module variables, not of locals.
_PATTERNS = read_patterns("weakened_tests")
_OWN = re.compile(r"([A-Za-z_]\w*) (?:=|in) |\bas ([A-Za-z_]\w*)")


class _Kept(Struct, frozen=True):
    """The data about a test that is kept when its syntax tree is freed."""

    dotted: str
    text: frozenset[str]
    counts: bool
    parametrized: bool
    line: int

    @property
    def name(self) -> str:
        return self.dotted.rpartition(".")[2]


class _File(Struct, frozen=True):
    """A test file that lost tests.

    Attributes:
        path: the path in head; None if the file has no tests there.
        lost: tests of base whose name is missing in head.
        came: added tests.
    """

    old_path: str
    path: str | None
    lost: tuple[_Kept, ...]
    came: tuple[_Kept, ...]


class RemovedTests:
    """Collects the lost tests of each file, and decides once all files are known."""

    def __init__(self, job: ComparisonJob) -> None:
        self._job = job
        self._files: list[_File] = []
        self._came: list[_Kept] = []
        self._names: set[str] = set()
        self._texts: dict[str, list[tuple[str, frozenset[str]]]] = {}

    def add(self, pair: ChangedModule, before: Suite, after: Suite) -> None:
        """Record the tests of one file on both sides."""
        came, lost = _only_in(after, before), _only_in(before, after)
        self._came += came
        self._names |= {case.name for case in came}
        for dotted, case in after.functions.items():
            texts = self._texts.setdefault(dotted.rpartition(".")[2], [])
            texts.append((pair.path, frozenset(case.text)))
        if lost and pair.old_path:
            path = pair.path if pair.head and pair.head.first_line else None
            self._files.append(_File(pair.old_path, path, lost, came))

    def findings(self) -> Iterator[RawFinding]:
        """One finding for each file that really lost tests, and one for all removed files."""
        vanished = self._vanished_words() if self._files else frozenset()
        gone: list[tuple[_File, list[_Kept]]] = []
        for file in self._files:
            lost = [case for case in file.lost if self._is_missed(case, file, vanished)]
            # Rewritten: as many were added as removed, or an added one is parametrized.
            rewritten = len(file.came) >= len(lost) or any(test.parametrized for test in file.came)
            if not lost or rewritten:
                continue
            if file.path:
                names = [case.dotted for case in lost]
                yield self._finding(f"{file.old_path}:", names, file.old_path, lost[0].line)
            else:
                gone.append((file, lost))
        if gone:
            names = [f"{file.old_path}::{case.dotted}" for file, lost in gone for case in lost]
            removed, lost = gone[0]
            yield self._finding("", names, removed.old_path, lost[0].line)

    @staticmethod
    def _finding(key: str, names: list[str], path: str, line: int) -> RawFinding:
        count = "1 test was" if len(names) == 1 else f"{len(names)} tests were"
        return RawFinding(
            "removed",
            path,
            line,
            f"{count} removed: {name_some(names, NAMES_SHOWN)}",
            key=f"{key} {' '.join(sorted(names))}",
            detail="\n".join(names) if len(names) > NAMES_SHOWN else "",
            in_base=True,
        )

    def _is_missed(self, case: _Kept, file: _File, vanished: frozenset[str]) -> bool:
        if case.name in self._names or not case.counts:
            return False
        words = {word for line in case.text for word in _PATTERNS["word"].findall(line)}
        own = {name for line in case.text for names in _OWN.findall(line) for name in names}
        if not vanished.isdisjoint((words - own) | set(case.name.split("_"))):
            return False
        # A test elsewhere may have existed before, and now replaces this one.
        namesakes = [text for path, text in self._texts.get(case.name, ()) if path != file.path]
        return not any(_alike(case.text, text) for text in namesakes) and not any(
            _alike(case.text, other.text) for other in self._came
        )

    def _vanished_words(self) -> frozenset[str]:
        """Names that no changed source contains any more, or that fewer of them define."""
        words: Counter[str] = Counter()
        defined: Counter[str] = Counter()
        for file in self._job.files:
            path, old = file.path, file.old_path
            deleted = file.status == "deleted"
            if old and not is_test(old):
                words.update(_matches(_PATTERNS["word"], self._job.base_root, old))
                defined.update(_matches(_PATTERNS["defined"], self._job.base_root, old))
                defined.update([old.rpartition("/")[2].removesuffix(".py")] if deleted else ())
            if not deleted and not is_test(path):
                kept = _matches(_PATTERNS["word"], self._job.head_root, path)
                words.update(dict.fromkeys(kept, -len(self._job.files)))
                defined.subtract(_matches(_PATTERNS["defined"], self._job.head_root, path))
        gone = {word for word, files in (*words.items(), *defined.items()) if files > 0}
        return frozenset(word for word in gone if len(word) >= WORD_LENGTH)


def _only_in(suite: Suite, other: Suite) -> tuple[_Kept, ...]:
    return tuple(
        _Kept(
            dotted,
            frozenset(case.text),
            case.assertions > 0 and case.mark is None,
            case.parametrized,
            case.line,
        )
        for dotted, case in suite.functions.items()
        if dotted not in other.functions
    )


def _alike(text: frozenset[str], other: frozenset[str]) -> bool:
    return len(text & other) >= SAME_LINES * max(len(text), 1)


def _matches(sign: re.Pattern[str], root: str, path: str) -> set[str]:
    with suppress(Gap):
        return set(sign.findall(read_text(root, path))) if path.endswith(".py") else set()
    return set()


MIN_LINES = 15
FILES_SHOWN = 3

_QUIET = tuple(getattr(ast, name) for name in read_names("quiet_nodes"))

Unit = tuple[str, frozenset[int]]
"""A simple statement or the header of a compound one: its normalized text, and its lines."""


class UntestedCode:
    """Collects changed sources and tests, and decides once all files are known."""

    def __init__(self, job: ComparisonJob) -> None:
        self._has_tests = any(path.endswith(".py") and is_test(path) for path in job.head_tree)
        # Many of them, or data of tests, may reach the code by what they call.
        self._test_lines = sum(len(file.added) for file in job.files if is_test(file.path))
        self._index = module_index(job.head_tree)
        self._removed: Counter[str] = Counter()
        self._added: dict[str, list[Unit]] = {}
        self._named: set[str] = set()

    def add(self, pair: ChangedModule) -> None:
        """Record what one file adds and removes, as source or as test."""
        if not self._has_tests:
            return
        if pair.head and is_test(pair.path):
            self._learn(pair, pair.head)
        elif is_product(pair.path):
            if pair.removed and (base := pair.base()):
                self._removed.update(text for text, _ in _units(base, pair.removed))
            if pair.head and not pair.path.endswith("__main__.py"):
                self._added[pair.path] = list(_units(pair.head, pair.added))

    def _grown(self) -> Iterator[tuple[str, set[int]]]:
        """Sources with enough lines that were neither moved nor only reformatted, and these."""
        known = self._removed.copy()
        for path, units in sorted(self._added.items()):
            new: set[int] = set()
            for text, lines in units:
                if known[text]:
                    known[text] -= 1
                else:
                    new |= lines
            if len(new) >= MIN_LINES:
                yield path, new

    def _learn(self, pair: ChangedModule, head: ParsedModule) -> None:
        """Record the modules that a changed test imports, and its own name after ``test_``."""
        if not pair.added:
            return
        stem = pair.path.rpartition("/")[2].removesuffix(".py")
        self._named.add(stem.removeprefix("test_").removesuffix("_test"))
        for statement in scan_imports(head.text):
            self._named |= {
                statement.module,
                *(f"{statement.module}.{name}" for name in statement.names),
            }

    def findings(self) -> Iterator[RawFinding]:
        """One finding for the whole change, at the source file that grew most."""
        sources = [(path, new) for path, new in self._grown() if not self._is_named(path)]
        if not sources or self._test_lines >= MIN_LINES:
            return
        sources.sort(key=lambda source: (-len(source[1]), source[0]))
        grown = [f"{path} (+{len(new)} lines)" for path, new in sources]
        path, new = sources[0]
        yield RawFinding(
            "untested-change",
            path,
            min(new),
            "No test of the change imports or names the code that it changes: "
            + name_some(grown, FILES_SHOWN),
            key="untested-change",
            confidence=0.7,
        )

    def _is_named(self, path: str) -> bool:
        """Whether a changed test imports the module or a package above it, and so may reach it."""
        dotted = self._index.dotted(path)
        parts = dotted.split(".")
        names = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
        return not self._named.isdisjoint(names | {parts[-1]})


def _units(source: ParsedModule, numbers: frozenset[int]) -> Iterator[Unit]:
    """The code on these lines, without imports and docstrings."""
    for node in chain.from_iterable(all_blocks(source.tree)):
        if isinstance(node, _QUIET):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.AnnAssign) and node.value is None:
            continue
        body = getattr(node, "body", None)
        last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
        own = range(node.lineno, max(last, node.lineno) + 1)
        if lines := numbers.intersection(own):
            text = "".join(source.lines[own.start - 1 : own.stop - 1])
            if isinstance(node, ast.AnnAssign) and node.value:
                text = f"{ast.unparse(node.target)}={ast.unparse(node.value)}"
            yield _PATTERNS["layout"].sub("", text), lines
