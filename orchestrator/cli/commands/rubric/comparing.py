"""``diffcourt rubric compare``: two rubrics, wordings, prompts or models on the same labels."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from msgspec import Struct

from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.cli.arguments import add_json_file, add_repo, amount
from orchestrator.cli.commands.rubric.scoring import (
    INTERRUPTED,
    add_judging_options,
    add_provider,
    ask_model,
    pick,
    read_judging_options,
    refuse_without_provider,
)
from orchestrator.cli.commands.rubric.shared_inputs import (
    add_labels,
    find_rubric,
    read_label_scale,
    require_numpy,
    select_labels,
    show,
    write_text,
)
from orchestrator.cli.output import optional_target, width_of
from orchestrator.errors import (
    EXIT_GATED,
    EXIT_INCOMPLETE,
    EXIT_INTERRUPTED,
    EXIT_OK,
    BudgetExhausted,
    InputError,
)
from orchestrator.report.terminal_escaping import emit, use_color

if TYPE_CHECKING:
    from orchestrator.engine.types import Rubric
    from orchestrator.tuning.file_formats.item_files import Item
    from orchestrator.tuning.rubric_comparison import ComparedRubric

ITEM_SUFFIXES = (".jsonl", ".csv")


def add_arguments(p: argparse.ArgumentParser) -> None:
    """Add the arguments of ``rubric compare``."""
    p.add_argument("a")
    p.add_argument("b")
    p.add_argument("--items", type=Path, action="append", default=[])
    p.add_argument("--rubric", action="append", default=[])
    p.add_argument("--judge", action="append", default=[])
    add_labels(p, judge=False)
    p.add_argument("--margin", type=amount, default=0.05)
    add_repo(p)
    add_provider(p)
    add_judging_options(p)
    p.add_argument("--report", type=Path)
    add_json_file(p)
    p.set_defaults(do=compare)


class ScoringStopped(BudgetExhausted):
    """A side could not be scored within the limits; what was scored is kept."""

    exit_code = EXIT_INCOMPLETE


class _Given(Struct, frozen=True):
    """One side as it was given: its name, its rubric and its items."""

    name: str
    rubric: Rubric
    items: list[Item]


def compare(args: argparse.Namespace, out: TextIO) -> int:
    """Compare A and B; exit code 0: B is proven better or no worse, 1: worse, 3: cannot tell."""
    target = optional_target(args.json)
    if args.provider == OFFLINE:
        refuse_without_provider(args)
    require_numpy()
    from orchestrator.report.tuning.scoring_text import render_comparison
    from orchestrator.tuning.labels.label_files import extract_labels, read_labels
    from orchestrator.tuning.rubric_comparison import compare_sides

    try:
        a, b = (_read_side(args, name, n, out) for n, name in enumerate((args.a, args.b)))
    except KeyboardInterrupt:
        emit(f"\n{INTERRUPTED}", sys.stderr)
        return EXIT_INTERRUPTED
    if a is None or b is None:
        return EXIT_OK
    labels = read_labels(args.labels) or extract_labels(a.items, args.label)
    labels = labels or select_labels(args, b.items)
    scale = read_label_scale(args, labels)
    found = compare_sides(_side(a), _side(b), a.items, labels, scale, args.margin)
    show(target, render_comparison(found, width_of(out), use_color(out)), found, out)
    if args.report:
        from orchestrator.report.tuning.html_report import render_comparison_page

        write_text(args.report, render_comparison_page(found, f"{found.a} and {found.b}"))
    codes = {"better": EXIT_OK, "no worse": EXIT_OK, "worse": EXIT_GATED}
    return codes.get(found.outcome, EXIT_INCOMPLETE)


def _read_side(args: argparse.Namespace, name: str, index: int, out: TextIO) -> _Given | None:
    from orchestrator.tuning.file_formats.item_files import read_items, select_judge
    from orchestrator.tuning.file_formats.rubric_file import read_rubric

    judge = pick(args.judge, index, "--judge")
    if name.endswith(ITEM_SUFFIXES):
        rubric = pick(args.rubric, index, "--rubric")
        if rubric is None:
            raise InputError(f"{name} holds items; give the rubric that decides them: --rubric")
        decides = read_rubric(find_rubric(rubric))
        items = read_items([Path(name)], args.scale)
        return _Given(name, decides, select_judge(items, judge, decides.criteria))
    if not args.items:
        raise InputError(f"{name} is a rubric; give the items with --items FILE")
    rubric = read_rubric(find_rubric(name))
    items = read_items(args.items, args.scale)
    if args.provider != OFFLINE:
        return _score_side(args, rubric, items, index, out)
    return _Given(name, rubric, select_judge(items, judge, rubric.criteria))


def _score_side(
    args: argparse.Namespace, rubric: Rubric, items: list[Item], index: int, out: TextIO
) -> _Given | None:
    """A side whose items a model scores on the way; None where only the estimate is wanted.

    Raises:
        ScoringStopped: the limit ended the scoring.
    """
    name = "AB"[index]
    options = read_judging_options(args, index)
    found = ask_model(rubric, items, options, 1, args.estimate, out, f"{name}: ")
    if found is None:
        return None
    if found.stopped:
        raise ScoringStopped(
            f"the scoring of {name} ended early: {found.stopped}; raise the limit and run the "
            "command again: what is scored is kept"
        )
    return _Given(f"{name} {rubric.name}", rubric, list(found.rows))


def _side(given: _Given) -> ComparedRubric:
    from orchestrator.tuning.file_formats.item_files import unique_items
    from orchestrator.tuning.provenance import list_judges
    from orchestrator.tuning.rubric_comparison import ComparedRubric

    items = unique_items(given.items)
    paid = sum(item.usd for item in given.items)
    return ComparedRubric(
        given.name,
        given.rubric,
        {item.id: item.scores for item in items},
        "; ".join(list_judges(items)),
        paid or None,
    )
