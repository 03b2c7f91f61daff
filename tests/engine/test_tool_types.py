"""Arguments of tools that only read are fitted to the types of their schema."""

import pytest

from orchestrator.engine.tool_registry import fit_types, validator
from orchestrator.engine.types import Json

SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {
        "start": {"type": "integer"}, "deep": {"type": "boolean"}, "kind": {"enum": ["a", "b", "c"]},
        "paths": {"type": "array", "items": {"type": "string"}}, "any": True, "text": {"type": "string"},
    },
    "additionalProperties": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "fitted"),
    [
        ({"start": "330"}, {"start": 330}),
        ({"start": 330.0}, {"start": 330}),
        ({"start": "3.5"}, {"start": "3.5"}),
        ({"start": "9" * 4000}, {"start": "9" * 4000}),
        ({"start": float("inf")}, {"start": float("inf")}),
        ({"start": True}, {"start": True}),
        ({"deep": "true", "text": "true"}, {"deep": True, "text": "true"}),
        ({"deep": ["true"]}, {"deep": ["true"]}),
        ({"paths": "app.py"}, {"paths": ["app.py"]}),
        ({"paths": '["app.py"]'}, {"paths": '["app.py"]'}),
        ({"any": "1", "unknown": "1"}, {"any": "1", "unknown": "1"}),
    ],
)
def test_a_value_that_means_the_type_gets_it(given: Json, fitted: Json) -> None:
    found = fit_types(given, SCHEMA)
    assert found == fitted
    assert [type(value) for value in found.values()] == [type(value) for value in fitted.values()]


def test_an_unknown_value_is_answered_with_all_that_are_known() -> None:
    assert validator(SCHEMA)({"kind": "major"}) == ['kind: "major" is not one of "a", "b", "c"']


def test_an_object_that_may_be_null_is_answered_with_what_it_lacks() -> None:
    place: Json = {
        "type": "object",
        "properties": {"path": {"type": "string"}, "line": {"type": "integer"}},
        "additionalProperties": False,
    }
    faults = validator({"properties": {"at": {"anyOf": [place, {"type": "null"}]}}})
    assert faults({"at": {"path": "a.py", "quote": "x"}}) == [
        "at: unknown 'quote'; it has path, line"
    ]
    assert faults({"at": {"line": "3"}}) == ['at/line: "3" is not of type "integer"']
    assert faults({"at": "a.py:3"}) == ['at: "a.py:3" is not of type "object"']
    (either,) = validator({"anyOf": [place, {"maxProperties": 0}]})({"quote": "x"})
    assert "anyOf" in either
