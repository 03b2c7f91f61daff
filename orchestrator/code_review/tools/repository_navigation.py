"""Navigation tools: files, names, text and history. For models; bounded and read-only."""

import json
import os
import posixpath
from base64 import b64decode
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence

from msgspec import Struct

from diffchecks.check_io import decode_text
from diffchecks.skipped_files import inspect_content, is_text
from orchestrator.code_review.analyzer_types import Side
from orchestrator.code_review.analyzers.program_execution import Program
from orchestrator.code_review.change import history
from orchestrator.code_review.change.contents import split_lines
from orchestrator.code_review.change.numbered_diff import LINE_AT_MOST, NumberedFileDiff, show_page
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.review_workspace import IterationFocus, ReviewWorkspace
from orchestrator.code_review.tools.lead_tools import risk
from orchestrator.code_review.tools.path_globs import searched_matcher
from orchestrator.code_review.tools.tool_specs import make_spec
from orchestrator.engine.ports import CallContext
from orchestrator.engine.tool_registry import NAVIGATION
from orchestrator.engine.types import Json, Observation, ToolSpec
from orchestrator.errors import InputError
from orchestrator.sandbox.program_permissions import Permissions, ResourceLimits
from orchestrator.sandbox.run_program import run
from orchestrator.wording import count_noun, name_rest

LINES_AT_MOST = 400
NAMES_AT_MOST = 500
MATCHES_AT_MOST = 200  # of one file
CONTEXT_AT_MOST = 10  # lines before and after a match
SEARCHED_FILES_AT_MOST = 20_000
NAMED_AT_MOST = 100  # files that a search names to ripgrep; of more, their directory
MATCH_CHARACTERS = 400  # of one line
PAGE_CHARACTERS = 18_000
DIFF_CHARACTERS = 55_000
"""Below the limits of ``config/tools.yaml``, so that a page says how to continue."""
RIPGREP = Program("rg", "ripgrep")
NUL = r"(?-u:\x00)"

_FIGURES = {"LINES": LINES_AT_MOST, "CONTEXT": CONTEXT_AT_MOST}
SPECS = tuple(
    make_spec(name, _FIGURES, tags=frozenset({NAVIGATION}), timeout=30)
    for name in ("read_file", "glob", "search", "git_diff", "git_log", "git_blame")
)


class NavigationTool:
    """A reading tool made from a function of its arguments that returns text."""

    def __init__(
        self, spec: ToolSpec, act: Callable[..., Awaitable[str]], focus: IterationFocus
    ) -> None:
        self.spec, self._act, self._focus = spec, act, focus

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        """Return the text.

        Raises:
            InputError: what cannot be looked at, in words.
        """
        seen = self._focus.diffs_shown.get(context.agent, ())  # a first message always stays
        more = [seen] if self.spec.name in {"git_diff", "read_file"} else []
        return Observation(await self._act(arguments, *more))


def riskiest_first(change: Change, parts: Sequence[NumberedFileDiff]) -> list[NumberedFileDiff]:
    """The diffs of a change's files, the riskiest first."""
    risks = {(file.old_blob or "", file.new_blob or ""): risk(file) for file in change.files}

    def order(part: NumberedFileDiff) -> int:
        old, new = part.blobs or ("", "")
        return -risks.get((old.strip("0") and old, new.strip("0") and new), 0)

    return sorted(parts, key=order)


class Navigation:
    """The functions behind the tools, over one workspace; each is named like its tool."""

    def __init__(self, workspace: ReviewWorkspace) -> None:
        self._workspace = workspace
        self._texts = dict[tuple[str, str], bool]()  # path and blob
        # Side → the files that were searched for a NUL, and those that have one.
        self._nul: dict[str, tuple[set[str], set[str]]] = {}

    def tools(self, focus: IterationFocus) -> list[NavigationTool]:
        """All of them."""
        return [NavigationTool(spec, getattr(self, spec.name), focus) for spec in SPECS]

    async def read_file(self, arguments: Mapping[str, Json], seen: Container[str] = ()) -> str:
        """Numbered lines of one file, unless its diff is the whole text and was seen."""
        side = arguments.get("side", "head")
        path = await self._workspace.known_path(arguments["path"])
        entry = (await self._workspace.contents.paths(side)).get(path)
        if entry is None:
            raise InputError(f"{path} does not exist in {side}")
        data = await self._workspace.contents.read(entry[1])
        if not _reads_as_text(path, data):
            raise InputError(f"{path} is binary")
        lines = split_lines(decode_text(data))
        whole = "added" if side == "head" else "deleted"
        is_seen = f"diff --git a/{path} b/{path}" in seen and max(map(len, lines)) <= LINE_AT_MOST
        if is_seen and self._workspace.files[path].status == whole:
            return f"{path} is {whole}: your first message has all of it in the diff"
        start = arguments.get("start", 1)
        if start > len(lines) or arguments.get("end", start) < start:
            raise InputError(f"{path} has lines 1 to {len(lines)}; start is at most end")
        end = min(arguments.get("end", len(lines)), start + LINES_AT_MOST - 1, len(lines))
        shown, size = list[str](), 0
        for number in range(start, end + 1):
            shown.append(f"{number}: {lines[number - 1]}")
            size += len(shown[-1]) + 1
            if size > PAGE_CHARACTERS and number < end and len(shown) > 1:
                shown.pop()
                break
        last = start + len(shown) - 1
        more = f"; continue with start {last + 1}" if shown and last < len(lines) else ""
        head = f"{path} ({side}), lines {start} to {last} of {len(lines)}{more}"
        return "\n".join([head, *shown])

    async def glob(self, arguments: Mapping[str, Json]) -> str:
        """Paths that match."""
        tree = await self._workspace.contents.paths(arguments.get("side", "head"))
        found = sorted(filter(searched_matcher(arguments["pattern"]), tree))
        tail = name_rest(len(found) - NAMES_AT_MOST, "more; narrow the pattern")
        return "\n".join([*found[:NAMES_AT_MOST], *tail]) or "nothing matches"

    async def search(self, arguments: Mapping[str, Json]) -> str:
        """Matching lines, by ripgrep over the exported tree.

        It passes over files with a NUL; those that are read as text are searched by name.
        """
        workspace, name = self._workspace, arguments.get("side", "head")
        matches = searched_matcher(arguments.get("glob", "*"))
        tree = await workspace.contents.paths(name)
        paths = [p for p, (mode, _) in tree.items() if mode.startswith("100") and matches(p)]
        if len(paths) > SEARCHED_FILES_AT_MOST:
            raise InputError(
                f"{len(paths)} files are too many to search; narrow the search with glob"
            )
        if not paths:
            raise InputError(f"no file of {name} matches the glob {arguments.get('glob', '*')!r}")
        side, _ = await workspace.side(name, paths)
        directory = posixpath.commonpath(map(posixpath.dirname, paths))
        context = min(asked := arguments.get("context", 0), CONTEXT_AT_MOST)
        cut = f"context {asked} is too much, shown is {context}\n" if context < asked else ""
        known, with_nul = self._nul.setdefault(name, (set(), set()))
        if not known.issuperset(paths):
            listed = await _ripgrep(side, NUL, [f"./{directory}"], "--text", "--files-with-matches")
            with_nul.update(os.fsdecode(line).removeprefix("./") for line in listed)
            known.update(paths)
        texts = [
            path for path in paths if path in with_nul and await self._is_text(path, tree[path][1])
        ]
        shape = "--json", f"--max-count={MATCHES_AT_MOST}", f"--context={context}"
        # Of few files ripgrep prints no lines of others, which could be more than it may.
        named = [f"./{path}" for path in paths if path not in with_nul]
        places = named if len(named) <= NAMED_AT_MOST else [f"./{directory}"]
        lines = await _ripgrep(side, arguments["pattern"], places, *shape) if places else []
        found = [one for one in map(_parse_line, lines) if one and one.path not in texts]
        for path in texts:
            lines = await _ripgrep(side, arguments["pattern"], [f"./{path}"], *shape, "--text")
            found += filter(None, map(_parse_line, lines))
        found = [line for line in found if matches(line.path)]
        return cut + _show_lines(sorted(found, key=self._near_the_change()))

    async def _is_text(self, path: str, blob: str) -> bool:
        """Whether a file is read as text; remembered for the next search."""
        if (known := self._texts.get((path, blob))) is None:
            known = _reads_as_text(path, await self._workspace.contents.read(blob))
            self._texts[path, blob] = known
        return known

    async def git_diff(self, arguments: Mapping[str, Json], seen: Container[str] = ()) -> str:
        """The change as text.

        Args:
            seen: the first lines of the files' diffs to leave out.
        """
        change, path = self._workspace.change, arguments.get("path")
        if path is not None:
            path = await self._workspace.known_path(path)
        parts = await history.diff(change, path)
        if not parts and path is not None:
            return f"{path} did not change"
        unseen = [part for part in parts if part.lines[0] not in seen]
        if parts and not unseen:
            return f"your first message has the whole diff of {path or 'the change'}"
        ordered = riskiest_first(change, unseen)
        page = show_page(ordered, arguments.get("offset", 1), DIFF_CHARACTERS)
        left = count_noun(len(parts) - len(unseen), "more file")
        return page if unseen == parts else f"[your first message has the diffs of {left}]\n{page}"

    async def git_log(self, arguments: Mapping[str, Json]) -> str:
        """The history of a file, or of the change."""
        self._needs_history()
        limit = arguments.get("limit", 10)
        if "path" not in arguments:
            return await history.change_log(self._workspace.change, limit)
        return await history.log(self._workspace.change, arguments["path"], limit)

    async def git_blame(self, arguments: Mapping[str, Json]) -> str:
        """Who wrote lines."""
        self._needs_history()
        return await history.blame(
            self._workspace.change, arguments["path"], arguments["start"], arguments["end"]
        )

    def _near_the_change(self) -> Callable[["_Line"], tuple[int, str, int]]:
        """An order of lines: of changed files, of files beside them, of others."""
        changed = {path for file in self._workspace.change.files for path in file.paths}
        folders = {posixpath.dirname(path) for path in changed}

        def order(line: _Line) -> tuple[int, str, int]:
            near = (line.path in changed) + (posixpath.dirname(line.path) in folders)
            return -near, line.path, line.number

        return order

    def _needs_history(self) -> None:
        if not self._workspace.change.has_tree:
            raise InputError("a patch without a repository has no history")


async def _ripgrep(side: Side, pattern: str, places: Sequence[str], *options: str) -> list[bytes]:
    """What ripgrep prints of files or directories of a side."""
    argv = [RIPGREP.find(), "--no-config", "--no-ignore", "--hidden", *options]
    done = await run(
        [*argv, "-e", pattern, "--", *places],
        permissions=Permissions((side.root,)),
        cwd=side.root,
        limits=ResourceLimits(seconds=20),
        recorded=pattern != NUL,
    )
    if done.code not in {0, 1}:
        raise InputError(f"the search failed: {done.stderr.decode(errors='replace')[:200]}")
    return done.stdout.splitlines()


def _reads_as_text(path: str, data: bytes) -> bool:
    """Whether a file is text, with or without a NUL."""
    return b"\0" not in data[:8000] or is_text(path, inspect_content(data))


class _Line(Struct, frozen=True):
    """A line that a search found, or a context line."""

    path: str
    number: int
    matched: bool
    text: str

    @property
    def shown(self) -> str:
        """As it is shown; a context line has a dash where a match has a colon."""
        mark = ":" if self.matched else "-"
        return f"{self.number}{mark} {self.text}"


def _parse_line(printed: bytes) -> _Line | None:
    event = json.loads(printed)
    if event["type"] not in {"match", "context"}:
        return None
    data, is_match = event["data"], event["type"] == "match"
    path, text = (
        one["text"] if "text" in one else decode_text(b64decode(one["bytes"]))
        for one in (data["path"], data["lines"])
    )
    shown = text.rstrip("\n")[:MATCH_CHARACTERS]
    return _Line(path.removeprefix("./"), data["line_number"], is_match, shown)


def _show_lines(found: Sequence[_Line]) -> str:
    """Below each path its lines.

    Files in their order share a page: what a small one leaves goes to the larger ones.
    """
    files: dict[str, list[_Line]] = {}
    for line in found:
        files.setdefault(line.path, []).append(line)
    sizes = {
        path: len(path) + 2 + sum(len(line.shown) + 1 for line in lines)
        for path, lines in files.items()
    }
    room, left = dict[str, int](), PAGE_CHARACTERS
    for others, path in enumerate(sorted(sizes, key=sizes.__getitem__), -len(sizes)):
        room[path] = min(sizes[path], left // -others)
        left -= room[path]
    shown, used, apart = list[str](), 0, any(not line.matched for line in found)
    for at, (path, lines) in enumerate(files.items()):
        if used > PAGE_CHARACTERS:
            more = [line for others in [*files.values()][at:] for line in others]
            shown.append(_name_more(more, f"{len(files) - at} files", found))
            break
        end, before = used + room[path], lines[0].number - 1
        shown.append(f"{path}:".replace("\n", "\\n"))
        used += len(shown[-1]) + 1
        for place, line in enumerate(lines):
            if place and used + len(line.shown) >= end:
                shown.append(_name_more(lines[place:], path, lines))
                used += len(shown[-1])
                break
            if apart and line.number != before + 1:
                shown.append("--")
            shown.append(line.shown)
            used, before = used + len(line.shown) + 1, line.number
    if any(text.startswith("and ") and " more in " in text for text in shown):
        shown.append("narrow the pattern or the glob to see them")
    return "\n".join(filter(None, shown)) or "nothing matches"


def _name_more(left_out: Sequence[_Line], where: str, found: Sequence[_Line]) -> str:
    """How many matches are not shown; empty if none. A file's search ends at so many."""
    count = sum(line.matched for line in left_out)
    searched = Counter(line.path for line in found if line.matched)
    least = "at least " if max(searched.values(), default=0) >= MATCHES_AT_MOST else ""
    return f"and {least}{count} more in {where}" if count else ""
