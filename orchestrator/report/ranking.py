"""What is told first: the headline, and the few findings that people read at length.

Everything that people read asks ``rank_findings``: the terminal, comments, checks and pages.
Formats that programs read have all findings alike.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from orchestrator.code_review.verdict.model import Finding, Verdict, severity_counts
from orchestrator.wording import count_noun

AT_LENGTH = 5
"""Entries that are told at length."""
_NAMES = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"")
"""What differs between an analyzer's messages of one kind."""

T = TypeVar("T")
Cause = Sequence[Finding]
"""Findings of one entry, which differ in place; the most severe is first."""


class RankedFindings(Struct, frozen=True):
    """Open findings by severity, then support, then confidence."""

    at_length: Sequence[Cause]
    also_noticed: Sequence[Cause]

    @property
    def in_order(self) -> list[Finding]:
        """All findings, those told at length first."""
        return [one for cause in (*self.at_length, *self.also_noticed) for one in cause]


def rank_findings(verdict: Verdict, *, everything: bool = False) -> RankedFindings:
    """Which open findings are told at length, and which have a line.

    Refuted findings, ``info``, and what agents report as ``low`` never are at length. An analyzer's
    ``low`` is at length where nothing graver is.

    Args:
        everything: all are told at length, for readers who ask for it.
    """
    causes = group_by(open_findings(verdict), lambda one: _cause_of(one, exact=everything))
    if everything:
        return RankedFindings(causes, ())
    first = [cause for cause in causes if _may_be_first(cause[0])]
    graver = [cause for cause in first if cause[0].severity != "low"]
    at_length = (graver or first)[:AT_LENGTH]
    return RankedFindings(at_length, [cause for cause in causes if cause not in at_length])


def open_findings(verdict: Verdict) -> list[Finding]:
    """The open findings in the verdict's order, refuted ones last, the most severe first."""
    found = (finding for finding in verdict.findings if finding.state == "open")
    return sorted(found, key=lambda one: one.rank)


def group_by(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items with the same key, in the order in which each key first occurs."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _may_be_first(finding: Finding) -> bool:
    by_agents = finding.support != "proven" or finding.is_tested
    minor = finding.severity == "info" or (by_agents and finding.severity == "low")
    return not minor and finding.support != "refuted"


def _cause_of(finding: Finding, *, exact: bool) -> Hashable:
    """A key that is equal for findings that differ only in place; disputed ones are not grouped.

    Names that an analyzer's message quotes make no other cause unless it must be exact.
    """
    if finding.objections or finding.waiver or finding.proofs:
        return finding.id
    # One rule's advice differs between languages.
    texts = finding.title, finding.fix_suggestion
    if finding.support == "proven" and finding.rule and not exact:
        texts = _NAMES.sub("", texts[0]), _NAMES.sub("", texts[1])
    return finding.severity, finding.support, finding.rule, *texts


UNREAD = "nobody read it for logic"


def headline(verdict: Verdict) -> str:
    """What happened, in at most 80 columns: the outcome, and who read the change."""
    apart = " ·" if verdict.status == "incomplete" and verdict.change.files else ""
    return f"{describe_outcome(verdict)}{apart} {describe_readers(verdict)}"


def describe_outcome(verdict: Verdict) -> str:
    """``NOTHING FOUND``, ``NEEDS CHANGES, REVIEW INCOMPLETE``: never an approval."""
    if verdict.verdict == "merge" and not verdict.change.files:
        return "NOTHING TO REVIEW"
    found = any(severity_counts(verdict.findings).values())
    words = name_outcome(verdict.verdict, found=found).upper()
    return words + (", REVIEW INCOMPLETE" if verdict.status == "incomplete" else "")


def name_outcome(outcome: str, *, found: bool) -> str:
    """An outcome that code computed, in words; a person's ``merge`` is an approval, this is not.

    Args:
        found: there are open findings that nobody refuted.
    """
    if outcome == "merge":
        return "Only minor findings" if found else "Nothing found"
    return outcome.replace("_", " ").capitalize()


def describe_readers(verdict: Verdict) -> str:
    """``by analyzers · nobody read it for logic``, or the agents that a model played."""
    if not verdict.change.files:
        return "· no file is changed"
    if not verdict.is_read:
        return f"by analyzers · {UNREAD}"
    agents = {one.agent for one in verdict.agents if one.status == "ok"}
    tier = f" (effort: {verdict.assignment.tier})" if verdict.assignment else ""
    unread = " · some hunks unread" if verdict.depth.unread_hunks else ""
    return f"by analyzers and {count_noun(len(agents), 'agent')}{tier}{unread}"
