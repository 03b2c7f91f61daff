"""A removed line and its replacement: two findings of one cause are one, and of two causes two."""

from pathlib import Path
from typing import Any

import pytest

from orchestrator.code_review.findings.evidence_from_journal import Work
from orchestrator.code_review.findings.verdict_findings import build_findings
from orchestrator.engine.agent_loop import LoopResult
from tests.review.review_kit import change, workspace_of
from tests.review.test_merging import POLICY

FILLER = [f"line_{number} = {number}" for number in range(40)]
OLD = [
    "import auth",
    "",
    "def open_channel(user):",
    "    auth.require(user)",
    "    return Channel(user)",
    *FILLER,
    "def close_channel(user):",
    "    auth.require(user, 'close')",
    "    return None",
]
NEW = [
    "import auth",
    "",
    "def open_channel(user, *, trusted=True):",
    "    log(user)",
    "    return Channel(user)",
    *FILLER,
    "def close_channel(user, trusted):",
    "    log(user, 'close')",
    "    return None",
]
CHECK_REMOVED = {"title": "Authentication check of open_channel is gone", "category": "security"}
IN_BASE = {**CHECK_REMOVED, "path": "old.py", "quote": "    auth.require(user)", "start_line": 4}
IN_HEAD = {**CHECK_REMOVED, "path": "new.py", "quote": "    log(user)", "start_line": 4}
UNCHANGED = {**CHECK_REMOVED, "path": "new.py", "quote": "return Channel(user)", "start_line": 5}
BELOW = {**CHECK_REMOVED, "path": "new.py", "quote": "    log(user, 'close')", "start_line": 47}


async def number_of_findings(tmp_path: Path, *claims: tuple[str, dict[str, Any]]) -> int:
    repo = change(tmp_path, {"old.py": "\n".join(OLD)}, {"old.py": None, "new.py": "\n".join(NEW)})
    team = []
    for agent, claim in claims:
        whole = {"severity": "high", "end_line": claim["start_line"], "confidence": 0.9, **claim}
        team.append(Work(1, LoopResult(agent, "ok", {"findings": [whole], "checked": []})))
    async with workspace_of(repo) as workspace:
        found = await build_findings(workspace, [], team, lambda _: (), POLICY)
    assert not found.rejected
    return len(found.findings)


@pytest.mark.parametrize(
    "other",
    [
        IN_HEAD,
        {**IN_HEAD, "title": "The authentication check of open_channel was removed and is gone"},
        {**IN_HEAD, "title": "No authentication", "rule": "security.lost-check"},
        UNCHANGED,
        {**UNCHANGED, "because_of": {"path": "old.py", "line": 4, "removed": True}},
    ],
    ids=["same words", "similar words", "same rule", "context line", "its cause"],
)
async def test_a_removed_line_and_its_replacement_are_one_finding(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    first = {**IN_BASE, "rule": other["rule"]} if "rule" in other else IN_BASE
    assert await number_of_findings(tmp_path, ("security", first), ("qa", other)) == 1
    assert await number_of_findings(tmp_path / "turned", ("qa", other), ("security", first)) == 1


@pytest.mark.parametrize(
    "other",
    [
        {**IN_HEAD, "title": "The user's name is written to the log"},
        {**IN_HEAD, "category": "qa"},
        BELOW,
    ],
    ids=["another defect", "another category", "the same words in another block"],
)
async def test_other_defects_in_head_and_base_stay_apart(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    assert await number_of_findings(tmp_path, ("security", IN_BASE), ("qa", other)) == 2


async def test_defects_far_apart_in_one_rewritten_block_stay_apart(tmp_path: Path) -> None:
    repo = change(
        tmp_path,
        {"a.py": "\n".join(f"old_{number}()" for number in range(40))},
        {"a.py": "\n".join(f"new_{number}()" for number in range(40))},
    )
    one = {"path": "a.py", "severity": "high", "title": "Result is ignored here", "category": "qa"}
    claims = [
        {**one, "quote": "old_2()", "start_line": 3, "end_line": 3},
        {**one, "quote": "new_30()", "start_line": 31, "end_line": 31},
        {**one, "quote": "new_4()", "start_line": 5, "end_line": 5},
    ]
    team = [
        Work(1, LoopResult(agent, "ok", {"findings": [claim], "checked": []}))
        for agent, claim in zip(("qa", "docs", "security"), claims, strict=True)
    ]
    async with workspace_of(repo) as workspace:
        found = await build_findings(workspace, [], team, lambda _: (), POLICY)
    places = [(one.evidence.side, one.start_line) for one in found.findings]
    assert len(places) == 2
    assert ("head", 31) in places
