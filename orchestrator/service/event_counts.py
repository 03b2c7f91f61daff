"""Counters of events in the database, for the metrics: a name, or a name and a label's value."""

from bisect import bisect_left

import psycopg
from psycopg.rows import dict_row

RESUMED, SUPERSEDED, PARKED = "resumed", "superseded", "parked"
"""Jobs of dead workers that ran again; reviews that a newer push ended; parked changes."""
ENDED, POSTED = "reviews", "posts"
"""With a result: reviews that ended, and attempts to post."""
SECONDS_UP_TO, MILLISECONDS = "review_seconds_up_to", "review_milliseconds"
"""With the upper bound of a bucket in seconds: its reviews; and what all reviews took."""
BUCKETS = (1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)


async def read_counts(db: psycopg.AsyncConnection) -> dict[str, int]:
    """The counters since the tables were created, by name."""
    async with db.cursor(row_factory=dict_row) as cursor:
        await cursor.execute("SELECT name, value FROM service_counts")
        return {row["name"]: row["value"] for row in await cursor.fetchall()}


async def count(db: psycopg.AsyncConnection, name: str, number: int = 1, *, of: str = "") -> None:
    """Increment a counter.

    Args:
        of: the value of its label.
    """
    await db.execute(
        "INSERT INTO service_counts AS c VALUES (%s, %s) ON CONFLICT (name)"
        " DO UPDATE SET value = c.value + excluded.value",
        (f"{name} {of}".strip(), number),
    )


async def count_review(db: psycopg.AsyncConnection, result: str, seconds: float) -> None:
    """Count a review that ended, and how long its last attempt took."""
    place = bisect_left(BUCKETS, seconds)
    await count(db, ENDED, of=result)
    await count(db, SECONDS_UP_TO, of=str(BUCKETS[place]) if place < len(BUCKETS) else "+Inf")
    await count(db, MILLISECONDS, round(seconds * 1000))
