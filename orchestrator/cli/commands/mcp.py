"""``diffcourt mcp``: serve coding agents; list MCP servers for agents, and accept their tools."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.output import width_of
from orchestrator.errors import EXIT_OK, InputError
from orchestrator.optional_dependencies import install_command
from orchestrator.report.terminal_escaping import emit, escape_code_lines, escape_unprintable

if TYPE_CHECKING:
    from orchestrator.app.mcp.open_server_tools import ServerInspection


def run(args: argparse.Namespace) -> int:
    """Run the chosen subcommand."""
    return {"list": _list, "accept": _accept, "serve": _serve}[args.part](args)


def _list(args: argparse.Namespace) -> int:
    from orchestrator.app.mcp.open_server_tools import list_servers
    from orchestrator.report.text_layout import render_name_list

    if servers := list_servers(args.repo):
        emit(render_name_list(servers, width_of(sys.stdout)), sys.stdout)
    else:
        emit("config/mcp.yaml has no servers\n", sys.stdout)
    return EXIT_OK


def _accept(args: argparse.Namespace) -> int:
    from orchestrator.app.mcp.open_server_tools import inspect_server

    emit(_text(inspect_server(args.repo, args.server)), sys.stdout)
    return EXIT_OK


def _serve(args: argparse.Namespace) -> int:
    from orchestrator.app.run_review import require_source
    from orchestrator.app.types import ReviewOptions

    try:
        from orchestrator.mcp_server.server import serve_http, serve_stdio
    except ImportError:
        raise InputError(f"the server needs: {install_command('mcp')}") from None
    chosen = {name: getattr(args, name) for name in ("base", "provider", "max_minutes", "max_usd")}
    options = ReviewOptions(repo=(args.repo or Path()).absolute(), **chosen)
    require_source(options, "")
    if args.http:
        serve_http(options, args.port, _tell)
    else:
        serve_stdio(options)
    return EXIT_OK


def _tell(address: str, token: str) -> None:
    emit(f"Serving {address}\nAuthorization: Bearer {token}\nCtrl-C ends it.\n", sys.stdout)
    sys.stdout.flush()


def _text(seen: ServerInspection) -> str:
    """The tools as comments, to be read before accepting, and the YAML to commit."""
    import yaml

    lines = []
    for tool in seen.tools:
        why = f": {escape_unprintable(tool.why)}" if tool.why else ""
        lines.append(f"# {tool.name} ({tool.level}) is {tool.state}{why}")
        if tool.declared and tool.state != "accepted":
            lines += [f"#     {line}" for line in escape_code_lines(tool.declared)]
    if seen.besides:
        besides = ", ".join(map(escape_unprintable, seen.besides))
        lines.append(f"# offered, but not in the configuration: {besides}")
    lines.append(
        "# To accept these tools, commit this in .diffcourt/config/mcp.yaml of the base branch:"
    )
    return "\n".join(lines) + "\n" + yaml.safe_dump(seen.document, sort_keys=False)
