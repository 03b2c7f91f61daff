"""The human path: a person's yes or no from the command line, for a run that waits."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from orchestrator.app.approvals import current_head
from orchestrator.cli.main import main
from orchestrator.engine.approvals import RecordedApprovals
from orchestrator.engine.journal import open_journal
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.tool_registry import ToolPolicy
from orchestrator.engine.types import Level, ToolCall, ToolResult
from orchestrator.errors import ApprovalPending
from orchestrator.stores.sqlite_journal import SqliteStore
from orchestrator.testing.scripted_model import ScriptedModel
from tests.engine.engine_kit import Echo, account, make_runtime, spec
from tests.review.review_kit import Repo, change

T = TypeVar("T")
CALL = "1/act/a/turn1/tool1/deploy"
RUN = "20260101-000000-feedface"


class Waiting:
    """A run of a real repository, in its own state folder, with one call that waits."""

    def __init__(self, repo: Repo) -> None:
        self.repo, self.tool = repo, Echo("deploy", level=Level.IRREVERSIBLE)
        self.folder = repo.path / ".diffcourt/state"
        self.folder.mkdir(parents=True)
        (self.folder / ".gitignore").write_text("*\n")
        self.options = {
            "repo": str(repo.path), "has_diff": False, "worktree": False, "head": None,
        }  # fmt: skip
        self.head = repo.git("rev-parse", "HEAD")
        anyio.run(self._store, self._begin)
        with pytest.raises(ApprovalPending):
            self.sit()

    def sit(self) -> ToolResult:
        return anyio.run(self._store, self._sit)

    async def _store(self, work: Callable[[SqliteStore], Awaitable[T]]) -> T:
        store = SqliteStore(self.folder / "journal.db")
        try:
            return await work(store)
        finally:
            store.close()

    async def _begin(self, store: SqliteStore) -> None:
        await store.create(RUN, 1.0, {"options": self.options})

    async def _sit(self, store: SqliteStore) -> ToolResult:
        async def head() -> str:
            return await current_head(self.options, self.head)

        async with open_journal(RUN, store, SystemClock(), holder="a test") as journal:
            approver = RecordedApprovals(journal, SystemClock(), head)
            policy = ToolPolicy(max_level=Level.IRREVERSIBLE)
            runtime = make_runtime(
                journal, ScriptedModel({}), self.tool, policy=policy, approver=approver
            )
            wish = ToolCall("c", "deploy", {"text": "v1 \x1b[2J"})
            return await runtime.executor.call(spec("a", "deploy"), wish, CALL, account())


@pytest.fixture
def waiting(tmp_path: Path) -> Waiting:
    return Waiting(change(tmp_path / "repo", {}, {"a.py": "X = 1\n"}))


def command(waiting: Waiting, *arguments: str) -> int:
    return main([*arguments, "--repo", str(waiting.repo.path)])


def test_what_waits_is_listed_with_what_it_would_do(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(waiting, "approve", RUN) == 0
    out = capsys.readouterr().out
    assert CALL in out
    assert "a requests deploy" in out
    assert "\x1b" not in out


def test_a_yes_lets_it_happen_once_and_the_audit_says_whose_it_was(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(waiting, "approve", "latest", CALL) == 0
    assert "approved by" in capsys.readouterr().out
    assert waiting.sit().ok
    assert waiting.sit().ok
    assert len(waiting.tool.started) == 1
    assert command(waiting, "audit", "show", RUN, "--json") == 0
    acts = json.loads(capsys.readouterr().out)["acts"]
    (done,) = [act for act in acts if act["level"] == "IRREVERSIBLE" and not act["refused"]]
    assert done["authority"].startswith("approved by ")
    assert "nobody" not in done["authority"]
    assert any("yes by" in act["what"] for act in acts)
    assert command(waiting, "approve", RUN, CALL) == 2
    assert "no call" in capsys.readouterr().err


def test_a_no_is_a_refusal(waiting: Waiting) -> None:
    assert command(waiting, "deny", RUN, CALL) == 0
    assert waiting.sit().code == "denied"
    assert waiting.tool.started == []


def test_an_answer_to_a_head_that_has_moved_is_refused(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting.repo.commit({"a.py": "X = 2\n"})
    assert command(waiting, "approve", RUN, CALL) == 2
    assert "the head has moved" in capsys.readouterr().err


def test_a_head_that_moves_after_the_answer_ends_it(waiting: Waiting) -> None:
    assert command(waiting, "approve", RUN, CALL) == 0
    waiting.repo.commit({"a.py": "X = 2\n"})
    with pytest.raises(ApprovalPending, match="no longer holds"):
        waiting.sit()
    assert waiting.tool.started == []


@pytest.mark.parametrize("arguments", [("approve", "nosuch", CALL), ("approve", RUN, "nosuch")])
def test_a_name_that_is_not_there_is_one_line(
    waiting: Waiting, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(waiting, *arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1
