"""Tests in other languages than Python, found by file name and pattern; only certain findings."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from msgspec import Struct, field

from diffchecks import name_some
from diffchecks.check_io import CheckReply, RawFinding
from diffchecks.data_files import read_patterns, read_rows
from diffchecks.jobs import ComparisonJob
from diffchecks.python.source_definitions import gap_on_error, read_text

NAMES_SHOWN = 5


class _Language(Struct, frozen=True):
    """The syntax of tests in one language, a row of ``tables/tests.txt``.

    Attributes:
        files: names of test files.
        runs: a running test, or a group of tests, which matches the group ``group``.
        skipped: a test or group that never runs.
        focused: a test that disables all others.
        asserts: a line with which a test can fail.
    """

    files: tuple[str, ...]
    runs: re.Pattern[str]
    skipped: re.Pattern[str]
    focused: re.Pattern[str]
    asserts: re.Pattern[str]


def _read_languages() -> Iterator[_Language]:
    for files, *patterns in read_rows("tests.txt"):
        *starts, asserts = patterns
        runs, skips, focuses = (re.compile(rf"^[ \t]*(?:{e})", re.MULTILINE) for e in starts)
        in_code = re.compile(rf"^(?!\s*(?://|#|\*)).*?(?:{asserts})", re.MULTILINE)
        yield _Language(tuple(files.split()), runs, skips, focuses, in_code)


_LANGUAGES = tuple(_read_languages())
_PATTERNS = read_patterns("weakened_tests")


class _Tests(Struct):
    """The tests of one file: name → line, and name → text of what it does."""

    runs: dict[str, int] = field(default_factory=dict)
    bodies: dict[str, str] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    skipped: dict[str, int] = field(default_factory=dict)
    focused: dict[str, int] = field(default_factory=dict)


class _Lost(Struct):
    """The tests that a file lost: name → line in base."""

    old_path: str
    path: str | None
    names: dict[str, int]


def compare_non_python_tests(job: ComparisonJob) -> CheckReply:
    """Compare the tests of both sides that are not Python; returns a check's reply."""
    findings: list[RawFinding] = []
    examined: list[str] = []
    gaps: dict[str, str] = {}
    lost: list[_Lost] = []
    names: set[str] = set()
    for file in job.files:
        path, old = file.path, file.old_path
        language = _language(path) or _language(old or path)
        if language is None or file.status == "mode":
            continue
        with gap_on_error(gaps, path):
            before = _read(job.base_root, old, language)
            after = _read(job.head_root, path if file.status != "deleted" else None, language)
            names |= set(after.runs) | set(after.skipped)
            findings += _weakened(path, before, after, language.asserts)
            gone = [
                test for test in before.runs if test not in after.runs and test not in after.skipped
            ]
            came = [test for test in after.runs if test not in before.runs]
            tests = {test: before.runs[test] for test in gone if test not in before.groups}
            if tests and len(came) < len(gone):
                lost.append(_Lost(old or path, path if after.runs else None, tests))
            examined.append(path)
    findings += [found for removed in lost if (found := _removed(job, removed, names))]
    return CheckReply(findings, examined, gaps)


def holds_non_python_tests(path: str) -> bool:
    """Whether a file of this name contains tests in one of these languages."""
    return _language(path) is not None


def _language(path: str) -> _Language | None:
    name = path.rpartition("/")[2]
    fits = (each for each in _LANGUAGES if any(fnmatchcase(name, one) for one in each.files))
    return next(fits, None)


def _read(root: str, path: str | None, language: _Language) -> _Tests:
    found = _Tests()
    if path is None or _language(path) is not language:
        return found
    text = read_text(root, path)
    for match in language.runs.finditer(text):
        found.runs.setdefault(match["name"], _line(text, match))
        own = len(match[0]) - len(match[0].lstrip())
        body = re.compile(_PATTERNS["body"].pattern.replace("OWN", str(own)))
        found.bodies.setdefault(match["name"], next(body.finditer(text, match.end()))[0])
        if match.groupdict().get("group"):
            found.groups.add(match["name"])
    for match in language.skipped.finditer(text):
        found.skipped.setdefault(match["name"], _line(text, match))
        found.runs.pop(match["name"], None)
    for match in language.focused.finditer(text):
        found.focused.setdefault(match["name"], _line(text, match))
    return found


def _line(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1


def _weakened(
    path: str, before: _Tests, after: _Tests, asserts: re.Pattern[str]
) -> Iterator[RawFinding]:
    for name, line in after.skipped.items():
        if name in before.runs:
            message = f"The existing test {name!r} is now skipped"
            yield RawFinding("skipped", path, line, message, key=f"skipped: {name}")
    for name, line in after.focused.items():
        if name not in before.focused:
            message = f"Only {name!r} runs now: a focused test disables all others"
            yield RawFinding("focused", path, line, message, key=f"focused: {name}")
    for name, line in after.runs.items():
        was, now = before.bodies.get(name, ""), after.bodies[name]
        calls = _PATTERNS["call"].findall
        came = {*calls(now)} - {*calls(was)}  # one may assert instead
        emptied = name not in after.groups and asserts.search(was) and not asserts.search(now)
        if emptied and all(map(_PATTERNS["asks_only"].fullmatch, came)):
            message = f"{name!r} had assertions and now has none"
            yield RawFinding("assertions-removed", path, line, message, key=f"emptied: {name}")


def _removed(job: ComparisonJob, removed: _Lost, names: set[str]) -> RawFinding | None:
    """Removed tests that appear nowhere else in the change and whose subject still exists."""
    lost = [name for name in removed.names if name not in names]
    gone = {file.path for file in job.files if file.status == "deleted"}
    subject = _stem(removed.old_path)
    if not lost or any(_stem(path) == subject for path in gone - {removed.old_path}):
        return None
    shown = name_some([repr(name) for name in lost], NAMES_SHOWN)
    where = "" if removed.path else f" with {removed.old_path}"
    count = "1 test was" if len(lost) == 1 else f"{len(lost)} tests were"
    message = f"{count} removed{where}: {shown}"
    key = f"{removed.old_path}: {' '.join(sorted(lost))}"
    return RawFinding(
        "removed", removed.old_path, removed.names[lost[0]], message, key=key, in_base=True
    )


def _stem(path: str) -> str:
    """``thing`` of ``a/thing.test.ts``, ``thing_test.go``, ``ThingTest.java`` or ``thing.ts``."""
    name = path.rpartition("/")[2].partition(".")[0]
    for end in ("_test", "_spec", "Tests", "Test", "IT"):
        name = name.removesuffix(end)
    return name
