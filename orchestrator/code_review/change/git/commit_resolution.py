"""Open a repository and resolve the given commits, with one git call where possible."""

import os
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.code_review.change.git.commands import OID, Git, discover, is_valid_argument

# As an absolute path, which came with git 2.31: an older one prints the option and is found out.
_GIT_DIR = ("--path-format=absolute", "--git-dir")


class OpenedRepository(Struct, frozen=True):
    """A repository and the commits that the call resolved; what is None is not resolved yet.

    Attributes:
        head: the commit named.
        base: the commit named as base.
    """

    git: Git
    top: Path | None = None
    head: str | None = None
    base: str | None = None


async def open_repository(repo: Path, base: str | None, head: str | None) -> OpenedRepository:
    """Open a repository.

    Args:
        base: a commit's name; None when it is not needed.
        head: a commit's name; None for HEAD, and then the work tree is opened as well.

    Raises:
        InputError: no such directory, no repository there, no git, or one too old.
    """
    names = ["HEAD" if head is None else head, *([] if base is None else [base])]
    if all(is_valid_argument(name) and _is_plain(name) for name in names):
        commits = [f"{name}^{{commit}}" for name in names]
        top = ["--show-toplevel"] if head is None else []
        found, completed = await discover(repo, *_GIT_DIR, *top, *commits, "--")
        plain = not completed.code and b"is ambiguous" not in completed.stderr
        parsed = _parse_rev_parse(completed.stdout, bool(top), len(names)) if plain else None
        if parsed is not None:
            own = parsed.top is None or parsed.top == found.work_tree
            return parsed if own else replace(parsed, top=None)
    return OpenedRepository(await Git.open(repo))


def _is_plain(name: str) -> bool:
    """Whether a name can stand beside others: it is no option, no range, and not empty."""
    return bool(name) and not name.startswith("-") and ".." not in name


def _parse_rev_parse(stdout: bytes, has_top: bool, names: int) -> OpenedRepository | None:
    """The paths and commits that ``git rev-parse`` printed; None when it printed anything else."""
    lines = os.fsdecode(stdout).split("\n")
    paths, ids = lines[: 1 + has_top], lines[1 + has_top : -2]
    if len(ids) != names or not all(OID.fullmatch(oid) for oid in ids):
        return None  # a path of several lines, or a name that stands for several commits
    return OpenedRepository(
        git=Git(Path(paths[0])),
        top=Path(paths[1]) if has_top else None,
        head=ids[0],
        base=ids[1] if names > 1 else None,
    )
