"""What all API providers share: one model call from request to response."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import anyio
import httpx2
from msgspec.structs import replace

from orchestrator.catalog.model_config import Provider
from orchestrator.catalog.prices import Prices, price_of
from orchestrator.engine.model_call_events import CallEvent, CallListener
from orchestrator.engine.ports import MayRetry, always_retry
from orchestrator.engine.types import Json, Request, Response, Usage
from orchestrator.errors import ModelError, ProviderRefused
from orchestrator.providers import call_costs, provider_errors
from orchestrator.providers.provider_errors import ReportedError, TransientError
from orchestrator.providers.reply_normalization import (
    InvalidReplyError,
    Reply,
    drop_unsafe_calls,
    expect_object,
    loads,
    printable_name,
)
from orchestrator.providers.retry import CircuitBreaker, Retrier, State
from orchestrator.providers.token_bounds import max_input_tokens, min_block_tokens, min_input_tokens

if TYPE_CHECKING:
    from orchestrator.providers.batches import Batches

MAX_BYTES = 8_000_000
"""Size limit of a reply that is not streamed."""

MAX_STREAM_BYTES = 64_000_000
"""Size limit of a streamed reply: each event adds some hundred bytes to a few of content."""

THREAD_BYTES = 250_000
"""Replies above this size are decoded in a worker thread, so that the event loop never stalls."""

T = TypeVar("T")
_EVENT_STREAM = "text/event-stream"
_REQUEST = httpx2.Request("POST", "https://provider.invalid")
"""Stands for the request in errors of the SDKs: the real one holds the API key."""


class ApiModel(ABC):
    """A model behind an HTTP API. Use ``make_model``, which opens and closes the client.

    The SDK sends the request; its reply is read here, up to a size limit, and then decoded by the
    SDK's stream and reply types (decision 0011).

    Args:
        secret: the API key, which is kept out of messages.
        on_event: called with failed attempts and changes of the circuit breaker.

    Attributes:
        batches: sends requests in batches; None: each by itself.
    """

    batches: "Batches | None" = None

    sdk: ClassVar[Any]
    """The vendor's module, for its exceptions."""

    reply_type: ClassVar[Any]
    """The SDK's type of a reply."""

    def __init__(
        self,
        provider: Provider,
        client: Any,
        *,
        name: str,
        prices: Prices,
        retrier: Retrier,
        secret: str,
        on_event: CallListener,
    ) -> None:
        self.client = client
        self.name, self.provider = name, provider
        self._prices, self._retrier, self._on_event = prices, retrier, on_event
        self._secret = secret
        self._breakers: dict[str, CircuitBreaker] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @abstractmethod
    def build_body(self, request: Request) -> dict[str, Json]:
        """Build the request's JSON body for the API."""

    @abstractmethod
    def _open_response(self, body: dict[str, Any]) -> Any:
        """Send it: an async context manager with ``iter_bytes()``, raising the SDK's errors."""

    @abstractmethod
    def _accumulate(self, response: httpx2.Response) -> Any:
        """Construct the SDK's reply object from a complete stream of events."""

    @abstractmethod
    def _convert(self, reply: Any, request: Request) -> Reply:
        """Convert the SDK's reply object, without its name and model."""

    def output_limit(self, request: Request) -> int:
        """The output token limit as it is sent."""
        return request.max_tokens

    def worst_case(self, request: Request) -> Usage:
        """The most that one attempt can use: an upper bound of the input, and the output limit."""
        tokens, output = max_input_tokens(request), self.output_limit(request)
        price = price_of(self._prices, request.model)
        usd = call_costs.max_call_cost(price, tokens, output) if price else 0.0
        return Usage(tokens, output, usd=usd)

    async def respond(self, request: Request, may_retry: MayRetry = always_retry) -> Response:
        """Answer one request, with as many attempts as the call policy allows.

        Raises:
            ModelError: no usable answer came; one line that says what to do.
            ProviderRefused: no call can succeed until a setting is changed.
        """
        caller = f"{self.name} {request.model}"
        body, lost, failed = self.build_body(request), 0, 0
        event = partial(CallEvent, provider=self.name, model=request.model, agent=request.agent)

        def report(error: TransientError, wait: float) -> None:
            nonlocal lost, failed
            if error.lost and not may_retry():
                raise ModelError(
                    f"{caller} lost a reply ({error}) that may have been billed, and the "
                    "rest of the budget does not cover another attempt"
                )
            lost, failed = lost + error.lost, failed + 1
            self._on_event(
                event("retry", detail=str(error), number=failed, wait=wait, lost=error.lost)
            )

        try:
            reply = await self._retrier.run(
                lambda seconds: self._attempt(body, request, seconds),
                self._breaker(request.model),
                caller,
                report,
                streams=self.provider.can.streams,
            )
        except ModelError as error:
            if error.billed:
                detail = f"the last attempt may have been billed: {error}"
                self._on_event(event("lost", detail=detail, number=failed + 1, lost=True))
            raise
        blocks, stop = drop_unsafe_calls(reply.blocks, reply.stop)
        usage = replace(self._compute_usage(reply, request), lost=lost)
        server, limit = httpx2.URL(str(self.client.base_url)), self.output_limit(request)
        port = server.port or {"http": 80, "https": 443}.get(server.scheme, 0)
        model, address = reply.model or request.model, f"{server.host}:{port}"
        return Response(blocks, stop, usage, model, reply.id, address, limit)

    async def call(self, ask: Callable[[], Awaitable[T]], seconds: float) -> T | None:
        """Call the API for something else than a reply, with retries; None for a status of 404."""

        async def attempt(left: float) -> T | None:
            with self.translated_errors("batches", min(left, seconds)):
                try:
                    return await ask()
                except self.sdk.NotFoundError:
                    return None

        caller = f"{self.name} batches"
        return await self._retrier.run(attempt, self._breaker(""), caller, lambda *_: None)

    # --- one attempt ----------------------------------------------------------------------------

    async def _attempt(self, body: dict[str, Any], request: Request, seconds: float) -> Reply:
        with self.translated_errors(request.model, seconds):
            response = await self._receive(body)
            if len(response.content) <= THREAD_BYTES:
                return self.decode(response, request)
            return await anyio.to_thread.run_sync(
                self.decode, response, request, abandon_on_cancel=True
            )

    @contextmanager
    def translated_errors(self, model: str, seconds: float) -> Iterator[None]:
        """Limit the time of an exchange with the server; raise the SDK's errors as ours."""
        caller, sdk, addressed = f"{self.name} {model}", self.sdk, (self.name, self.provider, model)
        try:
            with anyio.fail_after(seconds):
                yield
        except InvalidReplyError as error:
            raise ModelError(f"{caller} sent an invalid reply: {error}") from None
        except ReportedError as error:
            raise provider_errors.classify_reported(
                *addressed, error.body, secret=self._secret, lost=error.lost
            ) from None
        except (TransientError, ModelError, ProviderRefused):
            raise
        except (TimeoutError, sdk.APITimeoutError):
            raise TransientError(f"no answer within {seconds:.0f} s", lost=True) from None
        except sdk.APIStatusError as error:
            headers, secret = error.response.headers, self._secret
            raise provider_errors.classify_status(
                *addressed, error.status_code, headers, error.body, secret=secret
            ) from None
        except sdk.APIConnectionError as error:
            cause = type(error.__cause__).__name__
            never_sent = cause in {"ConnectError", "ConnectTimeout"}
            hint = f"; is {self.provider.base_url_env} correct?" if never_sent else ""
            raise TransientError(f"no connection ({cause}{hint})", lost=not never_sent) from None
        except Exception as error:
            # Any error of the SDK or its transport is a lost reply. Its text is left out, since a
            # transport's error can quote a header.
            name = type(error).__name__
            raise TransientError(f"the connection was lost ({name})", lost=True) from None

    async def _receive(self, body: dict[str, Any]) -> httpx2.Response:
        """Send a request and read its complete reply, up to the size limit."""
        if self.batches is not None:
            document = await self.batches.ask(body)
            return httpx2.Response(200, json=document, request=_REQUEST)
        async with self._open_response(body) as response:
            kind = response.headers.get("content-type", "")
            limit = MAX_STREAM_BYTES if _EVENT_STREAM in kind else MAX_BYTES
            data = await read_all(response.iter_bytes(), limit)
        return httpx2.Response(200, headers={"content-type": kind}, content=data, request=_REQUEST)

    def decode(self, response: httpx2.Response, request: Request) -> Reply:
        """Decode a complete reply, streamed or not, by the SDK.

        Raises:
            TransientError: the stream ended too early.
            ReportedError: the server reports an error in it.
        """
        try:
            # A gateway that cannot stream sends the whole reply at once.
            if _EVENT_STREAM in response.headers.get("content-type", ""):
                reply = self._accumulate(response)
            else:
                document = expect_object(_load(response.content), "it")
                provider_errors.check_reported(document, lost=False)
                reply = self.reply_type.construct(**document)
            converted = self._convert(reply, request)
            name, reply_id = reply.model, getattr(reply, "id", None)
            return replace(converted, model=printable_name(name), id=printable_name(reply_id))
        except (TransientError, InvalidReplyError, ReportedError):
            raise
        except self.sdk.APIError as error:
            raise ReportedError(error.body, lost=True) from None
        except ValueError as error:
            raise InvalidReplyError(f"it is not valid JSON ({type(error).__name__})") from None
        except Exception as error:
            # The SDKs do not validate what they decode, and trip over unexpected types.
            name = type(error).__name__
            raise InvalidReplyError(f"it does not have the API's structure ({name})") from None

    def _breaker(self, model: str) -> CircuitBreaker:
        if model not in self._breakers:

            def on_change(before: State, after: State, reason: str) -> None:
                detail = f"{before} -> {after}: {reason}"
                self._on_event(CallEvent("breaker", self.name, model, "", detail))

            policy = self._retrier.policy.breaker
            self._breakers[model] = CircuitBreaker(
                policy.failures, policy.cooldown, self._retrier.clock, on_change
            )
        return self._breakers[model]

    # --- costs ----------------------------------------------------------------------------------

    def _compute_usage(self, reply: Reply, request: Request) -> Usage:
        counts = reply.counts
        if counts.input is None or counts.output is None:
            return replace(self.worst_case(request), estimated=True)
        sent = max(min_input_tokens(request, counts.input), counts.cached + counts.cache_write)
        received = min_block_tokens(reply.blocks, counts.output)
        surely = replace(counts, input=max(counts.input, sent), output=max(counts.output, received))
        above = counts.output > self.output_limit(request)
        for wrong, what in (
            (counts.input < sent, f"input of {counts.input} tokens, and {sent} were sent at least"),
            (counts.output < received, f"output of {counts.output} tokens, and sent {received}"),
            (above, f"output of {counts.output} tokens, above the limit; they are booked"),
        ):
            if wrong:
                detail = f"the server reported an {what}"
                self._on_event(CallEvent("usage", self.name, request.model, request.agent, detail))
        price = price_of(self._prices, request.model)
        return Usage(
            surely.input or 0,
            surely.output or 0,
            surely.cached,
            min(surely.reasoning, surely.output or 0),
            call_costs.compute_cost(price, surely) if price else 0.0,
            call_costs.compute_savings(price, surely) if price else 0.0,
            undercounted=surely != counts,
            above_limit=above,
        )


def incomplete_stream() -> TransientError:
    """The error of a stream that ended before the reply was complete."""
    return TransientError("the stream ended before the reply was complete", lost=True)


def _load(data: bytes) -> Json:
    if data.lstrip()[:1] == b"<":
        message = provider_errors.server_message(data[:4_000].decode("utf-8", "replace"), "")
        raise InvalidReplyError(f"it is not JSON, but {message or 'markup'}")
    return loads(data)


async def read_all(chunks: AsyncGenerator[bytes], limit: int) -> bytes:
    """Read a reply up to a size limit."""
    data = bytearray()
    async with aclosing(chunks):
        async for chunk in chunks:
            data += chunk
            if len(data) > limit:
                raise InvalidReplyError(f"it is larger than the limit of {limit:,} bytes")
    return bytes(data)
