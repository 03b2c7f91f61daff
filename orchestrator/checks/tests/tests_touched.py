"""What the change does to the tests: removed, emptied, skipped, or not written at all."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.checks.check_protocol import CheckReply, RawFinding
from orchestrator.checks.path_kinds import is_test
from orchestrator.checks.python.source import Job, Pair, gap_on_fault, pairs
from orchestrator.checks.tests.other_languages import compare_by_pattern
from orchestrator.checks.tests.python_tests import Case, Suite, read_suite
from orchestrator.checks.tests.removed_tests import Removals
from orchestrator.checks.tests.untested_change import Coverage


def run(job: Job) -> CheckReply:
    """Report what weakens the tests; Python is parsed, other languages are read by pattern."""
    gaps: dict[str, str] = {}
    findings: list[RawFinding] = []
    examined: list[str] = []
    removals, coverage = Removals(job), Coverage(job)
    for pair in pairs(job, gaps):
        with gap_on_fault(gaps, pair.path):
            findings += _compare(pair, removals)
            coverage.add(pair)
            examined.append(pair.path)
    findings += [*removals.findings(), *coverage.findings()]
    by_pattern = compare_by_pattern(job)
    return CheckReply(
        findings + by_pattern.findings,
        examined + by_pattern.examined,
        gaps | by_pattern.gaps,
    )


def _compare(pair: Pair, removals: Removals) -> Iterator[RawFinding]:
    """What happened to the tests of one file; those that are gone are only noted."""
    before, after = Suite({}, {}, None), Suite({}, {}, None)
    if pair.head and is_test(pair.path):
        after = read_suite(pair.head)
    if pair.old_path and is_test(pair.old_path) and (base := pair.base()):
        before = read_suite(base)
    removals.add(pair, before, after)
    yield from _skipped(pair.path, before, after)
    for dotted, case in after.functions.items():
        was = before.functions.get(dotted)
        if was is None or was.text != case.text:
            yield from _emptied(pair.path, was, case) if was else ()
            yield from _trivial(pair, was, case)


def _skipped(path: str, before: Suite, after: Suite) -> Iterator[RawFinding]:
    if after.mark and not before.mark and before.functions:
        message = f"All tests of this file are now marked {after.mark.how}"
        yield RawFinding("skipped", path, after.mark.line, message, key="<module>")
    for known, now in ((before.classes, after.classes), (before.functions, after.functions)):
        for dotted, case in now.items():
            was = known.get(dotted)
            if was and case.mark and not was.mark:
                message = f"The existing test {dotted} is now marked {case.mark.how}"
                line = case.mark.line
                yield RawFinding("skipped", path, line, message, key=dotted, scope=dotted)


def _emptied(path: str, was: Case, now: Case) -> Iterator[RawFinding]:
    """A test that asserted something and asserts nothing; a call it did not make may do so now."""
    if was.assertions and not now.assertions and not now.mark and now.calls <= was.calls:
        message = f"{now.dotted} had {was.assertions} assertions and has none"
        yield RawFinding(
            "assertions-removed", path, now.line, message, key=now.dotted, scope=now.dotted
        )


def _trivial(pair: Pair, was: Case | None, now: Case) -> Iterator[RawFinding]:
    """A test all of whose assertions hold whatever the code does."""
    trivial = now.trivial
    if now.assertions > len(trivial) or (was and len(was.trivial) >= len(trivial)):
        return
    for line in trivial:
        if line in pair.added:
            message = f"{now.dotted} asserts nothing but this, which always holds"
            yield RawFinding(
                "trivial-assertion", pair.path, line, message, key=now.dotted, scope=now.dotted
            )
            return
