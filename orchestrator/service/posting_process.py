"""The process that posts one verdict: the only one with a token that can write.

Exit codes: 0 posted; 14 the request is closed or has a newer head, so nothing was posted; 2 no
attempt can succeed; 3 another attempt may. The last line of stderr says what was posted or why not.
"""

import os
import sys
from importlib import import_module
from pathlib import Path

from orchestrator.app.runs.stored_runs import load_verdict, show_run
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.errors import EXIT_OK, InputError, RunNotFound
from orchestrator.posting.forge import Forge, ForgeCheck, HeadMoved, PostingTarget
from orchestrator.posting.posting_plan import make_cleaner, post_verdict
from orchestrator.report.ranking import headline
from orchestrator.report.terminal_escaping import emit_line
from orchestrator.service.child_process import MOVED, PostRequest, run_as_child

TOKENS = {"github": "GITHUB_TOKEN", "gitlab": "GITLAB_TOKEN", "forgejo": "FORGEJO_TOKEN"}


def main(request: PostRequest) -> int:
    """Post the verdict, or the check that says why there is none; returns the exit code.

    A finished verdict is posted whatever became of the job that reached it.

    Raises:
        DiffcourtError: it could not be posted; the exit code says whether to try again.
    """
    environment = {TOKENS[request.kind]: request.token}
    target = PostingTarget(request.project, request.number, request.url, environment)
    forge: Forge = import_module(f"orchestrator.posting.{request.kind}").open_forge(target)
    clean = make_cleaner({**os.environ, **environment})
    verdict = _find_verdict(request)
    if verdict is not None:
        try:
            post_verdict(verdict, forge, clean)
        except HeadMoved:
            return MOVED
        emit_line(f"posted: {headline(verdict)}", sys.stderr)
        return EXIT_OK
    pull_request = forge.read_pull_request()
    if not pull_request.is_open or pull_request.head != request.head:
        return MOVED
    title = "Incomplete: this change was not reviewed"
    forge.write_check(pull_request.head, ForgeCheck("incomplete", title, clean(request.problem)))
    emit_line("posted that it was not reviewed", sys.stderr)
    return EXIT_OK


def _find_verdict(request: PostRequest) -> Verdict | None:
    """The verdict of the run; None where there is a problem and no final verdict."""
    repo = Path(request.repo)
    if not request.problem:
        return load_verdict(repo, request.run_id)
    try:
        found = show_run(repo, request.run_id) if request.run_id else None
    except (InputError, RunNotFound):
        return None
    return found.verdict if found is not None and found.info.state == "finished" else None


if __name__ == "__main__":
    sys.exit(run_as_child(PostRequest, main))
