"""A collector on loopback that decodes the protobuf of OTLP, and fails in the ways of real ones."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service


class Received:
    """What a collector was sent.

    Attributes:
        spans: as dictionaries, by their id in hexadecimal.
        requests: path and headers of each request.
    """

    def __init__(self) -> None:
        self.url = ""
        self.spans: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.resources: list[dict[str, Any]] = []
        self.schemas: set[str] = set()

    def take(self, body: bytes) -> None:
        message = service.ExportTraceServiceRequest.FromString(body)
        for resource in message.resource_spans:
            self.resources.append(attributes(MessageToDict(resource.resource)))
            for scope in resource.scope_spans:
                self.schemas.add(scope.schema_url)
                for span in scope.spans:
                    found = MessageToDict(span)
                    found |= {
                        "trace": span.trace_id.hex(),
                        "id": span.span_id.hex(),
                        "parent": span.parent_span_id.hex(),
                        "attributes": attributes(found),
                        "events": [(e["name"], attributes(e)) for e in found.get("events", [])],
                        "error": found.get("status", {}).get("code") == "STATUS_CODE_ERROR",
                    }
                    self.spans[found["id"]] = found

    def named(self, name: str) -> list[dict[str, Any]]:
        """The spans of that name, by their start."""
        return sorted(
            (span for span in self.spans.values() if span["name"] == name),
            key=lambda span: int(span["startTimeUnixNano"]),
        )


def attributes(of: dict[str, Any]) -> dict[str, Any]:
    """Attributes as a plain dictionary."""
    plain = {}
    for one in of.get("attributes", []):
        ((kind, value),) = one["value"].items()
        if kind == "intValue":
            value = int(value)
        if kind == "arrayValue":
            value = [next(iter(entry.values())) for entry in value["values"]]
        plain[one["key"]] = value
    return plain


@contextmanager
def collector(status: int = 200, hang: threading.Event | None = None) -> Iterator[Received]:
    """Serve while the context is open.

    Args:
        hang: answers only when this is set.
    """
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            received.requests.append((self.path, dict(self.headers)))
            if hang is not None:
                hang.wait(60)
            if status == 200:
                received.take(body)
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    received.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield received
    finally:
        if hang is not None:
            hang.set()
        server.shutdown()
        server.server_close()
        thread.join()
