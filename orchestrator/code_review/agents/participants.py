"""The agents that take part in a review."""

from __future__ import annotations

from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.fields import OFFLINE
from orchestrator.catalog.reference_checks import JUDGE
from orchestrator.catalog.settings import Settings
from orchestrator.code_review.agents.judging import needs_judge
from orchestrator.engine.types import AgentSpec


def participants(catalog: Catalog, settings: Settings) -> list[AgentSpec]:
    """Every agent that may be called, in the order in which they begin."""
    team = [settings.lead, *settings.specialists]
    names = team if settings.pattern == "team" else [settings.single]
    if needs_judge(settings, catalog.rubrics[settings.rubric]):
        names = [*names, JUDGE]
    return [catalog.agents[name] for name in names]


def has_model_lead(settings: Settings) -> bool:
    """Whether a model leads the review, and so can write its summary."""
    return settings.pattern == "team" and settings.provider != OFFLINE
