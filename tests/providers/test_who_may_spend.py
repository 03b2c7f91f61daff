"""A base of somebody else's that wants to spend the reviewer's money, against a real server."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import BlockingPortal

from orchestrator.app.cost_estimate import estimate_cost
from orchestrator.app.policy_sources import detect_environment, load_policy
from orchestrator.app.run_review import resume_review, run_review
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.run_archive import export_run, import_run
from orchestrator.catalog.data_file_layers import make_overlay, read_shipped_layer
from orchestrator.catalog.prices import load_prices
from orchestrator.ci_systems import CI_SYSTEMS, CiSystem, find_ci_system
from orchestrator.code_review.policy_loading import Policy
from orchestrator.engine.observer_events import ignore_event
from orchestrator.errors import ConfigError, InputError
from tests.providers.whole_kit import HEAD, serving
from tests.review.review_kit import change, in_ci, options

GREEDY = (
    "provider: anthropic\n"
    "bounds: {usd: 100000, tokens: 900000000, minutes: 20}\n"
)  # fmt: skip
DEAREST = "{fast: claude-fable-5-1, strong: claude-fable-5-1, strongest: claude-fable-5-1}"
MODELS = f"providers: {{anthropic: {{models: {DEAREST}}}}}\n"
FREE = "{input: 0, output: 0, cached: 0, cache_write: 0, source: us, date: 2026-01-01}"


def policy(files: dict[str, str], **given: Any) -> Policy:
    data = {name: text.encode() for name, text in files.items()}
    layers = [read_shipped_layer(), make_overlay(".diffcourt", data)]
    return load_policy(layers, options(None, **given))


def greedy(**given: Any) -> Policy:
    return policy({"config/defaults.yaml": GREEDY}, **given)


def test_no_proofs_asks_no_prover_whatever_base_sets() -> None:
    asks = {"config/defaults.yaml": "proofs: {agent: prover, findings: 3}\n"}
    assert policy(asks).settings.proofs.agent == "prover"
    assert policy(asks, no_proofs=True).settings.proofs.agent is None


def test_base_alone_makes_no_paid_request(
    tmp_path: Path, portal: BlockingPortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = {".diffcourt/config/defaults.yaml": GREEDY, ".diffcourt/config/models.yaml": MODELS}
    repo = change(tmp_path, base, HEAD)
    with serving(portal, monkeypatch, "anthropic", {}) as server:
        verdict = run_review(options(repo.path), ignore_event)
        assert not server.requests
    assert verdict.usage.usd == 0
    assert verdict.findings
    (note,) = verdict.usage.notes
    assert "base chooses the provider anthropic, which nobody allowed here" in note
    assert "--allow-spending or DIFFCOURT_ALLOW_SPENDING=1" in note


def test_bases_provider_and_bounds_count_where_somebody_or_ci_allows_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def found(**given: Any) -> tuple[str, float, int]:
        settings = greedy(**given).settings
        return settings.provider, settings.bounds.usd, settings.bounds.tokens

    shipped, base = (2.0, 2_000_000), (100_000.0, 900_000_000)
    assert found() == ("offline", *shipped)
    assert found(provider="offline") == ("offline", *shipped)
    assert found(provider="openai") == ("openai", *shipped)
    assert found(provider="openai", max_usd=5.0) == ("openai", 5.0, shipped[1])
    assert found(allow_spending=True) == ("anthropic", *base)
    in_ci(monkeypatch)
    assert found() == ("anthropic", *base)
    monkeypatch.setenv("DIFFCOURT_ALLOW_SPENDING", "0")
    assert found()[0] == "offline"
    monkeypatch.delenv("GITHUB_ACTIONS")
    monkeypatch.setenv("DIFFCOURT_ALLOW_SPENDING", "1")
    assert found() == ("anthropic", *base)


OTHER_VALUES = ("", "false", "0", "no", "true", "1", "True", "yes", "woodpecker", " true")


@pytest.mark.attack("CI=false, and any other value that no CI system sets, as consent")
@pytest.mark.parametrize("value", OTHER_VALUES)
def test_a_variable_named_ci_alone_allows_nothing(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", value)
    policy = greedy()
    assert policy.settings.provider == "offline"
    assert not policy.run_tests
    assert not policy.run_analyzers
    assert detect_environment() == "local"


@pytest.mark.attack("another tool's variables, or half of a CI system's, as consent")
@pytest.mark.parametrize("system", CI_SYSTEMS, ids=lambda system: system.name)
def test_a_ci_system_is_known_by_all_of_its_values(system: CiSystem) -> None:
    for name in system.markers:
        found = {**MARKERS[system.name]}
        assert find_ci_system(found) == system
        for wrong in ("", "false", "no", "FALSE", "set"):
            assert find_ci_system({**found, name: wrong}) is None
        del found[name]
        assert find_ci_system(found) is None


MARKERS = {
    "GitHub, Forgejo, Gitea Actions": {"CI": "true", "GITHUB_ACTIONS": "true"},
    "GitLab CI/CD": {"CI": "true", "GITLAB_CI": "true"},
    "Azure Pipelines": {"TF_BUILD": "True"},
    "Jenkins": {"CI": "true", "BUILD_TAG": "jenkins-shop-main-7"},
    "CircleCI": {"CI": "true", "CIRCLECI": "true"},
    "Travis CI": {"CI": "true", "TRAVIS": "true"},
    "Buildkite": {"CI": "true", "BUILDKITE": "true"},
    "Bitbucket Pipelines": {"CI": "true", "BITBUCKET_BUILD_NUMBER": "12"},
    "Woodpecker": {"CI": "woodpecker", "CI_SYSTEM_NAME": "woodpecker"},
    "Drone": {"CI": "true", "DRONE": "true"},
    "AppVeyor": {"CI": "True", "APPVEYOR": "True"},
    "Semaphore": {"CI": "true", "SEMAPHORE": "true"},
    "Cirrus CI": {"CI": "true", "CIRRUS_CI": "true"},
    "TeamCity": {"TEAMCITY_VERSION": "2025.07 (build 197242)"},
    "AWS CodeBuild": {"CODEBUILD_BUILD_ARN": "arn:aws:codebuild:us-east-2:1:build/shop:1"},
}
"""What the documentation of each system promises to set."""


def test_the_page_on_ci_lists_every_known_system() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/ci.md").read_text()
    for name, markers in MARKERS.items():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| {name} |"))
        assert all(marker in row for marker in markers)
    assert MARKERS.keys() == {system.name for system in CI_SYSTEMS}


@pytest.mark.attack("one consent taken for another")
@pytest.mark.parametrize(
    ("given", "spends", "tests", "analyzes"),
    [
        ({"allow_spending": True}, True, False, False),
        ({"run_tests": True}, False, True, False),
        ({"run_analyzers": True}, False, False, True),
        ({"provider": "anthropic", "max_usd": 1.0}, False, False, False),
    ],
)
def test_no_consent_implies_another(
    given: dict[str, Any], spends: bool, tests: bool, analyzes: bool
) -> None:
    policy = greedy(**given)
    assert (policy.settings.bounds.tokens > 2_000_000) is spends
    assert (policy.run_tests, policy.run_analyzers) == (tests, analyzes)


@pytest.mark.attack("a consent given in CI where one of the others is forbidden")
def test_in_ci_each_consent_is_withdrawn_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def allowed() -> list[bool]:
        policy = greedy()
        return [policy.settings.provider == "anthropic", policy.run_tests, policy.run_analyzers]

    in_ci(monkeypatch)
    assert allowed() == [True, True, True]
    for position, name in enumerate(("ALLOW_SPENDING", "RUN_TESTS", "RUN_ANALYZERS")):
        monkeypatch.setenv(f"DIFFCOURT_{name}", "0")
        assert allowed() == [position != place for place in range(3)]
        monkeypatch.delenv(f"DIFFCOURT_{name}")


def test_a_bound_that_is_not_raised_is_named() -> None:
    usd, tokens = greedy(provider="anthropic").notes
    assert usd.startswith("base raises bounds.usd to 100000, which nobody allowed here")
    assert tokens.startswith("base raises bounds.tokens to 9e+08")
    assert greedy(provider="anthropic").settings.bounds.minutes == 20
    assert policy({"config/defaults.yaml": "bounds: {usd: 0.5}\n"}, provider="openai").notes == ()


@pytest.mark.parametrize(
    "entry",
    [
        f"claude-fable-5-1: {FREE}",
        f"claude-fable-5-1-2026-11-01: {FREE}",
        "claude-fable-5-1: {output: 49.9}",
        "gpt-6.1-sol: {long: null}",
        "gpt-6.1-sol: {long: {above: 100000000}}",
    ],
)
def test_base_never_lowers_a_known_price(entry: str) -> None:
    data = {"config/prices.yaml": f"prices:\n  {entry}\n".encode()}
    with pytest.raises(ConfigError, match=r"prices\.yaml:2: .*may only raise a known price"):
        load_prices([read_shipped_layer(), make_overlay(".diffcourt", data)])


def test_a_bound_in_dollars_refuses_a_model_whose_price_nobody_vouches_for(tmp_path: Path) -> None:
    files = {
        ".diffcourt/config/models.yaml": "providers: {anthropic: {models: {strong: dear-1}}}\n",
        ".diffcourt/config/prices.yaml": f"prices: {{dear-1: {FREE}}}\n",
    }
    repo = change(tmp_path, files, HEAD)

    def ask(**given: Any) -> None:
        estimate_cost(options(repo.path, provider="anthropic", **given))

    with pytest.raises(InputError, match=r"^--max-usd needs a price of dear-1; [^\n]*$"):
        ask(max_usd=0.01)
    ask()
    ask(max_usd=0.01, allow_spending=True)


def test_an_imported_run_spends_only_where_somebody_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, ours = (change(tmp_path / name, {}, HEAD).path for name in ("theirs", "ours"))
    asked = options(theirs, provider="anthropic", run_tests=True, allow_spending=True)
    with state_directory.open_store(theirs) as store:
        anyio.run(store.create, "run-1", 0.0, {"options": asked.as_meta()})
    export_run(theirs, "run-1", tmp_path / "out")
    import_run(ours, tmp_path / "out")
    with pytest.raises(InputError, match="the imported run uses the provider anthropic"):
        resume_review(ours, "run-1", ignore_event)
    monkeypatch.setenv("DIFFCOURT_ALLOW_SPENDING", "1")
    with pytest.raises(InputError, match="ANTHROPIC_API_KEY"):
        resume_review(ours, "run-1", ignore_event)
