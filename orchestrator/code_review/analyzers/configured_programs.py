"""Programs that base's configuration names, over trees configured as in base.

A change could switch an analyzer off with its own configuration file. So these files are as in
base: a file that base does not have is left out.
"""

import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import Struct

from diffchecks.programs import one_line
from diffchecks.safe_paths import SafeDirectory, unsafe_path_reason
from orchestrator.catalog.catalog import SETTINGS
from orchestrator.catalog.data_file_layers import Layer, locate_text
from orchestrator.catalog.settings import FILES, REPORT, ConfiguredProgram
from orchestrator.code_review.analyzers import program_execution
from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.tools.path_globs import path_matcher
from orchestrator.code_review.tools.tool_inputs import ToolInputs
from orchestrator.data_directories import read_table
from orchestrator.errors import ConfigError, InputError, SandboxError
from orchestrator.program_search import SAFE_PATH, find_program, given_path
from orchestrator.sandbox import bubblewrap
from orchestrator.sandbox.level_and_launchers import SANDBOX
from orchestrator.sandbox.private_paths import require_shareable
from orchestrator.sandbox.process_confinement import program_files
from orchestrator.sandbox.program_permissions import Permissions, ResourceLimits
from orchestrator.sandbox.run_program import CompletedProgram, run

_TABLE = read_table(__file__, "configured_programs.yaml")
CONFIG_FILES: tuple[str, ...] = (*_TABLE["config_files"].split(),)
"""Names of files that configure analyzers, in any directory."""

_FIRST_LINE = 256  # bytes of a script's first line, which the kernel reads as well
_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")
"""What marks a directory that holds a program, its interpreter and its libraries."""
_TLS_FILES = _TABLE["tls_files"].split()
_NODE_MODULES = "node_modules"


class InstalledProgram(Struct, frozen=True):
    """A program, and what it needs besides the system's programs and libraries.

    Attributes:
        path: absolute; may be a link if it is not a script, such as a virtualenv's interpreter.
        needs: directories and files that it reads and starts programs from.
        search: directories for ``PATH``.
    """

    path: str
    needs: tuple[Path, ...]
    search: str


def find_installed(
    name: str, in_change: Callable[[str], bool], section: str = "analyzers"
) -> InstalledProgram:
    """Find a program on ``PATH`` or else beside our interpreter, or at its absolute path.

    Args:
        in_change: whether a path of the repository is a file of the change's tree; such a program,
            or one whose interpreter is, is ignored, since the change could have written it.
        section: the section of base's configuration that names it.

    Raises:
        SandboxError: it is not installed; says what to do.
    """
    entries = [os.path.dirname(name)]
    if not os.path.isabs(name):
        entries = [*given_path().split(os.pathsep), *program_execution.OWN_DIRECTORIES]
    found = (find_program(os.path.basename(name), it, in_checkout=True) for it in entries)
    candidates = [program for program in found if program]
    for program in candidates:
        parts = filter(None, (program, _interpreter(program)))
        if not any(in_change(place) for part in parts for place in _places_in_checkouts(part)):
            return _installed(program)
    if candidates:
        raise SandboxError(
            f"{name} is only found in the change's own tree ({candidates[0]}), from which "
            "nothing is run; install it elsewhere"
        )
    where = "there is no such program" if os.path.isabs(name) else "it is not on PATH"
    raise SandboxError(
        f"{name} is not installed: {where}; install it, or remove it from `{section}` in base's "
        ".diffcourt/config/defaults.yaml"
    )


def _places_in_checkouts(program: str) -> Iterator[str]:
    """A program's path and the target of its link, relative to each checkout that has them."""
    for path in {Path(program), Path(os.path.realpath(program))}:
        for directory in path.parents:
            if os.path.lexists(directory / ".git"):
                yield path.relative_to(directory).as_posix()


def _installed(program: str) -> InstalledProgram:
    programs = [program]
    path = program
    if interpreter := _interpreter(program):
        programs.append(interpreter)
        path = os.path.realpath(program)  # Node looks for a script's modules beside the real one
    needs = [need for one in programs for need in _needs(one)]
    forms = [form for one in programs for form in (one, os.path.realpath(one))]
    directories = dict.fromkeys(os.path.dirname(form) for form in forms)
    search = os.pathsep.join((*directories, SAFE_PATH))
    needs += [name for name in _TLS_FILES if os.path.exists(name)]
    places = dict.fromkeys(Path(os.path.realpath(need)) for need in needs)
    return InstalledProgram(path, tuple(places), search)


def _interpreter(program: str) -> str | None:
    """The interpreter of a script, by its first line; None if it is no script."""
    try:
        with open(program, "rb") as file:
            line = file.readline(_FIRST_LINE)
    except OSError:
        return None
    words = os.fsdecode(line.removeprefix(b"#!")).split() if line.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env":
        names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        return find_program(names[0], given_path(), in_checkout=True) if names else None
    return words[0] if words and os.path.isabs(words[0]) else None


def _needs(program: str) -> Iterator[str]:
    """The directories of a program, of its environment, and of its libraries."""
    real = os.path.realpath(program)
    yield program
    yield from program_files(program)
    for path in dict.fromkeys((program, real)):
        prefix = os.path.dirname(os.path.dirname(path))
        if any(os.path.exists(os.path.join(prefix, mark)) for mark in _ENVIRONMENTS):
            yield prefix
    before, modules, _ = real.partition(f"/{_NODE_MODULES}/")
    if modules:
        yield f"{before}/{_NODE_MODULES}"


class AnalyzedTree(Struct, frozen=True):
    """A tree on disk.

    Attributes:
        root: holds only the regular files of a side and the requested links; no component of its
            path is a link.
        paths: of these files.
        from_base: those of the paths whose content is taken from base.
        links: directories outside of the tree that it contains as links.
    """

    root: Path
    paths: Collection[str]
    from_base: frozenset[str] = frozenset()
    links: Collection[Path] = ()


async def analyzed_tree(
    workspace: ReviewWorkspace,
    side: SideName,
    is_config: Callable[[str], bool],
    *,
    links: Mapping[str, Path],
    name: str,
) -> AnalyzedTree:
    """A side, with its configuration files as in base.

    Args:
        links: path in the tree → the directory outside of it to which it links.
        name: of a directory that is created for the tree if one is needed.

    Raises:
        OSError: it cannot be written.
    """
    head = await workspace.contents.regular("head")
    base = await workspace.contents.regular("base")
    if side == "base":
        differ = frozenset(path for path in base if head.get(path) != base[path])
        paths, from_base = set(base), differ
    else:
        changed = (path for path in head.keys() | base.keys() if head.get(path) != base.get(path))
        differ = frozenset(filter(is_config, changed))
        from_base = differ & base.keys()
        paths = (head.keys() - differ) | from_base
    exported, _ = await workspace.side("head", sorted(paths - from_base))
    if not differ and not links:
        return AnalyzedTree(exported.root.resolve(), paths)
    before, _ = await workspace.side("base", sorted(from_base))
    # Linking takes a fraction of the time of writing, and most files are the same in base.
    sources = {path: before.root if path in from_base else exported.root for path in paths}
    target = workspace.root / name
    await anyio.to_thread.run_sync(_link, sources, links, target)
    as_in_base = differ if side == "head" else frozenset[str]()
    return AnalyzedTree(target.resolve(), paths, as_in_base, links.values())


def _link(sources: Mapping[str, Path], links: Mapping[str, Path], target: Path) -> None:
    """Link files of ours into a new directory; a file that could not be exported is left out."""
    target.mkdir()
    with SafeDirectory(target) as tree:
        for path, root in sorted(sources.items()):
            if os.path.isfile(root / path):
                with tree.parent(path, make=True) as (directory, name):
                    os.link(root / path, name, dst_dir_fd=directory)
        for path, place in links.items():
            with tree.parent(path, make=True) as (directory, name):
                os.symlink(place, name, dir_fd=directory)


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


def why_not_run(error: SandboxError | OSError) -> str:
    """Why a program did not run."""
    if isinstance(error, SandboxError):
        return str(error)
    return f"not run: cannot write to {tempfile.gettempdir()}: {error.strerror}"


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
