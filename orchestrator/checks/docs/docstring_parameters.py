"""Parameters that a docstring names and its function does not have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from orchestrator.checks.python.source import (
    Definition,
    DefinitionNode,
    FunctionNode,
    Source,
    definitions,
    docstring_node,
    keeps_signature,
)

_STYLES = {
    "sphinx": re.compile(r"^[ \t]*:(?:param|parameter|arg|argument)\b[^:\n]*:", re.MULTILINE),
    "numpy": re.compile(r"^[ \t]*(?:Other )?Parameters[ \t]*\n[ \t]*-{3,}[ \t]*$", re.MULTILINE),
    "google": re.compile(r"^[ \t]*(?:Args|Arguments|Parameters):[ \t]*$", re.MULTILINE),
}
_PLACES = {
    "sphinx": r"^[ \t]*:\w+[ \t][^:]*\b{0}[ \t]*:",
    "numpy": r"^[ \t]*(?:\w+,[ \t]*)*{0}[ \t]*(?::|,|$)",
    "google": r"^[ \t]*{0}[ \t]*(?:\(|:)",
}


class Stale(Struct, frozen=True):
    """One parameter that is only in the docstring; ``line`` is where that names it."""

    dotted: str
    parameter: str
    line: int


def stale_parameters(source: Source) -> Iterator[Stale]:
    """Parameters named by docstrings in Google, NumPy or Sphinx style that surely do not exist."""
    for one in definitions(source.tree):
        text = docstring_node(one.node)
        style = _style(str(text.value)) if text else None
        if text is None or style is None or (known := _parameters(one)) is None:
            continue
        for name in _named(str(text.value), style):
            if name.strip("_") not in known:
                line = _place(source, text, name, style)
                yield Stale(one.dotted, name, line)


def _style(text: str) -> str | None:
    return next((style for style, sign in _STYLES.items() if sign.search(text)), None)


def _named(text: str, style: str) -> Iterator[str]:
    """The names in the docstring's parameter sections that can only be parameters."""
    # griffe takes a fifth of a second to import, and most files need none of it.
    from griffe import Docstring, DocstringSectionKind, Parser  # noqa: PLC0415

    kinds = {DocstringSectionKind.parameters, DocstringSectionKind.other_parameters}
    docstring = Docstring(text)
    for section in docstring.parse(Parser(style), warnings=False):
        for parameter in section.value if section.kind in kinds else ():
            # "Default: 3" in a Google section looks like an entry; names are rarely capitalized.
            if parameter.name.isidentifier() and parameter.name == parameter.name.lower():
                yield parameter.name


def _parameters(one: Definition) -> set[str] | None:
    """All names that may rightly be called parameters here; None when they cannot be known."""
    if not isinstance(one.node, ast.ClassDef):
        return _accepted(one.node)
    constructors = [
        node for node in one.node.body
        if isinstance(node, ast.FunctionDef) and node.name in {"__init__", "__new__", "__call__"}
    ]  # fmt: skip
    if [node.name for node in constructors] != ["__init__"] or one.node.decorator_list:
        return None
    accepted = _accepted(constructors[0])
    return accepted if accepted is None else accepted | _attributes(one.node)


def _accepted(function: FunctionNode) -> set[str] | None:
    """The function's parameters and those of functions inside it (a decorator's inner ones)."""
    if function.args.vararg or function.args.kwarg or not keeps_signature(function):
        return None
    return {node.arg.strip("_") for node in ast.walk(function) if isinstance(node, ast.arg)}


def _attributes(node: DefinitionNode) -> set[str]:
    """Names that are set on the class or its instances."""
    stored = [one for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute)]
    return {
        (one.id if isinstance(one, ast.Name) else one.attr).strip("_")
        for one in stored
        if isinstance(one.ctx, ast.Store)
    }


def _place(source: Source, text: ast.Constant, name: str, style: str) -> int:
    """The docstring's line that names the parameter, else its first line."""
    sign = re.compile(_PLACES[style].format(re.escape(name)))
    lines = source.lines[text.lineno - 1 : text.end_lineno]
    return next(
        (text.lineno + at for at, line in enumerate(lines) if sign.search(line)), text.lineno
    )
