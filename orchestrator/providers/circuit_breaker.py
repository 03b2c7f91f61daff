"""A circuit breaker: what is down is left alone for a while, by all agents together.

::

    closed ── failures in a row ──> open ── cooldown over ──> half-open ── it answers ──> closed
                                     ^                            │
                                     └──────── it fails ──────────┘

Half-open lets one call through, to see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

State = Literal["closed", "open", "half-open"]

PROBE_PAUSE = 0.25
"""Seconds until it is worth looking again whether the one call has come back."""


class Breaker:
    """The breaker of one model of one provider.

    Args:
        failures: this many in a row open it.
        cooldown: seconds that it stays open.
        clock: seconds, from any start.
        on_change: told each transition: (before, after, why).
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
        self._failed, self._reopens, self._probing = 0, 0.0, False

    def wait(self) -> float:
        """Seconds until it is worth asking again; 0 lets the caller through, who reports back."""
        if self.state == "open":
            left = self._reopens - self._clock()
            if left > 0:
                return left
            self._become("half-open", f"{self._cooldown:g} s have passed")
        if self.state == "half-open":
            if self._probing:
                return PROBE_PAUSE
            self._probing = True
        return 0.0

    def succeeded(self) -> None:
        """A call that was let through was answered."""
        self._failed, self._probing = 0, False
        if self.state != "closed":
            self._become("closed", "it answers again")

    def failed(self, why: str) -> None:
        """A call that was let through was not answered."""
        self._failed += 1
        self._probing = False
        if self.state == "half-open" or (self.state == "closed" and self._failed >= self._limit):
            self._reopens = self._clock() + self._cooldown
            self._become("open", why)

    def gave_up(self) -> None:
        """A call that was let through says nothing either way: it was cancelled."""
        self._probing = False

    def _become(self, state: State, why: str) -> None:
        before, self.state = self.state, state
        self._on_change(before, state, why)
