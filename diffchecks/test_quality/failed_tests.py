"""Evaluates test runs: the exit status decides, and a JUnit report adds names.

There are up to three runs: head; head again if that failed; base if both failed. If the change
edits what decides whether tests pass, base's tests are also run on head's code, and on base's code
if they fail. Added calls with which code can end its test runner or change its result are looked
for by a list of common ways, which is no proof: code under test runs in the test runner's process.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from posixpath import splitext
from typing import Any

from msgspec import Struct

from diffchecks import name_some
from diffchecks.check_io import CheckReply, RawFinding, read_lines
from diffchecks.data_files import read_map, read_names
from diffchecks.jobs import TestRun, TestsJob
from diffchecks.path_kinds import is_product, is_test
from diffchecks.python.source_definitions import dotted_name
from diffchecks.xml_reports import ReportError, parse_xml

_MODULES = frozenset({"_pytest", "atexit", "ctypes", "pluggy"})
_TEST_MODULES = frozenset({"pytest", "unittest"})
"""Modules that tests use and code under test does not need."""
_ATTRIBUTES = frozenset({"_exit", "forkpty", "setprofile", "settrace"})
"""Attribute names, for any object, and as strings for ``getattr``."""
_SETTERS = ("setattr", "delattr", "patch.object")
_EXITS = frozenset({"SystemExit", "exit", "quit", "sys.exit"})


def find_added_tampering(path: str, before: str, after: str) -> str:
    """The first such call that a file has in head and not in base; empty: none."""
    known = set(_find_calls(path, before))
    return next((call for call in _find_calls(path, after) if call not in known), "")


def _find_calls(path: str, text: str) -> Iterator[str]:
    if pattern := read_map("tampering.yaml", "calls").get(splitext(path)[1]):
        yield from re.findall(pattern, text)
    if not path.endswith((".py", ".pyi")):
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # a test run ends with an error there
    modules = _MODULES if is_test(path) else _MODULES | _TEST_MODULES
    for node in ast.walk(tree):
        yield from _named(node, modules)
        yield from _replaced(node)
    if not is_test(path):
        yield from _exits_at_import(tree.body)


def _named(node: ast.AST, modules: frozenset[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (name for a in node.names if (name := a.name.partition(".")[0]) in modules)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        if (top := node.module.partition(".")[0]) in modules:
            yield top
        names = (f"{node.module}.{alias.name}" for alias in node.names)
        yield from (name for name in names if name in read_names("tampering_calls"))
    elif isinstance(node, ast.Attribute):
        if (dotted := dotted_name(node)) in read_names("tampering_calls"):
            yield dotted
        elif node.attr in _ATTRIBUTES or (node.attr == "__code__" and _is_set(node)):
            yield node.attr
    elif isinstance(node, ast.Constant) and node.value in _ATTRIBUTES | _MODULES:
        yield str(node.value)


def _replaced(node: ast.AST) -> Iterator[str]:
    """The assigned name, if it is part of the test framework."""
    targets: Sequence[ast.AST] = ()
    if isinstance(node, ast.Attribute) and _is_set(node):
        targets = [node.value]
    elif isinstance(node, ast.Call) and dotted_name(node.func).endswith(_SETTERS):
        targets = node.args[:1]
    for target in targets:
        dotted = dotted_name(target)
        if dotted.split(".")[0] in _TEST_MODULES or dotted.endswith("TestCase"):
            yield dotted


def _is_set(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store | ast.Del)


def _exits_at_import(body: Sequence[ast.stmt]) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
            continue
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While | ast.ClassDef):
            yield from _exits_at_import(
                [child for child in ast.walk(statement) if isinstance(child, ast.Expr | ast.Raise)]
            )
            continue
        value = statement.exc if isinstance(statement, ast.Raise) else None
        value = statement.value if isinstance(statement, ast.Expr) else value
        value = value.func if isinstance(value, ast.Call) else value
        if value is not None and dotted_name(value) in _EXITS:
            yield f"{dotted_name(value)} at import"


SHOWN = 20  # tests in one review
BEFORE = "the tests also fail without this change, so they say little about it"
NO_LINE = "the tests fail, and the change adds no line to report it at"
Place = tuple[str, int]


def run(job: TestsJob) -> CheckReply:
    """Report failing and flaky tests; facts contain the outcome."""
    files = [file.path for file in job.files]
    if job.refused:
        return CheckReply(gaps=dict.fromkeys(files, job.refused))
    codes = [each.code for each in job.runs]
    gaps = dict(job.unwritten)
    tests = [_failed(each, gaps) for each in job.runs]
    outcome = "passed"
    findings: list[RawFinding] = []
    if len(codes) == 2:
        outcome = "flaky"
        findings = list(_make_findings(job, "flaky", codes[0], tests[0]))
    elif len(codes) == 3:
        outcome = "failed" if codes[2] == 0 else "failed before"
        known = set(tests[2])
        # Without names, old and new failures cannot be distinguished.
        new = [test for test in tests[1] if test not in known]
        if outcome == "failed" or (new and known):
            findings = list(_make_findings(job, "fail", codes[1], new))
    if outcome == "failed before":
        gaps |= dict.fromkeys(files, BEFORE)
    elif outcome != "passed" and not findings:
        gaps |= dict.fromkeys(files, NO_LINE)
    facts: dict[str, Any] = {"outcome": outcome, "exit": codes}
    reservation = ""
    if job.own_tests:
        reservation, of_base = _judge_tests_of_base(job)
        findings += of_base
    facts["own_tests"] = reservation or _added_tampering(job)
    examined = [path for path in files if path not in gaps]
    return CheckReply(findings, examined, gaps, facts)


def _judge_tests_of_base(job: TestsJob) -> tuple[str, list[RawFinding]]:
    """Why a pass of the change's tests is not confirmed by base's tests; empty if it is.

    If the change edits how all tests run, base's tests confirm nothing about the new ones.

    Returns:
        The reason, and a finding if base's tests fail on head's code and pass on base's.
    """
    own = job.own_tests
    changed = _altered(own)
    if job.base_refused:
        return f"{changed}; base's tests with head's code: {job.base_refused}", []
    codes = [each.code for each in job.base_runs]
    if codes[0] == 0:
        setup = job.infrastructure
        return (f"{_altered(setup)}; base's tests pass with head's code" if setup else ""), []
    over_head, over_base = (_failed(each, {}) for each in job.base_runs)
    known = set(over_base)
    new = [test for test in over_head if test not in known]
    if codes[1] != 0 and not (new and known):
        return f"{changed}; base's tests also fail with base's code", []
    names = name_some([test.shown for test in new], 3)
    listed = f" ({names})" if names else ""
    place = _changed_line(job)
    message = f"Tests of base{listed} fail with the code of this change"
    found = [RawFinding("base_fail", *place, message, key="")] if place else []
    return f"{changed}; base's tests fail with head's code{listed}", found


def _altered(paths: Sequence[str]) -> str:
    return f"the change alters {name_some(paths, 1)}"


def _added_tampering(job: TestsJob) -> str:
    """The changed file that gained a call that can end the runner or change its result."""
    for file in job.files:
        if file.status != "deleted":
            before = _text(job.base_root, file.old_path)
            if call := find_added_tampering(file.path, before, _text(job.head_root, file.path)):
                return f"{file.path} now uses {call}, which can make tests pass"
    return ""


def _text(root: str, path: str | None) -> str:
    """A file's text; empty if it does not exist or cannot be read."""
    return "\n".join((read_lines(root, path) if path else None) or ())


def _failed(given: TestRun, gaps: dict[str, str]) -> "list[FailedTest]":
    """The failed tests by a run's report; a gap if the report is not credible."""
    name = given.name
    if given.error:
        gaps[name] = given.error
        return []
    if not given.report:
        return []
    try:
        found = read_failed_tests(Path(given.report).read_bytes())
    except ReportError as why:
        gaps[name] = str(why)
        return []
    if bool(found) != bool(given.code):
        says = f"names {len(found)} failed tests" if found else "names no failed test"
        gaps[name] = f"{says}, but the exit status is {given.code}, which decides"
    return found


def _make_findings(
    job: TestsJob, code: str, status: int, tests: "Sequence[FailedTest]"
) -> Iterator[RawFinding]:
    """A finding for each test, or one for all if no names are known."""
    how = "failed once and passed when run again" if code == "flaky" else "fails with this change"
    fallback = _changed_line(job)
    for test in tests[:SHOWN]:
        place = _line_of(job, test) or fallback
        if place:
            yield RawFinding(code, *place, f"{test.shown} {how}", key=test.shown)
    if not tests and fallback:
        message = f"The configured test command {how} (exit status {status})"
        yield RawFinding(code, *fallback, message, key="")


def _line_of(job: TestsJob, test: "FailedTest") -> Place | None:
    """The place of the test in head: a line with its name in its file."""
    parts = test.group.split(".")
    named = ("/".join(parts[:count]) + ".py" for count in range(len(parts), 0, -1))
    path = next((path for path in (test.file, *named) if path in job.head_tree), None)
    name = re.match(r"\w+", test.name)
    if path is None or name is None:
        return None
    word = re.compile(rf"\b{name[0]}\b")
    lines = read_lines(job.head_root, path) or ()
    return next(((path, n) for n, line in enumerate(lines, 1) if word.search(line)), None)


def _changed_line(job: TestsJob) -> Place | None:
    """The first nonempty added line, in source files first."""
    for file in sorted(job.files, key=lambda file: not is_product(file.path)):
        if file.status != "deleted" and file.added:
            lines = read_lines(job.head_root, file.path) or ()
            for number in file.added:
                if number <= len(lines) and lines[number - 1].strip():
                    return file.path, number
    return None


MAX_NAME = 200


class FailedTest(Struct, frozen=True):
    """A failed test of a JUnit report.

    Attributes:
        group: the report's class name, in Python the dotted module.
        file: as in the report, often empty.
    """

    group: str
    name: str
    file: str

    @property
    def shown(self) -> str:
        """A readable name on one line, bounded."""
        text = f"{self.group}.{self.name}".strip(".")
        return "".join(c if c.isprintable() else "?" for c in text[:MAX_NAME])


def read_failed_tests(data: bytes) -> list[FailedTest]:
    """Read the tests that failed or could not run, each once, in the order of the report."""
    found: dict[FailedTest, None] = {}
    inside: list[FailedTest] = []
    cases = 0

    def begin(tag: str, given: dict[str, str]) -> None:
        nonlocal cases
        if tag == "testcase":
            cases += 1
            test = FailedTest(
                given.get("classname", ""), given.get("name", ""), given.get("file", "")
            )
            inside[:] = [test]
        elif tag in {"failure", "error"} and inside:
            found[inside[0]] = None

    parse_xml(data, begin)
    if not cases:
        raise ReportError("names no test")
    return list(found)
