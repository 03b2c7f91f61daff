"""Looking around: files, names, text and history. For agents that reason; bounded and read-only."""

import json
from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatchcase

from orchestrator.code_review.analyzers.program_execution import Program
from orchestrator.code_review.change import history
from orchestrator.code_review.change.contents import decode
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.engine.ports import CallContext
from orchestrator.engine.tool_registry import NAVIGATION
from orchestrator.engine.types import Json, Observation, ToolSpec
from orchestrator.errors import InputError
from orchestrator.sandbox.program_permissions import Limits, Permissions
from orchestrator.sandbox.run_program import run

LINES_AT_MOST = 400
NAMES_AT_MOST = 500
MATCHES_AT_MOST = 200
SEARCHED_FILES_AT_MOST = 20_000
RIPGREP = Program("rg", "ripgrep")

_TEXT: Mapping[str, Json] = {"type": "string", "minLength": 1, "maxLength": 1000}
_LINE: Mapping[str, Json] = {"type": "integer", "minimum": 1}


def _schema(required: tuple[str, ...], **properties: Json) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


class Look:
    """A reading tool made of a function from arguments to text."""

    def __init__(self, spec: ToolSpec, act: Callable[[Mapping[str, Json]], Awaitable[str]]) -> None:
        self.spec, self._act = spec, act

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        """Look.

        Raises:
            InputError: what cannot be looked at, in words.
        """
        return Observation(await self._act(arguments))


_PATH: Mapping[str, Json] = {**_TEXT, "description": "path in the repository"}
_SIDE: Mapping[str, Json] = {"enum": ["head", "base"], "description": "head when left out"}

SPECS: tuple[ToolSpec, ...] = tuple(
    ToolSpec(name, description, schema, tags=frozenset({NAVIGATION}), timeout=30)
    for name, description, schema in (
        (
            "read_file",
            f"Numbered lines of a file, at most {LINES_AT_MOST}.",
            _schema(("path",), path=_PATH, start=_LINE, end=_LINE, side=_SIDE),
        ),
        (
            "glob",
            "Paths of the tree that match a pattern such as src/*.py (* also crosses /).",
            _schema(("pattern",), pattern=_TEXT, side=_SIDE),
        ),
        (
            "search",
            "Lines of head that match a regular expression (ripgrep syntax).",
            _schema(("pattern",), pattern=_TEXT, glob=_TEXT),
        ),
        (
            "git_diff",
            "The change as a unified diff, of one file or of all.",
            _schema((), path=_PATH),
        ),
        (
            "git_log",
            "The last commits that touched a file, up to head.",
            _schema(("path",), path=_PATH, limit={**_LINE, "maximum": 50}),
        ),
        (
            "git_blame",
            "Who last changed which lines of a file in head, and in which commit.",
            _schema(("path", "start", "end"), path=_PATH, start=_LINE, end=_LINE),
        ),
    )
)


class Navigation:
    """The functions behind the tools, over one workspace; each is named like its tool."""

    def __init__(self, workspace: ReviewWorkspace) -> None:
        self._workspace = workspace

    def tools(self) -> list[Look]:
        """All of them."""
        return [Look(spec, getattr(self, spec.name)) for spec in SPECS]

    async def read_file(self, arguments: Mapping[str, Json]) -> str:
        """Numbered lines of one file."""
        path, side = arguments["path"], arguments.get("side", "head")
        entry = (await self._workspace.contents.paths(side)).get(path)
        if entry is None:
            raise InputError(f"{path} does not stand in {side}")
        data = await self._workspace.contents.read(entry[1])
        if b"\0" in data[:8000]:
            raise InputError(f"{path} is binary")
        lines = decode(data).split("\n")
        start = arguments.get("start", 1)
        end = min(arguments.get("end", len(lines)), start + LINES_AT_MOST - 1, len(lines))
        shown = [f"{number}: {lines[number - 1]}" for number in range(start, end + 1)]
        return "\n".join([f"{path} ({side}), lines {start} to {end} of {len(lines)}", *shown])

    async def glob(self, arguments: Mapping[str, Json]) -> str:
        """Paths that match."""
        tree = await self._workspace.contents.paths(arguments.get("side", "head"))
        found = sorted(path for path in tree if fnmatchcase(path, arguments["pattern"]))
        more = len(found) - NAMES_AT_MOST
        tail = [f"and {more} more; narrow the pattern"] if more > 0 else []
        return "\n".join([*found[:NAMES_AT_MOST], *tail]) or "nothing matches"

    async def search(self, arguments: Mapping[str, Json]) -> str:
        """Matching lines, by ripgrep over the exported tree."""
        workspace, glob = self._workspace, arguments.get("glob", "*")
        tree = await workspace.contents.paths("head")
        paths = [
            path
            for path, (mode, _) in tree.items()
            if mode.startswith("100") and fnmatchcase(path, glob)
        ]
        if len(paths) > SEARCHED_FILES_AT_MOST:
            raise InputError(f"{len(paths)} files are too many to search; narrow them with glob")
        side, _ = await workspace.side("head", paths)
        done = await run(
            [
                RIPGREP.find(), "--no-config", "--no-ignore", "--hidden", "--json",
                "--max-columns=400", f"--max-count={MATCHES_AT_MOST}", "-e", arguments["pattern"],
                "--", ".",
            ],
            permissions=Permissions((side.root,)),
            cwd=side.root,
            limits=Limits(seconds=20),
            recorded=True,
        )  # fmt: skip
        if done.code not in {0, 1}:
            raise InputError(f"the search failed: {done.stderr.decode(errors='replace')[:200]}")
        found = [line for line in map(_match, done.stdout.splitlines()) if line]
        found = sorted(line for line in found if fnmatchcase(line.split(":", 1)[0], glob))
        more = len(found) - MATCHES_AT_MOST
        tail = [f"and {more} more; narrow the pattern"] if more > 0 else []
        return "\n".join([*found[:MATCHES_AT_MOST], *tail]) or "nothing matches"

    async def git_diff(self, arguments: Mapping[str, Json]) -> str:
        """The change as text."""
        return await history.diff(self._workspace.change, arguments.get("path"))

    async def git_log(self, arguments: Mapping[str, Json]) -> str:
        """The history of a file."""
        self._needs_history()
        limit = arguments.get("limit", 10)
        return await history.log(self._workspace.change, arguments["path"], limit)

    async def git_blame(self, arguments: Mapping[str, Json]) -> str:
        """Who wrote lines."""
        self._needs_history()
        return await history.blame(
            self._workspace.change, arguments["path"], arguments["start"], arguments["end"]
        )

    def _needs_history(self) -> None:
        if not self._workspace.change.has_tree:
            raise InputError("a patch without a repository has no history")


def _match(line: bytes) -> str:
    event = json.loads(line)
    if event["type"] != "match" or "text" not in event["data"]["path"]:
        return ""
    data = event["data"]
    text = data["lines"].get("text", "").rstrip("\n")
    return f"{data['path']['text'].removeprefix('./')}:{data['line_number']}: {text}"
