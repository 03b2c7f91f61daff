"""Agents of a program: a prompt, tools, a model and bounds."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from orchestrator.code_review.json_schema_generation import inline_references
from orchestrator.engine.ports import Model, Tool
from orchestrator.engine.types import AgentSpec, Bounds
from orchestrator.errors import InputError

Status = Literal["ok", "failed", "timeout", "budget"]
TURNS = 20
"""Model calls of an agent whose bounds do not say."""


@dataclass(frozen=True)
class Agent:
    """What an agent may see, do and spend.

    >>> async def main(model):
    ...     agent = Agent("clerk", "You answer in one sentence.", bounds=Bounds(turns=3))
    ...     async with Harness.open(None, "run-1", model=model) as harness:
    ...         result = await harness.run(agent, "How are you?")
    ...     print(result.status, result.output, result.turns)
    >>> anyio.run(main, model)  # an object, or a name such as "anthropic:fast"
    ok Fine. 1

    Attributes:
        name: unique among the agents of a run; a part of the journal's keys.
        instructions: the system prompt.
        tools: what it may call: tools, or names of registered ones.
        model: ``provider:model`` with a model's name or an escalation stage
            (``anthropic:strong``), or an object with the methods of ``Model``. None: the
            harness's model.
        output: a pydantic model that the final answer must fit; None for free text.
        tags: topics of its task. A model is shown at most 19 tools: those tagged ``navigation``
            and those that share a tag with the task come first.
        bounds: its share of the run's budget; twenty turns by default.
    """

    name: str
    instructions: str = ""
    tools: Sequence[Tool | str] = ()
    model: str | Model | None = None
    output: type[BaseModel] | None = None
    tags: Collection[str] = ()
    bounds: Bounds = field(default_factory=lambda: Bounds(turns=TURNS))

    def spec(self, model: str) -> AgentSpec:
        """The agent in the engine's form.

        Args:
            model: the model's name at its provider.

        Raises:
            InputError: the name cannot be a part of a key.
        """
        if not self.name or not all(part.isalnum() or part in "-_" for part in self.name):
            raise InputError(
                f"an agent's name has letters, digits, - and _ only, not {self.name!r}"
            )
        tools = tuple(tool if isinstance(tool, str) else tool.spec.name for tool in self.tools)
        contract = inline_references(self.output.model_json_schema()) if self.output else None
        tags = frozenset(self.tags)
        identity = repr((self.name, self.instructions, tools, model, contract, sorted(tags)))
        return AgentSpec(
            self.name,
            "",
            self.instructions,
            tools,
            model=model,
            bounds=self.bounds,
            contract=contract,
            digest=hashlib.sha256(identity.encode()).hexdigest(),
            tags=tags,
        )


@dataclass(frozen=True)
class AgentResult:
    """The result of an agent's work.

    Attributes:
        status: ``ok``; ``failed``, ``timeout`` or ``budget`` without an answer.
        output: an instance of the agent's ``output`` model, or text; None unless ``ok``.
        detail: why it is not ok.
        turns, tool_calls: number of each.
        tokens, usd: upper bound of what its model and tool calls used.
        observed: calls that would have been refused without observe-only: call, guard, reason.
    """

    agent: str
    status: Status
    output: Any = None
    detail: str = ""
    turns: int = 0
    tool_calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    observed: Sequence[str] = ()
