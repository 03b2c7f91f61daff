"""Import contracts that the repository declares for import-linter and that the change breaks.

The contracts of base are checked on both sides with import-linter's own classes, on graphs that are
read from source: no code under review is imported, including the repository's own contract classes.
Only this module depends on the internals of import-linter and grimp. Both are imported when used,
since few repositories declare contracts and the import takes 250 ms.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from diffchecks.check_io import CheckReply, Gap, RawFinding
from diffchecks.jobs import ComparisonJob
from diffchecks.packed_files import read_file
from diffchecks.path_kinds import is_test
from diffchecks.python.source_definitions import read_text

if TYPE_CHECKING:
    from grimp import ImportGraph
    from importlinter import Contract


class NotCheckedError(Exception):
    """Contracts that cannot be checked; ``str()`` is the reason.

    Args:
        path: the file that causes the error; empty: the one that declares the contracts.
    """

    def __init__(self, why: str, path: str = "") -> None:
        self.path = path
        super().__init__(why)


class Link(Struct, frozen=True):
    """One import: importer, imported module, and the first line."""

    importer: str
    imported: str
    line: int | None

    @property
    def edge(self) -> tuple[str, str]:
        """The import as an edge of the graph."""
        return self.importer, self.imported


class Violation(Struct, frozen=True):
    """A violation of a contract.

    Attributes:
        between: the two parts of the program that the contract separates.
        chains: the import chains from one to the other, as consecutive links.
    """

    between: tuple[str, str]
    chains: tuple[tuple[Link, ...], ...]


def build_graph(root: str, places: Mapping[str, str], session: Mapping[str, Any]) -> ImportGraph:
    """Build the import graph of a tree from its source.

    Args:
        places: root package → its directory below ``root``.
        session: the settings shared by all contracts.
    """
    import grimp  # noqa: PLC0415
    from grimp.application.config import settings  # noqa: PLC0415
    from grimp.exceptions import SourceSyntaxError  # noqa: PLC0415

    def is_on(setting: str) -> bool:
        return str(session.get(setting)).lower() == "true"

    # The default finder asks this interpreter where a package is. That would find installed
    # packages, and import the parent of a dotted name.
    settings.configure(PACKAGE_FINDER=_Finder({k: f"{root}/{v}" for k, v in places.items()}))
    try:
        return grimp.build_graph(
            *places,
            include_external_packages=is_on("include_external_packages"),
            exclude_type_checking_imports=is_on("exclude_type_checking_imports"),
            cache_dir=None,
        )
    except SourceSyntaxError as error:
        path = error.filename.removeprefix(f"{root}/")
        line = f" at line {error.lineno}" if error.lineno else ""
        why = f"does not parse{line}, so no contract on imports was checked"
        raise NotCheckedError(why, path) from None
    except (UnicodeDecodeError, OSError) as error:
        raise NotCheckedError(f"is over packages that cannot be read: {error}") from None


class _Finder(Struct, frozen=True):
    """Finds packages by a table."""

    places: Mapping[str, str]

    def determine_package_directories(self, package_name: str, file_system: object) -> set[str]:
        return {self.places[package_name]}


def build_contract(name: str, session: Mapping[str, Any], options: Mapping[str, Any]) -> Contract:
    """Build a contract of one of import-linter's types."""
    from importlinter.contracts import acyclic_siblings, forbidden, independence, layers, protected  # noqa: PLC0415
    from importlinter.domain.contract import InvalidContractOptions  # noqa: PLC0415

    kinds: dict[str, type[Contract]] = {
        "layers": layers.LayersContract,
        "forbidden": forbidden.ForbiddenContract,
        "independence": independence.IndependenceContract,
        "protected": protected.ProtectedContract,
        "acyclic_siblings": acyclic_siblings.AcyclicSiblingsContract,
    }
    kind = kinds.get(str(options.get("type")))
    if kind is None:
        raise NotCheckedError(f"contracts of type {options.get('type')!r:.60} are not supported")
    packages = session.get("root_packages") or [session["root_package"]]
    # An exception for an import that no longer exists is not an error of the change.
    given = {**options, "unmatched_ignore_imports_alerting": "none"}
    try:
        return kind(name, {**session, "root_packages": packages}, given)
    except InvalidContractOptions as error:
        raise NotCheckedError(", ".join(f"{k}: {v}" for k, v in error.errors.items())) from None
    except (AttributeError, TypeError):
        raise NotCheckedError(
            "one of its options is invalid: of another kind than its type takes"
        ) from None


def check_contract(
    contract: Contract, graph: ImportGraph
) -> tuple[list[Violation], frozenset[str]]:
    """Check a contract on a graph.

    Returns:
        The violations, and the layers that an exhaustive contract does not list.

    Raises:
        NotCheckedError: the contract does not fit the graph; for example, it names a missing
            module.
    """
    from grimp.exceptions import GrimpException  # noqa: PLC0415

    try:
        # A copy, from which the ignored imports are removed.
        metadata = contract.check(deepcopy(graph), verbose=False).metadata
    except (ValueError, GrimpException) as error:
        raise NotCheckedError(" ".join(str(error).split())) from None
    parts = "importer", "imported", "routes"
    layers = "downstream_module", "upstream_module", "chains"
    violations = [
        *_of_parts(metadata.get("invalid_dependencies", ()), parts),
        *_of_parts(metadata.get("invalid_chains", ()), layers),
        *_of_protected(metadata.get("illegal_imports", ())),
        *_of_siblings(metadata.get("cycle_breakers_by_package", {}), graph),
    ]
    return violations, frozenset(metadata.get("undeclared_modules", ()))


def _link(metadata: Mapping[str, Any]) -> Link:
    lines = [line for line in metadata["line_numbers"] if line is not None]
    return Link(metadata["importer"], metadata["imported"], min(lines, default=None))


def _of_parts(
    metadata: Iterable[Mapping[str, Any]], keys: tuple[str, str, str]
) -> Iterator[Violation]:
    """Layers, independence and forbidden: chains between two packages.

    A chain is a list of links, or one with other first and last links that come to the same.

    Args:
        keys: under which each part holds who imports, who is imported, and the chains.
    """
    importer, imported, ways = keys
    for part in metadata:
        chains: list[tuple[Link, ...]] = []
        for way in part[ways]:
            if isinstance(way, list):
                chains.append(tuple(map(_link, way)))
                continue
            chain = tuple(map(_link, way["chain"]))
            chains.append(chain)
            chains += [(_link(first), *chain[1:]) for first in way["extra_firsts"]]
            chains += [(*chain[:-1], _link(last)) for last in way["extra_lasts"]]
        yield Violation((part[importer], part[imported]), tuple(chains))


def _of_protected(metadata: Iterable[Any]) -> Iterator[Violation]:
    for part in metadata:
        for link in map(_link, part.illegal_links):
            yield Violation((link.importer, part.top_level_module), ((link,),))


def _of_siblings(
    metadata: Mapping[str, Iterable[tuple[str, str]]], graph: ImportGraph
) -> Iterator[Violation]:
    """Violations of acyclic siblings, each at an import whose removal would break the cycle."""
    for package, breakers in sorted(metadata.items()):
        depth = package.count(".") + 2
        for importer, imported in sorted(breakers):
            ends = [".".join(name.split(".")[:depth]) for name in (importer, imported)]
            back = graph.find_shortest_chains(importer=ends[1], imported=ends[0], as_packages=True)
            chains = [(importer, imported), *sorted(back)]
            links = (tuple(_edge(graph, *pair) for pair in itertools.pairwise(c)) for c in chains)
            yield Violation((package, package), tuple(links))


def _edge(graph: ImportGraph, importer: str, imported: str) -> Link:
    lines = graph.get_import_details(importer=importer, imported=imported)
    return Link(importer, imported, min((each["line_number"] for each in lines), default=None))


# In the order in which import-linter searches; the first with a configuration counts.
CONFIGS = ("setup.cfg", ".importlinter", "pyproject.toml")
MARK = b"importlinter"
"""The text that marks a file that declares contracts."""

_PACKAGE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


def find_config_files(tree: Iterable[str], changed: Iterable[str]) -> list[str]:
    """The files of base that may declare contracts over the changed Python files.

    Files in test data are not contracts of the repository.
    """
    above = {
        directory.as_posix()
        for path in changed
        if path.endswith(".py")
        for directory in PurePosixPath(path).parents
    }
    names = set(tree)
    places = [
        f"{directory}/{name}" if directory != "." else name
        for directory in above
        for name in CONFIGS
    ]
    return sorted(place for place in places if place in names and not is_test(place))


class ContractConfig(Struct, frozen=True):
    """The contracts that a configuration file declares; ``session``: settings of all of them."""

    path: str
    session: Mapping[str, Any]
    contracts: tuple[dict[str, Any], ...]

    @property
    def packages(self) -> list[str]:
        """The root packages that the contracts are about."""
        given = self.session.get("root_packages") or self.session.get("root_package")
        names = [given] if isinstance(given, str) else given
        if not isinstance(names, list) or not names:
            raise NotCheckedError("names no root_package, so its contracts were not checked")
        for name in names:
            if not isinstance(name, str) or not _PACKAGE.fullmatch(name):
                raise NotCheckedError(
                    f"names a root package {name!r:.60}, which is not a package name"
                )
        return names


def in_order(paths: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of directory (empty, or with a final slash) and file, as import-linter orders them."""
    split = [(path[: path.rfind("/") + 1], path) for path in paths]
    return sorted(split, key=lambda each: (each[0], CONFIGS.index(each[1].removeprefix(each[0]))))


def read_contracts(root: str, path: str) -> ContractConfig | None:
    """Read a file's contracts; None if it declares none."""
    import configparser  # noqa: PLC0415 - as below
    import tomllib  # noqa: PLC0415

    try:
        data = read_file(root, path)
        if MARK not in data:
            return None
        from importlinter.adapters.user_options import (  # noqa: PLC0415 - 250 ms, and few need it
            IniFileUserOptionReader,
            TomlFileUserOptionReader,
        )
        from importlinter.configuration import configure  # noqa: PLC0415

        configure()

        toml = path.endswith(".toml")
        reader = TomlFileUserOptionReader() if toml else IniFileUserOptionReader()
        options = reader.read_options(config_filename=str(Path(root, path)))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, configparser.Error) as error:
        why = " ".join(str(error).split())
        raise NotCheckedError(f"cannot be read, so its contracts were not checked: {why}") from None
    except (AttributeError, TypeError):
        raise NotCheckedError("has no table of contracts, so none were checked") from None
    if options is None:
        return None
    return ContractConfig(path, options.session_options, tuple(options.contracts_options))


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
        renamed = {file.old_path: file.path for file in job.files if file.old_path}
        names = {path: module for module, path in modules["head"].items()}
        moved = {
            module: names.get(renamed.get(path, path), module)
            for module, path in modules["base"].items()
        }
        known = frozenset(
            (moved.get(module, module), moved.get(imported, imported))
            for module in graphs["base"].modules
            for imported in graphs["base"].find_modules_directly_imported_by(module)
        )
        return cls(job.head_root, declared, graphs["base"], graphs["head"], modules["head"], known)


def _place(package: str, directory: str, tree: Iterable[str]) -> str:
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
            after, missing = check_contract(contract, both.head)
            before, missing_before = check_contract(contract, both.base)
        except NotCheckedError as why:
            unchecked.append(f"the contract {name!r:.80} was not checked: {why}")
        else:
            yield from _new_imports(both, name, after, before)
            yield from _new_modules(both, name, missing - missing_before)
    if unchecked:
        gaps[both.declared.path] = "; ".join(unchecked)


def _new_imports(
    both: _Both, name: str, new: Iterable[Violation], before: Iterable[Violation]
) -> Iterator[RawFinding]:
    """New imports; only direct ones if the two parts were connected before."""
    old = {found.between for found in before}
    reported: set[tuple[str, str]] = set()
    for found in new:
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
    with suppress(Gap):
        lines = read_text(root, path).split("\n")
        return next((at for at, line in enumerate(lines, 1) if line.strip()), 0)
    return 0
