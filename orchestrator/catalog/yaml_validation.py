"""Data files into models: every fault is one line that says what is wrong and what is allowed."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import Struct, ValidationError, convert, structs

from orchestrator.catalog.yaml_documents import Node, decode_text, parse_text
from orchestrator.errors import ConfigError

T = TypeVar("T", bound=Struct)
Path = tuple[str | int, ...]

_KINDS: Mapping[str, str] = {
    "array": "a list",
    "bool": "true or false",
    "date": "a day, written as 2027-06-30",
    "float": "a number",
    "int": "a whole number",
    "object": "a map of keys",
    "str": "text",
}
_HINTS = {"str": " (quote a number, or true and false, if it is meant as text)"}
_SIGNS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}
_EXPECTED = re.compile(
    r"Expected `(?P<kind>\w+)( \| null)?`(, got `\w+`)?(?P<bound> .*?)?( - at .*)?$", re.DOTALL
)


class Markdown(Struct, frozen=True):
    """A Markdown file with front matter.

    Attributes:
        head: the front matter.
        body: the text below it, without blank lines at its ends.
        line: the body's first line in the file, 1-based.
    """

    head: Node
    body: str
    line: int

    def error(self, message: str, line: int) -> ConfigError:
        """A fault at a 1-based line of the body."""
        return ConfigError(message, self.head.file, self.line + line - 1)


def read_yaml(model: type[T], data: bytes, name: str) -> T:
    """Read a YAML file into a model.

    Args:
        model: should derive from ``Strict``, else unknown keys pass unseen.
        data: the file's content.
        name: the file's name in messages.

    Raises:
        ConfigError: the first fault, with its line.
    """
    faults: list[ConfigError] = []
    found = convert_node(model, parse_yaml(data, name), faults)
    if found is None:
        raise faults[0]
    return found


def parse_yaml(data: bytes, name: str) -> Node:
    """A YAML file's content with places.

    Raises:
        ConfigError: it is empty, over 1 MB, not UTF-8, or not YAML as ``yamltree`` has it.
    """
    return parse_text(decode_text(data, name), name)


def split_front_matter(data: bytes, name: str) -> Markdown:
    """Split a Markdown file into front matter and body.

    Raises:
        ConfigError: no front matter, or as ``parse_yaml``.
    """
    lines = decode_text(data, name).split("\n")
    if lines[0].rstrip() != "---":
        raise ConfigError("must begin with front matter: a line ---, YAML, a line ---", name, 1)
    end = next((at for at, text in enumerate(lines[1:], 1) if text.rstrip() == "---"), None)
    if end is None:
        raise ConfigError("the front matter does not end; close it with a line ---", name, 1)
    head = parse_text("\n".join(lines[1:end]), name, before=1)
    start = next((at for at in range(end + 1, len(lines)) if lines[at].strip()), end + 1)
    return Markdown(head, "\n".join(lines[start:]).strip(), start + 1)


def convert_node(model: type[T], node: Node, faults: list[ConfigError]) -> T | None:
    """Fit a tree into a model.

    Returns:
        The model, or None when it does not fit; then every fault is added to ``faults``.
    """
    try:
        return convert(node.value, model)
    except ValidationError:
        found = [node.error(said, *path) for path, said in _faults(model, node.value, ())]
    faults.extend(sorted(found, key=lambda fault: (fault.file, fault.line)))
    return None


def describe_unknown_name(kind: str, name: str, allowed: Iterable[str], place: str = "") -> str:
    """The message for a name that is none of the allowed ones, with the nearest match."""
    from difflib import get_close_matches  # noqa: PLC0415 - only who made a mistake pays for it

    options = sorted(allowed)
    near = get_close_matches(name, options, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    inside = f" in {place}" if place else ""
    return f"unknown {kind} {name!r}{inside}; {hint}allowed: {', '.join(options) or 'none'}"


def _faults(kind: Any, given: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every fault of a value and where it stands; what is below goes before the value itself."""
    try:
        convert(given, kind)
    except ValidationError as error:
        found = [
            fault
            for key, below, value in _parts(kind, given)
            for fault in _faults(below, value, (*path, key))
        ]
        found += _key_faults(kind, given, path)
        yield from found or [(path, _message(kind, given, path, error))]


def _parts(kind: Any, given: Any) -> Iterator[tuple[str | int, Any, Any]]:
    """What a list or a map holds: where, the type that belongs there, and the value."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        yield from _parts(args[0], given)
    elif origin in {Union, types.UnionType}:
        for option in args:
            yield from _parts(option, given)
    elif origin is tuple and isinstance(given, list):
        yield from ((at, args[0], value) for at, value in enumerate(given))
    elif origin in {dict, Mapping} and isinstance(given, dict):
        yield from ((key, args[1], value) for key, value in given.items())
    elif model := _model(kind, given):
        hints = get_type_hints(model, include_extras=True)
        for field in structs.fields(model):
            if field.encode_name in given:
                yield field.encode_name, hints[field.name], given[field.encode_name]


def _key_faults(kind: Any, given: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Keys that a map lacks or should not have."""
    model = _model(kind, given)
    if model is None:
        return
    fields = structs.fields(model)
    inside = f" in {_place(path)}" if path else ""
    names = [field.encode_name for field in fields]
    required = [field.encode_name for field in fields if field.required]
    for key in given:
        if key not in names:
            yield (
                (*path, key),
                describe_unknown_name("key", key, names, _place(path) if path else ""),
            )
    for name in required:
        if name not in given:
            said = f"the key {name!r} is missing{inside}; required: {', '.join(required)}"
            yield path, said


def _model(kind: Any, given: Any) -> type[Struct] | None:
    """The model that a map is held against."""
    options = get_args(kind) if get_origin(kind) in {Union, types.UnionType} else (kind,)
    models = (kind for kind in options if isinstance(kind, type) and issubclass(kind, Struct))
    return next(models, None) if isinstance(given, dict) else None


def _message(kind: Any, given: Any, path: Path, error: ValidationError) -> str:
    if isinstance(error.__cause__, ValueError):
        return f"{_place(path)} {error.__cause__}" if path else str(error.__cause__)
    options = [repr(value) for value in _options(kind)]
    match = _EXPECTED.match(str(error))
    if options:
        *others, last = options
        said = f"{', '.join(others)} or {last}" if others else last
    elif match is None:
        said = _KINDS["date"]  # what is wrong with a day's text is put in words of its own
    else:
        kind, bound = match["kind"], match["bound"]
        said = _KINDS[kind] + (_bound(kind, bound) if bound else _HINTS.get(kind, ""))
    return f"{_place(path)} must be {said}, not {json.dumps(given, ensure_ascii=False):.60}"


def _bound(kind: str, text: str) -> str:
    """`` of at least 1 characters`` for `` of length >= 1``."""
    number = text.removeprefix(" of length")
    unit = {"str": " characters", "array": " items"}.get(kind, "") if number != text else ""
    return re.sub("[<>]=?", lambda sign: _SIGNS[sign[0]], number).removesuffix(".0") + unit


def _options(kind: Any) -> Iterator[Any]:
    """The values that are allowed, where a type lists them."""
    for option in (kind, *get_args(kind)):
        if get_origin(option) is Literal:
            yield from get_args(option)


def _place(path: Path) -> str:
    """``criteria[1].levels`` for a path of keys and indices."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).lstrip(".") or "the file"
