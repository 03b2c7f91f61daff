"""Warn of a tool call whose arguments hold instructions to a reader, or invisible characters."""

from collections.abc import Iterator

from orchestrator.engine.ports import GuardedCall, Ruling
from orchestrator.engine.text_guards import TextGuard
from orchestrator.engine.types import Json
from orchestrator.guards.plain_text_guards import InvisibleGuard
from orchestrator.guards.prompt_injection import InjectionGuard


class ArgumentGuard:
    """Checks a call's arguments with text guards. It only warns, since a match is no proof."""

    name = "arguments"

    def __init__(self) -> None:
        self._guards: tuple[TextGuard, ...] = (InjectionGuard(), InvisibleGuard())

    def check(self, call: GuardedCall) -> Ruling:
        """Warn of the first text in which a guard detects something."""
        for text in _texts(dict(call.arguments)):
            for guard in self._guards:
                if found := guard.detect(text):
                    return Ruling("warn", f"{guard.name}: {found.reason} in the arguments")
        return Ruling()

    def admitted(self, call: GuardedCall) -> None:
        """Nothing is counted."""

    def withdrawn(self, call: GuardedCall) -> None:
        """Nothing is counted."""


def _texts(value: Json) -> Iterator[str]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple):
            waiting += item
