"""A circuit breaker: stops calls to a model that keeps failing, for all agents together.

::

    closed ── failures in a row ──> open ── cooldown over ──> half-open ── success ──> closed
                                     ^                            │
                                     └───────── failure ──────────┘

Half-open admits one call at a time, as a probe.
"""

from collections.abc import Callable
from typing import Literal

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
