"""Text guards: checks of the text that a model is sent and of an agent's report."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.canonical_json import digest
from orchestrator.engine.ports import MayRetry, Model, always_retry
from orchestrator.engine.secret_redaction import Redactor
from orchestrator.engine.types import (
    Block,
    Message,
    Request,
    Response,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from orchestrator.errors import GuardRefused

Action = Literal["block", "warn", "modify", "off"]

Place = Literal["system", "tool", "brief", "observation", "report"]
"""Where a text stands. ``tool`` is a tool's description, ``report`` an agent's own words."""


class Detection(Struct, frozen=True):
    """What a guard found in a text.

    Attributes:
        reason: in a few words, without the detected text.
        text: the text as modified by the guard; None if the guard cannot modify it.
    """

    reason: str
    text: str | None = None


class TextGuard(Protocol):
    """A check of texts that are sent to a model or reported by an agent."""

    name: str
    places: frozenset[Place]

    def detect(self, text: str) -> Detection | None:
        """The detection in a text, None if there is none. It must be deterministic."""


class GuardDecision(Struct, frozen=True):
    """The action for a detection: which guard, whose text, and what was done."""

    layer: str
    guard: str
    action: Action
    agent: str
    place: Place
    reason: str


class TextGuards:
    """The guards of one layer, in order; a later guard sees the changes of an earlier one.

    Args:
        layer: ``input`` or ``output``.
        guards: each with the action for what it detects.
        record: called with each decision, possibly with the same one more than once.
    """

    def __init__(
        self,
        layer: str,
        guards: Sequence[tuple[TextGuard, Action]],
        record: Callable[[GuardDecision], None],
    ) -> None:
        self._layer, self._record = layer, record
        self._guards = [(guard, action) for guard, action in guards if action != "off"]

    def passed(self, text: str, place: Place, agent: str) -> str:
        """Check a text with every guard; returns the text as they changed it."""
        for guard, action in self._guards:
            if place not in guard.places or (found := guard.detect(text)) is None:
                continue
            done: Action = "warn" if action == "modify" and found.text is None else action
            self._record(GuardDecision(self._layer, guard.name, done, agent, place, found.reason))
            if done == "block":
                raise GuardRefused(guard.name, f"{found.reason} in the {place}")
            if done == "modify" and found.text is not None:
                text = found.text
        return text


class InputGuardedModel:
    """A model whose requests pass the input guards, without our own secrets."""

    def __init__(self, model: Model, guards: TextGuards, redact: Redactor) -> None:
        self.name = model.name
        self._model, self._guards, self._redact = model, guards, redact
        # Every turn sends the whole conversation again, but each text is checked only once.
        self._seen: dict[tuple[str, Place, str], str] = {}
        self._tools: dict[tuple[str, str], tuple[ToolSpec, ToolSpec]] = {}

    async def respond(self, request: Request, may_retry: MayRetry = always_retry) -> Response:
        """Answer the request as changed by the guards.

        Raises:
            GuardRefused: a guard blocks it; nothing was sent.
            ModelError: as the model.
        """
        answer = await self._model.respond(self._shown(request), may_retry)
        return replace(answer, blocks=tuple(map(self._named, answer.blocks)))

    def worst_case(self, request: Request) -> Usage:
        """The most that the request can use, as it will be sent."""
        return self._model.worst_case(self._shown(request))

    def _named(self, block: Block) -> Block:
        """The call with its own name and id: APIs accept no replacement text in them."""
        if not isinstance(block, ToolCall):
            return block
        name, id_ = self._redact(block.name), self._redact(block.id)
        return replace(
            block,
            name=block.name if name == block.name else "redacted",
            id=block.id if id_ == block.id else digest(block.id)[:32],
        )

    def _shown(self, request: Request) -> Request:
        agent = request.agent
        return replace(
            request,
            system=tuple(
                replace(section, text=self._text(section.text, "system", agent))
                for section in request.system
            ),
            tools=tuple(self._tool(tool, agent) for tool in request.tools),
            messages=tuple(self._message(message, agent) for message in request.messages),
        )

    def _tool(self, tool: ToolSpec, agent: str) -> ToolSpec:
        known = self._tools.get((tool.name, agent))
        if known is None or known[0] is not tool:
            description = self._text(tool.description, "tool", agent)
            schema = self._redact.json(dict(tool.schema))
            known = tool, replace(tool, description=description, schema=schema)
            self._tools[tool.name, agent] = known
        return known[1]

    def _message(self, message: Message, agent: str) -> Message:
        if message.role == "assistant":
            return message  # the model's own text, already redacted by the journal
        return Message("user", tuple(self._block(block, agent) for block in message.blocks))

    def _block(self, block: Block, agent: str) -> Block:
        match block:
            case Text(text):
                return Text(self._text(text, "brief", agent))
            case ToolResult():
                return replace(block, content=self._text(block.content, "observation", agent))
        return block

    def _text(self, text: str, place: Place, agent: str) -> str:
        known = self._seen.get((text, place, agent))
        if known is None:
            known = self._guards.passed(self._redact(text), place, agent)
            self._seen[text, place, agent] = known
        return known
