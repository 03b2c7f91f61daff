"""What skills require as data, held against an agent's report and its calls in the journal."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.catalog.settings import ReviewSettings
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.types import Json
from orchestrator.providers.offline import OfflineModel
from orchestrator.report.verdict_text import render_verdict
from tests.providers.whole_kit import reports
from tests.review.review_kit import change, review
from tests.scripted_model import ScriptedModel, tool_call_reply

FILL = "".join(f"LINE_{n} = {n}\n" for n in range(600))
BASE = {"web.py": "import shop\n", "shop.py": FILL, "notes.txt": "Notes.\n"}
HEAD = {
    "web.py": "import shop\n\n\ndef page(key):\n    return shop.find(key)\n",
    "shop.py": f"{FILL}\n\ndef find(key):\n    return ITEMS[key]\n",
}
FLAW = {
    "path": "shop.py", "start_line": 604, "end_line": 604, "quote": "return ITEMS[key]",
    "title": "A visitor reads the items of others", "severity": "high", "category": "security",
    "detail": "Nobody checks whose item it is.", "fix_suggestion": "Check the owner.", "cwe": [639],
    "because_of": {"path": "web.py", "line": 5},
}  # fmt: skip
SOURCE = ("read_file", {"path": "web.py"})
SINK = ("read_file", {"path": "shop.py", "start": 590, "end": 604})
Calls = Sequence[tuple[str, dict[str, Json]]]


def alone(settings: ReviewSettings) -> ReviewSettings:
    return replace(settings, provider="scripted", judge=False, pattern="single")


async def review_with(
    tmp_path: Path, *calls: tuple[str, dict[str, Json]], own: str = "", **flaw: Json
) -> tuple[set[str], Verdict]:
    """The unmet requirements of the security skill, or of one in base, and the verdict."""
    replies = [tool_call_reply(*calls)] if calls else []
    model = ScriptedModel({"generalist": [*replies, reports(findings=[{**FLAW, **flaw}])]})
    files = {".diffcourt/skills_catalog/security-triangulation/SKILL.md": own} if own else {}
    verdict = await review(change(tmp_path, BASE | files, HEAD), model, adjust=alone)
    (found,) = [c for c in verdict.score.criteria if c.id == "playbooks-followed"]
    return {name for name in found.missing if name.startswith("security-triangulation")}, verdict


OF = "F1 by generalist"


@pytest.mark.parametrize(
    ("calls", "missing"),
    [
        ((), {f"read_file of the source of {OF}", f"read_file of the sink of {OF}"}),
        ((SOURCE,), {f"read_file of the sink of {OF}"}),
        ((SINK,), {f"read_file of the source of {OF}"}),
        (
            (SOURCE, ("read_file", {"path": "shop.py", "start": 1, "end": 40})),
            {f"read_file of the sink of {OF}"},
        ),
        ((SOURCE, ("read_file", {"path": "no.py"})), {f"read_file of the sink of {OF}"}),
        ((SOURCE, SINK), set()),
    ],
)
async def test_a_finding_needs_the_calls_that_show_its_source_and_its_sink(
    tmp_path: Path, calls: Calls, missing: set[str]
) -> None:
    found, verdict = await review_with(tmp_path, *calls)
    assert found == {f"security-triangulation: {name}" for name in missing}
    (one,) = [c for c in verdict.score.criteria if c.id == "playbooks-followed"]
    assert one.score is not None
    assert (one.score < 1) is bool(one.missing)
    assert one.why.endswith(" requirements of opened playbooks met")
    if missing == {f"read_file of the sink of {OF}"}:
        text = " ".join(render_verdict(verdict, detail="verbose").split())
        assert f"missing: security-triangulation: read_file of the sink of {OF}" in text


async def test_a_finding_needs_the_fields_of_its_skill(tmp_path: Path) -> None:
    found, _ = await review_with(tmp_path, SOURCE, SINK, cwe=[], fix_suggestion="")
    names = {f"cwe of {OF}", f"fix_suggestion of {OF}"}
    assert found == {f"security-triangulation: {name}" for name in names}


async def test_a_skill_says_nothing_of_the_findings_of_another_category(tmp_path: Path) -> None:
    found, _ = await review_with(tmp_path, category="qa", cwe=[])
    assert found == set()
    found, _ = await review_with(tmp_path / "2", category="something else", cwe=[])
    assert f"security-triangulation: cwe of {OF}" in found


OWN = """\
---
name: security-triangulation
description: Our own.
metadata:
  stop-when: search files-covered
---
## When to use
Always.
## Steps
1. Look.
## Evidence required
- The line.
## Stop when
All was read.
## Output
Findings.
"""


async def test_a_stop_condition_names_calls_and_files(tmp_path: Path) -> None:
    found, _ = await review_with(tmp_path, own=OWN)
    assert found == {"security-triangulation: search by generalist"}
    called = ("search", {"pattern": "ITEMS"})
    found, _ = await review_with(tmp_path / "2", called, own=OWN)
    assert found == set()


async def test_files_that_were_shown_to_nobody_are_not_covered(tmp_path: Path) -> None:
    def small(settings: ReviewSettings) -> ReviewSettings:
        return replace(alone(settings), auto=replace(settings.auto, tokens_per_agent=100))

    new = "".join(f"LINE_{n} = {n + 1}\n" for n in range(600))
    repo = change(tmp_path, BASE, {**HEAD, "shop.py": new})
    model = ScriptedModel({"generalist": [reports()]})
    verdict = await review(repo, model, adjust=small)
    (found,) = [c for c in verdict.score.criteria if c.id == "playbooks-followed"]
    assert "regression-risk: files-covered by generalist, not shop.py" in found.missing


async def test_what_an_analyzer_proves_needs_none_of_it(tmp_path: Path) -> None:
    repo = change(
        tmp_path, BASE, {"web.py": "import os\n\n\ndef run(x):\n    os.system('ls ' + x)\n"}
    )
    (offline,) = [
        c
        for c in (await review(repo, OfflineModel())).score.criteria
        if c.id == "playbooks-followed"
    ]
    assert (offline.score, offline.missing) == (1.0, ())
    bare = {**FLAW, "path": "web.py", "start_line": 5, "end_line": 5, "quote": "os.system('ls ' + x)",
            "cwe": [], "because_of": None, "severity": "medium", "fix_suggestion": ""}  # fmt: skip
    proved = (await review(repo, OfflineModel())).findings[0]
    named = {**bare, "fingerprint": proved.fingerprint, "severity": proved.severity}
    model = ScriptedModel({"generalist": [reports(findings=[named])]})
    verdict = await review(repo, model, adjust=alone)
    assert {finding.support for finding in verdict.findings} == {"proven"}
    (found,) = [c for c in verdict.score.criteria if c.id == "playbooks-followed"]
    assert found.missing == ()
