"""What a person dismissed does not come back in other words, and comes back once when it must."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.code_review.findings.dismissals import _same_claim, _same_place, _same_proof
from orchestrator.code_review.verdict.model import Finding, Verdict
from tests.review.memory_kit import FILE, commit_to_base, dismiss, named
from tests.review.push_kit import Branch, claims, open_titles, said
from tests.review.test_converging_reviews import (
    OPENING,
    OTHER_WORDS,
    defect,
    line_of,
    repeated,
    step,
    true_claim,
)
from tests.review.test_merging import located

PUSHES = 6


def of_memory(verdict: Verdict, finding: Finding) -> list[str]:
    return [use.effect for use in verdict.memory if finding.id in use.findings]


async def test_over_six_pushes_no_dismissed_finding_is_raised_again(tmp_path: Path) -> None:
    """Each push brings a defect, which is dismissed; the model goes on about all of them."""
    branch = Branch(tmp_path, {"base.py": "X = 1\n"})
    text, again, repetitions = OPENING, 0, 0
    for push in range(1, PUSHES + 1):
        text += step(push)
        old = [repeated(number, push) for number in range(1, push)]
        repetitions += len(old)
        if push % 2:  # what nobody hands over is known by its place alone
            branch.verdict = None
        verdict = await branch.push({"app.py": text}, said(true_claim(push), *old))
        new = named(verdict, str(true_claim(push)["title"]))
        again += len([one for one in verdict.findings if one.state == "open" and one != new])
        assert new.state == "open"
        waived = [one for one in verdict.findings if one.state == "waived"]
        assert sorted(one.start_line for one in waived) == [line_of(n) for n in range(1, push)]
        for one in waived:
            assert one.waiver == "The list is never empty. (maintainer)"
            assert of_memory(verdict, one) == ["dismissed"]
        dismiss(branch, new)
    assert (repetitions, again) == (15, 0)
    last = await branch.look(
        said(*(repeated(number, PUSHES + 1) for number in range(1, PUSHES + 1)))
    )
    assert (open_titles(last), last.verdict) == ([], "merge")


async def test_a_dismissal_holds_without_the_review_that_it_was_given_in(tmp_path: Path) -> None:
    """A later change, of other agents, in a file that was renamed and whose lines have moved."""
    branch = Branch(tmp_path, {"base.py": "X = 1\n"})
    first = await branch.push({"app.py": OPENING + step(1)}, said(true_claim(1)))
    dismiss(branch, named(first, "step1"))
    branch.verdict = None
    moved = OPENING + "\nLIMIT = 3\n" * 4 + step(1) + step(2)
    other = {**claims("return kept[1]", "Breaks", 14, category="architecture"), "path": "app2.py"}
    found = await branch.push({"app.py": None, "app2.py": moved}, said(other))
    # It is a new file for base, so nothing tells that it is the same.
    assert named(found, "Breaks").state == "open"
    found = await branch.push({"app2.py": None, "app.py": moved}, said({**other, "path": "app.py"}))
    assert named(found, "Breaks").state == "waived"


CLAIMS: list[tuple[dict[str, object], str]] = [
    ({"title": OTHER_WORDS[0], "severity": "low"}, "waived"),
    ({"title": OTHER_WORDS[1], "cwe": [125]}, "waived"),
    ({"title": OTHER_WORDS[2], "rule": "qa.short-input"}, "waived"),
    (
        {
            "title": OTHER_WORDS[3],
            "quote": "kept = sorted(items)\n    return kept[1]",
            "start_line": 17,
        },
        "waived",
    ),
    # Another defect of the same line: worse and nothing in common, or of another place.
    ({"title": "Everybody's orders are shown", "severity": "high"}, "open"),
    (
        {"title": "Sorts the caller's list", "quote": "kept = sorted(items)", "start_line": 25},
        "open",
    ),
    ({"title": "No docstring says what is returned", "category": "docs"}, "open"),
    # The same, but as bad as nobody has accepted it.
    ({"title": "step8 fails for fewer than 9 items", "severity": "critical"}, "open"),
]


async def test_the_same_defect_is_known_by_its_place_and_others_are_not_hidden(
    tmp_path: Path,
) -> None:
    branch = Branch(tmp_path, {"base.py": "X = 1\n"})
    numbers = range(1, len(CLAIMS) + 1)
    text = OPENING + "".join(map(step, numbers))
    known = [{**true_claim(number), "severity": "medium"} for number in numbers]
    first = await branch.push({"app.py": text}, said(*known))
    for number in numbers:
        dismiss(branch, named(first, f"step{number} "))
    branch.verdict = None
    made = [{**old, **new} for old, (new, _) in zip(known, CLAIMS, strict=True)]
    for number, claim in zip(numbers, made, strict=True):
        claim["quote"] = str(claim["quote"]).replace("[1]", f"[{number}]")
    verdict = await branch.look(said(*made))
    states = [named(verdict, str(claim["title"])).state for claim, _ in CLAIMS]
    assert states == [state for _, state in CLAIMS]


async def test_a_dismissed_finding_is_reopened_once_when_its_function_changes_and_says_why(
    tmp_path: Path,
) -> None:
    branch = Branch(tmp_path, {"base.py": "X = 1\n"})
    text = OPENING + step(2) + step(3)
    title = str(true_claim(1)["title"])
    claim = {**true_claim(2), "title": title, "start_line": 6, "end_line": 6}
    first = await branch.push({"app.py": text}, said(claim))
    dismiss(branch, named(first, title), until="2999-12-31")
    # Another function, a comment and white space are nothing to it.
    text = text.replace("kept[3]", "kept[ 3 ]").replace("    kept", "    # the rows\n    kept")
    same = await branch.push({"app.py": text}, said(repeated(3, 1)))
    assert named(same, title).state == "waived"

    text = text.replace("def step2(items):\n", "def step2(items):\n    items = load(items)\n")
    changed = await branch.push({"app.py": text}, said())
    found = named(changed, title)
    assert found.state == "open"
    assert found.waiver.startswith("maintainer dismissed it on 2")
    assert found.waiver.endswith(
        "(The list is never empty.), and it is open again: the function around it "
        "(def step2(items):) at app.py:4-8 changed since"
    )
    assert of_memory(changed, found) == ["reopened"]
    assert changed.verdict == "needs_changes"

    dismiss(branch, found, why="load never gives an empty list.")
    for _ in range(2):
        text += step(5)
        last = await branch.push({"app.py": text}, said({**claim, "title": OTHER_WORDS[0]}))
        assert named(last, title).state == "waived"

    edited = {**claim, "quote": "return kept[2] / size(items)", "start_line": 7, "end_line": 7}
    text = text.replace(defect(2), "return kept[2] / size(items)")
    verdict = await branch.push({"app.py": text}, said(edited))
    assert verdict.previous is not None
    assert verdict.previous.settles_nothing == ""  # a dismissal in base is no other policy
    found = named(verdict, title)
    assert (found.state, of_memory(verdict, found)) == ("open", ["reopened", "reopened"])
    assert found.waiver.endswith("and it is open again: the line changed since")


SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"
ROUTE = (
    "from flask import Flask, request\n\nfrom tools import run\n\napp = Flask(__name__)\n\n\n"
    "@app.route('/')\ndef start():\n    run(request.args['x'])\n    return ''\n"
)


async def test_a_dismissed_finding_that_the_change_makes_exploitable_is_reopened_and_names_the_line(
    tmp_path: Path,
) -> None:
    branch = Branch(tmp_path, {"base.py": "X = 1\n"})
    shell = claims("subprocess.run(x, shell=True)", "A shell runs x", 5, cwe=[78], severity="high")
    first = await branch.push({"tools.py": SHELL}, said({**shell, "path": "tools.py"}))
    (own,) = [one for one in first.findings if one.path == "tools.py"]
    dismiss(branch, own, why="Run by hand only.")
    branch.repo.git("merge", "-q", "main")
    branch.verdict = None
    same = await branch.look(said())
    assert [one.state for one in same.findings if one.path == "tools.py"] == ["waived"]

    later = await branch.push({"api.py": ROUTE}, said())
    (found,) = [one for one in later.findings if one.path == "tools.py"]
    assert found.state == "open"
    assert found.waiver.startswith("maintainer dismissed it on 2")
    assert found.waiver.endswith(
        "(Run by hand only.), and it is open again: api.py:10, which the change adds, leads to it"
    )
    dismiss(branch, found, why="The page is for us alone.")
    again = await branch.push({"api.py": f"{ROUTE}\nX = 1\n"}, said())
    assert [one.state for one in again.findings if one.path == "tools.py"] == ["waived"]


async def test_an_agent_reopens_by_a_new_call_of_the_function_and_by_no_other_line(
    tmp_path: Path,
) -> None:
    branch = Branch(tmp_path, {"base.py": "X = 1\n"})
    text = OPENING + step(1) + step(2)
    first = await branch.push({"app.py": text}, said(true_claim(1), true_claim(2)))
    for number in (1, 2):
        dismiss(branch, named(first, f"step{number}"))
    branch.repo.git("checkout", "-q", "main")
    branch.repo.git("merge", "-q", "feature")
    branch.repo.git("checkout", "-q", "-B", "feature")
    branch.verdict = None
    causes = {1: 3, 2: 5}
    made = [
        {**true_claim(number), "because_of": {"path": "job.py", "line": line}}
        for number, line in causes.items()
    ]
    job = "from app import step1\n\nstep1([])\n\nLIMIT = 3\n"
    verdict = await branch.push({"job.py": job}, said(*made))
    found = [named(verdict, f"step{number}") for number in (1, 2)]
    assert [one.state for one in found] == ["open", "waived"]
    assert found[0].waiver.endswith("open again: job.py:3, which the change adds, leads to it")


async def test_a_critical_finding_is_dismissed_by_name_only_and_expired_entries_are_listed(
    tmp_path: Path,
) -> None:
    branch = Branch(tmp_path, {"base.py": "X = 1\n"})
    claim = {**true_claim(1), "severity": "critical", "confidence": 0.9}
    first = await branch.push({"app.py": OPENING + step(1)}, said(claim))
    dismiss(branch, named(first, "step1"))
    entry = (branch.repo.path / FILE).exists()
    assert not entry  # it is in base, not in the branch
    branch.verdict = None
    assert named(await branch.look(said(claim)), "step1").state == "waived"
    text = branch.repo.git("show", f"main:{FILE}")
    unnamed = "".join(line for line in text.splitlines(keepends=True) if "  by:" not in line)
    commit_to_base(branch.repo, {FILE: unnamed})
    branch.verdict = None
    found = named(await branch.look(said(claim)), "step1")
    assert (found.state, "needs a person's name" in found.waiver) == ("open", True)
    commit_to_base(
        branch.repo, {FILE: text.replace("    about:", "    until: 2020-01-01\n    about:")}
    )
    branch.verdict = None
    verdict = await branch.look(said(claim))
    assert named(verdict, "step1").state == "open"
    assert [use.effect for use in verdict.memory] == ["expired"]


async def test_a_dismissal_in_the_change_itself_has_no_effect(tmp_path: Path) -> None:
    branch = Branch(tmp_path, {"base.py": "X = 1\n"})
    first = await branch.push({"app.py": OPENING + step(1)}, said(true_claim(1)))
    dismiss(branch, named(first, "step1"))
    text = branch.repo.git("show", f"main:{FILE}")
    commit_to_base(branch.repo, {FILE: "dismissed: []\n"})
    branch.verdict = None
    found = await branch.push({FILE: text}, said(true_claim(1)))
    assert (named(found, "step1").state, found.memory) == ("open", ())


async def test_a_copy_of_what_was_dismissed_is_not_dismissed(tmp_path: Path) -> None:
    claim = {**claims("subprocess.run(x, shell=True)", "A shell runs x", 5, cwe=[78])}
    branch = Branch(tmp_path, {"base.py": "X = 1\n"})
    first = await branch.push({"app.py": SHELL}, said(claim))
    dismiss(branch, next(one for one in first.findings if one.path == "app.py"))
    branch.verdict = None
    body = SHELL.partition("\n\n\n")[2]
    twice = await branch.push({"app.py": f"{SHELL}\n\n{body}"}, said(claim))
    shells = [one for one in twice.findings if "subprocess.run" in one.evidence.quote]
    assert {one.start_line: one.state for one in shells} == {5: "waived", 9: "open"}
    inside = SHELL.replace("    sub", "    subprocess.run(x, shell=True)\n    sub")
    assert inside.count("run(x, shell=True)") == 2
    branch.verdict = None
    changed = await branch.push({"app.py": inside}, said())
    assert {one.state for one in changed.findings if one.path == "app.py"} == {"open"}


AT: dict[str, Any] = {
    "start_line": 5, "end_line": 5, "quote": "run(x, shell=True)", "rule": "qa.reported",
    "category": "qa", "title": "Hangs without a time limit", "cwe": (),
}  # fmt: skip
SHELL_AT = {**AT, "rule": "security.subprocess-shell", "category": "security", "cwe": (78,)}


@pytest.mark.parametrize(
    ("at", "claim", "agent_means_it", "analyzer_means_it"),
    [
        (AT, {}, True, True),
        (AT, {"title": "Blocks", "cwe": (400,), "rule": "qa.time-limit"}, True, False),
        (AT, {"title": "Blocks", "quote": "other(x)"}, False, False),
        (AT, {"title": "Blocks", "start_line": 6, "end_line": 6}, False, False),
        # A claim of a whole function, and one in a function that was dismissed whole.
        (AT, {"end_line": 11}, False, False),
        ({**AT, "end_line": 30}, {"title": "Blocks"}, False, False),
        (SHELL_AT, {"rule": "security.other", "cwe": (78, 20)}, True, True),
        (SHELL_AT, {"rule": "security.other", "cwe": (89,), "title": "SQL"}, True, False),
        (SHELL_AT, {"rule": "security.other", "cwe": (862,), "title": "Open"}, False, False),
        (SHELL_AT, {"quote": "run(y)"}, True, False),
    ],
)
def test_dismissals_of_findings_by_agents_and_analyzers(
    at: dict[str, Any], claim: dict[str, Any], agent_means_it: bool, analyzer_means_it: bool
) -> None:
    known, made = located(**at), located(**{**at, "end_line": AT["end_line"], **claim})
    assert (_same_place(known, made) and _same_claim(known, made)) is agent_means_it
    assert (_same_place(known, made) and _same_proof(known, made)) is analyzer_means_it
