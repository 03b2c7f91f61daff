"""Objects of a repository by id, through one long-lived ``git cat-file --batch``, each one hashed.

git believes that a file of ``.git/objects`` holds what its name or an index of a pack says. Whoever
prepared a checkout could have put something else there, so what is read is compared with its id.
A commit of a few kilobytes can have 2^40 paths, so the size of a listing of a tree is bounded.
"""

import hashlib
import heapq
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Literal

import anyio
from msgspec import Struct

from diffchecks import shorten
from orchestrator.code_review.change.git.commands import LIMITS, OID, Git
from orchestrator.errors import InputError, SandboxError
from orchestrator.sandbox.run_program import RunningProgram, start

Entry = tuple[bytes, str]
"""Mode, without leading zeros, and object id."""

Tree = list[tuple[bytes, Entry]]

MAX_BLOB = 64 << 20  # bytes that are ever held of one object

Kind = Literal["blob", "tree", "commit"]

_WINDOW = 128  # requests sent ahead; they fit a pipe, so that sending never waits for reading
_FILES_AT_ONCE, _BYTES_AT_ONCE = 256, 8 << 20  # of a batch
_SECONDS = 60.0  # that git may say nothing

_BROKEN = (
    OSError,
    SandboxError,
    TimeoutError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
)


@contextmanager
def _naming_unreadable_object(oid: str) -> Iterator[None]:
    try:
        yield
    except _BROKEN as broken:
        raise InputError(f"git could not read {oid[:12]}: {broken!r:.120}") from None


def missing_object_error(oid: str) -> InputError:
    """That an object is not in this clone."""
    return InputError(f"the contents of {oid[:12]} are not in this clone; fetch it in full")


def _check_hash(oid: str, kind: Kind, data: bytes) -> None:
    new = hashlib.sha1 if len(oid) == 40 else hashlib.sha256
    digest = new(b"%s %d\0" % (kind.encode(), len(data)), usedforsecurity=False)
    digest.update(data)
    if digest.hexdigest() != oid:
        raise InputError(
            f"the {kind} {oid[:12]} does not match its id; git fsck shows it, a new clone fixes it"
        )


class Objects:
    """Reads objects; safe for concurrent callers, and its process ends with it.

    Attributes:
        trees: id → the entries of trees that were read: of two sides most are the same.

    A read that is cancelled or fails ends the process: what it still had to say is nobody's answer.
    The next read starts another.
    """

    def __init__(self, git: Git) -> None:
        self.git = git
        self.trees: dict[str, Tree] = {}
        self._lock = anyio.Lock()
        self._process: RunningProgram | None = None
        self._output = bytearray()  # printed by git and not parsed yet

    async def __aenter__(self) -> "Objects":
        """Start its process, so that the first read need not wait for that."""
        with _naming_unreadable_object("objects"):
            self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    async def read(self, oid: str, kind: Kind = "blob") -> bytes:
        """The bytes of one object.

        Raises:
            InputError: there is no such object here, its contents are not those of its id, or it
                is larger than ``MAX_BLOB``.
        """
        got: list[bytes] = []

        async def keep(_: str, data: bytes) -> None:
            got.append(data)

        await self.each([oid], keep, kind)
        return got[0]

    async def each(
        self,
        oids: Sequence[str],
        consume: Callable[[str, bytes], Awaitable[None]],
        kind: Kind = "blob",
        *,
        missing_ok: bool = False,
    ) -> None:
        """Hand every object to ``consume``, in order, one in memory at a time.

        Args:
            oids: object ids.
            consume: called with the id and the bytes; it must not read from the same store.
            kind: of all of them.
            missing_ok: it is not called for what is not in this clone.

        Raises:
            InputError: as for :meth:`read`.
        """
        for oid in oids:
            if not OID.fullmatch(oid):
                raise InputError(f"{oid!r:.80} is not an object id")
        rest = iter(oids)
        while window := list(islice(rest, _WINDOW)):
            async with self._lock:  # whoever wants a few waits for no thousands
                try:
                    with _naming_unreadable_object(window[0]):
                        await self._ask(window)
                    for oid in window:
                        with _naming_unreadable_object(oid):
                            data = await self._answer(oid, kind, missing_ok)
                        if data is not None:
                            _check_hash(oid, kind, data)
                            await consume(oid, data)
                except BaseException:
                    await self._end()
                    raise

    async def in_batches(
        self, oids: Sequence[str], consume: Callable[[Sequence[tuple[str, bytes]]], Awaitable[None]]
    ) -> None:
        """Hand blobs to ``consume``, id and bytes, many at a time; the last batch may be empty."""
        pending: list[tuple[str, bytes]] = []

        async def keep(oid: str, data: bytes) -> None:
            pending.append((oid, data))
            if len(pending) >= _FILES_AT_ONCE or sum(len(d) for _, d in pending) >= _BYTES_AT_ONCE:
                await consume(pending)
                pending.clear()

        await self.each(oids, keep)
        await consume(pending)

    async def _ask(self, window: Sequence[str]) -> None:
        process = self._process or self._start()
        await process.stdin.send("".join(f"{oid}\n" for oid in window).encode())

    def _start(self) -> RunningProgram:
        git = self.git
        argv = git.command("cat-file", "--batch")
        self._process = start(
            argv, permissions=git.permissions, cwd=git.cwd, env=git.environment(), limits=LIMITS
        )
        self._output.clear()
        return self._process

    async def _answer(self, oid: str, kind: Kind, missing_ok: bool) -> bytes | None:
        while (end := self._output.find(b"\n")) < 0:
            await self._listen()
        header = self._take(end + 1).split()
        if missing_ok and header[1:] == [b"missing"]:
            return None
        if header[1:2] != [kind.encode()]:
            raise missing_object_error(oid)
        size = int(header[2])
        if size > MAX_BLOB:
            raise InputError(f"{oid[:12]} holds {size} bytes, more than {MAX_BLOB}")
        while len(self._output) <= size:
            await self._listen()
        return self._take(size + 1)[:-1]  # without the line feed that ends it

    async def _listen(self) -> None:
        assert self._process is not None
        with anyio.fail_after(_SECONDS):
            self._output += await self._process.stdout.receive()

    def _take(self, size: int) -> bytes:
        taken = bytes(self._output[:size])
        del self._output[:size]
        return taken

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.aclose()


class GitObject(Struct, frozen=True):
    """What a name stands for: its kind as git calls it, its id, and how many bytes it holds."""

    kind: str
    oid: str
    size: int


async def look_up_objects(git: Git, names: Sequence[str]) -> dict[str, GitObject]:
    """What stands behind each name, for those that are in this clone; nothing is read.

    Args:
        names: as ``git rev-parse`` knows them; one with a line feed in it is not looked up.
    """
    names = [name for name in names if "\n" not in name]  # one request a line; it is rare
    lines = b"".join(os.fsencode(name) + b"\n" for name in names)
    form = "%(objecttype) %(objectname) %(objectsize)"
    output = await git.run("cat-file", f"--batch-check={form}", stdin=lines)
    found: dict[str, GitObject] = {}
    for name, line in zip(names, output.split(b"\n"), strict=False):
        kind, *rest = line.split(b" ")
        if kind in {b"blob", b"tree", b"commit", b"tag"}:
            found[name] = GitObject(kind.decode(), rest[0].decode(), int(rest[1]))
    return found


MAX_CHANGED = 200_000  # paths that differ, directories included
MAX_LISTED = 500_000  # paths of a listing, directories included

_DIRECTORY = b"40000"


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


async def _read_trees(objects: Objects, oids: Iterable[str]) -> dict[str, Tree]:
    wanted = list(dict.fromkeys(oids))
    trees = {oid: objects.trees[oid] for oid in wanted if oid in objects.trees}

    async def keep(oid: str, data: bytes) -> None:
        trees[oid] = objects.trees[oid] = list(_parse_tree(data, len(oid) // 2))

    if missing := [oid for oid in wanted if oid not in trees]:
        await objects.each(missing, keep, "tree")
    return trees


def _by_name(entries: Tree) -> dict[bytes, Entry]:
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


_ONE, _OTHER, _STALE = 1, 2, 4
_BOTH = _ONE | _OTHER
_SINGLE_READS = 32  # then the rest is asked for in one go
_MAX_COMMITS = 100_000  # commits that are asked for so


class Commit(Struct, frozen=True):
    """A commit's tree, parents and time in seconds."""

    tree: str
    parents: tuple[str, ...]
    time: int


def _parse_commit(oid: str, data: bytes) -> Commit:
    tree, parents, time = "", [], 0
    for line in data.partition(b"\n\n")[0].split(b"\n"):
        key, _, value = line.partition(b" ")
        if key == b"tree":
            tree = tree or value.decode("ascii", "replace")
        elif key == b"parent":
            parents.append(value.decode("ascii", "replace"))
        elif key == b"committer":
            time_fields = value.rpartition(b">")[2].split()
            time = int(time_fields[0]) if time_fields and time_fields[0].isdigit() else 0
            break
    if not tree:
        raise InputError(f"{oid[:12]} is not a readable commit; git fsck shows why")
    return Commit(tree, tuple(parents), time)


class Commits:
    """The commits of a repository, from objects that are hashed; each is read once.

    git takes parents from a commit-graph, grafts and replacements where there are any, and reads
    commits without hashing them. A merge base that is too new hides what was committed before it.
    """

    def __init__(self, objects: Objects) -> None:
        self.git = objects.git
        self._objects = objects
        self._known: dict[str, Commit | None] = {}  # None: a shallow clone left it out

    async def read(self, oid: str) -> Commit:
        """One commit.

        Raises:
            InputError: it is missing, or its contents are not those of its id.
        """
        if (commit := await self._find(oid)) is None:
            raise missing_object_error(oid)
        return commit

    async def tree(self, oid: str) -> str:
        """The tree id of a commit id."""
        return (await self.read(oid)).tree

    async def parent(self, oid: str) -> str | None:
        """The first parent of a commit, None when it has none in this clone."""
        first = (await self.read(oid)).parents[:1]
        return first[0] if first and await self._find(first[0]) else None

    async def merge_base(self, first: str, second: str) -> str | None:
        """The newest best common ancestor of two commit ids, None when they share no history."""
        found = await self._common(first, second)
        for commit in found if len(found) > 1 else []:
            rest = [each for each in found if each != commit]
            if any([await self._common(commit, each) == [commit] for each in rest]):
                found = rest  # an ancestor of another: by dates that lie it was met too early
        return found[0] if found else None

    async def _common(self, first: str, second: str) -> list[str]:
        """Common ancestors, newest first; with wrong dates some may be ancestors of others."""
        marks = {first: _ONE}
        marks[second] = marks.get(second, 0) | _OTHER
        queue = [(-(await self.read(oid)).time, oid) for oid in marks]
        heapq.heapify(queue)
        found: dict[str, int] = {}
        steps = 0
        while any(not marks[oid] & _STALE for _, oid in queue):
            steps += 1
            if steps == _SINGLE_READS:
                await self._read_between(first, second)
            time, oid = heapq.heappop(queue)
            mark = marks[oid]
            if mark & _BOTH == _BOTH:
                found[oid] = time
                mark |= _STALE
            commit = await self._find(oid)
            for parent in commit.parents if commit else ():
                before = marks.get(parent, 0)
                known = await self._find(parent) if before | mark != before else None
                if known is not None:
                    marks[parent] = before | mark
                    heapq.heappush(queue, (-known.time, parent))
        return sorted((oid for oid in found if not marks[oid] & _STALE), key=lambda oid: found[oid])

    async def _read_between(self, first: str, second: str) -> None:
        """Read at once what git takes for the commits between two; a wrong list costs time only."""
        printed = await self.git.attempt(
            "rev-list", f"--max-count={_MAX_COMMITS}", f"{first}...{second}"
        )
        oids = [oid for oid in printed.stdout.decode().split() if oid not in self._known]
        await self._objects.each(oids, self._keep, "commit", missing_ok=True)

    async def _find(self, oid: str) -> Commit | None:
        """A commit, None when a shallow clone left it out."""
        if oid not in self._known:
            await self._objects.each([oid], self._keep, "commit", missing_ok=True)
        if oid not in self._known:
            if not self.git.is_shallow:
                raise missing_object_error(oid)
            self._known[oid] = None
        return self._known[oid]

    async def _keep(self, oid: str, data: bytes) -> None:
        self._known[oid] = _parse_commit(oid, data)
