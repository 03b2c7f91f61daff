"""Where contracts on imports are declared, and what is declared there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct

from orchestrator.checks.imports.layering_contracts import NotCheckedError
from orchestrator.checks.path_kinds import is_test
from orchestrator.sandbox.safe_paths import read_beneath

# As import-linter looks for them: the first that says anything counts.
CONFIGS = ("setup.cfg", ".importlinter", "pyproject.toml")
MARK = b"importlinter"
"""What a file that declares contracts holds."""

_PACKAGE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


def candidates(tree: Iterable[str], changed: Iterable[str]) -> list[str]:
    """The files of base that may declare contracts over the changed Python files.

    Those of a test's data are none of the repository's.
    """
    above = {
        folder.as_posix()
        for path in changed
        if path.endswith(".py")
        for folder in PurePosixPath(path).parents
    }
    names = set(tree)
    places = [f"{folder}/{name}" if folder != "." else name for folder in above for name in CONFIGS]
    return sorted(place for place in places if place in names and not is_test(place))


class Declared(Struct, frozen=True):
    """What one file declares.

    Attributes:
        session: the settings for all contracts.
    """

    path: str
    session: Mapping[str, Any]
    contracts: tuple[dict[str, Any], ...]

    @property
    def packages(self) -> list[str]:
        """The root packages.

        Raises:
            NotCheckedError: none, or one that is no package's name.
        """
        given = self.session.get("root_packages") or self.session.get("root_package")
        names = [given] if isinstance(given, str) else given
        if not isinstance(names, list) or not names:
            raise NotCheckedError("names no root_package, so its contracts were not checked")
        for name in names:
            if not isinstance(name, str) or not _PACKAGE.fullmatch(name):
                raise NotCheckedError(f"names a root package {name!r:.60}, which is no name of one")
        return names


def in_order(paths: Iterable[str]) -> list[tuple[str, str]]:
    """Folder (empty, or ending in a slash) and file, in the order in which import-linter reads."""
    split = [(path[: path.rfind("/") + 1], path) for path in paths]
    return sorted(split, key=lambda each: (each[0], CONFIGS.index(each[1].removeprefix(each[0]))))


def read(root: str, path: str) -> Declared | None:
    """What a file declares, None when it says nothing of contracts.

    Raises:
        NotCheckedError: it cannot be read.
    """
    import configparser  # noqa: PLC0415 - as below
    import tomllib  # noqa: PLC0415

    try:
        data = read_beneath(root, path)
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
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, configparser.Error) as fault:
        why = " ".join(str(fault).split())
        raise NotCheckedError(f"cannot be read, so its contracts were not checked: {why}") from None
    if options is None:
        return None
    return Declared(path, options.session_options, tuple(options.contracts_options))
