"""What the agents' tools ask of history: the diff as text, a file's log, who wrote which line."""

from orchestrator.code_review.change.git.commands import OID, PLAIN_DIFF, Git
from orchestrator.code_review.change.types import Change
from orchestrator.errors import InputError

_IDENTITY = "not committed <> 0 +0000"
_MOST = 1000  # commits


def _paths_of(change: Change, path: str) -> tuple[str, ...]:
    for file in change.files:
        if path in {file.path, file.old_path}:
            return tuple(dict.fromkeys(name for name in (file.old_path, file.path) if name))
    return (path,)


def _escape_control_characters(output: bytes) -> str:
    return output.decode("utf-8", "replace")


async def diff(change: Change, path: str | None = None) -> str:
    """The change as a unified diff; empty when the path did not change.

    Args:
        path: one file, by its old or new name; None for all.
    """
    only = ["--", *_paths_of(change, path)] if path is not None else []
    output = await Git.of(change).run(
        "diff-tree", "-r", "-p", "-M", "-U3", *PLAIN_DIFF, change.base_tree, change.head_tree, *only
    )
    return _escape_control_characters(output)


async def _head(git: Git, change: Change) -> str:
    """A commit of the head side; of a work tree or patch one is written beside the repository."""
    if not change.has_tree:
        raise InputError("a patch without a repository has no history")
    if OID.fullmatch(change.head):
        return change.head
    parent = f"parent {change.base}\n" if OID.fullmatch(change.base) else ""
    body = f"tree {change.head_tree}\n{parent}author {_IDENTITY}\ncommitter {_IDENTITY}\n\n"
    text = f"{body}not committed yet\n".encode()
    return (await git.run("hash-object", "-t", "commit", "-w", "--stdin", stdin=text)).decode()[:-1]


async def log(change: Change, path: str, limit: int = 20) -> str:
    """The newest commits that touched a file: id, date, author and subject, one a line.

    Args:
        path: one file; its former names are followed.

    Raises:
        InputError: there is no history, or it cannot be read.
    """
    git = Git.of(change)
    output = await git.run(
        "log",
        "--no-show-signature",
        "--no-ext-diff",
        "--no-textconv",
        "--no-mailmap",
        "--no-decorate",
        "--no-color",
        "--follow",
        "--date=short",
        "--format=%h %ad %an: %s",
        f"--max-count={max(1, min(limit, _MOST))}",
        await _head(git, change),
        "--",
        path,
    )
    return _escape_control_characters(output)


async def blame(change: Change, path: str, start: int, end: int) -> str:
    """Who last changed the lines of a file in head: commit, author, date, number and text.

    Args:
        start, end: 1-based and inclusive.
    """
    if not 1 <= start <= end:
        raise InputError(f"lines {start} to {end} are no range; both count from 1")
    git = Git.of(change)
    output = await git.run(
        "blame",
        "--no-textconv",
        "--ignore-revs-file=",
        "--no-progress",
        "--date=short",
        f"-L{start},{end}",
        await _head(git, change),
        "--",
        path,
    )
    return _escape_control_characters(output)
