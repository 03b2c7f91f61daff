"""Which names a template prints without the escaping that their place needs."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from orchestrator.checks.check_io import Gap, Source, read
from orchestrator.checks.python.source_definitions import find_nearest
from orchestrator.checks.templates import find_printed_names
from orchestrator.checks.templates.judging import PrintedNames

_DEEPEST = 4  # templates that include each other


class Printed(Struct, frozen=True):
    """Where a template prints a name."""

    path: str
    line: int


class Templates:
    """The templates of a tree, read when one is asked for.

    Args:
        paths: below the root; those that are no templates do no harm.
    """

    def __init__(self, root: str, paths: Iterable[str]) -> None:
        self._root = root
        self._by_name: dict[str, list[str]] = {}
        for path in paths:
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)
        self._read: dict[str, PrintedNames] = {}

    def printed(self, name: str, caller: str) -> Mapping[str, Printed]:
        """Name of a value -> where it is printed, by a template or by those that it includes.

        Args:
            name: as the program has it, below a directory of templates.
            caller: path of the module that names it.
        """
        found: dict[str, Printed] = {}
        self._collect(name, caller, _DEEPEST, found)
        return found

    def _collect(self, name: str, caller: str, depth: int, found: dict[str, Printed]) -> None:
        path = self._find(name, caller)
        if path is None:
            return
        if path not in self._read:
            self._read[path] = self._look(path)
        names = self._read[path]
        for value, line in names.lines.items():
            found.setdefault(value, Printed(path, line))
        for other in names.includes if depth else ():
            self._collect(other, path, depth - 1, found)

    def _find(self, name: str, caller: str) -> str | None:
        known = self._by_name.get(name.rpartition("/")[2], ())
        return find_nearest(caller, [path for path in known if f"/{path}".endswith(f"/{name}")])

    def _look(self, path: str) -> PrintedNames:
        try:
            return find_printed_names(Source(path, read(self._root, path)))
        except (Gap, RecursionError, MemoryError):  # the check of templates says so
            return PrintedNames({}, ())
