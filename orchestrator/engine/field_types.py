"""The base and the field types of structs that are read from data files or published as JSON."""

import math
from typing import Annotated, Any

from msgspec import Meta, Struct

from orchestrator.errors import InputError

NonEmptyStr = Annotated[str, Meta(min_length=1)]
PositiveInt = Annotated[int, Meta(ge=1)]
PositiveFloat = Annotated[float, Meta(gt=0)]
UnitFloat = Annotated[float, Meta(ge=0, le=1)]
"""A fraction, score or similarity: 0 to 1."""


class Strict(Struct, frozen=True, forbid_unknown_fields=True):
    """Base of a frozen struct whose unknown keys are errors when it is read.

    Bounds stand in the types. A rule between several fields stands in ``__post_init__``, which
    raises ``ValueError``.
    """


def shared_fields(source: Struct, target: type[Struct]) -> dict[str, Any]:
    """The fields of ``source`` that ``target`` has under the same name.

    For what our code has checked already: of an agent's ``ReportedFinding``, ``read_claim`` takes
    over each field by name.
    """
    names = target.__struct_fields__
    return {name: getattr(source, name) for name in source.__struct_fields__ if name in names}


def check_amounts(struct: Struct, *names: str, unbounded: bool = False) -> None:
    """Check that fields are amounts: numbers, not negative, and finite unless ``inf`` is allowed.

    Nothing exceeds a limit of NaN, and a negative cost would raise the budget.
    """
    for name in names:
        value: Any = getattr(struct, name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and value >= 0 and (unbounded or value < math.inf):
            continue
        kind = "a number" if unbounded else "a finite number"
        raise InputError(f"{name} of {type(struct).__name__} must be {kind} >= 0, not {value!r}")
