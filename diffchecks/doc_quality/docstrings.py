"""Docstrings that the change omits or leaves outdated.

``missing``: a new public function, class or module without a docstring although its neighbors have
one, or one that lost its docstring. ``stale-parameter``: a docstring names a parameter that does
not exist.
Both sides are compared: what was missing or stale before is not reported, and the convention that a
missing docstring breaks is that of base.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from diffchecks.check_io import CheckReply, RawFinding
from diffchecks.jobs import ComparisonJob
from diffchecks.path_kinds import is_product, is_public_module
from diffchecks.python.source_definitions import (
    ChangedModule,
    Definition,
    DefinitionNode,
    FunctionNode,
    ParsedModule,
    dotted_name,
    find_definitions,
    find_docstring,
    gap_on_error,
    keeps_signature,
    read_decorator_names,
    read_pairs,
)
from diffchecks.python.syntax_tree_cache import walk

TRIVIAL_STATEMENTS = 3
OWN_SHARE = 0.8  # share documented in the class or file from which a missing docstring is unusual
WHOLE_SHARE = 0.9  # the same, judged by other files of the change
SURROUNDINGS = 4  # minimum number of definitions that establish a convention

_MODULE = "<module>"
_EXEMPT_DECORATORS = frozenset({"overload", "override", "setter", "deleter", "getter"})
_PLAIN_BASES = frozenset({"object", "ABC", "Generic", "Protocol"})


class _Convention(Struct):
    """How many definitions of one kind have a docstring."""

    documented: int = 0
    total: int = 0

    def count(self, documented: bool) -> None:
        self.documented += documented
        self.total += 1

    @property
    def known(self) -> bool:
        return self.total >= SURROUNDINGS

    def kept(self, share: float) -> bool:
        return self.documented >= share * self.total


class _Conventions(defaultdict[str, _Convention]):
    """Conventions by kind: modules, classes, functions, and the methods of one class."""

    def __init__(self) -> None:
        super().__init__(_Convention)

    def learn(self, source: ParsedModule, worth: list[Definition]) -> None:
        """Count a file and those of its definitions that deserve a docstring."""
        if is_public_module(source.path):
            self[_MODULE].count(find_docstring(source.tree) is not None)
        for definition in worth:
            for kind in _kinds(definition):
                self[kind].count(find_docstring(definition.node) is not None)


class _Whole:
    """Data about all files of the change.

    Attributes:
        names: the last two parts of dotted names in base: a moved definition is not new.
        documented: the same for what has a docstring in head.
        stale: the same with a parameter, for stale parameters in base.
        base, head: the conventions of all files.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.documented: set[str] = set()
        self.stale: set[tuple[str, str]] = set()
        self.base, self.head = _Conventions(), _Conventions()


class _Candidate(Struct):
    """A possibly missing docstring, to be decided once all files are known."""

    found: RawFinding
    name: str
    kinds: tuple[str, ...]
    own: _Conventions
    lost: bool = False


def run(job: ComparisonJob) -> CheckReply:
    """Report docstrings that the change leaves out or leaves stale."""
    gaps: dict[str, str] = {}
    examined: list[str] = []
    missing: list[_Candidate] = []
    stale: list[tuple[tuple[str, str], RawFinding]] = []
    whole = _Whole()
    for pair in read_pairs(job, gaps):
        if is_product(pair.path):
            with gap_on_error(gaps, pair.path):
                base = pair.base()
                worth = _worth_a_docstring(base) if base else []
                if base:
                    _remember(base, worth, whole)
                if pair.head:
                    missing += _missing(pair, pair.head, (base, worth), whole)
                    stale += _stale(pair.head)
                examined.append(pair.path)
    found = [candidate.found for candidate in missing if _stands_out(candidate, whole)]
    found += [finding for identity, finding in stale if identity not in whole.stale]
    return CheckReply(found, examined, gaps)


def _remember(base: ParsedModule, worth: list[Definition], whole: _Whole) -> None:
    whole.base.learn(base, worth)
    whole.names |= {_tail(definition.dotted) for definition in find_definitions(base.tree)}
    whole.stale |= {
        (_tail(outdated.dotted), outdated.parameter) for outdated in find_stale_parameters(base)
    }


def _stands_out(candidate: _Candidate, whole: _Whole) -> bool:
    """Whether it is new, or no longer documented anywhere, and breaks a convention.

    The convention is that of the class, else of the file, else of all files: the first known.
    """
    if candidate.name in (whole.documented if candidate.lost else whole.names):
        return False
    places = ((candidate.own, OWN_SHARE), (whole.base, WHOLE_SHARE), (whole.head, WHOLE_SHARE))
    return next(
        (
            habits[kind].kept(share)
            for habits, share in places
            for kind in candidate.kinds
            if habits[kind].known
        ),
        False,
    )


def _missing(
    pair: ChangedModule,
    head: ParsedModule,
    before: tuple[ParsedModule | None, list[Definition]],
    whole: _Whole,
) -> list[_Candidate]:
    """Definitions without a docstring in head that are new in this file, or had a docstring.

    Args:
        before: the file in base, and its definitions that deserved a docstring.
    """
    own = _Conventions()
    base, worth = before
    if base:
        own.learn(base, worth)
    had = {definition.dotted: find_docstring(definition.node) is not None for definition in worth}
    worth = _worth_a_docstring(head)
    whole.head.learn(head, worth)
    found = []
    for definition in worth:
        lost = had.get(definition.dotted, False)
        if find_docstring(definition.node):
            whole.documented.add(_tail(definition.dotted))
        elif lost or definition.dotted not in had:
            single = _finding(pair.path, definition, lost)
            found.append(
                _Candidate(single, _tail(definition.dotted), _kinds(definition), own, lost)
            )
    if module := _missing_module(pair, head):
        found.append(_Candidate(module, _MODULE, (_MODULE,), own))
    return found


def _finding(path: str, definition: Definition, lost: bool) -> RawFinding:
    what = "class" if isinstance(definition.node, ast.ClassDef) else "function"
    return RawFinding(
        "missing",
        path,
        definition.node.lineno,
        f"{definition.dotted} lost its docstring"
        if lost
        else f"Public {what} {definition.dotted} has no docstring, unlike its neighbors",
        key=definition.dotted,
        scope=definition.dotted,
    )


def _missing_module(pair: ChangedModule, head: ParsedModule) -> RawFinding | None:
    if pair.status != "added" or pair.path.endswith("__init__.py"):
        return None
    if not is_public_module(pair.path) or find_docstring(head.tree):
        return None
    if len(head.tree.body) <= TRIVIAL_STATEMENTS:
        return None
    message = "This new module has no docstring, unlike its neighbors"
    return RawFinding("missing", pair.path, head.tree.body[0].lineno, message, key=_MODULE)


def _kinds(definition: Definition) -> tuple[str, ...]:
    if isinstance(definition.node, ast.ClassDef):
        return ("class",)
    return (
        (f"methods of {definition.parent.dotted}", "method") if definition.parent else ("function",)
    )


def _worth_a_docstring(source: ParsedModule) -> list[Definition]:
    """Public top-level definitions and methods that are not trivial."""
    if not is_public_module(source.path):
        return []
    return [
        definition
        for definition in find_definitions(source.tree)
        if not _exempt(definition) and _is_long(definition.node)
    ]


def _exempt(definition: Definition) -> bool:
    return (
        not definition.public
        or (isinstance(definition.node, ast.ClassDef) and definition.parent is not None)
        or not _EXEMPT_DECORATORS.isdisjoint(
            name.rpartition(".")[2] for name in read_decorator_names(definition.node)
        )
        or _inherits_docstring(definition)
    )


def _inherits_docstring(definition: Definition) -> bool:
    """Whether a method of a derived class may inherit its docstring."""
    owner = definition.parent.node if definition.parent else None
    return isinstance(owner, ast.ClassDef) and any(
        dotted_name(base.value if isinstance(base, ast.Subscript) else base).rpartition(".")[2]
        not in _PLAIN_BASES
        for base in owner.bases
    )


def _is_long(node: DefinitionNode) -> bool:
    """Whether it has more statements than a trivial one."""
    inner = (statement for statement in walk(node) if isinstance(statement, ast.stmt))
    return next(islice(inner, TRIVIAL_STATEMENTS + 1, None), None) is not None


def _tail(dotted: str) -> str:
    return ".".join(dotted.split(".")[-2:])


def _stale(head: ParsedModule) -> list[tuple[tuple[str, str], RawFinding]]:
    """The stale parameters of head, each with an identity that survives a move."""
    return [
        (
            (_tail(outdated.dotted), outdated.parameter),
            RawFinding(
                "stale-parameter",
                head.path,
                outdated.line,
                f"The docstring of {outdated.dotted} documents {outdated.parameter!r}, "
                "which does not exist",
                key=f"{outdated.dotted}({outdated.parameter})",
                scope=outdated.dotted,
                confidence=0.9,
            ),
        )
        for outdated in find_stale_parameters(head)
    ]


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


class StaleParameter(Struct, frozen=True):
    """A parameter that only the docstring has; ``line`` is the docstring's line."""

    dotted: str
    parameter: str
    line: int


def find_stale_parameters(source: ParsedModule) -> Iterator[StaleParameter]:
    """Parameters in docstrings of Google, NumPy or Sphinx style that certainly do not exist."""
    for definition in find_definitions(source.tree):
        text = find_docstring(definition.node)
        style = _style(str(text.value)) if text else None
        if text is None or style is None or (known := _parameters(definition)) is None:
            continue
        for name in _named(str(text.value), style):
            if name.strip("_") not in known:
                line = _place(source, text, name, style)
                yield StaleParameter(definition.dotted, name, line)


def _style(text: str) -> str | None:
    return next((style for style, sign in _STYLES.items() if sign.search(text)), None)


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
    return accepted if accepted is None else accepted | _attributes(definition.node)


def _accepted(function: FunctionNode) -> set[str] | None:
    """The function's parameters and those of functions inside it (a decorator's inner ones)."""
    if function.args.vararg or function.args.kwarg or not keeps_signature(function):
        return None
    return {node.arg.strip("_") for node in walk(function) if isinstance(node, ast.arg)}


def _attributes(node: DefinitionNode) -> set[str]:
    """Attributes that are set on the class or its instances."""
    stored = [child for child in walk(node) if isinstance(child, ast.Name | ast.Attribute)]
    return {
        (child.id if isinstance(child, ast.Name) else child.attr).strip("_")
        for child in stored
        if isinstance(child.ctx, ast.Store)
    }


def _place(source: ParsedModule, text: ast.Constant, name: str, style: str) -> int:
    """The docstring's line that names the parameter, else its first line."""
    sign = re.compile(_PLACES[style].format(re.escape(name)))
    lines = source.lines[text.lineno - 1 : text.end_lineno]
    return next(
        (text.lineno + at for at, line in enumerate(lines) if sign.search(line)), text.lineno
    )
