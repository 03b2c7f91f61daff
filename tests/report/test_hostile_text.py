"""Whatever a change, a tool or a model wrote: a report is lines that print, and orders nobody."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.code_review.verdict.model import Evidence, Rejected, Skipped
from orchestrator.report.formats.markdown import plain
from orchestrator.report.terminal_escaping import emit, escape_line
from orchestrator.report.verdict_text import render_verdict
from tests.report.test_runner_orders import obeyed
from tests.report.verdict_samples import finding, verdict

pytestmark = pytest.mark.attack("text of a change that acts in a page, comment or terminal")

PIECES = [
    "::", "##", "[", "##vso[", "##TeamCity[", "#", "\n", "\r\n", "\r", "\x0b", "\x1b[2J", "\x1b]8;;",
    "\x85", "\u2028", "\u202e", "\u200b", "\u3000", "\udc9b", "\udc80", "\t", " ", "a", "é", "\0", "🙂", "漢字",
]  # fmt: skip
hostile = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def test_blanks_stay_in_code_and_are_one_in_prose() -> None:
    text = "  It  is\n `CHECK  (x > 0)`,  ``a  `b``,  not `x  y"
    assert escape_line(text) == "It is `CHECK  (x > 0)`, ``a  `b``, not `x y"
    assert plain("`a   b`  c") == "&#96;a&#160;&#160; b&#96; c"


@given(st.tuples(*[hostile] * 8), st.integers(40, 100))
def test_a_report_contains_no_commands_for_ci(texts: tuple[str, ...], width: int) -> None:
    path, title, detail, quote, fix, reason, summary, name = texts
    said = finding(
        path=path,
        title=title,
        detail=detail,
        rule=name,
        fix_suggestion=fix,
        reported_by=(name,),
        evidence=Evidence(quote=quote, tool_calls=()),
    )
    document = verdict(
        findings=(said,),
        rejected=(Rejected(finding=said, reason=reason, cause="unverified"),),
        skipped=(Skipped(path=path, tool=name, why=reason, gap=True),),
        lead_summary=summary,
        run_id=name,
    )
    stream = io.StringIO()
    emit(render_verdict(document, width=width), stream)
    printed = stream.getvalue()
    assert all(line.isprintable() for line in printed.split("\n"))
    assert obeyed(printed) == []
    assert printed.encode("utf-8")
