"""Programs that base's configuration names, run confined over a side of the change."""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import Struct

from diffchecks.safe_paths import SafeDirectory, unsafe_path_reason
from orchestrator.catalog.catalog import SETTINGS
from orchestrator.catalog.data_file_layers import Layer, locate_text
from orchestrator.catalog.settings import FILES, REPORT, ConfiguredProgram
from orchestrator.code_review.analyzers.analyzed_trees import (
    CONFIG_FILES,
    AnalyzedTree,
    analyzed_tree,
)
from orchestrator.code_review.analyzers.installed_programs import InstalledProgram, find_installed
from orchestrator.code_review.analyzers.program_execution import one_line
from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.tools.path_globs import path_matcher
from orchestrator.code_review.tools.tool_inputs import ToolInputs
from orchestrator.errors import ConfigError, InputError, SandboxError
from orchestrator.sandbox import bubblewrap
from orchestrator.sandbox.level_and_launchers import SANDBOX
from orchestrator.sandbox.private_paths import require_shareable
from orchestrator.sandbox.program_permissions import Permissions, ResourceLimits
from orchestrator.sandbox.run_program import CompletedProgram, run

DATA = 4 << 30  # bytes of memory that one process may write
REPORT_NAME = "report"
_ERROR_BYTES = 8000
_NAMED_ERROR = re.compile(r"(?:error|fatal|exception)\b[^:]{0,20}:\s", re.IGNORECASE)
_OURS = {".diffcourt": "it holds the state of reviews"}
NOT_ALLOWED = (
    "not run: the analyzers that base configures are not allowed here; allow them with "
    "--run-analyzers or DIFFCOURT_RUN_ANALYZERS=1"
)
NO_SANDBOX = (
    "not run: no sandbox; run it yourself and give its report with --import, or get one: "
    f"{bubblewrap.RUNNERS_HINT}"
)


class PreparedRun(Struct, frozen=True):
    """A program, and the side of the change that it runs on."""

    installed: InstalledProgram
    tree: AnalyzedTree


class ConfinedProgram:
    """A program of base's configuration, with what it may read.

    Args:
        key: where the configuration names it, such as ``analyzers.mypy``.
    """

    def __init__(self, key: str, program: ConfiguredProgram, inputs: ToolInputs) -> None:
        self._key, self._program, self._workspace = key, program, inputs.workspace
        self._allowed, self._private = inputs.run_analyzers, inputs.private_paths
        self._checkout = inputs.checkout
        self._files = [path_matcher(pattern) for pattern in program.files]
        self._config = [path_matcher(glob) for glob in (*CONFIG_FILES, *program.config_files)]
        self._trees: dict[SideName, AnalyzedTree] = {}
        self._lock = anyio.Lock()

    def wants(self, path: str) -> bool:
        """Whether one of its globs matches."""
        return any(matches(path) for matches in self._files)

    async def prepare(self, side: SideName) -> PreparedRun:
        """Find it, and write a side out for it.

        Raises:
            SandboxError: it may not or cannot run; says why and what to do.
            OSError: the side cannot be written.
        """
        if not self._allowed:
            raise SandboxError(NOT_ALLOWED)
        if SANDBOX.level == "none":
            raise SandboxError(NO_SANDBOX)
        contents = self._workspace.contents
        tracked = {*await contents.paths("head"), *await contents.paths("base")}
        installed = find_installed(
            self._program.command[0], tracked.__contains__, self._key.partition(".")[0]
        )
        reads = [Path(path) for path in self._program.reads]
        refusal = f"not run: {self._key}.reads names"
        await anyio.to_thread.run_sync(
            partial(require_shareable, reads, self._private, refusal=refusal)
        )
        links = self._dependencies(tracked)
        return PreparedRun(installed, await self._tree(side, links))

    async def _tree(self, side: SideName, links: Mapping[str, Path]) -> AnalyzedTree:
        async with self._lock:
            if side not in self._trees:
                self._trees[side] = await analyzed_tree(
                    self._workspace,
                    side,
                    self._is_config,
                    links=links,
                    name=f"{side}-for-{self._key}",
                )
            return self._trees[side]

    def _dependencies(self, tracked: Collection[str]) -> dict[str, Path]:
        """Path in the tree → the directory of the checkout to which it links."""
        links = {}
        for path in self._program.dependencies:
            named = f"not run: {path}, which {self._key}.dependencies names,"
            if any(other == path or other.startswith(f"{path}/") for other in tracked):
                raise SandboxError(f"{named} is committed; name directories that are not")
            try:
                with SafeDirectory(self._checkout or "") as checkout:
                    os.close(checkout.open_directory(path))
            except OSError:
                raise SandboxError(
                    f"{named} is not a directory of the checkout; install it"
                ) from None
            links[path] = Path(self._checkout or "") / path
        return links

    def _is_config(self, path: str) -> bool:
        """Whether a file configures it, by its name or because the command names it."""
        if any(matches(path) for matches in self._config):
            return True
        named = (argument.rpartition("=")[2] for argument in self._program.command[1:])
        places = [name.removeprefix("./").rstrip("/") for name in named]
        below = any(place and (path == place or path.startswith(f"{place}/")) for place in places)
        return below and not self.wants(path)

    async def execute(
        self,
        prepared: PreparedRun,
        directory: Path,
        part: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> CompletedProgram:
        """Run it.

        Args:
            directory: the only writable one.
            part: the value of ``{files}``.
            env: further variables of its environment.

        Raises:
            SandboxError: it did not run to its end, or ended with an exit code that is an error.
        """
        installed, tree = prepared.installed, prepared.tree
        program, argv = self._program, [installed.path]
        for argument in program.command[1:]:
            report = str(directory / REPORT_NAME)
            argv += part if argument == FILES else [argument.replace(REPORT, report)]
        places = {"HOME": directory / "home", "TMPDIR": directory / "tmp"}
        for place in places.values():
            place.mkdir()
        done = await run(
            argv,
            permissions=Permissions(
                reads=(tree.root, *map(Path, program.reads)),
                writes=(directory,),
                executes=(*installed.needs, *tree.links),
            ),
            cwd=tree.root,
            env={
                "PATH": installed.search,
                **{name: str(path) for name, path in places.items()},
                **(env or {}),
            },
            limits=ResourceLimits(seconds=program.timeout, memory=0, data=DATA),
            recorded=True,
        )
        if done.code not in program.exit_codes:
            how = f"exit code {done.code}" if done.code >= 0 else f"signal {-done.code}"
            raise SandboxError(f"ended with {how}: {error_of(done)}")
        return done


def error_of(done: CompletedProgram) -> str:
    """The last printed line that names an error, or the last line."""
    printed = done.stderr.strip() or done.stdout.strip()
    lines = printed[-_ERROR_BYTES:].decode(errors="replace").splitlines()
    named = [line for line in lines if _NAMED_ERROR.search(line)]
    return one_line((named or lines or ["it printed no error"])[-1])


def check_programs(programs: Mapping[str, ConfiguredProgram], layers: Sequence[Layer]) -> None:
    """Check the policy's globs and paths for programs, by their keys.

    Raises:
        ConfigError: a glob that can match nothing, or a path that is not allowed.
    """
    for name, program in programs.items():
        for path in program.dependencies:
            if why := unsafe_path_reason(path) or _OURS.get(path.partition("/")[0]):
                place = locate_text(layers, SETTINGS, path)
                raise ConfigError(f"{name}.dependencies: {path}: {why}", *place)
        for glob in (*program.files, *program.config_files):
            try:
                path_matcher(glob)
            except InputError as error:
                place = locate_text(layers, SETTINGS, glob)
                raise ConfigError(f"{name}: {error}", *place) from None
