"""The catalog: all data files of all layers, checked against each other, with digests."""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, to_builtins
from msgspec.structs import asdict, replace

from orchestrator.catalog import plugins, unknown_name_checks
from orchestrator.catalog.agents import KnownNames, Topics, load_agent, load_skill
from orchestrator.catalog.data_file_layers import (
    Layer,
    check_merged,
    find_files,
    find_unused_files,
    find_versions,
)
from orchestrator.catalog.effort import EFFORT_FILE, EffortFile
from orchestrator.catalog.guard_policy import GuardsFile
from orchestrator.catalog.languages import LANGUAGES_FILE, LanguagesFile
from orchestrator.catalog.mcp_servers import McpFile
from orchestrator.catalog.model_config import MODELS_FILE, ModelsConfig, read_models
from orchestrator.catalog.notify_channels import read_channels
from orchestrator.catalog.prices import PRICES_FILE, Prices, PricesFile, find_lowered_prices
from orchestrator.catalog.repository_memory import Dismissal, Preference, read_memory
from orchestrator.catalog.rubrics import load_rubric
from orchestrator.catalog.settings import ALERTS_FILE, AlertThresholds, ReviewSettings, ToolsConfig
from orchestrator.catalog.verdict_policy import VerdictPolicy, WaiverFile
from orchestrator.catalog.yaml_parsing import YamlNode
from orchestrator.catalog.yaml_validation import read_yaml
from orchestrator.data_directories import MEMORY, WAIVERS
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.types import AgentSpec, Json, Rubric, Skill, ToolSpec
from orchestrator.errors import ConfigError

SETTINGS = "config/defaults.yaml"
TOOLS = "config/tools.yaml"
VERDICT = "config/verdict.yaml"
MCP = "config/mcp.yaml"
GUARDS = "config/guards.yaml"

MERGED = (SETTINGS, TOOLS, VERDICT, GUARDS, PRICES_FILE, MCP, LANGUAGES_FILE, EFFORT_FILE)

Tools = Mapping[str, ToolSpec] | Collection[str]
Contracts = Mapping[str, Mapping[str, Json]]


class Catalog(Struct, frozen=True):
    """All agents, skills, rubrics and config of a review.

    Attributes:
        digests: file name in its layer (``agents/lead.md``) → SHA-256 of what was loaded from it;
            a config file's is that of all layers merged.
    """

    agents: Mapping[str, AgentSpec]
    skills: Mapping[str, Skill]
    rubrics: Mapping[str, Rubric]
    settings: ReviewSettings
    tool_policy: ToolsConfig
    verdict_policy: VerdictPolicy
    guards: GuardsFile
    models: ModelsConfig
    prices: Prices
    mcp: McpFile
    languages: LanguagesFile
    effort: EffortFile
    digests: Mapping[str, str]


def load_catalog(
    layers: Sequence[Layer], *, tools: Tools, analyzers: Topics, contracts: Contracts
) -> Catalog:
    """Load and check all data files.

    Args:
        layers: lowest first. A later layer's agent, skill or rubric replaces the earlier one
            of that file name; maps in ``config/*.yaml`` merge, lists and values are replaced.
        analyzers: those of the tools that are analyzers, by topic.
    """
    errors: list[ConfigError] = []
    catalog = _load(layers, frozenset(tools), analyzers, contracts, errors)
    if catalog is None:
        raise errors[0]
    return catalog


def find_problems(
    layers: Sequence[Layer], *, tools: Tools, analyzers: Topics, contracts: Contracts
) -> list[ConfigError]:
    """All errors that ``load_catalog`` would find, and those in what no review reads."""
    errors: list[ConfigError] = []
    _load(layers, frozenset(tools), analyzers, contracts, errors)
    check_merged(layers, ALERTS_FILE, AlertThresholds, errors)  # no review reads it
    try:
        read_channels(layers)  # only when a run has ended
    except ConfigError as error:
        errors.append(error)
    return errors


def _load(
    layers: Sequence[Layer],
    tools: frozenset[str],
    analyzers: Topics,
    contracts: Contracts,
    errors: list[ConfigError],
) -> Catalog | None:
    errors += find_unused_files(layers)
    mcp = check_merged(layers, MCP, McpFile, errors)
    policy = check_merged(layers, TOOLS, ToolsConfig, errors)
    if policy:
        errors += plugins.find_problems(policy[0], plugins.TOOL_PLUGINS, policy[1].plugins, tools)
    own = tools
    tools = tools.union(mcp[1].names() if mcp else (), policy[1].plugins if policy else ())
    model_errors: list[ConfigError] = []
    models = read_models(layers, model_errors)
    known = KnownNames(tools, analyzers, {}, contracts, models)
    skills, agents, rubrics = _load_agents(layers, known, errors)
    settings = check_merged(layers, SETTINGS, ReviewSettings, errors)
    verdict = _check_verdict_policy(layers, own, errors)
    guards = check_merged(layers, GUARDS, GuardsFile, errors)
    languages = check_merged(layers, LANGUAGES_FILE, LanguagesFile, errors)
    effort = check_merged(layers, EFFORT_FILE, EffortFile, errors)
    errors += model_errors
    prices = check_merged(layers, PRICES_FILE, PricesFile, errors)
    if settings:
        errors += unknown_name_checks.check_settings(*settings, agents, rubrics)
        errors += unknown_name_checks.check_tiers(*settings, guards[1].tiers) if guards else ()
        errors += unknown_name_checks.check_models(*settings, models) if models else ()
    if prices:
        errors += find_lowered_prices(prices[1].prices, layers)
    errors += unknown_name_checks.check_policy(*policy, tools, agents) if policy else ()
    errors += unknown_name_checks.check_guard(*guards, tools) if guards else ()
    errors += unknown_name_checks.check_effort(*effort, tools) if effort else ()
    if errors or not (
        settings and policy and verdict and guards and models and prices and mcp and languages
        and effort
    ):  # fmt: skip
        return None
    merged = [settings, policy, verdict, guards, prices, mcp, languages, effort]
    files = {MODELS_FILE: models, **{p: found[1] for p, found in zip(MERGED, merged, strict=True)}}
    files[VERDICT], memory = _apart(verdict[1])
    whole_agents, whole_skills, whole_rubrics = _whole(agents), _whole(skills), _whole(rubrics)
    return Catalog(
        agents=_with_overrides(whole_agents, settings[1]),
        skills=whole_skills,
        rubrics=whole_rubrics,
        settings=settings[1],
        tool_policy=policy[1],
        verdict_policy=verdict[1],
        guards=guards[1],
        models=models,
        prices=prices[1].prices,
        mcp=mcp[1],
        languages=languages[1],
        effort=effort[1],
        digests=_digests(whole_agents, whole_skills, whole_rubrics, {**files, **memory}),
    )


def _load_agents(
    layers: Sequence[Layer], known: KnownNames, errors: list[ConfigError]
) -> tuple[Mapping[str, Skill | None], Mapping[str, AgentSpec | None], Mapping[str, Rubric | None]]:
    """The skills, agents and rubrics, None for those with errors."""
    files = find_files(layers, "skills_catalog/*/SKILL.md").values()
    skills = {file.directory: load_skill(file, known, errors) for file in files}
    known = replace(known, skills=skills)
    files = find_files(layers, "agents/*.md").values()
    agents = {file.stem: load_agent(file, known, errors) for file in files}
    files = find_files(layers, "rubrics/*.yaml").values()
    return skills, agents, {file.stem: load_rubric(file, errors) for file in files}


def _check_verdict_policy(
    layers: Sequence[Layer], tools: frozenset[str], errors: list[ConfigError]
) -> tuple[YamlNode, VerdictPolicy] | None:
    """The policy, with the waivers of the repository's own file beside those of its config.

    Args:
        tools: our own; what tools of MCP servers say is no evidence.
    """
    found = check_merged(layers, VERDICT, VerdictPolicy, errors)
    if found is None:
        return None
    node, policy = found
    errors += unknown_name_checks.check_verdict(node, policy, tools)
    waivers = policy.waivers
    for file in find_versions(layers, WAIVERS):
        try:
            waivers += read_yaml(WaiverFile, file.data, file.display_path).waivers
        except ConfigError as error:
            errors.append(error)
    return node, replace(policy, waivers=(*waivers, *read_memory(layers, errors)))


def _apart(policy: VerdictPolicy) -> tuple[VerdictPolicy, Mapping[str, Struct]]:
    """The policy without the repository's memory, and that; each has a digest of its own.

    What a person remembers does not make an earlier review one of another policy.
    """
    remembered = [one for one in policy.waivers if isinstance(one, Dismissal | Preference)]
    rest = tuple(one for one in policy.waivers if not isinstance(one, Dismissal | Preference))
    memory = WaiverFile(waivers=tuple(remembered))
    return replace(policy, waivers=rest), {MEMORY: memory} if remembered else {}


def _digests(
    agents: Mapping[str, AgentSpec],
    skills: Mapping[str, Skill],
    rubrics: Mapping[str, Rubric],
    config: Mapping[str, Struct],
) -> Mapping[str, str]:
    """File name in its layer → SHA-256 of what was loaded from it."""
    whole = {f"rubrics/{name}.yaml": rubric for name, rubric in rubrics.items()} | dict(config)
    return {
        **{f"agents/{name}.md": agent.digest for name, agent in agents.items()},
        **{f"skills_catalog/{name}/SKILL.md": skill.digest for name, skill in skills.items()},
        **{path: digest(to_builtins(content)) for path, content in whole.items()},
    }


def _with_overrides(
    agents: Mapping[str, AgentSpec], settings: ReviewSettings
) -> Mapping[str, AgentSpec]:
    """Replace models and limits of agents by those that the settings give them."""
    if settings.model is not None:
        agents = {name: replace(agent, model=settings.model) for name, agent in agents.items()}
    changed = {}
    for name, given in settings.agents.items():
        limits = {key: value for key, value in asdict(given).items() if value is not None}
        model = limits.pop("model", agents[name].model)
        bounds = replace(agents[name].bounds, **limits)
        changed[name] = replace(agents[name], model=model, bounds=bounds)
    return {**agents, **changed}


Item = TypeVar("Item")


def _whole(items: Mapping[str, Item | None]) -> Mapping[str, Item]:
    return {name: item for name, item in items.items() if item is not None}
