"""One run in full for a page: its verdict, its record, single calls, and its journal verified."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct

from orchestrator.app.audit.signing_keys import load_verification_keys
from orchestrator.app.process_secrets import make_redactor
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.run_index import RunSummary, describe_damage, summarize
from orchestrator.app.runs.run_record import RunRecord, Span, read_record
from orchestrator.app.runs.stored_runs import parse_verdict
from orchestrator.app.runs.verdict_recording import VERDICT, is_waiting_verdict
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.journal_verification import VerificationResult, verify_journal
from orchestrator.engine.ports import Row
from orchestrator.engine.secret_redaction import Redactor
from orchestrator.errors import DiffcourtError, InputError
from orchestrator.stores.base import RunStore

MOST_CHARACTERS = 60_000
"""Of one text of a call; of a longer one, its beginning."""

OPENING = (
    "What the author says, base's guidance, the files, what analyzers found, the diff, and the "
    "agent's role. The journal has these by their digest only, as a part of the conversation's."
)
"""Of a call whose role does not stand in its system prompt."""


class RunDetails(Struct, kw_only=True, eq=False):
    """One run, read once.

    Attributes:
        verdict: the final one, or what a waiting run had come to; None while there is none.
        record: what the journal tells.
        problem: why verdict and record are not all that there is; empty where they are.
    """

    summary: RunSummary
    verdict: Verdict | None
    record: RunRecord
    rows: Sequence[Row]
    problem: str = ""


class Passage(Struct, frozen=True):
    """A part of what a call was sent or gave.

    Attributes:
        title: what it is.
        kind: ``text``, ``json``, ``call``, ``result``, or ``note`` for what is not kept.
        cut: characters that are left out.
    """

    title: str
    text: str
    kind: str = "text"
    cut: int = 0


class CallDetails(Struct, frozen=True, kw_only=True):
    """One call: what was sent, and what came of it; our own secrets are left out."""

    span: Span
    sent: Sequence[Passage]
    seen: Sequence[Passage]
    usage: Mapping[str, Any]


def load_details(repo: Path, name: str) -> RunDetails:
    """Load a run by its id, a unique prefix of it, or ``latest``.

    Raises:
        RunNotFound: the repository has none of that name.
    """
    with state_directory.open_store(state_directory.state_dir(repo), repo) as store:
        return anyio.run(_load, store, repo, name)


async def _load(store: RunStore, repo: Path, name: str) -> RunDetails:
    run = state_directory.find_run(name, await store.runs())
    run_id, rows = run.run_id, await store.rows(run.run_id)
    record, verdict, problem = RunRecord(run_id=run_id), None, ""
    try:
        record, verdict = read_record(run_id, rows), _read_verdict(rows)
    except (ValueError, KeyError, TypeError, AttributeError, DiffcourtError) as error:
        problem = describe_damage(run_id, error)
    return RunDetails(
        summary=await summarize(store, repo, run),
        verdict=verdict,
        record=record,
        rows=rows,
        problem=problem,
    )


def _read_verdict(rows: Sequence[Row]) -> Verdict | None:
    """The final verdict, or the last partial one."""
    found = [row for row in rows if row.kind == "note" and row.key == VERDICT]
    found = found or [row for row in rows if is_waiting_verdict(row)]
    return parse_verdict(found[-1]) if found else None


@lru_cache(maxsize=8)
def verify_rows(found: RunDetails) -> VerificationResult:
    """Verify the hash chain of a run, and its signatures by the environment's key."""
    keys = load_verification_keys(os.environ, ())
    return verify_journal(found.summary.run_id, found.rows, None, keys)


def describe_call(found: RunDetails, row: int) -> CallDetails:
    """What a call was sent and what came of it.

    Args:
        row: the number of the row with which it began.

    Raises:
        InputError: no call began there.
    """
    span = next((span for span in found.record.spans if span.row == row), None)
    if span is None:
        raise InputError(f"no call began at row {row} of {found.summary.run_id}")
    reader = _CallReader(found)
    ended = reader.body(span.ended_row)
    value = ended.get("value")
    return CallDetails(
        span=span,
        sent=tuple(reader.sent(span)),
        seen=tuple(reader.seen(ended)),
        usage=value.get("usage", {}) if isinstance(value, dict) else {},
    )


class _CallReader:
    """Looks rows up for the description of a call."""

    def __init__(self, found: RunDetails) -> None:
        self._rows, self._spans = found.rows, found.record.spans
        self._redact: Redactor = make_redactor(os.environ)
        self._data = {row.key: row for row in found.rows if row.kind == "data"}

    def body(self, number: int) -> dict[str, Any]:
        """The body of a row; empty where there is none."""
        if not 0 < number <= len(self._rows):
            return {}
        loaded: dict[str, Any] = self._redact.json(json.loads(self._rows[number - 1].body))
        return loaded

    def sent(self, span: Span) -> Iterator[Passage]:
        """What was asked: each part that is kept by its digest, then the conversation."""
        asked = self.body(span.row).get("asked")
        asked = asked if isinstance(asked, dict) else {}
        if span.kind == "tool":
            yield self._passage("Arguments", asked.get("arguments"))
            return
        if span.kind == "question":
            yield self._passage("Question", str(asked.get("question", "")))
            return
        for name, value in asked.items():
            if isinstance(value, str) and value in self._data:
                yield from self._kept(name, value)
        if span.kind == "model":
            if not self._has_role(asked.get("system")):
                yield Passage("Opening, shared by all agents, and the role", OPENING, "note")
            yield from self._conversation(span)

    def _has_role(self, system: object) -> bool:
        """Whether the agent's role stands in its system prompt, and not behind an opening."""
        row = self._data.get(str(system))
        sections = json.loads(row.body)["value"] if row else ()
        return any(section.get("kind") == "role" for section in sections)

    def _kept(self, name: str, digest: str) -> Iterator[Passage]:
        value = self._redact.json(json.loads(self._data[digest].body)["value"])
        if name == "system" and isinstance(value, list):
            for section in value:
                title = f"{section.get('kind', 'system')}: {section.get('name', '')}"
                yield self._passage(f"System prompt, {title}", section.get("text", ""))
        elif name == "tools" and isinstance(value, list):
            listed = "\n".join(f"{tool[0]}: {tool[1]}" for tool in value)
            yield self._passage(f"{len(value)} tools", listed)
        else:
            yield self._passage(name.capitalize(), value)

    def _conversation(self, span: Span) -> Iterator[Passage]:
        """The brief, then earlier turns of the same attempt as they were answered."""
        turn, attempt = Key.parse(span.key).turn, Key.parse(span.key).attempt
        task = next((one for one in self._spans if one.key == span.task), None)
        brief = (self.body(task.row).get("asked") or {}).get("brief", "") if task else ""
        if brief in self._data:
            yield from self._kept("brief", brief)
        for one in self._spans:
            key = Key.parse(one.key)
            if one.task == span.task and key.attempt == attempt and 0 < key.turn < turn:
                if one.kind == "tool":
                    value = self.body(one.ended_row).get("value") or {}
                    title = f"Turn {key.turn}, result of {one.name}"
                    yield self._passage(title, value.get("content", one.outcome), "result")
                elif one.kind == "model":
                    for passage in self.seen(self.body(one.ended_row)):
                        yield Passage(
                            f"Turn {key.turn}, {passage.title[:1].lower()}{passage.title[1:]}",
                            passage.text,
                            passage.kind,
                            passage.cut,
                        )

    def seen(self, ended: Mapping[str, Any]) -> Iterator[Passage]:
        """What came of a call."""
        if "error" in ended:
            words = ended.get("reason") or ended.get("message") or ""
            yield self._passage(str(ended.get("code") or ended["error"]), words)
            return
        value = ended.get("value")
        if not isinstance(value, dict):
            if value is not None:
                yield self._passage("Value", value)
            return
        for block in value.get("blocks") or ():
            if block.get("type") == "tool_call":
                arguments = block.get("arguments")
                yield self._passage(f"Calls {block.get('name')}", arguments, "call")
            elif "text" in block:
                yield self._passage("Answer", block["text"])
            else:
                yield self._passage("Reasoning", block.get("payload"))
        if "content" in value:
            yield self._passage("Shown to the model", value["content"], "result")
        for name in ("data", "report", "warnings", "answer", "detail"):
            if value.get(name):
                yield self._passage(name.capitalize(), value[name])

    def _passage(self, title: str, value: Any, kind: str = "") -> Passage:
        text = _pretty(value)
        shape = "text" if isinstance(value, str) and text == value else "json"
        return Passage(
            title, text[:MOST_CHARACTERS], kind or shape, max(len(text) - MOST_CHARACTERS, 0)
        )


def _pretty(value: Any) -> str:
    """A value as text; JSON, also within a frame of untrusted text, with its lines broken."""
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
