"""From what a tool said to what can be shown: placed, compared with base, quoted, redacted."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from orchestrator.checks.path_kinds import path_kinds
from orchestrator.review.analysis import Raw, Report, Side
from orchestrator.review.analyzers.side_checks import ask
from orchestrator.review.findings.baseline import Placed, new_findings, normalize, numbered
from orchestrator.review.rule_table import Rule, RuleTable
from orchestrator.review.session import Session
from orchestrator.sandbox.worker_pool import WorkerPool

WITHHELD = "[withheld]"
UNSEARCHED = "Not shown, since it could hold a secret: this file could not be searched for any"
SECONDS = 10.0
"""For each question about files: for a usual one it takes milliseconds."""


class _Reader:
    """A side's files, each read once."""

    def __init__(self, session: Session, side: Side, pool: WorkerPool) -> None:
        self._session, self._side, self._pool = session, side, pool
        self._lines: dict[str, Sequence[str]] = {}

    def __getitem__(self, path: str) -> Sequence[str]:
        if path not in self._lines:
            self._lines[path] = self._session.read(self._side, path)
        return self._lines[path]

    async def scopes(self, raws: Iterable[Raw]) -> Mapping[tuple[str, int], str]:
        """Path and line → what encloses it; a worker says so, as a file may have to be parsed."""
        lines: dict[str, set[int]] = {}
        for raw in raws:
            lines.setdefault(raw.path, set()).add(raw.line)
        wanted = {path: sorted(numbers) for path, numbers in lines.items()}
        told, _ = await self._ask("enclosing_scopes:run", {"lines": wanted}, wanted)
        return {
            (path, line): scope
            for path, scopes in told.items()
            for line, scope in zip(wanted[path], scopes, strict=True)
        }

    async def quotes(
        self, named: Mapping[str, Placed]
    ) -> tuple[Mapping[str, Sequence[str]], Mapping[str, str]]:
        """What can be shown: worked out by a worker, as it takes the patterns of all secrets.

        Returns:
            Fingerprint → quote, message and detail, where they can be; and path → why not.
        """
        cited: dict[str, dict[str, Any]] = {}
        for fingerprint, placed in named.items():
            raw = placed.raw
            cited.setdefault(raw.path, {})[fingerprint] = {
                "line": raw.line,
                "end_line": raw.end_line,
                "redact": raw.redact,
                "texts": [raw.message, raw.detail],
            }
        return await self._ask("redacted_quotes:run", {"cited": cited}, cited)

    async def _ask(
        self, function: str, job: Mapping[str, Any], paths: Iterable[str]
    ) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """What a check says, by name; and path → why, for files that it says nothing of."""
        whole = {"root": str(self._side.root), **job}
        replies, faults = await ask(self._pool, function, whole, sorted(paths), SECONDS)
        return ChainMap(*replies), faults


async def brought_in(
    session: Session,
    pool: WorkerPool,
    base: Report,
    head: Report,
    sides: tuple[Side, Side],
    *,
    blind: frozenset[str] = frozenset(),
) -> Found:
    """What stands in head's report and not in base's.

    Args:
        blind: files whose base side could not be read; only their added lines count.
    """
    before, after = (_Reader(session, side, pool) for side in sides)
    old = await _placed(session.rules, base, before)
    new = await _placed(session.rules, head, after)
    fresh = [
        found
        for found in new_findings(old, new, session.added)
        if found.raw.path not in blind or found.raw.line in session.added(found.raw.path)
    ]
    return await _shown(session.rules, numbered(fresh, old), after)


async def as_reported(session: Session, pool: WorkerPool, report: Report, head: Side) -> Found:
    """A report whose findings are all brought in by the change, as its analyzer saw to."""
    reader = _Reader(session, head, pool)
    found = await _placed(session.rules, report, reader)
    return await _shown(session.rules, numbered(found), reader)


class Found(Struct, frozen=True):
    """Findings as JSON that a journal may hold: no secret in it.

    Attributes:
        findings: whose quote stands at the cited lines.
        rejected: whose does not; each with a ``reason``.
    """

    findings: list[dict[str, Any]] = []
    rejected: list[dict[str, Any]] = []


async def _placed(rules: RuleTable, report: Report, files: _Reader) -> list[Placed]:
    """What a report says by our rules, each with what identifies it."""
    named = [(raw, rules.of(raw.tool, raw.code)) for raw in report.findings]
    ours = [
        (raw, rule.id)
        for raw, rule in named
        if rule and path_kinds(raw.path).isdisjoint(rule.not_in)
    ]
    scopes = await files.scopes(raw for raw, _ in ours if raw.key is None and raw.scope is None)
    return [_place(raw, rule, files, scopes) for raw, rule in ours]


def _place(raw: Raw, rule: str, files: _Reader, scopes: Mapping[tuple[str, int], str]) -> Placed:
    if raw.key is not None:
        return Placed(raw, rule, raw.key, "")
    text = normalize(files[raw.path][raw.line - 1 : raw.end_line])
    scope = scopes.get((raw.path, raw.line), "") if raw.scope is None else raw.scope
    return Placed(raw, rule, text, scope)


async def _shown(rules: RuleTable, named: Mapping[str, Placed], files: _Reader) -> Found:
    found = Found([], [])
    shown, unsearched = await files.quotes(named)
    for fingerprint, placed in named.items():
        raw = placed.raw
        why = unsearched.get(raw.path, "it could not be read")
        said = shown.get(fingerprint, (WITHHELD, f"{UNSEARCHED} ({why})", ""))
        item = _as_json(rules.rules[placed.rule], raw, fingerprint, *said)
        if 1 <= raw.line <= len(files[raw.path]) and item["quote"].strip():
            found.findings.append(item)
        else:
            reason = f"nothing stands at {raw.path}:{raw.line} in head that it could quote"
            found.rejected.append({**item, "reason": reason})
    return found


def _as_json(
    rule: Rule, raw: Raw, fingerprint: str, quote: str, message: str, detail: str
) -> dict[str, Any]:
    return {
        "fingerprint": fingerprint,
        "rule": rule.id,
        "severity": rule.severity,
        "category": rule.category,
        "cwe": list(rule.cwe),
        "confidence": raw.confidence,
        "title": rule.title,
        "detail": "\n".join(filter(None, (message, detail))),
        "why": rule.why,
        "fix_suggestion": rule.fix,
        "path": raw.path,
        "start_line": raw.line,
        "end_line": max(raw.line, raw.end_line),
        "quote": quote,
        "tool": raw.tool,
    }
