"""The files between two trees: how each changed, its kind, and the numbers of the changed lines.

Also what changed between the head that an earlier review read and the head of a change.
"""

import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from diffchecks import shorten
from diffchecks.jobs import ChangedFile, Status
from diffchecks.path_kinds import build_directory, vendored_directory
from diffchecks.safe_paths import unsafe_path_reason
from diffchecks.skipped_files import (
    BIG_FILE_BYTES,
    LINK,
    SUBMODULE,
    AttributePolicy,
    ContentInfo,
    classify,
    inspect_content,
    is_text,
    without_version,
)
from orchestrator.code_review.change.file_export import temporary_directory
from orchestrator.code_review.change.git.commands import LIMITS, OID, PLAIN_DIFF, Git
from orchestrator.code_review.change.git.objects import (
    Commits,
    GitObject,
    Objects,
    check_difference,
    look_up_objects,
    missing_object_error,
)
from orchestrator.code_review.change.git.repository_layout import STATE
from orchestrator.code_review.change.types import Change, to_ranges
from orchestrator.engine.task_groups import run_both
from orchestrator.errors import InputError

Lines = tuple[tuple[int, ...], tuple[int, ...]]  # added, removed
Described = tuple[list[ChangedFile], dict[str, ContentInfo]]  # with what their blobs are like

# Above this many candidates on a side git tells renames by equal content only, and does not fail.
RENAME_LIMIT = "-l400"

MAX_VENDORED_READ = 100  # files of a change without any other

_FLAGS = ("-U0", "--full-index", *PLAIN_DIFF)

_DIFF_AT_ONCE = 64 << 20  # bytes of diff that are held at once

_STATUS: Mapping[str, Status] = {"A": "added", "D": "deleted", "M": "modified", "R": "renamed"}
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_INDEX = re.compile(rb"index ([0-9a-f]+)\.\.([0-9a-f]+)(?: [0-7]+)?\n")


async def changed_files(
    objects: Objects, base_tree: str, head_tree: str
) -> tuple[ChangedFile, ...]:
    """Every file that differs between two trees, sorted by path.

    Raises:
        InputError: an object is missing from this clone or not what its id says, there are too many
            files, or a name leads out of the tree.
    """
    git = objects.git
    (files, looks), (output, _) = await run_both(
        partial(_read_both_diffs, objects, base_tree, head_tree),
        partial(
            run_both,
            partial(_diff, git, base_tree, head_tree),
            partial(check_difference, objects, base_tree, head_tree),
        ),
    )
    pairs = await _read_line_numbers(git, output, files, looks)
    return tuple(_with_line_numbers(file, looks, pairs) for file in files)


async def _read_both_diffs(objects: Objects, base_tree: str, head_tree: str) -> Described:
    output = await objects.git.run(
        "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "-M", RENAME_LIMIT, *PLAIN_DIFF,
        base_tree, head_tree,
    )  # fmt: skip
    files = sorted(_parse_raw_diff(output), key=lambda file: file.path)
    _check_names(files)
    return await describe(objects, base_tree, files)


def _check_names(files: Sequence[ChangedFile]) -> None:
    """See that what a checkout would write is what is looked at, and nothing of ours."""
    for path in (path for file in files for path in file.paths):
        if why := unsafe_path_reason(path):
            raise InputError(f"{shorten(path, 80)} is not a valid path: {why}")
    for first, second in pairwise(files):
        if first.path == second.path:
            raise InputError(
                f"{shorten(first.path, 80)} appears twice in the tree; git fsck shows where"
            )
    for file in files:
        if file.new_blob and f"{file.path}/".casefold().startswith(STATE):
            what = "is where Diffcourt records its runs, which no change may bring"
            raise InputError(f"{shorten(file.path, 80)} {what}; git rm --cached it")


def _parse_raw_diff(output: bytes) -> Iterator[ChangedFile]:
    fields = iter(output.split(b"\0"))
    for about in fields:
        if not about:
            return
        old_mode, new_mode, old, new, letter = about.decode()[1:].split(" ")
        first = os.fsdecode(next(fields))
        path = os.fsdecode(next(fields)) if letter[0] in "RC" else first
        gone, fresh = letter == "D", letter == "A"
        status: Status = "type" if letter == "T" else _STATUS.get(letter[0], "modified")
        if status == "modified" and old == new:
            status = "mode"
        yield ChangedFile(
            path=path,
            status=status,
            old_path=None if fresh else first,
            old_mode=None if fresh else old_mode,
            new_mode=None if gone else new_mode,
            old_blob=None if fresh else old,
            new_blob=None if gone else new,
        )


async def describe(objects: Objects, base_tree: str, files: Sequence[ChangedFile]) -> Described:
    """Kind, size and skip of every file, and what their blobs are like.

    Raises:
        InputError: a blob is missing from this clone, or not what its id says.
    """
    blobs = {
        blob: None
        for file in files
        for mode, blob in ((file.old_mode, file.old_blob), (file.new_mode, file.new_blob))
        if blob and mode != SUBMODULE
    }
    paths = sorted({path for file in files for path in file.paths})
    attributes = {f"{folder}.gitattributes" for folder in _parent_directories(paths)}
    named = (each(path) for path in paths for each in (vendored_directory, build_directory))
    vendored = {folder for folder in named if folder}
    in_base = {path: f"{base_tree}:{path}" for path in sorted({*attributes, *vendored})}
    found = await look_up_objects(objects.git, [*blobs, *in_base.values()])
    stand = {path: found[name] for path, name in in_base.items() if name in found}
    texts = [path for path in sorted(attributes & stand.keys()) if stand[path].kind == "blob"]
    rules = {path: stand[path].oid for path in texts}
    looks, marked = await run_both(
        partial(_inspect_blobs, objects, blobs, found),
        partial(_read_generated_attributes, objects, rules, paths),
    )
    stood = frozenset(path for path in vendored & stand.keys() if stand[path].kind == "tree")
    minified = {
        without_version(file.old_path or file.path): old.packed
        for file in files
        if (old := looks.get(file.old_blob or "")) and old.long_lines
    }
    # Where nothing but code of others changes, the change is about it.
    alone = len(files) <= MAX_VENDORED_READ and stood.issuperset(map(vendored_directory, paths))
    beside = {f"{file.path}.gz": file.new_blob for file in files}
    policy = AttributePolicy(marked, frozenset() if alone else stood, minified, beside)
    return [classify(file, looks, policy) for file in files], looks


def _parent_directories(paths: Iterable[str]) -> set[str]:
    """The directories that the paths lie in, each with a slash at its end; the top is empty."""
    folders = {""}
    for path in paths:
        folder = path
        while folder := folder.rpartition("/")[0]:
            folders.add(f"{folder}/")
    return folders


async def _inspect_blobs(
    objects: Objects, blobs: Iterable[str], found: Mapping[str, GitObject]
) -> dict[str, ContentInfo]:
    gone = next((blob for blob in blobs if blob not in found or found[blob].kind != "blob"), None)
    if gone is not None:
        raise missing_object_error(gone)
    looks = {blob: ContentInfo(found[blob].size) for blob in blobs}

    async def keep(blob: str, data: bytes) -> None:
        looks[blob] = inspect_content(data)

    await objects.each([blob for blob, seen in looks.items() if seen.size <= BIG_FILE_BYTES], keep)
    return looks


async def _read_generated_attributes(
    objects: Objects, rules: Mapping[str, str], paths: Iterable[str]
) -> dict[str, bool]:
    """What ``.gitattributes`` files say of ``linguist-generated``: path → set or unset."""
    if not rules:
        return {}
    await objects.each(list(rules.values()), _drop)  # git reads them without hashing them
    with temporary_directory() as folder:
        # The work tree is the empty folder: only the index, which is base, has a say.
        indexed = replace(objects.git, index=folder / "index", work_tree=folder)
        entries = "".join(f"100644 {oid}\t{path}\0" for path, oid in rules.items())
        await indexed.run("update-index", "-z", "--index-info", stdin=os.fsencode(entries))
        names = os.fsencode("".join(f"{path}\0" for path in paths))
        output = await indexed.run(
            "check-attr", "--cached", "-z", "--stdin", "linguist-generated", stdin=names
        )
    fields = output.split(b"\0")
    values = zip(fields[0::3], fields[2::3], strict=False)
    known = {b"set": True, b"true": True, b"unset": False, b"false": False}
    return {os.fsdecode(path): known[value] for path, value in values if value in known}


async def _drop(oid: str, data: bytes) -> None:
    """The contents are not needed, only that they are those of the id."""


def _is_text(file: ChangedFile, looks: Mapping[str, ContentInfo], *, in_head: bool) -> bool:
    mode, blob = (file.new_mode, file.new_blob) if in_head else (file.old_mode, file.old_blob)
    seen = None if mode in {LINK, SUBMODULE} else looks.get(blob or "")
    return seen is not None and seen.size <= BIG_FILE_BYTES and is_text(file.path, seen)


async def _diff(git: Git, base: str, head: str) -> bytes:
    """The hunks of what is on both sides; nothing where it is too much to hold together."""
    try:
        return await git.run(
            "diff-tree", "-r", "-p", "-M", RENAME_LIMIT, "--diff-filter=MR", *_FLAGS, base, head,
            limits=replace(LIMITS, output=_DIFF_AT_ONCE),
        )  # fmt: skip
    except InputError:
        return b""


async def _read_line_numbers(
    git: Git, output: bytes, files: Sequence[ChangedFile], looks: Mapping[str, ContentInfo]
) -> dict[tuple[str, str], Lines]:
    """Changed lines by pair of blobs: a pair needs no file name, and names can hold anything."""
    text_pairs = {
        (file.old_blob, file.new_blob)
        for file in files
        if file.old_blob
        and file.new_blob
        and file.old_blob != file.new_blob
        and _is_text(file, looks, in_head=False)
        and _is_text(file, looks, in_head=True)
    }
    pairs = dict(_parse_hunks(output)) if text_pairs else {}
    # Attributes of this clone may call a text binary; read as text it has lines all the same.
    for old, new in sorted(text_pairs - pairs.keys()):
        pairs.update(_parse_hunks(await git.run("diff", "--text", *_FLAGS, old, new)))
    return pairs


def _parse_hunks(output: bytes) -> Iterator[tuple[tuple[str, str], Lines]]:
    """Read a ``-U0`` diff; every line of contents starts with ``+``, ``-`` or a backslash."""
    pair: tuple[str, str] | None = None
    added: list[int] = []
    removed: list[int] = []
    for line in io.BytesIO(output):
        if line[:1] in b"+-\\":
            continue
        if hunk := _HUNK.match(line):
            old, olds, new, news = (int(n) if n else 1 for n in hunk.groups())
            removed.extend(range(old, old + olds))
            added.extend(range(new, new + news))
        elif line.startswith(b"diff --git "):
            if pair and (added or removed):
                yield pair, (tuple(added), tuple(removed))
            pair, added, removed = None, [], []
        elif index := _INDEX.match(line):
            pair = (index[1].decode(), index[2].decode())
    if pair and (added or removed):
        yield pair, (tuple(added), tuple(removed))


def _with_line_numbers(
    file: ChangedFile, looks: Mapping[str, ContentInfo], pairs: Mapping[tuple[str, str], Lines]
) -> ChangedFile:
    if file.old_blob == file.new_blob:
        return file
    if known := pairs.get((file.old_blob or "", file.new_blob or "")):
        return replace(file, added=known[0], removed=known[1])
    added = removed = 0
    if _is_text(file, looks, in_head=True):
        added = looks[file.new_blob or ""].lines
    if _is_text(file, looks, in_head=False):
        removed = looks[file.old_blob or ""].lines
    return replace(file, added=tuple(range(1, added + 1)), removed=tuple(range(1, removed + 1)))


OTHER_BASE = "it began at another base"
NO_COMMIT = "its head is no commit"
NOT_HERE = "its head is not in this clone"


class ChangedSince(Struct, frozen=True):
    """A file that differs from what the earlier review read.

    Attributes:
        path: in head; of a file that was deleted since, as it was.
        old_path: as it was then; None where it was not there.
        added: first and last line, in head, of what was added or altered since.
    """

    path: str
    old_path: str | None
    added: tuple[tuple[int, int], ...]


async def find_changed_since(
    change: Change, base: str, head: str
) -> tuple[tuple[ChangedSince, ...], str]:
    """The files that changed since an earlier review of the same change, or why nobody knows.

    Args:
        base, head: the commits that the earlier review compared.

    Returns:
        The files, by path, and an empty text; or none, and why what changed cannot be told.
    """
    if not change.has_tree or not OID.fullmatch(head):
        return (), NO_COMMIT
    try:
        async with Objects(Git.of(change)) as objects:
            commits = Commits(objects)
            if base != change.base and await commits.tree(base) != change.base_tree:
                return (), OTHER_BASE
            found = await changed_files(objects, await commits.tree(head), change.head_tree)
    except InputError:
        return (), NOT_HERE
    return tuple(
        ChangedSince(file.path, file.old_path, tuple((a, b) for a, b in to_ranges(file.added)))
        for file in found
    ), ""
