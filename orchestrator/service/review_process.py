"""The process of one review: a worker's child, so that a failure does not affect the worker.

It begins the run that the worker names, or resumes it if another worker began it. Exit codes: 0 the
verdict is in the store, and the last line of stderr says which; 2 no attempt can succeed, as that
line explains; 3 another attempt may; 130 it was asked to end.
"""

import os
import sys
import time
from pathlib import Path

import anyio
from msgspec.structs import astuple

from orchestrator.app.run_review import resume_review, run_review
from orchestrator.app.runs import state_directory
from orchestrator.app.tracing.export import live_trace
from orchestrator.app.types import ReviewOptions
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.observer_events import ignore_event
from orchestrator.errors import EXIT_OK, InputError, ReplayMismatch, RunDamaged, RunLocked
from orchestrator.report.ranking import headline
from orchestrator.report.terminal_escaping import emit_line
from orchestrator.service.child_process import ReviewRequest, run_as_child
from orchestrator.wording import count_noun

RETRY_SECONDS = 0.5


def review(request: ReviewRequest) -> Verdict:
    """Begin or resume the run, until its verdict is recorded.

    Raises:
        DiffcourtError: it cannot be reviewed; the exit code says whether to retry.
    """
    repo = Path(request.repo)
    trace = live_trace(repo, None, os.environ)
    observer = trace.follow(ignore_event) if trace else ignore_event
    deadline = time.monotonic() + request.lease_seconds
    while True:
        try:
            with state_directory.open_store(repo) as store:
                begun = [run.run_id for run in anyio.run(store.runs)]
            if request.run_id in begun:
                verdict = resume_review(repo, request.run_id, observer)
            else:
                options = ReviewOptions.of_meta(request.options, None)
                verdict = run_review(options, observer, run_id=request.run_id)
        except RunLocked:  # of a suspended worker, whose child still runs
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_SECONDS)
        else:
            break
    if trace is not None and (problem := trace.finish()):
        emit_line(problem, sys.stderr)
    return verdict


def main(request: ReviewRequest) -> int:
    """Review; returns the exit code."""
    try:
        verdict = review(request)
    except (ReplayMismatch, RunDamaged) as error:  # of another version, or damaged: no attempt can
        raise InputError(f"run {request.run_id} cannot be resumed: {error}") from None
    findings = count_noun(sum(astuple(verdict.counts)), "finding")
    summary = f"{headline(verdict)}, {findings}"
    emit_line(f"{verdict.verdict}, {verdict.status}, {summary}", sys.stderr)
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(run_as_child(ReviewRequest, main))
