"""The human path: a person's yes or no from the command line, for a run that waits."""

import json
import os
import pwd
import re
import shutil
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from orchestrator.app.human_decisions import approvals
from orchestrator.app.human_decisions.approvals import current_head, current_user
from orchestrator.app.runs import run_archive
from orchestrator.app.types import ReviewOptions
from orchestrator.cli.main import main
from orchestrator.engine.approvals import RecordedApprovals
from orchestrator.engine.journal import open_journal
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.tool_registry import ToolPolicy
from orchestrator.engine.types import Level, ToolCall, ToolResult
from orchestrator.errors import ApprovalPending, InputError, StoreError
from orchestrator.stores.sqlite_journal import SqliteStore
from orchestrator.stores.used_approvals import UsedApprovalsLog
from tests.engine.engine_kit import Echo, account, make_runtime, spec
from tests.review.review_kit import Repo, change
from tests.scripted_model import ScriptedModel

T = TypeVar("T")
CALL = "1/act/a/turn1/tool1/deploy"
RUN = "20260101-000000-feedface"


class Waiting:
    """A run of a real repository, in its own state folder, with one call that waits."""

    def __init__(
        self, repo: Repo, run_id: str = RUN, text: str = "v1 \x1b[2J", source: str = ""
    ) -> None:
        self.repo, self.tool = repo, Echo("deploy", level=Level.IRREVERSIBLE)
        self.run_id, self.text, self.folder = run_id, text, repo.path / ".diffcourt/state"
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / ".gitignore").write_text("*\n")
        self.options = ReviewOptions(repo=repo.path).as_meta() | ({source: True} if source else {})
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
        started = 1.0 + len(await store.runs())
        await store.create(self.run_id, started, {"options": self.options})

    async def _sit(self, store: SqliteStore) -> ToolResult:
        async def head() -> str:
            return await current_head(self.options, self.head)

        async with open_journal(self.run_id, store, SystemClock(), holder="t") as journal:
            approver = RecordedApprovals(journal, SystemClock(), head, UsedApprovalsLog(os.environ))
            policy = ToolPolicy(max_level=Level.IRREVERSIBLE)
            runtime = make_runtime(
                journal, ScriptedModel({}), self.tool, policy=policy, approver=approver
            )
            wish = ToolCall("c", "deploy", {"text": self.text})
            return await runtime.executor.call(spec("a", "deploy"), wish, CALL, account())


@pytest.fixture
def waiting(tmp_path: Path) -> Waiting:
    return Waiting(change(tmp_path / "repo", {}, {"a.py": "X = 1\n"}))


def command(waiting: Waiting, *arguments: str) -> int:
    return main([*arguments, "--repo", str(waiting.repo.path)])


def approve(waiting: Waiting) -> None:
    assert command(waiting, "approve", waiting.run_id, CALL) == 0


def test_pending_calls_are_listed_with_their_effects(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(waiting, "approve", RUN) == 0
    out = capsys.readouterr().out
    assert CALL in out
    assert "a requests deploy" in out
    assert "\x1b" not in out


def test_an_approval_allows_one_call_and_the_audit_names_its_author(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(waiting, "approve", RUN, CALL) == 0
    out = capsys.readouterr().out
    assert "approved by" in out
    assert f'in run {RUN}: a requests deploy {{"text": "v1 \\u001b[2J"}}' in out
    assert waiting.sit().ok
    assert waiting.sit().ok
    assert len(waiting.tool.started) == 1
    assert command(waiting, "audit", "show", RUN, "--json") == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    (done,) = [
        entry for entry in entries if entry["level"] == "IRREVERSIBLE" and not entry["refused"]
    ]
    assert done["authority"].startswith("approved by ")
    assert "nobody" not in done["authority"]
    assert any("yes by" in entry["what"] for entry in entries)
    assert command(waiting, "approve", RUN, CALL) == 2
    assert "no call" in capsys.readouterr().err


def test_a_denial_is_a_refusal(waiting: Waiting) -> None:
    assert command(waiting, "deny", RUN, CALL, "--reason", "Not on a Friday.") == 0
    said = waiting.sit()
    assert said.code == "denied"
    assert "has denied deploy: Not on a Friday." in said.content
    assert waiting.tool.started == []


def test_an_approval_of_an_outdated_head_is_refused(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting.repo.commit({"a.py": "X = 2\n"})
    assert command(waiting, "approve", RUN, CALL) == 2
    assert "the head has moved" in capsys.readouterr().err


def test_a_head_that_moves_after_the_answer_ends_it(waiting: Waiting) -> None:
    assert command(waiting, "approve", RUN, CALL) == 0
    waiting.repo.commit({"a.py": "X = 2\n"})
    with pytest.raises(ApprovalPending, match="no longer valid"):
        waiting.sit()
    assert waiting.tool.started == []


@pytest.mark.parametrize("arguments", [("approve", "nosuch", CALL), ("approve", RUN, "nosuch")])
def test_an_unknown_name_is_one_line(
    waiting: Waiting, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(waiting, *arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_approval_of_latest_does_not_reach_a_run_that_began_after_the_list(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(waiting, "approve", "latest") == 0
    listed = capsys.readouterr().out.split()[0]
    other = Waiting(waiting.repo, "20260101-000001-feedface", "production --force")
    assert command(waiting, "approve", "latest", listed) == 2
    assert command(waiting, "approve", "latest", CALL) == 2
    refusal = capsys.readouterr().err.splitlines()[-1]
    assert 'requests deploy {"text": "production --force"}' in refusal
    words = refusal.partition("type: diffcourt ")[2].split()
    with pytest.raises(ApprovalPending):
        other.sit()
    assert main(words) == 0
    assert other.sit().ok
    with pytest.raises(ApprovalPending):
        waiting.sit()


def test_the_short_digest_approves_what_was_listed(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(waiting, "approve", "latest") == 0
    listed = capsys.readouterr().out.split()[0]
    assert command(waiting, "approve", "latest", listed) == 0
    assert waiting.sit().ok


def test_an_approval_in_an_imported_run_does_not_count(waiting: Waiting, tmp_path: Path) -> None:
    approve(waiting)
    run_archive.export_run(waiting.repo.path, RUN, tmp_path / "run")
    shutil.rmtree(waiting.folder)
    run_archive.import_run(waiting.repo.path, tmp_path / "run")
    with pytest.raises(ApprovalPending, match="nobody has decided yet"):
        waiting.sit()
    approve(waiting)
    assert waiting.sit().ok


def test_an_approval_is_used_once_although_an_older_state_is_put_back(
    waiting: Waiting, tmp_path: Path
) -> None:
    approve(waiting)
    shutil.copytree(waiting.folder, tmp_path / "older")
    assert waiting.sit().ok
    shutil.rmtree(waiting.folder)
    shutil.copytree(tmp_path / "older", waiting.folder)
    with pytest.raises(ApprovalPending, match="was already used"):
        waiting.sit()
    assert len(waiting.tool.started) == 1
    approve(waiting)  # by a person who has found out that it did not happen
    assert waiting.sit().ok


@pytest.mark.parametrize("way", ["no home", "a link", "readable by others"])
def test_without_a_log_of_used_approvals_nothing_irreversible_starts(
    waiting: Waiting, way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    approve(waiting)
    if way == "no home":
        monkeypatch.setenv("HOME", "relative")
        monkeypatch.delenv("XDG_STATE_HOME")
    else:
        log = Path(os.environ["XDG_STATE_HOME"], "diffcourt/used-approvals")
        log.parent.mkdir(parents=True)
        if way == "a link":
            log.symlink_to(tmp_path / "elsewhere")
        else:
            log.touch()
            log.chmod(0o644)
    with pytest.raises(StoreError, match="DIFFCOURT_USED_APPROVALS"):
        waiting.sit()
    assert waiting.tool.started == []
    place = tmp_path / "kept/log"
    monkeypatch.setenv("DIFFCOURT_USED_APPROVALS", str(place))
    assert waiting.sit().ok
    assert (place.stat().st_mode & 0o777, len(place.read_text().splitlines())) == (0o600, 1)


@pytest.mark.parametrize("source", ["worktree", "has_diff"])
def test_an_approval_ends_when_a_file_of_the_work_tree_changes(
    waiting: Waiting, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting.repo.write({"a.py": "X = 5\n"})
    run = Waiting(waiting.repo, "20260101-000001-feedface", source=source)
    approve(run)
    waiting.repo.write({"a.py": "X = 666666\n"})
    with pytest.raises(ApprovalPending, match="another request"):
        run.sit()
    assert run.tool.started == []
    waiting.repo.write({"a.py": "X = 7\n"})
    assert command(run, "approve", run.run_id, CALL) == 2
    assert "files of the work tree have changed" in capsys.readouterr().err


def test_who_decides_is_the_user_of_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    name = pwd.getpwuid(os.getuid()).pw_name
    for variable in ("USER", "LOGNAME", "GITHUB_ACTOR"):
        monkeypatch.setenv(variable, "mallory")
    assert current_user().startswith(f"{name} on ")
    assert "mallory" not in current_user()
    monkeypatch.setenv("CI", "true")
    assert "mallory" not in current_user()
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert current_user().endswith(" (according to CI: mallory)")


def test_the_first_decision_counts_and_others_are_told_who_made_it(
    waiting: Waiting, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approvals, "current_user", lambda: "dana on desk")
    approve(waiting)
    monkeypatch.setattr(approvals, "current_user", lambda: "kim on lap")
    assert command(waiting, "deny", RUN, CALL) == 2
    told = capsys.readouterr().err
    assert re.search(r"diffcourt: dana on desk approved it at 20\d\d-.* UTC; only they", told)
    assert waiting.sit().ok
    assert command(waiting, "deny", RUN, CALL) == 2
    assert re.search(r"no call .* is pending in .*: dana on desk approved", capsys.readouterr().err)


def test_of_two_simultaneous_decisions_one_wins(waiting: Waiting) -> None:
    barrier, told = threading.Barrier(2), []

    def decide(who: str, yes: bool) -> None:
        barrier.wait()
        try:
            approvals.decide_call(waiting.repo.path, RUN, CALL, approved=yes, shown=str, who=who)
        except InputError as error:
            told.append(str(error))

    both = [threading.Thread(target=decide, args=given) for given in (("a", True), ("b", False))]
    for one in both:
        one.start()
    for one in both:
        one.join()
    (line,) = told
    assert re.match(r"(a approved|b denied) it at ", line)


def test_nothing_is_decided_for_a_run_that_has_ended(
    waiting: Waiting, capsys: pytest.CaptureFixture[str]
) -> None:
    async def end(store: SqliteStore) -> None:
        async with open_journal(RUN, store, SystemClock(), holder="t") as journal:
            journal.note("verdict", {})

    anyio.run(waiting._store, end)
    assert command(waiting, "approve", RUN) == 0
    assert "this run has no pending calls" in capsys.readouterr().out
    assert command(waiting, "approve", RUN, CALL) == 2
    assert "has ended, so nothing in it waits for a person" in capsys.readouterr().err
