"""The process that posts one verdict: the only one with a token that can write.

Exit codes: 0 posted; 14 the request is closed or has a newer head, so nothing was posted; 2 no
attempt can succeed, as the last line of stderr explains; 3 another attempt may.
"""

import os
import sys
from importlib import import_module
from pathlib import Path

from orchestrator.app.runs.stored_runs import load_verdict
from orchestrator.errors import EXIT_OK
from orchestrator.posting.forge import Forge, ForgeCheck, HeadMoved, PostingTarget
from orchestrator.posting.post_verdict import post_verdict
from orchestrator.posting.posted_text import make_cleaner
from orchestrator.service.child_main import run_as_child
from orchestrator.service.child_requests import MOVED, PostRequest

TOKENS = {"github": "GITHUB_TOKEN", "gitlab": "GITLAB_TOKEN", "forgejo": "FORGEJO_TOKEN"}


def post(request: PostRequest) -> None:
    """Post the verdict, or the check that says why there is none.

    Raises:
        HeadMoved: the request has moved on; nothing was written.
        DiffcourtError: it could not be posted; the exit code says whether to try again.
    """
    environment = {TOKENS[request.kind]: request.token}
    target = PostingTarget(request.project, request.number, request.url, environment)
    forge: Forge = import_module(f"orchestrator.posting.{request.kind}").open_forge(target)
    clean = make_cleaner({**os.environ, **environment})
    if not request.problem:
        post_verdict(load_verdict(Path(request.repo), request.run_id), forge, clean)
        return
    now = forge.read_pull_request()
    if not now.is_open or now.head != request.head:
        raise HeadMoved("the request is closed or has a newer head; nothing was posted")
    title = "Incomplete: this change was not reviewed"
    forge.write_check(now.head, ForgeCheck("incomplete", title, clean(request.problem)))


def main(request: PostRequest) -> int:
    """Post; returns the exit code."""
    try:
        post(request)
    except HeadMoved:
        return MOVED
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(run_as_child(PostRequest, main))
