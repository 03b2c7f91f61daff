"""Tools and guards of other installed packages: on by name, and otherwise without effect."""

import json
from pathlib import Path

import pytest

from orchestrator.engine.observer_events import Event
from orchestrator.errors import ConfigError
from tests.review.review_kit import Repo, change, review
from tests.scripted_model import ScriptedModel, text_reply, tool_call_reply
from tests.torture.own_secrets import alone

CODE = """
from orchestrator import Detection, Ruling, tool

LOADED = True


@tool(tags=["tickets"])
async def ticket(number: int = 7) -> str:
    \"\"\"Look a ticket up.\"\"\"
    return f"ticket {number} is open"


class Shouting:
    name = "shouting"
    places = frozenset({"report"})

    def detect(self, text):
        return Detection("shouting", text.lower()) if text.isupper() else None


class Office:
    name = "office"

    def check(self, call):
        closed = call.tool.name == "ticket" and call.arguments.get("number") == 8
        return Ruling("block", "ticket 8 is closed") if closed else Ruling()

    def admitted(self, call):
        pass

    withdrawn = admitted


def broken():
    raise RuntimeError("no license")
"""
ENTRY_POINTS = """
[diffcourt.tools]
ticket = acme_plugin:ticket
broken = acme_plugin:broken

[diffcourt.guards]
shouting = acme_plugin:Shouting
office = acme_plugin:Office
"""
AGENT = """---
name: generalist
description: Reviews alone.
tools: [ticket, links]
metadata: {contract: report}
---
Review.
"""
TOOLS = ".diffcourt/config/tools.yaml"
GUARDS = ".diffcourt/config/guards.yaml"
ON = {TOOLS: "plugins: [ticket]\n", ".diffcourt/agents/generalist.md": AGENT}


@pytest.fixture(autouse=True)
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with plugins, installed."""
    site = tmp_path / "site"
    info = site / "acme_plugin-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "acme_plugin.py").write_text(CODE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(site))


def repo(folder: Path, **more: str) -> Repo:
    return change(folder / "repo", {**ON, **more}, {"a.md": "A guide.\n"})


def script(summary: str = "READ IT ALL") -> ScriptedModel:
    report = {"summary": summary, "findings": [], "checked": ["a.md"], "gaps": []}
    calls = tool_call_reply(("ticket", {"number": 7}), ("ticket", {"number": 8}))
    return ScriptedModel({"generalist": [calls, text_reply(json.dumps(report))]})


async def test_a_tool_of_a_plugin_is_called_like_any_other(tmp_path: Path) -> None:
    events: list[Event] = []
    await review(repo(tmp_path), script(), adjust=alone, observer=events.append)
    ended = [e for e in events if e.kind == "tool_finished" and e.tool == "ticket"]
    assert sorted((e.detail, e.data) for e in ended) == [
        ("ok", "ticket 7 is open"),
        ("ok", "ticket 8 is open"),
    ]


async def test_guards_of_a_plugin_rule_as_the_config_says(tmp_path: Path) -> None:
    on = "tool: {office: {ci: block, local: block}}\noutput: {shouting: {ci: modify, local: modify}}\n"
    place = repo(tmp_path, **{GUARDS: f"plugins: [office, shouting]\n{on}"})
    verdict = await review(place, script(), adjust=alone)
    ruled = {(r.layer, r.guard, r.action, r.reason) for r in verdict.guards}
    assert ("tool", "office", "block", "ticket 8 is closed") in ruled
    assert ("output", "shouting", "modify", "shouting") in ruled


async def test_an_installed_plugin_that_is_not_named_does_nothing(tmp_path: Path) -> None:
    place = repo(tmp_path, **{TOOLS: "plugins: []\n"})
    with pytest.raises(ConfigError, match="unknown tool 'ticket'"):
        await review(place)
    place = change(tmp_path / "plain", {}, {"a.md": "A guide.\n"})
    assert (await review(place)).status == "complete"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {TOOLS: "plugins: [ticket, weather]\n"},
            "tools.yaml:1: the plugin 'weather' is not installed; install the package that has it "
            "as an entry point of diffcourt.tools, or remove it here; installed: broken, ticket",
        ),
        ({TOOLS: "plugins: [ticket, links]\n"}, "the plugin 'links' has the name of a built-in"),
        ({TOOLS: "plugins: [ticket, broken]\n"}, "'broken' cannot be loaded .RuntimeError: no lic"),
        ({GUARDS: "plugins: [weather]\n"}, "guards.yaml:1: the plugin 'weather' is not installed"),
        ({GUARDS: "plugins: [office]\n"}, "'office' has no action; add it to input, tool or out"),
        ({GUARDS: "output: {shouting: {ci: off, local: off}}\n"}, "unknown guard 'shouting'"),
    ],
)
async def test_an_error_in_a_plugin_is_one_line(
    tmp_path: Path, config: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        await review(repo(tmp_path, **config))
    assert "\n" not in str(caught.value)
