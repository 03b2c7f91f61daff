"""The earlier commits that say they fix a security defect, and what they did to changed files."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from diffchecks.past_fixes import CANDIDATES, PastFix, Statement, classify_message, find_identifiers
from orchestrator.code_review.change.git.commands import LIMITS, OID, PLAIN_DIFF, Git
from orchestrator.code_review.change.types import Change
from orchestrator.errors import InputError

NEWEST = 1000  # commits whose message could be about security
MAX_COMMITS = 200  # that touch files of the change
MAX_FILES = 30  # in a fix: a larger commit brings in more than one
MAX_LINES = 1000  # in a file of a fix
_LIMITS = replace(LIMITS, seconds=60, output=64 << 20)

_LOG = ("log", "--no-show-signature", "--no-mailmap", "--encoding=UTF-8", "-z", "--min-parents=1")
_DIFF = ("diff-tree", "--stdin", "-r", "--no-abbrev", "--no-renames", *PLAIN_DIFF)
_INDEX = re.compile(r"index ([0-9a-f]+)\.\.([0-9a-f]+)(?: [0-7]+)?$")

Blobs = tuple[str, str]
"""Object ids of a file before and after a commit."""


class _Fix(Struct, frozen=True):
    commit: str
    parent: str
    date: str
    message: str
    statement: Statement


class _Touched(Struct, frozen=True):
    """A file of a fix: its name then, its path in base of the change, its object ids."""

    fix: _Fix
    name: str
    path: str
    blobs: Blobs


class FixHistory:
    """The history of a review's base, which is searched once: proofs of patches ask again."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self._paths: frozenset[str] = frozenset()
        self._found: tuple[tuple[PastFix, ...], str] = (), ""

    async def find(
        self, change: Change, paths: Collection[str], tree: Collection[str]
    ) -> tuple[tuple[PastFix, ...], str]:
        """As ``find_past_fixes``; of the same base."""
        async with self._lock:
            if not self._paths.issuperset(paths):
                self._found = await find_past_fixes(change, paths, tree)
                self._paths = frozenset(paths)
            fixes, unsearched = self._found
            return tuple(fix for fix in fixes if fix.path in paths), unsearched


async def find_past_fixes(
    change: Change, paths: Collection[str], tree: Collection[str]
) -> tuple[tuple[PastFix, ...], str]:
    """What security fixes in base's history did to these files of base.

    Bounds are numbers of commits and files, so that the same repository gives the same answer.

    Args:
        paths: in base.
        tree: every path of base. A fix of a file that is not there any more, and has the name of
            one of ``paths``, counts as one of that file: it may have been moved.

    Returns:
        The files, the newest fix first; and why the history could not be searched, or nothing.
    """
    if not change.has_tree or not OID.fullmatch(change.base):
        return (), "the change has no base commit, so no history"
    git = Git.of(change)
    try:
        output = await git.run(
            *_LOG, "--format=%H%n%P%n%cs%n%B", "-i", "-E", f"--grep={CANDIDATES}",
            f"--max-count={NEWEST}", change.base, "--", limits=_LIMITS,
        )  # fmt: skip
        fixes = await anyio.to_thread.run_sync(partial(_parse_log, output))
        if not fixes:
            return (), "this clone is shallow and lacks history" if git.is_shallow else ""
        wanted = await _find_touching(git, fixes, paths, tree)
        return tuple(await _read_patches(git, wanted)), ""
    except InputError as error:
        return (), f"the history of base could not be searched: {error}"


def _parse_log(output: bytes) -> list[_Fix]:
    fixes: list[_Fix] = []
    for record in output.decode("utf-8", "replace").split("\0"):
        commit, parents, date, message = (*record.split("\n", 3), "", "", "", "")[:4]
        statement = classify_message(message) if OID.fullmatch(commit) and parents else None
        if statement:
            fixes.append(_Fix(commit, parents.split(" ")[0], date, message, statement))
    return sorted(fixes, key=lambda fix: fix.statement)  # "security" first, then the newest


async def _find_touching(
    git: Git, fixes: Sequence[_Fix], paths: Collection[str], tree: Collection[str]
) -> list[_Touched]:
    """The files of the fixes that are at one of the paths, or were moved there."""
    by_name: dict[str, list[str]] = {}
    for path in paths:
        by_name.setdefault(_name(path), []).append(path)
    known = {fix.commit: fix for fix in fixes}
    output = await git.run(*_DIFF, "--raw", "-z", stdin=_pairs(fixes), limits=_LIMITS)
    found: list[_Touched] = []
    commits = 0
    for commit, files in _parse_raw(output):
        touched = [
            _Touched(known[commit], name, name if name in paths else here[0], blobs)
            for name, blobs in files
            if (here := by_name.get(_name(name), []))
            and (name in paths or (name not in tree and len(here) == 1))
        ]
        if touched and len(files) <= MAX_FILES and commits < MAX_COMMITS:
            found += touched
            commits += 1
    return found


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _pairs(fixes: Iterable[_Fix]) -> bytes:
    """Each with its first parent alone, which is what a merge of a fix was merged into."""
    return "".join(f"{fix.commit} {fix.parent}\n" for fix in fixes).encode()


def _parse_raw(output: bytes) -> Iterator[tuple[str, list[tuple[str, Blobs]]]]:
    """Commit → names of its files, and their object ids before and after it."""
    commit, files = "", list[tuple[str, Blobs]]()
    fields = iter(output.split(b"\0"))
    for item in fields:
        if item.startswith(b":"):
            old, new = item.decode("ascii", "replace").split(" ")[2:4]
            files.append((os.fsdecode(next(fields, b"")), (old, new)))
        else:
            if commit:
                yield commit, files
            commit, files = item.decode("ascii", "replace").strip(), []


async def _read_patches(git: Git, touched: Sequence[_Touched]) -> Iterator[PastFix]:
    """What the fixes added to the files, and removed from them."""
    if not touched:
        return iter(())
    names = sorted({one.name for one in touched})
    asked = _pairs({one.fix.commit: one.fix for one in touched}.values())
    output = await git.run(
        *_DIFF, "-p", "-U0", "--full-index", "--text", "--", *names, stdin=asked, limits=_LIMITS
    )
    lines = {(commit, blobs): both for commit, blobs, both in list(_parse_patches(output))}
    return (
        PastFix(
            one.path,
            one.fix.commit,
            one.fix.date,
            one.fix.message.strip().partition("\n")[0],
            one.fix.statement,
            tuple(find_identifiers(one.fix.message)),
            *map(tuple, lines[one.fix.commit, one.blobs]),
        )
        for one in touched
        if sum(map(len, lines.get((one.fix.commit, one.blobs), ()))) in range(1, MAX_LINES + 1)
    )


def _parse_patches(output: bytes) -> Iterator[tuple[str, Blobs, tuple[list[str], list[str]]]]:
    """Commit, object ids before and after, lines added and removed; of each file."""
    commit, in_hunk = "", False
    added, removed = list[str](), list[str]()
    for line in output.decode("utf-8", "surrogateescape").split("\n"):
        if in_hunk and line.startswith(("+", "-")):
            (added if line.startswith("+") else removed).append(line[1:])
        elif index := _INDEX.match(line):
            added, removed = [], []
            yield commit, (index[1], index[2]), (added, removed)
        elif OID.fullmatch(line):
            commit = line
        else:
            in_hunk = line.startswith(("@@ ", "\\"))
