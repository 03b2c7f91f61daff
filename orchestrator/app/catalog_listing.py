"""List the effective catalog and its rules, the repository's ``.diffcourt/`` included."""

from pathlib import Path

from orchestrator.app.policy_sources import read_layers_on_disk
from orchestrator.app.types import CatalogListing
from orchestrator.catalog.catalog import find_problems
from orchestrator.code_review.agent_report_contracts import contracts
from orchestrator.code_review.policy_loading import check_references, read_catalog
from orchestrator.code_review.rule_table import Rule, load_rules
from orchestrator.code_review.tools.registry import TOOLS
from orchestrator.errors import ConfigError


def list_rules(repo: Path | None) -> list[Rule]:
    """The effective rules, the repository's ``.diffcourt/`` on disk included.

    Raises:
        ConfigError: the first error in a file.
    """
    return list(load_rules(read_layers_on_disk(repo)).rules.values())


def list_catalog(repo: Path | None) -> CatalogListing:
    """The effective catalog, the repository's ``.diffcourt/`` on disk included."""
    layers = read_layers_on_disk(repo)
    tools = list(TOOLS.items())
    errors = find_problems(layers, tools=TOOLS.keys(), contracts=contracts())
    try:
        table = load_rules(layers)
        found = read_catalog(layers)
        check_references(found, table, layers)
    except ConfigError as error:
        errors += [error] if str(error) not in map(str, errors) else []
    if errors:
        return CatalogListing([], [], tools, [], errors)
    return CatalogListing(
        [(agent.name, agent.description) for agent in found.agents.values()],
        [(skill.name, skill.description) for skill in found.skills.values()],
        tools,
        [(rubric.name, rubric.description) for rubric in found.rubrics.values()],
        [],
    )
