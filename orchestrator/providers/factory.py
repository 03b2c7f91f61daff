"""Opens the model of a provider: finds its API key and URL, creates and closes the SDK's client."""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
from msgspec.structs import replace

from orchestrator.catalog.model_config import BreakerPolicy, CallPolicy, ModelsConfig, Provider
from orchestrator.catalog.prices import Prices
from orchestrator.engine.trace_context import current_traceparent
from orchestrator.errors import InputError

if TYPE_CHECKING:
    import ssl

    from orchestrator.engine.model_call_events import CallListener
    from orchestrator.providers.api_model import ApiModel

CONNECT_SECONDS = 10.0
PLACEHOLDER_KEY = "none"
"""API key sent to servers that need none, since the SDKs require one."""


def find_api_key(provider: Provider, env: Mapping[str, str]) -> str:
    """The provider's API key from the environment, empty when it is not set."""
    return env.get(provider.key_env, "").strip()


def find_base_url(provider: Provider, env: Mapping[str, str]) -> str:
    """The provider's URL from the environment or the configuration, empty when neither has one."""
    return env.get(provider.base_url_env, "").strip() or provider.base_url


def missing_variable(provider: Provider, env: Mapping[str, str]) -> str:
    """The required environment variable that is not set, empty when none is missing."""
    if provider.key_required and not find_api_key(provider, env):
        return provider.key_env
    return "" if find_base_url(provider, env) else provider.base_url_env


def make_model(
    name: str,
    config: ModelsConfig,
    prices: Prices,
    *,
    env: Mapping[str, str],
    on_event: CallListener | None = None,
    batched: Callable[[ApiModel], AbstractAsyncContextManager[ApiModel]] | None = None,
) -> AbstractAsyncContextManager[ApiModel]:
    """Open a provider's model; all agents share it and its one HTTP client.

    The vendor's SDK is imported here and not earlier, since that takes about a second.

    Args:
        env: environment variables, for the key and the URL.
        on_event: called with each failed attempt and each change of the circuit breaker.
        batched: makes it send its requests in batches, which have no time limit.

    Raises:
        ConfigError: no provider of that name.
        InputError: the key or the URL is missing or invalid; the message names what to set.
    """
    provider = config.provider(name)
    if missing := missing_variable(provider, env):
        raise InputError(
            f"{name} needs the environment variable {missing}; set it, or choose another provider"
        )
    key, url = find_api_key(provider, env), find_base_url(provider, env)
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise InputError(f"{provider.key_env} contains invalid characters; set it again")
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        raise InputError(
            f"{provider.base_url_env} must be a URL such as https://host/v1, not {url[:60]!r}"
        )

    @asynccontextmanager
    async def opened() -> AsyncIterator[ApiModel]:
        # This and the SDKs take up to two seconds to import; no other provider should wait.
        from orchestrator.providers.retry import Retrier  # noqa: PLC0415

        kind, client = _open_client(provider, key, url, env, config.calls.timeout)
        try:
            model = kind(
                provider,
                client,
                name=name,
                prices=prices,
                retrier=Retrier(_unlimited(config.calls) if batched else config.calls),
                secret=key,
                on_event=on_event or (lambda _: None),
            )
            async with batched(model) if batched else nullcontext():
                yield model
        finally:
            with anyio.CancelScope(shield=True):
                await client.close()

    return opened()


def _unlimited(calls: CallPolicy) -> CallPolicy:
    """The policy for a batch: it takes hours, and its failures come together."""
    never = BreakerPolicy(failures=sys.maxsize)
    return replace(calls, timeout=math.inf, deadline=math.inf, breaker=never)


@cache
def _ssl_context() -> ssl.SSLContext:
    """The CA certificates: loaded once, since that is most of the time that a client takes."""
    import httpx2  # noqa: PLC0415

    return httpx2.create_ssl_context()


async def _add_traceparent(request: Any) -> None:
    """Tell the server which span of which trace asks it."""
    if header := current_traceparent():
        request.headers["traceparent"] = header


def _open_client(
    provider: Provider, key: str, url: str, env: Mapping[str, str], timeout: float
) -> tuple[type[ApiModel], Any]:
    """The class of the API's models, and the client of the vendor's SDK."""
    sdk = import_module("anthropic" if provider.api == "messages" else "openai")
    settings: dict[str, Any] = {
        "api_key": key or PLACEHOLDER_KEY,
        "base_url": url,
        "max_retries": 0,
        # A redirect would send the code under review to another server.
        "http_client": sdk.DefaultAsyncHttpxClient(
            follow_redirects=False,
            timeout=sdk.Timeout(timeout, connect=CONNECT_SECONDS),
            verify=_ssl_context(),
            event_hooks={"request": [_add_traceparent] if provider.can.traceparent else []},
        ),
    }
    if provider.api == "messages":
        from orchestrator.providers.anthropic import AnthropicModel  # noqa: PLC0415

        return AnthropicModel, sdk.AsyncAnthropic(open_telemetry=False, **settings)
    from orchestrator.providers.openai import OpenAIModel  # noqa: PLC0415
    from orchestrator.providers.openai_compatible import CompatibleModel  # noqa: PLC0415

    official = provider.api == "responses"
    client = sdk.AsyncOpenAI(**settings)
    # The SDK reads these from the environment, where they belong to the official service.
    client.organization = env.get("OPENAI_ORG_ID") if official else None
    client.project = env.get("OPENAI_PROJECT_ID") if official else None
    return (OpenAIModel if official else CompatibleModel), client
