"""Serve a site on this machine only."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from orchestrator.errors import InputError
from orchestrator.web.site import Site

HOST = "127.0.0.1"
MAX_CONNECTIONS = 200


def serve(site: Site, port: int, started: Callable[[], None]) -> None:
    """Serve a site until Ctrl-C or SIGTERM.

    Args:
        port: 0 for a free one.
        started: called once the site can be opened.

    Raises:
        InputError: the port is taken.
    """
    listening = _listen(site, port)
    started()
    try:
        _server(site).run([listening])
    except KeyboardInterrupt:
        return  # the usual end
    finally:
        listening.close()


@contextmanager
def running(site: Site) -> Iterator[Site]:
    """Serve a site in a thread, at a free port."""
    listening = _listen(site, 0)
    server = _server(site)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield site
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def _listen(site: Site, port: int) -> socket.socket:
    # asyncio turns delays off (TCP_NODELAY) only where the protocol is named: 40 ms for each page.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen()
    except (OSError, OverflowError) as error:
        listening.close()
        why = getattr(error, "strerror", None) or "no such port"
        raise InputError(f"port {port} cannot be used ({why}); leave --port out") from None
    site.access.serve_at(listening.getsockname()[1])
    return listening


def _server(site: Site) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            site.app,
            ws="none",
            http="h11",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=1,
        )
    )
