"""Findings that somebody calls duplicates, and who proves, confirms and words what is merged."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.catalog.shared_literals import OUTCOMES, SEVERITIES, Severity
from orchestrator.catalog.verdict_policy import VerdictPolicy, Waiver
from orchestrator.code_review.findings.finding_assembly import build_finding
from orchestrator.code_review.findings.located_findings import Verification
from orchestrator.code_review.findings.merging import (
    FindingReport,
    MergedFinding,
    join_duplicates,
    merge,
)
from orchestrator.code_review.verdict.decision import outcome_of
from orchestrator.code_review.verdict.document_parts import Guideline, Objection, Remark
from orchestrator.report.formats.markdown import describe_finding
from tests.review.test_merging import POLICY, agent, tool

ANALYZER = tool(severity="low")
QA = agent("qa", title="Loses the last row", cwe=(), start_line=7, end_line=7)
DOCS = agent("docs", title="Never closes the file", cwe=(), start_line=9, end_line=9)
SECURITY = agent("security", title="Reads any path", cwe=(), start_line=11, end_line=11)


def joined(
    *reports: FindingReport,
    pairs: list[tuple[FindingReport, FindingReport]],
    policy: VerdictPolicy = POLICY,
) -> list[MergedFinding]:
    """What is kept of findings with one report each, in this order; the second is a duplicate."""
    names = [(other.finding.fingerprint, one.finding.fingerprint) for one, other in pairs]
    return join_duplicates([MergedFinding([report]) for report in reports], names, policy)


def shapes(findings: list[MergedFinding]) -> list[list[str]]:
    """The title of each finding and those of its duplicates."""
    return [[part.finding.title for part in one.parts] for one in findings]


def with_rating(report: FindingReport, severity: Severity, confidence: float) -> FindingReport:
    return replace(
        report, finding=replace(report.finding, severity=severity, confidence=confidence)
    )


def waiving(**waiver: Any) -> VerdictPolicy:
    return replace(POLICY, waivers=(Waiver(why="accepted", **waiver),))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("kept", "dropped"),
    [
        # An analyzer's, whatever an agent says of it.
        (ANALYZER, with_rating(QA, "critical", 0.9)),
        # Severe, but too unsure to count.
        (with_rating(QA, "medium", 0.9), with_rating(DOCS, "critical", 0.1)),
        # Both need changes.
        (with_rating(DOCS, "high", 0.9), with_rating(QA, "medium", 0.9)),
    ],
)
def test_of_two_duplicates_the_analyzers_or_the_one_with_the_most_weight_is_kept(
    kept: FindingReport, dropped: FindingReport, *, turned: bool
) -> None:
    order = (dropped, kept) if turned else (kept, dropped)
    assert shapes(joined(*order, pairs=[order])) == [[kept.finding.title, dropped.finding.title]]


def test_findings_that_analyzers_report_both_stay_and_later_pairs_are_joined() -> None:
    other = tool("taint", title="Path from a request", start_line=8, end_line=8)
    found = joined(ANALYZER, other, QA, DOCS, pairs=[(ANALYZER, other), (QA, DOCS)])
    assert shapes(found) == [
        ["Shell command built at run time"],
        ["Path from a request"],
        ["Loses the last row", "Never closes the file"],
    ]


def test_a_pair_of_which_only_one_is_known_joins_nothing() -> None:
    assert shapes(joined(QA, DOCS, pairs=[(QA, SECURITY), (QA, QA)])) == [
        ["Loses the last row"],
        ["Never closes the file"],
    ]


def test_duplicates_of_a_duplicate_are_duplicates_of_what_is_kept() -> None:
    findings = [MergedFinding([report]) for report in (QA, DOCS, SECURITY)]
    names = [report.finding.fingerprint for report in (QA, DOCS, SECURITY)]
    (found,) = join_duplicates(findings, [(names[2], names[1]), (names[2], names[0])], POLICY)
    assert shapes([found]) == [["Loses the last row", "Never closes the file", "Reads any path"]]
    assert [part.duplicates for part in found.duplicates] == [[], []]
    assert len(findings) == 3


def test_a_finding_can_have_several_duplicates() -> None:
    found = joined(QA, DOCS, SECURITY, pairs=[(QA, DOCS), (QA, SECURITY)])
    assert shapes(found) == [["Loses the last row", "Never closes the file", "Reads any path"]]


def test_a_duplicate_elsewhere_keeps_its_place_in_what_people_read() -> None:
    guide = replace(DOCS, finding=replace(DOCS.finding, path="docs/guide.md", start_line=3))
    (found,) = joined(QA, guide, pairs=[(QA, guide)])
    finding = replace(build_finding(found, POLICY), id="F1")
    assert [(one.by, one.path, one.start_line) for one in finding.reports] == [
        ("qa", "", 0),
        ("docs", "docs/guide.md", 3),
    ]
    assert "Also at `docs/guide.md:3`" in describe_finding(finding)


def test_a_finding_is_a_duplicate_by_any_of_its_reports() -> None:
    findings = [MergedFinding([QA, DOCS]), MergedFinding([SECURITY])]
    pair = SECURITY.finding.fingerprint, DOCS.finding.fingerprint
    assert shapes(join_duplicates(findings, [pair], POLICY)) == [
        ["Loses the last row", "Reads any path"]
    ]


@pytest.mark.parametrize(
    ("waiver", "count"),
    [
        ({"rule": "qa.reported"}, 2),
        ({"rule": "docs.reported"}, 2),
        ({"fingerprint": QA.finding.fingerprint}, 2),
        ({"rule": "qa.reported", "paths": ("app.py",)}, 2),
        ({"rule": "qa.reported", "paths": ("other.py",)}, 1),
        ({"rule": "security.reported"}, 1),
    ],
)
def test_a_finding_that_is_waived_is_not_joined_with_one_that_is_not(
    waiver: dict[str, Any], count: int
) -> None:
    assert len(joined(QA, DOCS, pairs=[(QA, DOCS)], policy=waiving(**waiver))) == count


def test_two_waived_findings_are_joined() -> None:
    policy = waiving(rule="qa.reported")
    other = agent("qa", title="Never closes the file", cwe=(), start_line=9, end_line=9)
    assert len(joined(QA, other, pairs=[(QA, other)], policy=policy)) == 1


def verdicts(
    *reports: FindingReport, severity: Severity = "critical", **more: Any
) -> dict[str, Verification]:
    """What a verifier says of each of these reports: that it holds, unless something else."""
    said = Verification(
        **{"verdict": "confirmed", "reason": "It holds.", "severity": severity, **more}
    )
    return {report.finding.fingerprint: said for report in reports}


def support_of(
    *reports: FindingReport,
    objections: tuple[Objection, ...] = (),
    verified: bool = False,
    family_of: Callable[[str], str] = lambda _: "",
) -> tuple[str, tuple[str, ...]]:
    """The support of the one finding that these make, and who confirms it."""
    (one,) = merge(reports, POLICY)
    one.verified = verdicts(*reports) if verified else {}
    found = build_finding(one, POLICY, objections, family_of)
    return found.support, found.confirmed_by


PROOF = tool()
NAME = PROOF.finding.fingerprint
REFUTED = Objection("qa", "It cannot happen.", ("app.py: q",), "", refutes=True)
INVALID = replace(REFUTED, refutes=False)


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([PROOF], ("proven", ())),
        ([agent()], ("claimed", ())),
        ([PROOF, agent()], ("proven", ("qa",))),
        ([tool("ruff"), tool("taint")], ("proven", ("taint",))),
        ([agent("qa"), agent("docs")], ("claimed", ("qa",))),
        ([PROOF, agent("qa"), agent("docs")], ("proven", ("docs", "qa"))),
        # Its author is the agent whose own finding it is, whoever takes it up with more certainty.
        (
            [agent("qa"), agent("docs", agent("qa").finding.fingerprint, confidence=0.9)],
            ("claimed", ("docs",)),
        ),
        # Half sure confirms, less does not, nor does who rates it less severe.
        ([PROOF, agent(confidence=0.5)], ("proven", ("qa",))),
        ([PROOF, agent(confidence=0.49)], ("proven", ())),
        ([PROOF, agent(severity="low")], ("proven", ())),
        ([PROOF, replace(agent(), confirms=False)], ("proven", ())),
        ([PROOF, tool("taint", confidence=0.1)], ("proven", ("taint",))),
        # What the analyzer proves is less severe than what the agent says.
        ([PROOF, agent(severity="critical", confidence=0.9)], ("claimed", ())),
    ],
)
def test_an_analyzer_proves_and_who_reports_it_as_severe_confirms(
    reports: list[FindingReport], expected: tuple[str, tuple[str, ...]]
) -> None:
    assert support_of(*reports) == expected


def test_finders_of_different_families_agree_and_colleagues_of_one_family_only_claim() -> None:
    families = {"qa": "one", "docs": "other", "security": "one"}.__getitem__
    both = agent("qa"), agent("docs")
    assert support_of(*both, family_of=families) == ("agreed", ("qa",))
    assert support_of(agent("qa"), agent("security"), family_of=families) == (
        "claimed",
        ("security",),
    )
    assert support_of(*both, verified=True, family_of=families) == ("verified", ("qa", "verifier"))
    # Who disputes it with evidence takes that from it: a person decides.
    for verified in (False, True):
        assert support_of(*both, objections=(REFUTED,), verified=verified, family_of=families) == (
            "claimed",
            ("qa", "verifier") if verified else ("qa",),
        )
    # Who is less than half sure does not agree.
    unsure = agent("docs", confidence=0.4)
    assert support_of(agent("qa", confidence=0.4), unsure, family_of=families) == ("claimed", ())


@pytest.mark.parametrize(
    ("block_at", "needs_changes_at", "proven", "claimed"),
    [("high", "medium", "high", "critical"), ("critical", "low", "low", "medium")],
)
def test_a_claim_of_higher_severity_does_not_take_the_weight_of_what_is_proven(
    block_at: Severity, needs_changes_at: Severity, proven: Severity, claimed: Severity
) -> None:
    policy = replace(POLICY, block_at=block_at, needs_changes_at=needs_changes_at)
    proof = with_rating(PROOF, proven, 0.9)
    (alone,) = merge([proof], policy)
    (both,) = merge([proof, with_rating(agent(), claimed, 0.9)], policy)
    found = build_finding(both, policy)
    assert (found.severity, found.support) == (proven, "proven")
    expected = outcome_of(build_finding(alone, policy), policy)[0]
    assert outcome_of(found, policy)[0] == expected != "merge"


def test_a_dispute_leaves_a_claim_and_takes_nothing_from_what_is_proved() -> None:
    two = agent("qa"), agent("docs")
    assert support_of(*two, objections=(INVALID, REFUTED)) == ("claimed", ("qa",))
    assert support_of(*two, objections=(INVALID,), verified=True)[0] == "verified"
    assert support_of(agent(), objections=(REFUTED,)) == ("claimed", ())
    assert support_of(PROOF, objections=(REFUTED,)) == ("proven", ())


MEDIUM = with_rating(tool(cwe=(), category="qa"), "medium", 0.9)


def refuting(*reports: FindingReport, **more: Any) -> dict[str, Verification]:
    return verdicts(*reports, verdict="refuted", reason="A guard stops it.", **more)


OTHER = agent("docs", title="Another defect here", cwe=())
AT_CRITICAL = with_rating(agent("docs"), "critical", 0.9)


@pytest.mark.parametrize(
    ("reports", "verified", "severity", "support"),
    [
        ((agent(),), verdicts(agent()), "medium", "verified"),
        ((agent(),), refuting(agent()), "medium", "refuted"),
        # It was asked about something less severe, or about one of two claims.
        ((AT_CRITICAL,), verdicts(AT_CRITICAL, severity="high"), "critical", "claimed"),
        ((AT_CRITICAL,), refuting(AT_CRITICAL, severity="high"), "critical", "claimed"),
        ((agent(), OTHER), refuting(agent()), "medium", "claimed"),
        ((agent(), OTHER), refuting(agent(), OTHER), "medium", "refuted"),
        # What is proven is not for it to judge.
        ((PROOF,), refuting(PROOF), "medium", "proven"),
        ((MEDIUM, AT_CRITICAL), refuting(AT_CRITICAL), "medium", "proven"),
    ],
)
def test_a_verdict_is_on_the_claims_of_which_the_verifier_was_told(
    reports: tuple[FindingReport, ...],
    verified: dict[str, Verification],
    severity: Severity,
    support: str,
) -> None:
    first = reports[0]
    joined_reports = [first, *(replace(one, refers_to=NAME) for one in reports[1:])]
    one = MergedFinding(joined_reports, verified=verified)
    found = build_finding(one, POLICY)
    assert (found.severity, found.support, found.state) == (severity, support, "open")
    decides = support in {"proven", "verified"} or severity == "critical"
    assert outcome_of(found, POLICY)[0] == ("needs_changes" if decides else "merge")
    refutes = [said for said in found.objections if said.by == "verifier"]
    assert all(said.refutes and said.why_not for said in refutes)


def test_the_verifier_confirms_a_finding_or_its_duplicate() -> None:
    assert support_of(agent(), verified=True) == ("verified", ("verifier",))
    (found,) = joined(QA, DOCS, pairs=[(QA, DOCS)])
    found.verified = verdicts(DOCS, reason="So it is.")
    result = build_finding(found, POLICY)
    assert result.confirmed_by == ("docs", "verifier")
    assert result.remarks == (Remark("verifier", "confirms", "So it is."),)


DISPUTED = (REFUTED,)


@pytest.mark.parametrize(
    ("reports", "objections", "outcome"),
    [
        ((MEDIUM,), DISPUTED, "merge"),
        ((MEDIUM,), (), "needs_changes"),
        ((MEDIUM,), (INVALID,), "needs_changes"),
        ((MEDIUM,), (replace(REFUTED, earlier=True),), "needs_changes"),
        ((MEDIUM, agent("docs", NAME, cwe=())), DISPUTED, "needs_changes"),
        ((MEDIUM, agent("qa", NAME, cwe=())), DISPUTED, "merge"),
        ((replace(MEDIUM, is_fact=True),), DISPUTED, "needs_changes"),
        ((with_rating(MEDIUM, "high", 0.9),), DISPUTED, "needs_changes"),
        ((with_rating(tool(cwe=()), "medium", 0.9),), DISPUTED, "needs_changes"),  # security
    ],
)
def test_an_agent_and_the_verifier_take_it_from_an_analyzers_finding_that_it_decides(
    reports: tuple[FindingReport, ...], objections: tuple[Objection, ...], outcome: str
) -> None:
    (one,) = merge(reports, POLICY)
    unverified = build_finding(one, POLICY, objections)
    assert outcome_of(unverified, POLICY)[0] == "needs_changes"
    one.verified = refuting(*reports)
    found = build_finding(one, POLICY, objections)
    assert (found.state, outcome_of(found, POLICY)[0]) == ("open", outcome)
    if outcome == "merge":
        assert found.support == "refuted"
        assert {said.why_not for said in found.objections} == {"it is shown all the same"}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_removing_what_speaks_for_a_finding_never_raises_its_support(data: st.DataObject) -> None:
    pool = [agent("qa"), agent("docs"), AT_CRITICAL, OTHER, MEDIUM]
    reports = data.draw(st.lists(st.sampled_from(pool), min_size=2, max_size=4, unique=True))
    ratings = st.sampled_from(SEVERITIES)
    said = {
        report.finding.fingerprint: Verification("confirmed", "So.", data.draw(ratings))
        for report in data.draw(st.lists(st.sampled_from(reports)))
    }

    def outcome(verified: dict[str, Verification], kept: list[FindingReport]) -> tuple[int, int]:
        made = [replace(one, refers_to="x") if one is not kept[0] else one for one in kept]
        found = build_finding(MergedFinding(made, verified=verified), POLICY, (), str)
        return OUTCOMES.index(outcome_of(found, POLICY)[0]), -SEVERITIES.index(found.severity)

    before = outcome(said, reports)
    for name in said:
        fewer = {other: one for other, one in said.items() if other != name}
        assert outcome(fewer, reports)[0] <= before[0]
    # Nor does a verdict make it more severe than somebody reports it.
    most = min(SEVERITIES.index(one.finding.severity) for one in reports)
    assert -before[1] >= most
    if len(reports) > 1:
        assert outcome(said, reports[:-1])[0] <= before[0]


def test_a_duplicate_that_weighs_more_rates_and_words_the_finding_and_proves_nothing() -> None:
    proof = with_rating(PROOF, "critical", 0.4)
    (found,) = joined(proof, with_rating(QA, "critical", 0.9), pairs=[(proof, QA)])
    found.repeated_by, found.duplicates[0].repeated_by = {"docs"}, {"architecture"}
    result = build_finding(found, POLICY)
    assert (result.title, result.severity, result.confidence) == (
        "Loses the last row",
        "critical",
        0.9,
    )
    # The place and the rule remain those of the analyzer.
    assert (result.start_line, result.rule) == (proof.finding.start_line, proof.finding.rule)
    assert (result.support, result.confirmed_by) == ("agreed", ("qa",))
    assert result.reported_by == ("architecture", "docs", "qa", "ruff", "security")
    assert [said.by for said in result.reports] == ["ruff", "qa"]
    assert found.supporters == {"architecture", "docs", "qa"}


@pytest.mark.parametrize(
    ("arguable", "lowers", "severity"),
    [(True, True, "low"), (True, False, "medium"), (False, True, "medium")],
)
def test_evidence_lowers_the_severity_of_an_arguable_rule_only(
    severity: str, *, arguable: bool, lowers: bool
) -> None:
    proof = replace(PROOF, arguable=arguable)
    lower = replace(agent("qa", NAME, severity="low", cwe=()), lowers=lowers)
    (one,) = merge([proof, lower], POLICY)
    assert build_finding(one, POLICY).severity == severity


def test_a_finding_has_the_first_guideline_that_one_of_its_reports_names() -> None:
    rules = [Guideline("AGENTS.md", line, f"Rule {line}.") for line in (1, 2)]
    docs, security = (
        replace(report, finding=replace(report.finding, guideline=rule))
        for report, rule in zip((DOCS, SECURITY), rules, strict=True)
    )
    found = build_finding(MergedFinding([QA, docs, security]), POLICY)
    assert found.guideline == rules[0]
    assert build_finding(MergedFinding([QA, DOCS]), POLICY).guideline is None


@pytest.mark.parametrize("turned", [False, True])
def test_of_two_alike_the_one_is_told_of_which_the_other_is_said_to_be_a_duplicate(
    *, turned: bool
) -> None:
    """Even if the duplicate is the surer one, whose confidence counts."""
    shipped, note = with_rating(QA, "medium", 0.75), with_rating(DOCS, "medium", 0.85)
    order = (shipped, note) if turned else (note, shipped)
    (kept,) = joined(*order, pairs=[(shipped, note)])
    found = build_finding(kept, POLICY)
    assert (found.title, found.start_line) == ("Loses the last row", 7)
    assert found.confidence == 0.85
