"""Input schemas that we hold calls against, and faults in config/mcp.yaml."""

from collections.abc import Mapping

import pytest
import yaml

from orchestrator.catalog.data_file_layers import make_overlay, read_merged, read_shipped_layer
from orchestrator.catalog.mcp_servers import McpFile
from orchestrator.engine.tool_registry import validator
from orchestrator.errors import ConfigError
from orchestrator.mcp_client.server_config import ServerError
from orchestrator.mcp_client.server_tools import close_schema

TEXT = {"type": "string"}
ENTRY = {"command": ["server"], "tools": {"t": {}}}


def schema(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties}


def test_a_schema_is_closed_wherever_it_names_properties_and_is_silent() -> None:
    given = schema(
        one=schema(text=TEXT),
        many={"type": "array", "items": schema(text=TEXT)},
        either={"anyOf": [schema(text=TEXT), {"type": "null"}]},
        said={**schema(text=TEXT), "additionalProperties": TEXT},
        free={"type": "object"},
        ref={"$ref": "#/$defs/it"},
    )
    given["$defs"] = {"it": schema(text=TEXT)}
    made = close_schema(given)
    faults = validator(made)
    fine = {"text": "x"}
    more = {"text": "x", "more": "y"}
    assert not faults({"one": fine, "many": [fine], "either": fine, "ref": fine})
    assert not faults({"said": more, "free": {"any": 1}})
    for name in ("one", "either", "ref"):
        assert faults({name: more}), name
    assert faults({"many": [more]})
    assert faults({"unknown": 1})
    assert "additionalProperties" not in given  # what the server said is left as it was


def test_a_tool_without_parameters_takes_none() -> None:
    assert close_schema({"type": "object"}) == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("a string", "not that of an object"),
        ({"type": "string"}, "not that of an object"),
        ({"type": "object", "anyOf": [schema(text=TEXT)]}, "anyOf at the root"),
        ({"type": "object", "$ref": "#/$defs/x"}, r"\$ref at the root"),
        (schema(a={"$ref": "http://127.0.0.1:9/x"}), "another document, which is not fetched"),
        (schema(a={"$ref": "file:///etc/passwd"}), "another document, which is not fetched"),
        (schema(a={"$ref": "#/nowhere"}), "not a valid JSON Schema"),
        ({**schema(), "$schema": "http://127.0.0.1:9/meta"}, "not a valid JSON Schema"),
        (schema(a={"type": "strnig"}), "not a valid JSON Schema"),
        (schema(a="text"), "not a valid JSON Schema"),
        (schema(a={"allOf": [schema(text=TEXT)]}), "allOf, which cannot be closed"),
        (schema(**{"a b": TEXT}), "parameter named 'a b'"),
        (schema(a={"enum": [float("nan")]}), "not plain JSON"),
        (schema(a={"description": "x" * 70_000}), "larger than 64000 bytes"),
    ],
)
def test_a_schema_that_cannot_be_expressed_is_refused_in_one_line(given: object, why: str) -> None:
    with pytest.raises(ServerError, match=why) as fault:
        close_schema(given)
    assert "\n" not in str(fault.value)


def test_a_schema_nested_without_end_is_refused() -> None:
    deep: Mapping[str, object] = TEXT
    for _ in range(40):
        deep = schema(a=deep)
    with pytest.raises(ServerError, match="nested deeper than 32"):
        close_schema(deep)
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(ServerError, match="not plain JSON"):
        close_schema(deep)


def read(servers: object) -> McpFile:
    own = make_overlay(
        ".diffcourt", {"config/mcp.yaml": yaml.safe_dump({"servers": servers}).encode()}
    )
    return read_merged([read_shipped_layer(), own], "config/mcp.yaml", McpFile)


def test_the_shipped_configuration_names_no_server() -> None:
    assert not read_merged([read_shipped_layer()], "config/mcp.yaml", McpFile).servers


def test_tools_are_named_as_providers_and_playbooks_can_name_them() -> None:
    found = read({"git-hub": {**ENTRY, "tools": {"get.Issue/now": {}}}})
    assert list(found.names()) == ["git-hub__get_issue_now"]


@pytest.mark.parametrize(
    ("servers", "why"),
    [
        ({"Git": ENTRY}, "lower-case letters, digits and hyphens"),
        ({"git": {"tools": {}}}, "either a command or a url"),
        ({"git": {**ENTRY, "url": "https://example.invalid/mcp"}}, "either a command or a url"),
        ({"git": {**ENTRY, "headers": {"A": "B"}}}, "headers, which a command cannot use"),
        ({"web": {"url": "http://example.invalid/mcp", "tools": {}}}, "must begin with https://"),
        ({"git": {**ENTRY, "tools": {"a": {"level": "admni"}}}}, "'admin'"),
        ({"git": {**ENTRY, "tools": {"a": {"pin": "sha256:abc"}}}}, "pin"),
        ({"git": {**ENTRY, "tools": {"a.b": {}, "a/b": {}}}}, "two tools would be named"),
        ({"git": {**ENTRY, "tools": {"x" * 70: {}}}}, "longer than 64 characters"),
        ({"git": {**ENTRY, "enviroment": []}}, "unknown key 'enviroment'"),
    ],
)
def test_a_fault_in_the_file_is_one_line_that_says_what_is_allowed(
    servers: object, why: str
) -> None:
    with pytest.raises(ConfigError, match=why) as fault:
        read(servers)
    assert "\n" not in str(fault.value)
