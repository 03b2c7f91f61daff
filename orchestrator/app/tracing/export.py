"""Exports the trace of a run, afterwards or while it runs.

The exporter only reads the store, over its own connection. So a collector that is slow or down can
neither delay nor change a review, and a trace can be exported again later.
"""

import os
import shlex
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import anyio

from orchestrator.app.process_secrets import make_redactor
from orchestrator.app.runs import state_directory
from orchestrator.app.tracing.otlp import Collector, render_json, traces_url
from orchestrator.app.tracing.spans import SpanBuilder, TraceSpan
from orchestrator.app.types import is_program_run
from orchestrator.engine.observer_events import Event, Observer
from orchestrator.engine.ports import RunMeta
from orchestrator.errors import DiffcourtError, InputError
from orchestrator.stores.base import RunStore

LIVE = "DIFFCOURT_OTEL"
"""Environment variable: ``1`` exports each run while it runs, ``content`` with content."""

POLL_SECONDS = 2.0
LAST_SECONDS = 5.0
"""How long a finished command waits for what is still to be exported."""


def trace_run(
    repo: Path | None, run_id: str, to: str | Callable[[str], None], *, content: bool = False
) -> tuple[str, int]:
    """Export a run's trace.

    Args:
        to: the address of a collector, empty for OpenTelemetry's variables; or what writes the
            trace as a line of OTLP JSON.

    Returns:
        The run's full id and the number of spans.

    Raises:
        RunNotFound, InputError: no such run, no such collector, or the extra is missing.
        OutputError: it was not delivered.
    """

    async def read(store: RunStore, run: RunMeta) -> tuple[SpanBuilder, list[TraceSpan]]:
        name = run.run_id if is_program_run(run) else ""
        builder = _builder(run.run_id, content=content, name=name)
        rows = await store.rows(run.run_id)
        spans = [span for row in rows for span in builder.feed(row)]
        return builder, [*spans, *builder.close()]

    target = traces_url(to, os.environ) if isinstance(to, str) else ""
    with state_directory.open_run(repo, run_id) as (store, run):
        builder, spans = anyio.run(read, store, run)
    if not isinstance(to, str):
        to(render_json(builder.trace, spans))
        return run.run_id, len(spans)
    with closing(Collector(target)) as collector:
        collector.send(builder.trace, spans)
    return run.run_id, len(spans)


def _builder(run_id: str, *, content: bool, name: str = "") -> SpanBuilder:
    return SpanBuilder(run_id, content=content, redact=make_redactor(os.environ).json, name=name)


class LiveTrace:
    """Exports a run while it runs, from a thread that reads the store.

    Args:
        to: the address of a collector; empty for OpenTelemetry's variables.

    Raises:
        InputError: there is no collector, or the extra is missing.
    """

    def __init__(self, repo: Path | None, to: str, *, content: bool = False) -> None:
        self._repo, self._to, self._content = repo, to, content
        self._collector = Collector(traces_url(to, os.environ))
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._run_id = self._failure = ""

    def follow(self, observer: Observer) -> Observer:
        """An observer that forwards events, and starts the export when the run starts."""

        def observe(event: Event) -> None:
            if event.kind == "run_started" and self._thread is None:
                self._run_id = event.detail
                self._thread = threading.Thread(target=self._work, name="otel", daemon=True)
                self._thread.start()
            observer(event)

        return observe

    def finish(self) -> str:
        """Export what is left.

        Returns:
            What went wrong, as a line with the command that exports it again; empty if nothing.
        """
        if self._thread is None:
            return ""
        self._ended.set()
        self._thread.join(LAST_SECONDS)
        if self._thread.is_alive():
            self._failure = f"the collector took longer than {LAST_SECONDS:g} s"
        if not self._failure:
            return ""
        again = f"diffcourt trace {self._run_id}"
        again += f" --to {shlex.quote(self._to)}" if self._to else ""
        again += f" --repo {shlex.quote(str(self._repo))}" if self._repo else ""
        return f"the trace was not exported completely: {self._failure}; export it with: {again}"

    def _work(self) -> None:
        try:
            with state_directory.open_store(self._repo) as store:
                anyio.run(self._export, store)
        except DiffcourtError as error:
            self._failure = str(error)
        except Exception as error:  # reported; must not end anything else
            self._failure = f"{type(error).__name__}: {error}"
        finally:
            self._collector.close()

    async def _export(self, store: RunStore) -> None:
        builder, read = _builder(self._run_id, content=self._content), 0
        last = False
        while not last:
            last = await anyio.to_thread.run_sync(self._ended.wait, POLL_SECONDS)
            rows = await store.rows(self._run_id, read)
            read = rows[-1].seq if rows else read
            spans = [span for row in rows for span in builder.feed(row)]
            spans += builder.close() if last else ()
            self._collector.send(builder.trace, spans)


def live_trace(
    repo: Path | None, flag: str | None, environment: Mapping[str, str]
) -> LiveTrace | None:
    """The live export that an option or the environment requests; None if neither does.

    Args:
        flag: the option's address, empty for OpenTelemetry's variables; None: it is not given.

    Raises:
        InputError: the variable has an unknown value, or as ``LiveTrace``.
    """
    wish = environment.get(LIVE, "").strip().lower()
    if wish not in {"", "0", "1", "content"}:
        raise InputError(f"{LIVE} must be 1, content or 0; it is {wish!r}")
    if flag is None and wish in {"", "0"}:
        return None
    return LiveTrace(repo, flag or "", content=wish == "content")
