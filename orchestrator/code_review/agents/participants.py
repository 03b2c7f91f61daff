"""Which agents take part in a review, and with what models."""

from collections.abc import Iterable

from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.settings import ReviewSettings
from orchestrator.catalog.unknown_name_checks import JUDGE
from orchestrator.code_review.agents.judging import judged_criteria
from orchestrator.engine.types import AgentSpec, Rubric


def participants(catalog: Catalog, settings: ReviewSettings) -> list[AgentSpec]:
    """Every agent that may be called, in the order of their first call."""
    names = {
        "team": [settings.lead, *settings.specialists],
        "single": [settings.single],
        "auto": [settings.lead, *settings.specialists, settings.single],
    }[settings.pattern]
    helpers = [
        (JUDGE, needs_judge(settings, catalog.rubrics[settings.rubric])),
        (settings.proofs.agent, settings.proofs.agent and settings.tests and settings.has_model),
        (settings.verify.agent, has_verifier(settings)),
        (settings.fixes.agent, has_fixer(settings)),
    ]
    names = [*names, *(str(name) for name, takes_part in helpers if takes_part)]
    return [catalog.agents[name] for name in dict.fromkeys(names)]


def named_vendors(
    catalog: Catalog, settings: ReviewSettings, agents: Iterable[AgentSpec] | None = None
) -> dict[str, list[str]]:
    """Provider → the agents whose model is at it, of a review or, if given, of these alone.

    The settings' provider is the first of a review.
    """
    found: dict[str, list[str]] = {} if agents else {settings.provider: []}
    for spec in agents or participants(catalog, settings):
        vendor, _ = catalog.models.split(spec.model, settings.provider)
        found.setdefault(vendor, []).append(spec.name)
    return found


def has_fixer(settings: ReviewSettings) -> bool:
    """Whether an agent with a model writes patches."""
    return bool(settings.fixes.agent and settings.fixes.proofs) and settings.has_model


def has_verifier(settings: ReviewSettings) -> bool:
    """Whether an agent verifies what only agents claim."""
    return bool(settings.verify.agent) and settings.has_model


def needs_judge(settings: ReviewSettings, rubric: Rubric) -> bool:
    """Whether a model judges; offline there is none."""
    return settings.judge and settings.has_model and bool(judged_criteria(rubric))
