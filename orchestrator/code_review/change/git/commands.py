"""Run git without executing anything that a repository configures.

A checkout under review may have been prepared by someone else: its configuration can name hooks,
file system monitors, filters, text converters, signature checkers and remote helpers. Every call
goes through :class:`Git`, which turns all of them off and reads contents by object id only.
"""

import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct

from diffchecks import shorten
from diffchecks.skipped_files import BIG_FILE_BYTES
from orchestrator.code_review.change.git.repository_layout import (
    Repository,
    find_repository,
    git_directories,
    is_directory,
    is_shallow_clone,
    repository_directories,
    resolve_path,
)
from orchestrator.code_review.change.types import Change
from orchestrator.data_directories import read_table
from orchestrator.engine.task_groups import run_both
from orchestrator.errors import DiffcourtError, InputError, SandboxError, StoreError
from orchestrator.program_search import SAFE_PATH, find_program
from orchestrator.sandbox.program_permissions import Permissions, ResourceLimits
from orchestrator.sandbox.run_program import CompletedProgram, run

# Before 2.31 git prints no absolute paths (rev-parse --path-format).
MINIMUM = (2, 31)

OPTIONS = read_table(__file__, "options.yaml")
"""What ``options.yaml`` says of git's configuration, environment and commands."""
ENVIRONMENT: dict[str, str] = OPTIONS["environment"]
PLAIN_DIFF: tuple[str, ...] = tuple(OPTIONS["diff"])

# No index and no work tree: attributes of the checkout (the change's own) must not steer a diff.
NO_INDEX = "/nonexistent/index"


def find_git() -> str:
    """Absolute path of git, found on PATH outside of the repository under review."""
    path = os.environ.get("PATH", SAFE_PATH)
    if found := find_program("git", path):
        return found
    if inside := find_program("git", path, in_checkout=True):
        raise InputError(
            f"the only git on PATH is in the repository under review ({inside}), from which "
            "nothing is run; install git 2.31 or later elsewhere"
        )
    raise InputError("git is not installed or not on PATH; install git 2.31 or later")


def hardened_options() -> list[str]:
    """git's own options, before the command's name."""
    config = {**OPTIONS["config"], "core.bigFileThreshold": BIG_FILE_BYTES}
    pairs = [word for key, value in config.items() for word in ("-c", f"{key}={value}")]
    return ["--no-pager", "--no-optional-locks", "--no-replace-objects", *pairs]


# git maps whole packs, so its address space says nothing; large trees may print long listings.
LIMITS = ResourceLimits(seconds=120, memory=0, output=512 << 20, file_size=0)

_NO_REPOSITORY = "is not a git repository, or may not be read"

OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def _error_text(stderr: bytes) -> str:
    text = stderr.decode("utf-8", "backslashreplace")
    lines = [line for line in text.splitlines() if line.strip()]
    reasons = [line for line in lines if line.startswith(("fatal: ", "error: "))]
    line = (reasons or lines or ["it gave no reason"])[0]
    return shorten(line.removeprefix("fatal: ").removeprefix("error: "))


def git_error(what: str, completed: CompletedProgram, hint: str = "") -> DiffcourtError:
    """The error for a git call that failed, in one line."""
    if re.search(rb"No space left on device|Disk quota exceeded", completed.stderr):
        return StoreError(f"the disk is full ({what}); free some space and run again")
    if re.search(rb"promisor remote|lazy fetching", completed.stderr):
        return InputError(
            "this partial clone lacks objects that the review needs; make a full clone, or "
            "git fetch --refetch --no-filter"
        )
    return InputError(f"{what} failed: {_error_text(completed.stderr)}{hint}")


async def _execute(
    argv: list[str],
    permissions: Permissions,
    cwd: Path,
    *,
    env: Mapping[str, str] = ENVIRONMENT,
    stdin: bytes = b"",
    limits: ResourceLimits = LIMITS,
) -> CompletedProgram:
    try:
        return await run(
            argv, permissions=permissions, cwd=cwd, env=env, stdin=stdin, limits=limits
        )
    except SandboxError as error:
        raise InputError(f"this repository could not be read: {error}") from None


async def discover(repo: Path, *arguments: str) -> tuple[Repository, CompletedProgram]:
    """Run ``git rev-parse`` in the repository that contains a directory.

    Raises:
        InputError: no such directory, or no repository there that is its own.
    """
    if not is_directory(resolve_path(repo)):
        raise InputError(f"{shorten(str(repo))} is not a directory; name a repository with --repo")
    found = find_repository(repo)
    if found is None:
        raise InputError(f"{shorten(str(repo))} {_NO_REPOSITORY}")
    directories = repository_directories(repo)
    git = (find_git(), *hardened_options(), f"--git-dir={found.git_dir}")
    cwd = found.work_tree or found.git_dir
    cwd = cwd if is_directory(cwd) else found.root  # git reports what is wrong with .git
    return found, await _execute([*git, "rev-parse", *arguments], Permissions(directories), cwd)


async def check_git_version() -> str:
    """The version of git, which is recent enough."""
    git = find_git()
    version = await _execute([git, "version"], Permissions(), Path("/"))
    number = re.search(rb"(\d+)\.(\d+)", version.stdout)
    if version.code or not number:
        raise InputError(f"{git} does not work; install git 2.31 or later")
    if (int(number[1]), int(number[2])) < MINIMUM:
        raise InputError(f"git {number[0].decode()} is too old; install git 2.31 or later")
    return number[0].decode()


def is_valid_argument(argument: str) -> bool:
    """Whether a string can be passed to a program: it has no NUL and can be encoded."""
    try:
        return b"\0" not in os.fsencode(argument)
    except UnicodeEncodeError:
        return False


class Git(Struct, frozen=True):
    """A repository's git, without its configuration's programs.

    Attributes:
        git_dir: its git directory, absolute.
        work_tree: the checkout, only for the calls that read it; None everywhere else.
        object_dir: where new objects are written; it names the repository's own as an alternate.
        index: the index file in use; none is read when None.
        ours: the repository is one that we made, and may be written.
    """

    git_dir: Path
    work_tree: Path | None = None
    object_dir: Path | None = None
    index: Path | None = None
    ours: bool = False

    @classmethod
    async def open(cls, repo: Path) -> "Git":
        """Find the repository that holds a directory.

        Raises:
            InputError: no such directory, no repository there, no git, or one too old.
        """
        find_repository(repo)  # before any git is started: none is taken from there
        _, (found, done) = await run_both(check_git_version, partial(discover, repo, "--git-dir"))
        if done.code:
            known = b"not a git repository" in done.stderr
            hint = "" if known else f" ({_error_text(done.stderr)})"
            raise InputError(f"{shorten(str(repo))} {_NO_REPOSITORY}{hint}")
        return cls(found.git_dir)

    @classmethod
    def of(cls, change: Change) -> "Git":
        """The git that reads a change's objects."""
        extra = Path(change.object_dir) if change.object_dir else None
        return cls(Path(change.git_dir), object_dir=extra)

    def command(self, *arguments: str) -> list[str]:
        """The argv of one call."""
        return [find_git(), *hardened_options(), f"--git-dir={self.git_dir}", *arguments]

    def environment(self) -> dict[str, str]:
        """The variables of one call; nothing of ours is inherited."""
        env = {**ENVIRONMENT, "GIT_INDEX_FILE": str(self.index or NO_INDEX)}
        if self.work_tree:
            env["GIT_WORK_TREE"] = str(self.work_tree)
        else:
            env["GIT_IMPLICIT_WORK_TREE"] = "0"
        if self.object_dir:
            env["GIT_OBJECT_DIRECTORY"] = str(self.object_dir)
        return env

    @property
    def cwd(self) -> Path:
        """Where calls run; in the git directory there is no ``.gitattributes`` of the change."""
        return self.work_tree or self.git_dir

    @property
    def permissions(self) -> Permissions:
        """What a call may touch: to read the repository, to write what is kept beside it."""
        own = (
            self.index.parent if self.index and self.index.parent != self.git_dir else None,
            self.object_dir,
            self.git_dir if self.ours else None,
        )
        tree = (self.work_tree,) if self.work_tree else ()
        return Permissions(
            (*git_directories(self.git_dir), *tree), tuple(path for path in own if path)
        )

    async def attempt(
        self, *arguments: str, stdin: bytes = b"", limits: ResourceLimits = LIMITS
    ) -> CompletedProgram:
        """Run git; the exit code is the caller's to judge."""
        if not all(is_valid_argument(argument) for argument in arguments):
            raise InputError("a name that is empty or contains a NUL cannot be looked up")
        argv = self.command(*arguments)
        return await _execute(
            argv, self.permissions, self.cwd, env=self.environment(), stdin=stdin, limits=limits
        )

    async def run(
        self, *arguments: str, stdin: bytes = b"", limits: ResourceLimits = LIMITS
    ) -> bytes:
        """Run git and return what it printed.

        Raises:
            InputError: it failed, with git's own reason on one line.
            StoreError: the disk is full.
        """
        completed = await self.attempt(*arguments, stdin=stdin, limits=limits)
        if completed.code:
            raise git_error(f"git {arguments[0]}", completed)
        return completed.stdout

    async def line(self, *arguments: str) -> str:
        """Run git and return the one line it printed."""
        return os.fsdecode((await self.run(*arguments)).removesuffix(b"\n"))

    async def commit(self, ref: str) -> str:
        """The commit id that a person's name for a commit stands for."""
        shown = shorten(repr(ref), 80)
        if not ref or ref.startswith("-"):
            raise InputError(
                f"{shown} is not the name of a commit; give a branch, tag or commit id"
            )
        if commit := await self._named(f"{ref}^{{commit}}", shown):
            return commit
        oid = await self._named(ref, shown)  # ":/text" takes no suffix
        if oid is None or (await self.attempt("cat-file", "-e", oid)).code:
            if oid and not OID.fullmatch(ref):
                raise InputError(
                    f"{shown} is {oid[:12]}, which is missing here; git fsck shows why"
                )
            raise InputError(self._unknown(ref, shown))
        if commit := await self._named(f"{oid}^{{commit}}", shown):
            return commit
        raise InputError(f"{shown} is not a commit; give a branch, tag or commit id")

    async def _named(self, name: str, shown: str) -> str | None:
        """The id of what has that name, None where nothing has."""
        found = await self.attempt("rev-parse", "--verify", name)
        if b"is ambiguous" in found.stderr:
            full = "refs/heads/…, refs/tags/… or a commit id"
            raise InputError(f"{shown} is ambiguous; name it in full: {full}")
        oid = found.stdout.decode("utf-8", "replace").strip()
        return oid if not found.code and OID.fullmatch(oid) else None

    def _unknown(self, ref: str, shown: str) -> str:
        if ref == "HEAD":
            return "this repository has no commit yet; commit something, or use --worktree"
        if ".." in ref:
            return f"{shown} names a range, not one commit; give it as diffcourt review BASE..HEAD"
        if self.is_shallow:
            command = "git fetch --unshallow origin"
            if branch := re.fullmatch(r"origin/([\w./-]+)", ref):
                command += f" {branch[1]}:refs/remotes/{ref}"
            return f"{shown} is not in this shallow clone; run: {command}"
        return f"unknown revision {shown}; list branches and tags with git branch --all and git tag"

    @property
    def is_shallow(self) -> bool:
        """Whether the clone's history was cut off."""
        return is_shallow_clone(self.git_dir)
