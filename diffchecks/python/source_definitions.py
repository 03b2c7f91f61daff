"""What the checks of Python structure share: parsed files and their definitions.

The code under review is neither imported nor run.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import PurePosixPath
from typing import TypeAlias

from msgspec import Struct

from diffchecks.check_io import Gap
from diffchecks.data_files import read_names
from diffchecks.jobs import ComparisonJob
from diffchecks.packed_files import read_file
from diffchecks.python.source_encoding import decode_python
from diffchecks.python.syntax_tree_cache import blocks, has_blocks, parse, walk

MAX_BYTES = 2 << 20  # a tree needs about a hundred times the bytes of its text

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
DefinitionNode: TypeAlias = FunctionNode | ast.ClassDef


class ParsedModule(Struct, frozen=True):
    """A parsed Python file.

    Attributes:
        path: below the root it was read from.
        text: decoded as Python decodes it, with line feeds as line ends.
        lines: of the text; Python's line n is at index n - 1.
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
    """A function or class and its place.

    Attributes:
        dotted: its qualified name in the module, ``Session.request`` or ``outer.inner``.
        parent: the enclosing definition; None at the module's top level.
        conditional: it is inside an ``if``, ``try``, ``with`` or loop of its scope.
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
    def lines(self) -> range:
        """Its lines with those of its decorators."""
        return range(first_line(self.node), (self.node.end_lineno or self.node.lineno) + 1)

    @property
    def public(self) -> bool:
        """Whether no part of the name is private and all enclosing definitions are classes."""
        if self.name.startswith("_"):
            return False
        return self.parent is None or (
            isinstance(self.parent.node, ast.ClassDef) and self.parent.public
        )


class ChangedModule(Struct, frozen=True):
    """A changed Python file; its head is parsed, its base on first access.

    Attributes:
        head: None if the file was deleted or is no longer Python.
        added: lines of head that the change adds or alters.
        removed: lines of base that it removes or alters.
    """

    path: str
    old_path: str | None
    status: str
    head: ParsedModule | None
    added: frozenset[int]
    removed: frozenset[int]
    base_root: str

    def base(self) -> ParsedModule | None:
        """The file in base; None if it did not exist or was not Python."""
        if self.old_path is None or not self.old_path.endswith((".py", ".pyi")):
            return None
        try:
            return read(self.base_root, self.old_path)
        except Gap as error:
            raise Gap(f"the base version {error}") from None


def parse_text(text: str, name: str = "<text>") -> ast.Module:
    """Parse a text without printing warnings.

    Raises:
        Gap: a syntax error, or nested too deeply for the parser.
    """
    try:
        return parse(text, name)
    except SyntaxError as error:
        raise Gap(f"does not parse: line {error.lineno or 1}: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise Gap("does not parse: nested too deeply") from None
    except ValueError as error:
        raise Gap(f"does not parse: line 1: {error}") from None


def read_text(root: str, path: str) -> str:
    """Read a file's text, decoded by its own encoding declaration."""
    try:
        data = read_file(root, path, MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise Gap(f"larger than {MAX_BYTES >> 20} MiB")
        return decode_python(data)
    except OSError as error:
        raise Gap(f"cannot be read: {error.strerror}") from None
    except SyntaxError as error:
        raise Gap(f"does not parse: line 1: {error.msg}") from None
    except ValueError as error:
        raise Gap(f"does not parse: line 1: {error}") from None


def read(root: str, path: str) -> ParsedModule:
    """Read and parse a Python file.

    Raises:
        Gap: the reason why it cannot be checked.
    """
    text = read_text(root, path)
    return ParsedModule(path, text, parse_text(text, path), tuple(text.split("\n")))


@contextmanager
def gap_on_error(gaps: dict[str, str], path: str) -> Iterator[None]:
    """Turn what a hostile file can cause into a gap for that file."""
    try:
        yield
    except Gap as error:
        gaps[path] = str(error)
    except (RecursionError, MemoryError):
        gaps[path] = "could not be analyzed: nested too deeply"
    except ValueError as error:
        gaps[path] = f"could not be analyzed: {error}"


def read_pairs(
    job: ComparisonJob, gaps: dict[str, str], *, suffixes: tuple[str, ...] = (".py",)
) -> Iterator[ChangedModule]:
    """Read the job's changed Python files; those whose head does not parse become gaps.

    They are yielded one at a time, since a pair keeps its syntax tree in memory.
    """
    for file in job.files:
        path, old, status = file.path, file.old_path, file.status
        in_head = status != "deleted" and path.endswith(suffixes)
        in_base = old is not None and old.endswith(suffixes)
        if status == "mode" or not (in_head or in_base):
            continue
        head = None
        if in_head:
            try:
                head = read(job.head_root, path)
            except Gap as error:
                gaps[path] = str(error)
                continue
        added, removed = frozenset(file.added), frozenset(file.removed)
        yield ChangedModule(path, old, status, head, added, removed, job.base_root)


def read_base_with(job: ComparisonJob, names: Iterable[str]) -> Iterator[ParsedModule]:
    """The changed Python files as base has them, of those that say one of some names.

    One that does not parse is left out.
    """
    words = sorted(set(names))
    said = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b")
    for file in job.files if words else ():
        if file.old_path is not None and file.old_path.endswith(".py"):
            with suppress(Gap, RecursionError, MemoryError, ValueError):
                if said.search(read_text(job.base_root, file.old_path)):
                    yield read(job.base_root, file.old_path)


def find_definitions(tree: ast.Module) -> list[Definition]:
    """All functions and classes in source order, including nested ones."""
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
    return sorted(found, key=lambda one: (one.node.lineno, one.node.col_offset))


def first_line(node: DefinitionNode) -> int:
    """The line of the first decorator, or of the definition without one."""
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def definitions_in(text: str) -> list[Definition]:
    """The definitions of a text, none where it does not parse; the last around a line is inmost."""
    try:
        return find_definitions(parse_text(text))
    except (Gap, RecursionError, MemoryError):
        return []


def read_decorator_names(node: DefinitionNode) -> list[str]:
    """Each decorator as written, without its arguments: ``pytest.mark.skip``."""
    written = (
        decorator.func if isinstance(decorator, ast.Call) else decorator
        for decorator in node.decorator_list
    )
    return [dotted_name(decorator) for decorator in written]


def dotted_name(node: ast.AST) -> str:
    """``a.b.c`` for names and their attributes; anything else gives an empty first part."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "")
    return ".".join(reversed(parts))


def keeps_signature(node: FunctionNode) -> bool:
    """Whether decorators leave the signature as written.

    An unknown decorator with arguments (a command's options, a route) may change it.
    """
    return all(
        not isinstance(decorator, ast.Call)
        or name.rpartition(".")[2] in read_names("decorators_same_signature")
        for decorator, name in zip(node.decorator_list, read_decorator_names(node), strict=True)
    )


def find_docstring(node: ast.Module | DefinitionNode) -> ast.Constant | None:
    """The docstring's node, or None."""
    if node.body and isinstance(node.body[0], ast.Expr):
        value = node.body[0].value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value
    return None


def find_stored_names(node: ast.AST) -> set[str]:
    """The names and attributes that code in a node assigns to."""
    found = (child for child in walk(node) if isinstance(child, ast.Name | ast.Attribute))
    return {
        child.id if isinstance(child, ast.Name) else child.attr
        for child in found
        if isinstance(child.ctx, ast.Store)
    }


def find_nearest(path: str, candidates: Iterable[str]) -> str | None:
    """The candidate with the most common leading directories, then the least deep, then by name."""
    own = PurePosixPath(path).parts[:-1]

    def distance(other: str) -> tuple[int, int, str]:
        parts = PurePosixPath(other).parts[:-1]
        shared = 0
        while shared < min(len(own), len(parts)) and own[shared] == parts[shared]:
            shared += 1
        return -shared, len(parts), other

    return min(candidates, key=distance, default=None)
