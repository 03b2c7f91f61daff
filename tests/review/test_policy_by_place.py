"""Tools by environment, and budgets by the tier of the change's author."""

from pathlib import Path
from typing import Literal

import pytest

from orchestrator.app.policy_sources import read_layers
from orchestrator.code_review.change.change_construction import from_refs
from orchestrator.code_review.policy_loading import read_policy
from orchestrator.errors import ConfigError, InputError
from tests.review.review_kit import change, review

pytestmark = pytest.mark.attack("policy that the change brings")

TOOLS = ".diffcourt/config/tools.yaml"
DEFAULTS = ".diffcourt/config/defaults.yaml"
MARKDOWN = {"guide.md": "# Guide\n\nRead " + "te" + "h" + " [the rest](rest.md).\n"}


@pytest.mark.parametrize(("environment", "found"), [("ci", False), ("local", True)])
async def test_a_tool_is_switched_by_environment(
    tmp_path: Path, environment: Literal["ci", "local"], found: bool
) -> None:
    repo = change(tmp_path, {TOOLS: "environments: {ci: {deny: [links]}}\n"}, MARKDOWN)
    verdict = await review(repo, environment=environment)
    assert ("docs.broken-link" in {finding.rule for finding in verdict.findings}) == found
    assert verdict.status == "complete"


async def test_an_environment_keeps_only_the_tools_that_it_allows(tmp_path: Path) -> None:
    repo = change(tmp_path, {TOOLS: "environments: {local: {allow: [links]}}\n"}, MARKDOWN)
    verdict = await review(repo)
    assert {finding.rule for finding in verdict.findings} == {"docs.broken-link"}


async def test_a_misspelled_tool_of_an_environment_is_an_error(tmp_path: Path) -> None:
    repo = change(tmp_path, {TOOLS: "environments: {ci: {deny: [link]}}\n"}, MARKDOWN)
    with pytest.raises(ConfigError, match=r"tools.yaml:1: unknown tool 'link'; did you mean"):
        await review(repo)


async def test_bounds_differ_by_the_authors_tier(tmp_path: Path) -> None:
    tiers = "bounds: {tool_calls: 50, tiers: {outside: {tool_calls: 2, usd: 0.5}}}\n"
    repo = change(tmp_path, {DEFAULTS: tiers}, {"a.py": "import os\n"})
    layers = await read_layers(await from_refs(repo.path, "HEAD~1", "HEAD"))
    member = read_policy(layers).settings.run_bounds
    outside = read_policy(layers, author_tier="outside").settings.run_bounds
    assert (member.tool_calls, member.usd) == (50, 2.0)
    assert (outside.tool_calls, outside.usd, outside.tokens) == (2, 0.5, member.tokens)
    assert (await review(repo, tier="outside")).stop.reason == "budget"
    with pytest.raises(InputError, match="DIFFCOURT_TIER is 'nobody'"):
        read_policy(layers, author_tier="nobody")


async def test_bounds_of_an_unknown_tier_are_an_error(tmp_path: Path) -> None:
    repo = change(tmp_path, {DEFAULTS: "bounds: {tiers: {guest: {usd: 1}}}\n"}, MARKDOWN)
    with pytest.raises(ConfigError, match="unknown tier 'guest'; allowed: member, outside"):
        await review(repo)
