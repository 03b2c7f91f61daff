"""List the effective catalog and its rules, the repository's ``.diffcourt/`` included."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
from msgspec.structs import replace

from diffchecks.rules import Rule
from orchestrator.app.check_worker_startup import new_pool
from orchestrator.app.policy_sources import read_layers_on_disk
from orchestrator.app.types import CatalogListing
from orchestrator.catalog.catalog import find_problems
from orchestrator.code_review.agent_report_contracts import contracts
from orchestrator.code_review.analyzers import check_data_files
from orchestrator.code_review.change.contents import Contents
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.policy_loading import check_references, load_rules, read_catalog
from orchestrator.code_review.review_workspace import IterationFocus, ReviewWorkspace
from orchestrator.code_review.tools.analyzer_tools import Analysis
from orchestrator.code_review.tools.registry import TOOLS, TOPICS, build
from orchestrator.code_review.tools.tool_inputs import ToolInputs
from orchestrator.errors import ConfigError

Readers = Mapping[str, Mapping[str, Sequence[str]]]
"""Language → topic → the analyzers that read it as code."""


def list_rules(repo: Path | None) -> list[Rule]:
    """The effective rules, the repository's ``.diffcourt/`` on disk included."""
    return list(load_rules(read_layers_on_disk(repo)).rules.values())


def shipped_rules() -> dict[str, Rule]:
    """The rules that come with the program, by id."""
    return load_rules(read_layers_on_disk(None)[:1]).rules


def list_readers(repo: Path | None) -> Readers:
    """The analyzers that read each language as code, with patterns of ``.diffcourt/``."""
    layers = read_layers_on_disk(repo)
    rules, catalog = load_rules(layers), read_catalog(layers)
    change = Change(base="", head="", base_tree="", head_tree="", git_dir="")
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        limiter = anyio.CapacityLimiter(1)
        workspace = ReviewWorkspace(change, rules, Contents(change), root, {}, 0, limiter)
        data = check_data_files.write_all(layers, root)
        built_in = replace(catalog.settings, analyzers={}, tests=None, typecheck=None)
        inputs = ToolInputs(workspace, new_pool(), built_in, IterationFocus(), (), data)
        built = build(inputs, replace(catalog.tool_policy, plugins=()))
        tools = [
            tool
            for tool in built
            # What reads a file whatever its name is, since a program runs it, tells of no language.
            if isinstance(tool, Analysis) and not tool.reads("a.unknown")
        ]
    found: dict[str, dict[str, list[str]]] = {}
    for language, entry in catalog.languages.languages.items():
        if entry.kind == "settings":  # as far as its text goes
            continue
        names = catalog.languages.sample_names(language)
        reading = {tool.spec.name for tool in tools if any(map(tool.reads, names))}
        by_topic = {topic: sorted(reading.intersection(names)) for topic, names in TOPICS.items()}
        found[language] = {topic: tools for topic, tools in by_topic.items() if tools}
    return found


def list_catalog(repo: Path | None) -> CatalogListing:
    """The effective catalog, the repository's ``.diffcourt/`` on disk included."""
    layers = read_layers_on_disk(repo)
    tools = list(TOOLS.items())
    errors = find_problems(layers, tools=TOOLS.keys(), analyzers=TOPICS, contracts=contracts())
    try:
        table = load_rules(layers)
        found = read_catalog(layers)
        check_references(found, table, layers)
    except ConfigError as error:
        errors += [error] if str(error) not in map(str, errors) else []
    if errors:
        return CatalogListing(tools, errors)
    return CatalogListing(
        tools,
        agents=[(agent.name, agent.description) for agent in found.agents.values()],
        skills=[(skill.name, skill.description) for skill in found.skills.values()],
        rubrics=[(rubric.name, rubric.description) for rubric in found.rubrics.values()],
    )
