"""A forge on loopback: rate limits, refusals, lost replies and pages, for the servers of each kind."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote

HEAD = "9d0e4f2a1b2c3d4e5f60718293a4b5c6d7e8f901"
TOKEN = "s3cret-t0ken"
PAGE = 2
"""Entries of a page, whatever is asked for."""


class ForgeServer:
    """What the servers share.

    Attributes:
        calls: every call, as ``METHOD path``.
        refuse: (method, part of the path) → what the next such calls are answered, as
            (status, headers, message); with "performed" among its headers, the call is made first.
        url: its address, while it is served.
        folder: what it serves below ``/clones/`` as files.
    """

    token_header = "Authorization", f"token {TOKEN}"

    def __init__(self) -> None:
        self.head = HEAD
        self.calls: list[str] = []
        self.refuse: dict[tuple[str, str], list[tuple[int, dict[str, str], str]]] = {}
        self.url = ""
        self.folder = Path()

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        """The document that a call is answered with; a text is sent as it is.

        Raises:
            Refusal: it is refused.
        """
        raise NotImplementedError


class Refusal(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, headers: dict[str, str], message: str) -> None:
        super().__init__(message)
        self.status, self.headers, self.message = status, headers, message


class Handler(SimpleHTTPRequestHandler):
    """Answers calls from a ``ForgeServer``."""

    server_state: ForgeServer

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def handle_call(self) -> None:
        """Answer one call."""
        path, _, raw = self.path.partition("?")
        path = unquote(path)
        if path.startswith("/clones/"):
            self.directory = str(self.server_state.folder)
            self.do_GET_file()
            return
        query = dict(parse_qsl(raw))
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        self.server_state.calls.append(f"{self.command} {path}")
        name, value = self.server_state.token_header
        assert self.headers[name] == value
        try:
            self.refuse(path, query, body)
            document = self.server_state.answer(self.command, path, query, body)
        except Refusal as refusal:
            self.send(refusal.status, refusal.headers, {"message": refusal.message})
            return
        created = self.command == "POST" and path != "/graphql"
        self.send(201 if created else 200, *self.page(path, query, document))

    def refuse(self, path: str, query: dict[str, str], body: Any) -> None:
        """Refuse the call where the test says so."""
        for (method, part), answers in self.server_state.refuse.items():
            if method == self.command and part in path and answers:
                status, headers, message = answers.pop(0)
                if headers.pop("performed", ""):
                    self.server_state.answer(self.command, path, query, body)
                raise Refusal(status, headers, message)

    def page(self, path: str, query: dict[str, str], document: Any) -> tuple[dict[str, str], Any]:
        """One page of a list, with the address of the next one."""
        if not isinstance(document, list):
            return {}, document
        start = (int(query.get("page", "1")) - 1) * PAGE
        headers = {}
        if start + PAGE < len(document):
            following = f"{self.server_state.url}{path}?page={start // PAGE + 2}"
            headers["Link"] = f'<{following}>; rel="next"'
        return headers, document[start : start + PAGE]

    def send(self, status: int, headers: dict[str, str], document: Any) -> None:
        """Send a document."""
        data = (document if isinstance(document, str) else json.dumps(document)).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        kind = "text/plain" if isinstance(document, str) else "application/json"
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(data)

    do_GET_file = SimpleHTTPRequestHandler.do_GET  # noqa: N815
    do_GET = do_POST = do_PATCH = do_PUT = handle_call  # noqa: N815 - names of the standard library


ServerT = TypeVar("ServerT", bound=ForgeServer)


@contextmanager
def serving(server: ServerT) -> Iterator[ServerT]:
    """Serve on loopback; ``server.url`` is its address."""
    handler = type("Bound", (Handler,), {"server_state": server})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        server.url = f"http://127.0.0.1:{http.server_port}"
        thread = Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
