"""Telling what of the budget is used, while a review goes on."""

from __future__ import annotations

from msgspec import to_builtins

from orchestrator.engine.budget import Account
from orchestrator.engine.events import Event, Observer


class Ticker:
    """Passes events on, and says after each call what of the budget is used."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.account: Account | None = None

    def __call__(self, event: Event) -> None:
        """Pass it on."""
        self._observer(event)
        if self.account and event.kind in {"tool_finished", "model_finished"}:
            used = {**self.account.used.to_json(), "seconds": event.at}
            limits = to_builtins(self.account.bounds)
            self._observer(Event("budget", event.at, data={"used": used, "limits": limits}))
