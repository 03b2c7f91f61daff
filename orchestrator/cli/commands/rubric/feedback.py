"""``diffcourt rubric feedback``: what people did with findings, as labels."""

import argparse
import json
import os
import sys
from importlib import import_module
from typing import TextIO

from orchestrator.app.memory.comment_feedback import CommentFeedback, collect_feedback
from orchestrator.app.memory.past_reviews import load_reviews
from orchestrator.cli.commands.rubric.shared_inputs import TRUST_CODES, show, write_text
from orchestrator.errors import EXIT_OK, InputError
from orchestrator.posting.forge import PostingTarget
from orchestrator.report.terminal_escaping import emit_line
from orchestrator.tuning.labels.feedback_rate import measure_feedback
from orchestrator.tuning.labels.label_files import read_labels, settle_labels


def feedback(args: argparse.Namespace, out: TextIO) -> int:
    """Print what people did with findings, and the rate corrected by experts."""
    reviews = load_reviews(args.repo, args.runs)
    findings, why = collect_feedback(args.repo, reviews, _read_answers(args))
    if why:
        note = f"what became of findings in the base branch is not known: {why}"
        emit_line(note, sys.stderr)
    if args.out:
        rows = (json.dumps(one.to_row(), ensure_ascii=False) + "\n" for one in findings)
        write_text(args.out, "".join(rows))
    labels = settle_labels(read_labels(args.labels))
    found = measure_feedback(findings, labels, args.accept_at, args.assume_random)
    if show(args, "feedback", found, out) and args.out:
        emit_line(f"wrote {args.out}: {len(findings)} findings", out)
    return EXIT_OK if args.out and not args.labels else TRUST_CODES[found.is_trusted]


def _read_answers(args: argparse.Namespace) -> list[CommentFeedback]:
    """What people answered to our comments in a pull request."""
    if args.forge is None:
        if args.project or args.request or args.url:
            raise InputError("--project, --request and --url require --from FORGE")
        return []
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
