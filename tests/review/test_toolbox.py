"""The table of tools agrees with what stands behind it."""

from importlib import import_module

import pytest

from orchestrator.catalog.source import shipped
from orchestrator.review.analysers.compare import CompareCheck
from orchestrator.review.ground import Ground
from orchestrator.review.opening import read_catalog
from orchestrator.review.rules import load_rules
from orchestrator.review.toolbox import ANALYSERS, TOOLS, OfChange

COMPARED = sorted(name for name, entry in ANALYSERS.items() if isinstance(entry, OfChange))


@pytest.mark.parametrize("name", COMPARED)
def test_a_compare_check_is_given_the_files_that_its_module_asks_for(name: str) -> None:
    analyser = ANALYSERS[name].make(Ground(None, None, (), None, (), (), ()))  # type: ignore[arg-type]
    assert isinstance(analyser, CompareCheck)
    module = import_module(f"orchestrator.review.checks.{name}")
    assert analyser._whole_tree is module.NEEDS_TREE
    # The first counts source of any kind as untested, the others want nothing without being told.
    if name not in {"tests_touched", "uncovered_lines", "run_tests"}:
        assert list(analyser._patterns) == module.PATTERNS


def test_every_rule_names_a_tool_that_exists() -> None:
    families = {"ruff", "taint", *ANALYSERS}
    for rule in load_rules([shipped()]).rules.values():
        assert {code.split(":")[0] for code in rule.codes} <= families, rule.id
        assert rule.example is not None, rule.id


def test_every_tool_that_an_agent_lists_exists_and_is_used() -> None:
    catalog = read_catalog([shipped()])
    listed = {tool for agent in catalog.agents.values() for tool in agent.tools}
    assert listed == set(TOOLS)
