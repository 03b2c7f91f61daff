"""The verdict's table: which findings, checks and files lead to which outcome, in which words."""

import itertools

import pytest
from msgspec.structs import replace

from diffchecks.jobs import ChangedFile
from orchestrator.catalog.shared_literals import (
    OUTCOMES,
    SEVERITIES,
    SUPPORTS,
    Outcome,
    Severity,
    Support,
)
from orchestrator.catalog.verdict_policy import CheckRule, Exclusion
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.findings.evidence_from_journal import ToolHealth
from orchestrator.code_review.findings.required_checks import check_required, concerned, required
from orchestrator.code_review.review_setup import excluded
from orchestrator.code_review.tools.path_globs import matches_any
from orchestrator.code_review.verdict.decision import (
    decide_outcome,
    exit_code,
    outcome_of,
    parse_bars,
    weight,
)
from orchestrator.code_review.verdict.model import Evidence, Finding, RequiredCheck
from tests.review.test_merging import POLICY

PYTHON = CheckRule(name="python", tools=("ruff", "taint"), when=("**/*.py", "setup.cfg"))
CHANGELOG = CheckRule(name="changelog", tools=("docs",), when=("CHANGELOG.md",))


def finding(number: int = 1, severity: Severity = "medium", confidence: float = 0.8) -> Finding:
    return Finding(
        id=f"F{number}", fingerprint=f"f{number}", severity=severity, confidence=confidence,
        title="t", detail="d", category="qa", rule="qa.reported", path="a.py", start_line=1,
        end_line=1, evidence=Evidence(quote="q", tool_calls=()), reported_by=("qa",),
    )  # fmt: skip


def health(
    error: str = "",
    gaps: str = "",
    given: str = "a b",
    own_tests: str = "",
    nothing: str = "",
    found: int = 0,
) -> ToolHealth:
    looked_at, missed = frozenset(given.split()), frozenset(gaps.split())
    return ToolHealth(error, missed, looked_at, own_tests, nothing, found)


@pytest.mark.parametrize(
    ("path", "pattern", "fits"),
    [
        ("app/a.py", "**/*.py", True),
        ("a.py", "**/*.py", True),
        ("a.pyc", "**/*.py", False),
        ("app/a.py", "app/", True),
        ("x", "!x", False),
        ("y", "!x", False),
        ("x", "# x", False),
    ],
)
def test_a_pattern_matches_as_in_gitignore_and_a_negated_one_matches_nothing(
    path: str, pattern: str, fits: bool
) -> None:
    assert matches_any(path, [pattern]) is fits


def test_files_that_the_policy_excludes_have_the_reason_of_the_first_exclusion_that_fits() -> None:
    files = tuple(ChangedFile(path, "modified") for path in ("a.py", "gen/a.py", "gen/b.js"))
    change = Change("base", "head", "tree1", "tree2", "git", files=files)
    policy = replace(
        POLICY,
        exclude=(
            Exclusion(paths=("nothing", "**/b.js"), why="vendored"),
            Exclusion(paths=("gen/",), why="generated"),
        ),
    )
    assert excluded(change, policy) == {"gen/a.py": "generated", "gen/b.js": "vendored"}


def test_a_check_is_required_of_the_files_that_one_of_its_patterns_fits() -> None:
    paths = ["b.js", "a.py", "setup.cfg"]
    assert list(concerned(PYTHON, paths)) == ["a.py", "setup.cfg"]
    assert required([CHANGELOG, PYTHON], paths) == [PYTHON]


@pytest.mark.parametrize(
    ("tools", "status", "detail"),
    [
        ({"ruff": health(), "taint": health()}, "ran", "ruff, taint: found nothing"),
        ({"ruff": health(found=1), "taint": health(found=2)}, "ran", "ruff, taint: 3 findings"),
        ({"ruff": health()}, "not_run", "taint did not run: taint is off in local"),
        ({}, "not_run", "ruff, taint did not run: taint is off in local"),
        # Its last call failed: that it looked at every file before does not count.
        ({"ruff": health("exit 3"), "taint": health()}, "failed", "ruff: exit 3"),
        ({"ruff": health(), "taint": health(given="a")}, "failed", "did not look at b"),
        ({"ruff": health(gaps="c"), "taint": health()}, "failed", "did not look at c"),
        # A gap under its own name: part of its work is missing, in no file that can be named.
        (
            {"ruff": health(gaps="ruff"), "taint": health()},
            "failed",
            "ruff did not do all of its work",
        ),
        (
            {"ruff": health("exit 3", "d c"), "taint": health("died", given="")},
            "failed",
            "ruff: exit 3; taint: died; did not look at a; did not look at b; did not look at c"
            " and 1 more",
        ),
        (
            {"ruff": health(gaps="e d c"), "taint": health()},
            "failed",
            "did not look at c; did not look at d; did not look at e",
        ),
        (
            {"ruff": health(own_tests="its own"), "taint": health(own_tests="new ones")},
            "passed_by_own_tests",
            "its own; new ones",
        ),
        ({"ruff": health("x", own_tests="y"), "taint": health()}, "failed", "ruff: x"),
        (
            {"ruff": health(nothing="no tests"), "taint": health(nothing="no log")},
            "not_applicable",
            "ruff: no tests; taint: no log",
        ),
        (
            {"ruff": health(nothing="no tests"), "taint": health()},
            "ran",
            "ruff, taint: found nothing",
        ),
    ],
)
def test_a_required_check_passes_when_each_tool_looked_at_each_file(
    tools: dict[str, ToolHealth], status: str, detail: str
) -> None:
    # What taint has to look at, and nothing that ruff has.
    due = {"taint": frozenset({"a", "b"})}
    result = check_required(PYTHON, due, tools, {"taint": "taint is off in local"})
    assert (result.name, result.status, result.detail) == ("python", status, detail)


def test_a_check_without_files_does_not_apply() -> None:
    result = check_required(PYTHON, None, {}, {})
    assert result == RequiredCheck(name="python", status="not_applicable")


# Of the policy: critical blocks from 0.8, medium needs changes from 0.5.
@pytest.mark.parametrize(
    ("severity", "confidence", "expected"),
    [
        ("critical", 1.0, 2),
        ("critical", 0.8, 2),
        ("critical", 0.79, 1),
        ("critical", 0.5, 1),
        ("critical", 0.49, 0),
        ("high", 1.0, 1),
        ("high", 0.5, 1),
        ("medium", 1.0, 1),
        ("medium", 0.5, 1),
        ("medium", 0.49, 0),
        ("low", 1.0, 0),
        ("info", 1.0, 0),
    ],
)
def test_severity_and_confidence_decide_what_a_finding_does(
    severity: Severity, confidence: float, expected: int
) -> None:
    assert weight(severity, confidence, POLICY) == expected


@pytest.mark.parametrize(
    ("findings", "complete", "outcome", "reasons"),
    [
        ([], True, "merge", ("no open finding at or above medium",)),
        ([finding(severity="low")], True, "merge", ("no open finding at or above medium",)),
        (
            [replace(finding(severity="critical"), state="waived")],
            True,
            "merge",
            ("no open finding at or above medium",),
        ),
        (
            [replace(finding(), confidence=0.4)],
            True,
            "merge",
            ("no open finding at or above medium with a confidence of at least 0.50",),
        ),
        ([finding()], True, "needs_changes", ("1 finding (F1) at or above medium",)),
        (
            [replace(finding(), support="claimed"), replace(finding(2), confidence=0.4)],
            True,
            "merge",
            (
                "no open finding at or above medium decides: "
                "1 finding (F1) only claimed, below high",
            ),
        ),
        (
            [
                replace(finding(), support="claimed"),
                replace(finding(2, "critical"), support="refuted"),
            ],
            True,
            "merge",
            (
                "no open finding at or above medium decides: 1 finding (F1) only claimed, below "
                "high; 1 finding (F2) refuted by the verifier",
            ),
        ),
        (
            [finding(), finding(2, "high")],
            False,
            "needs_changes",
            (
                "2 findings (F1, F2) at or above medium",
                "the review is incomplete, and incomplete is never merge",
            ),
        ),
        ([], False, "needs_changes", ("the review is incomplete, and incomplete is never merge",)),
        (
            [finding(), finding(2, "critical"), finding(3, "low")],
            False,
            "block",
            ("1 finding (F2) at or above critical",),
        ),
        (
            [finding(number) for number in range(1, 6)],
            True,
            "needs_changes",
            ("5 findings (F1, F2, F3, F4, F5) at or above medium",),
        ),
        (
            [finding(number) for number in range(1, 7)],
            True,
            "needs_changes",
            ("6 findings (F1, F2, F3, F4, F5 and 1 more) at or above medium",),
        ),
        # A model's word alone, or against evidence, does not block.
        (
            [
                finding(),
                replace(finding(3, "critical"), support="claimed"),
                replace(finding(4, "critical"), support="claimed"),
                replace(finding(5, "high"), support="claimed", reported_by=("docs", "qa")),
                replace(finding(6, "critical"), support="agreed"),
                replace(finding(2, "critical"), support="refuted"),
            ],
            True,
            "needs_changes",
            (
                "1 finding (F1) at or above medium",
                "2 findings (F3, F4) at or above critical, claimed by qa only and so not blocking",
                "1 finding (F5) at or above high, claimed by docs, qa only",
                "1 finding (F6) at or above critical, agreed and so not blocking",
            ),
        ),
        (
            [
                replace(finding(1, "critical"), support="claimed"),
                replace(finding(2, "critical"), support="verified"),
            ],
            True,
            "block",
            ("1 finding (F2) at or above critical",),
        ),
    ],
)
def test_the_most_severe_open_finding_decides_and_incomplete_is_never_merge(
    findings: list[Finding], complete: bool, outcome: str, reasons: tuple[str, ...]
) -> None:
    assert decide_outcome(findings, POLICY, complete=complete) == (outcome, reasons)


@pytest.mark.parametrize(
    ("severity", "confidence", "more", "outcome"),
    [
        ("critical", 0.7, {"support": "proven"}, "needs_changes"),
        ("critical", 0.8, {"support": "proven", "state": "waived"}, "merge"),
        ("medium", 0.5, {"support": "proven"}, "needs_changes"),
        ("medium", 0.4, {"support": "proven"}, "merge"),
        ("low", 1.0, {"support": "proven"}, "merge"),
    ],
)
def test_the_outcome_to_which_one_finding_leads(
    severity: Severity, confidence: float, more: dict[str, str], outcome: Outcome
) -> None:
    alone = replace(finding(1, severity, confidence), **more)
    assert outcome_of(alone, POLICY)[0] == outcome


@pytest.mark.parametrize(
    ("support", "outcomes"),
    [
        ("proven", "block needs_changes needs_changes merge merge"),
        ("verified", "block needs_changes needs_changes merge merge"),
        ("agreed", "needs_changes needs_changes needs_changes merge merge"),
        ("claimed", "needs_changes needs_changes merge merge merge"),
        ("refuted", "merge merge merge merge merge"),
    ],
)
def test_support_and_severity_decide_together(support: Support, outcomes: str) -> None:
    for severity, outcome in zip(SEVERITIES, outcomes.split(), strict=True):
        alone = replace(finding(1, severity, 0.9), support=support)
        assert (
            outcome_of(alone, POLICY)[0],
            decide_outcome([alone], POLICY, complete=True)[0],
        ) == (outcome, outcome)


def test_weaker_support_never_makes_an_outcome_worse_and_only_proof_blocks_below_critical() -> None:
    bars = itertools.combinations_with_replacement(SEVERITIES, 2)
    cases = itertools.product(bars, SEVERITIES, (0.3, 0.6, 0.9))
    for (block_at, needs_changes_at), severity, confidence in cases:
        policy = replace(POLICY, block_at=block_at, needs_changes_at=needs_changes_at)
        found = [
            outcome_of(replace(finding(1, severity, confidence), support=support), policy)[0]
            for support in SUPPORTS
        ]
        assert found == sorted(found, key=OUTCOMES.index, reverse=True)
        assert severity == "critical" or "block" not in found[1:]


@pytest.mark.parametrize(
    ("outcome", "fail_on", "code"),
    [
        ("merge", "merge", 1),
        ("merge", "needs_changes", 0),
        ("needs_changes", "merge", 1),
        ("needs_changes", "needs_changes", 1),
        ("needs_changes", "block", 0),
        ("block", "needs_changes", 1),
        ("block", "block", 1),
        ("block", "never", 0),
    ],
)
def test_the_exit_code(outcome: Outcome, fail_on: str, code: int) -> None:
    assert exit_code(outcome, "complete", fail_on) == code
    assert exit_code(outcome, "incomplete", fail_on) == 3


@pytest.mark.parametrize(
    ("fail_on", "only_new", "code"),
    [
        ("block", False, 0),
        ("needs_changes", False, 1),
        ("needs_changes", True, 0),
        ("high", False, 1),
        ("critical", False, 0),
        ("security:critical", False, 0),
        ("security:high,qa:info", False, 1),
        ("qa:high", False, 0),
        ("qa:high,medium", False, 1),
        ("high", True, 0),
        ("medium", True, 1),
        ("docs:info", False, 0),
        ("never", False, 0),
    ],
)
def test_the_exit_code_follows_bars_by_severity_and_category_and_what_is_new(
    fail_on: str, only_new: bool, code: int
) -> None:
    high, medium, waived = finding(1, "high"), finding(2, "medium"), finding(3, "critical")
    findings = [
        replace(high, category="security", since_previous="open", outcome="needs_changes"),
        replace(medium, category="security", since_previous="new"),
        replace(waived, state="waived", category="docs"),
    ]
    assert exit_code("needs_changes", "complete", fail_on, findings, only_new=only_new) == code
    assert exit_code("needs_changes", "incomplete", fail_on, findings, only_new=only_new) == 3


def test_a_bar_counts_a_mere_claim_from_high() -> None:
    for claimed, code in ((finding(1, "high"), 1), (finding(1, "medium"), 0)):
        found = [replace(claimed, support="claimed")]
        assert exit_code("merge", "complete", "medium", found) == code


def test_a_bar_counts_what_is_open_and_not_refuted() -> None:
    high = finding(1, "high")
    for refuted in (replace(high, support="refuted"), replace(high, state="waived")):
        assert exit_code("needs_changes", "complete", "high", [refuted]) == 0
        assert exit_code("needs_changes", "complete", "high", [refuted, high]) == 1


def test_of_new_findings_alone_the_most_severe_outcome_counts() -> None:
    outcomes: tuple[Outcome, ...] = ("merge", "block", "needs_changes")
    new = [replace(finding(), outcome=outcome, since_previous="new") for outcome in outcomes]
    old = replace(finding(), outcome="block", since_previous="open")
    assert exit_code("block", "complete", "block", new, only_new=True) == 1
    assert exit_code("block", "complete", "block", [new[0], new[2], old], only_new=True) == 0
    assert exit_code("block", "complete", "needs_changes", [old], only_new=True) == 0
    assert exit_code("block", "complete", "merge", [old], only_new=True) == 1


@pytest.mark.parametrize(
    ("bars", "error"),
    [
        ("grave", "'grave' is not a severity; use critical, high, medium, low, info"),
        ("style:low", "'style' is not a category; use security, qa, docs, architecture"),
        ("", "'' is not a severity; use critical, high, medium, low, info"),
    ],
)
def test_a_wrong_bar_says_what_is_allowed(bars: str, error: str) -> None:
    with pytest.raises(ValueError, match=f"^{error}$"):
        parse_bars(bars)
