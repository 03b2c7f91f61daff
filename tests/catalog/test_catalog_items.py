"""Agents, skills and rubrics of a repository: what they load to, and the faults they can have."""

import pytest

from orchestrator.catalog.playbook_steps import keep_judgment
from orchestrator.code_review.agent_report_contracts import contracts

AGENT = """\
---
name: perf
description: Finds slow code.
tools: [complexity, read_file, search]
disallowedTools: [search]
model: strong
maxTurns: 7
skills: [hot]
metadata:
  contract: report
  budget: {tool_calls: 4, usd: 0.5}
  escalation: [strong, human]
---

Find slow code.
"""
SKILL = """\
---
name: hot
description: Find hot code. Use when code changed.
license: MIT
compatibility: any
metadata: {owner: us}
allowed-tools: complexity search
---
# Hot

## When to use
When code changed.

## Steps

1. Measure with
   `complexity`.
2. Read on.

## Evidence required
A `line`.

## Stop when
Done.

## Output
A finding.
"""
RUBRIC = """\
name: own
version: 2
description: Ours.
threshold: 0.5
groups:
  - {id: outer, weight: 2}
  - {id: inner, parent: outer}
criteria:
  - {id: files-accounted, kind: measured, description: Files., group: inner}
  - id: depth
    kind: judged
    description: Depth.
    weight: 0.5
    levels: [{score: 0, description: None.}, {score: 1, description: All.}]
    na: full
    abstain: zero
    tags: [deep]
"""
FILES = {"agents/perf.md": AGENT, "skills_catalog/hot/SKILL.md": SKILL, "rubrics/own.yaml": RUBRIC}


def test_an_agent_loads_to_what_the_engine_runs(with_files):
    spec = with_files(FILES).agents["perf"]
    assert (spec.prompt, spec.model) == ("Find slow code.", "strong")
    assert spec.tools == ("complexity", "read_file")
    assert spec.bounds.turns == 7
    assert (spec.bounds.tool_calls, spec.bounds.usd) == (4, 0.5)
    assert spec.bounds.tokens == float("inf")
    assert spec.contract == contracts()["report"]
    assert spec.escalation == ("strong", "human")
    assert [skill.name for skill in spec.skills] == ["hot"]


def test_a_rubric_loads_to_what_the_judge_scores_by(with_files):
    rubric = with_files(FILES).rubrics["own"]
    measured, judged = rubric.criteria
    assert (measured.parent, measured.weight, measured.na) == ("inner", 1.0, "exclude")
    assert (judged.parent, judged.na, judged.abstain) == (None, "full", "zero")
    assert [level.score for level in judged.levels] == [0, 1]
    assert [(group.id, group.parent) for group in rubric.groups] == [
        ("outer", None),
        ("inner", "outer"),
    ]


def test_digests_follow_content_not_layout(with_files):
    before = with_files(FILES).digests
    reordered = AGENT.replace(
        "model: strong\nmaxTurns: 7\n", "maxTurns:   7 # few\nmodel: strong\n"
    )
    same = with_files({**FILES, "agents/perf.md": reordered.replace("\n", "\r\n")}).digests
    assert same == before
    other = with_files({**FILES, "skills_catalog/hot/SKILL.md": SKILL + "More."}).digests
    changed = {name for name, value in other.items() if value != before[name]}
    assert changed == {"agents/perf.md", "skills_catalog/hot/SKILL.md"}


def test_an_agent_has_the_analyzers_of_its_topics_and_a_step_can_name_them(with_files, faults_of):
    skill = SKILL.replace("2. Read on.", "2. Get the rest: `docs`.")
    agent = AGENT.replace("model: strong", "analyzers: docs\nmodel: strong")
    agent = agent.replace("disallowedTools: [search]", "disallowedTools: [typos]")
    files = {**FILES, "agents/perf.md": agent, "skills_catalog/hot/SKILL.md": skill}
    spec = with_files(files).agents["perf"]
    docs = ["docstrings", "links", "stale_references", "changelog"]
    assert spec.tools == (*docs, "complexity", "read_file", "search")
    (hot,) = spec.skills
    assert "2. Get the rest: `docstrings`, `links`, `stale_references`, `changelog`.\n" in hot.text
    assert hot.tools == {"complexity", *docs}
    without = {**files, "agents/perf.md": agent.replace("analyzers: docs", "analyzers: qa")}
    (fault,) = faults_of(without)
    assert "the skill 'hot' calls docs, which this agent may not" in fault


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: perf", "name: perv", "2: the name 'perv' must be the file's name, 'perf'"),
        (
            "tools: [complexity, read_file, search]\n",
            "",
            "2: the key 'tools' is missing; required: name, description, tools",
        ),
        ("tools: [complexity, read_file, search]", "tools: search", "4: tools must be a list, not"),
        ("read_file, search]\nd", "search, search]\nd", "4: 'search' appears twice in tools"),
        (
            "read_file, search]\nd",
            "read_fil, search]\nd",
            "4: unknown tool 'read_fil'; did you mean",
        ),
        ("disallowedTools: [search]", "disallowedTools: [serch]", "5: unknown tool 'serch'; did"),
        ("maxTurns", "maxTurn", "7: unknown key 'maxTurn'; did you mean 'maxTurns'? allowed: ana"),
        ("maxTurns: 7", "maxTurns: 0", "7: maxTurns must be a whole number of at least 1, not 0"),
        ("skills: [hot]", "skills: [hut]", "8: unknown skill 'hut'; did you mean 'hot'?"),
        (
            "contract: report",
            "contract: repo",
            "10: unknown contract 'repo'; did you mean 'report'? allowed: fixes, plan, proofs, report",
        ),
        ("usd: 0.5", "usd: -1", "11: metadata.budget.usd must be a number above 0, not -1"),
        ("usd: 0.5", "dollars: 1", "11: unknown key 'dollars' in metadata.budget; allowed: secon"),
        (
            "[strong, human]",
            "[strong, boss]",
            "12: unknown stage 'boss'; allowed: fast, fast-retry, human, strong, strongest",
        ),
        (
            "[strong, human]",
            "[strong, fast, human]",
            "12: the stage 'fast' is out of order; allowed: each once, as in fast, fast-retry, stro",
        ),
        (
            "[strong, human]",
            "[strong, strong]",
            "12: the stage 'strong' is out of order; allowed: each once, as in fast, fast-retry, st",
        ),
        (
            "disallowedTools: [search]",
            "analyzers: [docs, doc]",
            "5: unknown topic 'doc'; did you mean 'docs'? allowed: ",
        ),
        (
            "disallowedTools: [search]",
            "analyzers: [docs, docs]",
            "5: 'docs' appears twice in analyzers; name it once",
        ),
        ("model: strong", "model: human", "6: 'human' is a person, not a model; name it last in"),
        ("Find slow code.\n", "", "2: has no prompt; write it below the front matter"),
        (
            "disallowedTools: [search]",
            "disallowedTools: [complexity]",
            "8: the skill 'hot' calls complexity, which this agent may not; add to tools, or drop",
        ),
    ],
)
def test_faults_of_an_agent(faults_of, old, new, message):
    assert old in AGENT
    found = faults_of({**FILES, "agents/perf.md": AGENT.replace(old, new)})
    assert len(found) == 1
    assert found[0].startswith(f".diffcourt/agents/perf.md:{message}")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: hot", "name: cold", "2: the name 'cold' must be the directory's name, 'hot'"),
        ("name: hot", "name: Hot", "2: name must be text matching regex"),
        ("name: hot", "name: hot--er", "2: name must be text matching regex"),
        ("Find hot code.", "x" * 1025, "3: description must be text of at most 1024 characters"),
        ("license: MIT", "licence: MIT", "4: unknown key 'licence'; did you mean 'license'? allo"),
        ("owner: us", "owner: 5", "6: metadata.owner must be text"),
        (
            "owner: us",
            "evidence-required: read_file:sink search:sinc",
            "6: unknown tool 'search:sinc'; did you mean 'search:sink'?",
        ),
        ("owner: us", "evidence-required: reed_file", "6: unknown tool 'reed_file'; did you mean"),
        ("owner: us", "stop-when: files-cover", "6: unknown stop condition 'files-cover'; did you"),
        ("owner: us", "output-fields: cwe cve", "6: unknown field 'cve'; did you mean 'cwe'?"),
        ("owner: us", "finding-category: safety", "6: unknown category 'safety'; allowed: arch"),
        ("owner: us", "output-field: cwe", "6: unknown key 'output-field'; did you mean 'output-"),
        ("complexity search", "complexity grep", "7: unknown tool 'grep'; allowed: active_content"),
        ("## Output", "## Out", "9: the section '## Output' is missing; required: When to use, S"),
        ("1. M", "M", None),
        (
            "`complexity`",
            "`complexety`",
            "17: a step may only put tools in backticks: unknown tool 'complexety'; did you mean",
        ),
        ("Read on.", "Run `git diff`.", "18: a step may only put tools in backticks: unknown tool"),
    ],
)
def test_faults_of_a_skill(faults_of, old, new, message):
    assert old in SKILL
    found = faults_of({**FILES, "skills_catalog/hot/SKILL.md": SKILL.replace(old, new)})
    if message is None:  # the other step is still there
        assert found == []
        return
    assert len(found) == 1
    assert found[0].startswith(f".diffcourt/skills_catalog/hot/SKILL.md:{message}")


def test_a_skill_cannot_require_evidence_that_its_agent_may_not_get(faults_of):
    needs = "evidence-required: 'read_file:sink git_log', stop-when: files-covered git_blame"
    skill = SKILL.replace("owner: us", needs)
    (fault,) = faults_of({**FILES, "skills_catalog/hot/SKILL.md": skill})
    assert "the skill 'hot' calls git_blame, git_log, which this agent may not" in fault


def test_what_code_checks_is_told_to_the_model(with_files):
    needs = "evidence-required: read_file:sink, output-fields: cwe, finding-category: qa"
    skill = SKILL.replace("owner: us", needs)
    agents = with_files({**FILES, "skills_catalog/hot/SKILL.md": skill}).agents
    (hot,) = agents["perf"].skills
    assert (hot.requires.evidence, hot.requires.stop) == (("read_file:sink",), ())
    assert hot.text.endswith(
        "## Checked by code\n\n"
        "- Each finding of category qa that no analyzer reports: its sink by read_file, the field cwe."
    )
    (change,) = (one for one in agents["generalist"].skills if one.name == "regression-risk")
    assert ": its source in the opening or by git_diff, the field" in change.text


PACK = """\
---
name: cold
description: What breaks in our templates.
metadata:
  pack-for: qa security
  files: "*.tpl"
  words: include
---
## A loop without an end
Each include is read again. Show: nest one in itself.
"""


def test_a_pack_has_any_sections_and_says_whom_and_what_it_is_for(with_files):
    pack = with_files({"skills_catalog/cold/SKILL.md": PACK}).skills["cold"]
    assert (pack.scope.files, pack.scope.words) == (("*.tpl",), ("include",))
    assert (pack.scope.topics, pack.tools) == (("qa", "security"), frozenset())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("pack-for: qa", "pack-for: qu", "5: unknown topic 'qu'; allowed: "),
        ("pack-for", "pack-fo", "5: unknown key 'pack-fo'; did you mean 'pack-for'?"),
        ("words:", "word:", "7: unknown key 'word'; did you mean 'words'?"),
        ('files: "*.tpl"', 'files: " "', "4: a knowledge pack needs topics in 'pack-for' and pat"),
        ("qa security", '""', "4: a knowledge pack needs topics in 'pack-for' and patterns in 'fi"),
        ("words: include", "stop-when: git_log", "7: only a playbook has 'stop-when', not a know"),
        ("## A loop", "## Steps\n1. Look.\n## A loop", "9: a knowledge pack has no '## Steps'"),
        ("nest one", "nest " * 1200, "9: a knowledge pack must be short, and this one has 6,0"),
    ],
)
def test_faults_of_a_pack(faults_of, old, new, message):
    assert old in PACK
    found = faults_of({"skills_catalog/cold/SKILL.md": PACK.replace(old, new)})
    assert found[0].startswith(f".diffcourt/skills_catalog/cold/SKILL.md:{message}")


def test_a_model_reads_what_it_judges_and_only_of_its_own_tools():
    body = (
        "# Hot\n\n## When to use\n\nAlways (see git_log). Call git_log first. Search by name (git_log, read_file, glob).\n\n"
        "## Steps\n\n1. Measure with\n   `complexity`.\n2. Read on.\n3. Ask `search`.\n\n"
        "## Output\n\n- A finding.\n- Use git_log.\n"
    )
    known = {"complexity", "search", "git_log", "read_file", "glob"}
    assert keep_judgment(body, {"search", "read_file"}, known) == (
        "## When to use\n\nAlways. Search by name (read_file).\n\n"
        "## What to judge\n\n1. Read on.\n2. Ask `search`.\n\n## Output\n\n- A finding."
    )
    machine = body.replace("2. Read on.\n", "")
    assert keep_judgment(machine, (), known) == (
        "## When to use\n\nAlways. Search by name.\n\n## Output\n\n- A finding."
    )


def test_a_skill_without_a_step_is_a_fault(faults_of):
    text = SKILL.replace("1. Measure", "Measure").replace("2. Read", "Read")
    (found,) = faults_of({**FILES, "skills_catalog/hot/SKILL.md": text})
    assert found.startswith(".diffcourt/skills_catalog/hot/SKILL.md:14: '## Steps' has no step")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: own", "name: mine", "1: the name 'mine' must be the file's name, 'own'"),
        ("version: 2", "version: 0", "2: version must be a whole number of at least 1, not 0"),
        ("threshold: 0.5", "threshold: 1.1", "4: threshold must be a number of at most 1, not"),
        ("{id: inner,", "{id: outer,", "7: the id 'outer' appears twice"),
        ("{id: files-accounted,", "{id: inner,", "9: the id 'inner' appears twice"),
        ("parent: outer}", "parent: outr}", "7: unknown group 'outr'; did you mean 'outer'? allo"),
        ("group: inner}", "group: iner}", "9: unknown group 'iner'; did you mean 'inner'? allow"),
        (
            "{id: outer, weight: 2}",
            "{id: outer, parent: inner}",
            "6: the group 'outer' is its own ancestor",
        ),
        ("kind: measured", "kind: counted", "9: criteria[0].kind must be 'measured' or 'judged'"),
        ("weight: 0.5", "weight: .nan", '13: criteria[1].weight must be a number, not ".nan"'),
        ("{score: 1,", "{score: 0,", "14: the levels of 'depth' must have ascending scores"),
        ("{score: 1,", "{score: 2,", "14: criteria[1].levels[1].score must be a number of at most"),
        ("na: full", "na: maybe", "15: criteria[1].na must be 'exclude', 'zero' or 'full', not"),
        (", {score: 1, description: All.}", "", "10: 'depth' is judged, so it needs at least"),
    ],
)
def test_faults_of_a_rubric(faults_of, old, new, message):
    assert old in RUBRIC
    found = faults_of({**FILES, "rubrics/own.yaml": RUBRIC.replace(old, new)})
    assert found
    assert found[0].startswith(f".diffcourt/rubrics/own.yaml:{message}")


def test_each_set_of_siblings_needs_a_positive_weight(faults_of):
    text = RUBRIC.replace("group: inner}", "group: inner, weight: -1}")
    (found,) = faults_of({"rubrics/own.yaml": text})
    assert found.endswith("no weight in the group 'inner' is above 0; at least one must be")
    text = RUBRIC.replace("{id: outer, weight: 2}", "{id: outer, weight: -2}")
    (found,) = faults_of({"rubrics/own.yaml": text.replace("weight: 0.5", "weight: 0")})
    assert found.endswith("no weight at the top level is above 0; at least one must be")


def test_an_empty_group_is_a_fault(faults_of):
    (found,) = faults_of({"rubrics/own.yaml": RUBRIC.replace("group: inner}", "group: outer}")})
    assert found.endswith("the group 'inner' is empty; put a criterion in it or remove it")


def test_all_errors_are_found_at_once_and_a_broken_skill_is_reported_once(faults_of):
    found = faults_of(
        {
            "agents/perf.md": AGENT.replace("maxTurns", "turns"),
            "skills_catalog/hot/SKILL.md": SKILL.replace("license", "licence"),
            "rubrics/own.yaml": "name: own\nversion: 1\n",
            "config/verdict.yaml": "block_at: huge\n",
        }
    )
    places = [message.split(": ")[0] for message in found]
    assert sorted(places) == [
        ".diffcourt/agents/perf.md:7",
        ".diffcourt/config/verdict.yaml:1",
        ".diffcourt/rubrics/own.yaml:1",
        ".diffcourt/skills_catalog/hot/SKILL.md:4",
    ]
