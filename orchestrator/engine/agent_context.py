"""The context of an agent: what its model is sent, turn by turn.

    system, tools         the same bytes in every turn, so a provider can cache them; if there are
                          more tools than can be shown, those not called yet
    brief, turns so far   append-only, so a provider can cache all of it

A provider caches a prefix of equal bytes, and may sign its reasoning over that prefix. So only
compaction of a full window changes earlier messages, and the journal records it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import inf
from typing import Literal

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from orchestrator.engine.common_contract import common_contract, contract_name, describe_answer
from orchestrator.engine.context_compaction import (
    TARGET_SHARE,
    Omission,
    apply_omission,
    smallest_omission,
)
from orchestrator.engine.executor import Executor
from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.loop_detection import DEFAULT_LOOP_POLICY, LoopPolicy
from orchestrator.engine.model_routing import ModelChoice, choose_named_model
from orchestrator.engine.observer_events import Observer
from orchestrator.engine.ports import Model
from orchestrator.engine.tool_registry import MAX_SHOWN_TOOLS
from orchestrator.engine.types import (
    AgentSpec,
    Block,
    Bounds,
    Json,
    Message,
    PromptSection,
    Request,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from orchestrator.errors import GuardRefused, ModelError

LAST_TURN = """\
Report now, without calling tools: {why}. Report what you have found so far; name what you did not
get to as gaps.
"""

TextKind = Literal["opening", "role", "brief", "correction", "last_turn"]
"""What a text is that code puts into a conversation: a report that is sent back is answered by a
``correction``."""


def compose_blocks(texts: Sequence[tuple[str, str]]) -> list[Text]:
    """The blocks of a message for texts of these kinds; a role is followed by its brief."""
    role = dict(texts).get("role")
    blocks: list[Text] = []
    for kind, text in texts:
        if kind == "brief" and role is not None:
            blocks.append(Text(f"{role}\n\n{text}"))
        elif kind != "role":
            blocks.append(Text(text))
    return blocks


def describe_bounds(bounds: Bounds) -> str:
    """Tell an agent what it has."""
    limits = {
        "turns": bounds.turns,
        "tool calls": bounds.tool_calls,
        "tokens": bounds.tokens,
        "US dollars": bounds.usd,
        "seconds": bounds.seconds,
    }
    shown = [f"{value:,g} {name}" for name, value in limits.items() if value < float("inf")]
    return f"You have at most {', '.join(shown)}."


def report_unchanged(agent: str, report: Json) -> Json:
    """Return an agent's report unchanged."""
    return report


async def nothing_to_correct(agent: str, report: Json, earlier: Json) -> tuple[Json, list[str]]:
    """Find no error in an agent's report."""
    return report, []


class AgentRuntime(Struct, frozen=True):
    """What the agents of a run share: model, executor, journal, policies.

    Attributes:
        opening: what an agent's first message begins with, in the same bytes, if its contract is
            one of ``contracts``; others share no prefix.
        common_tools: the tools that are shown together with an opening; the executor refuses a
            call that an agent may not make.
        contracts: of the agents that share the opening, by name; sent as one output schema.
        shown_contracts: what is sent of them, if it is less: an answer still may have the rest.
        outgoing: maps an agent's name and report to the report as output guards change it; raises
            ``GuardRefused``.
        check_report: maps an agent's name, its report and the report that was sent back before it,
            if any, to the report that counts and the errors to send back.
    """

    model: Model
    executor: Executor
    journal: Journal
    observer: Observer
    rules: str = ""
    opening: str = ""
    common_tools: tuple[str, ...] = ()
    contracts: Mapping[str, Json] = {}
    shown_contracts: Mapping[str, Json] = {}
    choose_model: Callable[[AgentSpec], ModelChoice] = choose_named_model
    loops: LoopPolicy = DEFAULT_LOOP_POLICY
    outgoing: Callable[[str, Json], Json] = report_unchanged
    check_report: Callable[[str, Json, Json], Awaitable[tuple[Json, list[str]]]] = (
        nothing_to_correct
    )


class Context:
    """One agent's conversation.

    With an opening the first message begins with the same bytes for all agents; the role follows
    it, and the system prompt has only the rules. So agents of one model share a prefix that the
    provider caches.

    Args:
        spec: the agent, equipped.
    """

    def __init__(self, spec: AgentSpec, brief: str, runtime: AgentRuntime) -> None:
        journal, executor, choice = runtime.journal, runtime.executor, runtime.choose_model(spec)
        kind = contract_name(spec.contract, runtime.contracts)
        opening = runtime.opening if kind else ""
        self._journal, self._spec, self._executor = journal, spec, executor
        self._called: set[str] = set()
        self._chosen_for = -1
        self._common_tools = runtime.common_tools if opening else ()
        system = _system(spec, choice, runtime.rules)
        contracts = runtime.shown_contracts or runtime.contracts
        sent_contract = spec.shown_contract or spec.contract
        self._window, self._nonce = choice.window, executor.nonce
        self._standing = Request(
            agent=spec.name,
            model=choice.model,
            system=system[-1:] if opening else system,
            messages=(),
            output_schema=common_contract(contracts) if opening else sent_contract,
            max_tokens=choice.max_tokens,
            effort=choice.effort,
            nonce=executor.nonce,
        )
        put = journal.put
        self._asked: dict[str, Json] = {
            "agent": spec.name,
            "model": choice.model,
            "system": put(to_builtins(self._standing.system)),
            "contract": put(self._standing.output_schema),
        }
        self._choose_tools()
        self.messages: list[Message] = []
        self._added: list[tuple[TextKind, str]] = []
        if opening:
            role = self._role_text(system[:-1], kind)
            self.add_texts(("opening", opening), ("role", role), ("brief", brief))
        else:
            self.add_texts(("brief", brief))

    def request(self, results: Sequence[ToolResult] = ()) -> Request:
        """The next request to the model, with results that are yet to be appended."""
        more = (Message("user", tuple(results)),) if results else ()
        return replace(self._standing, messages=(*self.messages, *more))

    def asked(self) -> Json:
        """The request as the journal records it: each part by its digest.

        Of the conversation it names only what code added since the last answer, so that the journal
        holds each text once; answers and results have rows of their own. ``recorded_conversations``
        reassembles the messages.
        """
        return {**self._asked, "texts": [[k, self._journal.put(text)] for k, text in self._added]}

    def add_answer(self, blocks: Sequence[Block]) -> None:
        """Append what the model answered."""
        self._added = []
        self._append("assistant", *blocks)

    def add_texts(self, *texts: tuple[TextKind, str], results: Sequence[ToolResult] = ()) -> None:
        """Append a message of texts after the results of calls."""
        self._added += texts
        self._append("user", *results, *compose_blocks(texts))

    def _append(self, role: Role, *blocks: Block) -> None:
        self.messages.append(Message(role, blocks))

    def observed(
        self, calls: Sequence[ToolCall], results: Sequence[ToolResult], last_turn: str = ""
    ) -> None:
        """Append the results of a turn's calls.

        Args:
            last_turn: why the next turn must be the report. The model is told; its tools stay,
                because a provider's cache depends on them.
        """
        self._called.update(call.name for call in calls)
        self._choose_tools()
        texts: list[tuple[TextKind, str]] = []
        if last_turn:
            texts.append(("last_turn", LAST_TURN.format(why=last_turn)))
        self.add_texts(*texts, results=results)

    def make_room(self, model: Model, turn: Key, affords: Callable[[Request], bool]) -> None:
        """Compact the conversation if it exceeds window or budget, and note that in the journal.

        A recorded compaction is applied as it was, so that a replayed turn has an equal request.

        Raises:
            ModelError: what must not be left out does not fit the window.
        """
        room = inf if self._window is None else self._window - self._standing.max_tokens
        known = self._journal.noted(turn.at("left_out"))
        if known is not None:
            self._leave_out(convert(known, Omission))
        elif not self._journal.recorded(turn.at("model")) and not (
            self._fits(model, room) and affords(self.request())
        ):
            omission = smallest_omission(
                self.messages,
                self._nonce,
                lambda left: (
                    self._fits(model, room * TARGET_SHARE, left)
                    and affords(replace(self._standing, messages=tuple(left)))
                ),
            )
            self._leave_out(omission)
            if not self._fits(model, room):
                raise ModelError(
                    f"its task and last turn do not fit the window of {self._standing.model} "
                    f"({self._window} tokens, answer included); "
                    "narrow the task, or choose a model with a larger one"
                )
            body = {"observations": [*omission.observations], "exchanges": omission.exchanges}
            self._journal.note(turn.at("left_out"), body)

    def _role_text(self, sections: Sequence[PromptSection], kind: str) -> str:
        """What differs between the agents of a run: role, skills, bounds and report."""
        spec = self._spec
        texts = [section.shown for section in sections]
        own = [name for name in self._common_tools if name in spec.tools]
        others = "" if len(own) == len(self._common_tools) else "; the others are other agents'"
        yours = f"{describe_bounds(spec.bounds)} Your tools: {', '.join(own) or 'none'}{others}."
        return "\n\n".join([f"Agent: {spec.name}", *texts, yours, describe_answer(kind)])

    def _choose_tools(self) -> None:
        """The tools of the next turn."""
        spec, executor = self._spec, self._executor
        few = len(spec.tools) <= MAX_SHOWN_TOOLS  # all are shown, whether called or not
        if len(self._called) == self._chosen_for or (few and self._called):
            return
        self._chosen_for = len(self._called)
        specs = executor.registry.specs()
        tools = tuple(
            specs[name] for name in self._common_tools
        ) or executor.registry.tools_for_task(spec, executor.policy, called=self._called)
        if tools != self._standing.tools or "tools" not in self._asked:
            self._standing = replace(self._standing, tools=tools)
            described = [[tool.name, tool.description, dict(tool.schema)] for tool in tools]
            self._asked["tools"] = self._journal.put(described)

    def _fits(self, model: Model, room: float, messages: Sequence[Message] | None = None) -> bool:
        sent = self.messages if messages is None else messages
        request = replace(self._standing, messages=tuple(sent))
        try:
            return model.worst_case(request).input_tokens <= room
        except GuardRefused:
            return True  # the executor has refused the call and recorded why

    def _leave_out(self, omission: Omission) -> None:
        self.messages = apply_omission(self.messages, omission, self._nonce)


def _system(spec: AgentSpec, choice: ModelChoice, rules: str) -> tuple[PromptSection, ...]:
    skills = [PromptSection("skill", skill.name, skill.text) for skill in spec.skills]
    strategy = [PromptSection("strategy", choice.stage, choice.strategy)] if choice.strategy else []
    sections = [PromptSection("rules", "harness", rules)] if rules else []
    return (PromptSection("role", spec.name, spec.prompt), *skills, *strategy, *sections)
