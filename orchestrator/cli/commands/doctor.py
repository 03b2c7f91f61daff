"""``diffcourt doctor``: check that everything that a review needs is installed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.cli.output import width_of
from orchestrator.errors import EXIT_OK, EXIT_USAGE, ConfigError, DiffcourtError
from orchestrator.report.terminal_escaping import as_json, emit

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrator.app.installation_checks import InstallationCheck
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


def run(args: argparse.Namespace) -> int:
    """Print the checks; the exit code is 2 when one failed, or a call did."""
    import anyio

    from orchestrator.app.installation_checks import check_installation
    from orchestrator.sandbox.level_descriptions import describe_sandbox, try_program

    sandbox = describe_sandbox()
    if sandbox.level:
        sandbox = replace(sandbox, refusal=anyio.run(try_program))
    checks = anyio.run(check_installation, args.repo, sandbox)
    statuses: list[ProviderStatus] = []
    with suppress(ConfigError):  # the check of the configuration names it
        statuses = _providers(args)
        checks.append(_model_check(statuses, args.repo))
    parts = _parts(statuses, sandbox, everything=args.verbose) if args.verbose or args.call else {}
    emit(_json(checks, statuses, sandbox) if args.json else _text(checks, parts), sys.stdout)
    called = _code(statuses) if args.call else EXIT_OK
    return EXIT_USAGE if any(check.status == "failed" for check in checks) else called


def _providers(args: argparse.Namespace) -> list[ProviderStatus]:
    """The configuration of each provider, with the result of a call where one is wanted."""
    import anyio

    from orchestrator.app.policy_sources import read_layers_on_disk
    from orchestrator.catalog.model_config import load_models
    from orchestrator.catalog.prices import load_prices, price_of
    from orchestrator.engine.model_routing import HUMAN
    from orchestrator.providers.factory import missing_variable

    sources = read_layers_on_disk(args.repo)
    config, prices, env = load_models(sources), load_prices(sources), dict(os.environ)
    statuses = []
    for name in config.providers:
        stages = [stage.name for stage in config.stages if stage.name != HUMAN]
        models = [(stage, config.find_model(name, stage, env)) for stage in stages]
        lines = tuple(StageLine(stage, model, price_of(prices, model)) for stage, model in models)
        provider = config.provider(name)
        missing = missing_variable(provider, env)
        statuses.append(ProviderStatus(name, missing, provider.key_env, lines))
    return anyio.run(_call_all, statuses, config, prices, env) if args.call else statuses


def _model_check(statuses: list[ProviderStatus], repo: Path | None) -> InstallationCheck:
    """Which providers are ready, and what those lack that the configuration names."""
    from orchestrator.app.installation_checks import InstallationCheck
    from orchestrator.app.policy_sources import read_layers_on_disk
    from orchestrator.code_review.agents.participants import named_vendors
    from orchestrator.code_review.policy_loading import read_catalog

    catalog = read_catalog(read_layers_on_disk(repo))
    vendors = named_vendors(catalog, catalog.settings)
    configured = [status.name for status in statuses if not status.missing]
    missing = [status.name for status in statuses if status.missing]
    text = f"{', '.join([OFFLINE, *configured])} ready"
    text += f"; not configured: {', '.join(missing)}" if missing else ""
    needed = [
        f"set {status.missing} for {', '.join(vendors[status.name]) or 'the review'}"
        for status in statuses
        if status.missing and status.name in vendors
    ]
    return InstallationCheck("models", "note" if needed else "ok", text, "; ".join(needed))


def _code(statuses: list[ProviderStatus]) -> int:
    if not any(status.answer or status.error for status in statuses):
        emit("no provider is configured, so none was called\n", sys.stderr)
        return EXIT_USAGE
    return EXIT_USAGE if any(status.error for status in statuses) else EXIT_OK


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

    from orchestrator.engine.types import Message, PromptSection, Request, Text
    from orchestrator.providers.factory import make_model

    try:
        request = Request(
            agent="doctor",
            model=config.resolve(status.name, config.stages[0].name, env),
            system=(PromptSection("role", "doctor", "Answer with the one word: ready"),),
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


def _text(checks: list[InstallationCheck], parts: dict[str, list[tuple[str, str]]]) -> str:
    from orchestrator.report.terminal_escaping import escape_line
    from orchestrator.report.text_layout import MIN_WIDTH, TextLayout, pad, render_name_list

    page = TextLayout(max(width_of(sys.stdout), MIN_WIDTH))
    column = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        first = f"{pad(check.name, column)}  {pad(check.status, len('failed'))}  "
        lines += page.wrap(escape_line(check.detail), first=first)
    details = render_name_list(parts, page.width).splitlines() if parts else []
    lines += ["", *details, ""] if details else [""]
    failed = [check for check in checks if check.status == "failed"]
    lines.append("Not ready." if failed else "Ready: run diffcourt review")
    for check in checks:
        if check.remedy and check.status != "ok":
            lines.append(f"  - {check.name}: {escape_line(check.remedy)}")  # a command to copy
    return "\n".join(lines) + "\n"


def _parts(
    statuses: list[ProviderStatus], sandbox: SandboxReport, *, everything: bool
) -> dict[str, list[tuple[str, str]]]:
    """The sandbox, the providers and their models; without ``everything`` the providers alone."""
    providers = [(OFFLINE, "ready; needs no key")]
    providers += [(status.name, _describe(status)) for status in statuses]
    if not everything:
        return {"providers": providers}
    parts = {"sandbox": _sandbox(sandbox), "providers": providers}
    for status in statuses:
        parts[f"models of {status.name}"] = [(line.stage, _cost(line)) for line in status.stages]
    return parts


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


def _json(
    checks: list[InstallationCheck], statuses: list[ProviderStatus], sandbox: SandboxReport
) -> str:
    return as_json(
        {
            "ready": all(check.status != "failed" for check in checks),
            "checks": to_builtins(checks),
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
    price = to_builtins(line.price) if line.price else {}
    rates = {name: price.get(name) for name in ("input", "output", "source", "date")}
    return {"stage": line.stage, "model": line.model or None, **rates}
