"""Literal regular expressions in Python and JavaScript that take exponential or cubic time."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from diffchecks.check_io import CheckReply, Gap, NotApplicable, RawFinding, Source, check_files
from diffchecks.data_files import read_names, read_patterns, read_yaml
from diffchecks.jobs import SideJob
from diffchecks.python import syntax_tree_cache
from diffchecks.regular_expressions.backtracking import MAX_LENGTH, Growth, find_growth

_MESSAGES: Mapping[Growth, str] = read_yaml("texts.yaml")["regular_expressions"]

# A file is parsed only if it contains a repeated group or three loops, since other expressions are
# fast.
_SUSPECT = read_patterns("regular_expressions")["suspect"]

_CALLS = read_names("expression_calls")
_VALIDATORS = read_names("expression_validators")
_GRAMMARS = {".ts": "typescript", ".mts": "typescript", ".cts": "typescript", ".tsx": "tsx"}
_NAMED_GROUP = re.compile(r"(?<!\\)\(\?<(?![=!])")
# What a dot is in JavaScript, where a carriage return ends a line as well.
_DOT = re.compile(r"(\\.|\[(?:\\.|[^\]\\])*\])|\.", re.DOTALL)
_ANY_OF_LINE = r"[^\n\r\u2028\u2029]"


def run(job: SideJob) -> CheckReply:
    """Check the files of a job (see ``check_io``)."""
    return check_files(job, find_slow)


def find_slow(source: Source) -> Iterator[RawFinding]:
    """Find regular expressions in a file that backtrack excessively on some texts."""
    if not _SUSPECT.search(source.text):
        raise NotApplicable
    found = _in_python if source.suffix in {".py", ".pyi", ".pyw"} else _in_javascript
    for growth, line, column in found(source):
        yield RawFinding(growth, source.path, line, _MESSAGES[growth], column=column)


def _in_python(source: Source) -> Iterator[tuple[Growth, int, int]]:
    try:
        tree = syntax_tree_cache.parse(source.data, source.path)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Gap("it is not Python that can be parsed") from error
    modules, functions = _imported_names(tree)
    texts = _named_texts(tree)
    for node in syntax_tree_cache.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = _called(node, modules, functions)
        named = [each.value for each in node.keywords if each.arg in {"pattern", "regex"}]
        written = next(iter([*named, *node.args[:1]]), None)
        literal = texts.get(written.id) if isinstance(written, ast.Name) else written
        if called is None or written is None or not isinstance(literal, ast.Constant):
            continue
        if not isinstance(literal.value, str | bytes):
            continue
        growth = find_growth(literal.value, _flags(node), whole=called == "fullmatch")
        if growth:
            yield growth, written.lineno, written.col_offset + 1


def _imported_names(tree: ast.Module) -> tuple[set[str], dict[str, str]]:
    """The names of the module ``re`` and of its functions in a file."""
    modules: set[str] = set()
    functions: dict[str, str] = {}
    for node in syntax_tree_cache.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {each.asname or each.name for each in node.names if each.name == "re"}
        elif isinstance(node, ast.ImportFrom) and node.module == "re":
            functions |= {each.asname or each.name: each.name for each in node.names}
    return modules, functions


def _called(node: ast.Call, modules: set[str], functions: dict[str, str]) -> str | None:
    """The known function or validator that a call passes a regular expression to, if any."""
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in _VALIDATORS:
        return name
    if isinstance(function, ast.Attribute):
        owner = function.value
        known = isinstance(owner, ast.Name) and owner.id in modules
    else:
        name, known = functions.get(name, ""), True
    return name if known and name in _CALLS else None


def _named_texts(tree: ast.Module) -> dict[str, ast.Constant]:
    """Name → the only text that it stands for in the file."""
    texts: dict[str, list[ast.Constant]] = {}
    bound: Counter[str] = Counter()
    for node in syntax_tree_cache.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str()) as text):
                texts.setdefault(name, []).append(text)
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                bound[name] += 1
    return {
        name: found[0]
        for name, found in texts.items()
        if len(found) == bound[name] and len({text.value for text in found}) == 1
    }


def _flags(node: ast.Call) -> int:
    """The flags of ``re`` that a call passes."""
    flags = 0
    for argument in (*node.args[1:], *(each.value for each in node.keywords)):
        for part in syntax_tree_cache.walk(argument):
            name = part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", "")
            if name.isupper() and isinstance(flag := getattr(re, name, None), re.RegexFlag):
                flags |= flag
    return flags


def _in_javascript(source: Source) -> Iterator[tuple[Growth, int, int]]:
    from ast_grep_py import SgRoot  # noqa: PLC0415 - 65 ms that only a job with such files pays

    text = source.text.encode("utf-8", "replace").decode()
    grammar = _GRAMMARS.get(source.suffix, "tsx" if source.suffix == ".jsx" else "javascript")
    for node in SgRoot(text, grammar).root().find_all(kind="regex"):
        written = node.text()
        body, _, letters = written[1:].rpartition("/")
        if len(body) > MAX_LENGTH or not _SUSPECT.search(body):
            continue
        body = _NAMED_GROUP.sub("(?P<", body).replace("[^]", r"[\s\S]")
        if "s" not in letters:
            body = _DOT.sub(lambda found: found[1] or _ANY_OF_LINE, body)
        flags = re.ASCII
        for letter, flag in (("i", re.IGNORECASE), ("s", re.DOTALL), ("m", re.MULTILINE)):
            if letter in letters:
                flags |= flag
        if growth := find_growth(body, flags):
            start = node.range().start
            yield growth, start.line + 1, start.column + 1
