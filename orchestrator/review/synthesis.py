"""From evidence and claims to the findings, files and gaps of a verdict. All of it is plain code.

Marked, not dropped: what does not count keeps its place in ``rejected`` or ``skipped``, with a
reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.engine.canonical import digest
from orchestrator.review.contracts import ReportedFinding, SpecialistReport
from orchestrator.review.ledger import Call, Work, gaps
from orchestrator.review.novelty import normalise
from orchestrator.review.session import Session
from orchestrator.review.verdict import (
    SEVERITIES,
    Checked,
    Evidence,
    Finding,
    Rejected,
    Severity,
    Skipped,
)

WHOLE_CHANGE = "*"
"""The path of a gap that concerns the whole change and no file of it."""


@dataclass(frozen=True, slots=True)
class Synthesis:
    """What a verdict says about the change.

    Attributes:
        ids: fingerprint → the finding's id.
    """

    findings: tuple[Finding, ...]
    rejected: tuple[Rejected, ...]
    checked: tuple[Checked, ...]
    skipped: tuple[Skipped, ...]
    ids: Mapping[str, str]


@dataclass(slots=True)
class _Draft:
    """A finding while reports of it come together."""

    item: Mapping[str, Any]
    reporters: dict[str, None]
    refs: dict[str, None]


async def synthesise(
    session: Session,
    entries: Sequence[Call],
    team: Sequence[Work],
    withheld: Mapping[str, tuple[str, bool]],
) -> Synthesis:
    """Bring everything together.

    Args:
        withheld: analyser → why no agent was given it, and whether that is a gap.
    """
    drafts: dict[str, _Draft] = {}
    refused: dict[str, tuple[_Draft, str]] = {}
    for call in entries:
        for item in call.data.get("findings", ()):
            _add(drafts, item["fingerprint"], item, [item["tool"], call.agent], [call.ref])
        for item in call.data.get("rejected", ()):
            draft = _Draft(item, {item["tool"]: None, call.agent: None}, {call.ref: None})
            refused[item["fingerprint"]] = draft, item["reason"]
    for agent, claim in _claims(team):
        if claim.fingerprint in drafts:
            drafts[claim.fingerprint].reporters[agent] = None
            continue
        item = _claimed(claim, agent)
        fault = await _fault(session, claim)
        if fault:
            refused[item["fingerprint"]] = _Draft(item, {agent: None}, {}), fault
        else:
            _add(drafts, item["fingerprint"], item, [agent], [])
    merged = _merge(drafts)
    findings = _numbered(merged.values(), "F")
    rejected = _numbered((draft for draft, _ in refused.values()), "R")
    reasons = {draft.item["fingerprint"]: reason for draft, reason in refused.values()}
    return Synthesis(
        findings,
        tuple(
            Rejected(
                finding=finding.model_copy(update={"state": "rejected"}),
                reason=reasons[finding.fingerprint],
            )
            for finding in rejected
        ),
        _checked(entries),
        _skipped(session, entries, team, withheld),
        _ids(findings, drafts, merged),
    )


def _add(
    drafts: dict[str, _Draft],
    fingerprint: str,
    item: Mapping[str, Any],
    reporters: Iterable[str],
    refs: Iterable[str],
) -> None:
    draft = drafts.setdefault(fingerprint, _Draft(item, {}, {}))
    draft.reporters |= dict.fromkeys(reporters)
    draft.refs |= dict.fromkeys(refs)


# --- one defect is one finding ------------------------------------------------------------------


def _same_defect(item: Mapping[str, Any]) -> tuple[Any, ...]:
    """Equal for the same defect as two tools or rules see it: place, and weakness or rule."""
    kind = tuple(item["cwe"][:1]) or item["rule"]
    return item["path"], item["start_line"], item["category"], kind


def _merge(drafts: Mapping[str, _Draft]) -> dict[tuple[Any, ...], _Draft]:
    """The gravest of several reports stands; it names all who reported."""
    merged: dict[tuple[Any, ...], _Draft] = {}
    for draft in sorted(drafts.values(), key=_gravity):
        first = merged.setdefault(_same_defect(draft.item), draft)
        first.reporters |= draft.reporters
        first.refs |= draft.refs
    return merged


def _gravity(draft: _Draft) -> tuple[Any, ...]:
    item = draft.item
    order = SEVERITIES.index(item["severity"])
    return order, item["path"], item["start_line"], -item["confidence"], item["rule"]


def _numbered(drafts: Iterable[_Draft], letter: str) -> tuple[Finding, ...]:
    ordered = sorted(drafts, key=_gravity)
    return tuple(_finding(draft, f"{letter}{n}") for n, draft in enumerate(ordered, 1))


def _finding(draft: _Draft, name: str) -> Finding:
    item = draft.item
    return Finding(
        id=name,
        fingerprint=item["fingerprint"],
        severity=item["severity"],
        confidence=item["confidence"],
        title=item["title"],
        detail=item["detail"],
        category=item["category"],
        rule=item["rule"],
        cwe=tuple(item["cwe"]),
        path=item["path"],
        start_line=item["start_line"],
        end_line=item["end_line"],
        evidence=Evidence(quote=item["quote"], tool_calls=tuple(sorted(draft.refs))),
        fix_suggestion=item["fix_suggestion"],
        reported_by=tuple(sorted(draft.reporters)),
    )


def _ids(
    findings: Sequence[Finding],
    drafts: Mapping[str, _Draft],
    merged: Mapping[tuple[Any, ...], _Draft],
) -> dict[str, str]:
    by_fingerprint = {finding.fingerprint: finding.id for finding in findings}
    return {
        fingerprint: by_fingerprint[merged[_same_defect(draft.item)].item["fingerprint"]]
        for fingerprint, draft in drafts.items()
    }


# --- an agent's claims are held against the change ----------------------------------------------


def reports(team: Iterable[Work]) -> Iterable[tuple[Work, SpecialistReport]]:
    """The reports that kept their contract."""
    for entry in team:
        if entry.result.status == "ok":
            yield entry, SpecialistReport.model_validate(entry.result.report)


def _claims(team: Iterable[Work]) -> Iterable[tuple[str, ReportedFinding]]:
    for entry, report in reports(team):
        for claim in report.findings:
            yield entry.result.agent, claim


def _claimed(claim: ReportedFinding, agent: str) -> dict[str, Any]:
    category = claim.category or agent
    identity = [claim.rule, normalise([claim.quote]), claim.path, claim.title]
    return {
        **claim.model_dump(),
        "fingerprint": digest(identity)[:16],
        "rule": claim.rule or f"{category}.reported",
        "category": category,
        "cwe": [],
        "tool": agent,
    }


async def _fault(session: Session, claim: ReportedFinding) -> str:
    """Why a claim does not count, or empty."""
    file = session.files.get(claim.path)
    if file is None or file.new_blob is None:
        return f"{claim.path} is not a file that the change leaves in head"
    side, _ = await session.side("head", [claim.path])
    cited = session.read(side, claim.path)[claim.start_line - 1 : claim.end_line]
    if not claim.quote.strip() or normalise([claim.quote]) not in normalise(cited):
        return f"its quote does not stand at {claim.path}:{claim.start_line}"
    lines = range(claim.start_line, claim.end_line + 1)
    if session.added(claim.path).isdisjoint(lines):
        return "it lies outside the lines that the change adds, and no tool links it to them"
    return ""


# --- what was looked at, and what was not -------------------------------------------------------


def _checked(entries: Iterable[Call]) -> tuple[Checked, ...]:
    by: dict[str, dict[str, None]] = {}
    refs: dict[str, dict[str, None]] = {}
    for call in entries:
        for path in call.data.get("examined", ()):
            by.setdefault(path, {})[call.tool] = None
            refs.setdefault(path, {})[call.ref] = None
    return tuple(
        Checked(path=path, by=tuple(sorted(by[path])), tool_calls=tuple(sorted(refs[path])))
        for path in sorted(by)
    )


def _skipped(
    session: Session,
    entries: Sequence[Call],
    team: Iterable[Work],
    withheld: Mapping[str, tuple[str, bool]],
) -> tuple[Skipped, ...]:
    found: list[Skipped] = []
    looked = {path for call in entries for path in call.data.get("examined", ())}
    for file in session.change.files:
        if why := session.left_out(file):
            found.append(Skipped(path=file.path, why=why, gap=session.unread(file)))
        elif file.path not in looked:
            found.append(Skipped(path=file.path, why="no tool looked at it", gap=True))
    found += [
        Skipped(path=path, why=why, tool=tool, gap=True)
        for (tool, path), why in gaps(entries).items()
    ]
    last = {call.tool: call for call in entries}
    found += [
        Skipped(path=WHOLE_CHANGE, why=call.why, tool=call.tool, gap=True)
        for call in last.values()
        if call.why
    ]
    found += [
        Skipped(path=WHOLE_CHANGE, why=why, tool=tool, gap=gap)
        for tool, (why, gap) in withheld.items()
        if tool not in last
    ]
    ended = {entry.result.agent: entry.result for entry in team}
    found += [
        Skipped(path=WHOLE_CHANGE, why=f"{r.status}: {r.detail}", tool=r.agent, gap=True)
        for r in ended.values()
        if r.status != "ok"
    ]
    return tuple(sorted(found, key=lambda skip: (skip.path, skip.tool)))


def severity_counts(findings: Iterable[Finding]) -> dict[Severity, int]:
    """Open findings by severity, gravest first."""
    counts = dict.fromkeys(SEVERITIES, 0)
    for finding in findings:
        counts[finding.severity] += finding.state == "open"
    return counts
