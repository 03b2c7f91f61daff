"""The ``rubric`` subcommands that fit nothing: disagree, lint, rate, drift and feedback."""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from msgspec.structs import asdict, replace

from orchestrator.cli.arguments import add_json_file, add_repo, amount, count, name_of
from orchestrator.cli.commands.posting import FORGES
from orchestrator.cli.commands.rubric.shared_inputs import (
    TuningInputs,
    add_items,
    add_labels,
    find_rubric,
    load_inputs,
    read_label_scale,
    require_freezable,
    require_numpy,
    select_labels,
    show,
    write_text,
)
from orchestrator.cli.output import OutputTarget, optional_target, width_of
from orchestrator.errors import EXIT_GATED, EXIT_INCOMPLETE, EXIT_OK, InputError
from orchestrator.report.terminal_escaping import as_json, emit, emit_line, use_color

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchestrator.engine.types import Rubric
    from orchestrator.tuning.file_formats.item_files import Item
    from orchestrator.tuning.labels.corrected_rate import CorrectedRate
    from orchestrator.tuning.labels.disagreements import DisagreementReport
    from orchestrator.tuning.labels.drift import Drift
    from orchestrator.tuning.labels.label_files import Label
    from orchestrator.tuning.training_data import TrainingData

    Result = CorrectedRate | DisagreementReport | Drift
    from orchestrator.app.memory.comment_feedback import CommentFeedback


def add_label_commands(part: Callable[[str], argparse.ArgumentParser]) -> None:
    """Add the subcommands and their options."""
    p = part("disagree")
    add_items(p)
    add_labels(p)
    p.add_argument("--all", action="store_true")
    p.add_argument("--report", type=Path)
    add_json_file(p)
    p.set_defaults(do=disagree)
    p = part("lint")
    add_items(p, many="*")
    add_labels(p)
    p.add_argument("--all", action="store_true")
    add_json_file(p)
    p.set_defaults(do=lint)
    p = part("rate")
    add_items(p)
    add_labels(p)
    p.add_argument("--assume-random", action="store_true")
    p.add_argument("--report", type=Path)
    add_json_file(p)
    p.set_defaults(do=rate)
    p = part("drift")
    add_items(p)
    add_labels(p)
    p.add_argument("--anchors", type=Path)
    p.add_argument("--freeze", action="store_true")
    p.add_argument("--force", action="store_true")
    p.add_argument("--since", default="")
    p.add_argument("--report", type=Path)
    add_json_file(p)
    p.set_defaults(do=drift)
    p = part("jury")
    add_items(p)
    add_labels(p, judge=False, scale=False)
    p.add_argument("--cost", action="append", default=[], type=_judge_cost)
    p.add_argument("--report", type=Path)
    add_json_file(p)
    p.set_defaults(do=jury)
    _add_feedback_options(part("feedback"))


def disagree(args: argparse.Namespace, out: TextIO) -> int:
    """Print the disagreements of a rubric with people."""
    target = optional_target(args.json)
    read = load_inputs(args)
    from orchestrator.report.tuning.label_reports import render_disagreements
    from orchestrator.tuning.labels.disagreements import find_disagreements

    found = find_disagreements(read.rubric, read.items, read.labels, args.accept_at)
    text = render_disagreements(found, width_of(out), use_color(out), args.all)
    return _finish(args, found, text, target, out)


def lint(args: argparse.Namespace, out: TextIO) -> int:
    """Print what to fix in a rubric; exit code 1 when there is something."""
    target = optional_target(args.json)
    read = _load_some(args)
    from orchestrator.report.tuning.label_reports import render_lint
    from orchestrator.tuning.rubric_lint import lint_rubric

    found = lint_rubric(*read, args.accept_at)
    show(target, render_lint(found, width_of(out), use_color(out), args.all), found, out)
    return EXIT_GATED if found.findings else EXIT_OK


def _load_some(
    args: argparse.Namespace,
) -> tuple[Rubric, list[Item], list[Label], TrainingData | None]:
    """The rubric, and items, labels and training data where they were given."""
    require_numpy()
    from orchestrator.tuning.file_formats.item_files import read_items, select_judge
    from orchestrator.tuning.file_formats.rubric_file import read_rubric
    from orchestrator.tuning.labels.label_files import extract_labels

    rubric = read_rubric(find_rubric(args.rubric))
    if not args.items:
        if args.labels:
            raise InputError("--labels requires the labeled ITEMS")
        return rubric, [], [], None
    items = select_judge(read_items(args.items, args.scale), args.judge, rubric.criteria)
    if not args.labels and not extract_labels(items, args.label):
        return rubric, items, [], None
    read = load_inputs(args)
    return rubric, read.items, read.labels, read.data


def _judge_cost(text: str) -> tuple[str, float]:
    name, _, usd = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"must be JUDGE=USD, such as small=0.002, not {text!r}")
    return name, amount(usd)


def jury(args: argparse.Namespace, out: TextIO) -> int:
    """Print what several judges amount to; exit code 0: a cascade is proven to pay, 1: none is."""
    target = optional_target(args.json)
    require_numpy()
    from orchestrator.report.tuning.scoring_text import render_jury
    from orchestrator.tuning.file_formats.item_files import read_items
    from orchestrator.tuning.file_formats.rubric_file import read_rubric
    from orchestrator.tuning.jury import measure_jury

    rubric = read_rubric(find_rubric(args.rubric))
    items = [
        replace(item, judge=item.judge or path.stem)
        for path in args.items
        for item in read_items([path], args.scale)
    ]
    labeled = {(x.id, x.rater): x for x in sorted(items, key=lambda x: bool(x.human))}
    labels = select_labels(args, [replace(x, repeat=0) for x in labeled.values()])
    scale = read_label_scale(args, labels)
    found = measure_jury(rubric, items, labels, scale, dict(args.cost))
    show(target, render_jury(found, width_of(out), use_color(out)), found, out)
    if args.report:
        from orchestrator.report.tuning.html_report import render_jury_page

        write_text(args.report, render_jury_page(found, f"Judges of {rubric.name}"))
    return EXIT_OK if any(one.proven for one in found.cascades) else EXIT_GATED


def rate(args: argparse.Namespace, out: TextIO) -> int:
    """Print the accept rate of all items, corrected for the judge's errors."""
    target = optional_target(args.json)
    read = load_inputs(args)
    from orchestrator.report.tuning.label_reports import render_rate
    from orchestrator.tuning.labels.corrected_rate import estimate_rate

    found = estimate_rate(read.rubric, read.items, read.labels, read.data.scale, args.assume_random)
    text = render_rate(found, width_of(out), use_color(out))
    return _finish(args, found, text, target, out)


def drift(args: argparse.Namespace, out: TextIO) -> int:
    """Print what has changed over time, or freeze anchors."""
    if args.freeze and args.anchors is None:
        raise InputError("--freeze requires --anchors FILE, the file to write")
    target = optional_target(args.json)
    read = load_inputs(args)
    from orchestrator.report.tuning.label_reports import render_drift
    from orchestrator.tuning.labels import anchors
    from orchestrator.tuning.labels.drift import measure_drift

    if args.freeze and (args.force or not args.anchors.exists()):
        return _freeze(args, read, out)
    frozen = anchors.read_anchors(args.anchors, read.rubric) if args.anchors else None
    found = measure_drift(read.rubric, read.items, read.labels, read.data.scale, frozen, args.since)
    text = render_drift(found, width_of(out), use_color(out))
    if args.freeze:
        emit(text, out)
        require_freezable(args.anchors, args.force)
    return _finish(args, found, text, target, out)


def _freeze(args: argparse.Namespace, read: TuningInputs, out: TextIO) -> int:
    from datetime import UTC, datetime

    from orchestrator.tuning.labels import anchors

    now = datetime.now(UTC).isoformat(timespec="seconds")
    document = anchors.freeze_anchors(read.rubric, read.data, now)
    write_text(args.anchors, as_json(document))
    frozen = anchors.read_anchors(args.anchors, read.rubric)
    counts = [frozen.count(accepted) for accepted in (True, False)]
    emit(
        f"wrote {args.anchors}: {counts[0]} anchors that people accept, {counts[1]} that they "
        f"reject\nA fall of 10 points would be found with a chance of "
        f"{anchors.find_power(min(counts)):.0%}; {anchors.advise_anchors()} of each give 90%.\n",
        out,
    )
    return EXIT_OK


def _finish(
    args: argparse.Namespace, found: Result, text: str, target: OutputTarget | None, out: TextIO
) -> int:
    """Print a result, and give the exit code: trusted, not trusted, or cannot tell."""
    trusted = found.is_trusted
    show(
        target, text, {"trusted": trusted, "sentence": found.plain_sentence(), **asdict(found)}, out
    )
    if args.report:
        from orchestrator.report.tuning.label_pages import render_result_page

        write_text(args.report, render_result_page(f"Rubric {Path(args.rubric).stem}", found))
    return {True: EXIT_OK, False: EXIT_GATED, None: EXIT_INCOMPLETE}[trusted]


def _add_feedback_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("runs", nargs="*", metavar="RUN")
    p.add_argument("--out", type=Path)
    p.add_argument("--labels", type=Path, action="append", default=[])
    p.add_argument("--accept-at", type=float)
    p.add_argument("--assume-random", action="store_true")
    add_json_file(p)
    add_repo(p)
    p.add_argument("--from", dest="forge", choices=FORGES)
    p.add_argument("--project", type=name_of("a project"))
    p.add_argument("--request", type=count)
    p.add_argument("--url", type=name_of("an address"))
    p.set_defaults(do=feedback)


def feedback(args: argparse.Namespace, out: TextIO) -> int:
    """Print what people did with findings, and the rate corrected by experts."""
    target = optional_target(args.json)
    require_numpy()
    from orchestrator.app.memory.comment_feedback import collect_feedback
    from orchestrator.app.memory.past_reviews import load_reviews
    from orchestrator.report.tuning.label_reports import render_feedback
    from orchestrator.tuning.labels.feedback_rate import measure_feedback
    from orchestrator.tuning.labels.label_files import read_labels

    reviews = load_reviews(args.repo, args.runs)
    findings, why = collect_feedback(args.repo, reviews, _read_answers(args))
    if why:
        note = f"what became of findings in the base branch is not known: {why}"
        emit_line(note, sys.stderr)
    if args.out:
        rows = (json.dumps(one.to_row(), ensure_ascii=False) + "\n" for one in findings)
        write_text(args.out, "".join(rows))
    labels = read_labels(args.labels)
    found = measure_feedback(findings, labels, args.accept_at, args.assume_random)
    head = {"trusted": found.is_trusted, "sentence": found.plain_sentence(), **asdict(found)}
    show(target, render_feedback(found, width_of(out), use_color(out)), head, out)
    if args.out and (target is None or not target.to_stdout):
        emit_line(f"wrote {args.out}: {len(findings)} findings", out)
    if args.out and not args.labels:
        return EXIT_OK
    return {True: EXIT_OK, False: EXIT_GATED, None: EXIT_INCOMPLETE}[found.is_trusted]


def _read_answers(args: argparse.Namespace) -> list[CommentFeedback]:
    """What people answered to our comments in a pull request."""
    if args.forge is None:
        if args.project or args.request or args.url:
            raise InputError("--project, --request and --url require --from FORGE")
        return []
    from orchestrator.app.memory.comment_feedback import CommentFeedback
    from orchestrator.posting.forge import PostingTarget

    target = PostingTarget(args.project or "", args.request or 0, args.url or "", os.environ)
    posted = import_module(f"orchestrator.posting.{args.forge}").open_forge(target).read_posted()
    answers = [CommentFeedback(one.identity, "dismissed") for one in posted.dismissals]
    for thread in posted.threads:
        if thread.likes != thread.dislikes:
            liked = thread.likes > thread.dislikes
            answers.append(CommentFeedback(thread.identity, "liked" if liked else "disliked"))
        if thread.is_resolved:
            answers.append(CommentFeedback(thread.identity, "resolved"))
    return answers
