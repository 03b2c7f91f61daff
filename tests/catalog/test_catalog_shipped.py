"""The data that comes with the package: it loads whole, and keeps the promises of its format."""

import re

import pytest

from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.catalog.playbook_steps import read_steps
from orchestrator.code_review import agent_report_contracts
from orchestrator.code_review.agent_report_contracts import contracts
from orchestrator.code_review.policy_loading import load_rules
from orchestrator.data_directories import data_root, read_table
from orchestrator.engine.types import Level


@pytest.fixture(scope="module")
def catalog(loaded):
    return loaded(read_shipped_layer())


def test_everything_shipped_loads_without_a_fault(catalog, faults_of):
    assert faults_of({}) == []
    team = {
        "lead",
        "security",
        "qa",
        "docs",
        "architecture",
        "judge",
        "generalist",
        "fixer",
        "prover",
        "verifier",
    }
    assert set(catalog.agents) == team
    assert len(catalog.skills) >= 6
    assert set(catalog.rubrics) == {"pr-review"}
    assert catalog.settings.provider == "offline"


def test_every_agent_is_bounded_and_has_a_contract_and_an_escalation(catalog):
    for spec in catalog.agents.values():
        bounds = spec.bounds
        limits = (bounds.turns, bounds.tool_calls, bounds.tokens, bounds.usd, bounds.seconds)
        assert all(limit != float("inf") for limit in limits), spec.name
        forms = {"lead": "plan", "judge": "score", "fixer": "fixes", "prover": "proofs"}
        forms["verifier"] = "verify"
        form = forms.get(spec.name, "report")
        assert spec.contract == contracts()[form]
        assert spec.escalation[-1] == "human", spec.name


def test_every_described_field_of_a_report_is_a_field_of_it():
    described = read_table(agent_report_contracts.__file__, "contracts.yaml")
    for name, fields in described.items():
        assert set(fields) <= set(getattr(agent_report_contracts, name).__struct_fields__), name


def test_each_specialist_names_the_topics_of_its_colleagues(catalog):
    specialists = set(catalog.settings.specialists)
    for name in specialists:
        prompt = catalog.agents[name].prompt
        not_its_own = (
            prompt.partition("Of those of others, ")[2].partition("\n- ")[0].partition("\n\n")[0]
        )
        assert {other for other in specialists if f"({other})" in not_its_own} == (
            specialists - {name}
        ), name


def test_all_agents_begin_and_escalate_at_the_same_stages(catalog):
    """So that a team reads one cached opening."""
    stages = {(agent.model, agent.escalation) for agent in catalog.agents.values()}
    assert stages == {("strong", ("fast", "fast-retry", "strong", "strongest", "human"))}


def test_errors_performance_and_maintainability_each_belong_to_one_specialist(catalog):
    for topic, name in (
        ("Errors", "qa"),
        ("Performance", "qa"),
        ("Maintainability", "architecture"),
    ):
        holders = [
            s for s in catalog.settings.specialists if f"- {topic}:" in catalog.agents[s].prompt
        ]
        assert holders == [name]


def test_following_the_playbooks_calls_each_of_an_agents_analyzers(catalog, navigation):
    for spec in catalog.agents.values():
        called = [
            tool for skill in spec.skills for step in read_steps(skill.text) for tool in step.names
        ]
        assert set(called) == set(spec.tools) - navigation, spec.name
        assert len(called) == len(set(called)) or spec.name == catalog.settings.single


def test_each_skill_of_a_reviewer_says_as_data_what_code_checks(catalog):
    for spec in catalog.agents.values():
        for skill in spec.skills if spec.contract == contracts()["report"] else ():
            needs = skill.requires
            assert all((needs.evidence, needs.stop, needs.output, needs.categories)), skill.name


def test_a_playbook_fits_into_its_agents_turns(catalog):
    for spec in catalog.agents.values():
        acting = sum(bool(step.names) for skill in spec.skills for step in read_steps(skill.text))
        assert acting < spec.bounds.turns, spec.name


def test_a_specialist_has_each_tool_that_a_required_check_needs(catalog):
    for names in (catalog.settings.specialists, (catalog.settings.single,)):
        had = {tool for name in names for tool in catalog.agents[name].tools}
        needed = {tool for rule in catalog.verdict_policy.required_checks for tool in rule.tools}
        assert needed <= had


def test_no_environment_allows_more_than_reading(catalog):
    assert catalog.tool_policy.for_environment("ci").max_level is Level.READ
    assert catalog.tool_policy.for_environment("local").max_level is Level.READ


def test_settings_reach_the_engine_in_its_units(catalog):
    assert catalog.settings.run_bounds.seconds == 15 * 60
    assert catalog.tool_policy.per_tool("per_run") == {
        "*": 100,
        "read_file": 300,
        "search": 200,
        "run_snippet": 40,
        "prove_fixes": 2000,
    }
    assert catalog.tool_policy.per_tool("per_minute") == {
        "*": 100,
        "read_file": 200,
        "search": 120,
        "run_snippet": 20,
        "prove_fixes": 2000,
    }


def test_the_rubric_has_measured_and_judged_criteria(catalog):
    rubric = catalog.rubrics["pr-review"]
    measured = {c.id for c in rubric.criteria if c.kind == "measured"}
    assert measured == {
        "files-accounted",
        "evidence-verified",
        "contracts-kept",
        "findings-supported",
        "required-checks-run",
        "analyzers-healthy",
        "gaps-explained",
        "playbooks-followed",
    }
    blockers = {c.id for c in rubric.criteria if c.blocker}
    assert blockers == {"evidence-verified", "required-checks-run"}
    judged = [c for c in rubric.criteria if c.kind == "judged"]
    assert {"correctness-depth", "risk-focus", "actionability"} <= {c.id for c in judged}
    assert all(c.abstain == "exclude" and len(c.levels) >= 2 for c in judged)


def test_every_key_of_the_settings_is_explained_where_it_stands():
    for name in ("defaults", "tools"):
        text = (data_root() / "config" / f"{name}.yaml").read_text("utf-8")
        keys = re.findall(r"^( *)([a-z_]+):(.*)$", text, re.MULTILINE)
        assert len(keys) > 5
        parents = ("limits", "tools") if name == "defaults" else ("read_file", "search", "git_diff")
        bare = [key for _, key, rest in keys if "#" not in rest and key not in parents]
        assert bare == []


def test_every_item_has_a_digest(catalog):
    items = [*catalog.agents.values(), *catalog.skills.values(), *catalog.rubrics.values()]
    assert len(catalog.digests) == len(items) + 9
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in catalog.digests.values())
    assert catalog.digests["agents/lead.md"] == catalog.agents["lead"].digest


def test_arguable_rules_cannot_decide_the_outcome() -> None:
    rules = load_rules([read_shipped_layer()]).rules.values()
    arguable = [rule for rule in rules if rule.arguable]
    assert arguable
    assert {rule.severity for rule in arguable} <= {"low", "info"}
    assert "security" not in {rule.category for rule in arguable}
