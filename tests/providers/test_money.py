"""Prices, bounds of tokens, schemas, and the files they come from."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.catalog.data_file_layers import make_overlay, read_shipped_layer
from orchestrator.catalog.model_config import load_models
from orchestrator.catalog.prices import LongRates, Price, load_prices, price_of
from orchestrator.code_review.agent_report_contracts import contracts
from orchestrator.engine.model_routing import HUMAN
from orchestrator.errors import ConfigError, InputError
from orchestrator.providers.call_costs import compute_cost, compute_savings, max_call_cost
from orchestrator.providers.factory import make_model, missing_variable
from orchestrator.providers.reply_normalization import TokenCounts
from orchestrator.providers.request_normalization import to_strict_schema
from orchestrator.providers.token_bounds import max_input_tokens, max_text_tokens
from tests.model_server.api_validation import check_strict_schema
from tests.providers.provider_kit import REPORT, request, shipped_models

COUNT = st.integers(0, 2_000_000)
PRICE = Price(
    1, 5, 0.1, 1.25, long=LongRates(2, 7.5, 0.2, 2.5, 1000), source="s", date=date(2026, 1, 1)
)


def layered(files):
    return [
        read_shipped_layer(),
        make_overlay(".diffcourt", {k: v.encode() for k, v in files.items()}),
    ]


# --- money ----------------------------------------------------------------------------------------


def test_each_kind_of_token_has_its_rate():
    counts = TokenCounts(input=1000, output=100, cached=600, cache_write=300)
    assert compute_cost(PRICE, counts) == pytest.approx(
        (100 * 1 + 600 * 0.1 + 300 * 1.25 + 100 * 5) / 1e6
    )


def test_a_long_request_is_charged_the_long_rates_as_a_whole():
    assert compute_cost(PRICE, TokenCounts(1000, 0)) == pytest.approx(1000 * 1 / 1e6)
    assert compute_cost(PRICE, TokenCounts(1001, 0)) == pytest.approx(1001 * 2 / 1e6)


@given(COUNT, COUNT, COUNT, COUNT, COUNT)
def test_no_call_costs_more_than_its_worst_case(inputs, more, output, cached, written):
    """Whatever part was cached, and though the bound of the input is above the input."""
    for price in (PRICE, *shipped_models()[1].values()):
        counts = TokenCounts(inputs, output, cached, written)
        assert compute_cost(price, counts) <= max_call_cost(price, inputs + more, output) * (
            1 + 1e-9
        )
        assert compute_cost(price, counts) >= 0


def test_savings_and_costs_of_the_cache_are_counted():
    assert compute_savings(PRICE, TokenCounts(1000, 9, cached=500)) == pytest.approx(
        500 * 0.9 / 1e6
    )
    assert compute_savings(PRICE, TokenCounts(1000, 9, cache_write=400)) == pytest.approx(
        -400 * 0.25 / 1e6
    )


def test_a_snapshot_costs_what_its_name_costs():
    prices = shipped_models()[1]
    assert price_of(prices, "gpt-6.1-sol-2026-09-29") == prices["gpt-6.1-sol"]
    assert price_of(prices, "claude-haiku-5-5-20261007") == prices["claude-haiku-5-5"]
    assert price_of(prices, "claude-haiku-5-5-turbo") is None


# --- tokens ---------------------------------------------------------------------------------------


@given(st.text(max_size=300))
def test_a_bound_of_tokens_grows_with_the_text_and_never_passes_its_bytes(text):
    size = len(text.encode("utf-8", "surrogatepass"))
    assert size / 2 <= max_text_tokens(text) <= size + 1
    assert max_text_tokens(text) <= max_text_tokens(text + "a1é")


def test_the_bound_of_a_request_counts_all_that_is_sent():
    small = request("anthropic")
    assert max_input_tokens(request("anthropic", tools=())) < max_input_tokens(small)
    assert max_input_tokens(request("anthropic", output_schema=None)) < max_input_tokens(small)
    assert max_input_tokens(request("anthropic", system=())) < max_input_tokens(small)


# --- schemas --------------------------------------------------------------------------------------


def test_a_contract_becomes_strict_and_keeps_its_words():
    made = to_strict_schema(REPORT)
    assert made is not None
    check_strict_schema(made, "schema", all_required=True)
    assert made["required"] == ["summary", "score", "places"]
    assert made["properties"]["score"]["description"] == "minimum: 0; maximum: 1"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
        {"type": "object", "properties": {"a": {"type": "string"}}},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "additionalProperties": False},
        {"type": "object", "properties": {"a": {"type": "array"}}, "additionalProperties": False},
    ],
)
def test_a_schema_that_strict_mode_cannot_express_is_not_altered(schema):
    assert to_strict_schema(schema) is None


def test_unions_enums_and_lists_of_types_are_kept():
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": ["string", "null"]},
            "b": {"oneOf": [{"type": "integer"}, {"const": "none"}], "description": "either"},
            "c": {"enum": ["x", "y"], "default": "x"},
            "title": {"type": "string", "title": "T"},
        },
        "additionalProperties": False,
    }
    made = to_strict_schema(schema)
    assert made is not None
    check_strict_schema(made, "schema", all_required=True)
    assert made["properties"] == {
        "a": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "b": {"anyOf": [{"type": "integer"}, {"const": "none"}], "description": "either"},
        "c": {"enum": ["x", "y"]},
        "title": {"type": "string"},
    }


def test_the_contracts_of_the_review_can_all_be_said_strictly():
    for name, schema in contracts().items():
        made = to_strict_schema(schema)
        assert made is not None, name
        check_strict_schema(made, name, all_required=True)


# --- files ----------------------------------------------------------------------------------------


def test_every_model_of_the_escalation_stages_has_a_price_with_its_source_and_date():
    config, prices = shipped_models()
    assert [stage.name for stage in config.stages][-1] == HUMAN
    for name in ("anthropic", "openai"):
        for stage in config.stages[:-1]:
            price = prices[config.resolve(name, stage.name, {})]
            assert price.source.startswith(("platform.claude.com", "developers.openai.com"))
            assert price.date >= date(2026, 1, 1)


def test_stages_lead_to_models_and_other_names_are_models():
    config, _ = shipped_models()
    assert config.resolve("anthropic", "fast-retry", {}) == config.resolve("anthropic", "fast", {})
    assert config.resolve("anthropic", "claude-opus-5-5", {}) == "claude-opus-5-5"
    local = {"OPENAI_COMPATIBLE_MODEL": "qwen"}
    assert config.resolve("openai-compatible", "strong", local) == "qwen"
    with pytest.raises(ConfigError, match="OPENAI_COMPATIBLE_MODEL"):
        config.resolve("openai-compatible", "strong", {})
    with pytest.raises(ConfigError, match="no provider 'nobody'"):
        config.resolve("nobody", "strong", {})


def test_a_repository_overrides_models_prices_and_call_policy():
    files = {
        "config/models.yaml": "providers: {openai: {models: {fast: my-model}}}\ncalls: {attempts: 2}",
        "config/prices.yaml": "prices: {my-model: {input: 3, output: 9, cached: 1, cache_write: 3, "
        "source: our contract, date: 2026-02-01}}",
    }
    config, prices = load_models(layered(files)), load_prices(layered(files))
    assert config.resolve("openai", "fast", {}) == "my-model"
    assert config.resolve("openai", "strong", {}) == "gpt-6.1-terra"
    assert config.calls.attempts == 2
    assert prices["my-model"].output == 9
    assert "gpt-6-luna" in prices


@pytest.mark.parametrize(
    "line",
    [
        "openai: {base_url: https://evil.example/v1}",
        "openai: {base_url_env: HOME}",
        "anthropic: {key: GITHUB_TOKEN}",
        "openai-compatible: {api: responses}",
        "new: {api: chat, key: AWS_SECRET, base_url: https://evil.example, base_url_env: X}",
    ],
)
def test_a_repository_cannot_say_where_a_key_goes(line):
    with pytest.raises(ConfigError, match=r"models\.yaml:2: .*decides where a key goes"):
        load_models(layered({"config/models.yaml": f"providers:\n  {line}\n"}))


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (
            "models",
            "escalation: [{name: fast}, {name: fast}]",
            "1: .*'fast' appears twice; name it",
        ),
        ("models", "escalation: [{name: human}, {name: fast}]", "1: .*allowed: as the last stage"),
        (
            "models",
            "escalation:\n- name: fast\n- {name: b, model: fsat}",
            "3: .*did you mean 'fast'",
        ),
        ("models", "providers:\n  openai:\n    models: {quick: m}", "3: unknown stage 'quick' in"),
        (
            "models",
            "calls: {attempts: 0}",
            "1: calls.attempts must be a whole number of at least 1",
        ),
        ("prices", "prices: {m: {input: 1, output: 1, cached: 1, cache_write: 1}}", "'source'"),
        ("prices", "prices: {gpt-6-luna: {date: 2026-02-30}}", "must be a day, written as"),
        (
            "prices",
            "prices: {gpt-6-luna: {long: {input: 0.01}}}",
            "a rate under long may not be lower",
        ),
    ],
)
def test_a_configuration_error_is_one_line(file, text, said):
    sources = layered({f"config/{file}.yaml": text})
    with pytest.raises(ConfigError, match=rf"^\.diffcourt/config/{file}\.yaml:.*{said}"):
        (load_models if file == "models" else load_prices)(sources)


def test_a_repositorys_escalation_may_be_shorter_than_the_shipped_one():
    config = load_models(layered({"config/models.yaml": "escalation: [{name: fast}]"}))
    assert [stage.name for stage in config.stages] == ["fast"]


def test_a_provider_that_is_not_configured_says_what_to_set():
    config, prices = shipped_models()
    for name, variable in (
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("openai", "OPENAI_API_KEY"),
        ("openai-compatible", "OPENAI_COMPATIBLE_BASE_URL"),
    ):
        assert missing_variable(config.provider(name), {}) == variable
        with pytest.raises(InputError, match=f"needs the environment variable {variable}"):
            make_model(name, config, prices, env={})
    for key in ("two words", "caf\u00e9", "a\x7fb"):
        with pytest.raises(InputError, match="invalid characters") as fault:
            make_model("openai", config, prices, env={"OPENAI_API_KEY": key})
        assert key not in str(fault.value)
    env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "localhost:8000"}
    with pytest.raises(InputError, match="OPENAI_BASE_URL must be a URL"):
        make_model("openai", config, prices, env=env)


def test_every_key_of_the_files_is_explained_where_it_stands():
    text = (read_shipped_layer().files["config/models.yaml"]).decode()
    for key in ("strategy", "effort", "min_score", "max_tokens", "key", "base_url_env", "schemas"):
        assert any(f"{key}:" in line and "#" in line for line in text.splitlines()), key
