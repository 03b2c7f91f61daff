"""The state of the queue for operators, and their actions on it."""

from collections.abc import Sequence

import procrastinate
from msgspec import Struct
from psycopg import AsyncConnection
from psycopg.rows import class_row

from orchestrator.errors import InputError
from orchestrator.service import changes
from orchestrator.service.changes import Enqueuing, StoredChange
from orchestrator.service.database import QUERIES

KEPT_CHANGE_DAYS = 180
"""Requests without a push, and what their reviews cost, are kept for so long."""

KNOWN_DAYS = 30
"""A repository without a webhook for so long has no missed pushes, and is new again."""

KEPT_DAYS = 14
"""Ended jobs and delivery ids are kept for so long; a forge delivers again within three days."""

_NEWEST = QUERIES["jobs"] + b"true ORDER BY j.id DESC LIMIT %(limit)s"
_OLDEST = QUERIES["jobs"] + b"j.status = 'todo' AND j.id < %(before)s ORDER BY j.id LIMIT 1"


class QueuedJob(Struct, frozen=True):
    """A job, for operators.

    Attributes:
        state: ``todo``, ``doing``, ``failed``, or another final state.
        seconds: since its state changed.
        head, run, crashes, is_paused, problem: of its change; None if that is gone.
    """

    id: int
    queue: str
    change: str | None
    state: str
    attempts: int
    head: str | None
    run: str | None
    crashes: int | None
    is_paused: bool | None
    problem: str | None
    seconds: float


class QueueListing(Struct, frozen=True):
    """The jobs of a queue, as many as were asked for.

    Attributes:
        jobs: the newest, newest first.
        total, parked: how many there are, and of those failed for good.
        oldest: the oldest waiting job, where ``jobs`` does not have it.
    """

    jobs: list[QueuedJob]
    total: int
    parked: int
    oldest: QueuedJob | None


async def list_jobs(db: AsyncConnection, *, ended: bool = False, limit: int = 50) -> QueueListing:
    """The newest jobs that wait, run or are parked; with ``ended``, all."""
    async with db.cursor(row_factory=class_row(QueuedJob)) as cursor:
        await cursor.execute(_NEWEST, {"ended": ended, "limit": limit})
        jobs = await cursor.fetchall()
        last = jobs[-1].id if jobs else 0
        await cursor.execute(_OLDEST, {"ended": ended, "before": last})
        oldest = await cursor.fetchone()
    counts = await (await db.execute(QUERIES["count_jobs"], (ended,))).fetchone()
    assert counts is not None
    return QueueListing(jobs, int(counts[0]), int(counts[1]), oldest)


async def is_draining(db: AsyncConnection) -> bool:
    """Whether workers take no new jobs."""
    row = await (await db.execute("SELECT is_draining FROM service_state")).fetchone()
    return row is not None and bool(row[0])


async def set_draining(db: AsyncConnection, draining: bool) -> int:
    """Stop workers from taking new jobs, or let them; returns the number of running jobs."""
    await db.execute("UPDATE service_state SET is_draining = %s", (draining,))
    query = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'doing'"
    row = await (await db.execute(query)).fetchone()
    assert row is not None
    return int(row[0])


async def retry_change(
    db: AsyncConnection, queue: procrastinate.App, change: str, how: Enqueuing
) -> bool:
    """Resume the review of a change; False if a review waits already."""
    row = await _known(db, change)
    await changes.update_change(db, change, **changes.FRESH)
    await changes.cancel_begun_jobs(db, change, running=False)
    return await changes.enqueue_review(db, queue, row, how)


async def stop_change(db: AsyncConnection, change: str, *, park: bool) -> Sequence[int]:
    """Cancel the running and waiting reviews of a change; returns their ids.

    Args:
        park: record later pushes without reviewing them, until a person retries.
    """
    await _known(db, change)
    if park:
        await changes.update_change(db, change, is_paused=True)
    return await changes.cancel_all_jobs(db, change)


async def remove_old_rows(db: AsyncConnection) -> int:
    """Remove jobs that ended long ago; returns their number."""
    await db.execute(QUERIES["remove_changes"], (KEPT_CHANGE_DAYS,))
    await db.execute(QUERIES["remove_repositories"], (KNOWN_DAYS,))
    await db.execute(QUERIES["remove_spending"], (KEPT_CHANGE_DAYS,))
    await db.execute(QUERIES["remove_deliveries"], (KEPT_DAYS,))
    return (await db.execute(QUERIES["remove_jobs"], (KEPT_DAYS,))).rowcount


async def _known(db: AsyncConnection, change: str) -> StoredChange:
    row = await changes.load_change(db, change)
    if row is None:
        raise InputError(
            f"there is no change {change}; list them with: diffcourt queue list, as "
            "FORGE:OWNER/NAME#NUMBER"
        )
    return row
