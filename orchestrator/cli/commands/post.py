"""``diffcourt post``: post a verdict to a pull or merge request."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from orchestrator.cli.arguments import count, name_of
from orchestrator.errors import EXIT_OK
from orchestrator.report.terminal_escaping import emit_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.posting.post_verdict import Receipt

FORGES = ("github", "gitlab", "forgejo")
"""Each is a module of ``orchestrator.posting`` with ``open_forge(Target)``."""


def add_forge(parser: argparse.ArgumentParser, forges: Sequence[str]) -> None:
    """Add the options that name a forge and a project on it."""
    parser.add_argument("--to", choices=forges, required=True)
    parser.add_argument("--project", type=name_of("a project"))
    parser.add_argument("--url", type=name_of("an address"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("verdict", metavar="FILE")
    add_forge(parser, FORGES)
    parser.add_argument("--request", type=count)
    parser.add_argument("--max-inline", type=count)
    parser.add_argument("--always-comment", action="store_true")
    parser.add_argument("--trust-override", action="store_true")
    parser.add_argument("--suggest-fixes", action="store_true")


def run(args: argparse.Namespace) -> int:
    """Post the verdict and print what was read back."""
    from functools import partial
    from pathlib import Path

    from orchestrator.app.runs.verdict_files import read_verdict
    from orchestrator.posting.forge import PostingTarget
    from orchestrator.posting.post_verdict import make_cleaner, post_verdict
    from orchestrator.posting.posting_plan import INLINE, plan_posting

    verdict = read_verdict(Path(args.verdict))
    target = PostingTarget(args.project or "", args.request or 0, args.url or "", os.environ)
    adapter = import_module(f"orchestrator.posting.{args.to}")
    plan = partial(
        plan_posting,
        inline=args.max_inline or INLINE,
        always_comment=args.always_comment,
        trust_override=args.trust_override,
        suggest_fixes=args.suggest_fixes,
    )
    clean = make_cleaner(os.environ)
    receipt = post_verdict(verdict, adapter.open_forge(target), clean, plan)
    emit_line(_describe(receipt), sys.stdout)
    return EXIT_OK


def _describe(receipt: Receipt) -> str:
    summary = "the summary" if receipt.summary else "no summary"
    refused = f"; refused at {', '.join(receipt.refused)}: see the summary"
    return (
        f"Posted: the check, {summary}, {receipt.found} of {receipt.wanted} new comments, "
        f"{receipt.resolved} resolved{refused if receipt.refused else ''}"
    )
