"""From a patch to a :class:`Change`: applied to a commit, or alone where no repository is.

Alone, its known lines are put at their right numbers in a store of its own.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from diffchecks import shorten
from diffchecks.jobs import ChangedFile
from diffchecks.skipped_files import LINK, SUBMODULE, classify_unseen, describe_modes
from diffchecks.unified_diff import (
    FilePatch,
    PatchFile,
    PatchHunk,
    PatchRefused,
    Reader,
    quote,
    resolve_files,
)
from orchestrator.code_review.change.change_construction import (
    OnBase,
    compare_trees,
    ignore_base,
    resolve_base_or_head,
)
from orchestrator.code_review.change.changed_files import describe
from orchestrator.code_review.change.file_export import make_directory
from orchestrator.code_review.change.git.commands import Git, git_error
from orchestrator.code_review.change.git.objects import Commits, Objects, list_tree
from orchestrator.code_review.change.git.repository_layout import resolve_path
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
    unseen = [  # of which the patch says only that they differ
        classify_unseen(
            ChangedFile(
                path=os.fsdecode(file.path),
                status=file.status,
                old_path=os.fsdecode(file.old) if file.old else None,
            ),
            has_data=False,
        )
        for file in files
        if not file.patch.has_data
    ]
    async with Objects(store) as objects:
        return await compare_trees(objects, start, name, tree, unseen=tuple(unseen))


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


async def build_change(files: list[PatchFile], name: str, crlf: bool, scratch: Path) -> Change:
    """The change of a patch of which nothing is known but its hunks.

    Args:
        crlf: its line ends were all CR LF and are read as LF.
        scratch: a directory of this run's own; the store is made in it.

    Raises:
        InputError: two parts of the patch speak of one file.
    """
    files = _join_parts(files, name)
    git = Git(resolve_path(scratch) / "store", ours=True)
    make_directory(git.git_dir)
    await git.run("init", "--quiet", "--bare", "--template=", str(git.git_dir))
    stream = b"".join([*_fast_import_commit(files, "base"), *_fast_import_commit(files, "head")])
    await git.run("fast-import", "--quiet", "--force", stdin=stream)
    trees = [
        await git.line("rev-parse", f"refs/heads/{side}^{{tree}}") for side in ("base", "head")
    ]
    async with Objects(git) as objects:
        sides = [await list_tree(objects, tree) for tree in trees]
        changed = [_changed_file(file, sides[0], sides[1], name) for file in files]
        changed.sort(key=lambda file: file.path)
        known = [file for file in changed if file.skip is None]
        described = {f.path: f for f in (await describe(objects, trees[0], known))[0]}
    notes = ["there is no repository; only the lines in the patch are known"]
    if crlf:
        notes.append("the patch's line ends are all CR LF; they are read as LF")
    notes += describe_modes(changed)
    return Change(
        base=f"before {name}",
        head=name,
        base_tree=trees[0],
        head_tree=trees[1],
        git_dir=str(git.git_dir),
        has_tree=False,
        files=tuple(described.get(file.path, file) for file in changed),
        notes=tuple(notes) if files else ("the patch is empty",),
    )


def _join_parts(files: list[PatchFile], name: str) -> list[PatchFile]:
    """One entry a file; git writes a change of type as a deletion and an addition."""
    known: dict[bytes, PatchFile] = {}
    for file in files:
        before = known.get(file.path)
        if before is not None and (before.status, file.status) == ("deleted", "added"):
            file = replace(file, old=before.old, old_mode=before.old_mode, status="type")  # noqa: PLW2901
            file.patch.hunks[:0] = before.patch.hunks
        elif before is not None:
            shown = shorten(repr(file.path)[1:], 80)
            raise InputError(
                f"{name}:{file.patch.line}: {shown} is in it twice; make a single diff of all "
                "changes"
            )
        known[file.path] = file
    return list(known.values())


def _fast_import_commit(files: list[PatchFile], side: str) -> Iterable[bytes]:
    yield b"commit refs/heads/%s\ncommitter diffcourt <> 0 +0000\ndata 0\n" % side.encode()
    for file in files:
        path, mode = (file.old, file.old_mode) if side == "base" else (file.new, file.new_mode)
        if path is None or mode in {None, SUBMODULE} or file.patch.binary:
            continue
        data = render_side(file.patch.hunks, side == "head")
        yield b"M %s inline %s\ndata %d\n" % (str(mode).encode(), quote(path), len(data))
        yield data + b"\n"


def render_side(hunks: Iterable[PatchHunk], head: bool) -> bytes:
    """One side of a file: the known lines at their numbers, empty lines between."""
    parts: list[bytes] = []
    line, other = 1, b"-" if head else b"+"
    for hunk in hunks:
        start, count = (
            (hunk.new_start, hunk.new_count) if head else (hunk.old_start, hunk.old_count)
        )
        if not count:
            continue
        parts.append(b"\n" * (start - line))
        parts.extend(text for marker, text in hunk.lines if marker != other)
        line = start + count
    return b"".join(parts)


def _line_numbers(hunks: Iterable[PatchHunk], head: bool) -> tuple[int, ...]:
    found: list[int] = []
    wanted, other = (b"+", b"-") if head else (b"-", b"+")
    for hunk in hunks:
        line = hunk.new_start if head else hunk.old_start
        for marker, _ in hunk.lines:
            if marker == wanted:
                found.append(line)
            line += marker != other
    return tuple(found)


def _submodule_commit(hunks: Iterable[PatchHunk], marker: bytes) -> str | None:
    for hunk in hunks:
        for sign, text in hunk.lines:
            if sign == marker and text.startswith(b"Subproject commit "):
                return text.split()[-1].decode("ascii", "replace")
    return None


def _changed_file(
    file: PatchFile, base: dict[str, tuple[str, str]], head: dict[str, tuple[str, str]], name: str
) -> ChangedFile:
    patch = file.patch
    old, new = (os.fsdecode(path) if path is not None else None for path in (file.old, file.new))
    changed = ChangedFile(
        path=new or old or "",
        status=file.status,
        old_path=old,
        old_mode=file.old_mode,
        new_mode=file.new_mode,
        added=() if file.new_mode in {LINK, SUBMODULE} else _line_numbers(patch.hunks, True),
        removed=() if file.old_mode in {LINK, SUBMODULE} else _line_numbers(patch.hunks, False),
        whole=file.status in {"added", "deleted", "type"},
    )
    if patch.binary:
        return classify_unseen(changed, patch.has_data)
    blobs: list[str | None] = []
    for path, mode, side, sign in (
        (old, file.old_mode, base, b"-"),
        (new, file.new_mode, head, b"+"),
    ):
        if mode == SUBMODULE:
            blobs.append(_submodule_commit(patch.hunks, sign))
        elif path is not None and path not in side:
            shown = shorten(path, 80)
            raise InputError(f"{name}:{patch.line}: {shown} is a file and a directory at once")
        else:
            blobs.append(side[path][1] if path is not None else None)
    return replace(changed, old_blob=blobs[0], new_blob=blobs[1])
