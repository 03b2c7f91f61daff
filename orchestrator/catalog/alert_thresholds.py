"""The thresholds of alerts about many runs (``config/alerts.yaml``)."""

from orchestrator.engine.field_types import PositiveFloat, PositiveInt, Strict, UnitFloat

ALERTS_FILE = "config/alerts.yaml"


class AlertThresholds(Strict, frozen=True, kw_only=True):
    """When to alert; None switches an alert off.

    Attributes:
        window_days: the newest runs, which are judged.
        baseline_days: the days before them, which they are compared with.
        min_reviews: fewer in the window or the baseline say nothing.
        review_p95_above: seconds.
        steps_per_task_above, tokens_per_task_above, cost_per_task_above, guard_blocks_above: times
            the mean of the baseline.
    """

    window_days: PositiveFloat
    baseline_days: PositiveFloat
    min_reviews: PositiveInt
    completion_below: UnitFloat | None = None
    tool_errors_above: UnitFloat | None = None
    loops_above: UnitFloat | None = None
    person_asked_above: UnitFloat | None = None
    review_p95_above: PositiveFloat | None = None
    steps_per_task_above: PositiveFloat | None = None
    tokens_per_task_above: PositiveFloat | None = None
    cost_per_task_above: PositiveFloat | None = None
    guard_blocks_above: PositiveFloat | None = None
