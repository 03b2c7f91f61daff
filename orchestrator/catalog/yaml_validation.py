"""Convert YAML to structs: every error is one line that says what is wrong and what is allowed."""

import json
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import Struct, ValidationError, convert, structs

from orchestrator.catalog.yaml_parsing import YamlNode, decode_text, parse_text
from orchestrator.data_directories import read_table
from orchestrator.errors import ConfigError

T = TypeVar("T", bound=Struct)
Path = tuple[str | int, ...]
FEW = 20  # names that a message lists beside the nearest

_NAMES = read_table(__file__, "yaml_type_names.yaml")
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

    head: YamlNode
    body: str
    line: int

    def error(self, message: str, line: int) -> ConfigError:
        """An error at a 1-based line of the body."""
        return ConfigError(message, self.head.file, self.line + line - 1)


def read_yaml(model: type[T], data: bytes, name: str) -> T:
    """Read a YAML file into a struct.

    Args:
        model: should derive from ``Strict``, otherwise unknown keys are ignored.

    Raises:
        ConfigError: the first error, with its line.
    """
    errors: list[ConfigError] = []
    value = convert_node(model, parse_yaml(data, name), errors)
    if value is None:
        raise errors[0]
    return value


def parse_yaml(data: bytes, name: str, large: bool = False) -> YamlNode:
    """Parse a YAML file into a tree.

    Args:
        large: ten times the usual size is allowed.

    Raises:
        ConfigError: it is empty, over 1 MB, not UTF-8, or not in our subset of YAML.
    """
    return parse_text(decode_text(data, name, large), name, large=large)


def split_front_matter(data: bytes, name: str) -> Markdown:
    """Split a Markdown file into front matter and body.

    Raises:
        ConfigError: no front matter, or as ``parse_yaml``.
    """
    lines = decode_text(data, name).split("\n")
    if lines[0].rstrip() != "---":
        raise ConfigError("must begin with front matter: a line ---, YAML, and a line ---", name, 1)
    end = next((at for at, text in enumerate(lines[1:], 1) if text.rstrip() == "---"), None)
    if end is None:
        raise ConfigError("the front matter does not end; close it with a line ---", name, 1)
    head = parse_text("\n".join(lines[1:end]), name, before=1)
    start = next((at for at in range(end + 1, len(lines)) if lines[at].strip()), end + 1)
    return Markdown(head, "\n".join(lines[start:]).strip(), start + 1)


def read_page(
    model: type[T], data: bytes, name: str, errors: list[ConfigError]
) -> tuple[Markdown, T] | None:
    """A Markdown file and its front matter as a struct; None, and ``errors`` filled, else."""
    try:
        page = split_front_matter(data, name)
    except ConfigError as error:
        errors.append(error)
        return None
    head = convert_node(model, page.head, errors)
    return None if head is None else (page, head)


def convert_node(model: type[T], node: YamlNode, errors: list[ConfigError]) -> T | None:
    """Convert a tree to a struct.

    Returns:
        The struct, or None when it does not fit; then every error is added to ``errors``.
    """
    try:
        return convert(node.value, model)
    except ValidationError:
        found = [node.error(text, *path) for path, text in _find_errors(model, node.value, ())]
    errors.extend(sorted(found, key=lambda error: (error.file, error.line)))
    return None


def describe_unknown_name(kind: str, name: str, allowed: Iterable[str], where: str = "") -> str:
    """The message for an unknown name, with the allowed ones and the nearest match."""
    from difflib import get_close_matches  # noqa: PLC0415 - only errors need it

    options = sorted(allowed)
    near = get_close_matches(name, options, n=1)
    inside = f" in {where}" if where else ""
    if near and len(options) > FEW:
        return f"unknown {kind} {name!r}{inside}; did you mean {near[0]!r}?"
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"unknown {kind} {name!r}{inside}; {hint}allowed: {', '.join(options) or 'none'}"


def _find_errors(kind: Any, given: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every error of a value with its path; errors of items come before those of the value."""
    try:
        convert(given, kind)
    except ValidationError as error:
        found = [
            found_error
            for key, below, value in _children(kind, given)
            for found_error in _find_errors(below, value, (*path, key))
        ]
        found += _find_key_errors(kind, given, path)
        yield from found or [(path, _describe_error(kind, given, path, error))]


def _children(kind: Any, given: Any) -> Iterator[tuple[str | int, Any, Any]]:
    """The items of a list or map: index or key, expected type, and value."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        yield from _children(args[0], given)
    elif origin in {Union, types.UnionType}:
        for option in args:
            yield from _children(option, given)
    elif origin is tuple and isinstance(given, list):
        yield from ((at, args[0], value) for at, value in enumerate(given))
    elif origin in {dict, Mapping} and isinstance(given, dict):
        yield from ((key, args[1], value) for key, value in given.items())
    elif model := _struct_type(kind, given):
        hints = get_type_hints(model, include_extras=True)
        for field in structs.fields(model):
            if field.encode_name in given:
                yield field.encode_name, hints[field.name], given[field.encode_name]


def _find_key_errors(kind: Any, given: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Errors for missing and unknown keys of a map."""
    model = _struct_type(kind, given)
    if model is None:
        return
    fields = structs.fields(model)
    inside = f" in {_format_path(path)}" if path else ""
    names = [field.encode_name for field in fields]
    required = [field.encode_name for field in fields if field.required]
    for key in given:
        if key not in names:
            yield (
                (*path, key),
                describe_unknown_name("key", key, names, _format_path(path) if path else ""),
            )
    if missing := [repr(name) for name in required if name not in given]:
        absent = f"key {missing[0]} is" if len(missing) == 1 else f"keys {', '.join(missing)} are"
        yield path, f"the {absent} missing{inside}; required: {', '.join(required)}"


def _struct_type(kind: Any, given: Any) -> type[Struct] | None:
    """The struct that a map is converted to."""
    options = get_args(kind) if get_origin(kind) in {Union, types.UnionType} else (kind,)
    models = (kind for kind in options if isinstance(kind, type) and issubclass(kind, Struct))
    return next(models, None) if isinstance(given, dict) else None


def _describe_error(kind: Any, given: Any, path: Path, error: ValidationError) -> str:
    if isinstance(error.__cause__, ValueError):
        return f"{_format_path(path)} {error.__cause__}" if path else str(error.__cause__)
    options = [repr(value) for value in _allowed_values(kind)]
    match = _EXPECTED.match(str(error))
    if options:
        *others, last = options
        expected = f"{', '.join(others)} or {last}" if others else last
    elif match is None:
        expected = _NAMES["types"]["date"]  # msgspec words the errors of dates in another way
    else:
        kind, bound = match["kind"], match["bound"]
        expected = _NAMES["types"][kind] + (
            _format_bound(kind, bound) if bound else _NAMES["hints"].get(kind, "")
        )
    return (
        f"{_format_path(path)} must be {expected}, not {json.dumps(given, ensure_ascii=False):.60}"
    )


def _format_bound(kind: str, text: str) -> str:
    """`` of at least 1 characters`` for `` of length >= 1``."""
    text = _NAMES["bounds"].get(text, text)
    number = text.removeprefix(" of length")
    unit = {"str": " characters", "array": " items"}.get(kind, "") if number != text else ""
    return re.sub("[<>]=?", lambda sign: _NAMES["signs"][sign[0]], number).removesuffix(".0") + unit


def _allowed_values(kind: Any) -> Iterator[Any]:
    """The allowed values of a type that lists them."""
    for option in (kind, *get_args(kind)):
        if get_origin(option) is Literal:
            yield from get_args(option)


def _format_path(path: Path) -> str:
    """``criteria[1].levels`` for a path of keys and indices."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).lstrip(".") or "the file"
