"""Syntax errors, duplicate keys, versions written as numbers, and unreachable statements."""

import ast
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, cast

import yaml

from diffchecks.check_io import (
    CheckReply,
    Gap,
    NotApplicable,
    RawFinding,
    Source,
    check_files,
    load_toml,
)
from diffchecks.data_files import read_names, read_patterns, vocabulary
from diffchecks.file_patterns import file_names, matches
from diffchecks.jobs import SideJob
from diffchecks.python import syntax_downgrade
from diffchecks.python.source_encoding import HiddenTextError
from diffchecks.python.syntax_tree_cache import all_blocks, parse, walk
from diffchecks.template_marks import describe_template

_NEWER = vocabulary("newer_python")
_SHOWN = 50  # keys of a file that appear twice
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PATTERNS = read_patterns("syntax_and_duplicates")


def looks(source: Source) -> Iterator[RawFinding]:
    """Parse one file according to its extension."""
    match source.suffix:
        case ".py" | ".pyi":
            yield from _python(source)
        case ".json" | ".jsonc":
            yield from _json(source)
        case ".yaml" | ".yml":
            yield from _yaml(source)
        case ".toml":
            yield from _toml(source)


def _python(source: Source) -> Iterator[RawFinding]:
    try:
        for block in all_blocks(parse(source.data)):
            yield from _behind_an_exit(source.path, block)
    except HiddenTextError as error:
        raise Gap(str(error)) from None
    except SyntaxError as error:
        _leave_templates_out(source)
        line = min(error.lineno or 1, len(source.lines))
        if not syntax_downgrade.COMPLETE and _NEWER.search(source.lines[line - 1]):
            raise Gap(f"line {line} may need a newer Python than this one") from None
        yield _broken("python", source, line, f"Python cannot parse this: {error.msg}")
    except ValueError as error:
        yield _broken("python", source, 1, f"Python cannot parse this: {error}")


def _broken(code: str, source: Source, line: int, message: str) -> RawFinding:
    """At a line with text, or before it; that base's file could not be parsed either is no news."""
    last = min(line, len(source.lines))
    line = next((n for n in range(last, 1, -1) if source.lines[n - 1].strip()), 1)
    return RawFinding(code, source.path, line, message, scope=source.path)


def _json(source: Source) -> Iterator[RawFinding]:
    if not source.text.strip():
        return
    twice: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        twice.extend(key for key, _ in items if key in seen or seen.add(key))  # type: ignore[func-returns-value]

    text = source.text
    commented = (
        matches(source.path, tuple(read_names("json_with_comments")))
        or "/." in f"/{source.path}"
        # From the first line on; package managers take none.
        or (text.lstrip()[:2] in {"//", "/*"} and not matches(source.path, file_names("manifests")))
    )
    try:
        json.loads(_bare(text) if commented else text, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        _refuse_template(source, "JSON")
        if not commented and ("//" in text or "/*" in text):
            raise Gap("JSON with comments in a file that must be plain JSON") from None
        yield _broken("json", source, error.lineno, f"not JSON: {error.msg}")
    for key in islice(dict.fromkeys(twice), _SHOWN):  # each is looked for in the whole file
        spelled = re.compile(re.escape(json.dumps(key)) + r"\s*:")
        places = [n for n, line in enumerate(source.lines, 1) if spelled.search(line)]
        if places:
            yield RawFinding(
                "duplicate-key", source.path, places[-1], f"the key {key!r} appears twice"
            )


def _bare(text: str) -> str:
    """JSON with its comments removed, keeping line numbers."""

    def kept(match: re.Match[str]) -> str:
        return match["string"] or "\n" * match[0].count("\n")

    return _PATTERNS["last_comma"].sub(kept, _PATTERNS["json_comment"].sub(kept, text))


def _refuse_template(source: Source, language: str) -> None:
    """Raise a gap if a file that does not parse is a template; skip template directories."""
    _leave_templates_out(source)
    if describe_template(source.path, source.text):
        raise Gap(f"a template, not plain {language}") from None


def _leave_templates_out(source: Source) -> None:
    if _PATTERNS["templates"].search(source.path) and describe_template(source.path, source.text):
        raise NotApplicable from None


def _yaml(source: Source) -> Iterator[RawFinding]:
    try:
        yield from _twice(source)
        yield from versions_as_numbers(source)
    except yaml.MarkedYAMLError as error:
        _refuse_template(source, "YAML")
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        yield _broken("yaml", source, line, f"not YAML: {error.problem or error.context}")
    except yaml.YAMLError as error:
        yield _broken("yaml", source, 1, f"not YAML: {str(error).splitlines()[0]}")


def _events(text: str) -> Iterator[Any]:
    """The parser's events; an alias without an anchor in its document is an error."""
    anchors = set[str]()
    for event in yaml.parse(text, Loader=_LOADER):
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.DocumentStartEvent):
            anchors.clear()
        elif isinstance(event, yaml.AliasEvent) and anchor not in anchors:
            what, mark = f"the alias *{anchor} has no anchor", cast("Any", event.start_mark)
            raise yaml.MarkedYAMLError(problem=what, problem_mark=mark)
        elif anchor:
            anchors.add(anchor)
        yield event


def _twice(source: Source) -> Iterator[RawFinding]:
    """Duplicate keys in mappings, found by parser events, so that no depth overflows a stack."""
    open_maps: list[tuple[set[str], bool] | None] = []

    def value_done() -> None:
        if open_maps and open_maps[-1] is not None:
            keys, is_key = open_maps[-1]
            open_maps[-1] = keys, not is_key

    found: list[RawFinding] = []
    for event in _events(source.text):
        if isinstance(event, yaml.MappingStartEvent):
            open_maps.append((set(), True))
        elif isinstance(event, yaml.SequenceStartEvent):
            open_maps.append(None)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            open_maps.pop()
            value_done()
        elif isinstance(event, yaml.ScalarEvent | yaml.AliasEvent):
            top = open_maps[-1] if open_maps else None
            if top is not None and top[1] and isinstance(event, yaml.ScalarEvent):
                keys = top[0]
                if event.value in keys and event.value != "<<":
                    line = event.start_mark.line + 1 if event.start_mark else 1
                    what = f"the key {event.value!r} appears twice"
                    found.append(RawFinding("duplicate-key", source.path, line, what))
                keys.add(event.value)
            value_done()
    yield from found


def _toml(source: Source) -> Iterator[RawFinding]:
    try:
        load_toml(source.text)
    except tomllib.TOMLDecodeError as error:
        _refuse_template(source, "TOML")
        place = re.search(r"at line (\d+)", str(error))
        line = int(place.group(1)) if place else len(source.lines)
        yield _broken("toml", source, line, f"not TOML: {error}")


def run(job: SideJob) -> CheckReply:
    """Check the files of a job (see ``check_io``)."""
    return check_files(job, looks)


def versions_as_numbers(source: Source) -> Iterator[RawFinding]:
    """Find unquoted versions that end in a zero, in files that configure a job's environment."""
    if not _PATTERNS["jobs"].search(source.path):
        return
    named = False
    for number, line in enumerate(source.lines, 1):
        bare = _PATTERNS["yaml_comment"].sub("", line)
        if key := _PATTERNS["key"].fullmatch(bare):
            named, bare = bool(_PATTERNS["named"].fullmatch(key["key"])), key["value"] or ""
        if named and (found := _PATTERNS["loses"].search(bare)):
            says = f"YAML reads {found[0]} as the number {found[0].rstrip('0')}"
            yield RawFinding("version-number", source.path, number, says)


_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def _behind_an_exit(path: str, block: Sequence[ast.stmt]) -> Iterator[RawFinding]:
    """Find the first statement after one that always leaves its block."""
    for at, statement in enumerate(block[:-1]):
        if not (isinstance(statement, _EXITS) or _is_endless(statement)):
            continue
        rest = block[at + 1 :]
        inside = (child for statement in rest for child in walk(statement))
        # A yield there may make the function a generator.
        yields = any(isinstance(child, ast.Yield | ast.YieldFrom) for child in inside)
        if not (yields or all(map(_does_nothing, rest))):
            kind = type(statement).__name__.lower()
            says = f"unreachable: line {statement.lineno} exits before it ({kind})"
            yield RawFinding("unreachable", path, rest[0].lineno, says)
        return


def _is_endless(statement: ast.stmt) -> bool:
    """Whether it is a ``while True`` without a ``break``."""
    return (
        isinstance(statement, ast.While)
        and isinstance(statement.test, ast.Constant)
        and bool(statement.test.value)
        and not any(map(_breaks, statement.body))
    )


def _breaks(node: ast.AST) -> bool:
    """Whether it contains a ``break`` of the enclosing loop, not of an inner one."""
    if isinstance(node, ast.Break):
        return True
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        return False
    inner = node.orelse if isinstance(node, ast.For | ast.AsyncFor | ast.While) else None
    return any(map(_breaks, ast.iter_child_nodes(node) if inner is None else inner))


def _does_nothing(statement: ast.stmt) -> bool:
    """Whether a statement has no effect: ``pass``, a string, a marker of unreachability."""
    return (
        isinstance(statement, ast.Pass | ast.Raise)
        or (isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Constant))
        or (
            isinstance(statement, ast.Expr)
            and (
                isinstance(statement.value, ast.Constant)
                or "assert_never" in ast.dump(statement.value)
            )
        )
    )
