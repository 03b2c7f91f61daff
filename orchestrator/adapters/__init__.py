"""Adapters for other agent frameworks, each in its own module and extra."""

from collections.abc import Callable, Mapping
from typing import Any


def map_texts(content: Any, change: Callable[[str], str]) -> Any:
    """The content of a framework's message with a function applied to its texts.

    Content is a text, or a list of parts of which some have a ``text``.
    """
    if isinstance(content, str):
        return change(content)
    if isinstance(content, list | tuple):
        return [map_texts(part, change) for part in content]
    if isinstance(content, Mapping) and isinstance(content.get("text"), str):
        return {**content, "text": change(content["text"])}
    return content
