"""A conversation as every API wants it: roles alternate, nothing is empty, results come first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.model_config import Capabilities
from orchestrator.engine.types import (
    Aside,
    Block,
    Json,
    Message,
    Opaque,
    Request,
    Role,
    Section,
    Text,
    ToolCall,
    ToolResult,
)
from orchestrator.providers.reply_parsing import means_nothing_alone, whole
from orchestrator.providers.strict_schemas import strict

NOTHING_SAID = "(nothing)"


class Turn(Struct, frozen=True):
    """All that one side says before the other does."""

    role: Role
    blocks: tuple[Block, ...]

    @property
    def results(self) -> Iterator[ToolResult]:
        """Results of the calls before."""
        return (block for block in self.blocks if isinstance(block, ToolResult))

    @property
    def calls(self) -> Iterator[ToolCall]:
        """Calls."""
        return (block for block in self.blocks if isinstance(block, ToolCall))

    @property
    def text(self) -> str:
        """All words."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, Text))


def turns(request: Request, provider: str, *, asides: bool = False) -> list[Turn]:
    """The conversation, put in form.

    The form of a message never depends on a later one, asides apart, so a longer conversation
    begins with the very bytes of the shorter one, and a provider's cache of the prefix holds.

    Args:
        provider: whose opaque blocks go back; those of another one mean nothing here.
        asides: the API knows asides, and sees itself that they are read in their turn alone. Else
            what is said aside in the last turn is a text at its end, and earlier ones are left out.
    """
    made: list[Turn] = []
    for message in request.messages if asides else present(request.messages):
        blocks = _kept(message, provider, asides=asides)
        if not blocks:
            continue
        if made and made[-1].role == message.role:
            before = made.pop().blocks
            blocks = (*(block for block in before if not isinstance(block, Aside)), *blocks)
        if message.role == "user":
            blocks = tuple(sorted(blocks, key=lambda block: not isinstance(block, ToolResult)))
        made.append(Turn(message.role, blocks))
    if not made or made[0].role != "user":
        made.insert(0, Turn("user", (Text(NOTHING_SAID),)))
    return made


def present(messages: Sequence[Message]) -> list[Message]:
    """The messages without the asides that a later message of the user has ended."""
    last = max((at for at, message in enumerate(messages) if message.role == "user"), default=0)
    return [
        replace(message, blocks=message.blocks[:-1])
        if at < last and message.blocks and isinstance(message.blocks[-1], Aside)
        else message
        for at, message in enumerate(messages)
    ]


def _kept(message: Message, provider: str, *, asides: bool) -> tuple[Block, ...]:
    sound = (block for each in message.blocks if (block := _sound(each, provider)))
    kept = tuple(
        Text(block.text) if isinstance(block, Aside) and not asides else block for block in sound
    )
    return () if all(means_nothing_alone(block) for block in kept) else kept


def _sound(block: Block, provider: str) -> Block | None:
    match block:
        case Text(text):
            return Text(whole(text)) if text.strip() else None
        case ToolResult():
            return ToolResult(block.call_id, whole(block.content) or NOTHING_SAID, block.ok)
        case Opaque():
            return block if block.provider == provider else None
        case ToolCall():
            return block
        case Aside(text):
            return Aside(whole(text))


def system_texts(request: Request, can: Capabilities) -> list[str]:
    """The system prompt's parts, the stable ones first; the first line names the agent."""
    texts = [_titled(section) for section in request.system]
    first, *others = texts or [""]
    parts = [f"Agent: {request.agent}\n\n{first}".strip(), *others]
    if request.output_schema is not None and enforced(request, can) is None:
        parts.append(
            "Your final report is one JSON object with nothing around it. It is valid under this "
            f"JSON Schema:\n{json.dumps(request.output_schema, ensure_ascii=False)}"
        )
    return [whole(part) for part in parts]


def tool_choice(request: Request, can: Capabilities) -> Literal["auto", "none", "required"]:
    """What the request asks for; of a server that cannot be made to call a tool, that it may."""
    forced = request.tool_choice == "required"
    return "auto" if forced and not can.forced_calls else request.tool_choice


def takes(request: Request, can: Capabilities) -> bool:
    """Whether the request's schema can go along with it as a schema."""
    return can.schemas != "none" and (can.schemas_with_tools or not request.tools)


def enforced(request: Request, can: Capabilities) -> dict[str, Json] | None:
    """The report's schema as the server holds the answer to it, None when it does not."""
    if request.output_schema is None or can.schemas != "strict" or not takes(request, can):
        return None
    return strict(request.output_schema)


def _titled(section: Section) -> str:
    return f"# Skill: {section.name}\n\n{section.text}" if section.kind == "skill" else section.text
