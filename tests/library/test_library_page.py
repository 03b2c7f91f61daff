"""The page of the library: every example on it runs, more than once where state matters."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import orchestrator
from orchestrator import Harness, tool
from orchestrator.stores.sqlite_journal import SqliteStore
from tests.review.review_kit import change
from tests.scripted_model import ScriptedModel, text_reply, tool_call_reply

pytestmark = pytest.mark.either_loop
PAGE = (Path(__file__).parents[2] / "docs/library.md").read_text(encoding="utf-8")


@pytest.fixture
def example() -> Callable[[str], dict[str, Any]]:
    """Runs the first example below a heading, as a module that is imported."""

    def run(heading: str) -> dict[str, Any]:
        code = PAGE.split(f"## {heading}\n")[1].split("```python\n")[1].split("```")[0]
        space: dict[str, Any] = {"__name__": "example"}
        exec(compile(code, "library.md", "exec"), space)
        return space

    return run


async def test_the_first_agent_answers_and_is_not_asked_again(
    example: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main = example("Your first agent in 20 lines")["main"]
    lines = [tool_call_reply(("lookup", {"number": 7})), text_reply("Call the fire brigade.")]
    for script in ({"triage": lines}, {}, {}):
        await main(tmp_path / "runs.db", ScriptedModel(script))
        assert capsys.readouterr().out == "ok Call the fire brigade.\n"


async def test_the_first_agent_takes_twenty_lines() -> None:
    code = PAGE.split("```python\n")[1].split("```")[0]
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 20


async def test_a_tool_gets_instances(example: Any) -> None:
    space = example("Tools")
    async with Harness.open(None, "r", tools=[space["age"], space["refund"]]) as harness:
        assert await harness.execute("age", {"number": 1, "opened": "2026-11-20"}) == 2


@pytest.fixture
def named_example() -> Callable[[str], dict[str, Any]]:
    """Runs the example with a name, as a module that is imported."""

    def run(name: str) -> dict[str, Any]:
        code = PAGE.split(f"```python run={name}\n")[1].split("```")[0]
        space: dict[str, Any] = {"__name__": "example"}
        exec(compile(code, "library.md", "exec"), space)
        return space

    return run


async def test_tools_are_chosen_by_tags(
    named_example: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    others = [tool(name=f"other{number}")(_nothing) for number in range(30)]
    await named_example("tags")["main"](others)
    assert capsys.readouterr().out == "32 ['invoices']\n['find', 'invoices']\n"


async def test_calls_are_logged_without_secrets(
    named_example: Any, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "shop"):
        await named_example("logged")["main"]()
    assert capsys.readouterr().out == "{'usd': 9.5}\n"
    arguments = "{'item': 'tea', 'token': '[redacted]'}"
    assert caplog.messages == [f"price {arguments}: begun", f"price {arguments}: ok"]


async def test_an_observe_only_run_lists_what_it_would_refuse(
    named_example: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    await named_example("observe")["main"]()
    assert capsys.readouterr().out.splitlines() == [
        "sent to customer 7",
        "execute/1/send: permission: send is IRREVERSIBLE; local allows WRITE",
        "execute/1/send: approval: send cannot be undone",
    ]


async def test_a_foreign_frameworks_tokens_are_booked_once(
    named_example: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    class Client:
        async def complete(self, prompt: str) -> SimpleNamespace:
            asked.append(prompt)
            return SimpleNamespace(text="It burns.", input_tokens=700, output_tokens=20)

    for _ in range(2):
        await named_example("model_call")["main"](tmp_path / "runs.db", Client())
        assert capsys.readouterr().out.splitlines() == [
            "It burns.",
            "780 tokens left",
            "the run: tokens would reach 3520, the limit is 1500",
        ]
    assert asked == ["Summarize ticket 7."]


async def _nothing() -> None:
    """Do nothing."""


async def test_the_deployment_happens_once_however_often_the_program_is_started(
    example: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "journal.db"
    for number in range(3):
        await example("Without an agent")["main"](str(path))
        out = capsys.readouterr().out
        assert ("deploy needs a person's approval" in out) == (number == 0)
        assert "{'deployed': 'production'}\n4.5 dollars left\n" in out
    store = SqliteStore(path)
    outcomes = [row.key for row in await store.rows("run-1") if row.kind == "outcome"]
    store.close()
    assert outcomes.count("execute/1/deploy") == 1
    assert [key for key in outcomes if key.startswith("execute/")] == ["execute/1/deploy"]


async def test_a_flow_passes_the_same_states_again(
    example: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main = example("Teams and flows")["main"]
    said = {
        "author": [text_reply("text")],
        "critic": [text_reply("fault")],
        "editor": [text_reply("better text")],
    }
    for script in (said, {}):
        await main(tmp_path / "runs.db", ScriptedModel(script))
        assert capsys.readouterr().out == "better text\n"


@pytest.mark.either_loop
async def test_a_review_is_a_call(
    example: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = change(tmp_path / "repo", {"a.py": "x = 1\n"}, {"b.py": "import os\nos.system(x)\n"})
    repo.git("checkout", "-qb", "topic")
    repo.git("branch", "-f", "main", "HEAD~1")
    main = example("A review as a call")["main"]
    await main(repo.path)
    assert "needs_changes complete\n" in capsys.readouterr().out


async def test_the_page_lists_exactly_what_is_exported() -> None:
    table = PAGE.split("## Every name\n")[1]
    listed = set(re.findall(r"`(\w+)`", table)) - {"import"}
    exported = set(orchestrator.__all__) - {"__version__"}
    assert listed == exported
    for name in sorted(exported):
        assert getattr(orchestrator, name) is not None
