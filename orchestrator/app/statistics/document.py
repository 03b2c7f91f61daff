"""The statistics document: figures over many runs, and its published JSON Schema."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from orchestrator.code_review.json_schema_generation import schema_of
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

    runs: Annotated[int, Meta(description="reviews, and runs recorded by other programs")]
    reviews: int
    complete: Annotated[int, Meta(description="finished, without gaps")]
    incomplete: int
    cancelled: Annotated[int, Meta(description="by a person; excluded from all rates")]
    interrupted: Annotated[int, Meta(description="ended without a verdict")]
    waiting: Annotated[int, Meta(description="waiting for a person")]
    running: int
    completion: Annotated[
        float | None,
        Meta(
            description="complete, divided by complete, incomplete and interrupted; null: "
            "none ended"
        ),
    ]
    verdicts: Counts
    stops: Annotated[dict[str, int], Meta(description="finished reviews by stop reason")]
    tasks: Annotated[int, Meta(description="agents' tasks that ended")]
    tasks_out_of_budget: int
    steps: Annotated[int, Meta(description="model and tool calls in agents' tasks")]
    steps_per_task: float | None
    loops_cut: int
    loop_share: Annotated[float | None, Meta(description="loops_cut divided by tasks")]
    tool_calls: Annotated[int, Meta(description="that were performed")]
    tool_errors: Annotated[int, Meta(description="that failed or ran out of time")]
    tool_error_rate: Share
    tool_refusals: Annotated[dict[str, int], Meta(description="refused calls by refusal code")]
    model_calls: int
    model_errors: int
    input_tokens: int
    cached_tokens: Annotated[
        int, Meta(description="the part of the input that was read from a cache")
    ]
    output_tokens: int
    cache_share: Annotated[float | None, Meta(description="cached_tokens divided by input_tokens")]
    tokens_per_finding: Annotated[
        float | None, Meta(description="input and output tokens divided by distinct findings")
    ]
    usd: Annotated[float, Meta(description="upper bound of what the runs cost")]
    tokens_per_task: Annotated[
        float | None, Meta(description="input and output tokens divided by tasks that reported")
    ]
    usd_per_task: float | None
    usd_per_review: float | None
    escalations: Annotated[dict[str, int], Meta(description="by the stage escalated to")]
    escalation_rates: Annotated[dict[str, float], Meta(description="escalations divided by tasks")]
    person_asked: Annotated[int, Meta(description="reviews that asked a person how to continue")]
    person_share: Annotated[float | None, Meta(description="person_asked divided by reviews")]
    resumes: int
    resumes_ended: Annotated[
        int, Meta(description="resumed runs that reached a verdict or a question")
    ]
    guard_blocks: Annotated[dict[str, int], Meta(description="by guard")]
    budget_stops: Annotated[int, Meta(description="reviews that a budget limit stopped")]
    review_seconds: Annotated[Percentiles, Meta(description="working time of finished reviews")]
    model_seconds: Percentiles
    tool_seconds: Percentiles
    findings: FindingCounts
    rejected: Annotated[int, Meta(description="reported findings that were rejected")]


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
    calls: Annotated[int, Meta(description="that were performed")]
    errors: Annotated[int, Meta(description="that failed or ran out of time")]
    error_rate: Share
    declined: Annotated[
        int, Meta(description="calls whose request could not be fulfilled, such as an unknown path")
    ]
    refused: Annotated[int, Meta(description="not performed")]
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

    day: Annotated[str, Meta(description="YYYY-MM-DD")]
    figures: Figures


class BrokenJournal(Strict, frozen=True):
    """A run that is not counted because its journal cannot be read."""

    run_id: str
    why: str


class Statistics(Strict, frozen=True, kw_only=True):
    """The statistics document, schema version 1."""

    schema_version: Literal["1.0"] = "1.0"
    since: Annotated[str, Meta(description="ISO 8601, UTC; empty: all runs")] = ""
    until: Annotated[str, Meta(description="when it was computed; ISO 8601, UTC")]
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
    """The published JSON Schema of the statistics; like the verdict's, it allows unknown fields."""
    schema = schema_of(Statistics)
    for part in (schema, *schema["$defs"].values()):
        part.pop("additionalProperties", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:diffcourt:statistics:1",
        **schema,
    }
