"""From a patch to a :class:`Change`: applied to a commit, or alone where no repository is."""

import os
import re
from pathlib import Path

from msgspec.structs import replace

from diffchecks import shorten
from diffchecks.jobs import ChangedFile
from diffchecks.skipped_files import classify_unseen
from diffchecks.unified_diff import FilePatch, PatchFile, PatchRefused, Reader, resolve_files
from orchestrator.code_review.change.change_construction import (
    OnBase,
    compare_trees,
    ignore_base,
    resolve_base_or_head,
)
from orchestrator.code_review.change.git.commands import Git, git_error
from orchestrator.code_review.change.git.commits import Commits
from orchestrator.code_review.change.git.objects import Objects
from orchestrator.code_review.change.git.repository_layout import resolve_path
from orchestrator.code_review.change.git.trees import list_tree
from orchestrator.code_review.change.patch.object_store import build_change
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.change.worktree_snapshot import open_extra_store
from orchestrator.errors import InputError, StoreError


async def from_patch(
    patch: bytes,
    name: str,
    repo: Path | None,
    base: str | None,
    scratch: Path,
    on_base: OnBase = ignore_base,
) -> Change:
    """The change that a unified diff describes.

    Args:
        patch: its bytes, plain or in git's format.
        name: what a person would call it, for messages.
        repo: a directory inside the repository it applies to; None: only its hunks are known.
        base: the commit it applies to, None for HEAD.
        scratch: a directory of this run's own; objects are written there.
        on_base: called once the base is known, if there is a repository.

    Raises:
        InputError: it is malformed, cut short, or does not apply; names the line or the file.
        StoreError: the disk is full.
    """
    name = shorten(name, 120)
    try:
        reader, level, resolved = resolve_files(patch, name)
    except PatchRefused as error:
        raise InputError(str(error)) from None
    if repo is None:
        return await build_change(resolved, name, reader.crlf, scratch)
    return await _apply_patch(reader, resolved, level, name, (repo, base, scratch), on_base)


async def _apply_patch(
    reader: Reader,
    files: list[PatchFile],
    level: int,
    name: str,
    where: tuple[Path, str | None, Path],
    on_base: OnBase,
) -> Change:
    repo, base, scratch = where
    git = await Git.open(repo)
    async with Objects(git) as objects:
        start = await resolve_base_or_head(Commits(objects), base)
        await on_base(objects, start.policy_commit)
        if not files:
            empty = ("the patch is empty",)
            return await compare_trees(objects, start, name, start.tree, notes=empty)
        await list_tree(objects, start.tree)  # bounded, where reading it into an index is not
    store = await open_extra_store(git, scratch)
    # Away from any work tree: only the index, which is base, is patched.
    store = replace(store, work_tree=resolve_path(scratch))
    flags = ["--cached", "--whitespace=nowarn", "--no-ignore-whitespace", f"-p{level}"]
    if all(
        marker != b" " for file in files for hunk in file.patch.hunks for marker, _ in hunk.lines
    ):
        flags.append("--unidiff-zero")
    stderr = b""
    for text in _line_end_variants(reader, [file.patch for file in files]):
        await store.run("read-tree", start.tree)
        done = await store.attempt("apply", *flags, "-", stdin=text) if text else None
        if done is None or done.code == 0:
            break
        problem = git_error("git apply", done)
        if isinstance(problem, StoreError):
            raise problem
        stderr = stderr or done.stderr
    else:
        raise InputError(_apply_error(stderr, name, start.name[:12]))
    tree = (await store.run("write-tree", "--missing-ok")).decode().strip()
    store = replace(store, index=None, work_tree=None)
    unseen = _files_without_tree_changes(files)
    async with Objects(store) as objects:
        return await compare_trees(objects, start, name, tree, unseen=unseen)


def _line_end_variants(reader: Reader, files: list[FilePatch]) -> list[bytes]:
    """The patch for git apply: headers without carriage returns, files without data left out.

    Of a patch whose lines all end in CR LF nobody can tell whether its files do: both are tried.
    """
    bodies = {n for file in files for hunk in file.hunks for n in range(hunk.line, hunk.end - 1)}
    left_out = {
        n for file in files if not file.has_data for n in range(file.line - 1, file.end - 1)
    }

    def spelled(body_end: bytes) -> bytes:
        return b"".join(
            line + body_end if n in bodies else line.removesuffix(b"\r") + b"\n"
            for n, line in enumerate(reader.lines)
            if n not in left_out
        )

    if all(not file.has_data for file in files):
        return [b""]
    return [spelled(b"\n"), spelled(b"\r\n")] if reader.crlf else [spelled(b"\n")]


def _apply_error(stderr: bytes, name: str, base: str) -> str:
    text = stderr.decode("utf-8", "backslashreplace")
    hunk = re.search(r"error: patch failed: (.*):(\d+)$", text, re.MULTILINE)
    file = re.search(r"error: (.*): (.+)$", text, re.MULTILINE)
    place = f"at {shorten(hunk[1])}:{hunk[2]}" if hunk else "here"
    if file and not hunk:
        place = f"to {shorten(file[1])} ({shorten(file[2])})"
    return f"{name} does not apply {place} on {base}; name the commit it was made from with --base"


def _files_without_tree_changes(patched: list[PatchFile]) -> tuple[ChangedFile, ...]:
    """The files of which the patch says only that they differ."""
    return tuple(
        classify_unseen(
            ChangedFile(
                path=os.fsdecode(file.path),
                status=file.status,
                old_path=os.fsdecode(file.old) if file.old else None,
            ),
            has_data=False,
        )
        for file in patched
        if not file.patch.has_data
    )
