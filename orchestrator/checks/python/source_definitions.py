"""What the checks of Python structure share: files parsed once, quietly, and names for their parts.

Nothing here imports or runs the code it reads.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from msgspec import Struct

from orchestrator.checks.packed_files import read_file
from orchestrator.checks.python.source_encoding import decode_python
from orchestrator.checks.python.syntax_tree_cache import blocks, has_blocks, parse

MAX_BYTES = 1 << 20  # a tree takes some hundred times the bytes of its text

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
DefinitionNode: TypeAlias = FunctionNode | ast.ClassDef
Job: TypeAlias = Mapping[str, Any]

_SAME_SIGNATURE = frozenset(
    [
        "abstractmethod",
        "asynccontextmanager",
        "cache",
        "classmethod",
        "contextmanager",
        "deprecated",
        "final",
        "lru_cache",
        "no_type_check",
        "override",
        "singledispatch",
        "staticmethod",
        "wraps",
    ]
)


class NotParsedError(Exception):
    """A file that cannot be looked at; ``str()`` is the reason, as the gap shows it."""


class Source(Struct, frozen=True):
    """A parsed Python file.

    Attributes:
        path: below the root it was read from.
        text: decoded as Python decodes it, lines ended by a line feed.
        lines: of the text; line n of Python's count is at n - 1.
    """

    path: str
    text: str
    tree: ast.Module
    lines: tuple[str, ...]

    @property
    def first_line(self) -> int:
        """The first line with text, 0 for an empty file."""
        return next((at for at, line in enumerate(self.lines, 1) if line.strip()), 0)


class Definition(Struct, frozen=True):
    """One function or class and where it is.

    Attributes:
        dotted: its name from the module's top, ``Session.request`` or ``outer.inner``.
        parent: what it is defined in, None at the module's top.
        conditional: defined under an ``if``, ``try``, ``with`` or loop of its scope.
    """

    dotted: str
    node: DefinitionNode
    parent: "Definition | None"
    conditional: bool

    @property
    def name(self) -> str:
        """The last part of the dotted name."""
        return self.node.name

    @property
    def public(self) -> bool:
        """No part of the name is private, and all that encloses it are classes."""
        if self.name.startswith("_"):
            return False
        return self.parent is None or (
            isinstance(self.parent.node, ast.ClassDef) and self.parent.public
        )


class Pair(Struct, frozen=True):
    """A changed Python file; its head is parsed, its base when someone asks.

    Attributes:
        head: None when the file was deleted, or is not Python any more.
        added: lines of head that the change adds or alters.
        removed: lines of base that it removes or alters.
    """

    path: str
    old_path: str | None
    status: str
    head: Source | None
    added: frozenset[int]
    removed: frozenset[int]
    base_root: str

    def base(self) -> Source | None:
        """The file as it was, None when it was not there or not Python."""
        if self.old_path is None or not self.old_path.endswith((".py", ".pyi")):
            return None
        try:
            return read(self.base_root, self.old_path)
        except NotParsedError as error:
            raise NotParsedError(f"the base version {error}") from None


def parse_text(text: str, name: str = "<text>") -> ast.Module:
    """Parse without printing anything.

    Raises:
        NotParsedError: a syntax error, or nested deeper than the parser goes.
    """
    try:
        return parse(text, name)
    except SyntaxError as error:
        raise NotParsedError(f"does not parse: line {error.lineno or 1}: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise NotParsedError("does not parse: nested too deeply") from None
    except ValueError as error:
        raise NotParsedError(f"does not parse: line 1: {error}") from None


def read_text(root: str, path: str) -> str:
    """The file's text, decoded by its own encoding comment."""
    try:
        data = read_file(root, path, MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise NotParsedError(f"larger than {MAX_BYTES >> 20} MiB")
        return decode_python(data)
    except OSError as error:
        raise NotParsedError(f"cannot be read: {error.strerror}") from None
    except SyntaxError as error:
        raise NotParsedError(f"does not parse: line 1: {error.msg}") from None
    except ValueError as error:
        raise NotParsedError(f"does not parse: line 1: {error}") from None


def read(root: str, path: str) -> Source:
    """Read and parse a Python file.

    Raises:
        NotParsedError: why it cannot be looked at.
    """
    text = read_text(root, path)
    return Source(path, text, parse_text(text, path), tuple(text.split("\n")))


@contextmanager
def gap_on_error(gaps: dict[str, str], path: str) -> Iterator[None]:
    """Turn what a hostile file can cause into a gap for that file."""
    try:
        yield
    except NotParsedError as error:
        gaps[path] = str(error)
    except (RecursionError, MemoryError):
        gaps[path] = "could not be analyzed: nested too deeply"
    except ValueError as error:
        gaps[path] = f"could not be analyzed: {error}"


def read_pairs(
    job: Job, gaps: dict[str, str], *, suffixes: tuple[str, ...] = (".py",)
) -> Iterator[Pair]:
    """The job's changed Python files; those whose head does not parse become gaps.

    One at a time: whoever keeps a pair keeps its syntax tree in memory.
    """
    for file in job["files"]:
        path, old, status = file["path"], file["old_path"], file["status"]
        in_head = status != "deleted" and path.endswith(suffixes)
        in_base = old is not None and old.endswith(suffixes)
        if status == "mode" or not (in_head or in_base):
            continue
        head = None
        if in_head:
            try:
                head = read(job["head_root"], path)
            except NotParsedError as error:
                gaps[path] = str(error)
                continue
        added, removed = frozenset(file["added"]), frozenset(file["removed"])
        yield Pair(path, old, status, head, added, removed, job["base_root"])


def find_definitions(tree: ast.Module) -> list[Definition]:
    """Every function and class in the order of the text, nested ones included."""
    found: list[Definition] = []
    waiting: list[tuple[ast.AST, Definition | None, bool]] = [(tree, None, False)]
    while waiting:
        node, scope, conditional = waiting.pop()
        for child in chain.from_iterable(blocks(node)):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                dotted = f"{scope.dotted}.{child.name}" if scope else child.name
                inner = Definition(dotted, child, scope, conditional)
                found.append(inner)
                waiting.append((child, inner, False))
            elif has_blocks(child):
                waiting.append((child, scope, True))
    return sorted(
        found, key=lambda definition: (definition.node.lineno, definition.node.col_offset)
    )


def first_line(node: DefinitionNode) -> int:
    """The line of the first decorator, or of the definition when it has none."""
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def find_scopes(text: str) -> list[tuple[int, int, str]]:
    """Functions and classes as (first line, last line, dotted name), decorators included.

    Outer scopes come before the inner ones, so the last that holds a line is the innermost.
    Text that does not parse has none.
    """
    try:
        found = find_definitions(parse_text(text))
    except (NotParsedError, RecursionError, MemoryError):
        return []
    return [
        (first_line(definition.node), definition.node.end_lineno or 1, definition.dotted)
        for definition in found
    ]


def read_decorator_names(node: DefinitionNode) -> list[str]:
    """Each decorator as written, without its arguments: ``pytest.mark.skip``."""
    written = (
        decorator.func if isinstance(decorator, ast.Call) else decorator
        for decorator in node.decorator_list
    )
    return [dotted_name(decorator) for decorator in written]


def dotted_name(node: ast.AST) -> str:
    """``a.b.c`` for names and attributes of names; what is not a name gives an empty first part."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "")
    return ".".join(reversed(parts))


def keeps_signature(node: FunctionNode) -> bool:
    """Whether callers see the parameters as written.

    A decorator with arguments that is not known (a command's options, a route) may consume them.
    """
    return all(
        not isinstance(decorator, ast.Call) or name.rpartition(".")[2] in _SAME_SIGNATURE
        for decorator, name in zip(node.decorator_list, read_decorator_names(node), strict=True)
    )


def find_docstring(node: ast.Module | DefinitionNode) -> ast.Constant | None:
    """The docstring's literal, or None."""
    if node.body and isinstance(node.body[0], ast.Expr):
        value = node.body[0].value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value
    return None


def find_nearest(path: str, candidates: Iterable[str]) -> str | None:
    """The candidate that shares most leading directories; then the least deep, then by name."""
    own = PurePosixPath(path).parts[:-1]

    def distance(other: str) -> tuple[int, int, str]:
        parts = PurePosixPath(other).parts[:-1]
        shared = 0
        while shared < min(len(own), len(parts)) and own[shared] == parts[shared]:
            shared += 1
        return -shared, len(parts), other

    return min(candidates, key=distance, default=None)
