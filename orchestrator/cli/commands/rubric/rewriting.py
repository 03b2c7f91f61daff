"""``diffcourt rubric rewrite``: reword a criterion by a model, and keep what is proven."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from msgspec.structs import replace

from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.cli.arguments import add_json_file, add_repo, count
from orchestrator.cli.commands.rubric.scoring import (
    INTERRUPTED,
    add_judging_options,
    add_provider,
    read_judging_options,
)
from orchestrator.cli.commands.rubric.shared_inputs import (
    add_labels,
    find_rubric,
    read_label_scale,
    require_numpy,
    select_labels,
    show,
)
from orchestrator.cli.commands.rubric.tuning import next_version_path
from orchestrator.cli.output import optional_target, width_of
from orchestrator.errors import EXIT_GATED, EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_OK, InputError
from orchestrator.report.terminal_escaping import emit, use_color

if TYPE_CHECKING:
    from orchestrator.app.rubric_scoring.item_judge_session import Progress
    from orchestrator.app.rubric_scoring.rewrite_criterion import Rewrite, RewritePlan
    from orchestrator.engine.types import Rubric


def add_arguments(p: argparse.ArgumentParser) -> None:
    """Add the arguments of ``rubric rewrite``."""
    p.add_argument("rubric")
    p.add_argument("criterion")
    p.add_argument("items", nargs="+", type=Path)
    add_labels(p, judge=False)
    add_repo(p)
    add_provider(p)
    p.add_argument("--rounds", type=count, default=3)
    p.add_argument("--proposals", type=count, default=2)
    add_judging_options(p)
    p.add_argument("--out", type=Path)
    add_json_file(p)
    p.set_defaults(do=rewrite)


def rewrite(args: argparse.Namespace, out: TextIO) -> int:
    """Reword a criterion; exit code 0: proven and written, 1: not proven, 3: cannot tell."""
    if args.provider == OFFLINE:
        raise InputError("rewording needs a model; name its provider with --provider NAME")
    target = optional_target(args.json)
    require_numpy()
    from orchestrator.report.tuning.scoring_text import render_rewrite
    from orchestrator.tuning.file_formats.rubric_file import read_rubric, write_rubric

    rubric = read_rubric(find_rubric(args.rubric))
    path = args.out or next_version_path(find_rubric(args.rubric), rubric.version + 1)
    if not args.out and path.exists():
        raise InputError(f"{path}: already exists; choose another file with --out")
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
    wrote = f"\nwrote {path}\n" if done.rubric is not None else ""
    show(target, render_rewrite(rubric, done, width_of(out), use_color(out)) + wrote, done, out)
    if done.rubric is not None:
        return EXIT_OK
    unknown = done.found.failed or (done.found.stopped and done.found.proof is None)
    return EXIT_INCOMPLETE if unknown else EXIT_GATED


def _rewrite(args: argparse.Namespace, rubric: Rubric, out: TextIO) -> Rewrite | None:
    from orchestrator.app.rubric_scoring.rewrite_criterion import RewriteOptions, rewrite_criterion
    from orchestrator.report.tuning.scoring_text import ScoringProgress, render_plan
    from orchestrator.tuning.file_formats.item_files import read_items

    items = read_items(args.items, args.scale)
    labels = select_labels(args, items)
    read_label_scale(args, labels)
    views: dict[str, ScoringProgress] = {}

    def agree(plan: RewritePlan) -> bool:
        stream = out if args.estimate else sys.stderr
        emit(render_plan(plan, width_of(stream)), stream)
        return not args.estimate

    def observe(what: str, progress: Progress) -> None:
        views.setdefault(what, ScoringProgress(sys.stderr, f"{what}: ", 2))(progress)

    options = RewriteOptions(args.criterion, args.rounds, args.proposals, args.accept_at)
    judging = read_judging_options(args)
    return rewrite_criterion(rubric, items, labels, options, judging, agree, observe)
