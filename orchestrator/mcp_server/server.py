"""The tools, resources and prompts for coding agents.

A tool's arguments choose what is reviewed within the repository. Policy, base, consents and budgets
are those of the command line that started the server.
"""

import hmac
import inspect
import logging
import os
import re
import secrets
import socket
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Annotated, Any, Literal

import anyio
from anyio import to_thread
from mcp.server.mcpserver import (
    AcceptedElicitation,
    Context,
    Elicit,
    ElicitationResult,
    MCPServer,
    Resolve,
)
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp_types import CallToolResult, InputRequiredResult, ToolAnnotations
from msgspec.json import encode
from pydantic import BaseModel, Field, ValidationError

from orchestrator import __version__
from orchestrator.app.apply_fixes import ChosenFixes, apply_fixes, check_applies, choose_fixes
from orchestrator.app.catalog_listing import shipped_rules
from orchestrator.app.human_decisions.approvals import acting_for, current_user
from orchestrator.app.memory.waiver_files import DISMISSAL_FILE, Reason, add_dismissal, find_finding
from orchestrator.app.runs.cancellation import cancel_run
from orchestrator.app.runs.stored_runs import load_verdict
from orchestrator.app.types import ReviewOptions
from orchestrator.catalog.shared_literals import HOST, OFFLINE
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.data_directories import read_table
from orchestrator.errors import DiffcourtError, InputError
from orchestrator.mcp_server import answers
from orchestrator.mcp_server.reviews import ServedReview, ServedReviews
from orchestrator.report.terminal_escaping import escape_unprintable, quote_path

POLL_SECONDS = 0.02
MAX_QUESTION = 6_000
WHOLE = {"anthropic/maxResultSizeChars": 500_000}  # else Claude Code puts questions into files

RUN = r"\d{8}-\d{6}-[0-9a-f]{8}"
RunId = Annotated[
    str,
    Field(
        pattern=f"^(latest|{RUN})?$",
        description="a run's id; latest: yours, before the first of this server the repository's",
    ),
]
FindingId = Annotated[str, Field(pattern=r"^F\d{1,6}$")]
PathName = Annotated[str, Field(min_length=1, max_length=4_000)]
Seconds = Annotated[
    float, Field(ge=0, le=50, description="how long the call may wait for the result; at most 50")
]
Reasoner = Annotated[
    Literal["policy", "offline", "host"],
    Field(
        description="who thinks: as the repository's policy says; analyzers alone; or you, who "
        "answer the questions that review and answer return"
    ),
]


class ReviewServer(MCPServer[Any]):
    """The server of one repository."""

    def __init__(self, reviews: ServedReviews) -> None:
        # The library logs what callers send, and this is a person's terminal.
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
        texts = read_table(__file__, "texts.yaml")
        guide = texts["instructions"]
        super().__init__("diffcourt", version=__version__, instructions=guide, log_level="CRITICAL")
        self.reviews = reviews
        for tool in (review, answer, findings, explain, gate, cancel, fix, dismiss):
            # The others add: a run, an answer, a request, a proposal. Only fix changes what exists.
            hints = {"readOnlyHint": tool in {findings, explain, gate}, "openWorldHint": False}
            kind = ToolAnnotations.model_validate({**hints, "destructiveHint": tool is fix})
            says = inspect.getdoc(tool)
            self.add_tool(tool, None, None, says, kind, meta=WHOLE, structured_output=False)
        for added in self._tool_manager.list_tools():
            added.parameters["additionalProperties"] = False
        self.resource("diffcourt://runs/{run}", mime_type="application/json")(read_run)
        self.resource("diffcourt://runs/{run}/verdict", mime_type="application/json")(read_verdict)
        self.resource("diffcourt://rules", mime_type="application/json")(read_rules)
        for name, text in texts["prompts"].items():
            self.prompt(name, description=name.replace("-", " "))(_says(text))

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; an error is one line."""
        schema = self._tool_input_schema(name) or {"properties": arguments}
        if unknown := sorted(arguments.keys() - schema["properties"].keys()):
            raise ToolError(f"{name} has no argument {unknown[0][:60]!r}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError):
                first = cause.errors(include_input=False)[0]
                where = ".".join(map(str, first["loc"]))[:60]
                raise ToolError(f"{name}: {where}: {first['msg'][:200]}") from None
            if isinstance(cause, DiffcourtError):
                raise ToolError(f"{name}: {escape_unprintable(str(cause))[:1000]}") from None
            raise


def _says(text: str) -> Callable[[], str]:
    return lambda: text


def _reviews(ctx: Context[Any, Any]) -> ServedReviews:
    assert isinstance(ctx.mcp_server, ReviewServer)
    return ctx.mcp_server.reviews


def _caller(ctx: Context[Any, Any]) -> str:
    """The coding agent, as it names itself."""
    info = getattr(ctx.request_context.session.client_params, "client_info", None)
    return escape_unprintable(f"{info.name} {info.version}"[:80]) if info else "unnamed"


def _client(ctx: Context[Any, Any]) -> str | None:
    """Who calls: the one at our pipes, or a session of HTTP; None: this HTTP has no sessions."""
    return "pipes" if ctx.headers is None else ctx.headers.get("mcp-session-id")


def _verdict(ctx: Context[Any, Any], run: str) -> Verdict:
    reviews = _reviews(ctx)
    return load_verdict(reviews.repo, reviews.resolve(run, _client(ctx)))


async def _follow(ctx: Context[Any, Any], found: ServedReview, end: float) -> None:
    """Wait until a review has ended or asks, at most until a time; report progress."""
    at = -1.0
    with anyio.CancelScope(deadline=end):
        while found.is_running and found.question is None:
            if found.progress.at > at:
                at = found.progress.at
                await ctx.report_progress(at, message=found.progress.state)
            await anyio.sleep(POLL_SECONDS)


async def review(  # noqa: PLR0917 - a tool's arguments are named
    ctx: Context[Any, Any],
    run: RunId = "",
    uncommitted: bool = True,
    paths: Annotated[tuple[PathName, ...], Field(max_length=200)] = (),
    reasoner: Reasoner = "policy",
    wait_seconds: Seconds = 20,
    full: bool = False,
) -> str:
    """Review the change since base; with `run`, wait for that run or continue it.

    Returns the verdict and its first findings, the next question, or that it still runs: then call
    again with its run. `uncommitted: false` reviews commits only, as CI does. `full` repeats the
    parts of a question that you were shown before.
    """
    reviews, end = _reviews(ctx), anyio.current_time() + wait_seconds
    if run:
        found = await to_thread.run_sync(reviews.open, run, _client(ctx))
    else:
        provider = {"policy": None, "offline": OFFLINE, "host": HOST}[reasoner]
        found = await to_thread.run_sync(reviews.start, _client(ctx), uncommitted, paths, provider)
    try:
        await _follow(ctx, found, end)
    except anyio.get_cancelled_exc_class():
        if not run:  # its host cancelled what it does not know as a run yet
            found.stop(0)
        raise
    return answers.render(answers.describe_review(found, full))


class Call(BaseModel):
    """A call of a tool that the question offers."""

    name: Annotated[str, Field(max_length=200)]
    arguments: dict[str, Any] = {}


async def answer(
    ctx: Context[Any, Any],
    run: RunId,
    question: Annotated[str, Field(pattern=r"^Q[0-9a-f]{10}a*$")],
    text: Annotated[str, Field(max_length=400_000)] = "",
    calls: Annotated[tuple[Call, ...], Field(max_length=64)] = (),
    wait_seconds: Seconds = 20,
) -> str:
    """Answer a question of a review with `reasoner: host`, as the agent that it names.

    `text` is JSON that fits the question's answer_schema; or give `calls` of its tools first, whose
    results the next question has. Returns the next question or the verdict.
    """
    end = anyio.current_time() + wait_seconds
    found = await to_thread.run_sync(_reviews(ctx).open, run, _client(ctx))
    await _follow(ctx, found, end)  # a run that was just continued asks soon
    named = [(call.name, call.arguments) for call in calls]
    found.host.answer(question, text, named, _caller(ctx))
    await _follow(ctx, found, end)
    return answers.render(answers.describe_review(found))


def cancel(ctx: Context[Any, Any], run: RunId) -> str:
    """Stop a running review; what it found so far becomes an incomplete verdict."""
    reviews = _reviews(ctx)
    why = f"asked by {_caller(ctx)} through MCP"
    done = cancel_run(reviews.repo, reviews.resolve(run, _client(ctx)), why)
    return answers.render({"run": done.run_id, "state": done.outcome})


def findings(
    ctx: Context[Any, Any],
    run: RunId = "latest",
    offset: Annotated[int, Field(ge=0, le=1_000_000)] = 0,
) -> str:
    """The open findings of a run, ten on a page, the most severe first."""
    verdict = _verdict(ctx, run)
    return answers.render({"run": verdict.run_id, **answers.list_findings(verdict, offset)})


def explain(ctx: Context[Any, Any], finding: FindingId, run: RunId = "latest") -> str:
    """One finding in full: why it is a defect, its evidence, and how to fix it."""
    verdict = _verdict(ctx, run)
    return answers.render(answers.explain(verdict, find_finding(verdict, finding)))


class Consent(BaseModel):
    """A person's answer."""

    apply: bool = Field(description="Apply these patches to the work tree?")


def choose(ctx: Context[Any, Any], run: str, findings: tuple[str, ...]) -> ChosenFixes:
    """The patches of a call: those that a person is asked about are those that are applied."""
    return choose_fixes(_reviews(ctx).repo, _reviews(ctx).resolve(run, _client(ctx)), findings)


Chosen = Annotated[ChosenFixes, Resolve(choose)]


def ask_person(
    ctx: Context[Any, Any], apply: bool, run: str, chosen: Chosen
) -> Consent | Elicit[Consent]:
    """Ask the person at the coding agent whether to apply patches."""
    if not apply or not chosen.findings:
        return Consent(apply=False)
    capabilities = ctx.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        raise InputError(
            "only a person may apply patches, and this client cannot ask one (elicitation): edit "
            "the files yourself, or have the person run: diffcourt fix"
        )
    if run in {"", "latest"}:  # another one may be by the time that the person answers
        raise InputError("to apply patches, name their run")
    ids = ", ".join(finding.id for finding in chosen.findings)
    files = ", ".join(map(quote_path, sorted(check_applies(_reviews(ctx).repo, chosen))))
    patch = answers.escape_lines(answers.join_fixes(chosen.findings))
    question = f"Diffcourt: apply the patches of {ids} ({run}) to {files}?\n\n{patch}"
    if len(question) > MAX_QUESTION:  # a person says yes to nothing unseen
        raise InputError("too long for a person to read: name fewer findings, or run diffcourt fix")
    return Elicit(question, Consent)


def fix(
    ctx: Context[Any, Any],
    consent: Annotated[ElicitationResult[Consent], Resolve(ask_person)],
    chosen: Chosen,
    run: RunId = "latest",
    findings: Annotated[tuple[FindingId, ...], Field(max_length=200)] = (),
    apply: bool = False,
) -> str:
    """The verified patches of a run as diffs; of named findings also those that are not proven.

    With `apply`, a person is asked, and the patches are applied only if the answer is yes.
    """
    found: answers.Document = {"run": chosen.verdict.run_id, "applied": []}
    agreed = isinstance(consent, AcceptedElicitation) and consent.data.apply
    if agreed:
        with acting_for(f"a person at {_caller(ctx)}"):
            applied = apply_fixes(_reviews(ctx).repo, chosen)
        found["applied"] = [finding.id for finding in chosen.findings]
        found["undo"] = f"diffcourt rollback {chosen.verdict.run_id} {applied.call}"
        return answers.render(found)
    if apply:
        found["why_not"] = "the person did not agree" if chosen.findings else "there is no patch"
    patches = answers.describe_patches(chosen.findings, chosen.left_out)
    return answers.render({**found, "untrusted": patches})


def dismiss(
    ctx: Context[Any, Any],
    finding: FindingId,
    why: Annotated[str, Field(min_length=10, max_length=1_000)],
    run: RunId = "latest",
) -> str:
    """Propose to dismiss one finding: an entry that counts once people have it in base.

    The finding stays open in this change. A critical one needs a person at the command line.
    """
    by = f"{current_user().partition(' on ')[0]} through {_caller(ctx)}"
    reason = Reason(why=why, recorded_by=by)
    add_dismissal(_reviews(ctx).repo, _verdict(ctx, run), finding, reason)
    effect = "none until people merge it into base; the finding is still open"
    return answers.render({"proposed_in": DISMISSAL_FILE.name, "effect": effect})


def gate(ctx: Context[Any, Any], run: RunId = "latest") -> str:
    """Whether CI would pass with what is committed now, by a run of this repository; why not."""
    return answers.render(answers.judge_gate(_reviews(ctx).repo, _verdict(ctx, run)))


def _stored(ctx: Context[Any, Any], run: str) -> Verdict:
    if not re.fullmatch(RUN, run):
        raise ResourceNotFoundError("that is no run's id")
    return _verdict(ctx, run)


def read_run(run: str, ctx: Context[Any, Any]) -> str:
    """A run: its verdict in short."""
    return answers.render(answers.describe_verdict(_stored(ctx, run)))


def read_verdict(run: str, ctx: Context[Any, Any]) -> str:
    """The whole verdict of a run; its texts are data of the change."""
    return encode(_stored(ctx, run)).decode()


def read_rules() -> str:
    """The rules that come with Diffcourt."""
    return answers.render(
        {rule.id: f"{rule.severity}: {rule.title}" for rule in shipped_rules().values()}
    )


TOKEN = "DIFFCOURT_MCP_TOKEN"  # noqa: S105 - a variable's name
MIN_TOKEN = 16
LOOPBACK = "127.0.0.1"


def serve_stdio(options: ReviewOptions) -> None:
    """Serve one client until it closes our standard input; what runs is interrupted, resumable."""
    with closing(ServedReviews(options)) as reviews:
        anyio.run(ReviewServer(reviews).run_stdio_async)


def serve_http(options: ReviewOptions, port: int, started: Callable[[str, str], None]) -> None:
    """Serve this machine's clients until Ctrl-C.

    Args:
        port: 0 for a free one.
        started: called with the address and the token that each request must send.

    Raises:
        InputError: the port is taken, or the token of the environment is too short.
    """
    import uvicorn  # noqa: PLC0415 - stdio does without
    from starlette.responses import PlainTextResponse  # noqa: PLC0415
    from starlette.types import Receive, Scope, Send  # noqa: PLC0415

    token = os.environ.get(TOKEN, "") or secrets.token_urlsafe(32)
    if len(token) < MIN_TOKEN or not token.isascii():
        raise InputError(f"{TOKEN} needs {MIN_TOKEN} ASCII characters; unset it for a new one")
    with closing(ServedReviews(options)) as reviews, closing(socket.socket()) as listening:
        inner, bearer = ReviewServer(reviews).streamable_http_app(), f"Bearer {token}".encode()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            given = dict(scope.get("headers", ())).get(b"authorization", b"")
            if scope["type"] == "lifespan" or hmac.compare_digest(given, bearer):
                await inner(scope, receive, send)
            else:
                await PlainTextResponse("a token is required\n", 401)(scope, receive, send)

        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((LOOPBACK, port))
            listening.listen()
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or "no such port"
            raise InputError(f"port {port} cannot be used ({why})") from None
        config = uvicorn.Config(
            app, log_config=None, ws="none", lifespan="on", timeout_graceful_shutdown=1
        )
        with suppress(KeyboardInterrupt):  # the usual end
            started(f"http://{LOOPBACK}:{listening.getsockname()[1]}/mcp", token)
            uvicorn.Server(config).run([listening])
