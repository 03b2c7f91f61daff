"""``diffcourt rubric``: check, show, compare, move, score, evaluate, tune and gate rubrics."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from orchestrator.catalog.fields import OFFLINE
from orchestrator.cli.arguments import add_part, add_repo, amount, count, name_of
from orchestrator.cli.commands.rubric import files, scoring, tuning
from orchestrator.cli.commands.rubric.arguments import add_items, add_labels

FORMATS = ("paperbench", "healthbench", "autorubric", "promptfoo", "deepeval")
EXIT_CODES = """\
exit codes:
  0    done; for tune: the gain is proven and a rubric was written
  1    tune: no rubric was written; gate: agreement dropped; diff: they differ
  2    wrong usage, rubric, items or labels
  3    score: a run that was named could not be scored again\
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's parts and their options."""
    parser.epilog = EXIT_CODES
    parts = parser.add_subparsers(title="parts", metavar="PART", dest="part", required=True)

    part = partial(add_part, parts)
    _files(part)
    _score(part("score", "score items, or recorded runs by replay, with a rubric"))
    p = part("eval", "measure how a rubric agrees with people")
    add_items(p)
    add_labels(p)
    p.add_argument("--json", metavar="FILE", help="write everything as JSON; - for stdout")
    p.set_defaults(do=tuning.evaluate)
    _tune(part("tune", "fit weights and threshold to labels; write them only if proven better"))
    p = part("gate", "fail when agreement on a frozen set dropped by more than its noise")
    add_items(p)
    add_labels(p)
    p.add_argument("--baseline", type=Path, required=True, metavar="FILE", help="the frozen set")
    p.add_argument("--freeze", action="store_true", help="write the baseline, do not check")
    p.set_defaults(do=tuning.gate)


def _files(part: Callable[[str, str], argparse.ArgumentParser]) -> None:
    p = part("check", "check rubric files; a fault is a line with its place")
    p.add_argument("rubrics", nargs="+", metavar="RUBRIC")
    p.set_defaults(do=files.check)
    p = part("show", "print a rubric as a tree, with what it was fitted on")
    p.add_argument("rubric", metavar="RUBRIC")
    p.set_defaults(do=files.show)
    p = part("diff", "say what differs between two rubrics")
    p.add_argument("old", metavar="OLD")
    p.add_argument("new", metavar="NEW")
    p.set_defaults(do=files.diff)
    p = part("new", "write a rubric of equal weights for the criteria that items are scored on")
    add_items(p, rubric=False)
    p.add_argument("--out", type=Path, required=True, metavar="FILE", help="the rubric's file")
    p.set_defaults(do=files.new)
    p = part("import", "turn another tool's rubric into one of ours")
    p.add_argument("source", type=Path, metavar="FILE", help="JSON or YAML")
    p.add_argument("--from", dest="format", choices=FORMATS, required=True)
    p.add_argument("--out", type=Path, required=True, metavar="RUBRIC", help="the rubric's file")
    p.add_argument("--items", type=Path, metavar="FILE", help="write scores found there as items")
    p.add_argument("--threshold", type=float, default=0.5, help="where the source has none")
    p.set_defaults(do=files.import_)
    p = part("export", "turn a rubric into another tool's")
    p.add_argument("rubric", metavar="RUBRIC")
    p.add_argument("--to", dest="format", choices=FORMATS, required=True)
    p.add_argument("--items", type=Path, metavar="FILE", help="an item whose grades go with it")
    p.set_defaults(do=files.export)


def _score(p: argparse.ArgumentParser) -> None:
    add_items(p, many="*")
    p.add_argument(
        "--runs", nargs="*", metavar="RUN",
        help="score these recorded runs by replay; without a name, or all: every finished one",
    )  # fmt: skip
    add_repo(p)
    p.add_argument(
        "--provider", type=name_of("a provider"), default=OFFLINE, metavar="NAME",
        help="who judges what no record answers; default: nobody, and it is not scored",
    )  # fmt: skip
    p.add_argument(
        "--repeat", type=count, default=0, metavar="N",
        help="have each run judged N times, to see how the judge agrees with itself",
    )  # fmt: skip
    p.add_argument(
        "--probes", action="store_true",
        help="judge each run with its evidence reversed, and padded; implies --repeat 2",
    )  # fmt: skip
    p.add_argument("--json", action="store_true", help="print JSON lines, which are items again")
    p.set_defaults(do=scoring.score)


def _tune(p: argparse.ArgumentParser) -> None:
    add_items(p)
    add_labels(p)
    p.add_argument(
        "--cost-false-merge", type=amount, metavar="X", help="cost of accepting what people reject"
    )
    p.add_argument(
        "--cost-false-block", type=amount, metavar="X", help="cost of rejecting what they accept"
    )
    p.add_argument("--out", type=Path, metavar="FILE", help="default: NAME-vN.yaml beside RUBRIC")
    p.add_argument("--report", type=Path, metavar="FILE", help="write an HTML page")
    p.add_argument("--json", metavar="FILE", help="write everything as JSON; - for stdout")
    p.add_argument("--seed", type=int, help="of every random choice; recorded in the rubric")
    p.add_argument("--refits", type=count, default=1000, metavar="N", help="default 1000")
    p.set_defaults(do=tuning.tune)


def run(args: argparse.Namespace) -> int:
    """Run the part that was named."""
    code: int = args.do(args, sys.stdout)
    return code
