"""Names in the config that do not exist: a rule for a misspelled tool protects nothing."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from orchestrator.catalog.effort import EffortFile
from orchestrator.catalog.guard_policy import (
    ALL_ACTIONS,
    CONFIRMABLE,
    GUARDS,
    GuardAction,
    GuardActions,
    GuardLayer,
    GuardsFile,
    TierOverride,
)
from orchestrator.catalog.model_config import ModelsConfig
from orchestrator.catalog.plugins import GUARD_PLUGINS, find_problems
from orchestrator.catalog.settings import ReviewSettings, ToolsConfig
from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.catalog.verdict_policy import VerdictPolicy
from orchestrator.catalog.yaml_parsing import YamlNode
from orchestrator.catalog.yaml_validation import describe_unknown_name
from orchestrator.errors import ConfigError

JUDGE = "judge"

ConfigErrors = Iterator[ConfigError]


def check_settings(
    node: YamlNode, settings: ReviewSettings, agents: Collection[str], rubrics: Collection[str]
) -> ConfigErrors:
    """Errors for agents and rubrics in the settings that have no file."""
    yield from _check_known(node, "agent", [settings.lead], agents, "lead")
    yield from _check_known(node, "agent", [settings.single], agents, "single")
    yield from _check_known(node, "agent", settings.specialists, agents, "specialists")
    yield from _check_known(node, "agent", settings.auto.beside, agents, "auto", "beside")
    yield from _check_known(node, "rubric", [settings.rubric], rubrics, "rubric")
    for name in settings.agents:
        yield from _check_known(node, "agent", [name], agents, "agents", name)
    for at, name in enumerate(settings.specialists):
        if name in settings.specialists[:at]:
            yield node.error(f"{name!r} appears twice; name it once", "specialists", at)
    fixes, proofs, verify = settings.fixes.agent, settings.proofs.agent, settings.verify.agent
    for part, agent in (("fixes", fixes), ("proofs", proofs), ("verify", verify)):
        if agent is not None:
            yield from _check_known(node, "agent", [agent], agents, part, "agent")
    if settings.judge and JUDGE not in agents:
        message = f"judge is true, so agents/{JUDGE}.md is needed; add it or set judge: false"
        yield node.error(message, "judge")


def check_tiers(node: YamlNode, settings: ReviewSettings, tiers: Collection[str]) -> ConfigErrors:
    """Errors for bounds of tiers that ``config/guards.yaml`` does not have."""
    for name in settings.bounds.tiers:
        yield from _check_known(node, "tier", [name], tiers, "bounds", "tiers", name)


def check_models(node: YamlNode, settings: ReviewSettings, config: ModelsConfig) -> ConfigErrors:
    """Errors for providers and models in the settings that there cannot be."""
    known = [OFFLINE, *config.providers]
    yield from _check_known(node, "provider", [settings.provider], known, "provider")
    named: list[tuple[tuple[str, ...], str | None]] = [(("model",), settings.model)]
    named += [(("agents", name, "model"), one.model) for name, one in settings.agents.items()]
    for path, model in named:
        if model is not None and (problem := config.name_error(model)):
            yield node.error(problem, *path)


def check_policy(
    node: YamlNode, policy: ToolsConfig, tools: Collection[str], agents: Collection[str]
) -> ConfigErrors:
    """Errors for agents and tools in the tool policy that do not exist."""
    for name, access in policy.agents.items():
        yield from _check_known(node, "agent", [name], agents, "agents", name)
        yield from _check_known(node, "tool", access.allow or (), tools, "agents", name, "allow")
        yield from _check_known(node, "tool", access.deny, tools, "agents", name, "deny")
    environments = {"ci": policy.environments.ci, "local": policy.environments.local}
    for name, where in environments.items():
        at = ("environments", name)
        yield from _check_known(node, "tool", where.allow or (), tools, *at, "allow")
        yield from _check_known(node, "tool", where.deny, tools, *at, "deny")
    for name in policy.tools:
        yield from _check_known(node, "tool", [name], tools, "tools", name)


def check_effort(node: YamlNode, table: EffortFile, tools: Collection[str]) -> ConfigErrors:
    """Errors for tools in the table of effort that do not exist."""
    for name, kind in table.findings.items():
        yield from _check_known(node, "tool", kind.tools, tools, "findings", name, "tools")
    yield from _check_known(node, "tool", table.trivial.tools, tools, "trivial", "tools")


def check_guard(node: YamlNode, file: GuardsFile, tools: Collection[str]) -> ConfigErrors:
    """Errors for guards, tiers and tools that do not exist, and for actions of the wrong guard."""
    shipped = {name for guards in GUARDS.values() for name in guards}
    yield from find_problems(node, GUARD_PLUGINS, file.plugins, shipped)
    placed = {name for layer in GUARDS for name in file.layer(layer)}
    for at, name in enumerate(file.plugins):
        if name not in placed:
            yield node.error(
                f"the plugin {name!r} has no action; add it to input, tool or output", "plugins", at
            )
    for layer, ours in GUARDS.items():
        guards = file.layer(layer)
        known = {**ours, **_actions_of_plugins(file, layer)}
        yield from _check_known(node, "guard", sorted(guards.keys() - known.keys()), known, layer)
        for name in sorted(known.keys() - guards.keys()):
            yield node.error(f"the guard {name!r} is missing in {layer}", layer)
        for name in sorted(known.keys() & guards.keys()):
            yield from _check_actions(node, file, layer, name)
    for at, claim in enumerate(file.claims):
        yield from _check_known(node, "tool", claim.tools, tools, "claims", at, "tools")


def _actions_of_plugins(
    file: GuardsFile, layer: GuardLayer
) -> Mapping[str, Collection[GuardAction]]:
    """The actions that may be set for the plugins that stand in a layer."""
    allowed = CONFIRMABLE if layer == "tool" else ALL_ACTIONS
    return dict.fromkeys((name for name in file.plugins if name in file.layer(layer)), allowed)


def _check_actions(node: YamlNode, file: GuardsFile, layer: GuardLayer, name: str) -> ConfigErrors:
    known = {**GUARDS[layer], **_actions_of_plugins(file, layer)}
    guard, allowed = file.layer(layer)[name], known[name]
    yield from _check_known(node, "tier", guard.tiers, file.tiers, layer, name)
    places: list[GuardActions | TierOverride] = [guard, *guard.tiers.values()]
    for where in places:
        for action in (where.ci, where.local):
            if action is not None and action not in allowed:
                may = ", ".join(allowed)
                yield node.error(f"{name} may not {action}; allowed: {may}", layer, name)


def check_verdict(node: YamlNode, policy: VerdictPolicy, tools: Collection[str]) -> ConfigErrors:
    """Errors for tools of required checks that do not exist."""
    for at, rule in enumerate(policy.required_checks):
        yield from _check_known(node, "tool", rule.tools, tools, "required_checks", at, "tools")


def _check_known(
    node: YamlNode, kind: str, names: Iterable[str], known: Collection[str], *path: str | int
) -> ConfigErrors:
    """An error for each unknown name, at its position in the list or value at ``path``."""
    for at, name in enumerate(names):
        if name not in known:
            yield node.error(describe_unknown_name(kind, name, known), *path, at)
