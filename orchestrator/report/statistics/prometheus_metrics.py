"""Statistics as Prometheus metrics, for a textfile or a server's ``/metrics`` (extra ``metrics``).

Counters are over all runs that are in the store. Labels have at most ``MAX_VALUES`` values each:
the most frequent ones, and ``other``.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from orchestrator.app.statistics.alerts import Alert
from orchestrator.app.statistics.all_runs import Collected, count_findings_by, figures_of

MAX_VALUES = 50
OTHER = "other"
REVIEW_BUCKETS = (1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)
CALL_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

__all__ = ["CONTENT_TYPE_LATEST", "render_metrics"]


def render_metrics(collected: Collected, alerts: Sequence[Alert] = ()) -> str:
    """All metrics in Prometheus' text format, whose content type is ``CONTENT_TYPE_LATEST``.

    Args:
        collected: all runs of the store, so that counters only grow.
    """
    registry = CollectorRegistry()
    registry.register(_Metrics(collected, alerts))
    return generate_latest(registry).decode()


class _Metrics(Collector):
    def __init__(self, collected: Collected, alerts: Sequence[Alert]) -> None:
        self._collected, self._alerts = collected, alerts

    def collect(self) -> Iterator[Metric]:
        yield from _of_reviews(self._collected)
        yield from _of_calls(self._collected)
        yield from _of_findings(self._collected)
        yield from _of_the_export(self._collected, self._alerts)


def _counter(name: str, what: str, values: Counter[Any], *labels: str) -> CounterMetricFamily:
    """A counter with labels whose values are bounded."""
    family = CounterMetricFamily(f"diffcourt_{name}", what, labels=labels)
    for key, value in sorted(_bounded(values, len(labels)).items()):
        family.add_metric(key, value)
    return family


def _bounded(values: Counter[Any], labels: int) -> Counter[tuple[str, ...]]:
    kept = []
    for place in range(labels):
        totals = Counter[str]()
        for key, value in values.items():
            totals[key[place]] += value
        ordered = sorted(totals, key=lambda name: (-totals[name], name))
        kept.append(set(ordered if len(ordered) <= MAX_VALUES else ordered[: MAX_VALUES - 1]))
    bounded = Counter[tuple[str, ...]]()
    for key, value in values.items():
        known = (name if name in kept[place] else OTHER for place, name in enumerate(key))
        bounded[tuple(known)] += value
    return bounded


def _total(name: str, what: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"diffcourt_{name}", what, value=value)


def _histogram(
    name: str, what: str, seconds: Iterable[float | None], bounds: Sequence[float]
) -> HistogramMetricFamily:
    known = [value for value in seconds if value is not None]
    counts = [0] * (len(bounds) + 1)
    for value in known:
        counts[bisect_left(bounds, value)] += 1
    names = [*(f"{float(bound)}" for bound in bounds), "+Inf"]
    buckets = list(zip(names, accumulate(counts), strict=True))
    return HistogramMetricFamily(
        f"diffcourt_{name}_duration_seconds", what, buckets=buckets, sum_value=sum(known)
    )


def _of_reviews(collected: Collected) -> Iterator[Metric]:
    total = figures_of(collected.runs)
    reviews = [run for run in collected.runs if run.is_review]
    finished = [run for run in reviews if run.state == "finished"]
    yield _counter(
        "reviews", "Finished reviews.", Counter((run.status, run.outcome) for run in finished),
        "status", "verdict",
    )  # fmt: skip
    open_reviews = GaugeMetricFamily(
        "diffcourt_reviews_unfinished", "Reviews without a final verdict.", labels=("state",)
    )
    for state in ("interrupted", "waiting", "running"):
        open_reviews.add_metric((state,), getattr(total, state))
    yield open_reviews
    yield _counter(
        "review_stops", "Finished reviews by why they ended.",
        Counter((run.stop,) for run in finished), "reason",
    )  # fmt: skip
    yield _total("reviews_asking_person", "Reviews that asked a person.", total.person_asked)
    resumes = Counter({("ended",): total.resumes_ended})
    resumes["interrupted",] = total.resumes - total.resumes_ended
    yield _counter("resumes", "Sessions that went on with a run.", resumes, "result")
    yield _histogram(
        "review", "Work of finished reviews.", (run.seconds for run in finished), REVIEW_BUCKETS
    )
    yield _total("cost_usd", "The most that the runs cost, in US dollars.", total.usd)


def _of_calls(collected: Collected) -> Iterator[Metric]:
    runs = collected.runs
    tasks = Counter((task.agent, task.status) for run in runs for task in run.tasks)
    yield _counter("tasks", "Tasks of agents that ended.", tasks, "agent", "status")
    yield _total("steps", "Model and tool calls of agents.", figures_of(runs).steps)
    loops = Counter((agent,) for run in runs for agent in run.loops_cut)
    yield _counter("loops_cut", "Tasks that loop detection ended.", loops, "agent")
    stages = Counter((stage,) for run in runs for _, stage in run.escalations)
    yield _counter("escalations", "Escalations by the next stage.", stages, "stage")
    blocks = Counter((guard,) for run in runs for guard in run.guard_blocks)
    yield _counter("guard_blocks", "Calls and texts that guards blocked.", blocks, "guard")
    tools = [call for run in runs for call in run.tool_calls]
    results = Counter((call.tool, call.result if call.performed else "refused") for call in tools)
    yield _counter("tool_calls", "Tool calls by how they ended.", results, "tool", "result")
    yield _histogram(
        "tool_call", "Performed tool calls.", (call.seconds for call in tools), CALL_BUCKETS
    )
    models = [call for run in runs for call in run.model_calls]
    replies = Counter((call.model, "ok" if call.ok else "failed") for call in models)
    yield _counter("model_calls", "Model calls by how they ended.", replies, "model", "result")
    for name, what in (
        ("input_tokens", "Input tokens, cached ones included."),
        ("cached_tokens", "Input tokens that a cache served."),
        ("output_tokens", "Output tokens."),
    ):
        counts = Counter[tuple[str, ...]]()
        for call in models:
            counts[call.model,] += getattr(call, name)
        yield _counter(name, what, counts, "model")
    yield _histogram("model_call", "Model calls.", (call.seconds for call in models), CALL_BUCKETS)


def _of_findings(collected: Collected) -> Iterator[Metric]:
    """Gauges: an open finding becomes a fixed one."""
    family = GaugeMetricFamily(
        "diffcourt_findings", "Different findings by what became of them.",
        labels=("severity", "state"),
    )  # fmt: skip
    for key, count in sorted(count_findings_by(collected.runs, "severity", "state").items()):
        family.add_metric(key, count)
    yield family


def _of_the_export(collected: Collected, alerts: Sequence[Alert]) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "diffcourt_broken_journals", "Runs that are not counted.", value=len(collected.broken)
    )
    yield GaugeMetricFamily(
        "diffcourt_export_timestamp_seconds", "When this was computed.", value=collected.until
    )
    known = [alert for alert in alerts if alert.state != "unknown"]
    firing = GaugeMetricFamily(
        "diffcourt_alert_firing", "1 where an alert fires; absent: not known.", labels=("alert",)
    )
    for alert in known:
        firing.add_metric((alert.name,), alert.state == "firing")
    yield firing
