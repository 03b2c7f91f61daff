"""The verdict as a pydantic model, for programs that read ``diffcourt review --json``.

Its parts are made from the structs in ``code_review/verdict/model.py``: the same fields, types and
bounds. Parts that a newer version adds are ignored.
"""

# ruff: noqa: D102 - what type checkers see has pydantic's documentation
import inspect
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import fields
from pydantic import BaseModel, ConfigDict, Field, create_model

from orchestrator.code_review.verdict import model

if TYPE_CHECKING:
    from typing import Self

    class Verdict(model.Verdict, frozen=True):
        """The verdict, as type checkers see it: the struct's fields, and the model's methods."""

        @classmethod
        def model_validate(cls, obj: Any) -> Self: ...
        @classmethod
        def model_validate_json(cls, json_data: str | bytes) -> Self: ...
        @classmethod
        def model_json_schema(cls) -> dict[str, Any]: ...
        def model_dump(self, *, mode: str = "python") -> dict[str, Any]: ...
        def model_dump_json(self, *, indent: int | None = None) -> str: ...


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


@cache
def _make_model(struct: type[Struct]) -> type[_Part]:
    """The model of a struct, with those of the structs in its fields."""
    hints, given = get_type_hints(struct, include_extras=True), dict[str, Any]()
    for field in fields(struct):
        default: Any = ... if field.default is NODEFAULT else field.default
        if field.default_factory is not NODEFAULT:
            default = Field(default_factory=field.default_factory)
        given[field.name] = _make_type(hints[field.name]), default
    doc = inspect.cleandoc(struct.__doc__ or "").split("\n\n", 1)[0]
    return create_model(struct.__name__, __base__=_Part, __doc__=doc, __module__=__name__, **given)


def _make_type(hint: Any) -> Any:
    """A field's type, with models for structs and pydantic's bounds for msgspec's."""
    if inspect.isclass(hint) and issubclass(hint, Struct):
        return _make_model(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        bounds = (_make_field(meta) for meta in arguments[1:] if isinstance(meta, Meta))
        return Annotated[_make_type(arguments[0]), *bounds]
    if origin in {Union, UnionType}:
        return reduce(or_, map(_make_type, arguments))
    if origin in {tuple, dict}:
        return origin[*map(_make_type, arguments)]
    return hint


def _make_field(meta: Meta) -> Any:
    names = ("ge", "le", "gt", "lt", "pattern", "min_length", "max_length", "description")
    return Field(**{name: getattr(meta, name) for name in names})


if not TYPE_CHECKING:
    Verdict = _make_model(model.Verdict)
