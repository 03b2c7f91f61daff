"""The pattern ``auto``: as many agents as the change needs, and each of its files given to one."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import BlockingPortal
from msgspec.structs import replace

from orchestrator.app.cost_estimate import estimate_cost
from orchestrator.catalog.settings import AutoPattern, ReviewSettings
from orchestrator.code_review.verdict.document_parts import Assignment
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.types import Request, Response, Text
from orchestrator.errors import ModelError
from orchestrator.report.verdict_text import render_verdict
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.model_server.server import ReceivedRequest
from tests.providers.whole_kit import POLICY, TEAM, reports, review, says, serving, sums_up
from tests.review.review_kit import change, options
from tests.review.review_kit import review as review_in_process
from tests.scripted_model import ScriptedModel, tool_call_reply

DEFAULTS = ".diffcourt/config/defaults.yaml"
AUTO = "fixes: {agent: null}\nverify: {agent: null}\njudge: false\nauto: {tokens_per_agent: 1200, max_agents: %d}\n"
FILES = {
    **{
        f"shop/{area}{n}.py": f"from shop import {area}{n + 1}\n\n\ndef {area}_{n}(x):\n"
        + "".join(f"    x = x * {k} + {n}\n" for k in range(12))
        + "    return x\n"
        for area in ("cart", "mail", "tax")
        for n in range(4)
    },
    "tests/test_cart.py": "from shop import cart0\n\n\ndef test_it():\n    assert cart0\n",
    "docs/shop.md": "# Shop\n\nIt sells.\n",
    ".github/workflows/ci.yml": "name: ci\non: push\npermissions: {}\njobs: {}\n",
}

FEW = {path: text for path, text in FILES.items() if not re.search("tax|mail", path)}


def large(path: Path, *, most: int = 12) -> Path:
    """A change of 15 files, for whose agents 1,200 tokens are all that they read at once."""
    return change(path, {"app.py": "X = 1\n", **POLICY, DEFAULTS: AUTO % most}, FILES).path


def by_size(settings: ReviewSettings) -> ReviewSettings:
    """A review by a scripted model whose agents read 500 tokens at once."""
    auto = AutoPattern(tokens_per_agent=500, max_agents=12)
    return replace(settings, provider="scripted", judge=False, auto=auto)


def plan(*questions: str) -> Response:
    """A lead that gives no files and asks security something."""
    return says(
        summary="It adds a shop.",
        tasks=[{"agent": "security", "paths": [], "why": text} for text in questions],
    )


def script(**other: list[Any]) -> dict[str, list[Any]]:
    """Everybody reports that nothing was found, however many of a role there are."""
    names = [*TEAM, *(f"{name}-{n}" for name in TEAM for n in range(1, 9)), "generalist"]
    silent: dict[str, list[Any]] = {name: [reports(summary="Read.")] for name in names}
    return {**silent, "lead": [plan("who pays?"), sums_up("It adds a shop.")], **other}


def assigned(verdict: Verdict) -> Assignment:
    assert verdict.assignment is not None
    return verdict.assignment


def text_of(seen: ReceivedRequest) -> tuple[str, str]:
    """What an agent's first message says: the common opening, and the rest."""
    content: Any = seen.body["messages"][0]["content"]
    return str(content[0]["text"]), "\n".join(str(part["text"]) for part in content[1:])


def first_requests(requests: list[ReceivedRequest]) -> Mapping[str, ReceivedRequest]:
    found: dict[str, ReceivedRequest] = {}
    for seen in requests:
        found.setdefault(seen.agent, seen)
    return found


def test_one_agent_reviews_what_it_reads_at_once(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    policy = {**POLICY, DEFAULTS: "fixes: {agent: null}\nverify: {agent: null}\njudge: false\n"}
    repo = change(tmp_path, {"app.py": "X = 1\n", **policy}, {"app.py": "X = 2\n"}).path
    with serving(portal, monkeypatch, "anthropic", script()) as server:
        verdict = review(repo, "anthropic", pattern=None)
    assert [agent.agent for agent in verdict.agents] == ["generalist"]
    assert len(server.requests) == 1
    found = assigned(verdict)
    assert (found.pattern, found.auto, found.bound) == ("single", True, 60_000)
    assert found.reason == (
        f"the diff and the analyzers' findings have {found.tokens} tokens; "
        "one agent reads up to 60,000 at once"
    )
    assert [(share.agent, share.paths) for share in found.shares] == [("generalist", ("app.py",))]
    assert found.reason in " ".join(render_verdict(verdict, detail="verbose").split())


@pytest.fixture(scope="module")
def split(
    portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Verdict, list[ReceivedRequest]]:
    """A review of a large change, in which an agent of security calls what that is denied."""
    denied = {".diffcourt/config/tools.yaml": "agents: {security: {deny: [search]}}\n"}
    policy = {**POLICY, DEFAULTS: AUTO % 12, **denied}
    repo = change(tmp_path_factory.mktemp("split"), {"app.py": "X = 1\n", **policy}, FILES).path
    calls = tool_call_reply(("search", {"pattern": "shop"}), ("git_diff", {}))
    looks = [calls, reports(summary="Read.")]
    lines = script(**{"security-1": looks})
    with (
        pytest.MonkeyPatch.context() as patch,
        serving(portal, patch, "anthropic", lines) as server,
    ):
        return review(repo, "anthropic", pattern=None), server.requests


def test_a_larger_change_is_split_and_each_file_is_read_by_an_agent(
    split: tuple[Verdict, list[ReceivedRequest]],
) -> None:
    verdict, requests = split
    found = assigned(verdict)
    assert (found.pattern, found.auto, found.bound) == ("team", True, 1_200)
    assert {path for share in found.shares for path in share.paths} == FILES.keys()
    assert all(share.tokens <= 1_200 for share in found.shares)
    roles = {share.role: {p for s in found.shares if s.role == share.role for p in s.paths}
             for share in found.shares}  # fmt: skip
    assert roles.keys() == set(TEAM)
    assert "docs/shop.md" in roles["docs"]
    assert not {"docs/shop.md", "tests/test_cart.py"} & roles["security"]
    assert ".github/workflows/ci.yml" in roles["security"] - roles["qa"] - roles["docs"]
    assert "tests/test_cart.py" in roles["qa"] - roles["architecture"]
    asked_first = first_requests(requests)
    assert {share.agent for share in found.shares} == asked_first.keys() - {"lead"}
    assert {a.agent for a in verdict.agents} == asked_first.keys()
    assert len({text_of(seen)[0] for seen in asked_first.values()}) == 1
    for share in found.shares:
        opening, own = text_of(asked_first[share.agent])
        for path in share.paths:  # each diff stands in the opening or behind the agent's task
            assert f"+++ b/{path}" in opening + own, (share.agent, path)
    security = [own for name, seen in asked_first.items() if name.startswith("security")
                for own in [text_of(seen)[1]]]  # fmt: skip
    assert len(security) > 1
    assert all("who pays?" in own for own in security)
    assert not any("questions" in text_of(seen)[1] for name, seen in asked_first.items()
                   if name.startswith("docs"))  # fmt: skip
    assert verdict.status == "complete"

    # The lead needs no call to see who has which files, and each role is described once.
    brief = text_of(asked_first["lead"])[1]
    assert f'"shares": {json.dumps({s.agent: s.paths for s in found.shares})}' in brief
    assert brief.count("Finds ways in which the change lets someone") == 1


def test_an_agent_that_shares_a_role_has_its_denied_tools(
    split: tuple[Verdict, list[ReceivedRequest]],
) -> None:
    second = [seen for seen in split[1] if seen.agent == "security-1"][1]
    assert "search is denied to security-1 here" in json.dumps(second.body["messages"])


def test_an_agent_is_shown_each_diff_once(split: tuple[Verdict, list[ReceivedRequest]]) -> None:
    second = [seen for seen in split[1] if seen.agent == "security-1"][1]
    whole = json.dumps(second.body["messages"])
    assert "[your first message has the diffs of" in whole
    assert {path: whole.count(f"+++ b/{path}") for path in FILES} == dict.fromkeys(FILES, 1)


@pytest.mark.either_loop
async def test_agents_that_share_a_role_are_told_what_lies_between_their_files(
    tmp_path: Path,
) -> None:
    body = "".join(f"    x = x * {k} + 17\n" for k in range(60))
    old = {
        "shop/cart.py": f"class Item:\n    price: int\n\n\ndef total(x):\n{body}    return x\n",
        "shop/mail.py": f"from shop.cart import total\n\n\ndef send(x):\n{body}    return x\n",
    }
    new = {
        "shop/cart.py": old["shop/cart.py"]
        .replace("price: int", "price: int | None")
        .replace("def total(x)", "def total(x, tax)")
        .replace("+ 17", "+ 18"),
        "shop/mail.py": old["shop/mail.py"].replace("+ 17", "+ 18").replace(
            "    return x", "    return total(x)"
        ),
    }  # fmt: skip
    wrong = {
        "path": "shop/mail.py", "start_line": 65, "end_line": 65, "quote": "return total(x)",
        "title": "total() now needs the tax", "severity": "high", "confidence": 0.9,
    }  # fmt: skip

    def reads(request: Request) -> Response:
        """A reader that reports a caller only if its own task shows it what the callee needs."""
        own = request.messages[0].blocks[-1]
        assert isinstance(own, Text)
        seen = all(part in own.text for part in (
            "shop/mail.py:1, 65 uses total (shop/cart.py:5), which qa-", "reads:\n"
            "    - def total(x):\n    + def total(x, tax):",
        ))  # fmt: skip
        mine = '"paths": ["shop/mail.py"]' in own.text
        return reports(summary="Read.", findings=[wrong] if seen and mine else [])

    repo = change(tmp_path, old, new)
    lines = script(**{"qa-1": [reads], "qa-2": [reads]})
    small = AutoPattern(tokens_per_agent=1600, max_agents=12)
    verdict = await review_in_process(
        repo, ScriptedModel(lines), adjust=lambda given: replace(by_size(given), auto=small)
    )
    shares = {share.agent: share.paths for share in assigned(verdict).shares}
    assert sorted([*shares["qa-1"], *shares["qa-2"]]) == ["shop/cart.py", "shop/mail.py"]
    assert wrong["title"] in {one.title for one in verdict.findings}


@pytest.mark.either_loop
async def test_an_interrupted_run_continues_with_the_same_shares_to_the_same_digest(
    tmp_path: Path,
) -> None:
    repo, clock = change(tmp_path, {"app.py": "X = 1\n"}, FEW), SystemClock()
    whole = await review_in_process(repo, ScriptedModel(script()), adjust=by_size)
    store = MemoryStore(clock)
    await store.create("run", clock.now(), {})
    with anyio.CancelScope() as run:

        def interrupted(request: Request) -> Response:
            run.cancel()
            return reports(summary="Read.")

        cut = script(**{"qa-2": [interrupted]})
        await review_in_process(repo, ScriptedModel(cut), adjust=by_size, store=store)
    assert run.cancelled_caught
    rest = ScriptedModel(script(lead=[sums_up("It adds a shop.")]))
    resumed = await review_in_process(repo, rest, adjust=by_size, store=store)
    assert len(assigned(whole).shares) > len(TEAM)
    assert assigned(resumed) == assigned(whole)
    assert resumed.digest == whole.digest


@pytest.mark.either_loop
async def test_an_agent_that_failed_gets_its_share_again(tmp_path: Path) -> None:
    repo = change(tmp_path, {"app.py": "X = 1\n"}, FEW)
    lines = script(
        lead=[plan("who pays?"), plan(), sums_up("It adds a shop.")],
        **{"qa-1": [ModelError("once"), reports(summary="Read.")]},
    )
    verdict = await review_in_process(repo, ScriptedModel(lines), adjust=by_size)
    second = [agent.agent for agent in verdict.agents if agent.iteration == 2]
    assert second == ["lead", "qa-1"]
    assert verdict.status == "complete"


def test_a_team_that_was_asked_for_is_planned_by_its_lead(
    portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    policy = {**POLICY, DEFAULTS: (AUTO % 12).replace("1200", "500")}
    repo = change(tmp_path, {"app.py": "X = 1\n", **policy}, FEW).path
    with serving(portal, monkeypatch, "anthropic", script()):
        verdict = review(repo, "anthropic", pattern="team")
    found = assigned(verdict)
    assert (found.pattern, found.auto, found.shares) == ("team", False, ())
    assert {agent.agent for agent in verdict.agents} == {"lead", *TEAM}


def test_an_estimate_counts_the_agents_that_the_size_needs(tmp_path: Path) -> None:
    small = change(tmp_path / "small", {"app.py": "X = 1\n", **POLICY}, {"app.py": "X = 2\n"}).path
    few = estimate_cost(options(small, provider="anthropic"))
    assert [share.agent for share in few.shares] == ["generalist"]
    assert any("60,000" in note for note in few.notes)
    repo = large(tmp_path / "large", most=5)
    many = estimate_cost(options(repo, provider="anthropic", allow_spending=True))
    names = [share.agent for share in many.shares]
    assert names[0] == "lead"
    assert len(names) <= 6
    assert {name.partition("-")[0] for name in names[1:]} == {*TEAM}
    assert any("agents read it" in note for note in many.notes)
    assert any("more than that, by page" in note for note in many.notes)


def test_offline_a_team_reviews_and_nothing_is_assigned(tmp_path: Path) -> None:
    repo = change(tmp_path, {"app.py": "X = 1\n"}, {"app.py": "X = 2\n"}).path
    verdict = review(repo, "offline", pattern=None)
    assert verdict.assignment is None
    assert {agent.agent for agent in verdict.agents} == {"lead", *TEAM}
