"""Infrastructure files in whole reviews: what is new, where it is shown, how deep it was read."""

import re
from pathlib import Path

import pytest

from orchestrator.code_review.verdict.model import Verdict
from orchestrator.errors import ConfigError
from tests.review.review_kit import change, review

BLOCK = """apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
    - name: app
      image: app:1.2
      securityContext:
        privileged: {}
"""
FLOW = """{{apiVersion: v1, kind: Pod, metadata: {{name: web}}, spec: {{containers: [
  {{name: app, image: "app:1.2", securityContext: {{privileged: {}}}}}]}}}}
"""
RULE = "security.container-privileged"


def found(verdict: Verdict) -> list[tuple[str, int]]:
    return [(finding.rule, finding.start_line) for finding in verdict.findings]


@pytest.mark.parametrize(("text", "line"), [(BLOCK, 10), (FLOW, 2)], ids=["block", "flow"])
async def test_both_styles_are_found_at_the_line_of_the_value(
    tmp_path: Path, text: str, line: int
) -> None:
    repo = change(tmp_path, {"web.yaml": text.format("false")}, {"web.yaml": text.format("true")})
    verdict = await review(repo)
    assert found(verdict) == [(RULE, line)]
    assert verdict.findings[0].detail == (
        "The container runs privileged (Pod web, containers[app].securityContext.privileged)"
    )
    assert [(entry.path, entry.depth) for entry in verdict.checked] == [("web.yaml", "code")]


async def test_a_setting_of_base_is_not_new_in_the_other_yaml_style(tmp_path: Path) -> None:
    repo = change(tmp_path, {"web.yaml": BLOCK.format("true")}, {"web.yaml": FLOW.format("yes")})
    assert not found(await review(repo))


async def test_an_object_that_becomes_dangerous_is_new_though_its_line_is_not(
    tmp_path: Path,
) -> None:
    head = (
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: all}\nrules:\n"
        "  - apiGroups: ['']\n    verbs: ['*']\n    resources: ['%s']\n"
    )
    repo = change(tmp_path, {"role.yaml": head % "pods"}, {"role.yaml": head % "*"})
    assert found(await review(repo)) == [("security.rbac-wildcard", 6)]


async def test_a_password_is_one_finding_and_is_not_shown(tmp_path: Path) -> None:
    compose = "services: {db: {image: 'postgres:18', environment: {POSTGRES_PASSWORD: %s}}}\n"
    head = {"compose.yaml": compose % "tr0ub4dor-3xY"}
    verdict = await review(change(tmp_path, {"compose.yaml": compose % "'$DB'"}, head))
    assert found(verdict) == [("security.password-literal", 1)]
    assert "tr0ub4dor" not in repr(verdict)


async def test_a_file_that_cannot_be_walked_makes_the_review_incomplete(tmp_path: Path) -> None:
    levels = "".join(f"b{n}: &b{n} [*b{n - 1}, *b{n - 1}]\n" for n in range(1, 20))
    bomb = f"b0: &b0 [x, x]\n{levels}"
    verdict = await review(change(tmp_path, {}, {"web.yaml": BLOCK.format("true") + bomb}))
    assert verdict.status == "incomplete"
    whys = {entry.tool: entry.why for entry in verdict.skipped if entry.gap}
    assert whys["infrastructure"].startswith("its aliases expand to more than")


CHECKOUT = """on:
  pull_request_target:
    types: [opened]
permissions: {}
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@0b1c2d3e4f5061728394a5b6c7d8e9f001122334
        with:
          ref: REF
      - run: make
"""
IN_FLOW = """{on: {pull_request_target: {types: [opened]}}, permissions: {}, jobs: {test: {
  runs-on: ubuntu-latest, steps: [
    {uses: actions/checkout@0b1c2d3e4f5061728394a5b6c7d8e9f001122334, with: {"ref":
      REF}}, {run: make}]}}}
"""
HEAD = '"${{ github.event.pull_request.head.sha }}"'
WORKFLOW = ".github/workflows/ci.yml"


@pytest.mark.parametrize("text", [CHECKOUT, IN_FLOW], ids=["block", "flow"])
async def test_a_privileged_checkout_is_one_critical_finding_in_both_styles(
    tmp_path: Path, text: str
) -> None:
    base = {WORKFLOW: text.replace("REF", "main")}
    verdict = await review(change(tmp_path, base, {WORKFLOW: text.replace("REF", HEAD)}))
    assert [finding.rule for finding in verdict.findings] == [
        "security.workflow-runs-strangers-code"
    ]
    assert verdict.verdict == "block"


@pytest.mark.parametrize(
    ("kinds", "severity"), [("[labeled, assigned]", "low"), ("[labeled, opened]", "medium")]
)
async def test_who_may_label_is_no_stranger(tmp_path: Path, kinds: str, severity: str) -> None:
    base = (
        f"on: {{pull_request_target: {{types: {kinds}}}}}\npermissions: {{}}\n"
        "jobs:\n  a:\n    runs-on: ubuntu-latest\n    permissions:\n      contents: read\n"
        "    steps: [{uses: some/action@v1}]\n"
    )
    head = base.replace("contents: read", "contents: write")
    verdict = await review(change(tmp_path, {WORKFLOW: base}, {WORKFLOW: head}))
    found = {finding.rule: finding.severity for finding in verdict.findings}
    named = "strangers" if severity == "medium" else "shared"
    assert found[f"security.workflow-token-{named}"] == severity


async def test_commands_of_a_pipeline_are_searched_as_a_script_is(tmp_path: Path) -> None:
    head = """build:
  script:
    - make
    - curl -sSL https://get.helm.sh/install.sh | bash
    - |
      cd build
      eval "note $CI_COMMIT_MESSAGE"
      rm -rf *
"""
    verdict = await review(change(tmp_path, {}, {".gitlab-ci.yml": head}))
    assert found(verdict) == [("security.shell-eval", 7), ("security.remote-script", 4)]
    assert [(entry.path, entry.depth) for entry in verdict.checked] == [(".gitlab-ci.yml", "code")]


async def test_a_template_of_a_chart_is_searched_and_not_read_as_code(tmp_path: Path) -> None:
    path = "chart/templates/pod.yaml"
    pod = BLOCK.format("true").replace("name: web", '{{- include "names" . | nindent 2 }}')
    head = {path: pod, "a.py": "A = 1\n"}
    verdict = await review(change(tmp_path, {}, head))
    assert found(verdict) == [(RULE, 10)]
    assert {entry.path: entry.depth for entry in verdict.checked} == {path: "text", "a.py": "code"}


OWN = """reads: kubernetes
patterns:
  - {code: k8s-shop-team, at: [labels.team], value: none, message: Nobody answers for it}
"""
OWN_RULE = """rules:
  - id: qa.shop-team
    title: Deployment without a team
    severity: low
    from: ["infrastructure:k8s-shop-team"]
    why: Nobody is called when it fails.
    fix: Name the team.
"""
POLICY = ".diffcourt/config"


async def test_a_repository_adds_values_of_its_own(tmp_path: Path) -> None:
    base = {f"{POLICY}/infrastructure/shop.yaml": OWN, f"{POLICY}/rules/shop.yaml": OWN_RULE}
    pod = BLOCK.format("false").replace("name: web", "labels: {team: %s}")
    repo = change(tmp_path, {**base, "web.yaml": pod % "till"}, {"web.yaml": pod % "none"})
    assert found(await review(repo)) == [("qa.shop-team", 4)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("patterns: []\n", "missing required field `reads`"),
        (OWN.replace("kubernetes", "ansible"), "Invalid enum value 'ansible'"),
        (OWN.replace("labels.team", "labels.te*"), "the last key in `at` must be plain, or `*`"),
        (OWN + "agents: ['(x']\n", "agents: missing )"),
        (OWN.replace("at:", "on:"), "unknown field `on`"),
        (OWN.replace("none", "'(x'"), "k8s-shop-team: missing )"),
        (OWN.replace("team,", "crew,"), "no rule names infrastructure:k8s-shop-crew"),
    ],
)
async def test_an_unreadable_value_pattern_is_an_error(tmp_path: Path, text: str, why: str) -> None:
    base = {f"{POLICY}/infrastructure/shop.yaml": text, f"{POLICY}/rules/shop.yaml": OWN_RULE}
    with pytest.raises(ConfigError, match=re.escape(why)):
        await review(change(tmp_path, base, {"a.py": "A = 1\n"}))
