"""Packs files that import each other into shards that one agent can read at once."""

import posixpath
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from diffchecks.python.imported_files import ModuleIndex, scan_imports

_RELATIVE = re.compile(r"""["'](\.{1,2}/[^"'\n]{1,200}|[^"'\n/ ]{1,200}\.h(?:h|pp)?)["']""")
"""What JavaScript, TypeScript and C name of their own: a path relative to the importing file."""

SLACK = 1.1
"""How much of its limit an agent reads rather than that another agent shares the files."""

_ENDINGS = (
    "",
    ".ts",
    ".tsx",
    ".js",
    ".jsx",
    ".mjs",
    ".vue",
    "/index.ts",
    "/index.tsx",
    "/index.js",
)


def find_neighbors(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Path → the files among these that it imports or that import it.

    Args:
        texts: path → the file's text. Imports are found by pattern; nothing is parsed.
    """
    index = ModuleIndex(texts)
    neighbors: dict[str, set[str]] = {path: set() for path in texts}
    for path, text in texts.items():
        if path in index.files:
            targets = [to for one in scan_imports(text) for to in index.targets(path, one)]
        else:
            targets = list(_relative_targets(path, text, texts))
        for target in targets:
            neighbors[path].add(target)
            neighbors[target].add(path)
    return {path: sorted(found - {path}) for path, found in neighbors.items()}


def _relative_targets(path: str, text: str, known: Mapping[str, str]) -> Iterator[str]:
    folder = posixpath.dirname(path)
    for match in _RELATIVE.finditer(text):
        stem = posixpath.normpath(posixpath.join(folder, match[1]))
        names = (stem + end for end in _ENDINGS)
        plain = posixpath.splitext(stem)[0]  # TypeScript names the file that it compiles to
        found = next((name for name in (*names, f"{plain}.ts") if name in known), None)
        if found is not None:
            yield found


def pack(
    sizes: Mapping[str, int], neighbors: Mapping[str, Sequence[str]], room: int
) -> list[list[str]]:
    """Shards of files, neighbors together, each within the limit unless one file exceeds it.

    Args:
        sizes: path → tokens, of the files to pack.
    """
    shards: list[list[str]] = []
    left: list[int] = []
    for piece in _pieces(sizes, neighbors, room):
        size = sum(sizes[path] for path in piece)
        at = next((n for n, space in enumerate(left) if size <= space), None)
        if at is None:
            shards.append([])
            left.append(room)
            at = len(shards) - 1
        shards[at] += piece
        left[at] -= size
    return shards


def _pieces(
    sizes: Mapping[str, int], neighbors: Mapping[str, Sequence[str]], room: int
) -> Iterator[list[str]]:
    """Connected files; if they exceed the limit, consecutive parts of a walk along imports."""
    for component in _components(sizes, neighbors):
        piece: list[str] = []
        used = 0
        for path in component:
            if piece and used + sizes[path] > room:
                yield piece
                piece, used = [], 0
            piece.append(path)
            used += sizes[path]
        yield piece


def _components(
    paths: Iterable[str], neighbors: Mapping[str, Sequence[str]]
) -> Iterator[list[str]]:
    """The connected components, by their first path, each breadth first from there."""
    open_paths = dict.fromkeys(sorted(paths))
    while open_paths:
        start = next(iter(open_paths))
        del open_paths[start]
        walk, ahead = [start], deque([start])
        while ahead:
            for path in neighbors.get(ahead.popleft(), ()):
                if path in open_paths:
                    del open_paths[path]
                    walk.append(path)
                    ahead.append(path)
        yield walk


def merge_remainders(
    shards: Sequence[list[str]], sizes: Mapping[str, int], room: int
) -> list[list[str]]:
    """The shards without small remainders: each further agent reads the whole opening again.

    Two become one as long as they exceed the limit of one by at most a tenth.
    """
    found = list(shards)
    while len(found) > 1:
        smallest = sorted(sum(sizes[path] for path in shard) for shard in found)[:2]
        if sum(smallest) > room * SLACK:
            break
        found = merge_smallest(found, sizes)
    return found


def merge_smallest(shards: Sequence[list[str]], sizes: Mapping[str, int]) -> list[list[str]]:
    """One shard fewer: the two smallest become one."""
    ordered = sorted(shards, key=lambda shard: sum(sizes[path] for path in shard))
    first, second = ordered[:2]
    return [shard for shard in shards if shard is not first and shard is not second] + [
        first + second
    ]
