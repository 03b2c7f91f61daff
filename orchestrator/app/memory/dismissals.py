"""Dismiss a finding: an entry in the repository's memory with the finding's context."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Literal

from msgspec import Struct

from diffchecks.rules import IMPORTED
from orchestrator.app.catalog_listing import list_rules
from orchestrator.app.human_decisions.approvals import current_user
from orchestrator.app.memory.waiver_files import (
    NOT_UTF8,
    ListFile,
    append_entry,
    describe_finding,
    entry_lines,
    literal_glob,
    on_one_line,
    open_finding,
    read_last_day,
    render_entry,
)
from orchestrator.catalog.repository_memory import Dismissal, DismissalFile, DismissedFinding
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.data_directories import DISMISSED, OVERLAY
from orchestrator.errors import InputError

DISMISSAL_FILE = ListFile(
    f"{OVERLAY}/{DISMISSED}",
    "dismissed",
    "dismissal",
    "Findings that people have dismissed; what counts is this file in the base branch.",
    DismissalFile,
)

MAX_QUOTE = 1_000
"""Characters of a quotation that are kept; of a longer one, its first lines."""

Scope = Literal["finding", "rule", "path"]


class Reason(Struct, frozen=True, kw_only=True):
    """Why a finding is dismissed, by whom, and for how long.

    Attributes:
        by: the person who answers for it; empty: only the user of the command is recorded.
        until: the last day, as 2027-06-30; empty: it does not expire.
        scope: this finding; all of its rule; or those of its rule in its file.
    """

    why: str
    by: str = ""
    until: str = ""
    scope: Scope = "finding"
    recorded_by: str = ""


def dismissal_of(
    verdict: Verdict, finding_id: str, reason: Reason, repo: Path | None = None
) -> tuple[Dismissal, str]:
    """The dismissal of an open finding of a run, and the text of its entry.

    Args:
        repo: whose rules can be dismissed.

    Raises:
        InputError: there is no such open finding, it is critical and no person is named, it has no
            rule that could be dismissed, or the last day is invalid or past.
    """
    finding = open_finding(verdict, finding_id, reason.by)
    if reason.scope != "finding":
        _require_rule(finding, reason.scope, repo)
    dismissal = make_dismissal(finding, reason)
    return dismissal, render_dismissal(dismissal, finding)


def make_dismissal(finding: Finding, reason: Reason, on: date | None = None) -> Dismissal:
    """The dismissal of a finding.

    Args:
        on: the day it is dismissed; None: today.

    Raises:
        InputError: the last day is no date or over.
    """
    one = reason.scope == "finding"
    return Dismissal(
        fingerprint=finding.fingerprint if one else None,
        rule=None if one else finding.rule,
        paths=(f"/{literal_glob(finding.path)}",) if reason.scope == "path" else ("**",),
        why=on_one_line(reason.why),
        by=reason.by,
        on=on or datetime.now(UTC).date(),
        until=read_last_day(reason.until),
        # Without the machine: everybody who has the repository reads it.
        recorded_by=(reason.recorded_by or current_user()).partition(" on ")[0],
        about=_about(finding) if one else None,
    )


def _require_rule(finding: Finding, scope: Scope, repo: Path | None) -> None:
    """Check that a finding's rule is in the table: an agent can name any."""
    known = {rule.id for rule in list_rules(repo)}
    if finding.rule not in known and not finding.rule.startswith(IMPORTED):
        raise InputError(
            f"--scope {scope}: {finding.id} has no known rule ({finding.rule}), which "
            "diffcourt catalog --rules lists; dismiss the finding alone"
        )


def _about(finding: Finding) -> DismissedFinding:
    context = finding.context
    quote = finding.evidence.quote
    if len(quote) > MAX_QUOTE:
        quote = quote[:MAX_QUOTE].rpartition("\n")[0] or quote[:MAX_QUOTE]
    readable = not NOT_UTF8.search(quote)  # else only its fingerprint finds it again
    return DismissedFinding(
        title=NOT_UTF8.sub("?", finding.title),
        path=NOT_UTF8.sub("?", finding.path),
        rule=finding.rule,
        severity=finding.severity,
        category=finding.category,
        cwe=finding.cwe,
        side=finding.evidence.side,
        line=finding.start_line,
        quote=quote if readable else "",
        scope=NOT_UTF8.sub("?", context.scope) if context and readable else "",
        context=context.lines if context else "",
        flow=context.flow if context else "",
    )


def add_dismissal(repo: Path | None, dismissal: Dismissal, entry: str) -> None:
    """Append a dismissal to the file in the work tree.

    An existing dismissal of the finding with another context or severity does not prevent it.

    Raises:
        InputError: it is dismissed already, or the file cannot be extended.
    """

    append_entry(
        repo, DISMISSAL_FILE, dismissal, entry, lambda other: is_same_dismissal(other, dismissal)
    )


def is_same_dismissal(known: Dismissal, new: Dismissal) -> bool:
    """Whether an existing dismissal makes a new one unnecessary."""

    def subject(one: Dismissal) -> tuple[object, ...]:
        about = one.about
        state = (about.context, about.flow, about.severity) if about else ()
        return one.rule, one.fingerprint, one.paths, state

    return subject(known) == subject(new) and known.until in {None, new.until}


def render_dismissal(dismissal: Dismissal, finding: Finding) -> str:
    """The text of an entry in the file."""
    return render_entry(_fields(dismissal), describe_finding(finding))


def _fields(dismissal: Dismissal) -> Iterator[str]:
    """The lines of an entry, without fields that have their defaults."""
    names = ("fingerprint", "rule", "paths", "why", "by", "recorded_by", "on", "until")
    yield from entry_lines(dismissal, names)
    if (about := dismissal.about) is not None:
        yield "about:"
        for name in about.__struct_fields__:
            value = getattr(about, name)
            if value and (name, value) != ("side", "head"):
                yield f"  {name}: {json.dumps(value)}"
