"""The trace that a run is part of, where the environment names one."""

from collections.abc import Mapping

from orchestrator.engine.journal import Journal
from orchestrator.engine.trace_context import TRACEPARENT, VARIABLE, parse_traceparent


def note_parent(journal: Journal, environment: Mapping[str, str]) -> None:
    """Record the trace that a run begins in; a resumed run stays in that of its beginning."""
    known = journal.noted(TRACEPARENT)
    found = parse_traceparent(environment.get(VARIABLE, ""))
    if known is None and found is not None and journal.log.length <= 1:
        journal.note(TRACEPARENT, {"trace": found[0], "span": found[1]})
