"""The verdict in the formats of other programs, with findings whose text is hostile."""

import json
import re
from html import unescape
from typing import Any
from xml.etree import ElementTree as ET

import hypothesis.strategies as st
import pytest
from hypothesis import assume
from hypothesis import given as over
from markdown_it import MarkdownIt
from msgspec.structs import replace

from diffchecks.check_io import FlowStep
from diffchecks.fixes.patches import write_patch
from orchestrator.code_review.verdict.model import Cause, Evidence, RequiredCheck, Skipped, Verdict
from orchestrator.report.formats import FORMATS, FormatInputs, render_format
from orchestrator.report.verdict_text import render_verdict
from tests.report.verdict_samples import PATCH, finding, fixed, verdict

HOSTILE = "</failure>\n::error::x ![a](http://evil.example) <img src=x> @team #1 `` ``` \x1b[31m"

LF = "\n"


def hostile() -> Verdict:
    """Findings of every kind, with text that would act on whoever shows it unescaped."""
    return verdict(
        verdict="block",
        status="incomplete",
        exit_code=3,
        lead_summary=HOSTILE,
        findings=(
            fixed(
                1,
                patch=PATCH.replace("+    run", f"+    {HOSTILE.replace(LF, ' ')}"),
                severity="critical",
                title=HOSTILE,
                detail=HOSTILE,
                start_column=5,
            ),
            finding(
                2,
                severity="medium",
                path="a\udcff:b,c%\n::error::.py",
                evidence=Evidence(quote=HOSTILE, tool_calls=()),
            ),
            finding(3, evidence=Evidence(quote="check(x)", tool_calls=(), side="base")),
            finding(4, severity="info", because_of=Cause(path="src/other.py", line=7)),
            finding(5, state="waived", waiver=HOSTILE),
        ),
        skipped=(
            Skipped(path="b.lua", why=HOSTILE, tool="lua", gap=True),
            Skipped(path="*", why="the time is over", gap=True),
            Skipped(path="c.bin", why="binary", gap=False),
        ),
        required_checks=(
            RequiredCheck(name="no-secrets", status="ran"),
            RequiredCheck(name="tests", status="not_run", detail=HOSTILE),
        ),
    )


def render(name: str, given: Verdict | None = None) -> str:
    return render_format(name, given or hostile(), FormatInputs())


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_utf8_and_holds_no_control_characters(name: str) -> None:
    text = render(name)
    text.encode()
    if text[0] in "[{":
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", text)
    assert text.endswith("\n")
    assert render(name) == text


@pytest.mark.parametrize("name", ["markdown", "sarif", "junit", "html"])
def test_a_finding_that_came_back_says_who_dismissed_it_and_why_it_is_open(name: str) -> None:
    said = "dana dismissed it, and it is open again"
    assert said in render(name, verdict(findings=(finding(1, waiver=said),)))


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"json", "markdown"}))
def test_only_open_findings_and_gaps_are_reported(name: str) -> None:
    text = render(name)
    assert "src/upload.py" in text
    assert "b.lua" in text
    assert "the time is over" in text
    assert "c.bin" not in text or name == "html"  # folded away


def test_annotations_are_one_command_a_line_and_none_that_the_change_wrote() -> None:
    lines = render("github").splitlines()
    assert [line.split(" ")[0] for line in lines] == [
        *["::error"] * 2,
        *["::warning"] * 3,
        *["::notice"] * 2,
    ]
    assert all(re.fullmatch(r"::\w+ (\w+=[^,:]*)(,\w+=[^,:]*)*::.*", line) for line in lines)
    assert "file=a\\xff%3Ab%2Cc%25\\n%3A%3Aerror%3A%3A.py," in lines[2]
    assert lines[0].startswith("::error file=src/upload.py,line=42,endLine=42,col=5,")
    assert lines[1].startswith("::error file=src/upload.py,title=")


def test_a_step_gets_at_most_ten_annotations_of_a_level_and_is_told_of_the_rest() -> None:
    findings = tuple(finding(number) for number in range(1, 31))
    lines = render("github", verdict(findings=findings)).splitlines()
    assert [line.split(" ")[0] for line in lines] == [*["::error"] * 10, "::notice"]
    assert "20 more than a step can show" in lines[-1]


def test_sarif_names_rules_results_and_gaps() -> None:
    run = json.loads(render("sarif"))["runs"][0]
    results = run["results"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["ruff:S602"]
    assert [result["level"] for result in results] == ["error", "error", "warning", "note", "error"]
    assert [bool(result.get("suppressions")) for result in results] == [*[False] * 4, True]
    assert results[0]["partialFingerprints"]["diffcourt/v1"] == f"{1:064x}"
    places = [result["locations"][0]["physicalLocation"] for result in results]
    assert places[0]["region"] | {"snippet": {}} == {
        "startLine": 42,
        "endLine": 42,
        "startColumn": 5,
        "snippet": {},
    }
    assert places[1]["region"] == {"startLine": 1, "endLine": 1}
    assert places[2]["artifactLocation"]["uri"] == "a%FF%3Ab%2Cc%25%0A%3A%3Aerror%3A%3A.py"
    related = results[3]["relatedLocations"][0]["physicalLocation"]
    assert related["artifactLocation"]["uri"] == "src/other.py"
    invocation = run["invocations"][0]
    assert invocation["executionSuccessful"] is False
    assert len(invocation["toolExecutionNotifications"]) == 2
    assert r"!\[a\](http" in results[0]["message"]["text"]


def test_sarif_has_the_steps_of_a_data_flow_and_what_is_new() -> None:
    steps = (FlowStep("src/a b.py", 3, "input is read"), FlowStep("src/upload.py", 42, "[it] runs"))
    given = verdict(findings=(finding(1, steps=steps, since_previous="reopened"),))
    (result,) = json.loads(render("sarif", given))["runs"][0]["results"]
    (flow,) = result["codeFlows"][0]["threadFlows"]
    shown = [entry["location"] for entry in flow["locations"]]
    assert [one["physicalLocation"]["artifactLocation"]["uri"] for one in shown] == [
        "src/a%20b.py",
        "src/upload.py",
    ]
    assert shown[1]["message"]["text"] == r"\[it\] runs."
    assert result["baselineState"] == "new"


def test_sarif_leaves_out_the_least_severe_and_says_so() -> None:
    findings = (
        *(finding(number, severity="low", detail="x" * 6000) for number in range(2, 2502)),
        finding(1, severity="critical"),
    )
    text = render("sarif", verdict(findings=findings))
    assert len(text) <= 9_000_000
    run = json.loads(text)["runs"][0]
    assert run["results"][0]["properties"]["severity"] == "critical"
    notice = run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]
    assert notice.startswith(f"{2501 - len(run['results']):,} results, the least severe")
    assert len(run["results"]) > 1000


def test_gitlab_gets_a_fingerprint_of_its_own_for_each_entry() -> None:
    entries = json.loads(render("gitlab"))
    assert [entry["severity"] for entry in entries] == [
        "blocker",
        "critical",
        "major",
        "info",
        "major",
        "major",
    ]
    assert len({entry["fingerprint"] for entry in entries}) == len(entries)


def test_rdjson_has_lines_only_where_head_has_them() -> None:
    diagnostics = json.loads(render("rdjson"))["diagnostics"]
    assert ["range" in entry["location"] for entry in diagnostics] == [
        True,
        False,
        True,
        True,
        False,
        False,
    ]
    assert {entry["severity"] for entry in diagnostics} == {"ERROR", "WARNING", "INFO"}
    assert "\nBecause of src/other.py:7." in diagnostics[3]["message"]


def test_junit_counts_failures_errors_and_skips() -> None:
    root = ET.fromstring(render("junit"))
    assert {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "9",
        "failures": "4",
        "errors": "3",
        "skipped": "1",
    }
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.text is not None
    assert "</failure>" in failure.text


def test_checkstyle_groups_by_file() -> None:
    files = ET.fromstring(render("checkstyle")).findall("file")
    assert [file.get("name") for file in files] == [
        "*",
        r"a\xff:b,c%\n::error::.py",
        "b.lua",
        "src/upload.py",
    ]
    assert [len(file) for file in files] == [1, 1, 1, 3]


def test_markdown_shows_text_of_others_as_text() -> None:
    html = MarkdownIt("gfm-like", {"linkify": False}).render(render("markdown"))
    assert not re.search(r"<(img|a|/failure)\b", html)
    assert "@team" not in render("markdown").replace("`` ``` ", "").split("```")[0]
    assert "![a](http://evil.example)" in html
    assert html.count("<pre>") == 4


def test_markdown_counts_the_findings_that_do_not_fit() -> None:
    findings = tuple(
        finding(number, rule=f"r{number}", detail="x " * 500) for number in range(1, 801)
    )
    text = render("markdown", verdict(findings=findings))
    assert len(text) < 60_000
    assert text.count("**high: ") == 5
    assert "<details><summary>Also noticed (795)</summary>" in text
    shown = text.count("\n- high: ")
    assert f"\n- {795 - shown} further findings in the verdict.\n" in text


def test_no_length_of_a_path_or_text_keeps_markdown_from_fitting_or_a_finding_out_of_it() -> None:
    path = "d\udcff/" * 1_000
    skipped = [Skipped(path=f"{path}{n}", why=HOSTILE * 99, gap=True) for n in range(30)]
    checks = [RequiredCheck(f"c{n}", "failed", HOSTILE * 99) for n in range(30)]
    long = finding(1, severity="critical", path=path, title="@" * 9_999, detail="#\n" * 9_999)
    waived = [
        finding(n, state="waived", path=path, title=HOSTILE * 99, waiver="@" * 9_999)
        for n in range(3, 30)
    ]
    given = verdict(
        status="incomplete",
        findings=(long, finding(2, title="A short one"), *waived),
        skipped=(*skipped,),
        required_checks=(*checks,),
        lead_summary="@" * 9_999,
        reasons=("`" * 9_999,),
    )
    text = render("markdown", given)
    assert len(text) < 60_000
    assert "**critical: &#64;" in text
    assert "**high: A short one** `src/upload.py:42`" in text
    assert len(re.findall(r"^- and \d+ more$", text, re.MULTILINE)) == 3


LINES = ["a\n", "b\n", "\n", "é\tc\r\n", "d"]
TEXTS = st.lists(st.sampled_from(LINES[:-1]), min_size=1, max_size=9).flatmap(
    lambda lines: st.sampled_from(["".join(lines), "".join(lines) + LINES[-1]])
)


def replaced(text: str, start: tuple[int, int], end: tuple[int, int], new: str) -> str:
    """The text with what stands between two places, each 1-based line and column, replaced."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    first, last = (starts[line - 1] + column - 1 for line, column in (start, end))
    assert first <= last <= len(text)
    return text[:first] + new + text[last:]


@over(TEXTS, TEXTS)
def test_fixes_of_sarif_and_suggestions_of_rdjson_are_what_was_proven(old: str, new: str) -> None:
    path = "src/upload.py"
    patch = write_patch({path: old.encode()}, {path: new.encode()})
    assume(patch)
    given = verdict(findings=(fixed(1, patch=patch),))
    (result,) = json.loads(render("sarif", given))["runs"][0]["results"]
    if "fixes" in result:
        (change,) = result["fixes"][0]["artifactChanges"]
        text = old
        for part in reversed(change["replacements"]):
            at = part["deletedRegion"]
            start, end = (at["startLine"], at["startColumn"]), (at["endLine"], at["endColumn"])
            text = replaced(text, start, end, part["insertedContent"]["text"])
        assert text == new
    else:  # nothing of the file stays
        assert not set(old.splitlines()) & set(new.splitlines())
    (diagnostic,) = json.loads(render("rdjson", given))["diagnostics"]
    for suggestion in diagnostic.get("suggestions", ()):
        first, last = (suggestion["range"][side]["line"] for side in ("start", "end"))
        width = len(old.split("\n")[last - 1].removesuffix("\r")) + 1
        assert replaced(old, (first, 1), (last, width), suggestion["text"]) == new


@pytest.mark.parametrize(
    "changed",
    [
        {"state": "applies"},
        {"state": "refused"},
        {"patch": "no patch"},
        {"patch": "--- a/src/upload.py\n+++ b/src/upload.py\n@@ -1 +1 @@\n-\ud800\n+b\n"},
    ],
)
@pytest.mark.parametrize("name", ["sarif", "rdjson"])
def test_a_patch_that_is_not_proven_or_is_none_is_no_fix_for_another_program(
    name: str, changed: dict[str, Any]
) -> None:
    text = render(name, verdict(findings=(fixed(1, **changed),)))
    assert "fixes" not in text
    assert "suggestions" not in text


def test_markdown_folds_verified_patches_away_and_no_line_of_one_ends_the_block() -> None:
    given = verdict(
        findings=(
            fixed(1, patch=PATCH.replace("+    run", "+```\n+</details><b>\n+    run")),
            fixed(2, state="applies"),
        )
    )
    text = render("markdown", given)
    html = MarkdownIt("gfm-like", {"linkify": False}).render(text)
    assert html.count("<details>") == html.count("</details>") == 1
    assert "<summary>Patch: verified by ruff_bugs, parse_check</summary>" in unescape(text)
    assert '<code class="language-diff">' in html
    assert "`diffcourt fix verdict.json F1`" in text
    assert "<b>" not in html


@pytest.mark.parametrize("name", ["markdown", "html", "text"])
def test_the_id_of_a_forged_verdict_adds_nothing_to_the_command_that_is_named(name: str) -> None:
    given = verdict(findings=(replace(fixed(1), id="F1;id"),))
    text = unescape(render_verdict(given) if name == "text" else render(name, given))
    command = "diffcourt fix verdict.json" if name == "markdown" else "diffcourt fix"
    assert f"{command} 'F1;id'" in " ".join(text.split())
    assert f"{command} F1" not in text


def test_patches_never_keep_a_finding_out_of_markdown() -> None:
    long = PATCH.replace("+    run", "+" + "x" * 3_000 + "\n+    run")
    same: dict[str, Any] = {"detail": "x " * 500}
    plain = [finding(number, rule=f"r{number}", **same) for number in range(1, 45)]
    given = [fixed(number, patch=long, rule=f"r{number}", **same) for number in range(1, 45)]
    texts = [render("markdown", verdict(findings=(*some,))) for some in (plain, given)]
    assert [text.count("**high: ") for text in texts] == [5, 5]
    assert [text.count("\n- high: ") for text in texts] == [39, 39]
    assert texts[1].count("```diff") == 5
    assert len(texts[1]) < 60_000
