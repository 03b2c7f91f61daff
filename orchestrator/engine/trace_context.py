"""Trace context (W3C): the trace id of a run and the span ids of its effects.

The ids are derived from the run's id and the effect's key, so every export of a run is the same
trace, and a span's id can be passed on before the span exists.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar

from msgspec import Struct

TRACEPARENT = "traceparent"
"""Key of the note of the trace that a run belongs to, where the environment named one."""

TRACEPARENT_VARIABLE = "TRACEPARENT"

_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")


class TraceContext(Struct, frozen=True):
    """The trace of a run; ids are in hexadecimal.

    Attributes:
        parent: the span that the run is in; may be empty.
    """

    run_id: str
    trace_id: str
    parent: str = ""

    def span_id(self, key: str = "") -> str:
        """The span of an effect, by its key; the run's own without one."""
        return hashlib.sha256(f"span\0{self.run_id}\0{key}".encode()).hexdigest()[:16]

    def header(self, key: str = "") -> str:
        """The value of the header ``traceparent`` for calls that an effect makes."""
        return f"00-{self.trace_id}-{self.span_id(key)}-01"


def parse_traceparent(text: str) -> tuple[str, str] | None:
    """Trace and span of a header ``traceparent``; None if it is invalid."""
    found = _FORM.fullmatch(text.strip())
    if found is None or not (found[1].strip("0") and found[2].strip("0")):
        return None
    return found[1], found[2]


def trace_of(run_id: str, note: Mapping[str, str] | None) -> TraceContext:
    """The trace of a run.

    Args:
        note: what is recorded under ``TRACEPARENT``.
    """
    if note is not None:
        return TraceContext(run_id, note["trace"], note["span"])
    return TraceContext(run_id, hashlib.sha256(f"trace\0{run_id}".encode()).hexdigest()[:32])


PERFORMED: ContextVar[tuple[Callable[[], TraceContext], str] | None] = ContextVar(
    "performed", default=None
)
"""The effect that is being performed: what returns the trace of its run, and its key."""


def current_traceparent() -> str:
    """The header ``traceparent`` of the effect that is being performed; empty outside of one."""
    performed = PERFORMED.get()
    if performed is None:
        return ""
    trace, key = performed
    return trace().header(key)
