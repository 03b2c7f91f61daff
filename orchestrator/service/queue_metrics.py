"""The queue as Prometheus metrics (extra ``metrics``)."""

from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from orchestrator.service.event_counts import PARKED, RESUMED, SUPERSEDED
from orchestrator.service.queue_state import QueueFigures

_COUNTS = {
    RESUMED: "Jobs of dead workers that ran again",
    SUPERSEDED: "Reviews that a newer push ended",
    PARKED: "Changes whose workers died too often",
}


def render_queue_metrics(figures: Sequence[QueueFigures], counts: Mapping[str, int]) -> str:
    """The metrics in Prometheus' text format."""
    jobs = GaugeMetricFamily("diffcourt_queue_jobs", "Jobs now", labels=("queue", "state"))
    oldest = GaugeMetricFamily(
        "diffcourt_queue_oldest_seconds", "How long the oldest job has been due", labels=("queue",)
    )
    known = {(one.queue, one.state): one for one in figures}
    for queue in ("post", "review"):
        for state in ("doing", "todo"):
            found = known.get((queue, state))
            jobs.add_metric((queue, state), found.jobs if found else 0)
        waiting = known.get((queue, "todo"))
        oldest.add_metric((queue,), max(waiting.oldest or 0.0, 0.0) if waiting else 0.0)
    counters: list[Metric] = []
    for name, what in _COUNTS.items():
        counter = CounterMetricFamily(f"diffcourt_queue_{name}", what)
        counter.add_metric((), counts.get(name, 0))
        counters.append(counter)
    registry = CollectorRegistry()
    registry.register(_Fixed([jobs, oldest, *counters]))
    return generate_latest(registry).decode()


class _Fixed(Collector):
    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Sequence[Metric]:
        """The metrics as they were read."""
        return self._metrics
