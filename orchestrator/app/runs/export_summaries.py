"""The files of an export for people: plan, findings, what is left to do, and use of resources."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec
from msgspec import to_builtins

from orchestrator.app.runs.stored_runs import parse_verdict
from orchestrator.app.runs.verdict_recording import is_verdict, last_row
from orchestrator.app.statistics.all_runs import figures_of
from orchestrator.app.statistics.run_facts import read_run
from orchestrator.app.types import is_program_run
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.journal_rows import Outcome, read_row
from orchestrator.engine.ports import Row, RunMeta
from orchestrator.engine.state_machine import recorded_states
from orchestrator.errors import InputError, StoreError

PLAN = "plan.json"


def summary_files(run: RunMeta, rows: Sequence[Row]) -> dict[str, str]:
    """File name → text; files without content are left out."""
    files = {"left.txt": "".join(f"{_plain(line)}\n" for line in _left(rows))}
    try:
        facts = read_run(run, rows)
    except StoreError:  # of another version; its rows are exported nevertheless
        facts = None
    if facts is not None:
        used = to_builtins(figures_of([facts]))
        names = (
            "tasks", "steps", "tool_calls", "model_calls", "input_tokens", "cached_tokens",
            "output_tokens", "usd",
        )  # fmt: skip
        document = {name: used[name] for name in names}
        files["usage.json"] = _json({**document, "usd_by_agent": facts.usd_by_agent})
    if (plan := _last_plan(rows)) is not None:
        files[PLAN] = _json(plan)
    if (verdict := _last_verdict(rows)) is not None:
        names = ("id", "fingerprint", "severity", "state", "rule", "title", "path", "start_line")
        found = [{name: getattr(one, name) for name in names} for one in verdict.findings]
        files["findings.json"] = _json(found)
    return {} if is_program_run(run) else files


def _json(document: object) -> str:
    return json.dumps(document, indent=2) + "\n"


def _plain(line: str) -> str:
    return " ".join(line.split()).encode("unicode_escape").decode()


def _last_plan(rows: Sequence[Row]) -> object:
    for row in reversed(rows):
        key = Key.parse(row.key)
        if key.part == "plan" and key == key.task and isinstance(body := read_row(row), Outcome):
            return msgspec.json.decode(body.result.report)
    return None


def _last_verdict(rows: Sequence[Row]) -> Verdict | None:
    row = last_row(rows, is_verdict)
    with suppress(InputError):  # of another version
        return parse_verdict(row) if row else None
    return None


def _left(rows: Sequence[Row]) -> Iterator[str]:
    """What is left to do, one line each."""
    verdict = _last_verdict(rows)
    if verdict is None:
        yield from _under_way(rows)
        return
    yield verdict.stop.next_human_action
    waiting = (one for one in verdict.questions if not one.answer)
    yield from (f"to answer ({one.name}): {one.question}" for one in waiting)
    for call in verdict.approvals:
        yield f"to approve ({call.approval}): {call.tool} {call.arguments}"
    yield from (f"not reviewed: {one.path}: {one.why}" for one in verdict.skipped if one.gap)
    open_checks = (one for one in verdict.required_checks if not one.is_satisfied)
    yield from (f"check {one.name}: {one.status} {one.detail}" for one in open_checks)


def _under_way(rows: Sequence[Row]) -> Iterator[str]:
    """Where a run without a verdict stopped, and the effects that had begun."""
    if states := list(recorded_states(rows)):
        yield f"go on in {states[-1][1].state}: there is no verdict yet"
    begun = dict.fromkeys(row.key for row in rows if row.kind == "intent")
    for row in rows:
        if row.kind in {"outcome", "refusal"}:
            begun.pop(row.key, None)
    yield from (f"under way when it stopped: {key}" for key in begun)
