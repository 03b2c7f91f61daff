"""Finds the URL parameters of views in separate tables of routes."""

import re
from pathlib import PurePosixPath
from typing import Final

from diffchecks.taint.module_index import Module, Project

_ROUTE: Final = re.compile(
    r"""\b(?:path|re_path|url|add_url_rule|add_api_route)\(\s*
        r?(["'])(?P<rule>(?:(?!\1).)*)\1\s*,
        (?:\s*(?:endpoint\s*=\s*)?["'][^"'\n]*["']\s*,)?
        \s*(?:view_func\s*=\s*|endpoint\s*=\s*)?(?P<view>[A-Za-z_][\w.]*)""",
    re.VERBOSE,
)
_DEFINITION: Final = re.compile(r"\s*(?:async\s+)?def\s+(\w+)")
_CONVERTER: Final = re.compile(r"<(?:(\w+):)?(\w+)>|\{(\w+)(?::(\w+))?\}")
_GROUP: Final = re.compile(r"\(\?P<(\w+)>((?:[^()\[]|\[[^\]]*\]|\\.)*)\)")
_NARROW: Final = re.compile(r"(?:\\d|\[[\w\-]*\]|\\w|-|\{[\d,]*\}|[+*?]|\d)+")
_CONVERTED: Final = frozenset({"int", "float", "uuid", "slug"})
_TABLES: Final = frozenset({"urls.py", "routes.py", "urlconf.py"})

Parameters = dict[str, bool]
"""Parameter name → whether the route converts it to something harmless."""


class UrlConfiguration:
    """The routes in a project's tables, by the last part of their view's name."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._tables: dict[str, Parameters] | None = None
        self._own: dict[str, dict[str, Parameters]] = {}

    def parameters(self, view: str, module: Module) -> Parameters:
        """The URL parameters of a function or class of a module."""
        if self._tables is None:
            self._tables = {}
            for path in sorted(self._project.paths):
                if PurePosixPath(path).name in _TABLES:
                    _add_routes(self._tables, self._project.text(path) or "")
        if module.path not in self._own:
            own = self._own[module.path] = {}
            _add_routes(own, self._project.text(module.path) or "")
        return self._own[module.path].get(view) or self._tables.get(view, {})


def routed_lines(text: str) -> list[int]:
    """The lines of function definitions to which the same text has routes."""
    if "add_url_rule(" not in text:
        return []
    views = {match["view"].rpartition(".")[2] for match in _ROUTE.finditer(text)}
    lines = enumerate(text.split("\n"), 1)
    return [
        number for number, line in lines if (name := _DEFINITION.match(line)) and name[1] in views
    ]


def _add_routes(tables: dict[str, Parameters], text: str) -> None:
    for match in _ROUTE.finditer(text):
        view = match["view"].removesuffix(".as_view").rpartition(".")[2]
        found = tables.setdefault(view, {})
        rule = match["rule"]
        for name, pattern in _GROUP.findall(rule):
            found[name] = _NARROW.fullmatch(pattern) is not None and found.get(name, True)
        for converter, name, brace, kind in _CONVERTER.findall(_GROUP.sub("", rule)):
            harmless = (converter or kind) in _CONVERTED
            found[name or brace] = harmless and found.get(name or brace, True)
