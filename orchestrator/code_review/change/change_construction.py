"""Build a :class:`Change` from two commits, or from a commit and the work tree."""

import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from diffchecks.jobs import ChangedFile
from diffchecks.skipped_files import describe_modes
from orchestrator.code_review.change.changed_files import changed_files
from orchestrator.code_review.change.git.commands import OID, Git, discover, is_valid_argument
from orchestrator.code_review.change.git.objects import Commits, Objects, look_up_objects
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.change.worktree_snapshot import (
    note_uncommitted_changes,
    snapshot_index,
    snapshot_worktree,
)
from orchestrator.data_directories import read_table
from orchestrator.engine.task_groups import run_both
from orchestrator.errors import InputError

_DEFAULTS: Sequence[str] = read_table(__file__, "default_branches.yaml")

EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""git's tree without files, as base: the whole tree is the change."""

UNCOMMITTED = WORKTREE, STAGED = "worktree", "staged"
"""The names of what is not committed as the head of a change."""


def _shorten_name(name: str) -> str:
    return name[:12] if OID.fullmatch(name) else name


class Base(Struct, frozen=True):
    """The side that a change starts from.

    Attributes:
        commit: None for the empty tree.
        notes: why this base was chosen, where that is not obvious.
        policy: the commit whose policy applies; None for this one. Of a branch it is the tip: the
            author of a change chooses the merge base, and could choose one with a laxer policy.
    """

    commit: str | None
    tree: str
    notes: tuple[str, ...] = ()
    policy: str | None = None

    @property
    def name(self) -> str:
        """The commit id, or ``empty tree``."""
        return self.commit or "empty tree"

    @property
    def policy_commit(self) -> str | None:
        """The commit whose policy applies; None for the shipped policy."""
        return self.policy or self.commit


OnBase = Callable[[Objects, str | None], Awaitable[None]]
"""Called with the commit whose policy applies, before anything of the change is read."""


async def ignore_base(objects: Objects, policy: str | None) -> None:
    """Do nothing with the base."""


async def _empty_base(git: Git, why: str) -> Base:
    tree = await git.line("hash-object", "-t", "tree", "--stdin")  # without files
    return Base(None, tree, (f"{why}; the whole tree is reviewed as one change",))


async def _parent_base(commits: Commits, head: str, why: str) -> Base:
    """The commit before head, as far as this clone knows one."""
    if parent := await commits.parent(head):
        return Base(parent, await commits.tree(parent), (why,))
    if commits.git.is_shallow:
        return await _empty_base(commits.git, f"this clone holds no parent of {head[:12]}")
    return await _empty_base(commits.git, f"{head[:12]} is the first commit")


async def find_default_branch(git: Git) -> tuple[str, str] | None:
    """The name and the newest commit of the branch that changes are compared with."""
    seen = await look_up_objects(git, [f"{ref}^{{commit}}" for ref in _DEFAULTS])
    for ref in _DEFAULTS:
        if tip := seen.get(f"{ref}^{{commit}}"):
            return ref.removeprefix("refs/heads/").removeprefix("refs/remotes/"), tip.oid
    return None


async def _default_base(commits: Commits, head: str) -> Base:
    git = commits.git
    found = await find_default_branch(git)
    if found is None:
        if await commits.parent(head) is None and not git.is_shallow:
            return await _empty_base(git, f"{head[:12]} is the first commit")
        raise InputError(
            "this repository has no default branch (origin/HEAD, main or master) to compare with: "
            "name one with --base, such as --base origin/develop, or --base HEAD~1 for one commit"
        )
    name, tip = found
    base = await commits.merge_base(tip, head)
    if base == head:
        why = f"{head[:12]} is already on {name}; only that commit is reviewed"
        return await _parent_base(commits, head, why)
    if base:
        return Base(base, await commits.tree(base), policy=tip)
    if git.is_shallow:
        return await _empty_base(git, f"this clone holds no merge base of {head[:12]} and {name}")
    why = f"{head[:12]} shares no history with {name}; the newest commit is reviewed"
    return await _parent_base(commits, head, why)


async def _named_base(commits: Commits, named: str, head: str) -> Base:
    common = await commits.merge_base(named, head)
    if common:
        return Base(common, await commits.tree(common), policy=named)
    where = "in this shallow clone" if commits.git.is_shallow else "at all"
    why = f"{named[:12]} and {head[:12]} have no common commit {where}; they are compared directly"
    return Base(named, await commits.tree(named), (why,))


async def compare_trees(
    objects: Objects,
    base: Base,
    head: str,
    head_tree: str,
    *,
    notes: tuple[str, ...] = (),
    unseen: tuple[ChangedFile, ...] = (),
) -> Change:
    """The change from a base to a tree in the same object store.

    Args:
        objects: reads both; its git's ``object_dir`` is the change's.
        base: the side to start from.
        head: the name of the other side.
        unseen: changed files that do not differ between the trees.
    """
    git = objects.git
    found = await changed_files(objects, base.tree, head_tree)
    files = tuple(sorted((*found, *unseen), key=lambda file: file.path))
    empty = () if files else (_describe_empty_change(base, head),)
    return Change(
        base=base.name,
        head=head,
        base_tree=base.tree,
        head_tree=head_tree,
        git_dir=str(git.git_dir),
        object_dir=str(git.object_dir) if git.object_dir else None,
        policy_commit=base.policy_commit,
        files=files,
        notes=(*base.notes, *notes, *empty, *describe_modes(files)),
    )


def _describe_empty_change(base: Base, head: str) -> str:
    if base.commit == head and base.policy not in {None, head}:
        policy = _shorten_name(str(base.policy))
        return f"{policy} already contains all of {_shorten_name(head)}; there is nothing to review"
    return f"there are no differences between {_shorten_name(base.name)} and {_shorten_name(head)}"


async def from_refs(
    repo: Path, base: str | None, head: str | None, on_base: OnBase = ignore_base
) -> Change:
    """The change between two commits.

    Args:
        repo: a directory inside the repository.
        base: a commit's name; the change starts at its merge base with head, as a pull request's
            does. ``EMPTY``: all of head is new. None: the default branch, or the commit before head
            when head is on that already; the first commit is reviewed as a whole.
        head: a commit's name, None for HEAD.
        on_base: called once the base is known.

    Raises:
        InputError: no repository, a name that is unknown, ambiguous or no commit, or no base where
            the repository has no default branch.
    """
    whole = base == EMPTY
    known = await open_repository(repo, None if whole else base, head)
    git = known.git
    tip = known.head or await git.commit("HEAD" if head is None else head)
    named = known.base or (await git.commit(base) if base is not None and not whole else None)
    async with Objects(git) as objects:
        commits = Commits(objects)
        if whole:
            start = await _empty_base(git, f"all commits of {tip[:12]} are new")
        elif named is None:
            start = await _default_base(commits, tip)
        else:
            start = await _named_base(commits, named, tip)
        await on_base(objects, start.policy_commit)
        tree = await commits.tree(tip)
        found = partial(compare_trees, objects, start, tip, tree)
        if head is not None:
            return await found()
        noted = partial(note_uncommitted_changes, objects, repo, known.top, tree)
        change, note = await run_both(found, noted)
    return replace(change, notes=(*change.notes, note)) if note else change


async def resolve_base_or_head(commits: Commits, base: str | None) -> Base:
    """The base of a change that is no commit yet: the commit named, else HEAD.

    Raises:
        InputError: the name is unknown, ambiguous or no commit.
    """
    git = commits.git
    if base is not None:
        commit = await git.commit(base)
        return Base(commit, await commits.tree(commit))
    found = await git.attempt("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if found.code:
        if (await git.attempt("rev-parse", "--verify", "--quiet", "HEAD")).code == 0:
            await git.commit("HEAD")  # there is one, and it is lost: says so
        return await _empty_base(git, "this repository has no commit yet")
    commit = found.stdout.decode().strip()
    return Base(commit, await commits.tree(commit))


async def from_worktree(
    repo: Path,
    base: str | None,
    scratch: Path,
    on_base: OnBase = ignore_base,
    *,
    index: Path | None = None,
) -> Change:
    """The change between a commit and the work tree: staged, unstaged and new files alike.

    Args:
        index: a file of git's index; what is staged there is the change, and not the work tree.
        repo: a directory inside the work tree.
        base: a commit's name, taken by its merge base with HEAD; None for HEAD.
        scratch: a directory of this run's own; new objects and an index are written there. The
            repository's own index and objects are left alone.
        on_base: called once the base is known.

    Raises:
        InputError: no repository, a bare one, an unusable name, or files that cannot be read.
        StoreError: the disk is full.
    """
    git = await Git.open(repo)
    async with Objects(git) as objects:
        commits = Commits(objects)
        start = await resolve_base_or_head(commits, None)
        if base is not None and start.commit:
            start = await _named_base(commits, await git.commit(base), start.commit)
        await on_base(objects, start.policy_commit)
    if index is None:
        head, (store, tree, notes) = WORKTREE, await snapshot_worktree(git, repo, scratch)
    else:
        head, (store, tree, notes) = STAGED, await snapshot_index(git, index, scratch)
    async with Objects(store) as objects:
        return await compare_trees(objects, start, head, tree, notes=notes)


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
    # They can stand beside others: none is an option, a range or empty.
    plain = [name for name in names if name and not name.startswith("-") and ".." not in name]
    if plain == names and all(map(is_valid_argument, names)):
        commits = [f"{name}^{{commit}}" for name in names]
        top = ["--show-toplevel"] if head is None else []
        found, completed = await discover(repo, *_GIT_DIR, *top, *commits, "--")
        clear = not completed.code and b"is ambiguous" not in completed.stderr
        parsed = _parse_rev_parse(completed.stdout, bool(top), len(names)) if clear else None
        if parsed is not None:
            own = parsed.top is None or parsed.top == found.work_tree
            return parsed if own else replace(parsed, top=None)
    return OpenedRepository(await Git.open(repo))


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
