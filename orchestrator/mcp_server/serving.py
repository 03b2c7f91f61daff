"""Serves coding agents over stdio, or over streamable HTTP on loopback with a token."""

import hmac
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import closing, suppress

import anyio

from orchestrator.app.types import ReviewOptions
from orchestrator.errors import InputError
from orchestrator.mcp_server.reviews import ServedReviews
from orchestrator.mcp_server.server import ReviewServer

TOKEN = "DIFFCOURT_MCP_TOKEN"  # noqa: S105 - a variable's name
MIN_TOKEN = 16
HOST = "127.0.0.1"


def serve_stdio(options: ReviewOptions) -> None:
    """Serve one client until it closes our standard input; what runs is interrupted, resumable."""
    with closing(ServedReviews(options)) as reviews:
        anyio.run(ReviewServer(reviews).run_stdio_async)


def serve_http(options: ReviewOptions, port: int, started: Callable[[str, str], None]) -> None:
    """Serve this machine's clients until Ctrl-C.

    Args:
        port: 0 for a free one.
        started: called with the address and the token that each request must send.

    Raises:
        InputError: the port is taken, or the token of the environment is too short.
    """
    import uvicorn  # noqa: PLC0415 - stdio does without
    from starlette.responses import PlainTextResponse  # noqa: PLC0415
    from starlette.types import Receive, Scope, Send  # noqa: PLC0415

    token = os.environ.get(TOKEN, "") or secrets.token_urlsafe(32)
    if len(token) < MIN_TOKEN or not token.isascii():
        raise InputError(f"{TOKEN} needs {MIN_TOKEN} ASCII characters; unset it for a new one")
    with closing(ServedReviews(options)) as reviews, closing(socket.socket()) as listening:
        inner, bearer = ReviewServer(reviews).streamable_http_app(), f"Bearer {token}".encode()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            given = dict(scope.get("headers", ())).get(b"authorization", b"")
            if scope["type"] == "lifespan" or hmac.compare_digest(given, bearer):
                await inner(scope, receive, send)
            else:
                await PlainTextResponse("a token is required\n", 401)(scope, receive, send)

        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((HOST, port))
            listening.listen()
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or "no such port"
            raise InputError(f"port {port} cannot be used ({why})") from None
        config = uvicorn.Config(
            app, log_config=None, ws="none", lifespan="on", timeout_graceful_shutdown=1
        )
        with suppress(KeyboardInterrupt):  # the usual end
            started(f"http://{HOST}:{listening.getsockname()[1]}/mcp", token)
            uvicorn.Server(config).run([listening])
