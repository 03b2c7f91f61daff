"""What a git hook reviews: the commits that a push sends, else what is staged for a commit."""

import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from diffchecks import shorten
from orchestrator.app.event_loop import blocking
from orchestrator.code_review.change.change_construction import EMPTY
from orchestrator.code_review.change.git.commands import OID, Git
from orchestrator.code_review.change.git.repository_layout import find_repository
from orchestrator.errors import InputError

MAX_BASES = 50
"""Commits before the pushed ones that are compared to find the newest."""

_NONE = re.compile(r"0+")  # git's id for the side of a ref that does not exist
_ALL_NEW = ("PRE_COMMIT_REMOTE_NAME", "PRE_COMMIT_LOCAL_BRANCH")
_COMMITTING = ("PRE_COMMIT", "GIT_INDEX_FILE")


class PushedRef(Struct, frozen=True):
    """One ref of a push.

    Attributes:
        remote: the commit that the remote has; empty where it has none.
    """

    name: str
    local: str
    remote: str = ""

    def is_tag(self) -> bool:
        """Whether it is a tag, which most often names a commit of a branch."""
        return self.name.startswith("refs/tags/")


@blocking
async def find_pushed(
    repo: Path, lines: str | None, environment: Mapping[str, str]
) -> list[tuple[str, str]] | None:
    """The changes that a push sends, as base and head; None in a hook of another event.

    A branch that the remote has starts at its commit there, a new one at the newest commit that a
    remote has. A deleted ref is no change, nor is a tag of a commit that another ref sends.

    Args:
        lines: what git gives the hook pre-push on standard input: a line for each ref. None: not
            passed on, as by some managers of hooks; then HEAD is taken for what is pushed.
        environment: pre-commit names one ref of the push in it, and passes no lines on.

    Raises:
        InputError: a line is not git's, or there is no repository.
    """
    refs = [_read_line(line) for line in (lines or "").splitlines() if line.strip()]
    if not refs:
        first, last = (environment.get(f"PRE_COMMIT_{side}_REF", "") for side in ("FROM", "TO"))
        new = [environment.get(name, "") for name in _ALL_NEW]
        if last or all(new):
            refs = [PushedRef("HEAD", last or new[1], first)]
        elif any(environment.get(name) for name in _COMMITTING):
            return None
        elif lines is None:
            refs = [PushedRef("HEAD", "HEAD")]
    git = await Git.open(repo)
    found: dict[tuple[str, str], None] = {}
    for ref in sorted(refs, key=PushedRef.is_tag):
        head = await _commit(git, ref.local)
        if not head and ref.local and (await git.attempt("cat-file", "-e", ref.local)).code:
            raise InputError(f"--hook: {shorten(ref.local)} is not in this repository")
        base = await _find_base(git, head, await _commit(git, ref.remote)) if head else ""
        heads = [head for _, head in found] if ref.is_tag() else []
        if base and not ref.name.startswith("refs/notes/") and not await _has(git, heads, head):
            found[base, head] = None
    return list(found)


def _read_line(line: str) -> PushedRef:
    """A ref of ``<local ref> <local id> <remote ref> <remote id>``."""
    match line.rsplit(maxsplit=3):
        case [_, local, name, remote] if OID.fullmatch(local) and OID.fullmatch(remote):
            ids = ["" if _NONE.fullmatch(each) else each for each in (local, remote)]
            return PushedRef(name, *ids)
    raise InputError(
        f"--hook: standard input is not what git gives the hook pre-push: {shorten(line, 80)!r}"
    )


async def _commit(git: Git, name: str) -> str:
    """The commit of that name; empty where there is none here, as for a tag of a file."""
    if not name or name.startswith("-"):
        return ""
    found = await git.attempt("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    return "" if found.code else found.stdout.decode().strip()


async def _find_base(git: Git, head: str, remote: str) -> str:
    """The commit to compare with, empty where the remote has all commits of head."""
    known = [remote] if remote else ["--remotes"]
    listed = await git.run("rev-list", "--topo-order", "--boundary", head, "--not", *known)
    commits = listed.decode().split()
    before = [commit[1:] for commit in commits if commit.startswith("-")]
    if len(before) == len(commits):
        return ""
    if remote:
        return remote
    if not before:
        return EMPTY
    newest = await git.run("merge-base", "--independent", *before[:MAX_BASES])
    return newest.decode().split()[0]


async def _has(git: Git, heads: list[str], commit: str) -> bool:
    """Whether a commit is one of those that lead to one of the heads."""
    for head in heads:
        if not (await git.attempt("merge-base", "--is-ancestor", commit, head)).code:
            return True
    return False


def find_index(repo: Path | None, environment: Mapping[str, str]) -> Path:
    """The file of the index that the next commit takes: of ``git commit -a`` it is another one.

    Raises:
        InputError: there is no work tree.
    """
    found = find_repository(repo or Path())
    if found is None or found.work_tree is None:
        raise InputError(f"{shorten(str(repo or Path()))} is not in a work tree")
    named = environment.get("GIT_INDEX_FILE", "")
    other = (Path(named) if repo is None else found.root / named).absolute()
    inside = other.resolve().is_relative_to(found.git_dir.resolve())
    return other if named and (repo is None or inside) else found.git_dir / "index"
