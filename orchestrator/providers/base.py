"""What all providers share: one call from request to response, whatever the API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from types import ModuleType
from typing import Any

import anyio
from msgspec.structs import replace

from orchestrator.catalog.models import Provider
from orchestrator.catalog.prices import Prices, price_of
from orchestrator.engine.model_call_log import CallEvent, CallListener
from orchestrator.engine.ports import MayRetry, always_retry
from orchestrator.engine.types import Json, Request, Response, Usage
from orchestrator.errors import ModelError
from orchestrator.providers import pricing
from orchestrator.providers.circuit_breaker import CircuitBreaker, State
from orchestrator.providers.provider_errors import TransientError, classify_status
from orchestrator.providers.reply_parsing import (
    MAX_BYTES,
    Reply,
    Unusable,
    an_object,
    loads,
    settle,
)
from orchestrator.providers.retry import Retrier
from orchestrator.providers.stream_parsing import MAX_STREAM_BYTES, Events, events
from orchestrator.providers.token_counting import max_input_tokens


def ignore(event: CallEvent) -> None:
    """Look away."""


class ApiModel(ABC):
    """A model behind an HTTP API. Use ``make_model``; it opens and closes the client.

    Args:
        client: the SDK's client; whoever made it closes it.
        sdk: the vendor's module, for its exceptions.
        name: the provider's name.
        secret: the key, so that it can be kept out of messages.
        on_event: told of tries that failed and of the breaker's changes.
    """

    def __init__(
        self,
        provider: Provider,
        client: Any,
        *,
        name: str,
        sdk: ModuleType,
        prices: Prices,
        retrier: Retrier,
        secret: str,
        on_event: CallListener = ignore,
    ) -> None:
        self.client = client
        self.name, self.provider = name, provider
        self._prices, self._retrier, self._on_event = prices, retrier, on_event
        self._sdk: Any = sdk
        self._secret = secret
        self._breakers: dict[str, CircuitBreaker] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @abstractmethod
    def body(self, request: Request) -> dict[str, Json]:
        """The request as the API has it."""

    @abstractmethod
    def _chunks(self, body: dict[str, Any]) -> Any:
        """Send it: an async context manager with ``iter_bytes()``, raising the SDK's errors."""

    @abstractmethod
    def joined(self, events: Events) -> dict[str, Json]:
        """The API's reply, from its events.

        Raises:
            Transient: it is not whole.
            Unusable: it cannot be used.
        """

    @abstractmethod
    def read(self, document: dict[str, Json], request: Request) -> Reply:
        """The API's reply, read.

        Raises:
            Unusable: it cannot be used.
        """

    def output_limit(self, request: Request) -> int:
        """The most tokens that the answer may have, as it is sent."""
        return request.max_tokens

    def worst_case(self, request: Request) -> Usage:
        """The most that one try can use: a bound of the input's tokens, and the output's limit."""
        whole, output = max_input_tokens(request), self.output_limit(request)
        price = price_of(self._prices, request.model)
        return Usage(
            whole, output, usd=pricing.max_call_cost(price, whole, output) if price else 0.0
        )

    async def respond(self, request: Request, may_retry: MayRetry = always_retry) -> Response:
        """Answer one request, with as many tries as the policy has.

        Raises:
            ModelError: no usable answer came; one line that says what to do.
            ProviderRefused: none can come, as long as a setting is what it is.
        """
        who = f"{self.name} {request.model}"
        body, lost, failed = self.body(request), 0, 0
        about = partial(CallEvent, provider=self.name, model=request.model, agent=request.agent)

        def report(fault: TransientError, wait: float) -> None:
            nonlocal lost, failed
            if fault.lost and not may_retry():
                raise ModelError(
                    f"{who} lost a reply ({fault}) that may have been billed, and what is left of "
                    "the budget does not pay for another try"
                )
            lost, failed = lost + fault.lost, failed + 1
            told = about("retry", detail=str(fault), number=failed, wait=wait, lost=fault.lost)
            self._on_event(told)

        try:
            document = await self._retrier.run(
                lambda seconds: self._attempt(body, request.model, seconds),
                self._breaker(request.model),
                who,
                report,
                streams=self.provider.can.streams,
            )
        except ModelError as fault:
            if fault.billed:
                why = f"the last try may have been billed: {fault}"
                self._on_event(about("lost", detail=why, number=failed + 1, lost=True))
            raise
        try:
            reply = self.read(document, request)
        except Unusable as fault:
            raise _unusable(who, fault) from None
        blocks, stop = settle(reply.blocks, reply.stop)
        used = replace(self._usage(reply, request), lost=lost)
        return Response(blocks, stop, used, reply.model or request.model)

    # --- one try --------------------------------------------------------------------------------

    async def _attempt(self, body: dict[str, Any], model: str, seconds: float) -> dict[str, Json]:
        data, streamed = await self._received(body, model, seconds)
        try:
            if streamed:
                return self.joined(list(events(data)))
            return an_object(loads(data), "it")
        except Unusable as fault:
            raise _unusable(f"{self.name} {model}", fault) from None

    async def _received(
        self, body: dict[str, Any], model: str, seconds: float
    ) -> tuple[bytes, bool]:
        """All bytes of a reply, and whether they are a stream of events."""
        sdk = self._sdk
        try:
            with anyio.fail_after(seconds):
                async with self._chunks(body) as response:
                    # A gateway that cannot stream answers as ever.
                    streamed = "text/event-stream" in response.headers.get("content-type", "")
                    most = MAX_STREAM_BYTES if streamed else MAX_BYTES
                    return await _all(response.iter_bytes(), most), streamed
        except (TimeoutError, sdk.APITimeoutError):
            raise TransientError(f"no answer within {seconds:.0f} s", lost=True) from None
        except sdk.APIStatusError as fault:
            status, headers = fault.status_code, fault.response.headers
            said = fault.body
            raise classify_status(
                self.name, self.provider, model, status, headers, said, secret=self._secret
            ) from None
        except sdk.APIConnectionError as fault:
            kind = type(fault.__cause__).__name__
            never_sent = kind in {"ConnectError", "ConnectTimeout"}
            where = f"; is {self.provider.base_url_env} right?" if never_sent else ""
            raise TransientError(f"no connection ({kind}{where})", lost=not never_sent) from None
        except Unusable as fault:
            raise ModelError(f"{self.name} {model} sent too much: {fault}") from None
        except Exception as fault:
            # The SDK and its transport, fed by a stranger: whatever they trip over is a lost reply.
            # Its text is left out, since a transport's error can quote a header.
            raise TransientError(
                f"the reply broke off ({type(fault).__name__})", lost=True
            ) from None

    def _breaker(self, model: str) -> CircuitBreaker:
        if model not in self._breakers:

            def changed(before: State, after: State, why: str) -> None:
                detail = f"{before} -> {after}: {why}"
                self._on_event(CallEvent("breaker", self.name, model, "", detail))

            policy = self._retrier.policy.breaker
            self._breakers[model] = CircuitBreaker(
                policy.failures, policy.cooldown, self._retrier.clock, changed
            )
        return self._breakers[model]

    # --- what it cost ---------------------------------------------------------------------------

    def _usage(self, reply: Reply, request: Request) -> Usage:
        counts = reply.counts
        if counts.input is None or counts.output is None:
            return replace(self.worst_case(request), estimated=True)
        price = price_of(self._prices, request.model)
        return Usage(
            counts.input,
            counts.output,
            min(counts.cached, counts.input),
            min(counts.reasoning, counts.output),
            pricing.compute_cost(price, counts) if price else 0.0,
            pricing.compute_savings(price, counts) if price else 0.0,
        )


def _unusable(who: str, fault: Unusable) -> ModelError:
    return ModelError(f"{who} sent a reply that cannot be used: {fault}")


async def _all(chunks: AsyncGenerator[bytes], most: int) -> bytes:
    data = bytearray()
    async with aclosing(chunks):
        async for chunk in chunks:
            data += chunk
            if len(data) > most:
                raise Unusable(f"it is longer than {most:,} bytes")
    return bytes(data)
