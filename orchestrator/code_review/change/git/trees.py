"""Listings of trees, read object by object: each one is hashed, and how many there are is bounded.

A commit of a few kilobytes can have 2^40 paths: forty trees, each naming the next one twice.
"""

import os
from collections.abc import Callable, Iterable, Iterator

from diffchecks import shorten
from orchestrator.code_review.change.git.objects import Objects
from orchestrator.errors import InputError

MAX_CHANGED = 200_000  # paths that differ, directories included
MAX_LISTED = 500_000  # paths of a listing, directories included

_DIRECTORY = b"40000"

Entry = tuple[bytes, str]
"""Mode, without leading zeros, and object id."""


def _parse_tree(data: bytes, width: int) -> Iterator[tuple[bytes, Entry]]:
    at = 0
    while at < len(data):
        end = data.find(b"\0", at)
        mode, space, name = data[at:end].partition(b" ")
        oid = data[end + 1 : end + 1 + width]
        if end < 0 or not space or not name or len(oid) != width:
            raise InputError("a tree is malformed; git fsck shows which")
        yield name, (mode.lstrip(b"0"), oid.hex())
        at = end + 1 + width


async def _read_trees(
    objects: Objects, oids: Iterable[str]
) -> dict[str, list[tuple[bytes, Entry]]]:
    wanted = list(dict.fromkeys(oids))
    trees = {oid: objects.trees[oid] for oid in wanted if oid in objects.trees}

    async def keep(oid: str, data: bytes) -> None:
        trees[oid] = objects.trees[oid] = list(_parse_tree(data, len(oid) // 2))

    if missing := [oid for oid in wanted if oid not in trees]:
        await objects.each(missing, keep, "tree")
    return trees


def _by_name(entries: list[tuple[bytes, Entry]]) -> dict[bytes, Entry]:
    named: dict[bytes, Entry] = {}
    for name, entry in entries:
        if name in named:
            path = shorten(os.fsdecode(name), 80)
            raise InputError(f"{path} appears twice in the tree; git fsck shows where")
        named[name] = entry
    return named


async def check_difference(objects: Objects, base_tree: str, head_tree: str) -> None:
    """Hash every tree that git reads to compare two trees, and bound what it will find.

    Raises:
        InputError: a tree is missing, malformed, or not what its id says, or there are too many
            changed paths.
    """
    pairs: list[tuple[str | None, str | None]] = [(base_tree, head_tree)]
    paths = 0
    while pairs:
        trees = await _read_trees(objects, (oid for pair in pairs for oid in pair if oid))
        named = {oid: _by_name(entries) for oid, entries in trees.items()}
        below: list[tuple[str | None, str | None]] = []
        for old, new in pairs:
            before, after = named.get(old or "", {}), named.get(new or "", {})
            for name in before.keys() | after.keys():
                old_entry, new_entry = before.get(name), after.get(name)
                if old_entry == new_entry:
                    continue
                paths += 1
                if paths > MAX_CHANGED:
                    raise InputError(
                        f"the change has more than {MAX_CHANGED:,} paths; review it in parts"
                    )
                pair = _directory(old_entry), _directory(new_entry)
                if pair != (None, None):
                    below.append(pair)
        pairs = below


def _directory(entry: Entry | None) -> str | None:
    return entry[1] if entry and entry[0] == _DIRECTORY else None


async def list_tree(
    objects: Objects, tree: str, descend: Callable[[str], bool] | None = None
) -> dict[str, tuple[str, str]]:
    """Every entry of a tree, submodules and links included: path → (mode, object id).

    Args:
        tree: the id of a tree.
        descend: whether to list what is in a directory, by its path; None: in all.

    Raises:
        InputError: a tree is missing, malformed, or not what its id says, or there are too many
            paths.
    """
    found: dict[str, tuple[str, str]] = {}
    folders = [(b"", tree)]
    listed = 0
    while folders:
        trees = await _read_trees(objects, (oid for _, oid in folders))
        below: list[tuple[bytes, str]] = []
        for folder, oid in folders:
            for name, (mode, entry) in trees[oid]:
                listed += 1
                if listed > MAX_LISTED:
                    raise InputError(
                        f"the tree {tree[:12]} has more than {MAX_LISTED:,} paths, which is more "
                        "than Diffcourt reads"
                    )
                path = os.fsdecode(folder + name)
                if mode != _DIRECTORY:
                    found[path] = (mode.decode("ascii", "replace"), entry)
                elif descend is None or descend(path):
                    below.append((b"%s%s/" % (folder, name), entry))
        folders = below
    return dict(sorted(found.items()))
