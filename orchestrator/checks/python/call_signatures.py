"""What a Python function takes, and whether a call as written fits it."""

import ast
from collections import Counter

from msgspec import Struct

from orchestrator.checks.python.source import (
    Definition,
    FunctionNode,
    find_definitions,
    read_decorator_names,
)

# Decorators that leave a call as the definition says.
_PLAIN = frozenset(
    {"abstractmethod", "asynccontextmanager", "cache", "classmethod", "contextmanager"}
    | {"final", "lru_cache", "override", "staticmethod"}
)


class Signature(Struct, frozen=True):
    """The parameters of a function as a caller sees them.

    Attributes:
        positional: names that may be passed by position, in order.
        hidden: how many of them cannot be passed by name.
        needed: how many of them have no default.
        named: those passed by name only; True where it has no default.
        more: takes further ones by position.
        others: takes further ones by name.
    """

    positional: tuple[str, ...]
    hidden: int
    needed: int
    named: dict[str, bool]
    more: bool
    others: bool

    def misfit(self, call: ast.Call) -> str | None:
        """What is wrong with a call; None where nothing is, or ``*`` or ``**`` hide it."""
        given = {word.arg for word in call.keywords}
        if None in given or any(isinstance(one, ast.Starred) for one in call.args):
            return None
        count = len(call.args)
        if count > len(self.positional) and not self.more:
            return f"it takes {len(self.positional)} by position and gets {count}"
        taken = {*self.positional[self.hidden :], *self.named}
        unknown = sorted(name for name in given if name and name not in taken)
        if unknown and not self.others:
            return f"it takes no {unknown[0]!r}"
        if twice := given & set(self.positional[self.hidden : count]):
            return f"{min(map(str, twice))!r} is given twice"
        missing = [name for name in self.positional[count : self.needed] if name not in given]
        missing += [name for name, needed in self.named.items() if needed and name not in given]
        return f"{missing[0]!r} is missing" if missing else None


def read_signatures(tree: ast.Module) -> dict[str, Signature]:
    """Dotted name → shape, of functions and classes that are sure to be called as written.

    A class is listed by its name with the signature of its own ``__init__``.
    """
    found: dict[str, Signature] = {}
    every = find_definitions(tree)
    times = Counter(one.dotted for one in every)
    for one in every:
        if times[one.dotted] > 1 or not _is_plain(one):
            continue
        node, owner = one.node, one.parent
        if isinstance(node, ast.ClassDef):
            continue
        if owner is None:
            found[one.dotted] = _shape(node, bound=False)
        elif isinstance(owner.node, ast.ClassDef) and owner.parent is None and _is_plain(owner):
            bound = "staticmethod" not in read_decorator_names(node)
            if one.name != "__init__":
                found[one.dotted] = _shape(node, bound=bound)
            elif f"{owner.dotted}.__new__" not in times and not owner.node.keywords:
                found[owner.dotted] = _shape(node, bound=True)
    return found


def _is_plain(one: Definition) -> bool:
    names = [name.rpartition(".")[2] for name in read_decorator_names(one.node)]
    return not one.conditional and _PLAIN.issuperset(names)


def _shape(node: FunctionNode, *, bound: bool) -> Signature:
    written = node.args
    positional = [one.arg for one in (*written.posonlyargs, *written.args)]
    first = int(bound and bool(positional))
    return Signature(
        positional=tuple(positional[first:]),
        hidden=max(0, len(written.posonlyargs) - first),
        needed=max(0, len(positional) - len(written.defaults) - first),
        named={
            one.arg: default is None
            for one, default in zip(written.kwonlyargs, written.kw_defaults, strict=True)
        },
        more=written.vararg is not None,
        others=written.kwarg is not None,
    )
