"""On lines that a complete review has passed, agents raise nothing below high again."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.code_review.verdict.document_parts import HunkReaders
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.report.verdict_text import render_verdict
from tests.review.push_kit import Branch, claims, open_titles, said

CODE = '''"""Averages."""

LIMIT = 10


def mean(items):
    """The mean of some numbers."""
    return sum(items) / len(items)
'''
NEW = f"{CODE}\n\nTOTAL = 3\n"
OLD_LINE = claims("LIMIT = 10", "A limit that nobody reads", 3)
NEW_LINE = claims("TOTAL = 3", "A total of nothing", 11)


@pytest.fixture
async def branch(tmp_path: Path) -> Branch:
    """A branch whose first push a generalist passed."""
    return await Branch.pushed(tmp_path, {"base.py": "X = 1\n"}, {"app.py": CODE})


def settled(verdict: Verdict) -> list[str]:
    return [one.finding.title for one in verdict.rejected if one.cause == "settled"]


async def test_a_nitpick_on_an_old_line_is_settled_by_name_and_one_on_a_new_line_is_open(
    branch: Branch,
) -> None:
    first = branch.verdict
    assert first is not None
    verdict = await branch.push({"app.py": NEW}, said(OLD_LINE, NEW_LINE))
    assert open_titles(verdict) == ["A total of nothing"]
    assert settled(verdict) == ["A limit that nobody reads"]
    (entry,) = verdict.rejected
    assert (entry.finding.state, entry.finding.severity) == ("rejected", "medium")
    assert f"the complete review of {first.change.head[:12]} passed these lines" in entry.reason
    assert verdict.counts.medium == 1
    shown = render_verdict(verdict)
    assert "A limit that nobody reads" in shown
    assert ": 1 new, 1 settled\n" in shown
    assert verdict.previous is not None
    assert (verdict.previous.settles_nothing, verdict.previous.passed) != ("", None)
    assert verdict.previous.passed is not None
    assert verdict.previous.passed.read == ("app.py",)


async def test_severe_findings_are_never_settled(branch: Branch) -> None:
    lines = dict(zip(("critical", "high", "medium", "low", "info"), (1, 3, 6, 7, 8), strict=True))
    found = [
        claims(CODE.splitlines()[line - 1].strip(), f"A {severity} one", line, severity=severity)
        for severity, line in lines.items()
    ]
    verdict = await branch.push({"app.py": NEW}, said(*found))
    assert sorted(open_titles(verdict)) == ["A critical one", "A high one"]
    assert sorted(settled(verdict)) == ["A info one", "A low one", "A medium one"]


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        (f"# Moved down.\n{CODE}", False),
        (CODE.replace("LIMIT = 10", "LIMIT = 11"), True),
        (CODE.replace("LIMIT = 10", "LIMIT  =  10"), True),
        (CODE.replace("sum(items)", "sum(items[:LIMIT])"), False),
    ],
)
async def test_a_line_is_settled_while_its_text_stays_wherever_it_moves(
    branch: Branch, text: str, is_open: bool
) -> None:
    line = next(one for one in text.splitlines() if one.startswith("LIMIT"))
    number = text.splitlines().index(line) + 1
    verdict = await branch.push(
        {"app.py": text}, said(claims(line, "A limit that nobody reads", number))
    )
    assert bool(open_titles(verdict)) is is_open


async def test_a_file_that_was_renamed_stays_settled(branch: Branch) -> None:
    branch.repo.git("mv", "app.py", "apps.py")
    verdict = await branch.push({}, said({**OLD_LINE, "path": "apps.py"}))
    assert (open_titles(verdict), settled(verdict)) == ([], ["A limit that nobody reads"])


async def test_a_line_outside_the_change_is_settled_with_the_line_that_causes_its_defect(
    tmp_path: Path,
) -> None:
    caller = "import lib\n\n\ndef go():\n    return lib.rate(1)\n"
    branch = Branch(tmp_path, {"app.py": caller, "lib.py": "def rate(x):\n    return x\n"})
    cause = {"path": "lib.py", "line": 1, "removed": False}
    broken = claims("return lib.rate(1)", "Misses an argument", 5, because_of=cause)
    two = "def rate(x, y):\n    return x + y\n"
    await branch.push({"lib.py": two})
    verdict = await branch.push({"new.py": "Y = 1\n"}, said(broken))
    assert (open_titles(verdict), settled(verdict)) == ([], ["Misses an argument"])
    verdict = await branch.push({"lib.py": two.replace("x, y", "x, z")}, said(broken))
    assert (open_titles(verdict), settled(verdict)) == (["Misses an argument"], [])


async def test_a_named_cause_opens_no_settled_line_of_the_change(branch: Branch) -> None:
    cause = {"path": "app.py", "line": 11, "removed": False}
    verdict = await branch.push({"app.py": NEW}, said({**OLD_LINE, "because_of": cause}))
    assert (open_titles(verdict), settled(verdict)) == ([], ["A limit that nobody reads"])


async def test_a_removed_line_is_settled_until_its_file_changes(tmp_path: Path) -> None:
    guarded = "def go(x):\n    assert x\n    return 1 / x\n\n\nX = 1\n"
    branch = Branch(tmp_path, {"app.py": guarded})
    gone = claims("    assert x", "Takes a guard away", 2)
    bare = guarded.replace("    assert x\n", "")
    await branch.push({"app.py": bare})
    verdict = await branch.push({"new.py": "Y = 1\n"}, said(gone))
    assert (open_titles(verdict), settled(verdict)) == ([], ["Takes a guard away"])
    verdict = await branch.push({"app.py": bare.replace("X = 1", "X = 2")}, said(gone))
    assert open_titles(verdict) == ["Takes a guard away"]


async def test_findings_of_analyzers_are_never_settled_and_agents_cannot_raise_them_later(
    tmp_path: Path,
) -> None:
    shell = "import os\nimport subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"
    branch = Branch(tmp_path, {})
    first = await branch.push({"app.py": shell})
    (proved,) = [one for one in first.findings if one.rule == "security.subprocess-shell"]
    assert proved.severity == "medium"
    (lesser,) = [one for one in first.findings if one.rule == "qa.unused-import"]
    assert lesser.severity == "low"
    worse = {
        "finding": lesser.fingerprint, "action": "refine", "reason": "So.", "evidence": [],
        "severity": "medium", "confidence": 1.0,
    }  # fmt: skip
    again = claims("subprocess.run(x, shell=True)", "Runs a shell", 6, rule=proved.rule)
    verdict = await branch.push({"app.py": f"{shell}X = 1\n"}, said(again, responses=[worse]))
    now = {one.fingerprint: one for one in verdict.findings}
    assert (now[proved.fingerprint].state, settled(verdict)) == ("open", [])
    assert now[lesser.fingerprint].severity == lesser.severity
    assert now[proved.fingerprint].severity == "medium"


async def test_a_repetition_makes_an_open_finding_no_worse(branch: Branch) -> None:
    await branch.push({"app.py": NEW}, said({**NEW_LINE, "severity": "low"}))
    verdict = await branch.push({"app.py": f"{NEW}X = 1\n"}, said(NEW_LINE))
    (one,) = [one for one in verdict.findings if one.carried_over]
    assert (one.severity, one.reported_by, settled(verdict)) == ("low", ("generalist",), [])
    (agent,) = verdict.agents
    assert agent.findings == (one.id,)
    worse = {
        "finding": one.fingerprint, "action": "refine", "reason": "So.", "evidence": [],
        "severity": "medium", "confidence": 1.0,
    }  # fmt: skip
    verdict = await branch.push({"app.py": f"{NEW}X = 2\n"}, said(responses=[worse]))
    (one,) = [one for one in verdict.findings if one.carried_over]
    assert (one.severity, one.confidence, verdict.verdict) == ("low", 0.8, "merge")


async def test_settled_findings_do_not_count_against_the_limit_of_new_ones(branch: Branch) -> None:
    nits = [
        {**OLD_LINE, "title": f"Nitpick {n} of the limit", "confidence": 1.0} for n in range(12)
    ]
    verdict = await branch.push({"app.py": NEW}, said(*nits, NEW_LINE))
    (one,) = [one for one in verdict.findings if one.title == "A total of nothing"]
    assert one.severity == "medium"


async def test_an_incomplete_review_settles_nothing_but_the_complete_one_before_it_does(
    branch: Branch,
) -> None:
    second = await branch.push({"app.py": NEW, "blob.py": "def broken(:\n"})
    assert second.status == "incomplete"
    verdict = await branch.push({"blob.py": None}, said(OLD_LINE, NEW_LINE))
    assert open_titles(verdict) == ["A total of nothing"]
    assert settled(verdict) == ["A limit that nobody reads"]


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ("status", "no complete review in which agents read files"),
        ("policy", "it had other agents, rules or configuration"),
        ("head", "its head is not in this clone"),
        ("base", "its head is not in this clone"),
        ("worktree", "its head is no commit"),
        ("unread", "no complete review in which agents read files"),
        ("hunks", "no complete review in which agents read files"),
    ],
)
async def test_a_review_of_something_else_settles_nothing_and_says_why(
    branch: Branch, part: str, why: str
) -> None:
    first = branch.verdict
    assert first is not None
    missing = "0123456789abcdef0123456789abcdef01234567"
    hunk = HunkReaders(first=1, last=2, side="head", read_by=())
    digests = {**first.provenance.digests, "agents/qa.md": "0"}
    branch.verdict = {
        "status": replace(first, status="incomplete"),
        "policy": replace(first, provenance=replace(first.provenance, digests=digests)),
        "head": replace(first, change=replace(first.change, head=missing)),
        "base": replace(first, change=replace(first.change, base=missing)),
        "worktree": replace(first, change=replace(first.change, head="worktree")),
        "unread": replace(first, checked=tuple(replace(one, read_by=()) for one in first.checked)),
        "hunks": replace(
            first, checked=tuple(replace(one, hunks=(hunk,)) for one in first.checked)
        ),
    }[part]
    verdict = await branch.push({"app.py": NEW}, said(OLD_LINE))
    assert open_titles(verdict) == ["A limit that nobody reads"]
    assert verdict.previous is not None
    assert verdict.previous.settles_nothing == why


async def test_another_base_settles_nothing_unless_its_content_is_the_same(branch: Branch) -> None:
    repo = branch.repo
    repo.git("checkout", "-q", "main")
    repo.commit({})
    repo.git("checkout", "-q", "feature")
    repo.git("rebase", "-q", "main")
    verdict = await branch.push({"app.py": NEW}, said(OLD_LINE))
    assert settled(verdict) == ["A limit that nobody reads"]
    repo.git("checkout", "-q", "main")
    repo.commit({"base.py": "X = 2\n"})
    repo.git("checkout", "-q", "feature")
    repo.git("rebase", "-q", "main")
    verdict = await branch.push({"app.py": f"{NEW}Y = 1\n"}, said(OLD_LINE))
    assert open_titles(verdict) == ["A limit that nobody reads"]
    assert verdict.previous is not None
    assert verdict.previous.settles_nothing == "it began at another base"


async def test_a_review_of_the_same_head_again_settles_what_the_first_found_settled(
    branch: Branch,
) -> None:
    await branch.push({"app.py": NEW})
    verdict = await branch.look(said(OLD_LINE, NEW_LINE))
    assert verdict.previous is None
    assert open_titles(verdict) == ["A total of nothing"]
    assert settled(verdict) == ["A limit that nobody reads"]


async def test_an_agent_that_takes_up_a_settled_finding_is_told_so(branch: Branch) -> None:
    confirm = {
        "finding": "F9", "action": "confirm", "reason": "So.",
        "evidence": [{"source": "file", "name": "app.py", "quote": "LIMIT = 10"}],
    }  # fmt: skip
    bad = said(OLD_LINE, responses=[confirm])
    verdict = await branch.push({"app.py": NEW}, bad, bad)
    assert settled(verdict) == ["A limit that nobody reads"]
    assert open_titles(verdict) == []
