"""The canonical form: what digests and the chain are made of, so it may never change."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.engine.canonical_json import canonical, is_json
from orchestrator.engine.types import Json

TEXT = st.text(st.characters(exclude_categories=()))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)  # fmt: skip


@given(VALUES)
def test_canonical_json_equals_that_of_the_standard_library(value: Json) -> None:
    written = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    assert canonical(value) == written.encode("ascii")
    assert is_json(value)


ENDLESS: list[Json] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"x": math.nan}, ValueError),
        ([-math.inf], ValueError),
        ({"x": {1, 2}}, TypeError),
        (b"bytes", TypeError),
        (ENDLESS, RecursionError),
    ],
)
def test_what_json_cannot_hold_is_refused(value: Json, fault: type[Exception]) -> None:
    assert not is_json(value)
    with pytest.raises(fault):
        canonical(value)
