"""Docstrings that name a parameter that does not exist, and that base did not have."""

import ast
import re
from collections.abc import Iterator

from diffchecks.check_io import CheckReply, RawFinding
from diffchecks.data_files import read_patterns, read_yaml
from diffchecks.jobs import ComparisonJob
from diffchecks.path_kinds import is_product
from diffchecks.python.source_definitions import (
    Definition,
    FunctionNode,
    ParsedModule,
    find_definitions,
    find_docstring,
    find_stored_names,
    gap_on_error,
    keeps_signature,
    read_base_with,
    read_pairs,
)
from diffchecks.python.syntax_tree_cache import walk


def run(job: ComparisonJob) -> CheckReply:
    """Report the parameters that the change leaves stale."""
    gaps: dict[str, str] = {}
    examined: list[str] = []
    stale: list[tuple[tuple[str, str], RawFinding]] = []
    for pair in read_pairs(job, gaps):
        if is_product(pair.path):
            with gap_on_error(gaps, pair.path):
                if pair.head and (found := list(_stale(pair.head))):
                    pair.base()  # a gap where it does not parse: they may have been there
                    stale += found
                examined.append(pair.path)
    names = {name for (_, name), _ in stale}
    known = {identity for source in read_base_with(job, names) for identity, _ in _stale(source)}
    return CheckReply(
        [finding for identity, finding in stale if identity not in known], examined, gaps
    )


_STYLES = read_patterns("docstring_styles")
_PLACES = read_yaml("code_patterns.yaml")["docstring_places"]


def _stale(source: ParsedModule) -> Iterator[tuple[tuple[str, str], RawFinding]]:
    """Parameters of Google, NumPy or Sphinx style that do not exist, by what survives a move."""
    for definition in find_definitions(source.tree):
        node = find_docstring(definition.node)
        text = str(node.value) if node else ""
        style = next((style for style, sign in _STYLES.items() if sign.search(text)), None)
        if node is None or style is None or (known := _parameters(definition)) is None:
            continue
        dotted = definition.dotted
        for name in _named(text, style):
            if name.strip("_") not in known:
                yield (
                    (".".join(dotted.split(".")[-2:]), name),
                    RawFinding(
                        "stale-parameter",
                        source.path,
                        _place(source, node, name, style),
                        f"The docstring of {dotted} documents {name!r}, which does not exist",
                        key=f"{dotted}({name})",
                        scope=dotted,
                        confidence=0.9,
                    ),
                )


def _named(text: str, style: str) -> Iterator[str]:
    """The names in the docstring's parameter sections that can only be parameters."""
    # Importing griffe takes 0.2 s, and most files do not need it.
    from griffe import Docstring, DocstringSectionKind, Parser  # noqa: PLC0415

    kinds = {DocstringSectionKind.parameters, DocstringSectionKind.other_parameters}
    docstring = Docstring(text)
    for section in docstring.parse(Parser(style), warnings=False):
        for parameter in section.value if section.kind in kinds else ():
            # "Default: 3" in a Google section looks like a parameter; names are rarely capitalized.
            if parameter.name.isidentifier() and parameter.name == parameter.name.lower():
                yield parameter.name


def _parameters(definition: Definition) -> set[str] | None:
    """All names that are valid parameters here; None if they cannot be known."""
    if not isinstance(definition.node, ast.ClassDef):
        return _accepted(definition.node)
    constructors = [
        node for node in definition.node.body
        if isinstance(node, ast.FunctionDef) and node.name in {"__init__", "__new__", "__call__"}
    ]  # fmt: skip
    if [node.name for node in constructors] != ["__init__"] or definition.node.decorator_list:
        return None
    accepted = _accepted(constructors[0])
    if accepted is None:
        return None
    return accepted | {name.strip("_") for name in find_stored_names(definition.node)}


def _accepted(function: FunctionNode) -> set[str] | None:
    """The function's parameters and those of functions inside it (a decorator's inner ones)."""
    if function.args.vararg or function.args.kwarg or not keeps_signature(function):
        return None
    return {node.arg.strip("_") for node in walk(function) if isinstance(node, ast.arg)}


def _place(source: ParsedModule, text: ast.Constant, name: str, style: str) -> int:
    """The docstring's line that names the parameter, else its first line."""
    sign = re.compile(_PLACES[style].format(re.escape(name)))
    lines = source.lines[text.lineno - 1 : text.end_lineno]
    return next(
        (text.lineno + at for at, line in enumerate(lines) if sign.search(line)), text.lineno
    )
