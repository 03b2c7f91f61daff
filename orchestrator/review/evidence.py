"""From what a tool said to what can be shown: placed, compared with base, quoted, redacted."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from orchestrator.review.analysers.checks import ask
from orchestrator.review.analysis import Raw, Report, Side
from orchestrator.review.novelty import Placed, new_findings, normalise, numbered
from orchestrator.review.places import stands_in
from orchestrator.review.rules import Rule, RuleTable
from orchestrator.review.scopes import Scopes
from orchestrator.review.session import Session
from orchestrator.sandbox.worker import WorkerPool

WITHHELD = "[withheld]"
UNSEARCHED = "Not shown, since it could hold a secret: this file could not be searched for any"
SECONDS = 10.0
"""For a search for secrets in what is quoted; it takes milliseconds for a usual file."""


class _File(Struct, frozen=True):
    lines: Sequence[str]
    scopes: Scopes


class _Reader:
    """A side's files, each read once."""

    def __init__(self, session: Session, side: Side) -> None:
        self._session, self._side = session, side
        self._files: dict[str, _File] = {}

    def __getitem__(self, path: str) -> _File:
        if path not in self._files:
            lines = self._session.read(self._side, path)
            self._files[path] = _File(lines, Scopes(path, lines))
        return self._files[path]

    async def quotes(
        self, named: Mapping[str, Placed], pool: WorkerPool
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
        job = {"root": str(self._side.root), "cited": cited}
        replies, unsearched = await ask(pool, "quotes:run", job, sorted(cited), SECONDS)
        return dict(ChainMap(*replies)), unsearched


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
    readers = [_Reader(session, side) for side in sides]
    placed = [
        [_place(session.rules, raw, reader) for raw in report.findings]
        for report, reader in zip((base, head), readers, strict=True)
    ]
    old, new = ([p for p in some if p is not None] for some in placed)
    fresh = [
        found
        for found in new_findings(old, new, session.added)
        if found.raw.path not in blind or found.raw.line in session.added(found.raw.path)
    ]
    return await _shown(session.rules, fresh, readers[1], pool)


async def as_reported(session: Session, pool: WorkerPool, report: Report, head: Side) -> Found:
    """A report whose findings are all brought in by the change, as its analyser saw to."""
    reader = _Reader(session, head)
    placed = [_place(session.rules, raw, reader) for raw in report.findings]
    return await _shown(session.rules, [p for p in placed if p is not None], reader, pool)


class Found(Struct, frozen=True):
    """Findings as JSON that a journal may hold: no secret in it.

    Attributes:
        findings: whose quote stands at the cited lines.
        rejected: whose does not; each with a ``reason``.
    """

    findings: list[dict[str, Any]] = []
    rejected: list[dict[str, Any]] = []


def _place(rules: RuleTable, raw: Raw, files: _Reader) -> Placed | None:
    rule = rules.of(raw.tool, raw.code)
    if rule is None or stands_in(raw.path, rule.not_in):
        return None
    file = files[raw.path]
    text = raw.key if raw.key is not None else normalise(file.lines[raw.line - 1 : raw.end_line])
    scope = raw.scope if raw.scope is not None else file.scopes.of(raw.line)
    return Placed(raw, rule.id, text, "" if raw.key is not None else scope)


async def _shown(
    rules: RuleTable, fresh: Iterable[Placed], files: _Reader, pool: WorkerPool
) -> Found:
    found = Found([], [])
    named = numbered(fresh)
    shown, unsearched = await files.quotes(named, pool)
    for fingerprint, placed in named.items():
        raw = placed.raw
        why = unsearched.get(raw.path, "it could not be read")
        said = shown.get(fingerprint, (WITHHELD, f"{UNSEARCHED} ({why})", ""))
        item = _as_json(rules.rules[placed.rule], raw, fingerprint, *said)
        if 1 <= raw.line <= len(files[raw.path].lines) and item["quote"].strip():
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
