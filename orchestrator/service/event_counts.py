"""Counters of events in the database, named as the metrics' samples are."""

import psycopg
from psycopg.rows import dict_row

RESUMED, SUPERSEDED, PARKED = (
    f"diffcourt_queue_{name}_total" for name in ("resumed", "superseded", "parked")
)
REVIEW_RESULTS, POST_RESULTS = "diffcourt_queue_reviews_total", "diffcourt_queue_posts_total"
SECONDS = "diffcourt_queue_review_duration_seconds"
BUCKETS = (*map(str, (1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)), "+Inf")


async def read_counts(db: psycopg.AsyncConnection) -> dict[str, float]:
    """The counters since the tables were created, by name."""
    async with db.cursor(row_factory=dict_row) as cursor:
        await cursor.execute("SELECT name, value FROM service_counts")
        return {row["name"]: row["value"] for row in await cursor.fetchall()}


async def count(db: psycopg.AsyncConnection, name: str, number: float = 1) -> None:
    """Increment a counter."""
    await db.execute(
        "INSERT INTO service_counts AS c VALUES (%s, %s) ON CONFLICT (name)"
        " DO UPDATE SET value = c.value + excluded.value",
        (name, number),
    )


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
