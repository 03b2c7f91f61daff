"""The templates of a tree, read on demand."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache, cached_property

from diffchecks.check_io import Gap, Source, read_if_possible
from diffchecks.data_files import read_patterns, vocabulary
from diffchecks.python.source_definitions import find_nearest
from diffchecks.taint.module_index import Module
from diffchecks.taint.template_code import TemplateCode, read_code
from diffchecks.templates import is_shown_as_markup, read_template
from diffchecks.templates.judging import find_printed

_OFF = vocabulary("autoescape_off")
_INCLUDED = read_patterns("template_files")["included"]
_EXTENDS = re.compile(r"\{%[-+]?\s*extends\s")
# Formats of messages that no browser renders.
_OF_MESSAGES = frozenset({"b", "code", "em", "i", "pre", "strong", "u"})
_MAX_DEPTH = 4  # maximum depth of templates that include each other
_NOTHING = TemplateCode([], prints=False, filters=frozenset(), others=(), parent="")
_TURNED_OFF = frozenset({"jinja", "tornado"})
_ADDED_ENDING = ".tpl"  # Bottle adds it to a name
_LINES = frozenset({"bottle", "mako"})  # dialects with line statements


class TemplateTree:
    """The templates of a tree.

    Args:
        paths: below the root; those that are no templates do no harm.
        programs: texts of the programs that fill them in.
    """

    def __init__(
        self, root: str, paths: Iterable[str], programs: Iterable[str | None] = ()
    ) -> None:
        self._root = root
        self._programs = programs
        self._by_name: dict[str, list[str]] = {}
        for path in paths:
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)
        self.code = cache(self._read)
        self.module = cache(lambda path: Module(path, ast.Module([], []), frozenset(), {}))
        self._prints: dict[str, bool] = {}

    def find(self, name: str, caller: str) -> str | None:
        """Find the path of a template.

        Args:
            name: as in the program, relative to a template directory.
            caller: path of the module or the template that names it.
        """
        name = name.removeprefix("./").lstrip("/")
        if name.rpartition("/")[2] not in self._by_name:
            name += _ADDED_ENDING
        known = self._by_name.get(name.rpartition("/")[2], ())
        return find_nearest(caller, [path for path in known if f"/{path}".endswith(f"/{name}")])

    def prints(self, path: str, depth: int = _MAX_DEPTH) -> bool:
        """Whether a template or one that it includes prints values without escaping."""
        if path not in self._prints:
            self._prints[path] = False  # for circular lookups
            code = self.code(path)
            others = (self.find(name, path) for name in code.others) if depth else ()
            self._prints[path] = code.prints or any(
                self.prints(other, depth - 1) for other in others if other is not None
            )
        return self._prints[path]

    def fills_in(self, path: str) -> bool:
        """Whether a template prints a value unescaped, or passes one to another that does."""
        code = self.code(path)
        others = (self.find(name, path) for name in code.others if name != code.parent)
        return code.prints or any(self.prints(other) for other in others if other is not None)

    def users(self, path: str) -> Iterator[str]:
        """A template and those that include it."""
        found, fresh = {path}, [path]
        while fresh:
            current = fresh.pop()
            yield current
            for name, other in self._included.get(current.rpartition("/")[2], ()):
                if other not in found and self.find(name, other) == current:
                    found.add(other)
                    fresh.append(other)

    @cached_property
    def _escaped(self) -> bool:
        return not any("autoescape" in one and _OFF.search(one) for one in self._programs if one)

    @cached_property
    def _included(self) -> dict[str, list[tuple[str, str]]]:
        """Last part of a template's name → how other templates name it, and which ones do."""
        found: dict[str, list[tuple[str, str]]] = {}
        for path in (each for paths in self._by_name.values() for each in paths):
            for name in _INCLUDED.findall(self._source(path).text):
                found.setdefault(name.rpartition("/")[2], []).append((name, path))
        return found

    def _source(self, path: str) -> Source:
        return Source(path, read_if_possible(self._root, path))

    def _read(self, path: str) -> TemplateCode:
        try:
            source = self._source(path)
            found = read_template(source)
            if found is None:
                return _NOTHING
            page, dialect, name = found
            named = {element.name for element in page.elements}
            whole = _EXTENDS.search(source.text) is not None
            shown = is_shown_as_markup(source.text, dialect) and not named <= _OF_MESSAGES
            escaped = name not in _TURNED_OFF or self._escaped
            printed = find_printed(page, dialect, escaped=escaped) if whole or shown else ()
            return read_code(page, printed, lines=name in _LINES)
        except (Gap, RecursionError, MemoryError):  # the check of templates says so
            return _NOTHING
