"""The statistics document: figures over many runs, and its published JSON Schema.

``descriptions.yaml`` says what the fields mean.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from orchestrator.code_review.json_schema_generation import published_schema
from orchestrator.engine.field_types import Strict

Share = Annotated[float | None, Meta(description="0 to 1; null: no data")]
Counts = Annotated[dict[str, int], Meta(description="the most frequent first")]


class Percentiles(Strict, frozen=True):
    """Median and 95th percentile of durations in seconds (nearest rank); null: no data."""

    count: int = 0
    p50: float | None = None
    p95: float | None = None


class FindingCounts(Strict, frozen=True):
    """Distinct findings by state; each counts once, in its state in the newest review."""

    found: int = 0
    open: int = 0
    fixed: int = 0
    dismissed: int = 0
    waived: int = 0


class Figures(Strict, frozen=True, kw_only=True):
    """Figures over a set of runs."""

    runs: int
    reviews: int
    complete: int
    incomplete: int
    cancelled: int
    interrupted: int
    waiting: int
    running: int
    completion: float | None
    verdicts: Counts
    stops: dict[str, int]
    tasks: int
    tasks_out_of_budget: int
    steps: int
    steps_per_task: float | None
    loops_cut: int
    loop_share: float | None
    tool_calls: int
    tool_errors: int
    tool_error_rate: Share
    tool_refusals: dict[str, int]
    model_calls: int
    model_errors: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cache_share: float | None
    tokens_per_finding: float | None
    usd: float
    tokens_per_task: float | None
    usd_per_task: float | None
    usd_per_review: float | None
    escalations: dict[str, int]
    escalation_rates: dict[str, float]
    person_asked: int
    person_share: float | None
    resumes: int
    resumes_ended: int
    guard_blocks: dict[str, int]
    budget_stops: int
    review_seconds: Percentiles
    model_seconds: Percentiles
    tool_seconds: Percentiles
    findings: FindingCounts
    rejected: int


class AgentFigures(Strict, frozen=True, kw_only=True):
    """Figures of one agent."""

    name: str
    tasks: int
    steps_per_task: float | None
    loops_cut: int
    escalations: int
    tool_calls: int
    tool_error_rate: Share
    model_calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    usd: float
    usd_per_task: float | None
    model_seconds: Percentiles


class ToolFigures(Strict, frozen=True, kw_only=True):
    """Figures of the calls of one tool."""

    name: str
    calls: int
    errors: int
    error_rate: Share
    declined: int
    refused: int
    seconds: Percentiles


class ModelFigures(Strict, frozen=True, kw_only=True):
    """Figures of the calls of one model."""

    name: str
    calls: int
    errors: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cache_share: Share
    usd: float
    seconds: Percentiles


class RuleFigures(Strict, frozen=True, kw_only=True):
    """Figures of the findings of one rule."""

    name: str
    category: str
    counts: FindingCounts


class PatternFigures(Strict, frozen=True):
    """Figures of the reviews with one pattern; ``analyzers`` if no model took part."""

    name: str
    figures: Figures


class DayFigures(Strict, frozen=True):
    """Figures of the runs that began on one day (UTC)."""

    day: str
    figures: Figures


class BrokenJournal(Strict, frozen=True):
    """A run that is not counted because its journal cannot be read."""

    run_id: str
    why: str


class Statistics(Strict, frozen=True, kw_only=True):
    """The statistics document, schema version 1."""

    schema_version: Literal["1.0"] = "1.0"
    since: str = ""
    until: str
    total: Figures
    agents: tuple[AgentFigures, ...]
    tools: tuple[ToolFigures, ...]
    models: tuple[ModelFigures, ...]
    rules: tuple[RuleFigures, ...]
    patterns: tuple[PatternFigures, ...]
    days: tuple[DayFigures, ...]
    broken: tuple[BrokenJournal, ...] = ()


Grouping = Literal["agent", "tool", "model", "rule", "pattern"]
Group = AgentFigures | ToolFigures | ModelFigures | RuleFigures | PatternFigures


def rows_by(statistics: Statistics, by: Grouping) -> tuple[Group, ...]:
    """The figures of each agent, tool, model, rule or pattern, the most frequent first."""
    groups: tuple[Group, ...] = getattr(statistics, f"{by}s")
    return groups


def json_schema() -> dict[str, Any]:
    """The published JSON Schema of the statistics."""
    descriptions = Path(__file__).with_name("descriptions.yaml")
    return published_schema(Statistics, "urn:diffcourt:statistics:1", descriptions)
