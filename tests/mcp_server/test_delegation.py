"""A coding agent's own model answers the questions of a review."""

import shutil
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from anyio.from_thread import start_blocking_portal

from tests.mcp_server.host_kit import Brain, hosting, reasoned_by_nobody, served, stored
from tests.providers.whole_kit import judges, reports, repository, review, serving, team
from tests.review.review_kit import Repo

HOW = {"pattern": "team", "max_iterations": 1}

pytestmark = pytest.mark.either_loop


async def test_a_delegated_review_equals_the_direct_one_on_the_same_replies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository(tmp_path / "repo")
    # Another store: a repeated review of the same head takes over what the first one found.
    other = Path(shutil.copytree(repo, tmp_path / "other"))

    def direct() -> str:
        with start_blocking_portal() as portal, serving(portal, monkeypatch, "anthropic", team()):
            return review(other, "anthropic", base="HEAD~1").run_id

    theirs = await stored(other, await to_thread.run_sync(direct))
    brain = Brain(team())
    async with served(repo, **HOW) as server, hosting(server) as host:
        found = await host.finish(
            await host.call("review", reasoner="host", uncommitted=False), brain
        )
    ours = await stored(repo, found["run"])
    assert ours.provenance.provider == "host"
    assert found["reasoned_by"] == ["host", "host:scripted-host 1"]
    assert reasoned_by_nobody(ours) == reasoned_by_nobody(theirs)


async def test_a_host_that_is_killed_at_every_message_is_asked_nothing_twice(
    tmp_path: Path,
) -> None:
    repo = repository(tmp_path / "repo")
    other = Path(shutil.copytree(repo, tmp_path / "other"))
    whole, brain = Brain(team()), Brain(team())
    async with served(other, **HOW) as server, hosting(server) as host:
        first = await host.finish(await host.call("review", reasoner="host"), whole)
    found = {"state": "running", "run": ""}
    kills = 0
    while found["state"] != "finished":
        async with served(repo, **HOW) as server, hosting(server) as host:
            how = {"run": found["run"]} if found["run"] else {"reasoner": "host"}
            found = await host.call("review", **how)
            if found["state"] == "asks":  # the answer arrives, and nobody waits for what follows
                await host.call("answer", **brain.answer(found), wait_seconds=0.5)
        kills += 1
    assert kills > len(whole.asked)
    assert len(brain.asked) == len(whole.asked)
    ours, theirs = await stored(repo, found["run"]), await stored(other, first["run"])
    assert ours.digest == theirs.digest


@pytest.mark.attack("a coding agent that reviews its own change to have it settled")
async def test_a_delegated_review_settles_nothing_for_another_reviewer(tmp_path: Path) -> None:
    repo = Repo(repository(tmp_path / "repo"))
    async with served(repo.path) as server, hosting(server) as host:
        quiet = {"generalist": [reports(checked=["app.py"])], "judge": [judges()]}
        asks = await host.call("review", reasoner="host", uncommitted=False)
        mine = await host.finish(asks, Brain(quiet))
        assert mine["state"] == "finished"
        repo.commit({"more.py": "Y = 1\n"})
        other = await host.call("review", uncommitted=False)
    verdict = await stored(repo.path, other["run"])
    assert verdict.previous is None
    assert verdict.provenance.carried_over == ""


async def test_an_answer_that_comes_after_the_limit_of_time_learns_why(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    async with served(repo, **HOW, max_minutes=0.05) as server, hosting(server) as host:
        found = await host.call("review", reasoner="host")
        late = {"run": found["run"], "question": found.get("question", "Q0000000000")}
        while found["state"] != "finished":
            await anyio.sleep(0.1)
            found = await host.call("review", run=found["run"])
        assert (found["status"], found["stop"]) == ("incomplete", "budget")
        why = await host.refused("answer", **late, text="{}")
        assert why.endswith("open: none; call review: a limit may have ended the run")
