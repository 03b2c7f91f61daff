"""Model calls of another framework: what it is about to send is guarded, what it uses is booked."""

from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from inspect import CORO_CREATED, getcoroutinestate
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import Struct

from orchestrator.catalog.agents import KnownNames, load_skill
from orchestrator.catalog.data_file_layers import File, read_shipped_layer
from orchestrator.catalog.prices import Price, load_prices, price_of
from orchestrator.engine.budget import Cost, Reservation
from orchestrator.engine.canonical_json import canonical, digest
from orchestrator.engine.journal import EffectResult
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.text_guards import Place
from orchestrator.engine.types import AgentSpec, Bounds, Json, PromptSection, ToolCall, ToolSpec
from orchestrator.errors import ConfigError, InputError, NotPermitted, NotRegistered
from orchestrator.library.agent_execution import RunParts, observed_rulings
from orchestrator.library.agents import Agent
from orchestrator.providers.call_costs import max_call_cost
from orchestrator.providers.request_normalization import ToolFormat, describe_tools
from orchestrator.providers.token_bounds import PART_OVERHEAD, REQUEST_OVERHEAD, max_text_tokens
from orchestrator.sandbox.file_rollback import Restored

TextPlace = Place | Literal["assistant"]
_PLACES = (*get_args(Place), "assistant")


class ModelContext(Struct, frozen=True):
    """What a framework is about to send to a model.

    Attributes:
        texts: each with its place: ``system``, ``brief`` (what a person wrote), ``observation``
            (what a tool returned) or ``assistant`` (the model's own words, which stay).
        tools: names of the tools that are offered.
        skills: directories of skills (``SKILL.md``) whose text is added; their steps may name
            offered tools only.
        agent: who asks; its permissions hold.
    """

    texts: Sequence[tuple[TextPlace, str]] = ()
    tools: Sequence[str] = ()
    skills: Sequence[str | Path] = ()
    agent: str = "agent"

    def __post_init__(self) -> None:
        """Refuse a text without its place.

        Raises:
            InputError: names the texts' places.
        """
        for one in self.texts:
            if isinstance(one, str) or len(one) != 2 or one[0] not in _PLACES:
                raise InputError(f"{one!r:.80} is no pair of {'|'.join(_PLACES)} and a text")


class ModelCall:
    """One call of a model that the caller makes; ``record`` says what it used.

    >>> async def ask(call: ModelCall) -> str:
    ...     call.record(input_tokens=700, output_tokens=20, usd=0.01)
    ...     return "It burns."
    >>> async def main():
    ...     async with Harness.open(None, "run-1", bounds=Bounds(tokens=1500)) as harness:
    ...         limits = {"input_tokens": 800, "max_tokens": 200, "usd": 0.05}
    ...         print(await harness.model_call(ask, model="ours", **limits), harness.left().tokens)
    >>> anyio.run(main)
    It burns. 780.0

    Attributes:
        worst: the reservation, which is booked if nothing is recorded.
        texts: those of the context in its order, as the guards let them pass.
        skills: the text of the context's skills, for the system prompt.
    """

    def __init__(self, worst: Cost, price: Price | None, texts: list[str], skills: str) -> None:
        self.worst, self.cost, self.texts, self.skills = worst, worst, texts, skills
        self._price = price

    def record(self, *, input_tokens: int, output_tokens: int, usd: float | None = None) -> None:
        """Record what the call used, as its provider reports it.

        Args:
            usd: US dollars; by default at the model's price, or else the reserved amount.

        Raises:
            InputError: an amount is negative or not a number.
        """
        if usd is None and self._price is not None:
            usd = max_call_cost(self._price, input_tokens, output_tokens)
        used = Cost(tokens=input_tokens) + Cost(tokens=output_tokens)  # each is checked
        self.cost = used + Cost(turns=1, usd=self.worst.usd if usd is None else usd)


class RunQueries:
    """The read-only part of ``Harness``."""

    def __init__(self, parts: RunParts) -> None:
        self.journal = parts.journal
        self._parts = parts
        self._executor, self._account = parts.executor, parts.account
        self._rollbacks: list[Coroutine[Any, Any, dict[str, Restored]]] = []

    def observed(self) -> list[str]:
        """Calls that would have been refused without observe-only: call, guard, reason."""
        return observed_rulings(self.journal)

    def left(self) -> Bounds:
        """What is left of the run's budget; ``inf`` without a limit."""
        left = {name: self._account.left(name) for name in Cost.__struct_fields__}
        left["seconds"] = self._account.seconds_left()
        return Bounds(**{name: max(amount, 0.0) for name, amount in left.items()})

    def get(self, name: str) -> ToolSpec:
        """What is known of a tool: description, schema, level, tags and limits.

        Raises:
            NotRegistered: there is no tool of that name.
        """
        return self._executor.registry.get(name).spec

    def is_allowed(self, name: str, agent: Agent | str = "agent") -> bool:
        """Whether an agent may call a registered tool here, an irreversible one with approval.

        Args:
            agent: an agent, or the name that ``execute`` is given.
        """
        try:
            return self._refusal(name, agent) is None
        except NotRegistered:
            return False

    def asks_person(
        self, name: str, arguments: Mapping[str, Json], *, agent: str = "agent"
    ) -> Mapping[str, Json] | None:
        """The arguments that a person would approve, as guards leave them; None: no wait."""
        return self._executor.asks_person(self._spec(agent), ToolCall("", name, arguments))

    def actions(self) -> list[ToolSpec]:
        """The registered actions, in order."""
        return list(self._executor.registry.specs().values())

    def filter_by_tag(self, *tags: str) -> list[ToolSpec]:
        """The registered tools that carry all of the tags, in order."""
        return list(self._executor.registry.filter_by_tag(*tags))

    def tools_for_task(self, agent: Agent) -> list[ToolSpec]:
        """The tools that an agent's model is shown: at most 19 of its registered tools.

        Those tagged ``navigation`` come first, then those that share a tag with ``agent.tags``.
        """
        executor = self._executor
        return list(executor.registry.tools_for_task(agent.spec(""), executor.policy))

    def _require_awaited(self) -> None:
        for work in self._rollbacks:
            if getcoroutinestate(work) == CORO_CREATED:
                work.close()
                raise InputError("rollback was called without await, so it restored nothing")

    def describe_tools(
        self, form: ToolFormat, tools: Iterable[ToolSpec] | None = None
    ) -> list[dict[str, Json]]:
        """Tools as an API takes them: name, description and schema of the arguments.

        Args:
            form: ``anthropic`` (Messages), ``openai`` (Responses), ``openai-chat`` (Chat
                Completions) or ``mcp``.
            tools: by default all registered ones.

        Raises:
            InputError: there is no such format.
        """
        return describe_tools(self.actions() if tools is None else tools, form)

    def _refusal(self, name: str, agent: Agent | str) -> str | None:
        """Why an agent may not call a tool; None if it may."""
        tool, policy = self.get(name), self._executor.policy
        return policy.refusal(self._spec(agent) if isinstance(agent, str) else agent.spec(""), tool)

    def _pass_guards(self, text: str, place: Place | Literal["assistant"], agent: str) -> str:
        """A text without the run's secrets, as the text guards let it pass.

        Raises:
            GuardRefused: one blocks it.
        """
        text = self.journal.redact(text)
        return text if place == "assistant" else self._parts.texts.passed(text, place, agent)

    def _spec(self, agent: str) -> AgentSpec:
        """An agent of a program or framework that may call all registered tools."""
        return AgentSpec(agent, "", "", tuple(self._executor.registry.specs()))


Ask = Callable[[ModelCall], Awaitable[Any]]


class ModelCalls(RunQueries):
    """The part of ``Harness`` for model calls that other frameworks make."""

    def __init__(self, parts: RunParts) -> None:
        super().__init__(parts)
        self._counted: Counter[str] = Counter()

    async def model_call(
        self,
        ask: Ask,
        *,
        model: str,
        max_tokens: int,
        input_tokens: int | None = None,
        usd: float | None = None,
        call: str = "",
        context: ModelContext | None = None,
    ) -> Json:
        """Make a model call of another framework within the run's budget, recorded once.

        The worst case is reserved before the call; afterwards, what ``ask`` records is booked. If
        it records nothing, raises, or is interrupted, the worst case is booked.

        Args:
            ask: makes the call, records what it used, and returns a JSON value.
            model: a model's name, with or without its provider.
            max_tokens: limit of the answer's tokens.
            input_tokens: upper bound of the request's tokens; by default that of the context.
            usd: the maximum cost of the call; by default at the model's price.
            call: a name of this call. Others are named by their context, or else numbered.
            context: what is sent: ``ask`` sends ``ModelCall.texts`` in its place.

        Returns:
            The result of ``ask``, or the recorded one.

        Raises:
            BudgetExhausted: the worst case does not fit; no call was made.
            NotRegistered, NotPermitted, GuardRefused: the context offers a tool that the agent may
                not call, a skill names one that is not offered, or a guard blocks a text.
            InputError: the request's size is unknown, or the price where US dollars are bounded;
                a skill cannot be read.
        """
        if context is None and input_tokens is None:
            raise InputError("give input_tokens=, the most that the request has, or context=")

        async def admit() -> tuple[ModelCall, Reservation]:
            made = self._worst_case(context, model, max_tokens, input_tokens, usd)
            return made, self._account.reserve(made.worst)

        async def perform(made: ModelCall) -> EffectResult:
            return EffectResult(await ask(made), made.cost)

        request: dict[str, Json] = {
            "model": model, "input_tokens": input_tokens, "max_tokens": max_tokens,
        }  # fmt: skip
        if context is not None:
            texts = [[place, self.journal.put(text)] for place, text in context.texts]
            skills = [*map(str, context.skills)]
            request |= {"texts": texts, "tools": [*context.tools], "skills": skills}
        name = f"named/{call}"
        if not call:  # named by its context: a resumed graph does not ask from its start
            prefix = f"context/{digest(request)[:24]}." if context else ""
            self._counted[prefix] += 1
            name = f"{prefix}{self._counted[prefix]}"
        key = Key("model_call", subject=name)
        return await self.journal.effect(key, request, perform, admit=admit)

    def _worst_case(
        self,
        context: ModelContext | None,
        model: str,
        max_tokens: int,
        input_tokens: int | None,
        usd: float | None,
    ) -> ModelCall:
        """The call with the most that it can cost, its context as the guards let it pass."""
        price = price_of(load_prices([read_shipped_layer()]), model.rpartition(":")[2])
        texts, skills = self._guard_context(context) if context else ([], "")
        tokens = input_tokens
        if tokens is None:
            tools = describe_tools(map(self.get, context.tools if context else ()), "openai")
            sent = [*texts, skills, canonical(tools).decode()]
            tokens = REQUEST_OVERHEAD
            tokens += sum(max_text_tokens(text) + PART_OVERHEAD for text in sent)
        most = usd
        if most is None and price is not None:
            most = max_call_cost(price, tokens, max_tokens)
        if most is None and self._account.left("usd") < float("inf"):
            raise InputError(
                f"the price of {model} is unknown; give usd=, the maximum cost of the call"
            )
        worst = Cost(tokens=tokens) + Cost(1, 0, max_tokens, most or 0.0)
        return ModelCall(worst, price, texts, skills)

    def _guard_context(self, context: ModelContext) -> tuple[list[str], str]:
        """The texts as the guards let them pass, and the text of the skills.

        Raises:
            NotRegistered, NotPermitted, GuardRefused: see ``model_call``.
        """
        for name in context.tools:
            if refusal := self._refusal(name, context.agent):
                raise NotPermitted(refusal)
        skills, problems = list[str](), list[ConfigError]()
        known = KnownNames(context.tools, {}, {}, {}, None)
        for directory in map(Path, context.skills):
            where = directory / "SKILL.md"
            try:
                text = where.read_bytes()
            except OSError as error:
                raise InputError(f"the skill {where} cannot be read: {error.strerror}") from None
            file = File(f"skills_catalog/{directory.name}/SKILL.md", str(where), text)
            skill = load_skill(file, known, problems)
            skills += [PromptSection("skill", skill.name, skill.text).shown] if skill else []
        if problems:
            raise NotPermitted(f"a skill that does not fit the tools offered: {problems[0]}")
        return (
            [self._pass_guards(text, place, context.agent) for place, text in context.texts],
            self._pass_guards("\n\n".join(skills), "system", context.agent),
        )
