"""``diffcourt view``: runs, approvals and questions in a local browser."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.arguments import directory
from orchestrator.cli.page_serving import add_serving_options, serve_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.web.access import Access
    from orchestrator.web.site import Part


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Show runs in your browser: live, with their findings, calls and journal; approve,\n"
        "answer and continue. The page is served on this machine only, to who has the link."
    )
    parser.add_argument(
        "--repo", type=directory, action="append", metavar="DIR", dest="repos",
        help="repository whose runs are shown; repeatable; default: the current directory",
    )  # fmt: skip
    add_serving_options(parser)


def run(args: argparse.Namespace) -> int:
    """Serve the pages until Ctrl-C."""

    def make_parts(access: Access) -> Sequence[Part]:
        from orchestrator.web.runs.parts import make_runs_part
        from orchestrator.web.statistics import make_statistics_part

        repos = args.repos or [Path()]
        return [make_runs_part(repos), make_statistics_part(repos)]

    return serve_parts(args, make_parts)
