"""One defect is one finding; agreement raises confidence; no report makes a finding count for less."""

from itertools import permutations
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from diffchecks.check_io import FlowStep
from diffchecks.rules import shipped_rules
from orchestrator.catalog.repository_memory import Preference
from orchestrator.catalog.shared_literals import SEVERITIES, Severity
from orchestrator.catalog.verdict_policy import VerdictPolicy, Waiver
from orchestrator.code_review.findings.finding_assembly import build_finding
from orchestrator.code_review.findings.located_findings import Carried, LocatedFinding
from orchestrator.code_review.findings.merging import (
    FindingReport,
    at_place_of,
    low_pairs,
    merge,
    replacement_pairs,
    report_order,
)
from orchestrator.code_review.findings.waivers import apply_waivers
from orchestrator.code_review.verdict.document_parts import Objection, Reported
from orchestrator.code_review.verdict.model import Cause, Evidence, Finding

POLICY = VerdictPolicy(
    block_at="critical",
    block_confidence=0.8,
    needs_changes_at="medium",
    needs_changes_confidence=0.5,
    unread="gap",
    required_checks=(),
    exclude=(),
    waivers=(),
)


def located(**more: Any) -> LocatedFinding:
    fields: dict[str, Any] = {
        "path": "app.py", "start_line": 5, "end_line": 5, "severity": "medium", "confidence": 0.8,
        "title": "Shell command built at run time", "category": "security", "cwe": (78,),
        "quote": "q", **more,
    }  # fmt: skip
    return LocatedFinding(fingerprint=repr(sorted(fields.items())), **fields)


def tool(reporter: str = "ruff", called_by: str = "security", **more: Any) -> FindingReport:
    return FindingReport(
        reporter,
        located(**{"rule": "security.subprocess-shell", **more}),
        from_analyzer=True,
        call_refs=(f"1/{reporter}",),
        called_by=frozenset({called_by}),
    )


def agent(reporter: str = "qa", refers_to: str = "", **more: Any) -> FindingReport:
    finding = located(**{"category": reporter, "rule": f"{reporter}.reported", **more})
    return FindingReport(reporter, finding, from_analyzer=False, refers_to=refers_to)


def merged(*reports: FindingReport, policy: VerdictPolicy = POLICY) -> list[Finding]:
    losses = shipped_rules().losses
    return [build_finding(one, policy) for one in merge(reports, policy, losses)]


@pytest.mark.parametrize(
    "other",
    [
        {"title": "Anything", "start_line": 4, "end_line": 9},
        {"title": "shell command built from a name at run time", "cwe": ()},
        {"title": "Anything", "cwe": (), "rule": "security.subprocess-shell"},
    ],
)
def test_an_agent_and_an_analyzer_that_mean_the_same_defect_make_one_finding(
    other: dict[str, Any],
) -> None:
    (found,) = merged(agent(**other), tool())
    assert (found.rule, found.title) == (
        "security.subprocess-shell",
        "Shell command built at run time",
    )
    assert found.reported_by == ("qa", "ruff", "security")
    assert [said.by for said in found.reports] == ["ruff", "qa"]


@pytest.mark.parametrize(
    "other",
    [
        {"start_line": 6, "end_line": 9},
        {"path": "other.py"},
        {"cwe": (89,), "title": "Query built from a name"},
        {"cwe": (), "title": "Command without a time limit"},
    ],
)
def test_other_lines_and_other_defects_are_not_merged_and_raise_no_confidence(
    other: dict[str, Any],
) -> None:
    assert [one.confidence for one in merged(tool(), agent(**other))] == [0.8, 0.8]


@pytest.mark.parametrize(
    ("first", "second", "confidences"),
    [
        ({}, {}, [0.9]),
        ({}, {"rule": "security.other"}, [0.9]),
        ({"cwe": (78, 20)}, {"cwe": (78,)}, [0.9]),
        ({"cwe": ()}, {"cwe": ()}, [0.9]),
        ({}, {"start_line": 4}, [0.8, 0.8]),
        ({}, {"path": "other.py"}, [0.8, 0.8]),
        ({}, {"category": "qa"}, [0.8, 0.8]),
        ({}, {"cwe": (89,)}, [0.8, 0.8]),
        ({"cwe": ()}, {"cwe": (), "rule": "security.other"}, [0.8, 0.8]),
    ],
)
def test_analyzers_mean_one_defect_by_line_category_and_first_weakness_or_rule(
    first: dict[str, Any], second: dict[str, Any], confidences: list[float]
) -> None:
    found = merged(tool("ruff", **first), tool("taint", **second))
    assert [one.confidence for one in found] == confidences


def test_a_lost_protection_is_the_weakness_that_another_analyzer_names_at_its_line() -> None:
    lost = tool("protections", cwe=(693,), rule="security.unsafe-replacement", confidence=0.9)
    found = merged(lost, tool("taint"))
    assert [(one.rule, one.reported_by) for one in found] == [
        (tool("taint").finding.rule, ("protections", "security", "taint"))
    ]
    elsewhere = tool("taint", start_line=9, end_line=9)
    assert len(merged(lost, elsewhere, tool("ruff", cwe=(89,)), tool("taint"))) == 3
    assert len(merged(lost, tool("taint", category="qa"))) == 2


@pytest.mark.attack("a harmless, waived or lowered finding at the line of a lost protection")
@pytest.mark.parametrize(
    ("other", "waivers"),
    [
        ({"severity": "low"}, ()),
        ({}, (Waiver(rule="security.subprocess-shell", why="checked"),)),
        ({"severity": "critical"}, (Waiver(rule="security.subprocess-shell", why="", by="Ann"),)),
        ({}, (Preference(rule="security.subprocess-shell", severity="low", why="checked"),)),
    ],
)
def test_a_lost_protection_counts_whatever_becomes_of_the_finding_at_its_line(
    other: dict[str, Any], waivers: tuple[Waiver, ...]
) -> None:
    lost = tool("protections", cwe=(693,), rule="security.unsafe-replacement")
    policy = replace(POLICY, waivers=waivers)
    found = apply_waivers(merged(lost, tool("taint", **other), policy=policy), policy, "")
    open_ones = [one for one in found if one.state == "open" and one.severity == "medium"]
    assert [one.rule for one in open_ones] == ["security.unsafe-replacement"]


def test_a_decision_on_a_finding_is_one_on_the_protection_lost_at_its_line() -> None:
    lost = tool("protections", cwe=(693,), rule="security.unsafe-replacement")
    known = tool("taint").finding.fingerprint
    policy = replace(POLICY, waivers=(Waiver(fingerprint=known, why="checked"),))
    (one,) = apply_waivers(merged(lost, tool("taint"), policy=policy), policy, "")
    assert (one.rule, one.state) == (tool("taint").finding.rule, "waived")


def test_a_weaker_review_policy_is_another_defect_than_what_its_line_holds() -> None:
    assert len(merged(tool("active", cwe=(693,), rule="security.review-policy"), tool())) == 2


@pytest.mark.parametrize(
    ("one", "other", "count"),
    [
        ("Injection", "Injection", 1),
        ("Injection", "INJECTION!", 1),
        ("Injection", "Header injection", 2),
        ("Header injection", "The header injection of names", 1),
        # Three of four words, and two of four.
        ("Loses rows every night", "Loses rows every week", 1),
        ("Loses rows every night", "Loses rows each week", 2),
        ("The", "A", 2),
    ],
)
def test_agents_mean_one_defect_where_their_titles_share_most_words(
    one: str, other: str, count: int
) -> None:
    first = agent("a", cwe=(), quote="run(x)", title=one)
    second = agent("b", cwe=(), quote="save(y)", title=other)
    assert len(merged(first, second)) == count


def test_an_equal_fingerprint_is_agreement_whatever_the_lines() -> None:
    moved = agent("docs", start_line=9, end_line=9, title="Moved", cwe=())
    equal = replace(moved, finding=replace(moved.finding, fingerprint=agent().finding.fingerprint))
    (found,) = merged(agent(), equal)
    assert (found.confidence, found.reported_by) == (0.9, ("docs", "qa"))


def test_a_fingerprint_is_not_believed_where_the_lines_differ() -> None:
    name = tool().finding.fingerprint
    assert len(merged(tool(), agent(refers_to=name, title="It", cwe=()))) == 1
    assert (
        len(merged(tool(), agent(refers_to=name, start_line=9, end_line=9, severity="high"))) == 2
    )
    assert len(merged(tool(), agent(refers_to=name, path="other.py"))) == 2


def test_an_agent_that_takes_a_finding_up_words_it_and_its_confidence_counts() -> None:
    known = tool(confidence=0.4, detail="Starting a process with a shell")
    words = {
        "title": "A file name reaches the shell",
        "detail": "The caller.",
        "fix_suggestion": "x",
    }
    explained = agent(refers_to=known.finding.fingerprint, confidence=0.99, cwe=(), **words)
    (found,) = merged(known, explained)
    assert (found.title, found.detail, found.fix_suggestion) == tuple(words.values())
    assert (found.rule, found.severity, found.confidence) == (
        "security.subprocess-shell",
        "medium",
        0.99,
    )


def test_of_agents_that_take_a_finding_up_the_report_that_weighs_most_words_it() -> None:
    name = tool().finding.fingerprint
    sure, unsure = (
        agent(by, refers_to=name, cwe=(), title=title, confidence=confidence)
        for by, title, confidence in (("a", "Sure", 0.9), ("b", "Unsure", 0.4))
    )
    for reports in ((tool(), sure, unsure), (unsure, sure, tool())):
        (found,) = merged(*reports)
        assert found.title == "Sure"


def test_an_explanation_does_not_hide_what_an_analyzer_says_under_a_general_title() -> None:
    known = tool(detail="app no longer has run")
    name = known.finding.fingerprint
    explained = agent(refers_to=name, title=known.finding.title, detail="Plugins import it.")
    (found,) = merged(known, explained)
    assert found.detail == "app no longer has run\nPlugins import it."


@pytest.mark.parametrize(
    ("other", "count"),
    [
        ({"quote": "run(x,  shell=True)"}, 1),
        ({"quote": "subprocess.run(x, shell=True)"}, 1),
        ({"quote": "a.run(x, shell=True)"}, 1),
        ({"quote": "run(x, shell=True)", "cwe": (400,)}, 2),
        ({"quote": "run(y)"}, 2),
        ({"quote": "run(x, shell=True)", "start_line": 6, "end_line": 6}, 2),
        ({"quote": "run(x, shell=True)", "reporter": "qa"}, 2),
    ],
)
def test_two_agents_that_quote_the_same_lines_mean_one_defect(
    other: dict[str, Any], count: int
) -> None:
    one = agent("qa", quote="run(x, shell=True)", title="Hangs without a time limit")
    another = agent(**{"reporter": "architecture", "title": "Blocks the loop", "cwe": (), **other})
    assert len(merged(one, another)) == count


LOST: dict[str, Any] = {
    "title": "A protected method that calls super gets NoMethodError",
    "detail": "Models with a protected reader break while the methods are not generated: the call of "
    "super reaches method_missing, which finds nothing to call on the class.",
}


@pytest.mark.parametrize(
    ("title", "detail", "count"),
    [
        (
            "A private method of one object is reachable again",
            "Callers outside see what its author hid by extend: visibility is asked of the class and "
            "not of the singleton, so send is no longer needed.",
            2,
        ),
        (
            "super in a protected reader raises",
            "While methods are not generated, a protected method of a model that calls super breaks: "
            "nothing is found on the class.",
            1,
        ),
    ],
)
def test_two_agents_that_quote_the_same_lines_and_tell_different_things_mean_two_defects(
    title: str, detail: str, count: int
) -> None:
    one, other = (
        agent(by, quote="def method_missing(name)", cwe=(), **said)
        for by, said in (("qa", LOST), ("security", {"title": title, "detail": detail}))
    )
    assert len(merged(one, other)) == count


def test_the_weakness_that_one_of_two_names_is_the_finding_s() -> None:
    qa, security = agent("qa", cwe=(), confidence=0.9), agent("security", cwe=(89,))
    assert [(one.category, one.cwe) for one in merged(security, qa)] == [("qa", (89,))]


@pytest.mark.parametrize(("start", "count"), [(6, 1), (7, 2)])
def test_what_two_agents_tell_alike_of_shared_lines_is_one_defect_whatever_they_quote_and_call_it(
    start: int, count: int
) -> None:
    one = agent("qa", quote="def method_missing", end_line=6, cwe=(89,), severity="high", **LOST)
    again = {
        "title": "Protected methods that call super raise NoMethodError",
        "detail": "A model with a protected reader breaks while its methods are not generated, since "
        "super reaches method_missing and that finds nothing on the class.",
    }
    place: dict[str, Any] = {
        "start_line": start,
        "end_line": start,
        "quote": "raise",
        "cwe": (862,),
    }
    found = merged(one, agent("security", severity="medium", **place, **again))
    assert len(found) == count
    assert found[0].severity == "high"
    assert found[0].reported_by == (("qa", "security") if count == 1 else ("qa",))


NO_CHECK: dict[str, Any] = {"title": "Anyone may read all orders", "cwe": (862,)}
INJECTION: dict[str, Any] = {"title": "User text is concatenated into SQL", "cwe": (89,)}
UNCLEAR: dict[str, Any] = {"title": "A guest gets every row", "cwe": ()}


@pytest.mark.parametrize(
    "claims",
    [
        [("security", INJECTION), ("architecture", NO_CHECK)],
        # A third report that could mean either does not connect them.
        [("security", INJECTION), ("qa", UNCLEAR), ("architecture", NO_CHECK)],
        # An agent that reports both means two defects, also where a colleague quotes the line.
        [("security", INJECTION), ("security", NO_CHECK), ("qa", UNCLEAR)],
        [("security", INJECTION), ("security", UNCLEAR), ("qa", {"title": "Bad row", "cwe": ()})],
        # Without weakness numbers, what the title names tells them apart.
        [("security", INJECTION), ("architecture", {"title": "No permission check", "cwe": ()})],
        [
            ("qa", {"title": "SQL injection", "cwe": ()}),
            ("architecture", {"title": "The endpoint lacks authorization", "cwe": ()}),
        ],
    ],
)
def test_two_defects_of_different_kinds_on_one_line_stay_two(
    claims: list[tuple[str, dict[str, Any]]],
) -> None:
    quote = "return db.execute(f'select * from orders where name = {name}')"
    for order in permutations(claims):
        found = merged(*(agent(name, quote=quote, **more) for name, more in order))
        assert len(found) == 2, [one.title for one in found]


@pytest.mark.parametrize(("one", "other"), [(369, 682), (862, 639), (78, 77), (400, 770), (20, 22)])
def test_near_weakness_numbers_at_the_same_quote_are_one_defect(one: int, other: int) -> None:
    first = agent("qa", quote="run(x)", title="Hangs without a time limit", cwe=(one,))
    second = agent("docs", quote="run(x)", title="Blocks the loop", cwe=(other,))
    assert len(merged(first, second)) == 1


def test_a_report_joins_the_defect_at_its_quote_that_it_shares_most_words_with() -> None:
    quote = "return db.execute(query + name)"
    claims = (("security", NO_CHECK), ("architecture", INJECTION))
    known = [agent(name, quote=quote, confidence=0.9, **more) for name, more in claims]
    other = agent("qa", quote=quote, cwe=(), title="Breaks for a user text with an apostrophe")
    found = {one.title: one.reported_by for one in merged(*known, other)}
    assert found == {NO_CHECK["title"]: ("security",), INJECTION["title"]: ("architecture", "qa")}


def test_two_findings_of_one_agent_without_a_rule_are_not_merged() -> None:
    reports = [agent(cwe=(), title=title) for title in ("Loses the last row", "Never closes it")]
    assert len(merged(*reports)) == 2


@pytest.mark.parametrize(
    ("reports", "confidence"),
    [
        ([tool()], 0.8),
        ([tool(), tool("taint")], 0.9),
        ([tool(), agent("qa")], 0.9),
        ([tool(), tool("taint"), agent("qa")], 0.95),
        # None of these is independent: it was shown the finding, or takes it up by its name.
        ([tool(), agent("security")], 0.8),
        ([tool(), agent("qa", refers_to=tool().finding.fingerprint)], 0.8),
        ([replace(tool(), shown_to_all=True), agent("qa")], 0.8),
        # What it takes up is sure by two analyzers, so its own, surer report is as well.
        (
            [
                tool(),
                tool("taint"),
                agent(refers_to=tool().finding.fingerprint, title="It", cwe=(), confidence=0.9),
            ],
            0.95,
        ),
        # Four digits.
        ([tool(), tool("taint"), *map(agent, "abcd")], 0.9938),
        # Whoever finds it milder does not agree that it is as grave.
        ([tool(), agent("qa", severity="low")], 0.8),
        ([agent("qa", confidence=0.6), agent("docs", confidence=0.6)], 0.8),
        ([agent("qa"), agent("qa", title="Shell command built")], 0.8),
    ],
)
def test_each_further_independent_reporter_halves_the_doubt(
    reports: list[FindingReport], confidence: float
) -> None:
    (found,) = merged(*reports)
    assert found.confidence == confidence


def test_all_severities_are_kept_and_the_one_that_weighs_most_counts() -> None:
    (found,) = merged(tool(), agent(severity="critical", confidence=0.9))
    assert (found.severity, found.objections) == ("critical", ())
    assert [(said.by, said.severity) for said in found.reports] == [
        ("ruff", "medium"),
        ("qa", "critical"),
    ]
    # Grave, but too unsure to count: it does not hide what is sure.
    (found,) = merged(tool(), agent(severity="critical", confidence=0.1))
    assert (found.severity, found.confidence, found.objections) == ("medium", 0.9, ())


any_report = st.builds(
    lambda proved, by, **more: (tool if proved else agent)(by, **more),
    st.booleans(),
    st.sampled_from(["a", "b", "c"]),
    severity=st.sampled_from(SEVERITIES),
    confidence=st.floats(0, 1),
    start_line=st.integers(1, 4),
    end_line=st.just(5),
    cwe=st.sampled_from([(78,), (89,), ()]),
    title=st.sampled_from(["Loses rows", "Runs what it is given", "Loses all rows"]),
)


def weight(severity: Severity, confidence: float, policy: VerdictPolicy) -> int:
    """What a finding does under ``POLICY`` with another ``block_at``: blocks, counts, or neither."""
    blocking: dict[Severity, set[Severity]] = {
        "critical": {"critical"},
        "high": {"critical", "high"},
        "medium": {"critical", "high", "medium"},
    }
    if severity in blocking[policy.block_at] and confidence >= 0.8:
        return 2
    return int(severity in blocking["medium"] and confidence >= 0.5)


def heaviest(*reports: FindingReport, policy: VerdictPolicy) -> int:
    found = apply_waivers(merged(*reports, policy=policy), policy, "")
    weighs = (weight(f.severity, f.confidence, policy) for f in found if f.state == "open")
    return max(weighs, default=0)


# What a graver or an earlier report, unsure as it is, did to what others had agreed on.
@example(
    [
        agent("a", severity="critical", confidence=0.75, start_line=2),
        agent("b", severity="critical", confidence=0.0),
    ],
    agent("a", severity="critical", confidence=0.5, start_line=1),
    "critical",
)
@example(
    [agent("a", severity="high", confidence=0.7), agent("b", severity="high", confidence=0.7)],
    agent("c", severity="critical", confidence=0.5),
    "high",
)
# The new report takes one of two that agreed away to its own place, or to that of an analyzer.
@example(
    [
        agent("a", severity="critical", confidence=0.7, start_line=3, title="Loses rows"),
        agent("b", severity="critical", confidence=0.7, cwe=(), title="Loses rows"),
    ],
    agent("c", refers_to="another", severity="critical", confidence=0.75, end_line=4, start_line=1),
    "critical",
)
@example([agent("a", severity="critical", confidence=0.7, title="Loses rows"),
          agent("b", severity="critical", confidence=0.7, cwe=(), title="Loses rows")],
         tool("ruff", severity="low", title="Runs what it is given"), "critical")  # fmt: skip
@given(
    st.lists(any_report, max_size=6), any_report, st.sampled_from(["critical", "high", "medium"])
)
def test_no_report_lowers_or_hides_another(
    before: list[FindingReport], more: FindingReport, block_at: Severity
) -> None:
    policy = replace(POLICY, block_at=block_at)
    found = merged(*before, more, policy=policy)
    for report in (*before, more):
        finding = report.finding
        weighs = weight(finding.severity, finding.confidence, policy)
        assert any(
            report.reporter in one.reported_by
            and weight(one.severity, one.confidence, policy) >= weighs
            and (one.title == finding.title or finding.title in {r.title for r in one.reports})
            for one in found
        )
    assert heaviest(*before, more, policy=policy) >= heaviest(*before, policy=policy)


waivable = st.builds(
    lambda by, rule, **more: agent(by, rule=rule or f"{by}.reported", **more),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["qa.complexity", ""]),
    severity=st.sampled_from(["critical", "low"]),
    confidence=st.sampled_from([0.5, 0.7, 0.9]),
    cwe=st.sampled_from([(78,), (89,), ()]),
    title=st.sampled_from(["Loses rows", "Runs what it is given", "Loses all rows"]),
)


@example(
    [agent("a", severity="critical", confidence=0.9)],
    agent("b", rule="qa.complexity", severity="critical", confidence=1.0),
)
@example([agent("a", rule="qa.complexity", severity="critical", confidence=0.9),
          agent("b", severity="low", title="Loses rows")],
         agent("c", severity="critical", confidence=0.5, cwe=(89,), title="Loses rows"))  # fmt: skip
@given(st.lists(waivable, max_size=6), waivable)
def test_no_agent_extends_its_waiver_to_a_report_of_another(
    before: list[FindingReport], more: FindingReport
) -> None:
    policy = replace(POLICY, waivers=(Waiver(rule="qa.complexity", why="generated"),))
    assert heaviest(*before, more, policy=policy) >= heaviest(*before, policy=policy)


def test_a_waived_report_of_an_agent_is_merged_with_waived_ones_only() -> None:
    policy = replace(POLICY, waivers=(Waiver(rule="qa.complexity", why="generated"),))
    waived = [agent(name, rule="qa.complexity") for name in ("a", "b")]
    found = merge([*waived, agent("c"), agent("d")], policy)
    assert sorted(sorted(report.reporter for report in one.reports) for one in found) == [
        ["a", "b"],
        ["c", "d"],
    ]


def carried(report: FindingReport, by: str = "qa", **more: Any) -> FindingReport:
    """A report of an earlier review."""
    finding = replace(report.finding, **more)
    return replace(report, finding=finding, carried=Carried(reported_by=(by,)))


def test_a_finding_of_an_earlier_review_is_kept_as_it_was_said_then() -> None:
    severe = agent("docs", title="A shell command built at run time", severity="critical")
    (found,) = merge([severe, carried(agent())], POLICY)
    assert [report.reporter for report in found.reports] == ["qa", "docs"]
    assert build_finding(found, POLICY).carried_over
    assert not merged(agent())[0].carried_over


def test_findings_that_an_earlier_review_told_apart_stay_apart() -> None:
    one, other = carried(agent("qa")), carried(agent("docs"), "docs")
    assert len(merge([one, other], POLICY)) == 2
    (found,) = merge([one, agent("docs")], POLICY)
    assert found.supporters == {"qa", "docs"}


def test_a_finding_that_was_lowered_as_one_too_many_says_so_while_it_is_lowered() -> None:
    (lowered,) = merged(agent(severity="info", lowered_from="high"))
    assert (lowered.severity, lowered.lowered_from) == ("info", "high")
    (raised,) = merged(carried(agent("a", severity="info", lowered_from="high")), agent("b"))
    assert (raised.severity, raised.lowered_from) == ("medium", None)


def test_a_finding_has_the_steps_of_the_first_report_with_a_data_flow() -> None:
    steps = (FlowStep("app.py", 3, "the request"), FlowStep("app.py", 5, "the shell"))
    (found,) = merged(tool("ruff"), tool("taint", steps=steps))
    assert found.steps == steps
    assert merged(tool("ruff"))[0].steps == ()


def test_an_agents_words_are_placed_where_the_analyzer_found_the_defect() -> None:
    known = located(rule="r", path="b.py", side="base", start_line=7, end_line=8, quote="run(name)")
    words: dict[str, Any] = {"title": "A caller passes a name", "severity": "high", "detail": "d"}
    claim = located(rule="r", because_of=Cause("app.py", 2), cause_quote="x", **words)
    expected = {
        **{name: getattr(known, name) for name in ("path", "side", "start_line", "end_line")},
        **words, "quote": "run(name)", "because_of": None, "cause_quote": "",
    }  # fmt: skip
    assert at_place_of(known, claim) == replace(claim, **expected)


@pytest.mark.parametrize(
    ("more", "pairs"),
    [
        ({}, 1),
        ({"severity": "medium"}, 0),
        ({"title": "MAX_SIZE of 0 has no test in the package"}, 0),
        ({"title": "MAX_SIZE limits entries"}, 0),  # too short to tell
    ],
)
def test_low_findings_of_two_agents_that_say_the_same_are_one_wherever_they_are(
    more: dict[str, Any], pairs: int
) -> None:
    said: dict[str, Any] = {"severity": "low", "cwe": ()}
    title = "MAX_SIZE now also limits entries per batch (0: one entry each), but is not documented"
    other = "MAX_SIZE of 0 now gives one entry per batch, though it is documented as a limit"
    one = agent(**said, title=title)
    second = {**said, "path": "log.py", "title": other, **more}
    assert len([*low_pairs(merge([one, agent("security", **second)], POLICY))]) == pairs
    assert not [*low_pairs(merge([one, agent(**second)], POLICY))]


def test_the_rules_of_two_analyzers_do_not_contradict_each_other() -> None:
    (found,) = merged(tool(), tool("taint", severity="high", confidence=0.9))
    assert (found.severity, found.confidence, found.objections) == ("high", 0.9, ())
    assert [(said.by, said.severity) for said in found.reports] == [
        ("taint", "high"),
        ("ruff", "medium"),
    ]


def test_of_agents_the_report_that_weighs_most_names_the_finding() -> None:
    unsure = agent("a", severity="critical", confidence=0.1, title="Shell command built")
    (found,) = merged(unsure, agent("b"))
    assert found.title == "Shell command built at run time"


def test_findings_are_reported_by_severity_place_confidence_and_rule() -> None:
    in_order = [
        located(severity="critical", path="z.py", rule="b"),
        located(severity="high", path="a.py", start_line=9, rule="b"),
        located(severity="high", path="b.py", start_line=2, rule="b"),
        located(severity="high", path="b.py", start_line=3, confidence=0.9, rule="b"),
        located(severity="high", path="b.py", start_line=3, rule="a"),
        located(severity="high", path="b.py", start_line=3, rule="b"),
        located(severity="info", path="a.py", rule="a"),
    ]
    mixed = in_order[4:] + in_order[:4]
    assert sorted(mixed, key=report_order) == in_order


def test_a_finding_of_the_verdict_has_all_that_its_reports_say() -> None:
    words: dict[str, Any] = {
        "detail": "It runs what it is given.", "fix_suggestion": "Pass a list.", "start_column": 7,
        "end_line": 6, "side": "base", "because_of": Cause("app.py", 2), "cwe": (78, 20),
        "cause_quote": "x",
    }  # fmt: skip
    objection = Objection("qa", "no", ("file a: b",), "")
    shell, other = (
        tool(**words),
        agent(severity="low", confidence=0.7, detail="Perhaps.", side="base"),
    )
    (merging,) = merge([other, shell], POLICY)
    expected = Finding(
        id="",
        fingerprint=shell.finding.fingerprint,
        severity="medium",
        confidence=0.8,
        title="Shell command built at run time",
        detail="It runs what it is given.",
        category="security",
        rule="security.subprocess-shell",
        cwe=(78, 20),
        path="app.py",
        start_line=5,
        end_line=6,
        start_column=7,
        evidence=Evidence(quote="q", tool_calls=("1/ruff",), side="base"),
        fix_suggestion="Pass a list.",
        reported_by=("qa", "ruff", "security"),
        because_of=Cause("app.py", 2),
        cause_quote="x",
        reports=(
            Reported(
                by="ruff",
                proved=True,
                severity="medium",
                confidence=0.8,
                title="Shell command built at run time",
                detail="It runs what it is given.",
            ),
            Reported(
                by="qa",
                proved=False,
                severity="low",
                confidence=0.7,
                title="Shell command built at run time",
                detail="Perhaps.",
            ),
        ),
        objections=(objection,),
    )
    assert build_finding(merging, POLICY, [objection]) == expected
    (alone,) = merge([tool(start_column=0)], POLICY)
    found = build_finding(alone, POLICY)
    assert (found.start_column, found.reports) == (None, ())


def test_a_defect_on_replaced_lines_is_that_of_the_lines_that_replace_them() -> None:
    file = SimpleNamespace(path="app.py", old_path="old.py", removed={3: "", 4: ""})
    added = {"app.py": frozenset({3, 4, 5}), "other.py": frozenset({9})}
    workspace: Any = SimpleNamespace(added=added.get, change=SimpleNamespace(files=[file]))
    gone = tool(path="old.py", side="base", start_line=4, end_line=4)
    new, later = tool(start_line=5), tool(path="other.py", start_line=9, end_line=9)
    found = merge([gone, new, later], POLICY)
    pairs = [{*pair} for pair in replacement_pairs(workspace, found)]
    assert pairs == [{gone.finding.fingerprint, new.finding.fingerprint}]
