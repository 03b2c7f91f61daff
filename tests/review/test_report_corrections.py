"""What a specialist's report gets wrong goes back to it once; what it got right stays."""

import json
from functools import partial
from pathlib import Path

from orchestrator.engine.types import Message, Response, Text
from orchestrator.report.formats import FormatInputs, render_format
from tests.review.review_kit import bounded, change, review
from tests.review.team_kit import judged, looks, plan, script, sums
from tests.scripted_model import ScriptedModel, text_reply

CODE = "def rate(items):\n    total = 0\n    return total / len(items)\n"


def finding(title: str, quote: str, line: int = 3, **more: object) -> dict[str, object]:
    return {
        "path": "app.py", "start_line": line, "end_line": line, "quote": quote, "title": title,
        "severity": "medium", "confidence": 0.9, **more,
    }  # fmt: skip


def reports(
    *findings: dict[str, object], responses: list[object] | None = None, gap: str = ""
) -> Response:
    said = {"summary": "s", "findings": findings, "responses": responses or [], "checked": []}
    gaps = [{"why": gap, "path": "", "tool": ""}] if gap else []
    return text_reply(json.dumps({**said, "gaps": gaps}))


def text_of(response: Response | Message) -> str:
    return "".join(block.text for block in response.blocks if isinstance(block, Text))


RIGHT = finding("Division by zero", "return total / len(items)")
WRONG = finding("Never adds", "total = total + 0", 2)
CORRECTED = finding("Never adds", "total = 0", 2)


async def test_errors_go_back_together_with_the_lines_as_they_stand(tmp_path: Path) -> None:
    nothing = {"finding": "F7", "action": "dispute", "reason": "no", "evidence": [{
        "source": "file", "name": "app.py", "quote": "total = 0"}]}  # fmt: skip
    lines = script(docs=[reports(RIGHT, WRONG, responses=[nothing]), reports(RIGHT, CORRECTED)])
    model = ScriptedModel(lines)
    verdict = await review(change(tmp_path, {}, {"app.py": CODE}), model)
    model.finish()
    assert {"Division by zero", "Never adds"} <= {one.title for one in verdict.findings}
    assert verdict.rejected == ()
    (sent,) = [
        block.text
        for request in model.requests
        for block in request.messages[-1].blocks
        if isinstance(block, Text) and "Parts of that report are wrong" in block.text
    ]
    assert "finding 2 (Never adds): its quote is not in app.py; app.py reads" in sent
    assert "2:     total = 0\n3:     return total / len(items)" in sent
    assert "response 1: dispute of F7: there is no finding 'F7'" in sent
    assert "finding 1" not in sent


async def test_of_very_many_errors_the_rest_is_counted(tmp_path: Path) -> None:
    many = [finding(f"Wrong {number}", "total = total + 0", 2) for number in range(25)]
    model = ScriptedModel(script(docs=[reports(*many), reports()]))
    await review(change(tmp_path, {}, {"app.py": CODE}), model)
    sent = [text_of(request.messages[-1]) for request in model.requests]
    (sent_back,) = [text for text in sent if "Parts of that report are wrong" in text]
    assert sent_back.count("- finding ") == 20
    assert "- and 5 more that are not listed" in sent_back


async def test_valid_findings_stay_when_the_second_report_omits_them(tmp_path: Path) -> None:
    lines = script(docs=[reports(RIGHT, WRONG, gap="There are no tests"), reports(CORRECTED)])
    verdict = await review(change(tmp_path, {}, {"app.py": CODE}), ScriptedModel(lines))
    assert {"Division by zero", "Never adds"} <= {one.title for one in verdict.findings}
    assert ("docs", ("There are no tests",)) in {(one.agent, one.gaps) for one in verdict.agents}


async def test_a_corrected_report_keeps_the_summary_and_the_files_of_the_first(
    tmp_path: Path,
) -> None:
    first, second = reports(RIGHT, WRONG), reports(CORRECTED)
    first = text_reply(json.dumps(json.loads(text_of(first)) | {"checked": ["app.py"]}))
    second = text_reply(json.dumps(json.loads(text_of(second)) | {"summary": "Corrected."}))
    model = ScriptedModel(script(docs=[first, second]))
    verdict = await review(change(tmp_path, {}, {"app.py": CODE}), model)
    (docs,) = [agent for agent in verdict.agents if agent.agent == "docs"]
    assert docs.summary == "s"


async def test_a_duplicate_of_two_analyzers_findings_costs_no_second_report(tmp_path: Path) -> None:
    code = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n    eval(x)\n"
    offline = await review(change(tmp_path / "a", {}, {"app.py": code}))
    one, other = (found.fingerprint for found in offline.findings[:2])
    said = {"finding": one, "action": "duplicate", "reason": "same", "duplicate_of": other}
    looked = looks("secrets", "invisible_characters", "ruff_security", "taint")
    model = ScriptedModel(script(security=[looked, reports(responses=[said])]))
    verdict = await review(change(tmp_path / "b", {}, {"app.py": code}), model)
    assert {one, other} <= {found.fingerprint for found in verdict.findings}
    sent = [text_of(request.messages[-1]) for request in model.requests]
    assert not [text for text in sent if "Parts of that report are wrong" in text]


async def test_a_finding_that_is_left_out_when_it_is_sent_back_is_noted(tmp_path: Path) -> None:
    lines = script(docs=[reports(RIGHT, WRONG), reports(RIGHT)])
    model = ScriptedModel(lines)
    verdict = await review(change(tmp_path, {}, {"app.py": CODE}), model)
    model.finish()
    assert verdict.rejected == ()
    (docs,) = [one for one in verdict.agents if one.agent == "docs"]
    assert docs.notes == (
        "left out when sent back: medium: Never adds: its quote is not in app.py",
    )


async def test_what_was_ruled_out_nowhere_is_sent_back_once_and_then_dropped(
    tmp_path: Path,
) -> None:
    def ruled_out(*entries: tuple[str, str]) -> Response:
        listed = [{"path": path, "question": asked, "why": "It cannot."} for path, asked in entries]
        return text_reply(json.dumps(json.loads(text_of(reports(RIGHT))) | {"ruled_out": listed}))

    first = ruled_out(
        ("a/app.py", "Overflow?"), ("app.py:2", "overflow? "), ("lib", "Who calls it?"),
        ("gone.py", "Is it cached?"), ("old.py", "Is it reused?"),
    )  # fmt: skip
    second = ruled_out(
        ("lib/", "Who calls it?"), ("gone.py", "Is it cached?"), ("", "Is it reused?")
    )
    model = ScriptedModel(script(docs=[first, second]))
    repo = change(tmp_path, {"lib/a.py": "A = 1\n"}, {"app.py": CODE})
    verdict = await review(repo, model)
    model.finish()
    sent = [text_of(request.messages[-1]) for request in model.requests]
    (back,) = [text for text in sent if "Parts of that report are wrong" in text]
    assert "ruled out (Is it cached?): there is no file gone.py" in back
    assert back.count("ruled out") == 2
    (docs,) = [one for one in verdict.agents if one.agent == "docs"]
    assert [(one.path, one.question) for one in docs.ruled_out] == [
        ("lib", "Who calls it?"), ("", "Is it reused?"), ("app.py", "Overflow?"),
    ]  # fmt: skip
    page = render_format("html", verdict, FormatInputs())
    assert '<td data-name="Question">Who calls it?</td>' in page
    assert docs.notes == (
        "left out when sent back: ruled out (Is it cached?): there is no file gone.py",
    )


async def test_a_finding_that_is_wrong_twice_is_rejected_by_name(tmp_path: Path) -> None:
    lines = script(docs=[reports(RIGHT, WRONG), reports(RIGHT, WRONG)])
    verdict = await review(change(tmp_path, {}, {"app.py": CODE}), ScriptedModel(lines))
    assert [one.finding.title for one in verdict.rejected] == ["Never adds"]
    assert "Division by zero" in {one.title for one in verdict.findings}


async def test_a_judge_whose_score_has_no_evidence_is_asked_again(tmp_path: Path) -> None:
    unfounded = {"id": "risk-focus", "why": "w", "evidence": [], "score": 1, "missing": []}
    said = text_reply(json.dumps({"criteria": [unfounded]}))
    lines = {"lead": [plan("qa"), sums()], "qa": [reports(RIGHT)], "judge": [said, said]}
    model = ScriptedModel(lines)
    once = partial(bounded, iterations=1)
    await review(
        change(tmp_path, {}, {"app.py": CODE}), model, adjust=lambda given: judged(once(given))
    )
    model.finish()
    sent = text_of(model.requests[-2].messages[-1])
    assert "- score of risk-focus: it gives no evidence" in sent
