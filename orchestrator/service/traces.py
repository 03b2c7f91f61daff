"""The trace of a push, from its webhook to its post, with the review's trace as a part.

It is created afterwards from the queue's events, so a collector that is down has no effect.
"""

import time
from contextlib import closing
from hashlib import sha256

from psycopg import AsyncConnection

from orchestrator.app.tracing.export import Collector, traces_url
from orchestrator.app.tracing.spans import TraceSpan
from orchestrator.engine.trace_context import TraceContext
from orchestrator.errors import DiffcourtError
from orchestrator.service.changes import REVIEW_TASK, StoredChange
from orchestrator.service.database import QUERIES
from orchestrator.service.job_queue import LOG


def context_of(row: StoredChange) -> TraceContext:
    """The trace of a change's newest run."""
    trace = sha256(f"service\0{row.run}".encode()).hexdigest()[:32]
    return TraceContext(f"service {row.run}", trace)


def check_exporter(address: str) -> None:
    """Check that traces can be sent; nothing is sent.

    Raises:
        InputError: the address is not a collector's, or the extra is missing.
    """
    Collector(traces_url(address, {})).close()


async def make_spans(db: AsyncConnection, row: StoredChange, post_began: float) -> list[TraceSpan]:
    """The spans of a push that has been posted: waiting, review and post, within one.

    Args:
        post_began: seconds since the epoch.
    """
    values = {"change": row.change, "task": REVIEW_TASK}
    times = await (await db.execute(QUERIES["times_of_push"], values)).fetchone()
    if times is None:
        return []
    received, started, ended = times
    now, trace = time.time(), context_of(row)
    root = trace.span_id()
    parts = {"": (received, now), "post": (post_began, now)}
    if started is not None:
        parts |= {"wait": (received, started), "review": (started, ended or post_began)}
    about = {"diffcourt.change": row.change, "diffcourt.head": row.head, "diffcourt.run": row.run}
    return [
        TraceSpan(
            name=name or "push",
            kind="internal",
            span_id=trace.span_id(name),
            parent=root if name else "",
            start=start,
            end=end,
            attributes=dict(about),
            error="incomplete" if row.problem and name in {"", "review"} else "",
        )
        for name, (start, end) in parts.items()
    ]


def send_spans(address: str, row: StoredChange, spans: list[TraceSpan]) -> None:
    """Send the spans of a push to a collector; a failure is logged. Blocks."""
    try:
        with closing(Collector(traces_url(address, {}))) as collector:
            collector.send(context_of(row), spans)
    except DiffcourtError as error:
        LOG.warning("the trace of a push is not exported: %s", error)
