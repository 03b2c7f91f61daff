"""Batches as Anthropic (Message Batches) and OpenAI (Batch, with its files) serve them.

Strict like the APIs of single requests, of which each item of a batch is one. A ``BatchPlan`` says
how a batch goes; results never come in the order of the requests, and hold one of an unknown id.
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.parser import BytesParser
from typing import Any
from urllib.parse import parse_qs

from msgspec import Struct, field

from orchestrator.engine.types import Json
from tests.model_server.api_validation import Rejected, check_key, load_schemas, parse_body
from tests.model_server.server_script import Refuse

MESSAGES, BATCHES, FILES = "/v1/messages/batches", "/v1/batches", "/v1/files"
DONE = ("succeeded", "errored", "canceled", "expired")

_SCHEMAS = load_schemas("batches")
_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class BatchPlan(Struct, frozen=True, kw_only=True):
    """How a batch goes.

    Attributes:
        polls: how often it is asked for before it has ended; None: it never ends.
        fates: position → ``canceled``, ``expired`` or ``lost`` (not in the results).
        refusals: sent to the first attempts to create it.
        lose_reply: it is created, and the connection ends before its id is sent.
        cut: how many downloads of its results end in the middle of a line.
        gone: the batch is deleted: "batch", or only its "results".
        failed: OpenAI: the error with which its validation fails.
    """

    polls: int | None = 1
    fates: Mapping[int, str] = field(default_factory=dict)
    refusals: tuple[Refuse, ...] = ()
    lose_reply: bool = False
    cut: int = 0
    gone: str = ""
    failed: str = ""


class Reply(Struct, frozen=True):
    """A reply of one of these APIs: a document, or the lines of a file."""

    status: int
    document: Json = None
    lines: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    lost: bool = False


class Batch(Struct):
    """A batch that was sent."""

    id: str
    plan: BatchPlan
    items: Sequence[tuple[str, dict[str, Json]]]
    at: datetime
    metadata: Json = None
    asked: int = 0
    results: dict[str, tuple[str, int, Json]] | None = None
    cut: int = 0

    @property
    def ended(self) -> bool:
        return self.results is not None


Answer = Callable[[str, Mapping[str, str], dict[str, Json]], Awaitable[tuple[int, Json]]]
"""A path, headers and the body of a single request → status and document."""


class BatchApis:
    """The batches of a server.

    Attributes:
        plans: of the next batches; without one, a batch goes well.
        sent: all batches, in order.
    """

    def __init__(self, key: str, answer: Answer) -> None:
        self._key, self._answer = key, answer
        self.plans: list[BatchPlan] = []
        self.sent: list[Batch] = []
        self.refused = 0
        self._files: dict[str, bytes] = {}

    def serves(self, path: str) -> bool:
        """Whether a path belongs to one of these APIs."""
        return path.startswith((MESSAGES, BATCHES, FILES))

    async def handle(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> Reply:
        """Answer a request.

        Raises:
            Rejected: with the service's status and message.
        """
        path, _, query = target.partition("?")
        anthropic = path.startswith(MESSAGES)
        check_key(headers, self._key, also="x-api-key" if anthropic else "")
        if anthropic and "anthropic-version" not in headers:
            raise Rejected("anthropic-version: header is required")
        root = next(one for one in (MESSAGES, BATCHES, FILES) if path.startswith(one))
        match method, path.removeprefix(root).strip("/").split("/"):
            case "POST", [""] if root == FILES:
                return self._upload(headers, body)
            case "POST", [""]:
                return self._create(anthropic, parse_body(headers, body))
            case "GET", [""] if root != FILES:
                return Reply(200, self._list(anthropic, parse_qs(query)))
            case "GET", [name] if root != FILES:
                batch = self._batch(name)
                await self._advance(anthropic, batch, headers)
                return Reply(200, self._show(anthropic, batch))
            case "GET", [name, "results" | "content"]:
                return self._download(anthropic, name)
        raise Rejected(f"no route {method} {path}", 404)

    def _plan(self) -> BatchPlan:
        return self.plans[0] if self.plans else BatchPlan()

    def _create(self, anthropic: bool, body: dict[str, Json]) -> Reply:
        plan = self._plan()
        if self.refused < len(plan.refusals):
            refusal = plan.refusals[self.refused]
            self.refused += 1
            error = {"message": refusal.message, "type": "rate_limit_error"}
            document = {"type": "error", "error": error}
            return Reply(refusal.status, document, headers=refusal.headers)
        items = self._read_messages(body) if anthropic else self._read_file(body)
        if len({name for name, _ in items}) < len(items):
            raise Rejected("requests: custom_id must be unique")
        for name, one in items:
            if not _CUSTOM_ID.fullmatch(name) or "stream" in one:
                raise Rejected("requests: invalid custom_id, or stream is not supported")
        self.plans, self.refused = self.plans[1:], 0
        name = f"{'msgbatch' if anthropic else 'batch'}_{len(self.sent) + 1:04}"
        now = datetime.now(UTC)
        batch = Batch(name, plan, items, now, body.get("metadata"), cut=plan.cut)
        self.sent.append(batch)
        return Reply(200, self._show(anthropic, batch), lost=plan.lose_reply)

    def _read_messages(self, body: dict[str, Json]) -> list[tuple[str, dict[str, Json]]]:
        if errors := _SCHEMAS["messages"](body):
            raise Rejected(errors[0])
        return [(row["custom_id"], row["params"]) for row in body["requests"]]

    def _read_file(self, body: dict[str, Json]) -> list[tuple[str, dict[str, Json]]]:
        if errors := _SCHEMAS["create"](body):
            raise Rejected(errors[0])
        if body["input_file_id"] not in self._files:
            raise Rejected("No such File object", 404)
        rows = [json.loads(line) for line in self._files[body["input_file_id"]].splitlines()]
        for row in rows:
            if errors := _SCHEMAS["line"](row):
                raise Rejected(errors[0])
        if len({row["body"]["model"] for row in rows}) != 1:
            raise Rejected("a batch holds requests of one model")
        return [(row["custom_id"], row["body"]) for row in rows]

    def _upload(self, headers: Mapping[str, str], body: bytes) -> Reply:
        form = f"content-type: {headers['content-type']}\r\n\r\n".encode() + body
        parts: Any = BytesParser().parsebytes(form).get_payload()
        fields = {part.get_param("name", header="content-disposition"): part for part in parts}
        if fields.keys() != {"purpose", "file"} or not fields["file"].get_filename():
            raise Rejected("file and purpose are required")
        if fields["purpose"].get_payload() != "batch":
            raise Rejected("purpose: must be batch")
        name = f"file-{len(self._files) + 1:04}"
        self._files[name] = fields["file"].get_payload(decode=True)
        size = len(self._files[name])
        shown = {"id": name, "object": "file", "bytes": size, "created_at": 0, "filename": "f",
                 "purpose": "batch", "status": "processed"}  # fmt: skip
        return Reply(200, shown)

    def _batch(self, name: str) -> Batch:
        found = [batch for batch in self.sent if batch.id == name]
        if not found or found[0].plan.gone == "batch":
            raise Rejected(f"No batch found with id {name}", 404)
        return found[0]

    async def _advance(self, anthropic: bool, batch: Batch, headers: Mapping[str, str]) -> None:
        batch.asked += 1
        polls = batch.plan.polls
        if batch.ended or polls is None or batch.asked <= polls:
            return
        results: dict[str, tuple[str, int, Json]] = {}
        path = "/v1/messages" if anthropic else "/v1/responses"
        if not batch.plan.failed:
            for at, (name, body) in enumerate(batch.items):
                fate = batch.plan.fates.get(at, "")
                if fate in {"canceled", "expired"}:
                    results[name] = (fate, 0, None)
                    continue
                status, document = await self._answer(path, headers, body)
                if fate != "lost":
                    done = "succeeded" if status == 200 else "errored"
                    results[name] = (done, status, document)
        batch.results = results

    def _list(self, anthropic: bool, query: Mapping[str, list[str]]) -> Json:
        """Newest first, by pages of two."""
        shown = [one for one in reversed(self.sent) if one.plan.gone != "batch"]
        after = query.get("after_id" if anthropic else "after", [""])[0]
        names = [batch.id for batch in shown]
        begin = names.index(after) + 1 if after else 0
        page = [self._show(anthropic, batch) for batch in shown[begin : begin + 2]]
        ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {}
        more = {} if anthropic else {"object": "list"}
        return {"data": page, "has_more": begin + 2 < len(shown), **ends, **more}

    def _show(self, anthropic: bool, batch: Batch) -> Json:
        kinds = [kind for kind, _, _ in (batch.results or {}).values()]
        counts = {kind: kinds.count(kind) for kind in DONE}
        if anthropic:
            open_ = 0 if batch.ended else len(batch.items)
            url = f"https://elsewhere.invalid{MESSAGES}/{batch.id}/results"
            when = batch.at.isoformat()
            return {
                "id": batch.id, "type": "message_batch", "created_at": when, "expires_at": when,
                "processing_status": "ended" if batch.ended else "in_progress",
                "request_counts": {**counts, "processing": open_},
                "results_url": url if batch.ended else None,
                "archived_at": None, "cancel_initiated_at": None,
                "ended_at": when if batch.ended else None,
            }  # fmt: skip
        failed = counts["errored"] + counts["expired"] + counts["canceled"]
        fates = set(batch.plan.fates.values())
        ended = next((x for x in ("expired", "cancelled") if x.replace("ll", "l") in fates), "")
        ended = "failed" if batch.plan.failed else ended or "completed"
        done = {kind for kind in kinds if kind != "succeeded"}
        errors = [{"code": batch.plan.failed, "message": "the file is invalid", "line": 1}]
        return {
            "id": batch.id, "object": "batch", "endpoint": "/v1/responses",
            "created_at": int(batch.at.timestamp()), "completion_window": "24h",
            "input_file_id": "file-0001", "status": ended if batch.ended else "in_progress",
            "output_file_id": f"out-{batch.id}" if "succeeded" in kinds else None,
            "error_file_id": f"err-{batch.id}" if done else None,
            "errors": {"object": "list", "data": errors} if batch.plan.failed else None,
            "metadata": batch.metadata,
            "request_counts": {"total": len(batch.items), "completed": counts["succeeded"],
                               "failed": failed},
        }  # fmt: skip

    def _download(self, anthropic: bool, name: str) -> Reply:
        kind, _, id_ = ("", "", name) if anthropic else name.partition("-")
        batch = self._batch(id_)
        if batch.results is None or batch.plan.gone == "results":
            raise Rejected("the results are not available", 404)
        rows = [("not-asked-for", next(iter(batch.results.values())))]
        rows += reversed(batch.results.items())
        if kind:
            rows = [row for row in rows if (row[1][0] == "succeeded") == (kind == "out")]
        make = _message_row if anthropic else _response_row
        data = "".join(json.dumps(make(*row)) + "\n" for row in rows).encode()
        if batch.cut:
            batch.cut -= 1
            data = data[: len(data) * 2 // 3]
        return Reply(200, lines=data)


def _message_row(name: str, result: tuple[str, int, Json]) -> Json:
    kind, _, document = result
    held = {"succeeded": "message", "errored": "error"}.get(kind)
    return {"custom_id": name, "result": {"type": kind, **({held: document} if held else {})}}


def _response_row(name: str, result: tuple[str, int, Json]) -> Json:
    kind, status, document = result
    row: dict[str, Json] = {"id": f"batch_req_{name}", "custom_id": name, "response": None}
    if status:
        answered = {"status_code": status, "request_id": "r", "body": document}
        return {**row, "response": answered, "error": None}
    code = {"expired": "batch_expired", "canceled": "batch_cancelled"}[kind]
    return {**row, "error": {"code": code, "message": "This request was not executed."}}
