"""The table of tools agrees with what stands behind it."""

from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.code_review.policy_loading import load_rules, read_catalog
from orchestrator.code_review.tools.registry import ANALYZERS, TOOLS


def test_every_rule_names_a_tool_that_exists() -> None:
    families = {"ruff", "taint", *ANALYZERS}
    for rule in load_rules([read_shipped_layer()]).rules.values():
        assert {code.split(":")[0] for code in rule.codes} <= families, rule.id
        assert rule.example is not None, rule.id


def test_every_tool_that_an_agent_lists_exists_and_is_used() -> None:
    catalog = read_catalog([read_shipped_layer()])
    listed = {tool for agent in catalog.agents.values() for tool in agent.tools}
    # Base gives the first to an agent, with hosts; code calls the others.
    assert listed == set(TOOLS) - {"http_get", "prove_fixes", "prove_finding"}
