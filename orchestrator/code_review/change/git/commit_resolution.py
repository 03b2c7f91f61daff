"""Open a repository and resolve the given commits, with one git call where possible."""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from orchestrator.code_review.change.git.commands import OID, Git, discover, is_valid_argument

# As an absolute path, which came with git 2.31: an older one prints the option and is found out.
_GIT_DIR = ("--path-format=absolute", "--git-dir")


class OpenedRepository(Struct, frozen=True):
    """A repository and the commits that the call resolved; what is None is not resolved yet.

    Attributes:
        head: the commit named.
        base: the commit named as base.
        common: the merge base of head and base.
        trees: commit → its tree.
    """

    git: Git
    top: Path | None = None
    head: str | None = None
    base: str | None = None
    common: str | None = None
    trees: Mapping[str, str] = {}

    async def tree(self, commit: str) -> str:
        """The tree id of a commit id."""
        return self.trees.get(commit) or await self.git.tree(commit)


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
        revisions = [f"{commit}{end}" for commit in commits for end in ("", "^{tree}")]
        both = ["...".join(reversed(commits))] if base is not None else []
        top = ["--show-toplevel"] if head is None else []
        completed = await discover(repo, *_GIT_DIR, *top, *revisions, *both, "--")
        plain = not completed.code and b"is ambiguous" not in completed.stderr
        found = _parse_rev_parse(completed.stdout, bool(top), bool(both)) if plain else None
        if found is not None:
            return found
    return OpenedRepository(await Git.open(repo))


def _is_plain(name: str) -> bool:
    """Whether a name can stand beside others: it is no option, no range, and not empty."""
    return bool(name) and not name.startswith("-") and ".." not in name


def _parse_rev_parse(stdout: bytes, has_top: bool, has_base: bool) -> OpenedRepository | None:
    """What ``git rev-parse`` printed; None when it is not as plain as it should be.

    That is the paths, commit and tree of head and of base, the two commits again, and what they
    have in common, best first, with a ``^`` before each.
    """
    lines = os.fsdecode(stdout).split("\n")
    paths, ids = lines[: 1 + has_top], lines[1 + has_top : -2]
    sides, again, common = ids[:4], ids[4:6], [oid.removeprefix("^") for oid in ids[6:]]
    if not all(OID.fullmatch(oid) for oid in (*sides, *common)):
        return None  # a path of several lines, or a name that stands for several commits
    if again != ([sides[0], sides[2]] if has_base else []) or len(sides) != 2 + 2 * has_base:
        return None
    return OpenedRepository(
        git=Git(Path(paths[0])),
        top=Path(paths[1]) if has_top else None,
        head=sides[0],
        base=sides[2] if has_base else None,
        common=common[0] if common else None,
        trees=dict(zip(sides[0::2], sides[1::2], strict=True)),
    )
