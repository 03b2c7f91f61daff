"""What the agents' tools ask of history: the diff as text, a file's log, who wrote which line."""

import re
from collections import Counter
from collections.abc import Sequence

from orchestrator.code_review.change.changed_files import RENAME_LIMIT
from orchestrator.code_review.change.git.commands import OID, OPTIONS, PLAIN_DIFF, Git
from orchestrator.code_review.change.numbered_diff import NumberedFileDiff, number_lines
from orchestrator.code_review.change.types import Change
from orchestrator.errors import InputError

_LOG = OPTIONS["log"]
_IDENTITY = "not committed <> 0 +0000"
_MAX_COMMITS = 1000  # commits
_MESSAGE_AT_MOST = 3000  # characters
_WALKED_COMMITS = 500
_MAX_FIX_FILES = 30  # of a fix; a larger commit brings in more than one
_FIX = re.compile(
    r"\b(?:fix(?:e[sd]|ing)?|bug(?:fix)?|hotfix|regressions?|reverts?)\b", re.IGNORECASE
)
"""The subject of a commit that fixes a defect."""


def _paths_of(change: Change, path: str) -> tuple[str, ...]:
    for file in change.files:
        if path in {file.path, file.old_path}:
            return tuple(dict.fromkeys(name for name in (file.old_path, file.path) if name))
    return (path,)


async def diff(
    change: Change, path: str | None = None, as_text: Sequence[str] = ()
) -> list[NumberedFileDiff]:
    """The change as a diff by file, with line numbers; empty when the path did not change.

    Args:
        path: one file, by its old or new name; None for all.
        as_text: paths to show as text although git calls them binary.
    """
    only = as_text if path is None else _paths_of(change, path)
    output = await Git.of(change).run(
        "diff-tree", "-r", "-p", "-M", RENAME_LIMIT, "-U3", "--full-index", *PLAIN_DIFF,
        *["--text" for _ in as_text[:1]], change.base_tree, change.head_tree, "--", *only,
    )  # fmt: skip
    parts = number_lines(output.decode("utf-8", "replace"))
    # A script may have a NUL, and attributes of this clone may call a text binary.
    hidden = {blob for part in parts if not part.hunk_lines for blob in part.blobs}
    files = [file for file in change.files if hidden.intersection((file.old_blob, file.new_blob))]
    names = [n for f in files if f.added or f.removed for n in _paths_of(change, f.path)]
    parts += await diff(change, as_text=names) if names and not as_text else []
    return [*{(part.lines[0], part.blobs): part for part in parts}.values()]


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
        *_LOG, "--follow", "--format=%h %ad %an: %s",
        f"--max-count={max(1, min(limit, _MAX_COMMITS))}", await _head(git, change), "--", path,
    )  # fmt: skip
    return output.decode("utf-8", "replace")


async def change_log(change: Change, limit: int = 20) -> str:
    """The commits of the change, newest first: id, date, author, subject and body."""
    if not (OID.fullmatch(change.head) and OID.fullmatch(change.base)):
        return "the change is not committed yet"
    output = await Git.of(change).run(
        *_LOG, "-z", "--format=%h %ad %an: %s%n%b",
        f"--max-count={max(1, min(limit, _MAX_COMMITS))}", change.head, f"^{change.base}", "--",
    )  # fmt: skip
    entries = output.decode("utf-8", "replace").split("\0")
    return "\n\n".join(entry.strip()[:_MESSAGE_AT_MOST] for entry in entries if entry.strip())


async def author_says(change: Change) -> dict[str, str]:
    """Title, description and commits of a change, by what they are; without what is not known."""
    parts = {"Title": change.title, "Description": change.description}
    if change.has_tree:
        parts["Commits, newest first"] = await change_log(change)
    return {name: text for name, text in parts.items() if text}


async def count_fixes(change: Change) -> int:
    """How many of base's newest commits fixed the changed file that was fixed most often.

    The number of commits is the bound, so the same history gives the same answer. 0 where there is
    no history, or it cannot be read.
    """
    if not (change.has_tree and OID.fullmatch(change.base)):
        return 0
    newest = f"--max-count={_WALKED_COMMITS}"
    try:
        output = await Git.of(change).run(
            *_LOG, "--no-merges", "--no-renames", "--name-only", "--format=%x01%s", newest,
            change.base, "--",
        )  # fmt: skip
    except InputError:
        return 0
    counts = Counter[str]()
    for record in output.decode("utf-8", "replace").split("\x01"):
        subject, _, names = record.partition("\n")
        touched = names.split("\n")
        if _FIX.search(subject) and len(touched) <= _MAX_FIX_FILES:
            counts.update(touched)
    return max((counts[file.old_path or file.path] for file in change.files), default=0)


async def blame(change: Change, path: str, start: int, end: int) -> str:
    """Who last changed the lines of a file in head: commit, author, date, number and text.

    Args:
        start, end: 1-based and inclusive.
    """
    if not 1 <= start <= end:
        raise InputError(f"lines {start} to {end} are not a range; both count from 1")
    git = Git.of(change)
    output = await git.run(
        *OPTIONS["blame"], f"-L{start},{end}", await _head(git, change), "--", path
    )
    return output.decode("utf-8", "replace")
