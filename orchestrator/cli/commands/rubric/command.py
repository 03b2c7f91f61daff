"""``diffcourt rubric``: check, show, compare, convert, score, evaluate, tune and gate rubrics.

Only the module of the chosen subcommand is imported.
"""

import argparse
import math
import sys
from importlib import import_module

from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.cli.arguments import amount
from orchestrator.errors import EXIT_INTERRUPTED
from orchestrator.report.terminal_escaping import emit


def parse_scale(text: str) -> tuple[float, float]:
    """Parse a range of raw scores, such as ``0:1`` or ``1:4``."""
    low, colon, high = text.partition(":")
    try:
        ends = float(low), float(high)
    except ValueError:
        ends = math.nan, math.nan
    if not (colon and math.isfinite(ends[0]) and math.isfinite(ends[1]) and ends[0] < ends[1]):
        raise argparse.ArgumentTypeError(f"must be LOW:HIGH, such as 1:4, not {text!r}")
    return ends


def parse_drop(text: str) -> float:
    """Parse a margin: a share between 0 and 1."""
    value = amount(text)
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"must be between 0 and 1, not {text}")
    return value


def parse_pair(text: str) -> tuple[str, str]:
    """Parse what a field of ours is called elsewhere: ``OURS=THEIRS``."""
    ours, equals, theirs = text.partition("=")
    if not (ours and equals and theirs):
        raise argparse.ArgumentTypeError(f"must be OURS=THEIRS, such as text=answer, not {text!r}")
    return ours, theirs


def parse_judge_cost(text: str) -> tuple[str, float]:
    """Parse a judge's cost per item: ``JUDGE=USD``."""
    name, _, usd = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"must be JUDGE=USD, such as small=0.002, not {text!r}")
    return name, amount(usd)


INTERRUPTED = "\ninterrupted; run the same command again: what is scored is kept, batches go on\n"

_ON_FILES = {"check", "show", "diff", "new", "import", "export", "import-items", "export-items"}
_SCORING = {"score", "compare", "rewrite"}
_NAMES = {"import": "import_", "eval": "evaluate"}
"""Subcommands whose function has another name; the others' is theirs, with underscores."""


def run(args: argparse.Namespace) -> int:
    """Run the selected subcommand."""
    from orchestrator.cli.commands.rubric.shared_inputs import check_outputs, require_numpy

    check_outputs(args)
    module = "scoring" if args.part in _SCORING else "tuning"
    if args.part in _ON_FILES:
        module = "file_commands"
    else:
        require_numpy()
    found = import_module(f"orchestrator.cli.commands.rubric.{module}")
    name = _NAMES.get(args.part, args.part.replace("-", "_"))
    try:
        code: int = getattr(found, name)(args, sys.stdout)
    except KeyboardInterrupt:
        if getattr(args, "provider", OFFLINE) == OFFLINE:
            raise
        emit(INTERRUPTED, sys.stderr)
        return EXIT_INTERRUPTED
    return code
