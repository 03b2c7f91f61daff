"""Statistics as Prometheus metrics, for a textfile or a server's ``/metrics`` (extra ``metrics``).

Counters are over all runs that are in the store. Labels have at most ``MAX_VALUES`` values each:
the most frequent ones, and ``other``.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from orchestrator.app.statistics import run_totals
from orchestrator.app.statistics.run_totals import Counts, RunTotals
from orchestrator.app.statistics.threshold_alerts import Alert
from orchestrator.data_directories import read_table

MAX_VALUES = 50
OTHER = "other"

_COUNTERS: Mapping[str, tuple[str, Sequence[str]]] = read_table(__file__, "counters.yaml")
_HISTOGRAMS: Sequence[tuple[str, str, Sequence[float]]] = (
    ("review", "Work of finished reviews.", run_totals.REVIEW_BUCKETS),
    ("tool_call", "Performed tool calls.", run_totals.CALL_BUCKETS),
    ("model_call", "Model calls.", run_totals.CALL_BUCKETS),
)
_UNFINISHED = ("interrupted", "waiting", "running")

__all__ = ["CONTENT_TYPE_LATEST", "render_metrics"]


def render_metrics(totals: RunTotals, alerts: Sequence[Alert] = ()) -> str:
    """All metrics in Prometheus' text format, whose content type is ``CONTENT_TYPE_LATEST``.

    Args:
        totals: of all runs of the store, so that counters only grow.
    """
    registry = CollectorRegistry()
    registry.register(_Metrics(totals, alerts))
    return generate_latest(registry).decode()


class _Metrics(Collector):
    def __init__(self, totals: RunTotals, alerts: Sequence[Alert]) -> None:
        self._totals, self._alerts = totals, alerts

    def collect(self) -> Iterator[Metric]:
        counts = defaultdict[str, Counts](Counter)
        counts["resumes"].update({("ended",): 0, ("interrupted",): 0})
        for key, value in self._totals.sum_counts().items():
            if value:
                counts[key[0]][key[1:]] = value
        for name, (what, labels) in _COUNTERS.items():
            yield _counter(name, what, counts[name], labels)
        for name, what, bounds in _HISTOGRAMS:
            yield _histogram(name, what, bounds, counts)
        unfinished = counts["reviews_unfinished"]
        states = [((state,), unfinished[state,]) for state in _UNFINISHED]
        yield _gauge("reviews_unfinished", "Reviews without a final verdict.", ("state",), states)
        # A gauge: an open finding becomes a fixed one.
        found = sorted(self._totals.count_findings().items())
        what = "Different findings by what became of them."
        yield _gauge("findings", what, ("severity", "state"), found)
        broken, until = self._totals.broken, self._totals.until
        yield _gauge("broken_journals", "Runs that are not counted.", (), [((), broken)])
        yield _gauge("export_timestamp_seconds", "When this was computed.", (), [((), until)])
        known = [alert for alert in self._alerts if alert.state != "unknown"]
        firing = [((alert.name,), alert.state == "firing") for alert in known]
        what = "1 where an alert fires; absent: not known."
        yield _gauge("alert_firing", what, ("alert",), firing)


def _gauge(
    name: str, what: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"diffcourt_{name}", what, labels=labels)
    for key, value in values:
        family.add_metric(key, value)
    return family


def _counter(name: str, what: str, values: Counts, labels: Sequence[str]) -> CounterMetricFamily:
    """A counter with labels whose values are bounded."""
    family = CounterMetricFamily(f"diffcourt_{name}", what, labels=labels)
    if not labels:
        family.add_metric((), values[()] / (run_totals.BILLION if name == "cost_usd" else 1))
        return family
    for key, value in sorted(_bounded(values, len(labels)).items()):
        family.add_metric(key, value)
    return family


def _bounded(values: Counts, labels: int) -> Counts:
    allowed = []
    for place in range(labels):
        totals = Counter[str]()
        for key, value in values.items():
            totals[key[place]] += value
        ordered = sorted(totals, key=lambda name: (-totals[name], name))
        allowed.append(set(ordered if len(ordered) <= MAX_VALUES else ordered[: MAX_VALUES - 1]))
    bounded = Counts()
    for key, value in values.items():
        known = (name if name in allowed[place] else OTHER for place, name in enumerate(key))
        bounded[tuple(known)] += value
    return bounded


def _histogram(
    name: str, what: str, bounds: Sequence[float], counts: Mapping[str, Counts]
) -> HistogramMetricFamily:
    reviews = accumulate(counts[f"{name}_bucket"][str(place),] for place in range(len(bounds) + 1))
    names = [*(f"{float(bound)}" for bound in bounds), "+Inf"]
    return HistogramMetricFamily(
        f"diffcourt_{name}_duration_seconds", what,
        buckets=list(zip(names, reviews, strict=True)),
        sum_value=counts[f"{name}_seconds"][()] / run_totals.BILLION,
    )  # fmt: skip
