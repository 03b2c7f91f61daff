"""``diffcourt rubric``: check, show, compare, convert, score, evaluate, tune and gate rubrics."""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from orchestrator.cli.arguments import add_json_file, add_part, add_repo, amount, count
from orchestrator.cli.commands.rubric import (
    comparing,
    feedback_command,
    file_commands,
    rewriting,
    scoring,
    tuning,
)
from orchestrator.cli.commands.rubric.exchange_commands import add_exchange_commands
from orchestrator.cli.commands.rubric.label_commands import add_label_commands
from orchestrator.cli.commands.rubric.model_scoring import add_judging_options, add_provider
from orchestrator.cli.commands.rubric.shared_inputs import (
    RUBRIC_HELP,
    add_force,
    add_items,
    add_labels,
    add_report,
    check_outputs,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands and their options."""
    parts = parser.add_subparsers(
        title="subcommands", metavar="COMMAND", dest="part", required=True
    )

    part = partial(add_part, parts)
    _add_file_commands(part)
    _add_score_options(part("score", "score items, or recorded runs by replay; a model can judge"))
    comparing.add_arguments(
        part("compare", "compare two rubrics, wordings, prompts or models on the same labels")
    )
    rewriting.add_arguments(
        part(
            "rewrite",
            "reword a judged criterion with a model; write the wording only if it is proven better",
        )
    )
    p = part("eval", "measure the agreement of a rubric with labels")
    add_items(p)
    add_labels(p)
    add_report(p)
    add_json_file(p)
    p.set_defaults(do=tuning.evaluate)
    add_label_commands(part)
    add_exchange_commands(part)
    feedback_command.add_arguments(
        part("feedback", "estimate how many findings were useful, from what people did with them")
    )
    _add_tune_options(
        part(
            "tune", "fit weights and threshold to labels; write a rubric only if the gain is proven"
        )
    )
    p = part("gate", "fail when agreement with a baseline set dropped significantly")
    add_items(p)
    add_labels(p)
    p.add_argument("--baseline", type=Path, required=True, metavar="FILE", help="the baseline file")
    p.add_argument(
        "--freeze", action="store_true", help="write the baseline instead of checking against it"
    )
    add_force(p)
    p.add_argument(
        "--margin",
        type=_drop,
        metavar="X",
        help="pass only if kappa has provably dropped by less than X, such as 0.05",
    )
    add_json_file(p)
    p.set_defaults(do=tuning.gate)


def _drop(text: str) -> float:
    value = amount(text)
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"must be between 0 and 1, not {text}")
    return value


def _add_file_commands(part: Callable[[str, str], argparse.ArgumentParser]) -> None:
    p = part("check", "validate rubric files")
    p.add_argument("rubrics", nargs="+", metavar="RUBRIC", help=RUBRIC_HELP)
    p.set_defaults(do=file_commands.check)
    p = part("show", "print a rubric as a tree, with its provenance")
    p.add_argument("rubric", metavar="RUBRIC", help=RUBRIC_HELP)
    p.set_defaults(do=file_commands.show)
    p = part("diff", "list the differences between two rubrics")
    p.add_argument("old", metavar="OLD", help=RUBRIC_HELP)
    p.add_argument("new", metavar="NEW", help=RUBRIC_HELP)
    p.set_defaults(do=file_commands.diff)
    p = part("new", "create a rubric with equal weights from the criteria in scored items")
    add_items(p, rubric=False)
    p.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the rubric file to write"
    )
    p.set_defaults(do=file_commands.new)
    p = part("import", "import a rubric from a task tree of PaperBench")
    p.add_argument("source", type=Path, metavar="FILE", help="JSON or YAML")
    p.add_argument(
        "--out", type=Path, required=True, metavar="RUBRIC", help="the rubric file to write"
    )
    p.add_argument("--items", type=Path, metavar="FILE", help="write scores in FILE as items")
    p.add_argument("--threshold", type=float, default=0.5, help="which total accepts; default 0.5")
    p.set_defaults(do=file_commands.import_)
    p = part("export", "export a rubric as a task tree of PaperBench")
    p.add_argument("rubric", metavar="RUBRIC", help=RUBRIC_HELP)
    p.add_argument("--items", type=Path, metavar="FILE", help="an item whose grades to include")
    p.set_defaults(do=file_commands.export)


def _add_score_options(p: argparse.ArgumentParser) -> None:
    add_items(p, many="*")
    p.add_argument(
        "--runs", nargs="*", metavar="RUN",
        help="score these recorded runs by replay; without names, or with all: every finished run",
    )  # fmt: skip
    add_repo(p)
    add_provider(p, "judge texts, or criteria of runs without a recorded score, by this provider")
    p.add_argument(
        "--repeat", type=count, default=0, metavar="N",
        help="judge each item or run N times and report the consistency of the judge",
    )  # fmt: skip
    add_judging_options(p)
    p.add_argument("--out", type=Path, metavar="FILE", help="write the scored items (.jsonl)")
    p.add_argument(
        "--probes", action="store_true",
        help="also judge with reversed and with padded evidence; implies --repeat 2",
    )  # fmt: skip
    p.add_argument("--json", action="store_true", help="print JSON lines, which are items again")
    p.set_defaults(do=scoring.score)


def _add_tune_options(p: argparse.ArgumentParser) -> None:
    add_items(p)
    add_labels(p)
    p.add_argument(
        "--cost-false-merge", type=amount, metavar="X", help="cost of accepting what people reject"
    )
    p.add_argument(
        "--cost-false-block", type=amount, metavar="X", help="cost of rejecting what they accept"
    )
    p.add_argument(
        "--penalties",
        action="store_true",
        help="let criteria that contradict the labels become penalties",
    )
    p.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="rubric file to write; default: NAME-vN.yaml next to RUBRIC",
    )
    add_report(p)
    add_json_file(p)
    p.add_argument("--seed", type=int, help="random seed, recorded in the rubric")
    p.add_argument(
        "--refits",
        type=count,
        default=1000,
        metavar="N",
        help="number of bootstrap refits; default 1000",
    )
    p.set_defaults(do=tuning.tune)


def run(args: argparse.Namespace) -> int:
    """Run the selected subcommand."""
    check_outputs(args)
    code: int = args.do(args, sys.stdout)
    return code
