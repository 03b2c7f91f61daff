"""From a provider's name to a model that answers: looks up the key, opens the client, closes it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio

from orchestrator.engine.model_config import CallPolicy, ModelsConfig, Prices, Provider
from orchestrator.errors import InputError

if TYPE_CHECKING:
    import ssl

    from orchestrator.engine.model_call_log import OnCall
    from orchestrator.providers.anthropic import AnthropicModel
    from orchestrator.providers.base import ApiModel
    from orchestrator.providers.openai import OpenAIModel
    from orchestrator.providers.openai_compatible import CompatibleModel
    from orchestrator.providers.retry import Patience

CONNECT_SECONDS = 10.0
NO_KEY = "none"
"""Stands for a key at servers that want none: the SDK sends something in any case."""


def key_of(provider: Provider, env: Mapping[str, str]) -> str:
    """The key, empty when there is none."""
    return env.get(provider.key_env, "").strip()


def base_url_of(provider: Provider, env: Mapping[str, str]) -> str:
    """Where the provider is, empty when nothing says so."""
    return env.get(provider.base_url_env, "").strip() or provider.base_url


def missing(provider: Provider, env: Mapping[str, str]) -> str:
    """The environment variable that has yet to be set, empty when the provider is configured."""
    if provider.key_required and not key_of(provider, env):
        return provider.key_env
    return "" if base_url_of(provider, env) else provider.base_url_env


def make_model(
    name: str,
    config: ModelsConfig,
    prices: Prices,
    *,
    env: Mapping[str, str],
    base_url: str | None = None,
    on_event: OnCall | None = None,
    patience: Patience | None = None,
) -> AbstractAsyncContextManager[ApiModel]:
    """Open a provider's model; all agents share it, and its one client.

    The vendor's SDK is imported here and not before: it takes about a second.

    Args:
        env: environment variables, for the key and the address.
        base_url: an address that goes before all others.
        on_event: told of tries that failed and of the breaker's changes.
        patience: how calls are tried; by the configuration and the real time when None.

    Raises:
        ConfigError: no provider of that name.
        InputError: the key or the address is missing or cannot be one; says what to set.
    """
    provider = config.provider(name)
    absent = missing(provider, env)
    if absent and not (base_url and absent == provider.base_url_env):
        raise InputError(f"{name} needs {absent} in the environment; set it, or choose a provider")
    key, url = key_of(provider, env), base_url or base_url_of(provider, env)
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise InputError(f"{provider.key_env} has characters that no key has; set it anew")
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        raise InputError(
            f"{provider.base_url_env} must be a URL such as https://host/v1, not {url[:60]!r}"
        )
    access = _Access(provider, key, url, env, config.calls.timeout)
    return _opened(access, prices, patience or config.calls, on_event)


@dataclass(frozen=True)
class _Access:
    provider: Provider
    key: str = field(repr=False)
    url: str
    env: Mapping[str, str] = field(repr=False)
    timeout: float


@asynccontextmanager
async def _opened(
    access: _Access, prices: Prices, patience: Patience | CallPolicy, on_event: OnCall | None
) -> AsyncIterator[ApiModel]:
    # These and the SDKs take up to two seconds to import; whoever chose no such provider waits for
    # none of it.
    from orchestrator.providers.base import ignore  # noqa: PLC0415
    from orchestrator.providers.retry import system_patience  # noqa: PLC0415

    settings: dict[str, Any] = {
        "prices": prices,
        "patience": system_patience(patience) if isinstance(patience, CallPolicy) else patience,
        "secret": access.key,
        "on_event": on_event or ignore,
    }
    model = (_claude if access.provider.api == "messages" else _openai)(access, settings)
    try:
        yield model
    finally:
        with anyio.CancelScope(shield=True):
            await model.client.close()


@cache
def _trusted() -> ssl.SSLContext:
    """Whom to trust: read once, since it takes most of the time that making a client takes."""
    import httpx2  # noqa: PLC0415

    return httpx2.create_ssl_context()


def _claude(access: _Access, settings: dict[str, Any]) -> AnthropicModel:
    import anthropic  # noqa: PLC0415

    from orchestrator.providers.anthropic import AnthropicModel  # noqa: PLC0415

    client = anthropic.AsyncAnthropic(
        api_key=access.key or NO_KEY,
        base_url=access.url,
        max_retries=0,
        open_telemetry=False,
        # A redirection would take the code under review somewhere else.
        http_client=anthropic.DefaultAsyncHttpxClient(
            follow_redirects=False,
            timeout=anthropic.Timeout(access.timeout, connect=CONNECT_SECONDS),
            verify=_trusted(),
        ),
    )
    return AnthropicModel(access.provider, client, sdk=anthropic, **settings)


def _openai(access: _Access, settings: dict[str, Any]) -> OpenAIModel | CompatibleModel:
    import openai  # noqa: PLC0415

    from orchestrator.providers.openai import OpenAIModel  # noqa: PLC0415
    from orchestrator.providers.openai_compatible import CompatibleModel  # noqa: PLC0415

    official = access.provider.api == "responses"
    client = openai.AsyncOpenAI(
        api_key=access.key or NO_KEY,
        base_url=access.url,
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(
            follow_redirects=False,
            timeout=openai.Timeout(access.timeout, connect=CONNECT_SECONDS),
            verify=_trusted(),
        ),
    )
    # The SDK takes these from the process's environment, where they belong to the official service.
    client.organization = access.env.get("OPENAI_ORG_ID") if official else None
    client.project = access.env.get("OPENAI_PROJECT_ID") if official else None
    if official:
        return OpenAIModel(access.provider, client, sdk=openai, **settings)
    return CompatibleModel(access.provider, client, sdk=openai, **settings)
