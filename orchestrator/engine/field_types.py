"""The base and the field types of structs that are read from data files or published as JSON."""

from typing import Annotated

from msgspec import Meta, Struct

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
