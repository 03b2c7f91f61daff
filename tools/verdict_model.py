"""Writes ``orchestrator/library/verdict_models.py``: the verdict's structs as pydantic models.

    make models

The structs in ``orchestrator/code_review/verdict`` are the definition; a test compares both.
"""

import inspect
import textwrap
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import fields

from orchestrator.code_review.verdict.model import Verdict

TARGET = Path(__file__).parents[1] / "orchestrator/library/verdict_models.py"
LONGEST_TEXT = 72
HEAD = '''"""The verdict as pydantic models, for programs that read ``diffcourt review --json``.

Made by ``make models`` from the structs in ``orchestrator/code_review/verdict``. Parts that a newer
version adds are ignored.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
'''


def render() -> str:
    """The whole module, not yet formatted; each model is defined before it is used."""
    structs: dict[str, type[Struct]] = {}
    _collect(Verdict, structs)
    parts = [HEAD, *map(_model, structs.values())]
    return "\n\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _collect(struct: type[Struct], found: dict[str, type[Struct]]) -> None:
    for hint in get_type_hints(struct).values():
        for part in _structs_in(hint):
            if part.__name__ not in found:
                _collect(part, found)
    found[struct.__name__] = struct


def _structs_in(hint: Any) -> list[type[Struct]]:
    if isinstance(hint, type) and issubclass(hint, Struct):
        return [hint]
    return [one for argument in get_args(hint) for one in _structs_in(argument)]


def _model(struct: type[Struct]) -> str:
    doc = inspect.cleandoc(struct.__doc__ or "").split("\n\n", 1)[0]
    lines = [f"class {struct.__name__}(_Part):", textwrap.indent(f'"""{doc}"""', "    "), ""]
    hints = get_type_hints(struct, include_extras=True)
    lines += [f"    {one.name}: {_field(hints[one.name], one)}" for one in fields(struct)]
    return "\n".join(lines)


def _field(hint: Any, info: msgspec.structs.FieldInfo) -> str:
    text = _type(hint)
    if info.default_factory is not NODEFAULT:
        return f"{text} = Field(default_factory={info.default_factory.__name__})"
    return text if info.default is NODEFAULT else f"{text} = {info.default!r}"


def _type(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        given = [_constraints(meta) for meta in arguments[1:] if isinstance(meta, Meta)]
        return f"Annotated[{_type(arguments[0])}, {', '.join(given)}]"
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if origin in {Union, UnionType}:
        return " | ".join(map(_type, arguments))
    if origin is not None:
        inner = ", ".join("..." if one is Ellipsis else _type(one) for one in arguments)
        return f"{origin.__name__}[{inner}]"
    return "None" if hint is NoneType else str(hint.__name__)


def _constraints(meta: Meta) -> str:
    names = ("ge", "le", "gt", "lt", "pattern", "min_length", "max_length", "description")
    given = {name: getattr(meta, name) for name in names if getattr(meta, name) is not None}
    return f"Field({', '.join(f'{name}={_value(value)}' for name, value in given.items())})"


def _value(value: object) -> str:
    """A literal; a long text as pieces, since a formatter leaves strings whole."""
    if not isinstance(value, str) or len(value) < LONGEST_TEXT:
        return repr(value)
    pieces = textwrap.wrap(value, LONGEST_TEXT, drop_whitespace=False)
    return " ".join(map(repr, pieces))


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
