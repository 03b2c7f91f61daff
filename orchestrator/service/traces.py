"""The trace of a push, from its webhook to its post: the review's own trace is a part of it.

Made afterwards from the queue's events, so that a collector that is down changes nothing.
"""

import asyncio
import time
from hashlib import sha256

import psycopg

from orchestrator.app.tracing.otlp import Collector, traces_url
from orchestrator.app.tracing.spans import Span
from orchestrator.engine.trace_context import TraceContext
from orchestrator.errors import DiffcourtError
from orchestrator.service.changes import REVIEW_TASK, StoredChange
from orchestrator.service.job_queue import LOG

_TIMES = """
SELECT extract(epoch FROM c.received)::float8,
       extract(epoch FROM min(e.at) FILTER (WHERE e.type = 'started'))::float8,
       extract(epoch FROM max(e.at) FILTER (WHERE e.type = 'succeeded'))::float8
FROM service_changes c
LEFT JOIN procrastinate_jobs j ON j.args->>'change' = c.change AND j.task_name = %(task)s
LEFT JOIN procrastinate_events e ON e.job_id = j.id AND e.at >= c.received
WHERE c.change = %(change)s GROUP BY c.received
"""


def context_of(row: StoredChange) -> TraceContext:
    """The trace of a change's newest run."""
    trace = sha256(f"service\0{row.run}".encode()).hexdigest()[:32]
    return TraceContext(f"service {row.run}", trace)


def check_exporter(address: str) -> None:
    """Check that traces can be sent at all; nothing is sent.

    Raises:
        InputError: the address is none of a collector, or the extra is missing.
    """
    Collector(traces_url(address, {})).close()


async def export_trace(
    db: psycopg.AsyncConnection, address: str, row: StoredChange, post_began: float
) -> None:
    """Send the spans of a push that has been posted: waiting, review and post, within one.

    Args:
        address: of the collector.
        post_began: seconds since the epoch.
    """
    values = {"change": row.change, "task": REVIEW_TASK}
    times = await (await db.execute(_TIMES, values)).fetchone()
    if times is None:
        return
    received, started, ended = times
    now, trace = time.time(), context_of(row)
    root = trace.span_id()
    parts = {"": (received, now), "post": (post_began, now)}
    if started is not None:
        parts |= {"wait": (received, started), "review": (started, ended or post_began)}
    about = {"diffcourt.change": row.change, "diffcourt.head": row.head, "diffcourt.run": row.run}
    spans = [
        Span(
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
    await asyncio.to_thread(_send, address, trace, spans)


def _send(address: str, trace: TraceContext, spans: list[Span]) -> None:
    try:
        collector = Collector(traces_url(address, {}))
        try:
            collector.send(trace, spans)
        finally:
            collector.close()
    except DiffcourtError as error:
        LOG.warning("the trace of a push is not exported: %s", error)
