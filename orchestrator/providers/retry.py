"""Patience: tries again what may yet work, within a deadline, and leaves alone what is down."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import anyio
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_exponential

from orchestrator.engine.model_config import MODELS_FILE, CallPolicy
from orchestrator.errors import ModelError
from orchestrator.providers.circuit_breaker import Breaker
from orchestrator.providers.provider_errors import Transient

T = TypeVar("T")

JITTER = 0.25
"""Waits are up to this part longer, so that agents that failed together do not return together."""


@dataclass
class Patience:
    """Runs the tries of calls.

    Attributes:
        clock: seconds, from any start.
        sleep: waits that many.
    """

    policy: CallPolicy
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]

    async def run(
        self,
        attempt: Callable[[float], Awaitable[T]],
        breaker: Breaker,
        who: str,
        report: Callable[[Transient, float], None],
        *,
        streams: bool = False,
    ) -> T:
        """Try until there is an answer.

        Args:
            attempt: one try, given the seconds that it may take; raises ``Transient`` when another
                may work.
            who: provider and model, for messages.
            streams: a try may take all the time that is left; silence ends it.
            report: told of each try that failed and is to be followed by another, and the seconds
                until then; what it raises ends the call instead.

        Raises:
            ModelError: no answer within the attempts and the deadline, or none is to be had.
        """
        policy, ends = self.policy, self.clock() + self.policy.deadline
        longest = policy.deadline if streams else policy.timeout

        async def one() -> T:
            await self._pass(breaker, ends, who)
            return await _watched(attempt(min(longest, max(ends - self.clock(), 0.001))), breaker)

        def over(state: RetryCallState) -> bool:
            late = self.clock() + state.upcoming_sleep >= ends
            return late or state.attempt_number >= policy.attempts

        def before_sleep(state: RetryCallState) -> None:
            report(_fault(state), state.upcoming_sleep)

        retrying = AsyncRetrying(
            sleep=self.sleep,
            wait=self._wait,
            stop=over,
            retry=retry_if_exception_type(Transient),
            before_sleep=before_sleep,
            reraise=True,
        )
        try:
            return await retrying(one)
        except Transient as fault:
            tries = retrying.statistics["attempt_number"]
            said = self._given_up(who, fault, tries)
            raise ModelError(said, billed=fault.lost) from None

    async def _pass(self, breaker: Breaker, ends: float, who: str) -> None:
        while (wait := breaker.wait()) > 0:
            if self.clock() + wait >= ends:
                raise ModelError(
                    f"{who} is down and left alone for {wait:.0f} s more, which is past the call's "
                    f"deadline; try later, or raise calls.deadline in {MODELS_FILE}",
                    billed=False,
                )
            await self.sleep(wait)

    def _wait(self, state: RetryCallState) -> float:
        asked = _fault(state).wait
        backoff = wait_exponential(self.policy.first_wait, self.policy.longest_wait)
        base = asked if asked is not None else float(backoff(state))
        return base * (1 + random.uniform(0, JITTER))  # noqa: S311 - spreads load, hides nothing

    def _given_up(self, who: str, fault: Transient, tries: int) -> str:
        times = "1 try" if tries == 1 else f"{tries} tries"
        if fault.wait is not None and tries < self.policy.attempts:
            asks = f"; it asks to wait {fault.wait:.0f} s"
        else:
            asks = ""
        return (
            f"{who} gave no answer in {times}, the last one: {fault}{asks}; "
            f"try later, or raise calls.attempts and calls.deadline in {MODELS_FILE}"
        )


async def _watched(attempt: Awaitable[T], breaker: Breaker) -> T:
    """One try, of which the breaker learns how it ended."""
    try:
        answer = await attempt
    except Transient as fault:
        if fault.down:
            breaker.failed(str(fault))
        else:
            breaker.succeeded()
        raise
    except ModelError:
        breaker.succeeded()
        raise
    except BaseException:
        breaker.gave_up()
        raise
    breaker.succeeded()
    return answer


def _fault(state: RetryCallState) -> Transient:
    fault = state.outcome.exception() if state.outcome else None
    assert isinstance(fault, Transient)
    return fault


def system_patience(policy: CallPolicy) -> Patience:
    """Patience by the event loop's own clock."""
    return Patience(policy, anyio.current_time, anyio.sleep)
