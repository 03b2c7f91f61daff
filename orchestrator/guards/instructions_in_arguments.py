"""Detect a tool call whose arguments hold instructions to a reader, or invisible characters."""

from collections.abc import Iterator
from typing import Literal

from orchestrator.engine.ports import GuardedCall, Ruling
from orchestrator.engine.text_guards import TextGuard
from orchestrator.engine.types import Json
from orchestrator.guards.plain_text_guards import InvisibleGuard
from orchestrator.guards.prompt_injection import InjectionGuard

ArgumentAction = Literal["warn", "confirm", "block"]


class ArgumentGuard:
    """Checks a call's arguments with text guards; it only warns unless told, for want of proof."""

    name = "arguments"

    def __init__(self, action: ArgumentAction = "warn") -> None:
        self._action: ArgumentAction = action
        self._guards: tuple[TextGuard, ...] = (InjectionGuard(), InvisibleGuard())

    def check(self, call: GuardedCall) -> Ruling:
        """Rule on the first text in which a guard detects something."""
        for text in _texts(dict(call.arguments)):
            for guard in self._guards:
                if found := guard.detect(text):
                    return Ruling(self._action, f"{guard.name}: {found.reason} in the arguments")
        return Ruling()


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
