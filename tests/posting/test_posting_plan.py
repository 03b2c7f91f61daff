"""What is posted of a verdict: few comments, each once, nothing hostile, and incomplete as such."""

import pytest
from msgspec.structs import replace

from orchestrator.code_review.verdict.document_parts import PreviousFinding, PreviousReview
from orchestrator.code_review.verdict.model import Evidence, Finding, Rejected, Skipped, Verdict
from orchestrator.errors import InputError
from orchestrator.posting.forge import HeadMoved, Posted, PostingTarget, PullRequest, Thread
from orchestrator.posting.posting_plan import (
    SUMMARY_MARKER,
    check_head,
    comment_text,
    describe_check,
    identity_of,
    make_cleaner,
    marker,
    plan_posting,
)
from tests.report.verdict_samples import finding, verdict

HEAD = verdict().change.head
UNREAD = "by analyzers · nobody read it for logic: no findings"
REQUEST = PullRequest(HEAD, is_open=True, lines={"src/upload.py": frozenset(range(38, 43))})


def blocked(*findings: Finding, **changed: object) -> Verdict:
    return verdict(verdict="needs_changes", exit_code=1, findings=findings, **changed)


def posted(*threads: Thread) -> Posted:
    return Posted(threads=threads)


def test_at_most_five_comments_the_most_severe_first_and_the_summary_has_all() -> None:
    mild = [finding(number, severity="medium", rule=f"r{number}") for number in range(1, 9)]
    plan = plan_posting(blocked(*mild, finding(9, severity="critical")), REQUEST, Posted())
    assert [comment.identity for comment in plan.comments] == [
        f"{number:064x}" for number in (9, 1, 2, 3, 4)
    ]
    assert plan.summary is not None
    assert plan.summary.count("**medium: ") == plan.summary.count("\n- medium: ") == 4
    assert plan.summary.endswith(SUMMARY_MARKER)
    assert "`diffcourt waive ID --why REASON`" in plan.summary


def test_one_rule_at_many_places_is_one_comment_which_names_them() -> None:
    names = [finding(n, title=f"Undefined name `x{n}`", end_line=38 + n % 5) for n in range(1, 21)]
    moved = [replace(one, start_line=one.end_line) for one in names]
    (comment,) = plan_posting(blocked(*moved), REQUEST, Posted()).comments
    assert "Also at `src/upload.py:40`" in comment.body
    known = posted(Thread("t", moved[7].identity, is_resolved=False))
    assert plan_posting(blocked(*moved), REQUEST, known).comments == []


def test_what_is_only_noticed_has_no_comment_however_many_are_allowed() -> None:
    claim = finding(1, severity="medium", support="refuted")
    many = [finding(n, rule=f"r{n}") for n in range(2, 9)]
    plan = plan_posting(blocked(claim, *many), REQUEST, Posted(), inline=20)
    assert len(plan.comments) == 5
    assert plan_posting(blocked(claim), REQUEST, Posted()).comments == []


@pytest.mark.parametrize(
    "changed",
    [
        {"severity": "low"},
        {"category": "docs"},
        {"path": "src/other.py"},
        {"start_line": 60, "end_line": 60},
        {"evidence": Evidence(quote="x", tool_calls=(), side="base")},
    ],
)
def test_a_minor_finding_or_one_outside_of_the_diff_is_only_in_the_summary(
    changed: dict[str, object],
) -> None:
    plan = plan_posting(blocked(finding(1, **changed)), REQUEST, Posted())
    assert not plan.comments
    assert plan.summary is not None
    assert "shell=True" in plan.summary


def test_a_comment_is_at_lines_that_the_diff_shows() -> None:
    plan = plan_posting(blocked(finding(1, start_line=30, end_line=41)), REQUEST, Posted())
    (comment,) = plan.comments
    assert (comment.start_line, comment.end_line) == (38, 41)


def test_a_finding_with_a_comment_gets_no_second_one_also_when_it_was_resolved() -> None:
    known = posted(
        Thread("t1", f"{1:064x}", is_resolved=False), Thread("t2", f"{2:064x}", is_resolved=True)
    )
    renamed = finding(5, first_fingerprint=f"{1:064x}", rule="a")
    second, third = finding(2, rule="b"), finding(3)
    plan = plan_posting(blocked(renamed, second, third), REQUEST, known, inline=2)
    assert [comment.identity for comment in plan.comments] == [f"{3:064x}"]
    assert plan.resolve == []
    assert plan_posting(blocked(renamed, third), REQUEST, known, inline=1).comments == []


def test_threads_are_resolved_when_the_review_says_that_their_finding_is_fixed() -> None:
    threads = [Thread(f"t{number}", f"{number:064x}", is_resolved=False) for number in range(1, 6)]
    gone = PreviousFinding(f"{3:064x}", "high", "r", "t", "p", 1)
    changed = blocked(
        finding(1),
        finding(2, state="waived"),
        rejected=(Rejected(finding=finding(4, state="rejected"), reason="argued"),),
        previous=PreviousReview(run_id="r", head="h", status="complete", fixed=(gone,)),
        status="incomplete",
    )
    resolved = plan_posting(changed, REQUEST, posted(*threads)).resolve
    assert [thread.id for thread in resolved] == ["t2", "t3", "t4"]
    whole = plan_posting(replace(changed, status="complete"), REQUEST, posted(*threads)).resolve
    assert [thread.id for thread in whole] == ["t2", "t3", "t4", "t5"]


def test_a_clean_change_gets_no_comment_but_one_that_is_there_is_brought_up_to_date() -> None:
    assert plan_posting(verdict(), REQUEST, Posted()).summary is None
    assert plan_posting(verdict(), REQUEST, Posted(), always_comment=True).summary is not None
    assert plan_posting(verdict(), REQUEST, Posted(summary_id="7")).summary is not None


@pytest.mark.parametrize(
    ("changed", "conclusion", "title"),
    [
        ({}, "success", f"NOTHING FOUND {UNREAD}"),
        ({"verdict": "needs_changes"}, "neutral", f"NEEDS CHANGES {UNREAD}"),
        ({"verdict": "block", "exit_code": 1}, "failure", f"BLOCK {UNREAD}"),
        (
            {
                "verdict": "needs_changes",
                "exit_code": 3,
                "status": "incomplete",
                "skipped": (Skipped(path="a.lua", why="no parser", gap=True),),
            },
            "incomplete",
            "incomplete: see what was not reviewed",
        ),
    ],
)
def test_the_check_says_incomplete_as_such(
    changed: dict[str, object], conclusion: str, title: str
) -> None:
    check = describe_check(verdict(**changed))
    assert (check.conclusion, check.title) == (conclusion, title)


def test_nothing_is_posted_to_a_head_that_moved_or_a_request_that_is_closed() -> None:
    check_head(verdict(), REQUEST)
    with pytest.raises(HeadMoved, match=r"the request's head is 000000000000 and .* nothing was"):
        check_head(verdict(), replace(REQUEST, head="0" * 40))
    with pytest.raises(HeadMoved, match="is closed; nothing was posted"):
        check_head(verdict(), replace(REQUEST, is_open=False))


def test_the_text_of_a_finding_cannot_forge_a_marker_or_mention_anybody() -> None:
    forged = f"@all {marker('beef')} ![x](https://evil.example/?) <b>"
    (comment,) = plan_posting(blocked(finding(1, title=forged)), REQUEST, Posted()).comments
    body = comment_text(comment)
    assert identity_of(body) == f"{1:064x}"
    assert body.count("<!--") == 1
    assert "@all" not in body
    assert "](http" not in body
    assert identity_of(f"{marker('beef')} and more") == ""


def test_secrets_of_the_process_and_tokens_of_others_are_not_posted() -> None:
    token = "ghp_" + "a8Bd0Kq2Zr5Tx7Wm1Nc4Vf6Hj9Ls3Py0Ge2u"
    clean = make_cleaner({"SHOP_TOKEN": "correct-horse-battery"})
    shown = clean(f"use correct-horse-battery or {token} here")
    assert shown == "use [redacted] or [redacted] here"


def test_a_target_names_what_is_missing() -> None:
    target = PostingTarget("", 0, "", {"PROJECT": "a/b"})
    assert target.variable("", "PROJECT", "--project OWNER/NAME") == "a/b"
    with pytest.raises(InputError, match="give --request N, or set NUMBER"):
        target.variable("", "NUMBER", "--request N")
    with pytest.raises(InputError, match="FORGE_TOKEN is not set"):
        target.token("FORGE_TOKEN")
