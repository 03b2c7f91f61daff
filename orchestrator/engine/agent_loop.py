"""One agent's bounded turns.

    while turns are left:
        assemble the context  →  ask the model  →  it calls tools: run them, observe, go on
                                                →  it reports: check the report

The model only proposes; tools run through the executor. A report that violates its contract is sent
back with its errors at most twice, one that is the same again not even that, and one with wrong
contents once. Before turns, tokens, money or time run out, the agent is told to report what it has.
"""

from collections.abc import Sequence
from math import inf
from time import monotonic
from typing import Literal

import anyio
from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from orchestrator.engine.agent_context import AgentRuntime, Context
from orchestrator.engine.budget import Account, Cost, Reservation, max_output_that_fits
from orchestrator.engine.canonical_json import is_json
from orchestrator.engine.common_contract import contract_name
from orchestrator.engine.journal import EffectResult
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.loop_detection import LoopDetector
from orchestrator.engine.model_call_events import reserve_retry
from orchestrator.engine.observer_events import Event
from orchestrator.engine.ports import Model
from orchestrator.engine.report_reading import read_report, text_of
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.tool_registry import validator
from orchestrator.engine.types import (
    AgentSpec,
    Json,
    Request,
    Response,
    ToolCall,
    ToolResult,
    Usage,
)
from orchestrator.engine.untrusted_text import frame
from orchestrator.errors import (
    ApprovalPending,
    BudgetExhausted,
    GuardRefused,
    ModelError,
    VendorDown,
)

MAX_REPORT_CORRECTIONS = 2
"""How often a report that breaks its contract is sent back before the attempt has failed."""

MIN_OUTPUT_TOKENS = 256
"""Tokens: an answer that would have to be shorter to fit the budget is not asked for."""

REPORT_TOKENS = 8_000
"""Tokens that are kept for an agent's report; few have half of it."""

MAX_LISTED_ERRORS = 20

TURNS_TO_KEEP = 2.5
"""Turns as slow as the slowest one that must be left for the agent not to report now."""

LAST_SHARE = 0.15
"""Share of an agent's seconds that is kept for its report."""

AgentStatus = Literal["ok", "failed", "timeout", "budget", "waiting", "cancelled"]


class LoopResult(Struct, frozen=True, omit_defaults=True):
    """The result of an agent's work.

    Attributes:
        report: its final report, valid under its contract; None unless ``ok``.
        detail: why the status is not ``ok``.
        stage: the escalation stage at which the work ended; empty without escalation.
        min_score: a judge's score below it starts the agent's next task at ``next_stage``.
        next_stage: the stage after ``stage``; empty if it is the last.
        vendor_down: its model's provider is down; another one can replace it.
    """

    agent: str
    status: AgentStatus
    report: Json = None
    detail: str = ""
    turns: int = 0
    tool_calls: int = 0
    stage: str = ""
    min_score: float = 0.0
    next_stage: str = ""
    vendor_down: bool = False


def first_request(spec: AgentSpec, brief: str, runtime: AgentRuntime) -> Request:
    """The first request of an agent's work on a brief."""
    return Context(spec, brief, runtime).request()


async def run_agent(
    spec: AgentSpec, brief: str, runtime: AgentRuntime, key: Key, account: Account
) -> LoopResult:
    """Let one agent work on a brief until it reports, fails, or reaches a bound.

    Args:
        account: its budget, which it cannot exceed.

    Raises:
        ReplayMismatch, StoreError: the run itself cannot continue.
    """
    attempt = _Attempt(spec, Context(spec, brief, runtime), runtime, key, account)
    result = await attempt.run()
    if result.status != "ok" and attempt.sent_back is not None:
        # No other report followed, so the one that was sent back for its contents counts.
        result = replace(result, status="ok", report=attempt.sent_back, detail="")
    return _apply_output_guards(result, runtime)


class _Attempt:
    """One attempt of an agent, turn by turn."""

    def __init__(
        self, spec: AgentSpec, context: Context, runtime: AgentRuntime, key: Key, account: Account
    ) -> None:
        self._spec, self._context, self._runtime = spec, context, runtime
        self._key, self._account = key, account
        self._errors_of = validator(spec.contract) if spec.contract else None
        self._watch = LoopDetector(runtime.loops, runtime.journal, key)
        self._turn = self._calls = self._malformed = 0
        self._last_malformed = ""
        self._slowest, self._last_usage = 0.0, Usage()
        self._deadline = anyio.current_effective_deadline()
        self.sent_back: Json = None

    async def run(self) -> LoopResult:
        """Take turns until the agent reports, fails, or reaches a bound."""
        spec, watch, wrong = self._spec, self._watch, ""
        while self._turn < spec.bounds.turns and not watch.reason:
            self._turn += 1
            try:
                response = await self._next_response()
            except BudgetExhausted as spent:
                return self._ended("budget", str(spent))
            except (ModelError, GuardRefused) as error:
                down = isinstance(error, VendorDown)
                return replace(self._ended("failed", str(error)), vendor_down=down)
            if response.stop in {"refused", "filtered"}:
                return self._ended("failed", f"the model's answer was {response.stop}")
            self._context.add_answer(response.blocks)
            tool_calls = [block for block in response.blocks if isinstance(block, ToolCall)]
            if tool_calls:
                await self._run_tools(response, tool_calls)
            elif response.stop == "paused":
                watch.observe(response.blocks)
            else:
                report, errors = await self._checked(response)
                if not errors:
                    return self._ended("ok", report=report)
                if self._malformed > MAX_REPORT_CORRECTIONS:
                    return self._ended("failed", f"its report broke the contract: {errors[0]}")
                wrong = f", the last one: {errors[0]}"
                text = _send_back(errors, self._runtime.executor.nonce, readable=report is not None)
                self._context.add_texts(("correction", text))
        turns = "1 turn" if spec.bounds.turns == 1 else f"{spec.bounds.turns:g} turns"
        out = f"no report within {turns}{wrong}"
        return self._ended("failed", watch.reason) if watch.reason else self._ended("budget", out)

    def _ended(self, status: AgentStatus, detail: str = "", report: Json = None) -> LoopResult:
        return LoopResult(self._spec.name, status, report, detail, self._turn, self._calls)

    async def _next_response(self) -> Response:
        turn, began = self._key.in_turn(self._turn), monotonic()
        self._context.make_room(self._runtime.model, turn, self._affords)
        response = await _ask(self._context, self._runtime, turn, self._account)
        self._slowest = max(self._slowest, monotonic() - began)
        self._last_usage = response.usage
        return response

    async def _run_tools(self, response: Response, tool_calls: list[ToolCall]) -> None:
        """Run a turn's calls concurrently; results in the order of the calls.

        Raises:
            ApprovalPending: one waits for a person; all others have ended, so none is repeated.
        """
        self._calls += len(tool_calls)
        turn, runtime = self._key.in_turn(self._turn), self._runtime
        ended: dict[int, ToolResult] = {}
        pending: dict[int, ApprovalPending] = {}

        async def one(position: int, call: ToolCall) -> None:
            key = turn.tool_call(position, call.name)
            try:
                ended[position] = await runtime.executor.call(self._spec, call, key, self._account)
            except ApprovalPending as waits:
                pending[position] = waits

        if len(tool_calls) == 1:
            await one(1, tool_calls[0])
        else:
            async with task_group() as group:
                for position, call in enumerate(tool_calls, 1):
                    group.start_soon(one, position, call)
        if pending:
            await runtime.journal.flush()
            raise pending[min(pending)]
        results = [ended[position] for position in sorted(ended)]
        self._context.observed(tool_calls, results, self._why_last(results))
        self._watch.observe(response.blocks, results)

    def _affords(self, request: Request) -> bool:
        """Whether the budget holds a request with an answer of some length."""
        try:
            limit = _longest_answer(self._runtime.model, request, self._account)
        except GuardRefused:
            return True  # the call itself is refused, which is on record
        return limit >= min(MIN_OUTPUT_TOKENS, request.max_tokens)

    def _why_last(self, results: Sequence[ToolResult]) -> str:
        """Why the next turn must be the report, or empty; a recorded reason is reused."""
        journal, turn = self._runtime.journal, self._key.in_turn(self._turn + 1)
        if (known := journal.noted(turn.at("last_turn"))) is not None:
            return str(known["why"])
        why = "" if journal.recorded(turn.at("model")) else self._what_ends(results)
        if why:
            journal.note(turn.at("last_turn"), {"why": why})
        return why

    def _what_ends(self, results: Sequence[ToolResult]) -> str:
        if self._turn + 1 >= self._spec.bounds.turns:
            return "this is your last turn"
        try:
            request = self._context.request(results)
            shorter = replace(request, max_tokens=min(request.max_tokens, REPORT_TOKENS))
            worst = self._runtime.model.worst_case(shorter)
        except GuardRefused:
            return ""  # the call itself is refused, which is on record
        account, last = self._account, self._last_usage
        # After the next turn, which costs about as much as the last, one more must still fit.
        if 0 < account.left("tokens") < worst.tokens + last.tokens:
            return "your tokens are nearly used up"
        if 0 < account.left("usd") < worst.usd + last.usd:
            return "your usd are nearly used up"
        seconds = self._deadline - anyio.current_time() if self._deadline < inf else inf
        own = self._spec.bounds.seconds
        if seconds < max(TURNS_TO_KEEP * self._slowest, own * LAST_SHARE if own < inf else 0):
            return "your time is nearly used up"
        return ""

    async def _checked(self, response: Response) -> tuple[Json, list[str]]:
        """The report, or the errors to send back."""
        kind = contract_name(self._spec.contract, self._runtime.contracts)
        report, errors = read_report(response, self._errors_of, self._spec.contract, kind)
        if errors:
            text = text_of(response)
            self._malformed += 1
            if text and text == self._last_malformed:  # it would only say so again
                self._malformed = MAX_REPORT_CORRECTIONS + 1
            self._last_malformed = text
            return None, errors
        journal, earlier, key = self._runtime.journal, self.sent_back, self._key.at("report")
        if earlier is not None or journal.noted(key) is None:
            report, errors = await self._runtime.check_report(self._spec.name, report, earlier)
            if not errors or earlier is not None or self._turn >= self._spec.bounds.turns:
                return report, []
            journal.note(key, {"report": report, "errors": errors})
        # As recorded: redacted, since the errors show lines of files, which may hold a secret; and
        # a resumed run must send back the same errors, whatever was recorded later.
        noted = journal.noted(key) or {}
        self.sent_back = noted["report"]
        return self.sent_back, list(noted["errors"])


def _apply_output_guards(result: LoopResult, runtime: AgentRuntime) -> LoopResult:
    """The result, with its report as the output guards changed it."""
    if result.status != "ok":
        return result
    try:
        return replace(result, report=runtime.outgoing(result.agent, result.report))
    except GuardRefused as refusal:
        return replace(result, status="failed", report=None, detail=str(refusal))


async def _ask(context: Context, runtime: AgentRuntime, turn: Key, account: Account) -> Response:
    """One model call as an effect: paid for once, and never beyond the budget that is left."""
    journal, model, request = runtime.journal, runtime.model, context.request()
    key, at = str(turn.at("model")), str(turn)

    async def admit() -> tuple[tuple[Request, Cost], Reservation]:
        worst = model.worst_case(request)
        held = Cost(1, 0, worst.tokens, worst.usd)
        try:
            return (request, held), account.reserve(held)
        except BudgetExhausted:
            limit = _longest_answer(model, request, account)
            if limit < min(MIN_OUTPUT_TOKENS, request.max_tokens):
                raise
        # Not part of the recorded request: a resumed run has another amount left.
        fitting = replace(request, max_tokens=limit)
        worst = model.worst_case(fitting)
        held = Cost(1, 0, worst.tokens, worst.usd)
        return (fitting, held), account.reserve(held)

    async def perform(admitted: tuple[Request, Cost]) -> EffectResult:
        fitting, held = admitted
        response = await model.respond(fitting, lambda: reserve_retry(journal, key, account, held))
        used = response.usage
        return EffectResult(_response_to_json(response), Cost(1, 0, used.tokens, used.usd))

    event = Event(
        "model_started", journal.elapsed(), agent=request.agent, key=at,
        replayed=journal.recorded(key),
    )  # fmt: skip
    runtime.observer(event)
    value = await journal.effect(key, context.asked(), perform, admit=admit)
    response = convert(value, Response)
    event = replace(event, kind="model_finished", at=journal.elapsed())
    runtime.observer(replace(event, data=to_builtins(response.usage)))
    return response


def _longest_answer(model: Model, request: Request, account: Account) -> int:
    """The output limit of a request, in tokens, that the budget holds."""
    return max_output_that_fits(model, request, account.left("tokens"), account.left("usd"))


def _response_to_json(response: Response) -> Json:
    """A model's answer as the journal keeps it."""
    try:
        value: Json = to_builtins(response)
    except RecursionError:
        value = None
    if value is None or not is_json(value):
        raise ModelError("the model's answer is not JSON-serializable: NaN, or nested too deeply")
    return value


def _send_back(errors: list[str], nonce: str, *, readable: bool) -> str:
    # An error quotes the report, which may quote untrusted text.
    lines = [f"- {error}" for error in errors[:MAX_LISTED_ERRORS]]
    if more := len(errors) - len(lines):
        lines.append(f"- and {more} more that are not listed")
    listed = frame("\n".join(lines), nonce)
    if readable:
        return (
            "Parts of that report are wrong. Report those again, corrected, or leave them "
            f"out. The rest is kept; do not repeat it:\n{listed}"
        )
    return f"That report does not fit its contract. Report again, as JSON only:\n{listed}"
