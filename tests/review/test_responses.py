"""What agents and the judge do to findings that are there already, by id; and what they cannot do."""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from orchestrator.code_review.agent_report_contracts import SpecialistReport, as_form
from orchestrator.code_review.findings.agent_reports import (
    References,
    claim_fingerprint,
    most_findings,
)
from orchestrator.code_review.findings.evidence_from_journal import AnalyzerCall, Work
from orchestrator.code_review.findings.located_findings import (
    AnalysisResult,
    LocatedFinding,
    Verification,
)
from orchestrator.code_review.findings.verdict_findings import Synthesis, build_findings
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.verdict.decision import decide_outcome
from orchestrator.engine.agent_loop import LoopResult
from orchestrator.engine.types import Request, Response, Text
from tests.review.review_kit import change, review, workspace_of
from tests.review.team_kit import TEAM, claim, facts, judged, plan, report, scores, script, sums
from tests.review.test_escalation_in_reviews import CHOOSE
from tests.review.test_merging import POLICY
from tests.scripted_model import ScriptedModel, text_reply

CODE = '"""An app."""\n\nNAME = "app"\nSIZE = 4\nEMPTY = not NAME\n'
SEEN = {"source": "file", "name": "app.py", "quote": "SIZE = 4"}
INVENTED = {"source": "file", "name": "app.py", "quote": "eval(request.body)"}


def response(finding: str, action: str, **more: object) -> dict[str, object]:
    return {"finding": finding, "action": action, "reason": "As read.", "evidence": [SEEN], **more}


def works(*rounds: Mapping[str, Mapping[str, object]]) -> list[Work]:
    return [
        Work(number, LoopResult(agent, "ok", {"findings": [], "checked": [], **said}))
        for number, round_ in enumerate(rounds, 1)
        for agent, said in round_.items()
    ]


def name_of(said: dict[str, object]) -> str:
    (finding,) = as_form(SpecialistReport, {"findings": [said], "checked": []}).findings
    return claim_fingerprint(finding)


async def made(workspace: ReviewWorkspace, team: list[Work]) -> Synthesis:
    found = await build_findings(workspace, [], team, lambda tool: (), POLICY)
    references = References({2: found.shown, 3: found.shown})
    return await build_findings(workspace, [], team, lambda tool: (), POLICY, references)


VARIANTS = list(itertools.product((0.8, 0.95, 1.0), ("file", "diff"), ("alone", "seconded", "verified"),
                                  ("F1", "fingerprint")))  # fmt: skip


async def test_an_invented_critical_that_one_colleague_refutes_never_blocks(tmp_path: Path) -> None:
    assert len(VARIANTS) >= 20
    async with workspace_of(change(tmp_path, {}, {"app.py": CODE})) as workspace:
        for confidence, source, support, name in VARIANTS:
            made_up = claim(severity="critical", confidence=confidence, title="Remote execution")
            fingerprint = name_of(made_up)
            refuted = response(
                "F1" if name == "F1" else fingerprint,
                "dispute",
                evidence=[{**SEEN, "source": source}],
            )
            second: dict[str, dict[str, object]] = {"qa": {"responses": [refuted]}}
            if support == "seconded":
                second["docs"] = {"responses": [response(fingerprint, "confirm")]}
            said = Verification("confirmed", "So.", "critical")
            verified = {fingerprint: said} if support == "verified" else {}
            team = works({"security": {"findings": [made_up]}}, second)
            found = await build_findings(
                workspace, [], team, lambda tool: (), POLICY,
                References({2: {"F1": fingerprint}}, verified),
            )  # fmt: skip
            (one,) = found.findings
            assert one.support == "claimed"
            outcome, reasons = decide_outcome(found.findings, POLICY, complete=True)
            assert outcome == "needs_changes"
            assert reasons[0] == "1 finding (F1) at or above critical, disputed and so not blocking"


@pytest.mark.parametrize(
    ("said", "confirmed_by"),
    [
        ({}, ()),
        (response("F1", "confirm"), ("qa",)),
        (response("F1", "confirm", evidence=[INVENTED]), ()),
        (response("F1", "confirm", evidence=[]), ()),
        (response("F1", "confirm", severity="low"), ()),
        (response("F1", "confirm", confidence=0.2), ()),
        (response("F1", "refine", title="Worse"), ()),
        (response("F1", "dispute", evidence=[INVENTED]), ()),
        (response("F1", "withdraw"), ()),
    ],
)
async def test_a_colleague_of_the_same_family_confirms_with_evidence_and_the_claim_stays_one(
    tmp_path: Path, said: dict[str, object], confirmed_by: tuple[str, ...]
) -> None:
    mine = claim(severity="critical")
    second: dict[str, object] = {"responses": [said] if said else []}
    async with workspace_of(change(tmp_path, {}, {"app.py": CODE})) as workspace:
        found = await made(workspace, works({"security": {"findings": [mine]}}, {"qa": second}))
    (one,) = found.findings
    assert (one.severity, one.support) == ("critical", "claimed")
    assert one.confirmed_by == confirmed_by
    if said.get("action") == "refine" or confirmed_by:
        assert [each.reason for each in one.reports if each.by == "qa"] == [said["reason"]]
    assert decide_outcome(found.findings, POLICY, complete=True)[0] == "needs_changes"


async def test_an_agent_withdraws_refines_and_joins_findings(tmp_path: Path) -> None:
    goes, stays = claim(title="Never read"), claim(title="Name is fixed", severity="critical")
    size = claim(start_line=4, end_line=4, quote="SIZE = 4", title="Too small", severity="low")
    same = claim(start_line=5, end_line=5, quote="EMPTY = not NAME", title="Always false")
    first = {"qa": {"findings": [goes, stays, size]}, "security": {"findings": [same]}}
    shown = {name: name_of(said) for name, said in
             {"F1": stays, "F2": goes, "F3": same, "F4": size}.items()}  # fmt: skip
    second = {"qa": {"responses": [
        response("F2", "withdraw", evidence=[]),
        response("F1", "refine", severity="medium", title="The name cannot be set"),
        response("F4", "duplicate", duplicate_of="F3", evidence=[]),
        response("F9", "confirm"),
        response("F3", "withdraw"),
        response("F3", "duplicate", duplicate_of="F8"),
        response("F1", "confirm"),
    ]}}  # fmt: skip
    async with workspace_of(change(tmp_path, {}, {"app.py": CODE})) as workspace:
        found = await build_findings(
            workspace, [], works(first, second), lambda tool: (), POLICY, References({2: shown})
        )
        kept = References({2: shown}, ids={found.findings[1].fingerprint: "F1"})
        again = await build_findings(
            workspace, [], works(first, second), lambda tool: (), POLICY, kept
        )
    assert [(one.title, one.severity) for one in found.findings] == [
        ("Always false", "high"),
        ("The name cannot be set", "medium"),
    ]
    assert [one.id for one in again.findings] == ["F2", "F1"]
    assert found.findings[0].reported_by == ("qa", "security")
    assert [said.title for said in found.findings[0].reports] == ["Always false", "Too small"]
    (gone,) = found.rejected
    assert (gone.finding.title, gone.cause) == ("Never read", "withdrawn")
    assert gone.reason == "qa withdrew it: As read."
    assert found.notes[2, "qa"] == (
        "confirm of F9: there is no finding 'F9'",
        "withdraw of F3: it is not a finding of yours; dispute it, with evidence",
        "duplicate of F3: there is no other finding 'F8'",
        "confirm of F1: it is your own finding; somebody else must confirm it",
    )


async def test_the_report_after_a_withdrawal_counts(tmp_path: Path) -> None:
    mine = claim()
    taken_back = {"qa": {"responses": [response(name_of(mine), "withdraw")]}}
    again = {"qa": {"findings": [mine]}}
    async with workspace_of(change(tmp_path, {}, {"app.py": CODE})) as workspace:
        assert (await made(workspace, works(again, taken_back))).findings == ()
        assert len((await made(workspace, works(again, taken_back, again))).findings) == 1


async def test_no_response_takes_weight_from_what_an_analyzer_reports(tmp_path: Path) -> None:
    async with workspace_of(change(tmp_path, {}, {"app.py": CODE})) as workspace:
        proved = LocatedFinding(
            fingerprint="feed", rule="security.subprocess-shell", severity="critical",
            category="security", confidence=0.9, title="Shell", path="app.py", start_line=4,
            end_line=4, quote="SIZE = 4",
        )  # fmt: skip
        calls = [
            AnalyzerCall("1/c", 1, "qa", "ruff", "", AnalysisResult("ruff", findings=(proved,)))
        ]
        for action in ("dispute", "refine", "withdraw", "duplicate"):
            said = response("feed", action, severity="info", confidence=0.0, duplicate_of="F2")
            other = claim(severity="info")
            team = works({"qa": {"findings": [other], "responses": [said]}})
            refuted = Verification("refuted", "No.", "critical")
            references = References({1: {"F2": name_of(other)}}, {"feed": refuted})
            found = await build_findings(
                workspace, calls, team, lambda tool: (), POLICY, references
            )
            first = found.findings[0]
            assert (first.severity, first.confidence, first.support) == ("critical", 0.9, "proven")
            assert decide_outcome(found.findings, POLICY, complete=True)[0] == "block"


async def test_an_agent_that_takes_up_an_analyzers_finding_keeps_its_own_place(
    tmp_path: Path,
) -> None:
    code = "".join(f"V{n} = {n}\n" for n in range(8)) + "R = eval(input())\n"
    repo = change(tmp_path, {}, {"app.py": code})
    offline = await review(repo)
    proved = next(one for one in offline.findings if one.start_line == 9)
    name, title = proved.fingerprint, "Leads to the call below"
    for line, quote, places in ((2, "V1 = 1", {2, 9}), (2, "R = eval(input())", {9})):
        mine = claim(start_line=line, end_line=line, quote=quote, title=title, fingerprint=name)
        lines = script()
        lines["qa"] = [lines["qa"][0], report(findings=[mine])]
        verdict = await review(repo, ScriptedModel(lines))
        assert {one.start_line for one in verdict.findings if one.category != "docs"} == places


async def test_errors_in_responses_go_back_once_and_are_then_notes(tmp_path: Path) -> None:
    repo = change(tmp_path, {}, {"app.py": CODE})
    wrong = report(
        responses=[response("F7", "confirm"), response("F1", "confirm", evidence=[INVENTED])]
    )
    misses = scores(score=0, missing=["who calls it"])
    lines = script(lead=[plan(*TEAM), plan("security"), sums()], judge=[misses, scores()])
    lines["qa"][-1] = report(findings=[claim(severity="critical")])
    lines["security"] += [wrong, wrong]
    model = ScriptedModel(lines)
    verdict = await review(repo, model, adjust=judged)
    model.finish()
    asked = ["'duplicate_of'" in str(r.output_schema) for r in model.requests]
    assert not asked[0], "there is no finding yet to respond to"
    assert asked[[r.agent for r in model.requests].index("judge") + 1]
    sent = [
        block.text
        for request in model.requests
        for block in request.messages[-1].blocks
        if isinstance(block, Text) and "Parts of that report are wrong" in block.text
    ]
    assert len(sent) == 1
    assert "response 1: confirm of F7: there is no finding 'F7'" in sent[0]
    (again,) = [one for one in verdict.agents if (one.agent, one.iteration) == ("security", 2)]
    assert again.notes == (
        "confirm of F7: there is no finding 'F7'",
        "confirm of F1: its quote is not in file app.py",
    )
    assert (verdict.verdict, verdict.findings[0].support) == ("needs_changes", "claimed")


async def test_only_those_concerned_run_and_escalate(tmp_path: Path) -> None:
    """The verifier refutes one agent's finding, the judge scores low: the others do nothing."""
    repo = change(tmp_path, {}, {"app.py": f"{CODE}import os\n"})

    stops = {"file": "app.py", "quote": "EMPTY = not NAME"}
    refuted = {"finding": "F1", "verdict": "refuted", "reason": "No.", "quotes": [stops]}
    verifies = text_reply(json.dumps({"verdicts": [refuted]}))

    def refines(request: Request) -> Response:
        asked = facts(request)["asked_of_you"]
        assert asked == ["verifier refutes F1: No. Refine F1, with evidence, or withdraw it."]
        told = {one["id"]: "detail" in one for one in facts(request)["findings"]}
        assert told == {"F1": True, "F2": False}  # the opening has the analyzer's
        return report(responses=[response("F1", "withdraw")])

    def plans(request: Request) -> Response:
        assert facts(request)["missing"] == {"qa": ["app.py"]}
        return plan("qa")

    lines = script(
        lead=[plan(*TEAM, summary="A constant."), plans, sums()],
        judge=[scores(score=0), scores()],
        verifier=[verifies],
    )
    lines["qa"] = [*lines["qa"][:-1], report(findings=[claim()]), refines]
    model = ScriptedModel(lines)
    verdict = await review(repo, model, adjust=judged, choose_model=CHOOSE, verifier=True)
    model.finish()
    assert [one.cause for one in verdict.rejected] == ["withdrawn"]
    assert [step.agent for step in verdict.escalations] == ["qa"]


async def test_titles_details_documentation_and_numbers_have_limits(tmp_path: Path) -> None:
    many = "".join(f"V{number} = {number}\n" for number in range(32))
    claims = [
        claim(start_line=n + 1, end_line=n + 1, quote=f"V{n} = {n}", title=f"Value number {n} " * 9,
              detail="x" * 5000, confidence=0.5 + n / 100)
        for n in range(30)
    ]  # fmt: skip
    docs = [
        claim(
            start_line=31,
            end_line=31,
            quote="V30 = 30",
            title="Says what is not so",
            severity="critical",
        ),
        claim(
            start_line=32, end_line=32, quote="V31 = 31", title="Typo in a comment", severity="high"
        ),
    ]
    team = works({"qa": {"findings": claims}, "docs": {"findings": docs}})
    async with workspace_of(change(tmp_path, {}, {"app.py": many})) as workspace:
        found = await build_findings(workspace, [], team, lambda tool: (), POLICY)
        references = References(most=most_findings([20_000, 60_000]))
        larger = await build_findings(workspace, [], team, lambda tool: (), POLICY, references)
    assert larger.notes[1, "qa"] == ("10 findings beyond its 20 most severe are shown as info",)
    by_docs = {one.title: one.severity for one in found.findings if one.reported_by == ("docs",)}
    assert by_docs == {"Says what is not so": "medium", "Typo in a comment": "info"}
    by_qa = [one for one in found.findings if one.reported_by == ("qa",)]
    assert len(by_qa) == 30
    assert [one.start_line for one in by_qa if one.severity == "high"] == list(range(30, 20, -1))
    assert all(len(one.title) <= 160 and len(one.detail) <= 2000 for one in by_qa)
    assert by_qa[0].detail.endswith("x... [cut: 5000 characters]")
    assert {one.title.partition("...")[0].split()[-1] for one in by_qa} <= {
        "Value", "number", *map(str, range(30))
    }  # fmt: skip
    assert [one.lowered_from for one in by_qa] == [None] * 10 + ["high"] * 20
    assert found.notes[1, "qa"] == ("20 findings beyond its 10 most severe are shown as info",)


async def test_a_withdrawn_finding_does_not_count_for_the_limit(tmp_path: Path) -> None:
    code = "".join(f"V{number} = {number}\n" for number in range(12))
    claims = [
        claim(start_line=n + 1, end_line=n + 1, quote=f"V{n} = {n}", title=f"Value {n} is wrong",
              severity="high", confidence=0.9 - n / 100)
        for n in range(12)
    ]  # fmt: skip
    taken_back = [response(name_of(one), "withdraw") for one in claims[:2]]
    team = works({"qa": {"findings": claims, "responses": taken_back}})
    async with workspace_of(change(tmp_path, {}, {"app.py": code})) as workspace:
        found = await build_findings(workspace, [], team, lambda tool: (), POLICY)
    assert [one.severity for one in found.findings] == ["high"] * 10


async def test_two_hundred_findings_at_once_lose_nothing(tmp_path: Path) -> None:
    """Half of them quote what is not there: they are rejected by name, the others count."""
    code = "".join(f"V{number} = {number}\n" for number in range(200))
    claims = [
        claim(start_line=n + 1, end_line=n + 1, quote=f"V{n} = {n}" if n % 2 else "not there at all",
              title=f"Value {n} is wrong")
        for n in range(200)
    ]  # fmt: skip
    lines = script()
    lines["qa"] = [*lines["qa"][:-1], *[report(findings=claims)] * 2]
    model = ScriptedModel(lines)
    verdict = await review(change(tmp_path, {}, {"app.py": code}), model)
    model.finish()
    found = [one for one in verdict.findings if one.reported_by == ("qa",)]
    assert (len(found), len(verdict.rejected)) == (100, 100)
    assert sum(one.severity == "high" for one in found) == 10
    (qa,) = [one for one in verdict.agents if one.agent == "qa"]
    assert qa.notes == ("90 findings beyond its 10 most severe are shown as info",)
