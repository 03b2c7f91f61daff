"""Options and start of the commands that serve pages to a browser (extra ``web``)."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestrator.errors import EXIT_OK, InputError
from orchestrator.report.terminal_escaping import emit_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.web.access import Access, Proxy
    from orchestrator.web.site import SitePart

MAX_PORT = 65_535


def port(text: str) -> int:
    """Argument type: the number of a port."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= MAX_PORT):
        raise argparse.ArgumentTypeError(f"must be a port from 1 to {MAX_PORT}, not {text!r}")
    return int(text)


def serve_parts(
    args: argparse.Namespace,
    make_parts: Callable[[Access], Sequence[SitePart]],
    user: str = "",
    metrics_token: str = "",
) -> int:
    """Serve pages until Ctrl-C.

    Args:
        make_parts: what is served; called once all libraries are there.
        user: who is signed in by the link; empty for the user of this machine.
        metrics_token: what a scraper of /metrics sends; empty for none.

    Raises:
        InputError: a library is not installed, an option is missing, or the port is taken.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        from orchestrator.optional_dependencies import install_command

        raise InputError(f"pages in the browser need: {install_command('web')}") from None
    from orchestrator.app.human_decisions.approvals import current_user
    from orchestrator.web.access import Access
    from orchestrator.web.site import Site, serve

    access = Access(
        user or current_user(),
        read_only=args.read_only,
        proxy=_read_proxy(args),
        metrics_token=metrics_token,
    )
    site = Site(access, make_parts(access))
    serve(site, args.port, lambda: _tell(args, access))
    return EXIT_OK


def _read_proxy(args: argparse.Namespace) -> Proxy | None:
    from orchestrator.web.access import PROXY_SECRET, Proxy

    if not args.proxy_origin:
        if args.user_header or args.operator:
            raise InputError("--user-header and --operator need --proxy-origin URL")
        return None
    if not args.user_header or not args.port:
        raise InputError("--proxy-origin needs --user-header NAME and --port N")
    secret = os.environ.get(PROXY_SECRET, "")
    return Proxy(args.proxy_origin, args.user_header, secret, frozenset(args.operator))


def _tell(args: argparse.Namespace, access: Access) -> None:
    link = access.new_link()
    asks = not access.proxy and sys.stdin is not None and sys.stdin.isatty()
    if access.proxy:
        emit_line(f"Serving {link} at 127.0.0.1:{access.port}. Ctrl-C ends it.", sys.stdout)
    else:
        emit_line(f"Open {link}", sys.stdout)
        again = "Enter prints another one. " if asks else ""
        emit_line(f"The link works once. {again}Ctrl-C ends it.", sys.stdout)
    if args.open:
        import webbrowser

        webbrowser.open(link)
    if asks:
        threading.Thread(target=_print_links, args=[access], daemon=True).start()


def _print_links(access: Access) -> None:
    for _ in sys.stdin:
        emit_line(f"Open {access.new_link()}", sys.stdout)
