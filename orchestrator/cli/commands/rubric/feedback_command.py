"""``rubric feedback``: what people did with findings, as weak labels."""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from msgspec.structs import asdict

from orchestrator.cli.arguments import add_json_file, add_repo, count, name_of
from orchestrator.cli.commands.post import FORGES
from orchestrator.cli.commands.rubric.shared_inputs import require_numpy, show, write_text
from orchestrator.cli.output import optional_target, width_of
from orchestrator.errors import EXIT_GATED, EXIT_INCOMPLETE, EXIT_OK, InputError
from orchestrator.report.terminal_escaping import emit_line, use_color

if TYPE_CHECKING:
    from orchestrator.app.memory.comment_feedback import CommentFeedback


def add_arguments(p: argparse.ArgumentParser) -> None:
    """Add the subcommand's options."""
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
