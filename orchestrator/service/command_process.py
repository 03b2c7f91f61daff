"""The process that answers a command in a comment; all facts are read from the forge.

Its exit code says what the worker must do: 0 nothing; 10 review the head again; 11 as if it were
the first; 12 review no further push; 13 post again. 2 and 3 as everywhere.
"""

import os
import sys
from pathlib import Path

from orchestrator.app.catalog_listing import shipped_rules
from orchestrator.app.runs.stored_runs import load_verdict
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.errors import EXIT_OK, InputError
from orchestrator.optional_dependencies import install_command
from orchestrator.posting.answer_command import Answering, finish_command, start_command
from orchestrator.posting.comment_commands import CommentEvent, EventComment, EventIssue
from orchestrator.posting.posting_plan import make_cleaner
from orchestrator.report.terminal_escaping import emit_line
from orchestrator.service.child_process import CommandRequest, Left, run_as_child

_LEFT = {"review": Left.REVIEW, "full": Left.FULL, "pause": Left.PAUSE, "dismiss": Left.POST}


def main(request: CommandRequest) -> int:
    """Answer the command; returns the exit code.

    Raises:
        DiffcourtError: the forge did not answer or refused; the exit code says whether to retry.
    """
    try:
        from orchestrator.posting.github import GitHubCommands, ReviewRun  # noqa: PLC0415 - an extra
    except ImportError:
        why = f"commands in comments need PyGithub; run: {install_command('github')}"
        raise InputError(why) from None

    class ServiceReviews(GitHubCommands):
        """The reviews are the service's own, and not runs of a workflow."""

        def find_review(self, head: str) -> ReviewRun | None:
            is_known = bool(request.run_id) and head == request.run_head
            return ReviewRun(1, not request.is_running) if is_known else None

        def run_again(self, run: ReviewRun) -> None:
            """The worker enqueues it."""

    forge = ServiceReviews(
        request.token, request.url, request.project, request.number, "diffcourt.yml"
    )
    clean = make_cleaner({**os.environ, "FORGE_TOKEN": request.token})
    answering = Answering(forge, clean, shipped_rules(), of_service=True)
    event = CommentEvent(
        "created",
        EventComment(request.comment, request.body),
        EventIssue(request.number, pull_request=True),
    )
    handled = start_command(event, answering)
    if handled.run_id:
        handled = finish_command(event, answering, _verdict(request))
    emit_line(handled.line, sys.stderr)
    return _LEFT.get(handled.command, EXIT_OK)


def _verdict(request: CommandRequest) -> Verdict | None:
    try:
        return load_verdict(Path(request.repo), request.run_id)
    except InputError:
        return None


if __name__ == "__main__":
    sys.exit(run_as_child(CommandRequest, main))
