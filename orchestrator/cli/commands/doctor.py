"""``diffcourt doctor``: show the sandbox and the configured model providers."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.cli.arguments import add_json_flag, add_repo
from orchestrator.cli.output import as_json, emit, width_of
from orchestrator.errors import EXIT_OK, EXIT_USAGE, ConfigError, DiffcourtError

if TYPE_CHECKING:
    from orchestrator.catalog.model_config import ModelsConfig
    from orchestrator.catalog.prices import Price, Prices
    from orchestrator.sandbox.level_descriptions import SandboxReport

TRY_SECONDS = 30.0
TRY_TOKENS = 300
"""Tokens of the answer: enough for short reasoning and one word."""


class StageLine(Struct, frozen=True):
    """A stage of one provider: its model, empty when none is named, and what that costs."""

    stage: str
    model: str
    price: Price | None


class ProviderStatus(Struct, frozen=True):
    """The configuration of one provider, and the result of a call to it.

    Attributes:
        missing: the environment variable that must be set; empty when it is configured.
        key_env: the environment variable that holds the key.
        answer: a summary of the answer; empty without a successful call.
        error: why the call failed; empty when it did not.
    """

    name: str
    missing: str
    key_env: str
    stages: tuple[StageLine, ...]
    answer: str = ""
    error: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Show the sandbox level, and the configured providers with their model and price\n"
        "for each escalation stage. Without --call none is called. Keys are not printed."
    )
    add_repo(parser)
    parser.add_argument(
        "--call",
        action="store_true",
        help="make one small call to each configured provider, with its cheapest model",
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Print the status; the exit code is 2 when a call failed."""
    import anyio

    from orchestrator.app.policy_sources import read_layers_on_disk
    from orchestrator.catalog.model_config import load_models
    from orchestrator.catalog.prices import load_prices
    from orchestrator.sandbox.level_descriptions import describe_sandbox, try_program

    sources = read_layers_on_disk(args.repo)
    config, prices, env = load_models(sources), load_prices(sources), dict(os.environ)
    statuses = [_provider_status(name, config, prices, env) for name in config.providers]
    if args.call:
        statuses = anyio.run(_call_all, statuses, config, prices, env)
    sandbox = describe_sandbox()
    if sandbox.level:
        sandbox = replace(sandbox, refusal=anyio.run(try_program))
    emit(_json(statuses, sandbox) if args.json else _text(statuses, sandbox), sys.stdout)
    return _code(statuses) if args.call else EXIT_OK


def _code(statuses: list[ProviderStatus]) -> int:
    if not any(status.answer or status.error for status in statuses):
        emit("no provider is configured, so none was called\n", sys.stderr)
        return EXIT_USAGE
    return EXIT_USAGE if any(status.error for status in statuses) else EXIT_OK


def _provider_status(
    name: str, config: ModelsConfig, prices: Prices, env: Mapping[str, str]
) -> ProviderStatus:
    from orchestrator.catalog.prices import price_of
    from orchestrator.engine.model_routing import HUMAN
    from orchestrator.providers.factory import missing_variable

    provider = config.provider(name)
    stages = []
    for stage in config.stages:
        if stage.name == HUMAN:
            continue
        try:
            model = config.resolve(name, stage.name, env)
        except ConfigError:
            model = ""
        stages.append(StageLine(stage.name, model, price_of(prices, model)))
    return ProviderStatus(name, missing_variable(provider, env), provider.key_env, tuple(stages))


async def _call_all(
    statuses: list[ProviderStatus], config: ModelsConfig, prices: Prices, env: Mapping[str, str]
) -> list[ProviderStatus]:
    short = replace(config.calls, attempts=2, timeout=TRY_SECONDS, deadline=TRY_SECONDS)
    quick = replace(config, calls=short)
    return [
        status if status.missing else await _call(status, quick, prices, env) for status in statuses
    ]


async def _call(
    status: ProviderStatus, config: ModelsConfig, prices: Prices, env: Mapping[str, str]
) -> ProviderStatus:
    import anyio

    from orchestrator.engine.types import Message, Request, Section, Text
    from orchestrator.providers.factory import make_model

    try:
        request = Request(
            agent="doctor",
            model=config.resolve(status.name, config.stages[0].name, env),
            system=(Section("role", "doctor", "Answer with the one word: ready"),),
            messages=(Message("user", (Text("Are you there?"),)),),
            max_tokens=TRY_TOKENS,
            effort="low",
        )
        async with make_model(status.name, config, prices, env=env) as model:
            started = anyio.current_time()
            response = await model.respond(request)
            seconds = anyio.current_time() - started
    except DiffcourtError as error:
        return replace(status, error=str(error))
    used = response.usage
    answer = (
        f"{response.model} answered in {seconds:.1f} s: {used.input_tokens} tokens in, "
        f"{used.output_tokens} out, ${used.usd:.6f}"
    )
    return replace(status, answer=answer)


def _text(statuses: list[ProviderStatus], sandbox: SandboxReport) -> str:
    from orchestrator.report.text_layout import render_name_list

    providers = [(OFFLINE, "ready; needs no key")]
    parts: dict[str, list[tuple[str, str]]] = {"sandbox": _sandbox(sandbox), "providers": providers}
    for status in statuses:
        providers.append((status.name, _describe(status)))
        parts[f"models of {status.name}"] = [(line.stage, _cost(line)) for line in status.stages]
    return render_name_list(parts, width_of(sys.stdout))


def _sandbox(found: SandboxReport) -> list[tuple[str, str]]:
    level = f"{found.level or 'none available'}{found.reason and f'; {found.reason}'}"
    level += f", but it refuses every program: {found.refusal}" if found.refusal else ""
    rows = [("level", level)]
    both = {"prevents": found.prevents, "does not prevent": found.does_not_prevent}
    for name, entries in both.items():
        rows += [("" if number else name, what) for number, what in enumerate(entries)]
    rows += [("limits", found.limits)] if found.limits else []
    return [*rows, ("better with", found.hint)] if found.hint else rows


def _describe(status: ProviderStatus) -> str:
    if status.missing:
        return f"not configured; set {status.missing}"
    if status.error:
        return f"configured, but a call failed: {status.error}"
    key = f"{status.key_env} is set" if os.environ.get(status.key_env) else "no key is set"
    return f"ready; {status.answer}" if status.answer else f"configured; {key}"


def _cost(line: StageLine) -> str:
    if not line.model:
        return "no model is configured"
    if line.price is None:
        return f"{line.model}: price unknown, so its budget counts tokens only"
    price = line.price
    cost = f"${price.input:.2f} in, ${price.output:.2f} out per million tokens"
    return f"{line.model}: {cost} ({price.source}, {price.date})"


def _json(statuses: list[ProviderStatus], sandbox: SandboxReport) -> str:
    return as_json(
        {
            "sandbox": to_builtins(sandbox),
            "providers": [
                {
                    "name": status.name,
                    "configured": not status.missing,
                    "missing": status.missing or None,
                    "models": [_stage_json(line) for line in status.stages],
                    "answer": status.answer or None,
                    "error": status.error or None,
                }
                for status in statuses
            ],
        }
    )


def _stage_json(line: StageLine) -> dict[str, object]:
    price = line.price
    return {
        "stage": line.stage,
        "model": line.model or None,
        "input": price.input if price else None,
        "output": price.output if price else None,
        "source": price.source if price else None,
        "date": price.date.isoformat() if price else None,
    }
