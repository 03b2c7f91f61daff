"""What kind of effect a recorded request is, for all readers of journals."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

EffectKind = Literal["task", "model", "tool", "question", "other"]


class RecordedRequest(Struct):
    """The fields of a recorded request by which its kind is known.

    Attributes:
        agent: empty for effects that no agent asked for.
        tool: None for what is no tool call; a model may call a tool without a name.
        brief: the digest of a task's brief.
        question: to a person.
    """

    agent: str = ""
    tool: str | None = None
    model: str = ""
    brief: str = ""
    question: str = ""

    @property
    def kind(self) -> EffectKind:
        """The kind of the effect."""
        if self.tool is not None:
            return "tool"
        if self.model:
            return "model"
        if self.brief:
            return "task"
        return "question" if self.question else "other"

    @property
    def name(self) -> str:
        """The tool or the model that is called; empty for other kinds."""
        return self.tool or self.model


_DECODER = msgspec.json.Decoder(RecordedRequest)
NO_REQUEST = RecordedRequest()


def decode_request(asked: Raw) -> RecordedRequest:
    """Read a request as JSON; other fields are skipped, and another kind of value is no request."""
    try:
        return _DECODER.decode(asked)
    except msgspec.ValidationError:
        return NO_REQUEST


def read_request(asked: Any) -> RecordedRequest:
    """``decode_request`` of a decoded value."""
    if not isinstance(asked, Mapping):
        return NO_REQUEST
    try:
        return msgspec.convert(asked, RecordedRequest)
    except msgspec.ValidationError:
        return NO_REQUEST
