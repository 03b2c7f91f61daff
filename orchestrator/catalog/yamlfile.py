"""Data files into models: every fault is one line that says what is wrong and what is allowed."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, ValidationError

from orchestrator.catalog.yamltree import Node, decode, parse
from orchestrator.errors import ConfigError

T = TypeVar("T", bound=BaseModel)

_MUST = {
    "bool_type": "must be true or false",
    "dict_type": "must be a map of keys",
    "float_type": "must be a number",
    "frozen_set_type": "must be a list",
    "int_from_float": "must be a whole number",
    "int_type": "must be a whole number",
    "list_type": "must be a list",
    "model_type": "must be a map of keys",
    "set_type": "must be a list",
    "string_type": "must be text (quote a number, or true and false, if it is meant as text)",
    "tuple_type": "must be a list",
}
_SHOULD = re.compile(r"^(Value error, |\w+ should )")


class Strict(BaseModel):
    """Base of a data file's models: unknown keys are faults and nothing is coerced; frozen."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True
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

    def fault(self, message: str, line: int) -> ConfigError:
        """A fault at a 1-based line of the body."""
        return ConfigError(message, self.head.file, self.line + line - 1)


def read(model: type[T], data: bytes, name: str) -> T:
    """Read a YAML file into a model.

    Args:
        model: should derive from ``Strict``, else unknown keys pass unseen.
        data: the file's content.
        name: the file's name in messages.

    Raises:
        ConfigError: the first fault, with its line.
    """
    faults: list[ConfigError] = []
    found = check(model, tree(data, name), faults)
    if found is None:
        raise faults[0]
    return found


def tree(data: bytes, name: str) -> Node:
    """A YAML file's content with places.

    Raises:
        ConfigError: it is empty, over 1 MB, not UTF-8, or not YAML as ``yamltree`` has it.
    """
    return parse(decode(data, name), name)


def split(data: bytes, name: str) -> Markdown:
    """Split a Markdown file into front matter and body.

    Raises:
        ConfigError: no front matter, or as ``tree``.
    """
    lines = decode(data, name).split("\n")
    if lines[0].rstrip() != "---":
        raise ConfigError("must begin with front matter: a line ---, YAML, a line ---", name, 1)
    end = next((at for at, text in enumerate(lines[1:], 1) if text.rstrip() == "---"), None)
    if end is None:
        raise ConfigError("the front matter does not end; close it with a line ---", name, 1)
    head = parse("\n".join(lines[1:end]), name, before=1)
    start = next((at for at in range(end + 1, len(lines)) if lines[at].strip()), end + 1)
    return Markdown(head, "\n".join(lines[start:]).strip(), start + 1)


def check(model: type[T], node: Node, faults: list[ConfigError]) -> T | None:
    """Fit a tree into a model.

    Returns:
        The model, or None when it does not fit; then every fault is added to ``faults``.
    """
    try:
        # Strict JSON mode takes a list for a tuple but never "5" for 5.
        return model.model_validate_json(json.dumps(node.plain()), strict=True)
    except ValidationError as error:
        found = [
            node.fault(_message(model, detail), *detail["loc"])
            for detail in error.errors(include_url=False)
        ]
    faults.extend(sorted(found, key=lambda fault: (fault.file, fault.line)))
    return None


def unknown(kind: str, name: str, allowed: Iterable[str], place: str = "") -> str:
    """The message for a name that is none of the allowed ones, with the nearest match."""
    options = sorted(allowed)
    near = get_close_matches(name, options, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    inside = f" in {place}" if place else ""
    return f"unknown {kind} {name!r}{inside}; {hint}allowed: {', '.join(options) or 'none'}"


def _message(model: type[BaseModel], detail: Mapping[str, Any]) -> str:
    *above, last = detail["loc"] or ("",)
    kind, place = detail["type"], _place(detail["loc"])
    if kind == "extra_forbidden":
        return unknown("key", str(last), _keys(model, above), _place(above) if above else "")
    if kind == "missing":
        required = ", ".join(_keys(model, above, required=True))
        inside = f" in {_place(above)}" if above else ""
        return f"the key {last!r} is missing{inside}; required: {required}"
    if kind == "literal_error":
        said = f"must be {detail['ctx']['expected']}"
    else:
        said = _MUST.get(kind) or _SHOULD.sub(
            lambda found: "" if found[0].startswith("Value") else "must ", detail["msg"]
        )
    given = json.dumps(detail["input"], ensure_ascii=False)
    value = "" if kind == "value_error" else f", not {given:.60}"
    subject = f"{place} " if not (kind == "value_error" and not detail["loc"]) else ""
    return f"{subject}{said}{value}".replace("\n", " ")


def _place(path: Sequence[str | int]) -> str:
    """``criteria[1].levels`` for a path of keys and indices."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).lstrip(".") or "the file"


def _keys(
    model: type[BaseModel], path: Sequence[str | int], *, required: bool = False
) -> list[str]:
    """The keys allowed in the map that a path leads to."""
    return [
        field.alias or name
        for found in _models(model, path)
        for name, field in found.model_fields.items()
        if field.is_required() or not required
    ]


def _models(annotation: Any, path: Sequence[str | int]) -> Iterator[type[BaseModel]]:
    """The models that a path leads to, starting from a type."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _models(args[0], path)
    elif origin in {Union, types.UnionType}:
        for option in args:
            yield from _models(option, path)
    elif args and path:
        yield from _models(args[1] if issubclass(origin, Mapping) else args[0], path[1:])
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if not path:
            yield annotation
        for name, field in annotation.model_fields.items():
            if path and path[0] == (field.alias or name):
                yield from _models(field.annotation, path[1:])
