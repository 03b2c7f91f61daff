"""Adapters for other agent frameworks, each in its own module and extra."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.engine.types import Json
from orchestrator.library.external_model_calls import ModelCall, ModelContext, TextPlace
from orchestrator.library.harness import Harness

Send = Callable[[ModelCall, Iterator[str]], Awaitable[Json]]
"""Sends the texts as the guards let them pass, in their order."""
_TEXTS = frozenset({"text", "content", "output"})
"""The keys of a message's parts that hold texts."""


class GuardedCalls:
    """Model calls behind the harness: text guards, budget, skills, registered tools only.

    Args:
        name: of the model, for its price.
        max_tokens: limit of an answer.
        usd: the maximum cost of a call; by default at the model's price.
        skills: directories of skills whose text is added, see ``ModelContext``.
        tools: names of those that are offered; by default all that the agent may call.
    """

    def __init__(
        self,
        harness: Harness,
        model: Any,
        *,
        name: str,
        max_tokens: int,
        usd: float | None = None,
        skills: Sequence[str | Path] = (),
        tools: Sequence[str] | None = None,
        agent: str = "agent",
    ) -> None:
        self.harness, self.model, self.tools, self.agent = harness, model, tools, agent
        self._name, self._usd, self._skills, self.max_tokens = name, usd, skills, max_tokens

    async def call(
        self, texts: Sequence[tuple[TextPlace, str]], tools: Sequence[str], send: Send
    ) -> Json:
        """Let a call pass the harness; see ``Harness.model_call`` for what it raises."""
        return await self.harness.model_call(
            lambda call: send(call, iter(call.texts)),
            model=self._name,
            max_tokens=self.max_tokens,
            usd=self._usd,
            context=ModelContext(texts, tools, self._skills, self.agent),
        )


def map_texts(content: Any, change: Callable[[str], str]) -> Any:
    """A message's content, a text or parts with or around texts, with its texts changed."""
    if isinstance(content, str):
        return change(content)
    if isinstance(content, list | tuple):
        return [map_texts(part, change) for part in content]
    if isinstance(content, Mapping):
        return {k: map_texts(v, change) if k in _TEXTS else v for k, v in content.items()}
    return content


def texts_in(content: Any) -> list[str]:
    """The texts of a message's content."""
    found: list[str] = []
    map_texts(content, lambda text: found.append(text) or text)  # type: ignore[func-returns-value]
    return found
