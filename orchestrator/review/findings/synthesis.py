"""From evidence and claims to the findings of a verdict. All of it is plain code.

Marked, not dropped: what does not count keeps its place in ``rejected``, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from orchestrator.catalog.verdict_policy import VerdictPolicy
from orchestrator.review.findings.agent_reports import Said, as_item, objections, reports
from orchestrator.review.findings.citations import Fault, Sources, claim_fault
from orchestrator.review.findings.journal_queries import Call, Work
from orchestrator.review.findings.merging import (
    GRAVITY,
    Defect,
    Word,
    finding,
    gravity,
    merge,
    overlap,
)
from orchestrator.review.rule_table import RuleTable
from orchestrator.review.session import Session
from orchestrator.review.verdict.model import Checked, Finding, Rejected, Skipped


class Synthesis(Struct, frozen=True):
    """What a verdict says about the change.

    Attributes:
        ids: fingerprint, of a finding or of any report of it → the finding's id.
    """

    findings: tuple[Finding, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    checked: tuple[Checked, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    ids: Mapping[str, str] = field(default_factory=dict)


async def build_findings(
    session: Session,
    entries: Sequence[Call],
    team: Sequence[Work],
    answers: Callable[[str], Iterable[str]],
    policy: VerdictPolicy,
) -> Synthesis:
    """Bring the findings together.

    Args:
        answers: what a tool answered in this run, by its name.
    """
    proved = _proved(entries, "findings")
    harmless = _constant(proved, entries, session.rules)
    for fingerprint in harmless:
        del proved[fingerprint]
    said = list(reports(team))
    refuted = {name: word for name, (word, _) in harmless.items()}
    claimed = await _claimed(session, said, proved, refuted)
    defects = merge([*proved.values(), *claimed.held], policy)
    known = {word.item["fingerprint"]: defect for defect in defects for word in defect.words}
    for fingerprint, agent in claimed.echoes:
        known[fingerprint].echoes[agent] = None
    against = await objections(Sources(session, {}, answers), said, session.rules, known)
    found = [finding(defect, policy, against.get(defect.name, ())) for defect in defects]
    rejected = [entry for one in found if (entry := _argued_down(one))]
    lost = {entry.finding.fingerprint for entry in rejected}
    unquoted = [
        (word, Fault("unverified", word.item["reason"]))
        for word in _proved(entries, "rejected").values()
    ]
    refused = (*unquoted, *harmless.values(), *claimed.refused)
    rejected += [_refused(word, fault, policy) for word, fault in refused]
    return _numbered([one for one in found if one.fingerprint not in lost], rejected, known)


def _proved(entries: Iterable[Call], part: str) -> dict[str, Word]:
    """What analyzers say, by fingerprint; each once, with all the calls that showed it."""
    items: dict[str, Mapping[str, Any]] = {}
    calls: dict[str, list[Call]] = {}
    for call in entries:
        for item in call.data.get(part, ()):
            items.setdefault(item["fingerprint"], item)
            calls.setdefault(item["fingerprint"], []).append(call)
    return {
        name: Word(
            item["tool"],
            item,
            proved=True,
            refs=tuple(call.ref for call in calls[name]),
            shown_to=frozenset(call.agent for call in calls[name]),
        )
        for name, item in items.items()
    }


def _constant(
    proved: Mapping[str, Word], entries: Iterable[Call], rules: RuleTable
) -> dict[str, tuple[Word, Fault]]:
    """What a pattern reported, and the tracer shows that nothing but a constant gets there."""
    facts = [call.data.get("facts", {}) for call in entries]
    constant = {tuple(place) for fact in facts for place in fact.get("constant", ())}
    why = Fault("constant", "nothing but constants gets there, as following the values shows")
    found = {}
    for name, word in proved.items():
        rule = rules.rules.get(word.item["rule"])
        place = (word.item["path"], word.item["start_line"], rule.not_constant if rule else "")
        if place in constant:
            found[name] = word, why
    return found


class _Claimed(Struct):
    """What agents say.

    Attributes:
        held: findings whose quotation and place hold.
        refused: those that do not, and why.
        echoes: (fingerprint, agent) where an agent takes up an analyzer's finding as it is.
    """

    held: list[Word] = field(default_factory=list)
    refused: list[tuple[Word, Fault]] = field(default_factory=list)
    echoes: list[tuple[str, str]] = field(default_factory=list)


async def _claimed(
    session: Session,
    said: Iterable[Said],
    proved: Mapping[str, Word],
    harmless: Mapping[str, Word],
) -> _Claimed:
    claimed = _Claimed()
    seen: set[tuple[str, str, str]] = set()
    for agent, report in said:
        for claim in report.findings:
            item, name = as_item(claim, agent), claim.fingerprint
            known = proved.get(name) or harmless.get(name)
            if known and known.item["severity"] == claim.severity and overlap(known.item, item):
                if name in proved:
                    claimed.echoes.append((name, agent))
                continue
            word = Word(agent, item, proved=False, names=name)
            identity = agent, word.item["fingerprint"], claim.severity
            if identity in seen:  # once more, in a later iteration
                continue
            seen.add(identity)
            if fault := await claim_fault(session, claim):
                claimed.refused.append((word, fault))
            else:
                claimed.held.append(word)
    return claimed


# --- what does not count ------------------------------------------------------------------------


def _argued_down(found: Finding) -> Rejected | None:
    """A finding that an objection sets aside."""
    won = [objection for objection in found.objections if not objection.why_not]
    if not won:
        return None
    by = tuple(dict.fromkeys(objection.by for objection in won))
    reason = f"argued down by {', '.join(by)}: {won[0].reason}"
    return Rejected(finding=found, reason=reason, cause="argued", argued_by=by)


def _refused(word: Word, fault: Fault, policy: VerdictPolicy) -> Rejected:
    return Rejected(finding=finding(Defect([word]), policy), reason=fault.why, cause=fault.cause)


# --- names --------------------------------------------------------------------------------------


def _numbered(
    findings: Iterable[Finding], rejected: Iterable[Rejected], known: Mapping[str, Defect]
) -> Synthesis:
    """Everything in the order of the report, with its id."""
    counted = tuple(
        replace(found, id=f"F{number}")
        for number, found in enumerate(sorted(findings, key=_order), 1)
    )
    others = tuple(
        replace(entry, finding=_rejected(entry.finding, number))
        for number, entry in enumerate(sorted(rejected, key=lambda one: _order(one.finding)), 1)
    )
    ids = {found.fingerprint: found.id for found in (*(e.finding for e in others), *counted)}
    meant = {name: ids[defect.name] for name, defect in known.items()}
    return Synthesis(counted, others, ids={**ids, **meant})


def _rejected(found: Finding, number: int) -> Finding:
    return replace(found, id=f"R{number}", state="rejected")


def _order(found: Finding) -> tuple[Any, ...]:
    return gravity({name: getattr(found, name) for name in GRAVITY})
