"""Controls of Python, read from its syntax tree."""

import ast
import re
from collections.abc import Container, Iterator, Sequence

from diffchecks.python.source_definitions import (
    DefinitionNode,
    FunctionNode,
    find_definitions,
    first_line,
)
from diffchecks.python.syntax_tree_cache import walk
from diffchecks.removed_controls.control import Control, Version
from diffchecks.removed_controls.lost_wrapping import strip_whitespace
from diffchecks.removed_controls.python_flow import read_flows
from diffchecks.removed_controls.vocabulary import STRONG_HARDENING

_COMMON = frozenset(
    {"self", "cls", "len", "isinstance", "str", "bytes", "int", "get", "any", "all"}
)
_TYPES = frozenset(
    {"Annotated", "Callable", "Dict", "FrozenSet", "Iterable", "List", "Literal", "Mapping"}
    | {"Optional", "Sequence", "Set", "Tuple", "Type", "Union"}
    | {"dict", "frozenset", "list", "set", "tuple", "type"}
)
_REJECTING = re.compile(
    r"(?i)abort|send_error|fail|exit|error|reject|forbid|den(?:y|ied)|bad_?req|HTTP"
)
_POSITIVE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.NotEq: ast.Eq,
    ast.NotIn: ast.In,
    ast.IsNot: ast.Is,
    ast.GtE: ast.Lt,
    ast.LtE: ast.Gt,
}


def read_controls(tree: ast.Module, lines: Sequence[str], touched: Container[int]) -> Version:
    """Read the controls of a module, except in functions and classes that are unchanged.

    Args:
        touched: numbers of the differing lines and their neighbors.
    """
    scopes = {"": (1, max(1, len(lines)))}
    for definition in find_definitions(tree):
        node = definition.node
        scopes[definition.dotted] = (first_line(node), node.end_lineno or node.lineno)
    reader = _Reader(lines, touched)
    reader.visit(tree)
    return Version(tuple(reader.found), scopes, read_flows(tree, touched))


class _Reader(ast.NodeVisitor):
    """Collects the controls of a tree."""

    def __init__(self, lines: Sequence[str], touched: Container[int]) -> None:
        self.found: list[Control] = []
        self._lines, self._touched = lines, touched
        self._scope: list[str] = []

    def _add(
        self,
        kind: str,
        key: str,
        node: ast.expr | ast.stmt,
        *,
        name: str = "",
        values: frozenset[str] | None = None,
        effect: str = "",
        rejection: str = "",
        follows: str = "",
    ) -> None:
        words = _words(node)
        self.found.append(
            Control(
                kind,
                ".".join(self._scope),
                key,
                name,
                words,
                _names(node) if values is None else values,
                node.lineno,
                node.end_lineno or node.lineno,
                ast.unparse(node),
                effect,
                rejection,
                follows,
            )
        )

    # --- definitions ------------------------------------------------------------------------------

    def _definition(self, node: DefinitionNode) -> None:
        if not any(n in self._touched for n in range(first_line(node), (node.end_lineno or 0) + 1)):
            return
        self._scope.append(node.name)
        for decorator in node.decorator_list:
            self._add(
                "decorator",
                f"{node.name}@{ast.unparse(decorator)}",
                decorator,
                name=_last(decorator),
            )
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                self._add("base", f"{node.name}({ast.unparse(base)})", base, name=_last(base))
        else:
            self._defaults(node)
        self.generic_visit(node)
        self._scope.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Enter a function."""
        self._definition(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """Enter a coroutine."""
        self._definition(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Enter a class."""
        self._definition(node)

    def _defaults(self, node: FunctionNode) -> None:
        """Record parameters that are dependencies: ``user=Depends(current_user)``."""
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            if isinstance(default, ast.Call) and _last(default) in {"Depends", "Security"}:
                self._add(
                    "decorator",
                    f"{node.name}@{ast.unparse(default)}",
                    default,
                    name=ast.unparse(default),
                )

    # --- conditions -------------------------------------------------------------------------------

    def _conditions(self, kind: str, test: ast.expr, *, either: bool, **facts: str) -> None:
        for part in _split(test, either=either):
            self._add(kind, _positive(part), part, **facts)  # type: ignore[arg-type]

    def visit_If(self, node: ast.If) -> None:
        """Record a guard clause, or another condition."""
        effect, rejection = _rejection(node.body)
        if effect in {"", "value"}:
            self._conditions("condition", node.test, either=False, follows=self._line(node.body))
        if effect:
            self._conditions("guard", node.test, either=True, effect=effect, rejection=rejection)
        effect, rejection = _rejection(node.orelse)
        if effect and not isinstance(node.orelse[0], ast.If):
            self._conditions("guard", node.test, either=False, effect=effect, rejection=rejection)
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Record an assertion."""
        self._conditions("guard", node.test, either=False, effect="assert")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        """Record the bound of a loop."""
        self._conditions("filter", node.test, either=False)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """Record a conditional expression."""
        self._conditions("condition", node.test, either=False)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """Record the filters of a comprehension."""
        for test in node.ifs:
            self._conditions("filter", test, either=False)
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        """Record the conditions for a positive answer."""
        if isinstance(node.value, ast.BoolOp) and isinstance(node.value.op, ast.And):
            self._conditions("filter", node.value, either=False)
        self.generic_visit(node)

    def _line(self, body: Sequence[ast.stmt]) -> str:
        return strip_whitespace(self._lines[body[0].lineno - 1])

    # --- calls and values -------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> None:
        """Record a call, and each keyword argument."""
        name = _last(node)
        arguments = ",".join(ast.unparse(argument) for argument in node.args)
        passed = [*node.args, *(keyword.value for keyword in node.keywords)]
        if name.endswith("strip") and isinstance(node.func, ast.Attribute):
            passed.append(node.func.value)
        values = frozenset().union(*(_names(argument) for argument in passed))
        self._add("call", f"{name}({arguments})", node, name=name, values=values)
        for keyword in node.keywords:
            if keyword.arg:
                key = f"{name}:{keyword.arg}={ast.unparse(keyword.value)}"
                self._add("argument", key, keyword.value, name=keyword.arg, follows=name)
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        """Record the entries of a table of options."""
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and STRONG_HARDENING.fullmatch(str(key.value)):
                text = f"{ast.unparse(key)}={ast.unparse(value)}"
                self._add("setting", text, value, name=str(key.value))
        self.generic_visit(node)

    def visit_With(self, node: ast.With) -> None:
        """A lock or transaction around statements."""
        self._contexts(node)

    def visit_AsyncWith(self, node: ast.AsyncWith) -> None:
        """A lock or transaction around statements."""
        self._contexts(node)

    def _contexts(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            text = ast.unparse(item.context_expr)
            self._add("context", text, item.context_expr, name=text, follows=self._line(node.body))
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Record a setting, and each entry of a list or table."""
        target = ast.unparse(node.targets[0])
        for entry in _entries(node.value):
            self._add("entry", f"{target}:{ast.unparse(entry)}", entry, name=target)
        named = isinstance(node.targets[0], ast.Attribute | ast.Subscript | ast.Name)
        if named and not _is_type(node.value):
            self._add("setting", f"{target}={ast.unparse(node.value)}", node, name=target)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Handle it like an assignment without a type."""
        if node.value and _last(node.annotation) != "TypeAlias":
            target = ast.unparse(node.target)
            for entry in _entries(node.value):
                self._add("entry", f"{target}:{ast.unparse(entry)}", entry, name=target)
            self._add("setting", f"{target}={ast.unparse(node.value)}", node, name=target)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        """Record what is removed from a table."""
        self._add("delete", ast.unparse(node), node, name=ast.unparse(node.targets[0]))


def _is_type(value: ast.expr) -> bool:
    """Whether it is only a type alias: ``Annotated[...]``, ``str | None``."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr):
        sides = (value.left, value.right)
        return any((isinstance(s, ast.Constant) and s.value is None) or _is_type(s) for s in sides)
    return isinstance(value, ast.Subscript) and _last(value.value) in _TYPES


def _entries(value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.BitOr):
        yield from _entries(value.left)
        yield from _entries(value.right)
    if isinstance(value, ast.Call) and len(value.args) == 1:
        value = value.args[0]
    if isinstance(value, ast.List | ast.Tuple | ast.Set):
        yield from value.elts
    elif isinstance(value, ast.Dict):
        yield from filter(None, value.keys)


def _split(test: ast.expr, *, either: bool) -> Iterator[ast.expr]:
    """The operands of a disjunction (``either``) or conjunction."""
    negated = False
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, negated = test.operand, not negated
    wanted = ast.Or if either != negated else ast.And
    if isinstance(test, ast.BoolOp) and isinstance(test.op, wanted):
        for value in test.values:
            yield from _split(value, either=either != negated)
    else:
        yield test


def _positive(test: ast.expr) -> str:
    """The condition without its negation."""
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _POSITIVE:
        test = ast.Compare(test.left, [_POSITIVE[type(test.ops[0])]()], test.comparators)
    return ast.unparse(test)


def _rejection(body: Sequence[ast.stmt]) -> tuple[str, str]:
    """How a block ends early, and with what; empty if it does not."""
    last = body[-1] if body else None
    if isinstance(last, ast.Raise):
        return "raise", ast.unparse(last)
    if isinstance(last, ast.Return):
        value = last.value
        no = value is None or (isinstance(value, ast.Constant) and value.value in {None, False})
        refusing = isinstance(value, ast.Call) and _REJECTING.search(ast.unparse(value.func))
        return ("reject" if refusing else "return" if no else "value"), ast.unparse(last)
    if isinstance(last, ast.Continue | ast.Break):
        return "skip", ""
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        called = ast.unparse(last.value.func)
        return ("reject", ast.unparse(last)) if _REJECTING.search(called) else ("", "")
    return "", ""


def _last(node: ast.expr) -> str:
    """The last part of a name or of a called name."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _names(node: ast.AST) -> frozenset[str]:
    """Names of variables and attributes, without called names."""
    called = {id(each.func) for each in walk(node) if isinstance(each, ast.Call)}
    found = (
        each.id if isinstance(each, ast.Name) else each.attr
        for each in walk(node)
        if isinstance(each, ast.Name | ast.Attribute) and id(each) not in called
    )
    return frozenset(found) - _COMMON


def _words(node: ast.AST) -> frozenset[str]:
    """Names, attributes and strings in it."""
    found: set[str] = set()
    for each in walk(node):
        if isinstance(each, ast.Name):
            found.add(each.id)
        elif isinstance(each, ast.Attribute):
            found.add(each.attr)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str | bytes):
            text = each.value if isinstance(each.value, str) else each.value.decode("latin-1")
            found.add(repr(text))
    return frozenset(found) - _COMMON
