"""Pull and merge requests as rows of the database, and the jobs for them.

A push is recorded and its job enqueued in one transaction, so neither is lost or doubled. A job
names only the change; it reviews the head that the row has when the job starts.
"""

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins
from procrastinate import App
from procrastinate.exceptions import AlreadyEnqueued
from procrastinate.jobs import JobDeferrer
from psycopg import AsyncConnection, sql
from psycopg.rows import class_row, scalar_row

from orchestrator.engine.field_types import PositiveFloat, PositiveInt, Strict
from orchestrator.service.database import QUERIES
from orchestrator.service.job_queue import POSTS, REVIEWS
from orchestrator.service.metrics import SUPERSEDED, count

SMALL_CHANGE = 500
"""Changed lines up to which a review goes before those of large changes."""

REVIEW_TASK = "review"
POST_TASK = "post"
COMMAND_TASK = "command"

FRESH = {"crashes": 0, "failures": 0, "problem": "", "is_paused": False}
"""The fields of a change whose review begins again."""


class Push(Struct, frozen=True):
    """A push to a pull or merge request, as reported by a forge.

    Attributes:
        forge: the name of the forge in the server's configuration.
        installation: the forge's name of the installation whose tokens and limits apply.
        repository: ``owner/name``.
        clone_url: where git fetches it, without a token.
        base: commit id of the base branch's tip; ``refs/heads/NAME`` if that is unknown.
        head: commit id of the newest push.
        lines: number of changed lines; None if the forge does not report it.
    """

    forge: str
    installation: str
    repository: str
    number: int
    clone_url: str
    base: str
    head: str
    title: str = ""
    description: str = ""
    lines: int | None = None

    @property
    def change(self) -> str:
        """The change's name, for people and for locks."""
        return f"{self.forge}:{self.repository}#{self.number}"


class StoredChange(Push, frozen=True, kw_only=True):
    """A row of a change: its newest push, and what became of it.

    Attributes:
        run, run_base, run_head: the newest run and its base and head; empty before the first.
        base_commit: the commit of ``run_base`` when the run began; empty before.
        crashes: how often this head's review died alone in its worker; 1 if only among others.
        failures: how often this head's review failed temporarily.
        is_paused: pushes are recorded but not reviewed.
        is_full: the head is reviewed as if it were the first.
        posted_head: the head for which the newest verdict was posted.
        problem: why there can be no verdict for the head; empty if there can.
    """

    run: str
    run_base: str
    run_head: str
    base_commit: str
    crashes: int
    failures: int
    is_paused: bool
    is_full: bool
    posted_head: str
    problem: str

    @property
    def is_reviewed_head(self) -> bool:
        """Whether the newest run is of the newest push."""
        return (self.run_head, self.run_base) == (self.head, self.base)


class Enqueuing(Strict, frozen=True):
    """The settings for enqueuing jobs.

    Attributes:
        debounce: seconds that a review waits for a further push, restarted by each push.
        most_wait: seconds after which it begins, regardless of further pushes.
        slots: maximum number of concurrent reviews of one repository.
        already_open: also review requests that were open before their repository's first webhook.
    """

    debounce: Annotated[float, Meta(ge=0)] = 5.0
    most_wait: PositiveFloat = 60.0
    slots: PositiveInt = 2
    already_open: bool = False


async def record_delivery(
    db: AsyncConnection, forge: str, delivery: str, body: bytes | bytearray
) -> bool:
    """Record a webhook's delivery id and its body's digest; False if either was recorded before.

    Forges sign only the body: an attacker could replay one under another id to have an older head
    reviewed.
    """
    signed = f"sha256:{hashlib.sha256(body).hexdigest()}"
    values = {"forge": forge, "id": delivery, "signed": signed}
    done = await db.execute(QUERIES["record_delivery"], values)
    return done.rowcount == 2


async def record_push(db: AsyncConnection, queue: App, push: Push, how: Enqueuing) -> None:
    """Record a push, cancel the review of an older one, and enqueue this one's.

    Within the caller's transaction.
    """
    done = await db.execute(QUERIES["record_push"], _values(push))
    await db.execute(QUERIES["know_repository"], _values(push))
    row = await done.fetchone()
    superseded = await cancel_begun_jobs(db, push.change)
    await count(db, SUPERSEDED, len(superseded))
    if row is not None and not row[0]:
        await enqueue_review(db, queue, push, how)


async def record_open(db: AsyncConnection, push: Push) -> None:
    """Record a request without reviewing it, so that its next push is noticed."""
    await db.execute(QUERIES["record_open"], _values(push))


def _values(push: Push) -> dict[str, Any]:
    return {**to_builtins(push), "change": push.change}


async def enqueue_review(db: AsyncConnection, queue: App, change: Push, how: Enqueuing) -> bool:
    """Enqueue a review; False if one waits already, which will review the newest head."""
    slot, place = zlib.crc32(change.change.encode()) % how.slots, f"review {change.change}"
    task = queue.configure_task(
        REVIEW_TASK,
        queue=REVIEWS,
        # One running for each change, and as many as there are slots for each repository.
        lock=f"{change.forge}:{change.repository}/{slot}",
        queueing_lock=place,
        priority=0 if (change.lines or 0) > SMALL_CHANGE else 1,
        schedule_in={"milliseconds": int(how.debounce * 1000)} if how.debounce else None,
        connection=db,
    )
    is_new = await _defer_unless_waiting(db, task, change.change)
    if not is_new:
        await db.execute(QUERIES["wait_on"], {**to_builtins(how), "place": place})
    return is_new


async def enqueue_post(db: AsyncConnection, queue: App, change: str) -> None:
    """Enqueue the posting of a change's newest verdict, unless one waits already."""
    place = f"post {change}"
    task = queue.configure_task(
        POST_TASK, queue=POSTS, lock=place, queueing_lock=place, priority=2, connection=db
    )
    await _defer_unless_waiting(db, task, change)


async def _defer_unless_waiting(db: AsyncConnection, task: JobDeferrer, change: str) -> bool:
    try:
        async with db.transaction():
            await task.defer_async(change=change)
    except AlreadyEnqueued:
        return False
    return True


async def enqueue_command(
    db: AsyncConnection, queue: App, change: str, comment: int, body: str
) -> None:
    """Enqueue the answer to a command in a comment."""
    task = queue.configure_task(COMMAND_TASK, queue=POSTS, priority=2, connection=db)
    await task.defer_async(change=change, comment=comment, body=body)


async def review_again(db: AsyncConnection, queue: App, change: str, *, full: bool = False) -> None:
    """Review a known change's head in a new run immediately.

    Args:
        full: as if it were the first review of the change.
    """
    no_run = dict.fromkeys(("run", "run_base", "run_head", "base_commit"), "")
    await update_change(db, change, **no_run, **FRESH, is_full=full)
    row = await load_change(db, change)
    if row is not None:
        await cancel_begun_jobs(db, change)
        await enqueue_review(db, queue, row, Enqueuing(debounce=0.0))


async def changes_at(db: AsyncConnection, forge: str, repository: str, head: str) -> list[str]:
    """The changes of a repository whose newest push is a commit."""
    done = await db.execute(QUERIES["changes_at"], (forge, repository, head))
    return [row[0] for row in await done.fetchall()]


async def count_recent_reviews(db: AsyncConnection, row: StoredChange, job: int) -> tuple[int, int]:
    """The number of other reviews that began in the last hour, by installation and repository."""
    names = ("repository", "forge", "installation")
    values = {name: getattr(row, name) for name in names} | {"task": REVIEW_TASK, "job": job}
    done = await db.execute(QUERIES["recent_reviews"], values)
    counts = await done.fetchone()
    assert counts is not None
    return int(counts[0]), int(counts[1])


async def is_reviewing(db: AsyncConnection, change: str) -> bool:
    """Whether a review of a change waits or runs."""
    done = await db.execute(QUERIES["is_reviewing"], (REVIEW_TASK, change))
    return await done.fetchone() is not None


async def cancel_begun_jobs(
    db: AsyncConnection, change: str, *, running: bool = True
) -> Sequence[int]:
    """Cancel the jobs of a change that have begun; a job that has not begun stays.

    A job that waits for its next attempt has begun as well: a new job would have to wait for it.

    Args:
        running: include running jobs, which are asked to end.
    """
    states = ["todo", "doing"] if running else ["todo"]
    return await _cancel_jobs(db, change, "cancel_begun", states=states)


async def cancel_all_jobs(db: AsyncConnection, change: str) -> Sequence[int]:
    """End the running and the waiting jobs of a change; returns their ids. Answers stay."""
    return await _cancel_jobs(db, change, "cancel_all")


async def _cancel_jobs(
    db: AsyncConnection, change: str, query: str, **values: object
) -> Sequence[int]:
    given = {"answer": COMMAND_TASK, "change": change, **values}
    done = await db.execute(QUERIES[query], given)
    return [row[0] for row in await done.fetchall()]


async def load_change(db: AsyncConnection, change: str) -> StoredChange | None:
    """The row of a change; None if there is none."""
    query = sql.SQL("SELECT {} FROM service_changes WHERE change = %s")
    async with db.cursor(row_factory=class_row(StoredChange)) as cursor:
        await cursor.execute(query.format(columns_of(StoredChange)), (change,))
        return await cursor.fetchone()


def columns_of(kind: type[StoredChange]) -> sql.Composed:
    """The columns of the fields of a struct."""
    return sql.SQL(", ").join(map(sql.Identifier, kind.__struct_fields__))


async def choose_run(db: AsyncConnection, change: str, new: str) -> StoredChange | None:
    """The row of a change with the run of its head: an existing one, else ``new``."""
    await db.execute(QUERIES["choose_run"], (new, change))
    return await load_change(db, change)


async def update_change(
    db: AsyncConnection, change: str, still: Mapping[str, object] | None = None, /, **fields: object
) -> None:
    """Set fields of a change.

    Args:
        still: fields with the values that they must still have; else nothing is set.
    """
    query = sql.SQL("UPDATE service_changes SET {} WHERE {}").format(
        sql.SQL(", ").join(_equals(name) for name in fields),
        sql.SQL(" AND ").join(_equals(name) for name in ("change", *(still or ()))),
    )
    await db.execute(query, [*fields.values(), change, *(still or {}).values()])


def _equals(name: str) -> sql.Composed:
    return sql.SQL("{} = %s").format(sql.Identifier(name))


async def count_failure(db: AsyncConnection, change: str, most: int) -> bool:
    """Record that a review failed temporarily; False if it did too often."""
    return await _is_below(db, "count_failure", change, most)


async def count_crash(db: AsyncConnection, change: str, most: int) -> bool:
    """Record that a worker or its child died on a change's head; False if it did too often.

    Among others it may be their fault: then the next attempt is to be alone, and is not the last.
    """
    return await _is_below(db, "count_crash", change, most)


async def _is_below(db: AsyncConnection, update: str, change: str, most: int) -> bool:
    async with db.cursor(row_factory=scalar_row) as cursor:
        await cursor.execute(QUERIES[update], (change,))
        times = await cursor.fetchone()
    return times is not None and times < most
