"""Commits and what they have in common, from objects that are hashed.

git takes parents from a commit-graph, grafts and replacements where there are any, and reads
commits without hashing them. A merge base that is too new hides what was committed before it.
"""

import heapq

from msgspec import Struct

from orchestrator.code_review.change.git.objects import Objects, missing_object_error
from orchestrator.errors import InputError

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
    """The commits of a repository; each is read once."""

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
