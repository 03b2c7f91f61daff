"""A repository's own layer on top of the shipped one, and the readers that other parts use."""

import pytest
from msgspec.structs import replace

from orchestrator.catalog.data_file_layers import (
    Layer,
    make_overlay,
    read_directory,
    read_merged,
    read_shipped_layer,
)
from orchestrator.catalog.verdict_policy import VerdictPolicy
from orchestrator.engine.field_types import Strict
from orchestrator.engine.types import ToolSpec
from orchestrator.errors import ConfigError


class Rules(Strict, frozen=True):
    rules: tuple[str, ...]


def layer(**files: str) -> Layer:
    named = {name.replace("__", "/") + ".yaml": text.encode() for name, text in files.items()}
    return make_overlay(".diffcourt", named)


LOWER = Layer(
    "",
    {
        "config/rules/a.yaml": b"rules: [one]",
        "config/rules/b.yaml": b"rules: [two]",
        "config/rules/deep/c.yaml": b"rules: [never]",
        "config/rules/note.md": b"never",
    },
)


def test_maps_merge_and_lists_are_replaced(with_files):
    catalog = with_files(
        {
            "config/defaults.yaml": "bounds: {minutes: 5}\nspecialists: [qa]\n",
            "config/tools.yaml": "tools:\n  read_file: {per_run: 7}\n",
        }
    )
    assert catalog.settings.bounds.minutes == 5
    assert catalog.settings.bounds.iterations == 3
    assert catalog.settings.specialists == ("qa",)
    assert catalog.tool_policy.per_tool("per_run") == {
        "*": 100,
        "read_file": 7,
        "search": 200,
        "run_snippet": 40,
        "prove_fixes": 2000,
    }
    assert catalog.tool_policy.per_tool("per_minute")["read_file"] == 200


def test_an_agent_is_replaced_whole(with_files):
    text = "---\nname: qa\ndescription: Ours.\ntools: []\n---\nLook.\n"
    spec = with_files({"agents/qa.md": text}).agents["qa"]
    assert (spec.tools, spec.skills, spec.contract) == ((), (), None)


def test_an_overlay_may_widen_power_because_it_is_policy(with_files):
    text = "---\nname: docs\ndescription: Ours.\ntools: [secrets, links]\n---\nLook.\n"
    catalog = with_files(
        {"agents/docs.md": text, "config/tools.yaml": "environments: {local: {max_level: write}}"}
    )
    assert catalog.agents["docs"].tools == ("secrets", "links")
    assert catalog.tool_policy.for_environment("local").max_level.name == "WRITE"


def test_an_error_names_the_layer_that_contains_it(faults_of):
    (found,) = faults_of({"config/defaults.yaml": "judge: false\nbounds:\n  minute: 5\n"})
    assert found == (
        ".diffcourt/config/defaults.yaml:3: unknown key 'minute' in bounds; did you mean "
        "'minutes'? allowed: iterations, minutes, tiers, tokens, tool_calls, usd"
    )


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("defaults", "lead: boss", "1: unknown agent 'boss'; allowed: architecture, docs, "),
        ("defaults", "single: generalst", "1: unknown agent 'generalst'; did you mean 'general"),
        (
            "defaults",
            "specialists:\n- qa\n- dogs",
            "3: unknown agent 'dogs'; did you mean 'docs'? ",
        ),
        ("defaults", "specialists:\n- qa\n- qa", "3: 'qa' appears twice; name it once"),
        ("defaults", "rubric: pr", "1: unknown rubric 'pr'; allowed: pr-review"),
        (
            "defaults",
            "pattern: solo",
            "1: pattern must be 'auto', 'team' or 'single', not \"solo\"",
        ),
        (
            "defaults",
            "concurrency: 0",
            "1: concurrency must be a whole number of at least 1, not 0",
        ),
        (
            "defaults",
            "tests: {command: [a], reads: [b]}",
            '1: tests.reads[0] must be text that is an absolute path, not "b"',
        ),
        ("tools", "agents: {dogs: {}}", "1: unknown agent 'dogs'; did you mean 'docs'? allow"),
        ("tools", "agents:\n qa:\n  deny: [lnks]", "3: unknown tool 'lnks'; did you mean 'links"),
        ("tools", "agents:\n qa:\n  allow: [lnks]", "3: unknown tool 'lnks'; did you mean 'link"),
        ("tools", "tools:\n  tant: {}", "2: unknown tool 'tant'; did you mean 'taint'?"),
        (
            "tools",
            "environments: {ci: {max_level: irreversible}}",
            "1: environments ci.max_level may not be irreversible, since nobody can approve in CI",
        ),
        ("verdict", "block_at: grave", "1: block_at must be 'critical', 'high', 'medium', 'low' o"),
        ("verdict", "block_confidence: 2", "1: block_confidence must be a number of at most 1"),
        (
            "verdict",
            "block_at: low",
            "1: block_at (low) may not be less severe than needs_changes_at (medium); severities: crit",
        ),
        (
            "verdict",
            "required_checks:\n- {name: x, tools: [scrts], when: ['**']}",
            "2: unknown tool 'scrts'; did you mean 'secrets'?",
        ),
        (
            "verdict",
            "required_checks:\n- {name: x, tools: [secrets], when: []}",
            "2: required_checks[0].when must be a list of at least 1 items, not []",
        ),
        (
            "verdict",
            "required_checks:\n" + "- {name: x, tools: [secrets], when: ['**']}\n" * 2,
            "1: required_checks names x twice; allowed: once",
        ),
        ("verdict", "exclude: [{paths: [a]}]", "1: the key 'why' is missing in exclude[0]; requi"),
    ],
)
def test_faults_of_the_config(faults_of, path, text, message):
    found = faults_of({f"config/{path}.yaml": text})
    assert len(found) == 1
    assert found[0].startswith(f".diffcourt/config/{path}.yaml:{message}")


def test_a_judge_is_needed_only_when_it_judges(loaded):
    files = {
        name: data for name, data in read_shipped_layer().files.items() if name != "agents/judge.md"
    }
    with pytest.raises(ConfigError, match=r"judge is true, so agents/judge\.md is needed"):
        loaded(Layer("", files))
    own = layer(config__defaults="judge: false")
    assert loaded(Layer("", files), own).settings.judge is False


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("agents/x.txt", "nothing reads this file; allowed: agents/NAME.md"),
        ("agents/deep/x.md", "nothing reads this file; allowed: agents/NAME.md"),
        ("rubrics/x.yml", "nothing reads this file; allowed: rubrics/NAME.yaml"),
        ("skills_catalog/x/skill.md", "nothing reads this file; allowed: skills_catalog/NAME/SKI"),
        ("skills_catalog/SKILL.md", "nothing reads this file; allowed: skills_catalog/NAME/SKI"),
        ("skills/x/SKILL.md", "nothing reads this file; allowed: agents/, skills_catalog/, rubri"),
        ("config/verdct.yaml", "nothing reads this file; allowed: config/alerts.yaml, config/d"),
    ],
)
def test_a_file_that_nothing_reads_is_an_error(faults_of, path, message):
    (found,) = faults_of({path: "x: 1\n"})
    assert found.startswith(f".diffcourt/{path}: {message}")


def test_files_beside_the_data_are_left_alone(faults_of):
    skill = read_shipped_layer().files["skills_catalog/docs-accuracy/SKILL.md"].decode()
    assert (
        faults_of(
            {
                "README.md": "ours",
                ".gitignore": "state/",
                "state/runs.db": "",
                "skills_catalog/docs-accuracy/SKILL.md": skill,
                "skills_catalog/docs-accuracy/references/style.md": "",
            }
        )
        == []
    )


def test_read_all_adds_and_replaces_by_file_name_in_order_of_names():
    own = layer(config__rules__b="rules: [other]", config__rules__aa="rules: [own]")
    found = read_directory([LOWER, own], "config/rules", Rules)
    assert [item.rules for item in found] == [("one",), ("own",), ("other",)]


def test_read_all_names_the_file_with_the_error():
    own = layer(config__rules__b="rules:\n- 1\n")
    with pytest.raises(ConfigError) as caught:
        read_directory([LOWER, own], "config/rules", Rules)
    assert (caught.value.file, caught.value.line) == (".diffcourt/config/rules/b.yaml", 2)


def test_merged_supports_models_of_other_packages():
    own = layer(config__verdict="block_at: high")
    policy = read_merged([read_shipped_layer(), own], "config/verdict.yaml", VerdictPolicy)
    assert (policy.block_at, policy.needs_changes_at) == ("high", "medium")
    with pytest.raises(ConfigError, match=r"^config/none\.yaml: is missing from every layer$"):
        read_merged([read_shipped_layer(), own], "config/none.yaml", VerdictPolicy)
    with pytest.raises(
        ConfigError, match=r"^\.diffcourt/config/verdict\.yaml:1: is not valid YAML"
    ):
        read_merged(
            [read_shipped_layer(), layer(config__verdict="a: b: c")],
            "config/verdict.yaml",
            VerdictPolicy,
        )


def test_a_tool_policy_only_narrows(with_files):
    catalog = with_files(
        {"config/tools.yaml": "agents:\n  qa: {allow: [search, glob], deny: [glob]}\n"}
    )
    policy = catalog.tool_policy.for_environment("local")

    def keeps(agent: str, tool: str) -> bool:
        spec = replace(catalog.agents[agent], tools=(tool,))
        return policy.refusal(spec, ToolSpec(tool, "", {})) is None

    assert [tool for tool in ("search", "glob", "complexity") if keeps("qa", tool)] == ["search"]
    assert keeps("docs", "complexity")


def test_the_settings_replace_an_agents_model_and_limits(with_files):
    text = "agents:\n  qa: {model: fast, turns: 3}\n  docs: {seconds: 7}\n"
    agents = with_files({"config/defaults.yaml": text}).agents
    assert (agents["qa"].model, agents["qa"].bounds.turns) == ("fast", 3)
    assert (agents["docs"].model, agents["docs"].bounds.seconds) == ("strong", 7)


def test_one_setting_sets_the_stage_of_all_agents_without_a_model_of_their_own(with_files):
    text = "model: fast\nagents: {judge: {model: strong}, qa: {turns: 3}}\n"
    agents = with_files({"config/defaults.yaml": text}).agents
    models = {name: agent.model for name, agent in agents.items()}
    assert models == {**dict.fromkeys(agents, "fast"), "judge": "strong"}
    stages = ("fast", "fast-retry", "strong", "strongest", "human")
    assert {agent.escalation for agent in agents.values()} == {stages}


@pytest.mark.parametrize("text", ["agents:\n  qa: {model: human}", "model: human"])
def test_a_person_is_not_a_model_of_an_agent(loaded, text):
    own = layer(config__defaults=text)
    with pytest.raises(ConfigError, match="'human' is a person, not a model"):
        loaded(read_shipped_layer(), own)


def test_load_raises_the_first_fault(loaded):
    own = layer(config__defaults="lead: boss")
    with pytest.raises(ConfigError, match="unknown agent 'boss'"):
        loaded(read_shipped_layer(), own)
