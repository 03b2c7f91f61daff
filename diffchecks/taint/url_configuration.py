"""Finds the URL parameters of views in separate tables of routes, and what specifications serve."""

import re
from collections.abc import Collection
from functools import cache, cached_property
from pathlib import PurePosixPath
from typing import Final

from diffchecks.data_files import read_patterns
from diffchecks.taint.module_index import Module, Project

_PATTERNS: Final = read_patterns("url_configuration")
# Functions that a server of an OpenAPI document calls.
DOCUMENT: Final = re.compile(r"(?:openapi|swagger).*\.(?:ya?ml|json)$")
_CONVERTED: Final = frozenset({"int", "float", "uuid", "slug"})
_TABLES: Final = frozenset({"urls.py", "routes.py", "urlconf.py"})

Parameters = dict[str, bool]
"""Parameter name → whether the route converts it to something harmless."""


class UrlConfiguration:
    """The routes in a project's tables, by the last part of their view's name."""

    def __init__(self, project: Project, documents: Collection[str]) -> None:
        self._project = project
        self._documents = documents
        self.served, self._routes_in = cache(self._served), cache(self._routes)

    def parameters(self, view: str, module: Module) -> Parameters:
        """The URL parameters of a function or class of a module."""
        return self._routes_in(module.path).get(view) or self._tables.get(view, {})

    @cached_property
    def _tables(self) -> dict[str, Parameters]:
        tables = (path for path in self._project.paths if PurePosixPath(path).name in _TABLES)
        return self._routes(*sorted(tables))

    def _routes(self, *paths: str) -> dict[str, Parameters]:
        found: dict[str, Parameters] = {}
        for path in paths:
            _add_routes(found, self._project.text(path) or "")
        return found

    def _served(self, path: str) -> frozenset[str]:
        """The functions of a module all of whose parameters a client gives."""
        text = self._project.text(path) or ""
        is_schema = ("resolver" in text or "set_" in text) and _PATTERNS["schema"].search(text)
        resolvers = _PATTERNS["resolver"].finditer(text) if is_schema else ()
        found = {_name(match) for match in resolvers}
        module = f".{path.removesuffix('.py').replace('/', '.')}"
        for name in self._operations:
            place, _, function = name.rpartition(".")
            if module.endswith(f".{place}") if place else "connexion" in text:
                found.add(function)
        return frozenset(found)

    @cached_property
    def _operations(self) -> frozenset[str]:
        texts = (self._project.text(document) or "" for document in self._documents)
        return frozenset(name for text in texts for name in _PATTERNS["operation"].findall(text))

    def lines(self, path: str, text: str) -> list[int]:
        """The lines of a module's function definitions that are routed or served."""
        views = self.served(path)
        if "add_url_rule(" in text:
            views |= {_name(match) for match in _PATTERNS["route"].finditer(text)}
        lines = enumerate(text.split("\n"), 1) if views else ()
        return [
            number
            for number, line in lines
            if (name := _PATTERNS["definition"].match(line)) and name[1] in views
        ]


def _name(match: re.Match[str]) -> str:
    return match["view"].rpartition(".")[2]


def _add_routes(tables: dict[str, Parameters], text: str) -> None:
    for match in _PATTERNS["route"].finditer(text):
        view = match["view"].removesuffix(".as_view").rpartition(".")[2]
        found = tables.setdefault(view, {})
        rule = match["rule"]
        for name, pattern in _PATTERNS["group"].findall(rule):
            found[name] = _PATTERNS["narrow"].fullmatch(pattern) is not None and found.get(
                name, True
            )
        for converter, name, brace, kind in _PATTERNS["converter"].findall(
            _PATTERNS["group"].sub("", rule)
        ):
            harmless = (converter or kind) in _CONVERTED
            found[name or brace] = harmless and found.get(name or brace, True)
