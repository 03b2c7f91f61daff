"""The catalog: every data file of all layers, loaded, checked against each other, and digested."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from msgspec import Struct, to_builtins

from orchestrator.catalog.agents import KnownNames, load_agent
from orchestrator.catalog.guard_policy import GuardsFile
from orchestrator.catalog.layers import Layer, check_merged, find_files, find_unused_files
from orchestrator.catalog.mcp_servers import McpFile
from orchestrator.catalog.models import MODELS_FILE, ModelsConfig, read_models
from orchestrator.catalog.prices import PRICES_FILE, Prices, PricesFile
from orchestrator.catalog.reference_checks import (
    check_guard,
    check_policy,
    check_provider,
    check_settings,
    check_verdict,
)
from orchestrator.catalog.rubrics import load_rubric
from orchestrator.catalog.settings import Settings, ToolsConfig
from orchestrator.catalog.skills import load_skill
from orchestrator.catalog.verdict_policy import VerdictPolicy
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.types import AgentSpec, Json, Rubric, Skill, ToolSpec
from orchestrator.errors import ConfigError

SETTINGS = "config/defaults.yaml"
TOOLS = "config/tools.yaml"
VERDICT = "config/verdict.yaml"
MCP = "config/mcp.yaml"
GUARDS = "config/guards.yaml"

Tools = Mapping[str, ToolSpec] | Collection[str]
Contracts = Mapping[str, Mapping[str, Json]]


class Catalog(Struct, frozen=True):
    """What is installed, by name.

    Attributes:
        digests: file name in its layer (``agents/lead.md``) → SHA-256 of what was loaded from it;
            a config file's is that of all layers merged.
    """

    agents: Mapping[str, AgentSpec]
    skills: Mapping[str, Skill]
    rubrics: Mapping[str, Rubric]
    settings: Settings
    tool_policy: ToolsConfig
    verdict_policy: VerdictPolicy
    guards: GuardsFile
    models: ModelsConfig
    prices: Prices
    mcp: McpFile
    digests: Mapping[str, str]


def load_catalog(sources: Sequence[Layer], *, tools: Tools, contracts: Contracts) -> Catalog:
    """Load and check everything.

    Args:
        sources: lowest layer first. A later layer's agent, skill or rubric replaces the earlier one
            of that file name; maps in ``config/*.yaml`` merge, lists and values are replaced.
        tools: the tools that exist; those that ``config/mcp.yaml`` names exist besides.
        contracts: the report forms that exist: name → JSON Schema.

    Raises:
        ConfigError: the first fault.
    """
    faults: list[ConfigError] = []
    catalog = _load(sources, frozenset(tools), contracts, faults)
    if catalog is None:
        raise faults[0]
    return catalog


def find_problems(
    sources: Sequence[Layer], *, tools: Tools, contracts: Contracts
) -> list[ConfigError]:
    """Every fault at once, as ``load_catalog`` would find them; empty when all is well."""
    faults: list[ConfigError] = []
    _load(sources, frozenset(tools), contracts, faults)
    return faults


def _load(
    sources: Sequence[Layer],
    tools: frozenset[str],
    contracts: Contracts,
    faults: list[ConfigError],
) -> Catalog | None:
    faults += find_unused_files(sources)
    mcp = check_merged(sources, MCP, McpFile, faults)
    own, tools = tools, tools | frozenset(mcp[1].names() if mcp else ())
    skill_files = find_files(sources, "skills_catalog/*/SKILL.md")
    agent_files = find_files(sources, "agents/*.md")
    rubric_files = find_files(sources, "rubrics/*.yaml")
    skills = {file.directory: load_skill(file, tools, faults) for file in skill_files.values()}
    of_models: list[ConfigError] = []
    models = read_models(sources, of_models)
    known = KnownNames(tools, skills, contracts, models.stage_names if models else None)
    agents = {file.stem: load_agent(file, known, faults) for file in agent_files.values()}
    rubrics = {file.stem: load_rubric(file, faults) for file in rubric_files.values()}
    settings = check_merged(sources, SETTINGS, Settings, faults)
    policy = check_merged(sources, TOOLS, ToolsConfig, faults)
    verdict = check_merged(sources, VERDICT, VerdictPolicy, faults)
    guards = check_merged(sources, GUARDS, GuardsFile, faults)
    faults += of_models
    prices = check_merged(sources, PRICES_FILE, PricesFile, faults)
    if settings:
        faults += check_settings(*settings, agents, rubrics)
    if settings and models:
        faults += check_provider(*settings, models.providers)
    if policy:
        faults += check_policy(*policy, tools, agents)
    if verdict:
        faults += check_verdict(*verdict, own)  # a tool from elsewhere is no evidence
    if guards:
        faults += check_guard(*guards, tools)
    if faults or not (settings and policy and verdict and guards and models and prices and mcp):
        return None
    merged = [settings, policy, verdict, guards, prices, mcp]
    paths = [SETTINGS, TOOLS, VERDICT, GUARDS, PRICES_FILE, MCP]
    files = {MODELS_FILE: models, **{p: found[1] for p, found in zip(paths, merged, strict=True)}}
    whole_agents, whole_skills, whole_rubrics = _whole(agents), _whole(skills), _whole(rubrics)
    return Catalog(
        agents=whole_agents,
        skills=whole_skills,
        rubrics=whole_rubrics,
        settings=settings[1],
        tool_policy=policy[1],
        verdict_policy=verdict[1],
        guards=guards[1],
        models=models,
        prices=prices[1].prices,
        mcp=mcp[1],
        digests=_digests(whole_agents, whole_skills, whole_rubrics, files),
    )


def _digests(
    agents: Mapping[str, AgentSpec],
    skills: Mapping[str, Skill],
    rubrics: Mapping[str, Rubric],
    config: Mapping[str, Struct],
) -> Mapping[str, str]:
    """File name in its layer → SHA-256 of what was loaded from it."""
    whole = {f"rubrics/{name}.yaml": rubric for name, rubric in rubrics.items()} | dict(config)
    return MappingProxyType(
        {
            **{f"agents/{name}.md": agent.digest for name, agent in agents.items()},
            **{f"skills_catalog/{name}/SKILL.md": skill.digest for name, skill in skills.items()},
            **{path: digest(to_builtins(content)) for path, content in whole.items()},
        }
    )


Item = TypeVar("Item")


def _whole(items: Mapping[str, Item | None]) -> Mapping[str, Item]:
    return MappingProxyType({name: item for name, item in items.items() if item is not None})
