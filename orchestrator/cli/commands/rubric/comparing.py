"""``diffcourt rubric compare``: two rubrics, wordings, prompts or models on the same labels."""

import argparse
from pathlib import Path
from typing import TextIO

from msgspec import Struct

from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.cli.commands.rubric.scoring import (
    ask_model,
    pick,
    read_judging_options,
    refuse_without_provider,
)
from orchestrator.cli.commands.rubric.shared_inputs import (
    load_rubric,
    read_label_scale,
    select_labels,
    show,
    write_text,
)
from orchestrator.engine.types import Rubric
from orchestrator.errors import EXIT_GATED, EXIT_INCOMPLETE, EXIT_OK, BudgetExhausted, InputError
from orchestrator.report.tuning.html_report import render_comparison_page
from orchestrator.tuning.file_formats.item_files import Item, read_items, select_judge, unique_items
from orchestrator.tuning.labels.label_files import extract_labels, read_labels, settle_labels
from orchestrator.tuning.provenance import list_judges
from orchestrator.tuning.rubric_comparison import ComparedRubric, compare_sides

ITEM_SUFFIXES = (".jsonl", ".csv")


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
    if args.provider == OFFLINE:
        refuse_without_provider(args)
    a, b = (_read_side(args, name, n, out) for n, name in enumerate((args.a, args.b)))
    if a is None or b is None:
        return EXIT_OK
    labels = settle_labels(read_labels(args.labels)) or extract_labels(a.items, args.label)
    labels = labels or select_labels(args, b.items)
    scale = read_label_scale(args, labels)
    found = compare_sides(_side(a), _side(b), a.items, labels, scale, args.margin)
    show(args, "comparison", found, out)
    if args.report:
        write_text(args.report, render_comparison_page(found, f"{found.a} and {found.b}"))
    codes = {"better": EXIT_OK, "no worse": EXIT_OK, "worse": EXIT_GATED}
    return codes.get(found.outcome, EXIT_INCOMPLETE)


def _read_side(args: argparse.Namespace, name: str, index: int, out: TextIO) -> _Given | None:
    judge = pick(args.judge, index, "--judge")
    if name.endswith(ITEM_SUFFIXES):
        rubric = pick(args.rubric, index, "--rubric")
        if rubric is None:
            raise InputError(f"{name} holds items; give the rubric that decides them: --rubric")
        decides = load_rubric(rubric)
        items = read_items([Path(name)], args.scale)
        return _Given(name, decides, select_judge(items, judge, decides.criteria))
    if not args.items:
        raise InputError(f"{name} is a rubric; give the items with --items FILE")
    rubric = load_rubric(name)
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
    items = unique_items(given.items)
    paid = sum(item.usd for item in given.items)
    return ComparedRubric(
        given.name,
        given.rubric,
        {item.id: item.scores for item in items},
        "; ".join(list_judges(items)),
        paid or None,
    )
