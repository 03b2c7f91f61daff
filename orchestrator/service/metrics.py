"""Metrics of the queue: counters of events, named as samples, and what waits and runs now."""

from collections.abc import Mapping, Sequence

import psycopg
from msgspec import Struct
from psycopg.rows import class_row, dict_row

from orchestrator.data_directories import read_table
from orchestrator.service.database import QUERIES

RESUMED, SUPERSEDED, PARKED = (
    f"diffcourt_queue_{name}_total" for name in ("resumed", "superseded", "parked")
)
REVIEW_RESULTS, POST_RESULTS = "diffcourt_queue_reviews_total", "diffcourt_queue_posts_total"
SECONDS = "diffcourt_queue_review_duration_seconds"
BUCKETS = (*map(str, (1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)), "+Inf")
WEBHOOKS = "diffcourt_webhooks_total"
_METRICS: Mapping[str, tuple[str, str]] = read_table(__file__, "metrics.yaml")


class QueueFigures(Struct, frozen=True):
    """Waiting and running jobs of one queue.

    Attributes:
        oldest: seconds that the oldest of them has been due.
    """

    queue: str
    state: str
    jobs: int
    oldest: float | None


async def read_figures(db: psycopg.AsyncConnection) -> list[QueueFigures]:
    """The number of waiting and running jobs, and their age."""
    async with db.cursor(row_factory=class_row(QueueFigures)) as cursor:
        await cursor.execute(QUERIES["queue_figures"])
        return await cursor.fetchall()


async def read_counts(db: psycopg.AsyncConnection) -> dict[str, float]:
    """The counters since the tables were created, by name."""
    async with db.cursor(row_factory=dict_row) as cursor:
        await cursor.execute("SELECT name, value FROM service_counts")
        return {row["name"]: row["value"] for row in await cursor.fetchall()}


async def count(db: psycopg.AsyncConnection, name: str, number: float = 1) -> None:
    """Increment a counter."""
    await db.execute(QUERIES["count"], (name, number))


async def count_result(db: psycopg.AsyncConnection, name: str, result: str) -> None:
    """Increment a counter of results."""
    await count(db, f'{name}{{result="{result}"}}')


async def count_review(db: psycopg.AsyncConnection, result: str, seconds: float) -> None:
    """Count a review that ended, and how long its last attempt took."""
    await count_result(db, REVIEW_RESULTS, result)
    for bucket in BUCKETS:
        if seconds <= float(bucket):
            await count(db, f'{SECONDS}_bucket{{le="{bucket}"}}')
    await count(db, f"{SECONDS}_sum", seconds)
    await count(db, f"{SECONDS}_count")


def render_queue_metrics(figures: Sequence[QueueFigures], counts: Mapping[str, float]) -> str:
    """The metrics in Prometheus' text format.

    Args:
        counts: by the name of the sample, with its labels.
    """
    always = dict.fromkeys((RESUMED, SUPERSEDED, PARKED, f"{SECONDS}_sum", f"{SECONDS}_count"), 0)
    samples = {f'{SECONDS}_bucket{{le="{bound}"}}': 0.0 for bound in BUCKETS}
    samples |= {**always, **counts}
    known = {(one.queue, one.state): one for one in figures}
    for queue in ("post", "review"):
        for state in ("doing", "todo"):
            found = known.get((queue, state))
            labels = f'{{queue="{queue}",state="{state}"}}'
            samples[f"diffcourt_queue_jobs{labels}"] = found.jobs if found else 0
        waiting = known.get((queue, "todo"))
        oldest = max(waiting.oldest or 0.0, 0.0) if waiting else 0.0
        samples[f'diffcourt_queue_oldest_seconds{{queue="{queue}"}}'] = oldest
    lines = []
    for name, (kind, what) in _METRICS.items():
        lines += [f"# HELP {name} {what}", f"# TYPE {name} {kind}"]
        lines += [f"{key} {float(samples[key])}" for key in samples if key.startswith(name)]
    return "".join(f"{line}\n" for line in lines)
