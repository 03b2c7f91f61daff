"""Send spans to a collector over OTLP, or write them to a file (extra ``otel``)."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from orchestrator import __version__
from orchestrator.app.tracing.conventions import CONVENTIONS, ERROR, SCHEMA
from orchestrator.app.tracing.spans import SpanEvent, TraceSpan
from orchestrator.engine.trace_context import TraceContext
from orchestrator.errors import InputError, OutputError
from orchestrator.optional_dependencies import install_command

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
            with _collected_logs() as said:
                try:
                    result = self._exporter.export(batch)
                except Exception as error:  # whatever the SDK or its HTTP client raises
                    said.append(f"{type(error).__name__}: {error}")
                    result = SpanExportResult.FAILURE
            if result is not SpanExportResult.SUCCESS:
                raise OutputError(f"{_host(self.url)} did not take the trace: {_reason(said)}")

    def close(self) -> None:
        """Close its connections."""
        with suppress(Exception):
            self._exporter.shutdown()  # type: ignore[no-untyped-call]


def _host(url: str) -> str:
    parts = urlsplit(url)  # without a user and password, or a token in the path
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}"


def _reason(said: Sequence[str]) -> str:
    # Its last message says only that it gave up; an earlier one says why.
    found = (re.search(r"Transient error (.*) encountered", line) for line in said)
    why = next((match[1] for match in found if match), said[-1] if said else "no reason given")
    text = " ".join(why.split())
    # urllib3 names its pool, retries and classes before the actual error.
    if cause := re.search(r"\(Caused by \w+\([\"'](?:.*?\): )?(.*?)[\"']\)\)", text):
        text = cause[1]
    for mark in ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER", "SSLError"):
        if any(mark in line for line in said):
            return f"its TLS cannot be trusted ({mark.lower().replace('_', ' ')})"
    return text[:300]


@contextmanager
def _collected_logs() -> Iterator[list[str]]:
    """Collects the SDK's log messages, which would otherwise be printed."""
    said: list[str] = []

    class SpanHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logger, handler = logging.getLogger("opentelemetry"), SpanHandler()
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def render_json(trace: TraceContext, spans: Sequence[TraceSpan]) -> str:
    """Spans as a line of OTLP JSON, as collectors' file receivers read them.

    Raises:
        InputError: the extra is not installed.
    """
    try:
        from google.protobuf.json_format import MessageToDict  # noqa: PLC0415
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans  # noqa: PLC0415
    except ImportError:
        raise InputError(_MISSING) from None
    message = encode_spans([_readable(trace, span) for span in spans])
    document: dict[str, Any] = MessageToDict(message, use_integers_for_enums=True)
    by_id = {span.span_id: span for span in spans}
    for resource in document.get("resourceSpans", ()):
        for scope in resource["scopeSpans"]:
            for entry in scope["spans"]:
                _write_ids_in_hex(entry, trace, by_id)
    return json.dumps(document, separators=(",", ":")) + "\n"


def _write_ids_in_hex(
    entry: dict[str, Any], trace: TraceContext, spans: Mapping[str, TraceSpan]
) -> None:
    """Rewrite ids in hexadecimal, as OTLP's JSON requires; protobuf's JSON has base64."""
    import base64  # noqa: PLC0415

    span = spans[base64.b64decode(entry["spanId"]).hex()]
    entry |= {"traceId": trace.trace_id, "spanId": span.span_id}
    if span.parent:
        entry["parentSpanId"] = span.parent


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

    attributes = {**span.attributes, **({ERROR: span.error} if span.error else {})}
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
