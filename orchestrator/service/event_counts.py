"""Counters of events in the database, for the metrics."""

import psycopg
from psycopg.rows import dict_row

RESUMED, SUPERSEDED, PARKED = "resumed", "superseded", "parked"
"""Names of counts: jobs of dead workers that ran again; reviews that a newer push ended; changes
whose workers died too often."""


async def read_counts(db: psycopg.AsyncConnection) -> dict[str, int]:
    """The counters since the tables were created, by name."""
    async with db.cursor(row_factory=dict_row) as cursor:
        await cursor.execute("SELECT name, value FROM service_counts")
        return {row["name"]: row["value"] for row in await cursor.fetchall()}


async def count(db: psycopg.AsyncConnection, name: str, number: int = 1) -> None:
    """Increment a counter."""
    await db.execute(
        "INSERT INTO service_counts AS c VALUES (%s, %s) ON CONFLICT (name)"
        " DO UPDATE SET value = c.value + excluded.value",
        (name, number),
    )
