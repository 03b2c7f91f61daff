"""``diffcourt rubric rewrite``: reword a criterion by a model, and keep what is proven."""

import argparse
import sys
from typing import TextIO

from msgspec.structs import replace

from orchestrator.app.rubric_scoring.item_judge_session import Progress
from orchestrator.app.rubric_scoring.rewrite_criterion import (
    Rewrite,
    RewriteOptions,
    RewritePlan,
    rewrite_criterion,
)
from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.cli.commands.rubric.scoring import INTERRUPTED, read_judging_options
from orchestrator.cli.commands.rubric.shared_inputs import (
    layout_of,
    load_rubric,
    print_lines,
    read_label_scale,
    select_labels,
    show,
)
from orchestrator.cli.commands.rubric.tuning import new_rubric_path
from orchestrator.engine.types import Rubric
from orchestrator.errors import EXIT_GATED, EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_OK, InputError
from orchestrator.report.terminal_escaping import emit
from orchestrator.report.tuning.scoring_text import ScoringProgress, render_plan, render_rewrite
from orchestrator.tuning.file_formats.item_files import read_items
from orchestrator.tuning.file_formats.rubric_file import write_rubric


def rewrite(args: argparse.Namespace, out: TextIO) -> int:
    """Reword a criterion; exit code 0: proven and written, 1: not proven, 3: cannot tell."""
    if args.provider == OFFLINE:
        raise InputError("rewording needs a model; name its provider with --provider NAME")
    rubric = load_rubric(args.rubric)
    path = new_rubric_path(args, rubric.version + 1)
    try:
        done = _rewrite(args, rubric, out)
    except KeyboardInterrupt:
        emit(f"\n{INTERRUPTED}", sys.stderr)
        return EXIT_INTERRUPTED
    if done is None:
        return EXIT_OK
    if done.rubric is not None:
        new = replace(done.rubric, name=path.stem)
        done = replace(done, rubric=new)
        write_rubric(path, new)
    wrote = ["", f"wrote {path}"] if done.rubric is not None else []
    show(args, lambda *shown: render_rewrite(*shown, rubric) + wrote, done, out)
    if done.rubric is not None:
        return EXIT_OK
    unknown = done.found.failed or (done.found.stopped and done.found.proof is None)
    return EXIT_INCOMPLETE if unknown else EXIT_GATED


def _rewrite(args: argparse.Namespace, rubric: Rubric, out: TextIO) -> Rewrite | None:
    items = read_items(args.items, args.scale)
    labels = select_labels(args, items)
    read_label_scale(args, labels)
    views: dict[str, ScoringProgress] = {}

    def agree(plan: RewritePlan) -> bool:
        stream = out if args.estimate else sys.stderr
        print_lines(render_plan(layout_of(stream), plan), stream)
        return not args.estimate

    def observe(what: str, progress: Progress) -> None:
        views.setdefault(what, ScoringProgress(sys.stderr, f"{what}: ", 2))(progress)

    options = RewriteOptions(args.criterion, args.rounds, args.proposals, args.accept_at)
    judging = read_judging_options(args)
    return rewrite_criterion(rubric, items, labels, options, judging, agree, observe)
