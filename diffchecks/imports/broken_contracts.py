"""Import contracts that the repository declares for import-linter and that the change breaks.

The contracts of base are checked on both sides with import-linter's own classes, on graphs that are
read from source: no code under review is imported, including the repository's own contract classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from diffchecks.check_io import CheckReply, RawFinding
from diffchecks.imports.import_contracts import (
    ContractConfig,
    NotCheckedError,
    Outcome,
    build_contract,
    build_graph,
    check_contract,
    find_config_files,
    in_order,
    list_edges,
    read_contracts,
)
from diffchecks.jobs import ComparisonJob
from diffchecks.python.source_definitions import NotParsedError, read_text

if TYPE_CHECKING:
    from grimp import ImportGraph

NAMED = 4  # modules of a chain in a message
_SOURCE_DIRECTORIES = ("", "src/", "lib/", "python/")


def run(job: ComparisonJob) -> CheckReply:
    """Report each new import of head that a contract of base does not allow.

    A contract that cannot be checked is a gap of the file that declares it.
    """
    gaps: dict[str, str] = {}
    findings: list[RawFinding] = []
    examined: set[str] = set()
    changed = [file.path for file in job.files if file.path.endswith(".py")]
    settled: set[str] = set()
    for directory, path in in_order(find_config_files(job.base_tree, changed)):
        if directory in settled:
            continue
        try:
            declared = read_contracts(job.base_root, path)
            if declared is not None:
                settled.add(directory)
                both = _Both.of(job, declared, directory)
                findings += _broken(both, gaps)
                examined.update(set(changed) & set(both.modules.values()))
        except NotCheckedError as why:
            gaps[why.path or path] = str(why)
    return CheckReply(findings, sorted(examined - gaps.keys()), gaps)


class _Both(Struct, frozen=True):
    """The graphs of both sides, for what one file declares.

    Attributes:
        modules: module of head → its file.
        known: the imports of base, with the modules' names in head.
    """

    head_root: str
    declared: ContractConfig
    base: ImportGraph
    head: ImportGraph
    modules: Mapping[str, str]
    known: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, job: ComparisonJob, declared: ContractConfig, directory: str) -> _Both:
        """Read the import graphs of base and head.

        Raises:
            NotCheckedError: a package is not found, or a file does not parse.
        """
        graphs, modules = {}, {}
        for side in ("base", "head"):
            root, tree, _ = job.side(side)
            places = {name: _place(name, directory, tree) for name in declared.packages}
            graphs[side] = build_graph(root, places, declared.session)
            modules[side] = _modules(places, tree)
        now = {file.old_path: file.path for file in job.files if file.old_path}
        names = {path: module for module, path in modules["head"].items()}
        moved = {
            module: names.get(now.get(path, path), module)
            for module, path in modules["base"].items()
        }
        known = {(moved.get(a, a), moved.get(b, b)) for a, b in list_edges(graphs["base"])}
        return cls(
            job.head_root,
            declared,
            graphs["base"],
            graphs["head"],
            modules["head"],
            frozenset(known),
        )


def _place(package: str, directory: str, tree: Iterable[str]) -> str:
    """The directory of a root package in a tree."""
    inner = package.replace(".", "/")
    ending = f"/{inner}/"
    found: dict[str, None] = {}
    for path in tree:
        if path.endswith(".py") and path.startswith(directory):
            at = f"/{path}".find(ending, len(directory))
            if at >= 0:
                found[path[:at]] = None
    usual = [f"{directory}{name}" for name in _SOURCE_DIRECTORIES]
    places = [place for place in usual if place in found] or list(found)
    if len(places) == 1 or places[:1] == usual[:1]:
        return f"{places[0]}{inner}"
    why = "several directories have that name" if places else "no directory has that name"
    raise NotCheckedError(f"names the root package {package}, and {why}; no contract was checked")


def _modules(places: Mapping[str, str], tree: Iterable[str]) -> dict[str, str]:
    """Module → file, for the files of the root packages."""
    found: dict[str, str] = {}
    for path in tree:
        for package, place in places.items():
            if path.startswith(f"{place}/") and path.endswith(".py"):
                inner = path[len(place) + 1 : -3].replace("/", ".")
                found[f"{package}.{inner}".removesuffix(".__init__")] = path
    return found


def _broken(both: _Both, gaps: dict[str, str]) -> Iterator[RawFinding]:
    """Yield a finding for each new import that breaks a contract."""
    unchecked = []
    for options in both.declared.contracts:
        name = str(options.get("name", "without a name"))
        try:
            contract = build_contract(name, both.declared.session, options)
            now, before = check_contract(contract, both.head), check_contract(contract, both.base)
        except NotCheckedError as why:
            unchecked.append(f"the contract {name!r:.80} was not checked: {why}")
        else:
            yield from _new_imports(both, name, now, before)
            yield from _new_modules(both, name, now.undeclared - before.undeclared)
    if unchecked:
        gaps[both.declared.path] = "; ".join(unchecked)


def _new_imports(both: _Both, name: str, now: Outcome, before: Outcome) -> Iterator[RawFinding]:
    """New imports; only direct ones if the two parts were connected before."""
    old = {found.between for found in before.violations}
    reported: set[tuple[str, str]] = set()
    for found in now.violations:
        for chain in found.chains:
            link = next((link for link in chain if link.edge not in both.known), None)
            if link is None or link.edge in reported or (found.between in old and len(chain) > 1):
                continue
            path = both.modules.get(link.importer)
            if path is None or link.line is None:
                continue  # a namespace package has no imports of its own
            reported.add(link.edge)
            modules = [chain[0].importer, *(each.imported for each in chain)]
            if len(modules) > NAMED:
                modules[NAMED - 1 : -1] = ["…"]
            yield RawFinding(
                "contract",
                path,
                link.line,
                f'The contract "{name}" does not allow this import: {" -> ".join(modules)}',
                key=f"contract {name}: {link.importer} {link.imported}",
            )


def _new_modules(both: _Both, name: str, modules: Iterable[str]) -> Iterator[RawFinding]:
    """Modules that an exhaustive contract does not list; reported at their first line."""
    for module in sorted(modules):
        inside = [m for m in sorted(both.modules) if m == module or m.startswith(f"{module}.")]
        lines = ((both.modules[m], _first_line(both.head_root, both.modules[m])) for m in inside)
        place = next(((path, line) for path, line in lines if line), None)
        if place is not None:
            message = f'The contract "{name}" must list every module, and {module} is missing'
            yield RawFinding("contract", *place, message, key=f"contract {name}: {module}")


def _first_line(root: str, path: str) -> int:
    """The first line with text, 0 when there is none."""
    with suppress(NotParsedError):
        lines = read_text(root, path).split("\n")
        return next((at for at, line in enumerate(lines, 1) if line.strip()), 0)
    return 0
