"""The change as it would be with a patch: the same base, and a head of which files differ."""

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from orchestrator.code_review.change.changed_files import changed_files
from orchestrator.code_review.change.contents import Contents
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.change.git.objects import Objects
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.change.worktree_snapshot import open_extra_store


async def with_files(
    change: Change, contents: Contents, files: Mapping[str, bytes], scratch: Path
) -> Change:
    """The change with other contents of some files of head.

    Args:
        contents: of the change.
        files: path of a regular file of head → what it holds instead.
        scratch: an empty directory of ours; new objects and an index are written there, unless
            the change has a store of its own, which then gets the objects.

    Raises:
        InputError: git failed.
        StoreError: the disk is full.
    """
    git = Git.of(change)
    store = (
        replace(git, index=scratch / "index")
        if git.object_dir
        else await open_extra_store(git, scratch)
    )
    modes = await contents.paths("head")
    entries = list[bytes]()
    for path, data in files.items():
        blob = (await store.run("hash-object", "-w", "--stdin", stdin=data)).strip()
        name = path.encode("utf-8", "surrogateescape")
        entries.append(b"%s %s\t%s\0" % (modes[path][0].encode(), blob, name))
    await store.run("read-tree", change.head_tree)
    await store.run("update-index", "-z", "--index-info", stdin=b"".join(entries))
    tree = (await store.run("write-tree", "--missing-ok")).decode().strip()
    store = replace(store, index=None)
    async with Objects(store) as objects:
        found = await changed_files(objects, change.base_tree, tree)
    return replace(change, head_tree=tree, object_dir=str(store.object_dir), files=found, notes=())
