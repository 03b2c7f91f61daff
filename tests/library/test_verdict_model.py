"""The pydantic models of the verdict read what a review wrote."""

import json

import pytest
from pydantic import ValidationError

from orchestrator import Verdict
from orchestrator.code_review.verdict.model import json_schema


def test_every_property_of_the_published_schema_is_in_the_models() -> None:
    published, made = json_schema(), Verdict.model_json_schema()
    assert made["properties"].keys() == published["properties"].keys()
    assert set(made["required"]) == set(published["required"])
    assert {name: set(part["properties"]) for name, part in made["$defs"].items()} == {
        name: set(part["properties"]) for name, part in published["$defs"].items()
    }


def test_a_part_that_a_newer_version_adds_is_ignored(verdict_json: str) -> None:
    document = json.loads(verdict_json)
    document["added_later"] = 1
    assert Verdict.model_validate(document) == Verdict.model_validate_json(verdict_json)


def test_another_schema_version_is_refused(verdict_json: str) -> None:
    document = json.loads(verdict_json) | {"schema_version": "9.0"}
    with pytest.raises(ValidationError, match="schema_version"):
        Verdict.model_validate(document)
