"""Strict YAML: what is read, and the line and wording of each fault."""

import json
import random
from typing import Annotated, Literal

import pytest
import yaml
from msgspec import Meta, field

from diffchecks.rules import RuleFile
from orchestrator.catalog import yaml_parsing
from orchestrator.catalog.data_file_layers import find_files, read_shipped_layer
from orchestrator.catalog.guard_policy import GuardsFile
from orchestrator.catalog.mcp_servers import McpFile
from orchestrator.catalog.model_config import ModelsConfig
from orchestrator.catalog.prices import PricesFile
from orchestrator.catalog.settings import ReviewSettings, ToolsConfig
from orchestrator.catalog.verdict_policy import VerdictPolicy
from orchestrator.catalog.yaml_validation import (
    convert_node,
    parse_yaml,
    read_yaml,
    split_front_matter,
)
from orchestrator.engine.field_types import Strict
from orchestrator.engine.types import Rubric
from orchestrator.errors import ConfigError

MODELS = [
    ("config/defaults.yaml", ReviewSettings),
    ("config/tools.yaml", ToolsConfig),
    ("config/verdict.yaml", VerdictPolicy),
    ("config/guards.yaml", GuardsFile),
    ("config/models.yaml", ModelsConfig),
    ("config/prices.yaml", PricesFile),
    ("config/mcp.yaml", McpFile),
    ("config/rules/*.yaml", RuleFile),
    ("rubrics/*.yaml", Rubric),
]


class Inner(Strict, frozen=True):
    size: Annotated[int, Meta(ge=1)]
    mode: Literal["fast", "slow"] = "fast"


class Outer(Strict, frozen=True):
    name: str
    ratio: Annotated[float, Meta(ge=0, le=1)] = 1.0
    on: bool = True
    parts: tuple[Inner, ...] = ()
    by_name: dict[str, Inner] = field(default_factory=dict, name="byName")
    maybe: Inner | None = None


def fault(text: str | bytes) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(ConfigError) as caught:
        read_yaml(Outer, data, "x.yaml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_becomes_a_model_with_the_types_as_written():
    found = read_yaml(
        Outer,
        b"name: no\nratio: 1\nparts:\n  - {size: 2, mode: slow}\nbyName: {a: {size: 3}}\n",
        "x.yaml",
    )
    assert found == Outer(
        name="no", ratio=1.0, parts=(Inner(size=2, mode="slow"),), by_name={"a": Inner(size=3)}
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2024-01-02", "2024-01-02"),
        ("yes", "yes"),
        ("off", "off"),
        ("010", 10),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        ("~", None),
        ("'5'", "5"),
        (".inf", ".inf"),
    ],
)
def test_plain_scalars_are_read_as_a_person_reads_them(text, value):
    found = parse_yaml(f"key: {text}".encode(), "x.yaml").value
    assert found == {"key": value}
    assert type(found["key"]) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "name: x\nrato: 1\n",
            "x.yaml:2: unknown key 'rato'; did you mean 'ratio'? allowed: byName, maybe, name, on",
        ),
        (
            "name: x\nparts:\n  - size: 1\n    moed: fast\n",
            "x.yaml:4: unknown key 'moed' in parts[0]; did you mean 'mode'? allowed: mode, size",
        ),
        (
            "name: x\nbyName:\n  size:\n    size: 1\n    zzz: 1\n",
            "x.yaml:5: unknown key 'zzz' in byName.size; allowed: mode, size",
        ),
        (
            "name: x\nmaybe: {siz: 1, size: 1}\n",
            "x.yaml:2: unknown key 'siz' in maybe; did you mean 'size'? allowed: mode, size",
        ),
        ("ratio: 1\n", "x.yaml:1: the key 'name' is missing; required: name"),
        (
            "name: x\nparts:\n  - size: 1\n  - mode: fast\n",
            "x.yaml:4: the key 'size' is missing in parts[1]; required: size",
        ),
        (
            "name: x\nparts:\n  - size: 1\n    mode: quick\n",
            "x.yaml:4: parts[0].mode must be 'fast' or 'slow', not \"quick\"",
        ),
        ("name: x\nratio: 2\n", "x.yaml:2: ratio must be a number of at most 1, not 2"),
        ("name: x\nratio: .nan\n", 'x.yaml:2: ratio must be a number, not ".nan"'),
        ("name: x\non: yes\n", 'x.yaml:2: on must be true or false, not "yes"'),
        ("name: x\nparts: {a: 1}\n", 'x.yaml:2: parts must be a list, not {"a": 1}'),
        (
            "name: x\nparts: [{size: '1'}]\n",
            'x.yaml:2: parts[0].size must be a whole number, not "1"',
        ),
        ("- name\n", 'x.yaml:1: the file must be a map of keys, not ["name"]'),
        ("name: x\nname: y\n", "x.yaml:2: the key 'name' appears twice, first on line 1"),
        ("a: 1\n---\nb: 2\n", "x.yaml:2: contains a second document; allowed: one per file"),
        ("name: !!str 5\n", "x.yaml:1: the tag 'tag:yaml.org,2002:str' is not supported; "),
        ("a: !!python/object:os.system x\n", "x.yaml:1: the tag 'tag:yaml.org,2002:python/obj"),
        ("name: *who\n", "x.yaml:1: the alias *who has no anchor above it"),
        ("? [a]\n: 1\n", "x.yaml:1: a key must be text"),
        ("a: &x 1\n*x : 2\n", "x.yaml:2: a key must be text"),
        ("name: 1\n", "x.yaml:1: name must be text (quote"),
        ("name: 'x\n", "x.yaml:2: is not valid YAML: found unexpected end of stream"),
        ("name: [1,\n  2\nb: 3\n", "x.yaml:3: is not valid YAML: "),
        ("name: 1e999\n", "x.yaml:1: a number that is too large"),
        ("name: " + "9" * 5000, "x.yaml:1: a number of more than 18 digits"),
        ("name: x\n# only\nratio: a\x07b\n", "x.yaml:3: has the control character U+0007"),
        ('name: "a\\0b"\n', "x.yaml:1: has the character U+0000; remove it"),
        ("", "x.yaml: is empty; fill it or delete it"),
        (" \n\n", "x.yaml: is empty; fill it or delete it"),
        ("# nothing yet\n", "x.yaml: is empty; fill it or delete it"),
        (b"name: x\nratio: \xff\n", "x.yaml:2: is not UTF-8 (byte 0xff); save it as UTF-8"),
        ("#" * 1_000_001, "x.yaml: is 1,000,001 bytes; allowed: up to 1,000,000"),
    ],
)
def test_each_fault_names_its_line_and_what_is_allowed(text, message):
    assert fault(text).startswith(message)


def test_line_numbers_survive_windows_line_ends_and_a_byte_order_mark():
    assert fault(b"\xef\xbb\xbfname: x\r\n\r\nrato: 1\r\n").startswith("x.yaml:3: unknown key")


def test_an_alias_may_repeat_a_value():
    found = parse_yaml(b"a: &one [1, 2]\nb: *one\n", "x.yaml")
    assert found.value == {"a": [1, 2], "b": [1, 2]}
    assert found.at("b").line == 2


def test_aliases_cannot_blow_up_the_reader():
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert "contains too many values; allowed: 50,000" in fault("\n".join(rows))


def test_an_alias_cannot_lie_within_itself():
    assert "has no anchor above it" in fault("a: &a [*a]\n")


@pytest.mark.parametrize("text", ["[" * 200_000, "{a: " * 200_000, "- " * 200_000])
def test_deep_nesting_is_a_fault_not_a_crash(text):
    assert "is nested too deeply; allowed: 32 levels" in fault(text)


def test_aliases_cannot_hide_depth():
    rows = ["a0: &a0 " + "[" * 20 + "]" * 20, "a1: " + "[" * 20 + "*a0" + "]" * 20]
    assert "is nested too deeply" in fault("\n".join(rows))


def test_the_reader_in_pure_python_is_as_strict(monkeypatch):
    monkeypatch.setattr(yaml_parsing, "_LOADER", yaml.SafeLoader)
    assert "is nested too deeply" in fault("[" * 200_000)
    assert fault("name: 'x\n").startswith("x.yaml:2: is not valid YAML: found unexpected end")
    assert "appears twice" in fault("name: x\nname: y\n")
    assert read_yaml(Outer, b"name: x\nratio: 0.5\n", "x.yaml").ratio == 0.5
    assert fault('name: "\\ud800"\n') == "x.yaml:1: has the character U+D800; remove it"


def test_front_matter_and_body_know_their_lines():
    page = split_front_matter(b"---\nname: x\nratio: 0\n---\n\n\nFirst\nSecond\n\n", "x.md")
    assert page.head.at("ratio").line == 3
    assert (page.body, page.line) == ("First\nSecond", 7)
    assert str(page.error("bad", 2)) == "x.md:8: bad"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\n", "x.md:1: must begin with front matter"),
        ("---\nname: x\n", "x.md:1: the front matter does not end"),
        ("---\nname: x\nname: y\n---\nbody", "x.md:3: the key 'name' appears twice"),
        ("---\n---\nbody", "x.md:1: is empty"),
    ],
)
def test_faults_of_front_matter(text, message):
    with pytest.raises(ConfigError) as caught:
        split_front_matter(text.encode(), "x.md")
    assert str(caught.value).startswith(message)


def broken(value, rng):
    """A copy of a document with one value somewhere in it that is of another kind."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        return {**value, key: broken(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        return [*value[:at], broken(value[at], rng), *value[at + 1 :]]
    return rng.choice(
        [None, True, -1, 0, 10**17, 0.5, "", "x", "2027-02-30", [], [[]], {}, {"": 1}]
    )


@pytest.mark.parametrize(("path", "model"), MODELS)
def test_any_text_is_read_or_refused_with_a_plain_message(path, model):
    files = find_files([read_shipped_layer()], path).values()
    documents = [parse_yaml(file.data, file.path).value for file in files]
    rng = random.Random(path)
    refused = 0
    for _ in range(60):
        text = json.dumps(broken(rng.choice(documents), rng))
        faults: list[ConfigError] = []
        if convert_node(model, parse_yaml(text.encode(), "x.yaml"), faults) is None:
            refused += 1
            assert faults
        for found in map(str, faults):
            assert found.startswith("x.yaml:1: ")
            assert "Expected" not in found
            assert not {"`", "\n", "$"} & set(found.partition(", not ")[0].partition("regex")[0])
    assert refused > 12
