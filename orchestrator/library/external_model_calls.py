"""Model calls of another framework: what it is about to send is guarded, what it uses is booked."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import Struct

from orchestrator.catalog.agents import KnownNames
from orchestrator.catalog.data_file_layers import File, read_shipped_layer
from orchestrator.catalog.prices import Price, load_prices, price_of
from orchestrator.catalog.skills import load_skill
from orchestrator.engine.budget import Cost, Reservation
from orchestrator.engine.canonical_json import canonical, digest
from orchestrator.engine.journal import EffectResult
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.text_guards import Place
from orchestrator.engine.types import Json, PromptSection
from orchestrator.errors import ConfigError, InputError, NotPermitted
from orchestrator.library.agent_execution import RunParts
from orchestrator.library.harness_queries import RunQueries
from orchestrator.providers.call_costs import max_call_cost
from orchestrator.providers.token_bounds import PART_OVERHEAD, REQUEST_OVERHEAD, max_text_tokens
from orchestrator.providers.tool_formats import describe_tools

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
        used = Cost(tokens=input_tokens), Cost(tokens=output_tokens)  # each is checked
        self.cost = Cost(
            1, 0, used[0].tokens + used[1].tokens, self.worst.usd if usd is None else usd
        )


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
            InputError: the request's size is unknown, or the price where US dollars are bounded.
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
        sizes = Cost(tokens=tokens), Cost(tokens=max_tokens)
        worst = Cost(1, 0, sizes[0].tokens + sizes[1].tokens, most or 0.0)
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
            file = File(f"skills_catalog/{directory.name}/SKILL.md", str(where), where.read_bytes())
            skill = load_skill(file, known, problems)
            skills += [PromptSection("skill", skill.name, skill.text).shown] if skill else []
        if problems:
            raise NotPermitted(f"a skill that does not fit the tools offered: {problems[0]}")
        return (
            [self._pass_guards(text, place, context.agent) for place, text in context.texts],
            self._pass_guards("\n\n".join(skills), "system", context.agent),
        )
