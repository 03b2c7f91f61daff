"""Requests in batches, at a part of their price: Anthropic's Message Batches, OpenAI's Batch.

    requests that wait  →  noted, then sent as one batch  →  polled  →  each request's answer

A request is known by the key of its effect. So a session that is started again finds the batch of
each in the journal, or at the provider where the last one ended before it knew the batch's id:
nothing is sent twice. Requests without an answer are sent again, in a smaller batch.
"""

import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from urllib.parse import quote

import anyio
from msgspec import Struct, field

from orchestrator.engine.canonical_json import digest
from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.trace_context import PERFORMED
from orchestrator.engine.types import Json
from orchestrator.errors import InputError, ModelError, ModelUnavailable, ProviderRefused
from orchestrator.providers.api_model import ApiModel, read_all
from orchestrator.providers.provider_errors import ReportedError, TransientError
from orchestrator.providers.reply_normalization import InvalidReplyError, printable_name

QUIET_SECONDS = 2.0
"""Requests share a batch if no more than this is between them."""

POLL_SECONDS, CALL_SECONDS = 30.0, 600.0
DAY_SECONDS, OVERTIME_SECONDS, CLOCK_SKEW = 24 * 3_600, 3_600, 600
"""Providers answer a batch within a day or let it expire, and keep the answers for longer."""

MAX_REQUESTS, MAX_RESULT_BYTES = 2_000, 500_000_000
READS = 3
"""How often results that lack answers are read: a download can be cut off."""

BATCH = "batch"
"""Topic of the notes of batches: what each holds, and its id once it is sent."""

OPEN = "a batch of an earlier command is open: elsewhere or without --batch, it is paid for again"

_RESPONSES = "/v1/responses"
_ENDED = frozenset({"ended", "completed", "failed", "expired", "cancelled"})
_EXPIRED = frozenset({"expired", "batch_expired"})
_CANCELED = frozenset({"canceled", "cancelled", "batch_cancelled"})
_COUNTED = ("succeeded", "errored", "canceled", "expired", "completed", "failed")

Answer = dict[str, Any] | Exception


class _Waiting(Struct, eq=False):
    """A request that waits for its answer."""

    id: str
    body: dict[str, Any]
    answer: Answer | None = None
    answered: anyio.Event = field(default_factory=anyio.Event)


class Batches:
    """Sends a model's requests in batches. Use ``open_batches``.

    Args:
        observe: called with what is waited for, in words.
    """

    def __init__(self, model: ApiModel, journal: Journal, observe: Callable[[str], None]) -> None:
        if model.provider.api == "chat":
            raise InputError(f"{model.name} has no batches; leave out --batch")
        self._model, self._journal, self._observe = model, journal, observe
        self._anthropic = model.provider.api == "messages"
        self._api = model.client.messages.batches if self._anthropic else model.client.batches
        # Of two gateways on one host, each knows its own batches alone.
        self._server = f"{model.name} {model.client.base_url.copy_with(userinfo=b'', query=None)}"
        self._waiting: list[_Waiting] = []
        self._arrived = anyio.Event()
        self._batch_of: dict[str, int] = {}
        self._sending = anyio.Lock()
        self._batches = 0
        while note := journal.noted(Key(BATCH, number=self._batches + 1)):
            self._batches += 1
            if note["server"] == self._server:
                self._batch_of |= dict.fromkeys(note["requests"], self._batches)
        self._earlier = self._batches

    async def ask(self, body: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request.

        Raises:
            ReportedError, InvalidReplyError, TransientError, ModelError: there is none.
            ProviderRefused: the batch cannot be sent or read now; the request stays open.
        """
        performed = PERFORMED.get()
        assert performed is not None, "a request in a batch belongs to an effect"
        body.pop("stream", None)
        one = _Waiting(digest([self._journal.run_id, performed[1]])[:40], body)
        self._waiting.append(one)
        self._arrived.set()
        await one.answered.wait()
        assert one.answer is not None
        if isinstance(one.answer, Exception):
            raise one.answer
        return one.answer

    async def run(self) -> None:
        """Send what waits, until cancelled."""
        async with task_group() as group:
            while True:
                await self._arrived.wait()
                seen = 0
                while seen != len(self._waiting):
                    seen = len(self._waiting)
                    await anyio.sleep(QUIET_SECONDS)
                taken, self._waiting, self._arrived = self._waiting, [], anyio.Event()
                for number, own in self._divide(taken).items():
                    group.start_soon(self._settle, number, own)

    def _divide(self, requests: list[_Waiting]) -> dict[int, list[_Waiting]]:
        """The requests by number of batch; new batches are noted."""
        parts: defaultdict[int, list[_Waiting]] = defaultdict(list)
        for one in requests:
            parts[self._batch_of.get(one.id, 0)].append(one)
        new = parts.pop(0, [])
        for start in range(0, len(new), MAX_REQUESTS):
            self._batches += 1
            own = parts[self._batches] = new[start : start + MAX_REQUESTS]
            ids, now = [one.id for one in own], time.time()
            name = digest([self._journal.run_id, self._batches, now])[:32]
            note = {"server": self._server, "at": now, "name": name, "requests": ids}
            self._journal.note(Key(BATCH, number=self._batches), note)
            self._batch_of |= dict.fromkeys(ids, self._batches)
        return parts

    async def _settle(self, number: int, requests: list[_Waiting]) -> None:
        """Send or find a batch, wait for it, and pass on the answers."""
        answers: Mapping[str, Answer]
        try:
            async with self._sending:  # so at most one is sent, and its id not known, at a kill
                note = await self._send(number, requests)
            answers = await self._collect(note)
            self._journal.renew_note(Key(BATCH, number=number), {**note, "read": True})
        except (ModelError, ProviderRefused) as error:
            again = "; run the same command again to go on: nothing is sent or paid for twice"
            refused = ProviderRefused(f"{error}{again if isinstance(error, ModelError) else ''}")
            answers = dict.fromkeys((one.id for one in requests), refused)
        for one in requests:
            left_out = TransientError("its batch was sent without it", server_down=False)
            one.answer = answers.get(one.id, left_out)
            if isinstance(one.answer, Exception):
                del self._batch_of[one.id]
            one.answered.set()

    async def _send(self, number: int, requests: list[_Waiting]) -> Mapping[str, Json]:
        """The note of a batch with its id; it is sent unless the provider has it."""
        key, bodies = Key(BATCH, number=number), {one.id: one.body for one in requests}
        note = dict(self._journal.noted(key) or {})
        # By a session that ended, or by an attempt whose reply was lost.
        perhaps_sent = number <= self._earlier

        async def attempt() -> str:
            nonlocal perhaps_sent
            if perhaps_sent and (found := await self._find(note)):
                return found
            note["requests"], perhaps_sent = list(bodies), True
            self._journal.renew_note(key, note)
            await self._journal.flush()
            return printable_name((await self._create(str(note["name"]), bodies)).id)

        if "id" not in note:
            note["id"] = await self._model.call(attempt, CALL_SECONDS)
            if note["id"] is None:
                raise ProviderRefused(f"{self._server} serves no batches; leave out --batch")
            self._journal.renew_note(key, note)
            await self._journal.flush()
        return note

    async def _create(self, name: str, bodies: Mapping[str, dict[str, Any]]) -> Any:
        if self._anthropic:
            rows = [{"custom_id": id_, "params": body} for id_, body in bodies.items()]
            return await self._api.create(requests=(), extra_body={"requests": rows})
        call = {"method": "POST", "url": _RESPONSES}
        lines = [json.dumps({"custom_id": i, **call, "body": body}) for i, body in bodies.items()]
        upload = (f"{name}.jsonl", "\n".join(lines).encode())
        file = await self._model.client.files.create(file=upload, purpose="batch")
        form = {"input_file_id": file.id, "endpoint": _RESPONSES, "completion_window": "24h"}
        return await self._api.create(**form, metadata={"diffcourt": name})

    async def _find(self, note: Mapping[str, Json]) -> str:
        """The id of a batch that may have been sent before; empty if it was not."""
        notes = self._journal.notes(BATCH).values()
        known = {one.get("id") for one in notes if one["server"] == self._server}
        async for batch in self._api.list(limit=100):
            created, ours = batch.created_at, False
            at = created.timestamp() if isinstance(created, datetime) else created
            if at < note["at"] - CLOCK_SKEW:
                break
            if self._anthropic:  # has no names; by a stranger's batch the answers would be missing
                counts = batch.request_counts.to_dict()
                ours = sum(counts.values()) == len(note["requests"])
            elif batch.metadata:
                ours = batch.metadata.get("diffcourt") == note["name"]
            if ours and batch.id not in known:
                return printable_name(batch.id)
        return ""

    async def _collect(self, note: Mapping[str, Json]) -> Mapping[str, Answer]:
        """Wait until a batch has ended, and read an answer to each of its requests."""
        id_, wanted, reads = str(note["id"]), note["requests"], 0
        while True:
            age = time.time() - note["at"]
            try:
                polled = await self._model.call(lambda: self._poll(id_), CALL_SECONDS)
            except ModelUnavailable as error:
                state = str(error)
            else:
                if polled is None and age < DAY_SECONDS:
                    raise ProviderRefused(
                        f"{self._server} does not know the batch {id_}, which was sent to it: "
                        "use a key of the same account, or pay again with another --round"
                    )
                if polled is None:
                    gone = TransientError(f"the results of the batch {id_} are gone", lost=True)
                    return dict.fromkeys(wanted, gone)
                (batch, found), counts = polled, polled[0].get("request_counts") or {}
                done = sum(counts.get(name, 0) for name in _COUNTED)
                state, reads = f"{done:,} of {len(wanted):,} answered", reads + (found is not None)
                if found is not None and (reads == READS or found.keys() >= set(wanted)):
                    return dict.fromkeys(wanted, _why_missing(batch)) | found
            if age > DAY_SECONDS + OVERTIME_SECONDS:
                raise ModelError(f"the batch {id_} has not ended within a day ({state})")
            self._observe(f"batch {id_}: {state}")
            await anyio.sleep(POLL_SECONDS)

    async def _poll(self, id_: str) -> tuple[dict[str, Any], dict[str, Answer] | None]:
        """A batch, and the answers by request once it has ended."""
        batch = (await self._api.retrieve(id_)).to_dict(mode="json")
        if batch.get("processing_status", batch.get("status")) not in _ENDED:
            return batch, None
        if self._anthropic:  # not its results_url, which behind a gateway is another server's
            return batch, await self._read(f"/v1/messages/batches/{quote(id_, safe='')}/results")
        found = dict[str, Answer]()
        for file in filter(None, (batch.get("output_file_id"), batch.get("error_file_id"))):
            found |= await self._read(f"/files/{quote(file, safe='')}/content")
        return batch, found

    async def _read(self, path: str) -> dict[str, Answer]:
        """The answers in a file of results, by request; lines that are cut off are left out."""
        raw, found = {"headers": {"X-Stainless-Raw-Response": "stream"}}, dict[str, Answer]()
        response = await self._model.client.get(path, cast_to=object, options=raw)
        try:
            data = await read_all(response.iter_bytes(), MAX_RESULT_BYTES)
        finally:
            await response.close()
        for line in data.splitlines():
            try:
                row = json.loads(line)
                found.setdefault(row["custom_id"], _read_answer(row))
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
        return found


def _read_answer(row: Mapping[str, Json]) -> Answer:
    match row:
        case {"result": {"type": "succeeded", "message": dict(body)}} | {
            "response": {"status_code": 200, "body": dict(body)}
        }:
            return body
        case {"response": {"status_code": int(status), "body": {"error": dict(error)}}}:
            return ReportedError({"error": {**error, "status": status}}, lost=False)
        case {"result": {"type": str(kind)}} | {"error": {"code": str(kind)}} if kind in _EXPIRED:
            return TransientError("its batch expired before it was answered", server_down=False)
        case {"result": {"type": str(kind)}} | {"error": {"code": str(kind)}} if kind in _CANCELED:
            return ModelError("its batch was canceled at the provider", billed=False)
        case {"result": {"type": "errored", "error": dict(error)}} | {"error": dict(error)}:
            return ReportedError({"error": error}, lost=False)
    return InvalidReplyError("a result of a batch has no known type")


def _why_missing(batch: Mapping[str, Json]) -> Exception:
    """Why an ended batch has no answer to one of its requests."""
    status, errors = batch.get("status"), (batch.get("errors") or {}).get("data") or [{}]
    if status in _EXPIRED | _CANCELED | {"failed"}:
        failed = errors[0] if status == "failed" else {"code": status}
        answer = _read_answer({"error": failed})
        assert isinstance(answer, Exception)
        return answer
    return TransientError("its answer is not in the batch's results", lost=True)


def note_open_batch(journal: Journal) -> tuple[str, ...]:
    """A note if an earlier command has sent a batch that was not read to its end."""
    notes, since = journal.notes(BATCH).values(), time.time() - DAY_SECONDS
    return (OPEN,) if any(one["at"] > since and "read" not in one for one in notes) else ()


@asynccontextmanager
async def open_batches(
    model: ApiModel, journal: Journal, observe: Callable[[str], None]
) -> AsyncIterator[ApiModel]:
    """The model, with its requests sent in batches.

    Raises:
        InputError: its provider has no batches.
    """
    model.batches = Batches(model, journal, observe)
    async with task_group() as group:
        group.start_soon(model.batches.run)
        yield model
        group.cancel_scope.cancel()
