"""What agents found in an earlier push stays open until it is gone or refuted with evidence."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.catalog.settings import ReviewSettings
from orchestrator.code_review.verdict.document_parts import Fix
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.errors import ModelError
from orchestrator.report.formats.html_page.findings import render_findings
from orchestrator.report.formats.markdown import describe_finding
from orchestrator.report.verdict_text import render_verdict
from tests.review.push_kit import TEAM, Branch, claims, disputes, open_titles, said, together
from tests.review.team_kit import plan, report, sums
from tests.scripted_model import ScriptedReply

CODE = '''"""Averages."""

LIMIT = 10


def mean(items):
    """The mean of some numbers."""
    return sum(items) / len(items)
'''
QUOTE = "return sum(items) / len(items)"
PATCH = f"""\
--- a/app.py
+++ b/app.py
@@ -8 +8 @@
-    {QUOTE}
+    {QUOTE} if items else 0
"""
EMPTY = claims(QUOTE, "Divides by zero for an empty list", 8)
LAST = "\n\nTOTAL = 3\n"


@pytest.fixture
async def branch(tmp_path: Path) -> Branch:
    """A branch whose first push has one open finding of an agent."""
    return await Branch.pushed(tmp_path, {"base.py": "X = 1\n"}, {"app.py": CODE}, said(EMPTY))


def only(verdict: Verdict):  # type: ignore[no-untyped-def]
    (one,) = [one for one in verdict.findings if one.title == EMPTY["title"]]
    return one


async def test_a_finding_that_the_model_forgets_stays_open_under_its_name(branch: Branch) -> None:
    assert branch.verdict is not None
    first = only(branch.verdict)
    assert (first.carried_over, branch.verdict.verdict) == (False, "merge")
    known = replace(first, fix=Fix(state="applies", patch=PATCH, source="fixer"))
    branch.verdict = replace(branch.verdict, findings=(known,))
    for _ in range(3):  # no fixer is asked for what is known
        verdict = await branch.push({"app.py": f"# A comment.\n{CODE}{LAST}"}, fixer=True)
        found = only(verdict)
        assert (found.fix.state, found.fix.source) == ("applies", "fixer"), found.fix.reason
        assert verdict.verdict == "merge"  # a claim below high decides nothing
        assert (found.fingerprint, found.carried_over) == (first.fingerprint, True)
        assert (found.start_line, found.since_previous) == (9, "open")
        same = ("severity", "confidence", "title", "detail", "reported_by", "support", "category")
        assert [getattr(found, name) for name in same] == [getattr(first, name) for name in same]
    shown = " ".join(render_verdict(verdict).split())
    assert "carried over from the previous review" in shown
    assert "claimed: the word of generalist alone, carried over" in describe_finding(found)
    assert "carried over from the previous review" in render_findings(verdict, {})


PUSHED = {
    CODE.replace(QUOTE, "return sum(items) / len(items) if items else 0"): False,
    CODE.replace(QUOTE, "return items and sum(items) / len(items)"): False,
    CODE.replace(QUOTE, "return sum(items) / len(items)  # never empty"): True,
    CODE.replace(QUOTE, "return (sum(items) / len(items))"): False,
    CODE.replace("return", "if not items:\n        return 0\n    return"): True,
    CODE.replace("    return", "        return"): True,
    CODE.replace(QUOTE, "return statistics.mean(items)"): False,
    '"""Averages."""\n': False,
    "": False,
}
"""What a file with the finding becomes, and whether that is still open."""


async def with_one_in_each(path: Path, count: int) -> Branch:
    """A branch whose first push has one open finding of an agent in each of so many files."""
    files = {f"app{n}.py": f"{CODE}N{n} = {n}\n" for n in range(count)}
    found = [claims(QUOTE, f"Divides {n} by zero", 8, path=name) for n, name in enumerate(files)]
    return await Branch.pushed(path, {"base.py": "X = 1\n"}, files, said(*found))


async def test_a_finding_ends_when_what_it_quotes_is_gone_or_fixed_and_not_by_a_comment(
    tmp_path: Path,
) -> None:
    branch = await with_one_in_each(tmp_path, len(PUSHED))
    verdict = await branch.push({f"app{n}.py": text for n, text in enumerate(PUSHED)})
    open_ = [f"Divides {n} by zero" for n, is_open in enumerate(PUSHED.values()) if is_open]
    gone = [f"Divides {n} by zero" for n, is_open in enumerate(PUSHED.values()) if not is_open]
    assert sorted(open_titles(verdict)) == open_
    assert sorted(one.title for one in verdict.findings if one.carried_over) == open_
    assert verdict.previous is not None
    assert sorted(one.title for one in verdict.previous.fixed) == gone


async def test_agents_are_told_which_open_findings_have_changed_lines(branch: Branch) -> None:
    mark = "(by generalist; lines changed here since)"
    await branch.push({"app.py": CODE.replace("    return", "    items = [*items]\n    return")})
    assert mark in branch.opening()
    await branch.push({"other.py": "Y = 1\n"})
    assert "(by generalist)" in branch.opening()
    assert mark not in branch.opening()


async def test_a_finding_beyond_an_agent_s_weightiest_counts_once_others_are_gone(
    tmp_path: Path,
) -> None:
    values = {n: f"V{n} = {n}\n" for n in range(13)}
    many = [
        claims(text.strip(), f"Value {n} is wrong", n + 1, confidence=0.9 - n / 100)
        for n, text in values.items()
    ]
    head = {"app.py": "".join(values.values())}
    pushed = await Branch.pushed(tmp_path, {"base.py": "X = 1\n"}, head, said(*many))
    assert pushed.verdict is not None

    def lowered(verdict: Verdict) -> dict[str, tuple[str, str | None]]:
        found = {one.title: (one.severity, one.lowered_from) for one in verdict.findings}
        return {title: both for title, both in found.items() if both != ("medium", None)}

    below = ("info", "medium")
    assert lowered(pushed.verdict) == {f"Value {n} is wrong": below for n in (10, 11, 12)}
    assert "reported as medium, beyond" in " ".join(
        render_verdict(pushed.verdict, detail="full").split()
    )
    (last,) = [one for one in pushed.verdict.findings if one.title == "Value 12 is wrong"]
    assert "reported as medium" in describe_finding(last)
    assert render_findings(pushed.verdict, {}).count("reported as medium") == 3
    del values[0], values[4]
    verdict = await pushed.push({"app.py": "".join(values.values())})
    assert lowered(verdict) == {"Value 12 is wrong": below}


async def test_agents_are_shown_what_is_open_and_told_not_to_repeat_it(branch: Branch) -> None:
    assert "earlier push" not in branch.opening()
    await branch.push({"app.py": CODE + LAST})
    assert branch.verdict is not None
    shown = branch.opening()
    assert "An earlier push of this change was reviewed" in shown
    assert f"- fingerprint {only(branch.verdict).fingerprint}: medium, confidence 0.80" in shown
    assert "Divides by zero for an empty list (by generalist; lines changed here since)\n" in shown


async def test_an_agent_that_confirms_what_it_found_itself_is_not_asked_again(
    branch: Branch,
) -> None:
    assert branch.verdict is not None
    confirm = {**disputes(only(branch.verdict), QUOTE), "action": "confirm"}
    verdict = await branch.push({"app.py": CODE + LAST}, said(responses=[confirm]))
    assert only(verdict).support == "claimed"
    (agent,) = [one for one in verdict.agents if one.agent == "generalist"]
    assert agent.notes[0].endswith("it is your own finding; somebody else must confirm it")


async def test_a_finding_follows_its_file_to_another_name_and_goes_with_it(branch: Branch) -> None:
    branch.repo.git("mv", "app.py", "apps.py")
    verdict = await branch.push({"other.py": "Y = 2\n"})
    assert [(one.path, one.since_previous) for one in verdict.findings if one.carried_over] == [
        ("apps.py", "open")
    ]
    verdict = await branch.push({"apps.py": None})
    assert open_titles(verdict) == []


WORDS: list[dict[str, object]] = [
    {"title": "An empty sequence ends in ZeroDivisionError"},
    {"title": "Crashes", "detail": "len() may be 0", "category": "architecture"},
    {"confidence": 0.95},
    {"title": "No guard", "severity": "low", "quote": "sum(items) / len(items)"},
    {"title": "Crashes", "severity": "high"},
]


async def test_a_finding_reported_again_in_other_words_is_the_same_finding(tmp_path: Path) -> None:
    branch = await with_one_in_each(tmp_path, len(WORDS))
    assert branch.verdict is not None
    first = {one.path: one for one in branch.verdict.findings if one.support != "proven"}
    assert len(first) == len(WORDS)
    changed = CODE.replace('"""The mean', '"""The arithmetic mean')
    again = [
        {**claims(QUOTE, f"Divides {n} by zero", 8, path=f"app{n}.py"), **words}
        for n, words in enumerate(WORDS)
    ]
    head = {f"app{n}.py": f"{changed}N{n} = {n}\n" for n in range(len(WORDS))}
    verdict = await branch.push(head, said(*again))
    found = {one.path: one for one in verdict.findings if one.support != "proven"}
    assert sum(one.support != "proven" for one in verdict.findings) == len(found)
    for path, one in found.items():
        assert (one.fingerprint, one.reported_by) == (first[path].fingerprint, ("generalist",))
        assert one.title == first[path].title
        assert one.confidence >= 0.8
        assert one.support == "claimed"
    assert found.keys() == first.keys()


async def test_a_finding_that_is_reported_again_gains_no_confidence(branch: Branch) -> None:
    for number in range(3):
        verdict = await branch.push({"app.py": f"{CODE}\nX = {number}\n"}, said(EMPTY))
        assert only(verdict).confidence == 0.8


@pytest.mark.parametrize(
    ("response", "is_open"),
    [
        ({}, False),
        ({"evidence": []}, True),
        ({"evidence": [{"source": "file", "name": "app.py", "quote": "if not items:"}]}, True),
        ({"action": "withdraw"}, True),
        ({"action": "refine", "severity": "info"}, True),
    ],
)
async def test_only_evidence_that_is_there_takes_a_finding_back(
    branch: Branch, response: dict[str, object], is_open: bool
) -> None:
    assert branch.verdict is not None
    answer = disputes(only(branch.verdict), QUOTE, **response)
    holds = response.get("action") == "refine"
    replies = [said(responses=[answer])] * (1 if holds or not is_open else 2)
    verdict = await branch.push({"app.py": CODE + LAST}, *replies)
    assert (EMPTY["title"] in open_titles(verdict)) is is_open
    if is_open:
        assert only(verdict).severity == "medium"
        assert verdict.verdict == "merge"  # a claim below high decides nothing
        return
    assert [(one.cause, one.argued_by) for one in verdict.rejected] == [("argued", ("generalist",))]
    verdict = await branch.push({"app.py": CODE + LAST + LAST})
    assert open_titles(verdict) == []


@pytest.mark.parametrize(("severity", "is_open"), [("medium", False), ("high", True)])
async def test_a_team_refutes_what_an_agent_found_that_takes_no_part_unless_it_is_severe(
    tmp_path: Path, severity: str, is_open: bool
) -> None:
    branch = Branch(tmp_path, {})
    first = await branch.push({"app.py": CODE}, said({**EMPTY, "severity": severity}))
    answer = disputes(only(first), QUOTE)
    verdict = await branch.push(
        {"app.py": CODE + LAST}, team={**TEAM, "qa": [report(responses=[answer])]}
    )
    assert (EMPTY["title"] in open_titles(verdict)) is is_open
    if is_open:
        assert only(verdict).support == "claimed"
        verdict = await branch.push({"app.py": CODE + LAST + LAST}, team=TEAM)
        assert only(verdict).support == "claimed"
        assert [one.earlier for one in only(verdict).objections] == [True]


async def test_a_colleagues_confirmation_stays_when_everybody_is_silent(tmp_path: Path) -> None:
    branch = Branch(tmp_path, {})
    grave = {**EMPTY, "severity": "critical", "confidence": 0.9, "category": "security"}
    twice = {"security": [report(findings=[grave])], "qa": [report(findings=[grave])]}
    first = await branch.push({"app.py": CODE}, team={**TEAM, **twice})
    assert first.verdict == "needs_changes"
    verdict = await branch.push({"app.py": CODE + LAST})
    assert (verdict.verdict, only(verdict).support) == ("needs_changes", "claimed")
    assert only(verdict).confidence == only(first).confidence
    assert only(verdict).confirmed_by == only(first).confirmed_by != ()
    assert (await branch.push({"app.py": CODE + LAST + LAST})).verdict == "needs_changes"


def patient(settings: ReviewSettings) -> ReviewSettings:
    """The team, with time for three rounds."""
    return replace(together(settings), bounds=replace(settings.bounds, iterations=3))


@pytest.mark.parametrize("answer", ["silence", "dispute"])
async def test_a_question_of_an_earlier_review_costs_no_further_iteration(
    tmp_path: Path, answer: str
) -> None:
    branch = Branch(tmp_path, {})
    grave = {**EMPTY, "severity": "critical", "confidence": 0.9, "category": "security"}
    first = await branch.push(
        {"app.py": CODE}, team={**TEAM, "security": [report(findings=[grave])]}
    )
    if answer == "dispute":
        disputed = disputes(only(first), QUOTE)
        again: dict[str, list[ScriptedReply]] = {"qa": [report(responses=[disputed])]}
        await branch.push({"app.py": CODE + LAST}, team={**TEAM, **again})
    verdict = await branch.push({"app.py": f"{CODE}{LAST}X = 1\n"}, team=TEAM, adjust=patient)
    assert verdict.usage.iterations == 1
    assert only(verdict).support == "claimed"
    assert verdict.verdict == "needs_changes"


async def test_a_further_round_asks_nobody_about_an_earlier_objection(tmp_path: Path) -> None:
    branch = Branch(tmp_path, {})
    high = {**EMPTY, "severity": "high", "category": "security"}
    first = await branch.push(
        {"app.py": CODE}, team={**TEAM, "security": [report(findings=[high])]}
    )
    disputed = disputes(only(first), QUOTE)
    again: dict[str, list[ScriptedReply]] = {"qa": [report(responses=[disputed])]}
    second = await branch.push({"app.py": CODE + LAST}, team={**TEAM, **again})
    assert (only(second).support, bool(only(second).objections)) == ("claimed", True)
    fails: dict[str, list[ScriptedReply]] = {
        "lead": [plan("security", "qa"), plan("qa"), sums()],
        "qa": [ModelError("once"), report()],
    }
    verdict = await branch.push(
        {"app.py": f"{CODE}{LAST}X = 1\n"}, team={**TEAM, **fails}, adjust=patient
    )
    assert verdict.usage.iterations == 2
    assert [one.agent for one in verdict.agents if one.iteration == 2] == ["lead", "qa"]


async def test_two_findings_at_one_place_stay_two(tmp_path: Path) -> None:
    branch = Branch(tmp_path, {})
    other = {**EMPTY, "title": "Sums twice", "detail": "The caller has the sum."}
    first = await branch.push({"app.py": CODE}, said(EMPTY, other))
    assert len(open_titles(first)) == 2
    for number in range(2):
        text = f"{CODE}X = {number}\n"
        verdict = await branch.push({"app.py": text}, said({**other, "title": "Adds them again"}))
        assert sorted(open_titles(verdict)) == sorted([str(EMPTY["title"]), "Sums twice"])


async def test_a_response_to_an_analyzers_finding_stays_while_that_is_reported(
    tmp_path: Path,
) -> None:
    shell = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"
    branch = Branch(tmp_path, {})
    first = await branch.push({"app.py": shell})
    (proved,) = [one for one in first.findings if one.rule == "security.subprocess-shell"]
    worse = {
        "finding": proved.fingerprint, "action": "refine", "reason": "Anybody gets there.",
        "evidence": [], "severity": "critical", "confidence": 0.9, "title": "Runs any command",
    }  # fmt: skip
    second = await branch.push({"app.py": f"{shell}X = 1\n"}, said(responses=[worse]))
    for _ in range(2):
        third = await branch.push({"app.py": f"{shell}X = 2\n"})
        for verdict in (second, third):
            (found,) = [one for one in verdict.findings if one.rule == "security.subprocess-shell"]
            assert (found.severity, found.title) == ("critical", "Runs any command")
            assert (found.fingerprint, len(found.reports)) == (proved.fingerprint, 2)
    mended = shell.replace("x, shell=True", "[x]")
    verdict = await branch.push({"app.py": mended})
    assert "Runs any command" not in [one.title for one in verdict.findings]


async def test_a_finding_of_a_change_elsewhere_ends_with_that_change(tmp_path: Path) -> None:
    caller = "import lib\n\n\ndef go():\n    return lib.rate(1)\n"
    branch = Branch(tmp_path, {"app.py": caller, "lib.py": "def rate(x):\n    return x\n"})
    cause = {"path": "lib.py", "line": 1, "removed": False}
    broken = claims("return lib.rate(1)", "Misses an argument", 5, because_of=cause)
    two = "def rate(x, y):\n    return x + y\n"
    first = await branch.push({"lib.py": two}, said(broken))
    assert open_titles(first) == ["Misses an argument"]
    verdict = await branch.push({"lib.py": f"# Rates.\n{two}"})
    (found,) = [one for one in verdict.findings if one.carried_over]
    assert found.because_of is not None
    assert (found.because_of.line, found.cause_quote) == (2, "def rate(x, y):")
    verdict = await branch.push({"lib.py": "def rate(x):\n    return x\n", "new.py": "X = 1\n"})
    assert open_titles(verdict) == []


async def test_a_model_that_forgets_on_the_same_head_closes_nothing(branch: Branch) -> None:
    nitpick = claims("TOTAL = 3", "A number without a name", 11)
    verdict = await branch.push({"app.py": CODE + LAST}, said(nitpick))
    assert len(open_titles(verdict)) == 2
    again = await branch.look()
    assert again.previous is None
    assert open_titles(again) == open_titles(verdict)
    assert len(open_titles(await branch.push({"new.py": "X = 1\n"}))) == 2
