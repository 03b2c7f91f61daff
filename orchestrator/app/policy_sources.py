"""Reads the policy from the shipped files and the repository's ``.diffcourt/`` in base."""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from diffchecks.safe_paths import SafeDirectory
from orchestrator.app.configuration_consent import (
    HOW_TO_ALLOW_SPENDING,
    decide_consent,
    private_paths,
)
from orchestrator.app.runs.state_directory import repo_root
from orchestrator.app.types import ReviewOptions
from orchestrator.catalog.catalog import GUARDS, SETTINGS, Catalog
from orchestrator.catalog.data_file_layers import (
    Layer,
    make_overlay,
    read_merged,
    read_shipped_layer,
)
from orchestrator.catalog.guard_policy import GuardsFile
from orchestrator.catalog.prices import Prices, load_prices
from orchestrator.catalog.settings import ReviewSettings
from orchestrator.catalog.shared_literals import HOST, OFFLINE, Environment
from orchestrator.catalog.yaml_validation import describe_unknown_name
from orchestrator.ci_systems import find_ci_system
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.change.git.objects import Commits, Objects, list_tree
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.policy_loading import Policy, read_policy
from orchestrator.data_directories import DATA_DIRECTORIES, MEMORY, OVERLAY, WAIVERS
from orchestrator.engine.types import AgentSpec
from orchestrator.errors import InputError

BOUNDS = ("iterations", "tool_calls", "minutes", "tokens", "usd")
EVERYONE = ""
"""Stands for all agents whose model no option names."""

TIER = "DIFFCOURT_TIER"
"""Environment variable: the trust tier of the change's author, named in config/guards.yaml."""


def detect_environment() -> Environment:
    """``ci`` in a job of a known CI system; else ``local``."""
    return "ci" if find_ci_system(os.environ) else "local"


def detect_author_tier() -> str:
    """The trust tier of the change's author; empty: the default of the configuration."""
    return os.environ.get(TIER, "").strip()


def load_policy(layers: Sequence[Layer], options: ReviewOptions) -> Policy:
    """Read the policy of a review, with the options of the command line applied."""
    policy = read_policy(layers, environment=detect_environment(), author_tier=detect_author_tier())
    options = decide_consent(options, os.environ)
    catalog, asked = policy.catalog, _read_models(policy.catalog, options.models)
    everyone = catalog.models.split(asked.get(EVERYONE, ""))[0]
    if everyone and options.provider is None:
        options = replace(options, provider=everyone)
    settings, notes = policy.settings, tuple[str, ...]()
    if not options.allow_spending:
        shipped = read_merged(layers[:1], SETTINGS, ReviewSettings)
        settings, notes = _restrict_spending(settings, shipped, options)
    settings = _apply_options(settings, options)
    if asked and not settings.has_model:
        raise InputError("--model needs a provider, since no model is called offline; add one")
    catalog, more = _place_agents(catalog, asked, settings.provider, options)
    notes += more
    return replace(
        policy,
        catalog=catalog,
        settings=settings,
        run_tests=bool(options.run_tests),
        run_analyzers=bool(options.run_analyzers),
        private_paths=private_paths(options.repo, os.environ),
        checkout=repo_root(options.repo or Path()).resolve(),
        notes=notes,
    )


def _read_models(catalog: Catalog, given: Sequence[str]) -> dict[str, str]:
    """Agent → model, of ``--model``; the model of all others is under ``EVERYONE``."""
    asked: dict[str, str] = {}
    for text in given:
        agent, _, model = text.rpartition("=")
        problem = catalog.models.name_error(model) if model.strip() else "names no model"
        if agent and agent not in catalog.agents:
            problem = describe_unknown_name("agent", agent, catalog.agents)
        if problem:
            raise InputError(f"--model {text}: {problem}")
        asked[agent] = model
    return asked


def _place_agents(
    catalog: Catalog, asked: Mapping[str, str], provider: str, options: ReviewOptions
) -> tuple[Catalog, tuple[str, ...]]:
    """The catalog with the models that the user asks for, and notes for a person.

    Without consent to spend, base names no provider that the user has not named: its agents use the
    run's own, at the same stage.
    """
    split, agents, taken = catalog.models.split, dict[str, AgentSpec](), dict[str, list[str]]()
    allowed = {provider, *(split(model, provider)[0] for model in asked.values())}
    for name, spec in catalog.agents.items():
        model = asked.get(name) or asked.get(EVERYONE) or spec.model
        vendor, own = split(model, provider)
        keyless = provider in {OFFLINE, HOST}
        if vendor not in allowed and (keyless or not options.allow_spending):
            taken.setdefault(vendor, []).append(name)
            model = catalog.models.stage_of(vendor, own) or own
        # All agents wait for one coding agent: only the run's own time counts.
        seconds = math.inf if provider == HOST else spec.bounds.seconds
        agents[name] = replace(spec, model=model, bounds=replace(spec.bounds, seconds=seconds))
    why = f"which nobody allowed here, so this run uses {provider}; {HOW_TO_ALLOW_SPENDING}"
    if provider == OFFLINE:
        why = "but this run is offline and calls no model; choose a provider with --provider"
    if provider == HOST:
        why = "but the coding agent that called this review answers all of them"
    notes = (f"base gives {', '.join(names)} to {name}, {why}" for name, names in taken.items())
    return replace(catalog, agents=agents), tuple(notes)


def _restrict_spending(
    settings: ReviewSettings, shipped: ReviewSettings, options: ReviewOptions
) -> tuple[ReviewSettings, tuple[str, ...]]:
    """The settings without spending that only base asks for, and notes about that for a person.

    Bounds are restricted offline too: a paid provider may judge the run again later.
    """
    given, most, notes = settings.bounds, shipped.bounds, list[str]()
    names = ["tokens"] if options.max_usd is not None else ["usd", "tokens"]
    lowered = {
        name: getattr(most, name) for name in names if getattr(given, name) > getattr(most, name)
    }
    provider = options.provider or settings.provider
    if options.provider is None and provider != shipped.provider:
        notes.append(
            f"base chooses the provider {provider}, which nobody allowed here, so this run uses "
            f"{shipped.provider}; {HOW_TO_ALLOW_SPENDING}, or choose with --provider"
        )
        settings = replace(settings, provider=shipped.provider)
    elif provider != OFFLINE:
        notes += (
            f"base raises bounds.{name} to {getattr(given, name):g}, which nobody allowed here, "
            f"so this run keeps the shipped {value:g}; {HOW_TO_ALLOW_SPENDING}"
            for name, value in lowered.items()
        )
    return replace(settings, bounds=replace(given, **lowered)), tuple(notes)


def _apply_options(settings: ReviewSettings, options: ReviewOptions) -> ReviewSettings:
    limits = {name: getattr(options, f"max_{name}") for name in BOUNDS}
    bounds = {name: value for name, value in limits.items() if value is not None}
    chosen: dict[str, Any] = {"provider": options.provider, "pattern": options.pattern}
    given = {name: value for name, value in chosen.items() if value is not None}
    if options.effort is not None:
        given["effort"] = replace(settings.effort, level=options.effort)
    if options.no_proofs:
        given["proofs"] = replace(settings.proofs, agent=None)
    return replace(settings, bounds=replace(settings.bounds, **bounds), **given)


def read_minutes(layers: Sequence[Layer], options: ReviewOptions) -> float:
    """The time limit of a run in minutes, without reading the rest of the policy."""
    if options.max_minutes is not None:
        return options.max_minutes
    bounds = read_merged(layers, SETTINGS, ReviewSettings).bounds
    if bounds.tiers:
        tier = read_merged(layers, GUARDS, GuardsFile).resolve_tier(detect_author_tier())
        bounds = bounds.for_tier(tier)
    return bounds.minutes


def required_prices(policy: Policy, options: ReviewOptions) -> Prices | None:
    """Prices of which each model must have one, so that a bound in US dollars can be enforced.

    None without ``--max-usd``. Base's own prices count only where base may spend.
    """
    if options.max_usd is None:
        return None
    if decide_consent(options, os.environ).allow_spending:
        return policy.catalog.prices
    return load_prices(policy.layers[:1])


async def read_layers(change: Change) -> list[Layer]:
    """The layers of a review's policy, read from the base commit, never from the change."""
    async with Objects(Git.of(change)) as objects:
        return await read_base_layers(objects, change.policy_commit)


async def read_base_layers(objects: Objects, commit: str | None) -> list[Layer]:
    """The layers of the policy of a commit; None: the shipped one alone."""
    if commit is None:
        return [read_shipped_layer()]
    tree = await Commits(objects).tree(commit)
    entries = await list_tree(objects, tree, lambda path: path.split("/")[0] == OVERLAY)
    blob_ids = {
        path.removeprefix(f"{OVERLAY}/"): blob
        for path, (mode, blob) in entries.items()
        if mode.startswith("100") and is_policy(path)
    }
    files = {path: await objects.read(blob) for path, blob in blob_ids.items()}
    if not files:
        return [read_shipped_layer()]
    return [read_shipped_layer(), make_overlay(OVERLAY, files)]


def is_policy(path: str) -> bool:
    """Whether a file of the repository belongs to the policy of reviews."""
    overlay, *below = path.split("/")
    is_data = len(below) > 1 and below[0] in DATA_DIRECTORIES
    return overlay == OVERLAY and (is_data or below[:1] == [MEMORY] or below == [WAIVERS])


def read_layers_on_disk(repo: Path | None) -> list[Layer]:
    """The layers in a work tree, to check them before they are committed."""
    root = repo_root(repo or Path()).resolve()
    found = [os.fspath(path.relative_to(root)) for path in sorted((root / OVERLAY).rglob("*"))]
    with SafeDirectory(root) as tree:
        files = {
            path.removeprefix(f"{OVERLAY}/"): tree.read(path)
            for path in found
            if is_policy(path) and tree.is_file(path)
        }
    return [read_shipped_layer(), make_overlay(OVERLAY, files)] if files else [read_shipped_layer()]
