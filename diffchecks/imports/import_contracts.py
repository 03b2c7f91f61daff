"""Checks import-linter's contracts on an import graph.

Only this module depends on the internals of import-linter and grimp. Both are imported when used,
since few repositories declare contracts and the import takes 250 ms.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from grimp import ImportGraph
    from importlinter import Contract
import re
from pathlib import Path, PurePosixPath

from diffchecks.packed_files import read_file
from diffchecks.path_kinds import is_test


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


class Outcome(Struct, frozen=True):
    """The result of one contract; ``undeclared``: layers missing in an exhaustive contract."""

    violations: tuple[Violation, ...]
    undeclared: frozenset[str]


def _yes(value: object) -> bool:
    return str(value).lower() == "true"


def build_graph(root: str, places: Mapping[str, str], session: Mapping[str, Any]) -> ImportGraph:
    """Build the import graph of a tree from its source.

    Args:
        places: root package → its directory below ``root``.
        session: the settings shared by all contracts.
    """
    import grimp  # noqa: PLC0415
    from grimp.application.config import settings  # noqa: PLC0415
    from grimp.exceptions import SourceSyntaxError  # noqa: PLC0415

    # The default finder asks this interpreter where a package is. That would find installed
    # packages, and import the parent of a dotted name.
    settings.configure(PACKAGE_FINDER=_Finder({k: f"{root}/{v}" for k, v in places.items()}))
    try:
        return grimp.build_graph(
            *places,
            include_external_packages=_yes(session.get("include_external_packages")),
            exclude_type_checking_imports=_yes(session.get("exclude_type_checking_imports")),
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


def list_edges(graph: ImportGraph) -> Iterator[tuple[str, str]]:
    """All imports of a graph, as pairs of importer and imported module."""
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            yield importer, imported


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
    except (AttributeError, TypeError) as error:
        raise NotCheckedError(f"its options are invalid: {error}") from None


def check_contract(contract: Contract, graph: ImportGraph) -> Outcome:
    """Check a contract on a graph.

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
    return Outcome(
        (
            *_of_parts(
                metadata.get("invalid_dependencies", ()), ("importer", "imported", "routes")
            ),
            *_of_parts(
                metadata.get("invalid_chains", ()),
                ("downstream_module", "upstream_module", "chains"),
            ),
            *_of_protected(metadata.get("illegal_imports", ())),
            *_of_siblings(metadata.get("cycle_breakers_by_package", {}), graph),
        ),
        frozenset(metadata.get("undeclared_modules", ())),
    )


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
    if options is None:
        return None
    return ContractConfig(path, options.session_options, tuple(options.contracts_options))
