"""Runs of programs in the repository's own journal: the commands treat them as runs."""

import json
from pathlib import Path

import anyio
import pytest

from orchestrator import ApprovalPending, Harness, ModelCall, tool
from orchestrator.cli.main import main
from tests.review.review_kit import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "repo")
    made.commit({"a": "before"})
    return made


def program(repo: Repo) -> list[str]:
    """A program that writes a file and deploys; returns what happened."""
    done: list[str] = []

    @tool(level="write")
    async def write(text: str) -> None:
        (repo.path / "a").write_text(text)
        done.append("write")

    @tool(level="irreversible")
    async def deploy(to: str) -> None:
        done.append(f"deploy to {to}")

    async def run() -> None:
        journal = repo.path / ".diffcourt/state/journal.db"
        async with Harness.open(journal, "ship-1", tools=[write, deploy], root=repo.path) as it:
            await it.execute("write", {"text": "after"})
            await it.execute("deploy", {"to": "production"})

    try:
        anyio.run(run)
    except ApprovalPending:
        done.append("waits")
    return done


def command(repo: Repo, *arguments: str) -> int:
    return main([*arguments, "--repo", str(repo.path)])


def test_a_person_approves_on_the_command_line_and_the_program_goes_on(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program(repo) == ["write", "waits"]
    assert command(repo, "runs", "--json") == 0
    (run,) = json.loads(capsys.readouterr().out)
    assert (run["run_id"], run["change"], run["state"]) == ("ship-1", "program", "waiting")
    assert command(repo, "show", "ship-1") == 0
    assert "deploy" in capsys.readouterr().out
    assert command(repo, "approve", "ship-1", "execute/2/deploy") == 0
    assert program(repo) == ["deploy to production"]
    assert program(repo) == []
    capsys.readouterr()
    assert command(repo, "runs", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["state"] == "finished"


def test_a_person_denies_on_the_command_line(repo: Repo) -> None:
    assert program(repo) == ["write", "waits"]
    assert command(repo, "deny", "ship-1", "execute/2/deploy") == 0
    with pytest.raises(Exception, match="has said no to deploy|denied"):
        program(repo)


def test_files_that_a_program_wrote_are_restored(repo: Repo) -> None:
    program(repo)
    assert (repo.path / "a").read_text() == "after"
    assert command(repo, "rollback", "ship-1") == 0
    assert (repo.path / "a").read_text() == "before"


def test_a_program_is_resumed_by_starting_it(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    program(repo)
    assert command(repo, "resume", "ship-1") == 2
    assert "ship-1 belongs to another program and is not a review; restart that program" in (
        capsys.readouterr().err
    )


def test_calls_that_a_program_makes_itself_are_in_the_statistics_and_the_trace(
    repo: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    @tool()
    async def read() -> str:
        return "text"

    async def ask(call: ModelCall) -> list[str]:
        call.record(input_tokens=100, output_tokens=50, usd=0.25)
        return ["an answer of any form"]

    async def run() -> None:
        journal = repo.path / ".diffcourt/state/journal.db"
        async with Harness.open(journal, "own", tools=[read], root=repo.path) as it:
            await it.execute("read", {})
            await it.model_call(ask, model="house-model", input_tokens=100, max_tokens=50, usd=1)

    anyio.run(run)
    assert command(repo, "stats", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["name"], one["calls"]) for one in found["tools"]] == [("read", 1)]
    (model,) = found["models"]
    assert (model["name"], model["calls"], model["usd"]) == ("house-model", 1, 0.25)
    assert (
        command(repo, "trace", "own", "--to", str(tmp_path / "trace.json"), "--with-content") == 0
    )
    spans = json.loads((tmp_path / "trace.json").read_text())["resourceSpans"][0]["scopeSpans"]
    names = {span["name"] for scope in spans for span in scope["spans"]}
    assert {"execute_tool read", "chat house-model"} <= names


def test_a_programs_run_is_exported_and_imported(repo: Repo, tmp_path: Path) -> None:
    program(repo)
    assert command(repo, "runs", "export", "ship-1", str(tmp_path / "out")) == 0
    other = Repo(tmp_path / "other")
    other.commit({"b": ""})
    assert command(other, "runs", "import", str(tmp_path / "out")) == 0
    assert command(other, "show", "ship-1") == 0
    assert command(other, "audit", "verify", "ship-1") == 0
    assert command(other, "rollback", "ship-1") == 2
