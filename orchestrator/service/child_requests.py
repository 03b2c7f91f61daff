"""What a worker asks of its child processes, and how their exit codes answer.

The worker needs no more of the modules that run in them, whose imports take as long as its own.
"""

from msgspec import Struct

REVIEW, FULL, PAUSE, POST = 10, 11, 12, 13
"""After a command: review the head again; as if it were the first; review no further push; post."""
MOVED = 14
"""Of a post: the request is closed or has a newer head, so nothing was posted."""


class ChildRequest(Struct, frozen=True, kw_only=True):
    """The request of every child, as JSON on standard input.

    Attributes:
        worker: process id of the worker; if it dies, the child is killed.
        repo: path of the bare repository.
    """

    worker: int
    repo: str


class ReviewRequest(ChildRequest, frozen=True, kw_only=True):
    """Review a change.

    Attributes:
        lease_seconds: how long to wait for another worker's process that still writes the run.
    """

    run_id: str
    base: str
    head: str
    title: str = ""
    description: str = ""
    provider: str | None = None
    max_usd: float | None = None
    max_minutes: float | None = None
    no_cache: bool = False
    backend: str = "asyncio"
    lease_seconds: float = 40.0


class PostRequest(ChildRequest, frozen=True, kw_only=True):
    """Post a verdict.

    Attributes:
        head: the commit id of the verdict.
        run_id: the run of that head; empty if there is none.
        problem: why there is no verdict, for the check; empty if there is one.
    """

    run_id: str
    kind: str
    url: str
    project: str
    number: int
    token: str
    head: str
    problem: str = ""


class CommandRequest(ChildRequest, frozen=True, kw_only=True):
    """Answer a command in a comment.

    Attributes:
        run_id: the newest run of the request's change; empty before the first.
        run_head: the head of that run.
        is_running: whether it has not ended.
    """

    run_id: str
    run_head: str
    is_running: bool
    url: str
    project: str
    number: int
    token: str
    comment: int
    body: str
