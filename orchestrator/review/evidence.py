"""From what a tool said to what can be shown: placed, compared with base, quoted, redacted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.review.analysis import Raw, Report, Side
from orchestrator.review.novelty import Placed, new_findings, normalise, numbered
from orchestrator.review.places import stands_in
from orchestrator.review.rules import Rule, RuleTable
from orchestrator.review.scopes import Scopes
from orchestrator.review.session import Session

QUOTE_LINES = 3
QUOTE_CHARACTERS = 300
REDACTED = "[redacted]"


class _File(Struct, frozen=True):
    lines: Sequence[str]
    scopes: Scopes


class _Reader:
    """A side's files, each read once."""

    def __init__(self, session: Session, side: Side) -> None:
        self._session, self._side = session, side
        self._files: dict[str, _File] = {}
        self._secrets: dict[str, dict[int, set[str]]] = {}

    def __getitem__(self, path: str) -> _File:
        if path not in self._files:
            lines = self._session.read(self._side, path)
            self._files[path] = _File(lines, Scopes(path, lines))
        return self._files[path]

    def secrets(self, raw: Raw) -> set[str]:
        """What of the lines that a finding quotes is secret, whoever found it and for whatever."""
        # Here because it takes 0.1 s, which a review that shows nothing need not wait for.
        from orchestrator.review.checks.secrets import secrets_by_line  # noqa: PLC0415

        if raw.path not in self._secrets:
            text = "\n".join(self[raw.path].lines)
            self._secrets[raw.path] = secrets_by_line(raw.path, text)
        by_line = self._secrets[raw.path]
        return set().union(*(by_line.get(n, ()) for n in range(raw.line, raw.end_line + 1)))


def brought_in(
    session: Session,
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
    return _shown(session.rules, fresh, readers[1])


def as_reported(session: Session, report: Report, head: Side) -> Found:
    """A report whose findings are all brought in by the change, as its analyser saw to."""
    reader = _Reader(session, head)
    placed = [_place(session.rules, raw, reader) for raw in report.findings]
    return _shown(session.rules, [p for p in placed if p is not None], reader)


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


def _shown(rules: RuleTable, fresh: Iterable[Placed], files: _Reader) -> Found:
    found = Found([], [])
    for fingerprint, placed in numbered(fresh).items():
        raw = placed.raw
        raw = replace(raw, redact=(*raw.redact, *files.secrets(raw)))
        lines = files[raw.path].lines
        item = _as_json(rules.rules[placed.rule], raw, fingerprint, _quote(raw, lines))
        if 1 <= raw.line <= len(lines) and item["quote"].strip():
            found.findings.append(item)
        else:
            reason = f"nothing stands at {raw.path}:{raw.line} in head that it could quote"
            found.rejected.append({**item, "reason": reason})
    return found


def _quote(raw: Raw, lines: Sequence[str]) -> str:
    cited = [line.rstrip("\r") for line in lines[raw.line - 1 : raw.end_line]]
    shown = cited[:QUOTE_LINES]
    text = redacted("\n".join(shown), raw.redact)
    return text if len(text) <= QUOTE_CHARACTERS else text[:QUOTE_CHARACTERS] + "…"


def redacted(text: str, secrets: Sequence[str]) -> str:
    """Text without the given secrets; the longest goes first, so that no tail of one is left."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return text


def _as_json(rule: Rule, raw: Raw, fingerprint: str, quote: str) -> dict[str, Any]:
    said = redacted(raw.message, raw.redact)
    detail = "\n".join(part for part in (said, redacted(raw.detail, raw.redact)) if part)
    return {
        "fingerprint": fingerprint,
        "rule": rule.id,
        "severity": rule.severity,
        "category": rule.category,
        "cwe": list(rule.cwe),
        "confidence": raw.confidence,
        "title": rule.title,
        "detail": detail,
        "why": rule.why,
        "fix_suggestion": rule.fix,
        "path": raw.path,
        "start_line": raw.line,
        "end_line": max(raw.line, raw.end_line),
        "quote": quote,
        "tool": raw.tool,
    }
