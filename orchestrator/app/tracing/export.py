"""Exports the trace of a run, afterwards or while it runs: to a collector over OTLP, or a file.

The exporter only reads the store, over its own connection. So a collector that is slow or down can
neither delay nor change a review, and a trace can be exported again later.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio

from orchestrator import __version__
from orchestrator.app.process_secrets import make_redactor
from orchestrator.app.runs import state_directory
from orchestrator.app.tracing.spans import (
    CONVENTIONS,
    NAMES,
    SCHEMA,
    SpanBuilder,
    SpanEvent,
    TraceSpan,
)
from orchestrator.app.types import is_program_run
from orchestrator.engine.observer_events import Event, Observer
from orchestrator.engine.ports import RunMeta
from orchestrator.engine.trace_context import TraceContext
from orchestrator.errors import DiffcourtError, InputError, OutputError
from orchestrator.optional_dependencies import install_command
from orchestrator.stores.sql_store import RunStore

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PATH = "v1/traces"
_MISSING = f"traces need the OpenTelemetry SDK; run: {install_command('otel')}"
BATCH = 256
"""Spans of a request."""

TIMEOUT = 10.0
"""Seconds that the SDK tries to deliver one request, with its own retries."""


def traces_url(given: str, environment: Mapping[str, str]) -> str:
    """The address to which spans are sent: of an option, else of OpenTelemetry's variables.

    The path of traces is appended if it is missing, as for OTEL_EXPORTER_OTLP_ENDPOINT.

    Raises:
        InputError: there is none, or it is no http address.
    """
    exact = environment.get(ENDPOINTS[0], "").strip()
    base = given or exact or environment.get(ENDPOINTS[1], "").strip()
    if not base:
        raise InputError(
            f"there is no collector to send traces to: name one with --to, or set {ENDPOINTS[1]}"
        )
    parts = urlsplit(base)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InputError(f"{base!r} is not the address of a collector; write http://HOST:4318")
    if (exact and not given) or parts.path.endswith(PATH):
        return base
    return f"{base.rstrip('/')}/{PATH}"


class Collector:
    """Sends the spans of one run to an OTLP collector.

    Args:
        url: as ``traces_url`` gives it.

    Raises:
        InputError: the extra is not installed.
    """

    def __init__(self, url: str) -> None:
        try:
            # Optional, and its import takes half a second.
            from opentelemetry.exporter.otlp.proto.http import trace_exporter  # noqa: PLC0415
        except ImportError:
            raise InputError(_MISSING) from None
        self.url = url
        self._exporter: OTLPSpanExporter = trace_exporter.OTLPSpanExporter(
            endpoint=url, timeout=TIMEOUT
        )

    def send(self, trace: TraceContext, spans: Sequence[TraceSpan]) -> None:
        """Deliver spans.

        Raises:
            OutputError: they were not delivered; says why in one line.
        """
        from opentelemetry.sdk.trace.export import SpanExportResult  # noqa: PLC0415

        for start in range(0, len(spans), BATCH):
            batch = [_readable(trace, span) for span in spans[start : start + BATCH]]
            with _collected_logs() as messages:
                try:
                    result = self._exporter.export(batch)
                except Exception as error:  # whatever the SDK or its HTTP client raises
                    messages.append(f"{type(error).__name__}: {error}")
                    result = SpanExportResult.FAILURE
            if result is not SpanExportResult.SUCCESS:
                raise OutputError(f"{_host(self.url)} did not take the trace: {_reason(messages)}")

    def close(self) -> None:
        """Close its connections."""
        with suppress(Exception):
            self._exporter.shutdown()  # type: ignore[no-untyped-call]


def _host(url: str) -> str:
    parts = urlsplit(url)  # without a user and password, or a token in the path
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"


def _reason(messages: Sequence[str]) -> str:
    # Its last message says only that it gave up; an earlier one says why.
    found = (re.search(r"Transient error (.*) encountered", line) for line in messages)
    last = messages[-1] if messages else "no reason given"
    why = next((match[1] for match in found if match), last)
    text = " ".join(why.split())
    # urllib3 names its pool, retries and classes before the actual error.
    if cause := re.search(r"\(Caused by \w+\([\"'](?:.*?\): )?(.*?)[\"']\)\)", text):
        text = cause[1]
    for mark in ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER", "SSLError"):
        if any(mark in line for line in messages):
            return f"its TLS cannot be trusted ({mark.lower().replace('_', ' ')})"
    return text[:300]


@contextmanager
def _collected_logs() -> Iterator[list[str]]:
    """Collects the SDK's log messages, which would otherwise be printed."""
    messages: list[str] = []

    class SpanHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger, handler = logging.getLogger("opentelemetry"), SpanHandler()
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def render_json(trace: TraceContext, spans: Sequence[TraceSpan]) -> str:
    """Spans as a line of OTLP JSON, as collectors' file receivers read them."""
    import base64  # noqa: PLC0415

    try:
        from google.protobuf.json_format import MessageToDict  # noqa: PLC0415
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans  # noqa: PLC0415
    except ImportError:
        raise InputError(_MISSING) from None
    message = encode_spans([_readable(trace, span) for span in spans])
    document: dict[str, Any] = MessageToDict(message, use_integers_for_enums=True)
    by_id = {span.span_id: span for span in spans}
    scopes = (
        one for resource in document.get("resourceSpans", ()) for one in resource["scopeSpans"]
    )
    for entry in (one for scope in scopes for one in scope["spans"]):
        # OTLP's JSON requires ids in hexadecimal; protobuf's JSON has base64.
        span = by_id[base64.b64decode(entry["spanId"]).hex()]
        entry |= {"traceId": trace.trace_id, "spanId": span.span_id}
        if span.parent:
            entry["parentSpanId"] = span.parent
    return json.dumps(document, separators=(",", ":")) + "\n"


def _readable(trace: TraceContext, span: TraceSpan) -> ReadableSpan:
    """A span in the SDK's form."""
    from opentelemetry.sdk.trace import Event, ReadableSpan  # noqa: PLC0415
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags  # noqa: PLC0415

    def context(span_id: str) -> SpanContext:
        return SpanContext(
            int(trace.trace_id, 16), int(span_id, 16), False, TraceFlags(TraceFlags.SAMPLED)
        )

    def event(entry: SpanEvent) -> Event:
        return Event(entry.name, dict(entry.attributes), _nanoseconds(entry.at))

    attributes = {**span.attributes, **({NAMES.ERROR: span.error} if span.error else {})}
    return ReadableSpan(
        span.name,
        context=context(span.span_id),
        parent=context(span.parent) if span.parent else None,
        resource=_resource(),
        attributes=attributes,
        events=[event(entry) for entry in span.events],
        kind=SpanKind.CLIENT if span.kind == "client" else SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR if span.error else StatusCode.UNSET),
        start_time=_nanoseconds(span.start),
        end_time=_nanoseconds(span.end),
        instrumentation_scope=InstrumentationScope(
            "diffcourt", __version__, SCHEMA, {"gen_ai.conventions": CONVENTIONS}
        ),
    )


def _resource() -> Resource:
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.version import __version__ as sdk  # noqa: PLC0415

    service = os.environ.get("OTEL_SERVICE_NAME", "").strip() or "diffcourt"
    written_by = {"name": "opentelemetry", "language": "python", "version": sdk}
    return Resource(
        {
            "service.name": service,
            "service.version": __version__,
            **{f"telemetry.sdk.{name}": value for name, value in written_by.items()},
        }
    )


def _nanoseconds(at: float) -> int:
    return int(at * 1_000_000) * 1000


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
