"""``diffcourt view``: runs, approvals and questions in a local browser."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.output import OutputTarget
from orchestrator.cli.page_serving import serve_parts
from orchestrator.errors import EXIT_OK, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.web.access import Access
    from orchestrator.web.site import SitePart


def run(args: argparse.Namespace) -> int:
    """Serve the pages until Ctrl-C, or write one run's."""
    if args.bundle:
        return _write_bundle(args.repos or [Path()], *args.bundle)

    def make_parts(access: Access) -> Sequence[SitePart]:
        from orchestrator.web.repository_pages import (
            make_memory_part,
            make_statistics_part,
            make_tuning_part,
        )
        from orchestrator.web.runs import make_runs_part

        makers = (make_runs_part, make_statistics_part, make_memory_part, make_tuning_part)
        return [make(args.repos or [Path()]) for make in makers]

    return serve_parts(args, make_parts, metrics_token=_read_token(args.metrics_token_file))


def _read_token(file: Path | None) -> str:
    """The token for /metrics, from a file or else the environment; empty for none."""
    if file is None:
        return os.environ.get("DIFFCOURT_METRICS_TOKEN", "").strip()
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise InputError(f"--metrics-token-file: {file} cannot be read: {error}") from None
    if not token:
        raise InputError(f"--metrics-token-file: {file} is empty; write the token into it")
    return token


def _write_bundle(repos: Sequence[Path], name: str, file: str) -> int:
    """Write a run as one page."""
    if len(repos) > 1:
        raise InputError("--bundle writes one run; give one --repo")
    target = OutputTarget(file, "--bundle")
    from orchestrator.app.finding_excerpts import read_excerpts
    from orchestrator.app.runs.run_details import describe_calls, load_details, verify_rows
    from orchestrator.report.formats import FormatInputs
    from orchestrator.report.formats.html_page import render_html
    from orchestrator.report.formats.html_page.run_sections import render_run

    found = load_details(repos[0], name)
    if found.verdict is None:
        raise InputError(found.problem or f"{found.summary.run_id} has no verdict yet")
    sources = FormatInputs(excerpts=read_excerpts(repos[0], found.verdict))
    calls, checked = describe_calls(found), verify_rows(found)
    run = render_run(found.verdict, found.record, calls, checked)
    target.write(render_html(found.verdict, sources, run))
    return EXIT_OK
