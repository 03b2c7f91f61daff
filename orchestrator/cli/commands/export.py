"""``diffcourt export``: write a verdict in the formats of other programs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.arguments import add_repo
from orchestrator.cli.verdict_outputs import Outputs, add_format_option
from orchestrator.errors import EXIT_OK, InputError

if TYPE_CHECKING:
    from orchestrator.code_review.verdict.model import Verdict


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Write the verdict of a run, or of a file, in the formats of other programs."
    )
    parser.add_argument(
        "source",
        nargs="?",
        default="latest",
        metavar="RUN",
        help="a run, latest, or a file that review --json wrote; default: latest",
    )
    add_format_option(parser, "--to", purpose="write the verdict in this format")
    add_repo(parser)


def run(args: argparse.Namespace) -> int:
    """Write the verdict in each format."""
    if not args.formats:
        raise InputError("name a format with --to, for example --to sarif=results.sarif")
    outputs = Outputs(args.formats, "--to")
    outputs.write(load_verdict(args.repo, args.source))
    return EXIT_OK


def load_verdict(repo: Path | None, source: str) -> Verdict:
    """The verdict of a file, where there is one of that name, else of a run.

    Raises:
        InputError: the file holds no verdict, or the run has none yet.
        RunNotFound: there is neither a file nor a run of that name.
    """
    from orchestrator.app.stored_runs import show_run
    from orchestrator.app.verdict_files import read_verdict

    if source != "latest" and Path(source).is_file():
        return read_verdict(Path(source))
    verdict = show_run(repo, source).verdict
    if verdict is None:
        raise InputError(f"{source} has no verdict yet; finish it with diffcourt resume {source}")
    return verdict
