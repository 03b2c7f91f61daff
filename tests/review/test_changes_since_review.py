"""Agents of a later push are told what changed since the last complete review, and what it reaches."""

from pathlib import Path

import pytest

from tests.review.push_kit import TEAM, Branch, claims, said
from tests.review.team_kit import report
from tests.scripted_model import ScriptedReply

LIB = '"""Rates."""\n\n\ndef rate(x):\n    return x\n'
APP = '"""An app."""\n\nimport lib\n\n\ndef go():\n    return lib.rate(1)\n'
OTHER = '"""Alone."""\n\nX = 1\n'


@pytest.fixture
async def branch(tmp_path: Path) -> Branch:
    """A branch whose first push a generalist passed."""
    return await Branch.pushed(
        tmp_path, {"base.py": "X = 1\n"}, {"lib.py": LIB, "app.py": APP, "other.py": OTHER}
    )


async def test_the_files_and_lines_that_changed_are_named_with_what_they_reach(
    branch: Branch,
) -> None:
    assert "Changed since" not in branch.opening()
    first = branch.verdict
    assert first is not None
    longer = LIB.replace("    return x\n", "    x = x + 1\n    return x\n\n\nMORE = 2\n")
    await branch.push({"lib.py": longer, "new.py": "Y = 2\n"})
    shown = branch.opening()
    head = first.change.head[:12]
    assert f"Changed since the complete review of {head}: 2 of 4 files\n" in shown
    assert "- lib.py: lines 5, 7-9\n- new.py: new\n" in shown
    assert "Files of the change that these reach by imports:\n- app.py: lib.py\n" in shown
    assert "- other.py: lib.py" not in shown
    assert "begin there" in shown
    diff = shown.partition("\nDiff:")[2]
    order = ("b/lib.py", "b/new.py", "b/app.py", "b/other.py")
    assert sorted(order, key=diff.index) == sorted(order, key=lambda one: (
        one not in order[:2], diff.index(one)))  # fmt: skip
    assert max(map(diff.index, order[:2])) < min(map(diff.index, order[2:]))


async def test_a_renamed_file_and_one_that_only_lost_lines_are_described(branch: Branch) -> None:
    branch.repo.git("mv", "other.py", "else.py")
    await branch.push({"lib.py": '"""Rates."""\n\n\ndef rate(x):\n'})
    assert "- else.py (was other.py): no line added\n" in branch.opening()
    assert "- lib.py: no line added\n" in branch.opening()


async def test_a_push_that_changes_nothing_reaches_nothing(branch: Branch) -> None:
    await branch.push({})
    assert ": 0 of 3 files\n" in branch.opening()
    assert "these reach" not in branch.opening()


async def test_after_a_review_that_settles_nothing_nobody_is_told_where_to_begin(
    branch: Branch,
) -> None:
    await branch.push(
        {".diffcourt/config/defaults.yaml": "judge: false\n", "bad.py": "def broken(:\n"},
        said(claims("X = 1", "A name of one letter", 3, path="other.py", severity="high")),
        previous=None,
    )
    await branch.push({"bad.py": "OK = 1\n"})
    assert "Changed since" not in branch.opening()
    assert "do not report one again" in branch.opening()


async def test_the_whole_team_is_told_the_same(branch: Branch) -> None:
    everybody: dict[str, list[ScriptedReply]] = {
        name: [report()] for name in ("docs", "architecture")
    }
    await branch.push({"lib.py": LIB + "\n\nZ = 3\n"}, team={**TEAM, **everybody})
    openings = {branch.opening(number) for number in range(len(branch.requests) - 1)}
    assert [text.count("- lib.py: lines 6-8") for text in openings] == [1]
