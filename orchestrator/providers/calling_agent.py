"""The model of the coding agent that called the review: each request is a question to it."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial

from anyio import CapacityLimiter, get_cancelled_exc_class, to_thread
from msgspec import Struct, field, to_builtins

from orchestrator.catalog.model_config import Capabilities, Provider
from orchestrator.catalog.shared_literals import HOST
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.ports import MayRetry, always_retry
from orchestrator.engine.types import Json, Request, Response, Text, ToolCall, ToolResult, Usage
from orchestrator.errors import InputError
from orchestrator.foreign_json import escape_surrogates
from orchestrator.providers.reply_normalization import (
    InvalidReplyError,
    ToolCallParser,
    drop_unsafe_calls,
    printable_name,
)
from orchestrator.providers.request_normalization import describe_tools
from orchestrator.providers.token_bounds import (
    estimate_input_tokens,
    max_input_tokens,
    max_text_tokens,
)

HOST_PROVIDER = Provider(
    api="chat",
    key_env="NONE",
    key_required=False,
    base_url_env="NONE",
    models=dict.fromkeys(("fast", "strong", "strongest"), HOST),
    can=Capabilities("strict", True, "native", True, effort=False),
)
"""What routing needs to know of it: one model for all stages."""


class Question(Struct, frozen=True, eq=False):
    """A request that waits for its answer; its id is the same when the run is resumed."""

    id: str
    request: Request
    shown: dict[str, Json]
    reply: Future[Response] = field(default_factory=Future)


class HostModel:
    """Answers requests with what another thread passes to ``answer``."""

    name = HOST

    def __init__(self) -> None:
        self._open: dict[str, Question] = {}

    async def respond(self, request: Request, may_retry: MayRetry = always_retry) -> Response:
        """Ask, and wait for the answer; the time limits are those of the run."""
        shown = describe_request(request)
        name = f"Q{digest([request.agent, shown])[:10]}"
        while name in self._open:  # two ask the very same
            name += "a"
        question = self._open[name] = Question(name, request, shown)
        wait, own = partial(to_thread.run_sync, abandon_on_cancel=True), CapacityLimiter(1)
        try:
            return await wait(question.reply.result, limiter=own)
        except get_cancelled_exc_class():
            if question.reply.cancel():  # else it is answered: recorded, it is not asked again
                raise
            return question.reply.result()
        finally:
            del self._open[name]

    def worst_case(self, request: Request) -> Usage:
        """Tokens of the input at most, and the limit of the answer; it costs us nothing."""
        return Usage(max_input_tokens(request), request.max_tokens)

    def waiting(self) -> list[Question]:
        """The questions without an answer, the oldest first."""
        return [question for question in list(self._open.values()) if not question.reply.done()]

    def answer(
        self, name: str, text: str, calls: Iterable[tuple[str, Mapping[str, Json]]], who: str
    ) -> None:
        """Answer a question.

        Args:
            text: the report, in the form of the question's schema.
            calls: name and arguments of each tool to call.
            who: the coding agent, as it names itself.

        Raises:
            InputError: no such question is open, or the answer is empty or too long.
        """
        waiting = {question.id: question for question in self.waiting()}
        if name not in waiting:
            known = ", ".join(waiting) or "none; call review: a limit may have ended the run"
            raise InputError(f"there is no open question {name}; open: {known}")
        question, request, reply = waiting[name], waiting[name].request, escape_surrogates(text)
        parser = ToolCallParser(request)
        try:
            called = [parser.add(None, tool, dict(arguments)) for tool, arguments in calls]
        except InvalidReplyError as error:
            raise InputError(f"the answer cannot be used: {error}") from None
        blocks, stop = drop_unsafe_calls((Text(reply), *called), "end")
        if not blocks:
            raise InputError("the answer is empty: give the report as text, or calls of tools")
        tokens = max_text_tokens(reply + str(to_builtins(called))) // 2
        if tokens > request.max_tokens:
            raise InputError(f"the answer has more than {request.max_tokens} tokens; shorten it")
        usage = Usage(estimate_input_tokens(request), tokens, estimated=True)
        model = f"{HOST}:{printable_name(who) or 'unnamed'}"
        with suppress(InvalidStateError):  # the run was stopped in the meantime
            question.reply.set_result(Response(blocks, stop, usage, model))


def describe_request(request: Request) -> dict[str, Json]:
    """A request as JSON that a coding agent reads."""
    return {
        "agent": request.agent,
        "system": "\n\n".join(section.shown for section in request.system),
        "tools": describe_tools(request.tools, "mcp"),
        "answer_schema": request.output_schema,
        "messages": [
            {"role": message.role, "parts": [_describe(block) for block in message.blocks]}
            for message in request.messages
        ],
    }


def _describe(block: object) -> Json:
    match block:
        case Text(text):
            return text
        case ToolCall(_, name, arguments):
            return {"called": name, "arguments": dict(arguments)}
        case ToolResult():
            return {"ok": block.ok, "result": block.content}
    return ""
