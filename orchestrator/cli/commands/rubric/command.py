"""``diffcourt rubric``: check, show, compare, convert, score, evaluate, tune and gate rubrics."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from orchestrator.cli.arguments import add_json_file, add_repo, amount, count
from orchestrator.cli.commands.rubric import comparing, file_commands, rewriting, scoring, tuning
from orchestrator.cli.commands.rubric.file_commands import add_exchange_commands
from orchestrator.cli.commands.rubric.label_commands import add_label_commands
from orchestrator.cli.commands.rubric.scoring import add_judging_options, add_provider
from orchestrator.cli.commands.rubric.shared_inputs import add_items, add_labels, check_outputs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands and their options."""
    part = parser.add_subparsers(metavar="COMMAND").add_parser
    _add_file_commands(part)
    _add_score_options(part("score"))
    comparing.add_arguments(part("compare"))
    rewriting.add_arguments(part("rewrite"))
    p = part("eval")
    add_items(p)
    add_labels(p)
    p.add_argument("--report", type=Path)
    add_json_file(p)
    p.set_defaults(do=tuning.evaluate)
    add_label_commands(part)
    add_exchange_commands(part)
    _add_tune_options(part("tune"))
    p = part("gate")
    add_items(p)
    add_labels(p)
    p.add_argument("--baseline", type=Path, required=True)
    p.add_argument("--freeze", action="store_true")
    p.add_argument("--force", action="store_true")
    p.add_argument("--margin", type=_drop)
    add_json_file(p)
    p.set_defaults(do=tuning.gate)


def _drop(text: str) -> float:
    value = amount(text)
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"must be between 0 and 1, not {text}")
    return value


def _add_file_commands(part: Callable[[str], argparse.ArgumentParser]) -> None:
    p = part("check")
    p.add_argument("rubrics", nargs="+", metavar="RUBRIC")
    p.set_defaults(do=file_commands.check)
    p = part("show")
    p.add_argument("rubric")
    p.set_defaults(do=file_commands.show)
    p = part("diff")
    p.add_argument("old")
    p.add_argument("new")
    p.set_defaults(do=file_commands.diff)
    p = part("new")
    add_items(p, rubric=False)
    p.add_argument("--out", type=Path, required=True)
    p.set_defaults(do=file_commands.new)
    p = part("import")
    p.add_argument("source", type=Path, metavar="FILE")
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--items", type=Path)
    p.add_argument("--threshold", type=float, default=0.5)
    p.set_defaults(do=file_commands.import_)
    p = part("export")
    p.add_argument("rubric")
    p.add_argument("--items", type=Path)
    p.set_defaults(do=file_commands.export)


def _add_score_options(p: argparse.ArgumentParser) -> None:
    add_items(p, many="*")
    p.add_argument("--runs", nargs="*")
    add_repo(p)
    add_provider(p)
    p.add_argument("--repeat", type=count, default=0)
    add_judging_options(p)
    p.add_argument("--out", type=Path)
    p.add_argument("--probes", action="store_true")
    p.add_argument("--json", action="store_true")
    p.set_defaults(do=scoring.score)


def _add_tune_options(p: argparse.ArgumentParser) -> None:
    add_items(p)
    add_labels(p)
    p.add_argument("--cost-false-merge", type=amount)
    p.add_argument("--cost-false-block", type=amount)
    p.add_argument("--penalties", action="store_true")
    p.add_argument("--out", type=Path)
    p.add_argument("--report", type=Path)
    add_json_file(p)
    p.add_argument("--seed", type=int)
    p.add_argument("--refits", type=count, default=1000)
    p.set_defaults(do=tuning.tune)


def run(args: argparse.Namespace) -> int:
    """Run the selected subcommand."""
    check_outputs(args)
    code: int = args.do(args, sys.stdout)
    return code
