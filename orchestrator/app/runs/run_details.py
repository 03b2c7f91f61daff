"""One run in full for a page: verdict, record, single calls, and verification of the journal."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct

from orchestrator.app.audit.signing_keys import load_verification_keys
from orchestrator.app.process_secrets import make_redactor
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.run_index import RunSummary, summarize
from orchestrator.app.runs.run_record import EffectSpan, RunRecord, read_record
from orchestrator.app.runs.stored_runs import parse_verdict
from orchestrator.app.runs.verdict_recording import is_final_verdict, is_waiting_verdict, last_row
from orchestrator.app.types import DAMAGE, describe_damage
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.data_directories import read_table
from orchestrator.engine.context_compaction import Omission
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.journal_rows import read_fields
from orchestrator.engine.journal_verification import VerificationResult, verify_journal
from orchestrator.engine.ports import Row
from orchestrator.engine.recorded_conversations import RecordedConversations
from orchestrator.engine.secret_redaction import Redactor
from orchestrator.engine.types import Block, Opaque, ToolCall, ToolResult
from orchestrator.errors import DiffcourtError, InputError
from orchestrator.stores.sql_store import RunStore
from orchestrator.wording import count_noun

MAX_CHARACTERS = 200_000
"""Of one text of a call; of a longer one, its beginning. An opening as shipped has fewer."""

SHORT = 3_000
"""Characters of a text that is shown unfolded where it is new to a call."""

TEXT_TITLES: Mapping[str, str] = read_table(__file__, "text_titles.yaml")
"""What code said, by its kind in the journal → its title."""


class RunDetails(Struct, kw_only=True, eq=False):
    """One run, read once.

    Attributes:
        verdict: the final one, or the partial one of a waiting run; may be None.
        record: the record that is read from the journal.
        problem: why verdict and record are incomplete; empty if they are not.
    """

    summary: RunSummary
    verdict: Verdict | None
    record: RunRecord
    rows: Sequence[Row]
    problem: str = ""


class Passage(Struct, frozen=True):
    """A part of a call's request or result.

    Attributes:
        kind: ``text``, ``json``, ``answer``, ``call``, ``result``, or ``note`` for a remark on the
            others.
        cut: number of characters that are left out.
        new: whether it is short and was not sent in an earlier call of the agent.
    """

    title: str
    text: str
    kind: str = "text"
    cut: int = 0
    new: bool = False


class CallDetails(Struct, frozen=True, kw_only=True):
    """One call: its request and its result, without our own secrets."""

    span: EffectSpan
    sent: Sequence[Passage]
    seen: Sequence[Passage]
    usage: Mapping[str, Any]


def load_details(repo: Path, name: str) -> RunDetails:
    """Load a run by its id, a unique prefix of it, or ``latest``."""
    with state_directory.open_store(repo) as store:
        return anyio.run(_load, store, repo, name)


async def _load(store: RunStore, repo: Path, name: str) -> RunDetails:
    run = state_directory.find_run(name, await store.runs())
    run_id, rows = run.run_id, await store.rows(run.run_id)
    record, verdict, problem = RunRecord(run_id=run_id), None, ""
    try:
        row = last_row(rows, is_final_verdict) or last_row(rows, is_waiting_verdict)
        record, verdict = read_record(run_id, rows), parse_verdict(row) if row else None
    except (*DAMAGE, DiffcourtError) as error:
        problem = describe_damage(run_id, error)
    return RunDetails(
        summary=await summarize(store, repo, run),
        verdict=verdict,
        record=record,
        rows=rows,
        problem=problem,
    )


@lru_cache(maxsize=8)
def verify_rows(found: RunDetails) -> VerificationResult:
    """Verify the hash chain of a run, and its signatures by the environment's key."""
    keys = load_verification_keys(os.environ, ())
    return verify_journal(found.summary.run_id, found.rows, None, keys)


def describe_call(found: RunDetails, row: int) -> CallDetails:
    """A call's request and result.

    Raises:
        InputError: no call began there.
    """
    span = next((span for span in found.record.spans if span.row == row), None)
    if span is None:
        raise InputError(f"no call began at row {row} of {found.summary.run_id}")
    return _CallReader(found).describe(span)


def describe_calls(found: RunDetails) -> Iterator[CallDetails]:
    """Each call of a model and of a tool, in the order in which they began."""
    reader = _CallReader(found)
    for span in found.record.spans:
        if span.kind in {"model", "tool"}:
            yield reader.describe(span)


class _CallReader:
    """Reads rows for the descriptions of calls."""

    def __init__(self, found: RunDetails) -> None:
        self._rows, self._rulings = found.rows, found.record.rulings
        self._redact: Redactor = make_redactor(os.environ)
        self._conversations = RecordedConversations()
        for row in found.rows:
            self._conversations.read(row)

    def describe(self, span: EffectSpan) -> CallDetails:
        """A call's request and result."""
        ended = self._body(span.ended_row)
        value = ended.get("value")
        return CallDetails(
            span=span,
            sent=tuple(self._sent(span)),
            seen=tuple(self._seen(ended)),
            usage=value.get("usage", {}) if isinstance(value, dict) else {},
        )

    def _body(self, number: int) -> dict[str, Any]:
        """The body of a row; empty if there is none, or it cannot be read."""
        if 0 < number <= len(self._rows):
            with suppress(ValueError):
                loaded: dict[str, Any] = self._redact.json(read_fields(self._rows[number - 1].body))
                return loaded
        return {}

    def _sent(self, span: EffectSpan) -> Iterator[Passage]:
        """The request: each part that is kept by its digest, then the conversation."""
        body = self._body(span.row)
        asked = body["asked"] if isinstance(body.get("asked"), dict) else {}
        if span.kind == "tool":
            yield _passage("Arguments", asked.get("arguments"))
            if "effective" in body:
                yield _passage("Performed with", body["effective"])
            return
        if span.kind == "question":
            yield _passage("Question", str(asked.get("question", "")))
            return
        yield from self._kept("system", asked)
        if span.kind == "model":
            yield from self._conversation(span)
        for name in ("brief", "tools", "contract"):
            yield from self._kept(name, asked)

    def _kept(self, name: str, asked: Mapping[str, Any]) -> Iterator[Passage]:
        """A part of a request that is kept by its digest."""
        value = self._redact.json(self._conversations.data(asked.get(name)))
        if value is None:
            return
        if name == "system" and isinstance(value, list):
            for section in value:
                title = f"{section.get('kind', 'system')}: {section.get('name', '')}"
                yield _passage(f"System prompt, {title}", section.get("text", ""))
        elif name == "tools" and isinstance(value, list):
            listed = "\n\n".join(
                f"{tool[0]}: {tool[1]}\n{json.dumps(tool[2], ensure_ascii=False)}" for tool in value
            )
            names = ", ".join(tool[0] for tool in value)
            yield _passage(f"{count_noun(len(value), 'tool')}: {names}", listed)
        else:
            yield _passage({"contract": "Output contract"}.get(name, name.capitalize()), value)

    def _conversation(self, span: EffectSpan) -> Iterator[Passage]:
        """The messages that a model was sent, with remarks."""
        key = Key.parse(span.key)
        try:
            found = self._conversations.sent(key)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            yield Passage("Conversation", f"It cannot be read from the journal: {error}", "note")
            return
        if modified := [*self._modified(span.agent)]:
            title = "Input guards modified texts of this agent; the original texts are shown here"
            yield Passage(title, "\n".join(modified), "note")
        if found.left_out:
            lines = [_describe_omission(turn, it) for turn, it in found.left_out.items()]
            yield Passage("Left out, as the model's window was full", "\n".join(lines), "note")
        for message, turn in zip(found.messages, found.turns, strict=True):
            kinds = found.kinds if message.role == "user" else {}
            for block in message.blocks:
                title, value, kind = _describe_block(block, turn, kinds)
                yield _passage(title, self._redact.json(value), kind, fresh=turn == key.turn)

    def _modified(self, agent: str) -> Iterator[str]:
        for ruling in self._rulings:
            if (ruling.layer, ruling.action, ruling.agent) == ("input", "modify", agent):
                yield f"{ruling.guard}: {ruling.reason} ({ruling.place})"

    def _seen(self, ended: Mapping[str, Any]) -> Iterator[Passage]:
        """What came of a call."""
        if "error" in ended:
            words = ended.get("reason") or ended.get("message") or ""
            yield _passage(str(ended.get("code") or ended["error"]), words)
            return
        value = ended.get("value")
        if not isinstance(value, dict):
            if value is not None:
                yield _passage("Value", value)
            return
        for block in value.get("blocks") or ():
            if block.get("type") == "tool_call":
                yield _passage(f"Calls {block.get('name')}", block.get("arguments"), "call")
            elif "text" in block:
                yield _passage("Answer", block["text"], "answer")
            else:
                yield _passage("Reasoning", block.get("payload"))
        if "content" in value:
            yield _passage("Shown to the model", value["content"], "result")
        for name in ("data", "report", "warnings", "answer", "detail"):
            if value.get(name):
                yield _passage(name.capitalize(), value[name])


def _describe_block(block: Block, turn: int, kinds: Mapping[str, str]) -> tuple[str, Any, str]:
    """Title, content and kind of a part of a conversation."""
    match block:
        case ToolCall(_, name, arguments):
            return f"Turn {turn}, calls {name}", dict(arguments), "call"
        case ToolResult(_, content, _, ref):
            of = Key.parse(ref)
            return f"Turn {of.turn}, result of {of.tool}", content, "result"
        case Opaque():
            return f"Turn {turn}, reasoning", block.payload, ""
    title = TEXT_TITLES.get(kinds.get(block.text, ""))
    if title is None:
        return f"Turn {turn}, answer", block.text, "answer"
    return title if title[0].isupper() else f"Turn {turn}, {title}", block.text, ""


def _describe_omission(turn: int, omission: Omission) -> str:
    parts = []
    if omission.exchanges:
        parts.append(f"the oldest {count_noun(omission.exchanges, 'answer')} and what followed")
    if keys := [Key.parse(key) for key in omission.observations]:
        named = ", ".join(f"{key.tool} (turn {key.turn})" for key in keys)
        parts.append(f"{count_noun(len(keys), 'result')}, each now a line: {named}")
    return f"Before turn {turn}: {'; '.join(parts)}"


def _passage(title: str, value: Any, kind: str = "", *, fresh: bool = False) -> Passage:
    text = _pretty(value)
    shape = "text" if isinstance(value, str) and text == value else "json"
    return Passage(
        title,
        text[:MAX_CHARACTERS],
        kind or shape,
        max(len(text) - MAX_CHARACTERS, 0),
        new=fresh and len(text) <= SHORT,
    )


def _pretty(value: Any) -> str:
    """A value as text; JSON is indented, also in a frame of untrusted text."""
    if not isinstance(value, str):
        return json.dumps(value, indent=2, ensure_ascii=False)
    inner = value
    if value.startswith("<untrusted ") and "\n" in value:
        inner = value.partition("\n")[2].rpartition("\n</untrusted")[0]
    if inner[:1] in {"{", "["}:
        try:
            return json.dumps(json.loads(inner), indent=2, ensure_ascii=False)
        except ValueError:
            return value
    return value
