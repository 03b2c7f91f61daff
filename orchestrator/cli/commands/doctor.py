"""``diffcourt doctor``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from orchestrator.catalog.fields import OFFLINE
from orchestrator.cli.arguments import add_json_flag, add_repo
from orchestrator.cli.output import as_json, emit, width_of
from orchestrator.errors import EXIT_OK, EXIT_USAGE, ConfigError, DiffcourtError

if TYPE_CHECKING:
    from orchestrator.catalog.models import ModelsConfig
    from orchestrator.catalog.prices import Price, Prices
    from orchestrator.sandbox.level_descriptions import Report

TRY_SECONDS = 30.0
TRY_TOKENS = 300
"""Enough for a short thought and a word."""


class StageLine(Struct, frozen=True):
    """A stage of one provider: its model, empty when none is named, and what that costs."""

    stage: str
    model: str
    price: Price | None


class Finding(Struct, frozen=True):
    """What is known of one provider.

    Attributes:
        absent: the environment variable that has yet to be set, empty when it is configured.
        key_env: the one that holds the key.
        answer: what a call gave, empty when none was made or none came.
        fault: why no answer came.
    """

    name: str
    absent: str
    key_env: str
    stages: tuple[StageLine, ...]
    answer: str = ""
    fault: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.description = (
        "Say which sandbox there is, which providers are configured, which model each\n"
        "escalation stage has there, and what it costs. Nothing is spent unless --call is\n"
        "given, and keys are never printed."
    )
    add_repo(parser)
    parser.add_argument(
        "--call",
        action="store_true",
        help="make one tiny call to each configured provider, with its cheapest model",
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Print what is known on stdout; exit 2 when a call was asked for and one failed."""
    import anyio

    from orchestrator.app.policy_sources import read_layers_on_disk
    from orchestrator.catalog.models import load_models
    from orchestrator.catalog.prices import load_prices
    from orchestrator.sandbox.level_descriptions import report

    sources = read_layers_on_disk(args.repo)
    config, prices, env = load_models(sources), load_prices(sources), dict(os.environ)
    findings = [_look(name, config, prices, env) for name in config.providers]
    if args.call:
        findings = anyio.run(_call_all, findings, config, prices, env)
    sandbox = report()
    emit(_json(findings, sandbox) if args.json else _text(findings, sandbox), sys.stdout)
    return _code(findings) if args.call else EXIT_OK


def _code(findings: list[Finding]) -> int:
    if not any(finding.answer or finding.fault for finding in findings):
        emit("no provider is configured, so nothing was called\n", sys.stderr)
        return EXIT_USAGE
    return EXIT_USAGE if any(finding.fault for finding in findings) else EXIT_OK


def _look(name: str, config: ModelsConfig, prices: Prices, env: Mapping[str, str]) -> Finding:
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
    return Finding(name, missing_variable(provider, env), provider.key_env, tuple(stages))


# --- one tiny call --------------------------------------------------------------------------------


async def _call_all(
    findings: list[Finding], config: ModelsConfig, prices: Prices, env: Mapping[str, str]
) -> list[Finding]:
    hasty = replace(config.calls, attempts=2, timeout=TRY_SECONDS, deadline=TRY_SECONDS)
    quick = replace(config, calls=hasty)
    return [
        finding if finding.absent else await _call(finding, quick, prices, env)
        for finding in findings
    ]


async def _call(
    finding: Finding, config: ModelsConfig, prices: Prices, env: Mapping[str, str]
) -> Finding:
    import anyio

    from orchestrator.engine.types import Message, Request, Section, Text
    from orchestrator.providers.factory import make_model

    try:
        request = Request(
            agent="doctor",
            model=config.resolve(finding.name, config.stages[0].name, env),
            system=(Section("role", "doctor", "Answer with the one word: ready"),),
            messages=(Message("user", (Text("Are you there?"),)),),
            max_tokens=TRY_TOKENS,
            effort="low",
        )
        async with make_model(finding.name, config, prices, env=env) as model:
            started = anyio.current_time()
            response = await model.respond(request)
            seconds = anyio.current_time() - started
    except DiffcourtError as fault:
        return replace(finding, fault=str(fault))
    used = response.usage
    answer = (
        f"{response.model} answered in {seconds:.1f} s: {used.input_tokens} tokens in, "
        f"{used.output_tokens} out, ${used.usd:.6f}"
    )
    return replace(finding, answer=answer)


# --- what is printed ------------------------------------------------------------------------------


def _text(findings: list[Finding], sandbox: Report) -> str:
    from orchestrator.report.text_layout import render_name_list

    providers = [(OFFLINE, "ready; needs nothing")]
    parts: dict[str, list[tuple[str, str]]] = {
        "sandbox": _sandbox(sandbox),
        "providers": providers,
    }
    for finding in findings:
        providers.append((finding.name, _state(finding)))
        parts[f"models of {finding.name}"] = [(line.stage, _cost(line)) for line in finding.stages]
    return render_name_list(parts, width_of(sys.stdout))


def _sandbox(found: Report) -> list[tuple[str, str]]:
    rows = [("level", f"{found.level or 'none can be used'}{found.why and f'; {found.why}'}")]
    rows += [("" if number else "stops", what) for number, what in enumerate(found.stops)]
    rows += [("" if number else "does not stop", what) for number, what in enumerate(found.leaves)]
    rows += [("limits", found.limits)] if found.limits else []
    return [*rows, ("better with", found.hint)] if found.hint else rows


def _state(finding: Finding) -> str:
    if finding.absent:
        return f"not configured; set {finding.absent}"
    if finding.fault:
        return f"configured, but a call failed: {finding.fault}"
    key = f"{finding.key_env} is set" if os.environ.get(finding.key_env) else "no key is set"
    return f"ready; {finding.answer}" if finding.answer else f"configured; {key}"


def _cost(line: StageLine) -> str:
    if not line.model:
        return "no model is named"
    if line.price is None:
        return f"{line.model}: no price is known, so its budget counts tokens only"
    price = line.price
    cost = f"${price.input:.2f} in, ${price.output:.2f} out per million tokens"
    return f"{line.model}: {cost} ({price.source}, {price.date})"


def _json(findings: list[Finding], sandbox: Report) -> str:
    return as_json(
        {
            "sandbox": to_builtins(sandbox),
            "providers": [
                {
                    "name": finding.name,
                    "configured": not finding.absent,
                    "missing": finding.absent or None,
                    "models": [_stage_json(line) for line in finding.stages],
                    "answer": finding.answer or None,
                    "fault": finding.fault or None,
                }
                for finding in findings
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
