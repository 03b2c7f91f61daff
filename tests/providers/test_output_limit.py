"""Answers short enough for the budget, and what a conversation will cost."""

import re
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.app.model_opening import route_agents
from orchestrator.catalog.data_file_layers import make_overlay, read_shipped_layer
from orchestrator.catalog.model_config import ContextWindows, load_models
from orchestrator.catalog.prices import Price, Prices
from orchestrator.code_review.policy_loading import read_catalog
from orchestrator.engine.budget import max_output_that_fits
from orchestrator.providers.api_model import ApiModel
from orchestrator.providers.call_costs import estimate_conversation, max_call_cost
from orchestrator.providers.retry import Retrier
from tests.model_server.server import read_script
from tests.providers.provider_kit import (
    FULL,
    PROVIDERS,
    QUICK,
    override_config,
    request,
    shipped_models,
)

PAGE = (Path(__file__).parents[2] / "docs" / "providers.md").read_text("utf-8")
SCRIPTED = Path(__file__).parents[2] / "docs" / "play-the-model.md"


def make_model_without_client(prices: Prices | None = None) -> ApiModel:
    from orchestrator.providers.openai import OpenAIModel  # it takes a second

    config = override_config(FULL, QUICK)
    return OpenAIModel(
        config.provider("openai"),
        None,
        name="openai",
        prices=shipped_models()[1] if prices is None else prices,
        retrier=Retrier(QUICK),
        secret="",
        on_event=lambda event: None,
    )


@given(st.floats(0, 0.01), st.integers(0, 6000), st.integers(1, 4000))
def test_a_request_at_the_limit_fits_and_one_more_token_does_not(usd, tokens, most):
    model, asked = make_model_without_client(), request("openai", max_tokens=most)
    limit = max_output_that_fits(model, asked, tokens, usd)
    assert 0 <= limit <= max(most, 16)

    def fits(given_limit):
        case = model.worst_case(replace(asked, max_tokens=given_limit))
        return case.tokens <= tokens and case.usd <= usd

    if limit:
        assert fits(limit)
        assert limit >= most or not fits(limit + 2)
    else:
        assert not fits(1) or most < 16


def test_without_a_price_only_tokens_bound():
    model, asked = make_model_without_client(prices={}), request("openai", max_tokens=1000)
    whole = model.worst_case(asked).tokens
    assert max_output_that_fits(model, asked, float("inf"), 0.0) == 1000
    assert max_output_that_fits(model, asked, whole - 400, 0.0) == 600


def test_a_conversation_pays_for_each_part_once_and_then_the_caches_rate():
    price = Price(1, 5, 0.1, 1, source="s", date=date(2026, 1, 1))
    one = estimate_conversation(price, prompt=1000, per_turn=0, output=100, turns=1).usd
    assert one == pytest.approx((1000 + 500) / 1e6)
    whole = estimate_conversation(price, prompt=1000, per_turn=400, output=100, turns=2)
    assert (whole.input_tokens, whole.output_tokens) == (1000 + 1500, 200)
    two = whole.usd
    assert two - one == pytest.approx((1000 * 0.1 + 500 + 500) / 1e6)
    assert two < max_call_cost(price, 1000 + 1500, 200)
    shared = estimate_conversation(price, prompt=1000, cached=800, per_turn=0, output=100, turns=1)
    assert shared.input_tokens == 1000
    assert shared.usd == pytest.approx((800 * 0.1 + 200 + 500) / 1e6)


def test_the_examples_of_the_page_work():
    files = dict(re.findall(r"```yaml file=\.diffcourt/(\S+)\n(.*?)```", PAGE, re.DOTALL))
    layers = [
        read_shipped_layer(),
        make_overlay(".diffcourt", {k: v.encode() for k, v in files.items()}),
    ]
    local = load_models(layers).provider("openai-compatible")
    assert local.models["strong"] == "qwen3-coder"
    assert local.can.schemas == "strict"
    (script,) = re.findall(r"```json\n(.*?)```", SCRIPTED.read_text("utf-8"), re.DOTALL)
    assert len(read_script(script)["security"]) == 3


def test_the_page_names_every_flag_and_every_variable():
    config, _ = shipped_models()
    for name in PROVIDERS:
        provider = config.provider(name)
        assert f"`{provider.key_env}`" in PAGE
        assert f"`{provider.base_url_env}`" in PAGE
    for flag in type(FULL).__struct_fields__:
        assert f"| `{flag}` |" in PAGE
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (Path(__file__).parents[2] / "docs" / target).is_file()


def test_a_model_has_its_window_a_snapshot_its_names_and_any_other_the_default():
    config, _ = shipped_models()
    known = config.window("claude-haiku-5-5")
    assert config.window("claude-haiku-5-5-20261007") == known > config.window("local-model")
    assert config.window("local-model") == config.windows.default == 128_000


def test_an_answer_gets_at_most_half_of_a_small_window():
    catalog = read_catalog([read_shipped_layer()])
    catalog = replace(
        catalog, models=replace(catalog.models, windows=ContextWindows(models={"small": 8_000}))
    )
    chosen = replace(catalog.settings, provider="openai-compatible")
    choose = route_agents(chosen, catalog, {"OPENAI_COMPATIBLE_MODEL": "small"})[0]
    choice = choose(catalog.agents["qa"])
    assert (choice.window, choice.max_tokens) == (8_000, 4_000)
