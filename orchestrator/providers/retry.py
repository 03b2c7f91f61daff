"""Retries of model calls, and a circuit breaker that stops them for all agents together.

::

    closed ── failures in a row ──> open ── cooldown over ──> half-open ── success ──> closed
                                     ^                            │
                                     └───────── failure ──────────┘

Half-open admits one call at a time, as a probe.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

import anyio

from orchestrator.catalog.model_config import MODELS_FILE, CallPolicy
from orchestrator.errors import ModelError, ModelUnavailable
from orchestrator.providers.provider_errors import TransientError
from orchestrator.wording import count_noun

State = Literal["closed", "open", "half-open"]

PROBE_POLL_SECONDS = 0.25
"""How long a caller waits before it asks again whether the probe has returned."""


class CircuitBreaker:
    """The circuit breaker of one model of one provider.

    Args:
        clock: returns seconds, from any starting point.
        on_change: called with each transition: (before, after, reason).
    """

    def __init__(
        self,
        failures: int,
        cooldown: float,
        clock: Callable[[], float],
        on_change: Callable[[State, State, str], None],
    ) -> None:
        self._limit, self._cooldown = failures, cooldown
        self._clock, self._on_change = clock, on_change
        self.state: State = "closed"
        self._failures, self._reopens_at, self._probing = 0, 0.0, False

    def admit(self) -> float:
        """Admit a call (0), or return the seconds to wait before asking again.

        An admitted caller ends with ``record_success``, ``record_failure`` or ``release``.
        """
        if self.state == "open":
            left = self._reopens_at - self._clock()
            if left > 0:
                return left
            self._transition("half-open", f"{self._cooldown:g} s have passed")
        if self.state == "half-open":
            if self._probing:
                return PROBE_POLL_SECONDS
            self._probing = True
        return 0.0

    def record_success(self) -> None:
        """Record that the server answered an admitted call."""
        self._failures, self._probing = 0, False
        if self.state != "closed":
            self._transition("closed", "the server answers again")

    def record_failure(self, reason: str) -> None:
        """Record that the server did not answer an admitted call."""
        self._failures += 1
        self._probing = False
        if self.state == "half-open" or (self.state == "closed" and self._failures >= self._limit):
            self._reopens_at = self._clock() + self._cooldown
            self._transition("open", reason)

    def release(self) -> None:
        """End an admitted call that was cancelled, which says nothing about the server."""
        self._probing = False

    def _transition(self, state: State, reason: str) -> None:
        before, self.state = self.state, state
        self._on_change(before, state, reason)


T = TypeVar("T")

JITTER = 0.25
"""A wait is lengthened by up to this fraction, so that agents do not retry at the same moment."""


@dataclass
class Retrier:
    """Makes the attempts of one model call.

    Attributes:
        clock: returns seconds, from any starting point.
        sleep: waits that many seconds.
    """

    policy: CallPolicy
    clock: Callable[[], float] = anyio.current_time
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep

    async def run(
        self,
        attempt: Callable[[float], Awaitable[T]],
        breaker: CircuitBreaker,
        caller: str,
        report: Callable[[TransientError, float], None],
        *,
        streams: bool = False,
    ) -> T:
        """Call ``attempt`` until it returns, within the policy's attempts and deadline.

        Args:
            attempt: one attempt, given the seconds that it may take; raises ``TransientError`` when
                another one may succeed.
            caller: provider and model, for messages.
            streams: an attempt may take all the time that is left, since silence ends a stream.
            report: called with each failed attempt that another one follows, and the seconds until
                then; an exception that it raises ends the call.

        Raises:
            ModelUnavailable: no attempt succeeded, or the circuit breaker stays open too long.
        """
        policy, deadline = self.policy, self.clock() + self.policy.deadline
        longest, number = (policy.deadline if streams else policy.timeout), 0
        while True:
            number += 1
            await self._wait_for_breaker(breaker, deadline, caller)
            seconds = min(longest, max(deadline - self.clock(), 0.001))
            try:
                result = await attempt(seconds)
            except TransientError as error:
                if error.server_down:
                    breaker.record_failure(str(error))
                else:
                    breaker.record_success()
                wait = self._compute_wait(error, number)
                if number >= policy.attempts or self.clock() + wait >= deadline:
                    message = self._describe_failure(caller, error, number)
                    raise ModelUnavailable(message, billed=error.lost) from None
                report(error, wait)
            except ModelError:
                breaker.record_success()
                raise
            except BaseException:
                breaker.release()
                raise
            else:
                breaker.record_success()
                return result
            await self.sleep(wait)

    async def _wait_for_breaker(
        self, breaker: CircuitBreaker, deadline: float, caller: str
    ) -> None:
        while (wait := breaker.admit()) > 0:
            if self.clock() + wait >= deadline:
                raise ModelUnavailable(
                    f"{caller} is unavailable: the circuit breaker stays open for {wait:.0f} s "
                    "more, which is past the call's deadline; try again later, or raise "
                    f"calls.deadline in {MODELS_FILE}",
                    billed=False,
                )
            await self.sleep(wait)

    def _compute_wait(self, error: TransientError, attempts: int) -> float:
        policy, requested = self.policy, error.retry_after
        backoff = min(policy.first_wait * 2.0 ** (attempts - 1), policy.longest_wait)
        base = backoff if requested is None else requested
        return base * (1 + random.uniform(0, JITTER))  # noqa: S311 - spreads load, hides nothing

    def _describe_failure(self, caller: str, error: TransientError, attempts: int) -> str:
        requested = ""
        if error.retry_after is not None and attempts < self.policy.attempts:
            requested = f"; the server asks to wait {error.retry_after:.0f} s"
        return (
            f"{caller} gave no answer in {count_noun(attempts, 'attempt')}, "
            f"last error: {error}{requested}; "
            f"try again later, or raise calls.attempts and calls.deadline in {MODELS_FILE}"
        )
