"""Memory entries that past reviews suggest, for a person to read, change and commit.

Texts of findings come from models and changes, so each is one short line in code font, and none
counts until a person has committed it to base.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date

from msgspec import Struct

from orchestrator.app.memory.dismissals import Reason, make_dismissal, render_dismissal
from orchestrator.app.memory.reviewed_findings import DatedVerdict, ReviewedFinding, name_of_finding
from orchestrator.catalog.repository_memory import Dismissal
from orchestrator.code_review.verdict.model import Rejected, Verdict
from orchestrator.errors import InputError

MAX_TEXT = 160
"""Characters of a text of a finding that an entry repeats."""

MAX_LINES = 100
"""Lines that are proposed for one file."""

_WRONG = {"argued": "was argued down", "withdrawn": "was withdrawn", "constant": "was harmless"}


class Proposals(Struct):
    """The proposed entries.

    Attributes:
        conventions, failures: lines by their subject, so that none is proposed twice.
        dismissals: with the text of their entries.
    """

    conventions: dict[str, str]
    failures: dict[str, str]
    dismissals: list[tuple[Dismissal, str]]


def propose(reviews: Sequence[DatedVerdict], outcomes: Iterable[ReviewedFinding]) -> Proposals:
    """The entries that reviews suggest, the newest reviews first.

    Args:
        outcomes: what happened to their findings.
    """
    found = Proposals({}, {}, [])
    for review in reviews:
        known = {one.fingerprint for one, _ in found.dismissals}
        found.dismissals += [
            made
            for made in (*_overridden(review.verdict), *_waived(review))
            if made[0].fingerprint not in known
        ]
        for rejected in review.verdict.rejected:
            if line := _describe_rejected(rejected, review.day):
                found.failures.setdefault(*line)
        if review.verdict.stop.reason == "stagnation":
            head = _code(review.verdict.change.head[:12])
            what = f"The review of {head} stagnated"
            detail = _code(review.verdict.stop.detail)
            found.failures.setdefault(what, f"{what}: {detail}{_on(review.day)}.")
    for name, ones in _by_name(outcomes):
        fixed = [one for one in ones if one.outcome == "fixed"]
        verb, most = ("fix", fixed) if 2 * len(fixed) >= len(ones) else ("merge", ones)
        last = max(most, key=lambda one: one.day)
        count = len(fixed) if verb == "fix" else len(ones) - len(fixed)
        told = f"{count} of {len(ones)}, the last in {_code(last.path)}{_on(last.day)}"
        if verb == "fix":
            what = f"People fix {_code(name)}"
            found.conventions[what] = f"{what}: {told}."
        else:
            what = f"People merge {_code(name)} as it is"
            found.failures[what] = f"{what}: {told}."
    return found


def _by_name(outcomes: Iterable[ReviewedFinding]) -> Iterator[tuple[str, list[ReviewedFinding]]]:
    groups: dict[str, list[ReviewedFinding]] = {}
    for one in outcomes:
        groups.setdefault(one.name, []).append(one)
    yield from sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))


def _waived(review: DatedVerdict) -> Iterator[tuple[Dismissal, str]]:
    """Findings that people waived by fingerprint, which does not match other wordings."""
    reasons = {use.name: use for use in review.verdict.waivers if use.state == "used"}
    for finding in review.verdict.findings:
        use = reasons.get(finding.fingerprint)
        if use is None or finding.state != "waived":
            continue
        with suppress(InputError):  # its last day is over by now
            reason = Reason(why=use.why, by=use.by, until=use.until)
            day = date.fromisoformat(review.day) if review.day else None
            made = make_dismissal(finding, reason, day)
            yield made, render_dismissal(made, finding)


def _overridden(verdict: Verdict) -> Iterator[tuple[Dismissal, str]]:
    """What a person accepted with a reason by overriding the verdict; critical is asked by name."""
    override = verdict.override
    if override is None or override.verdict != "merge":
        return
    for finding in verdict.findings:
        counts = finding.state == "open" and finding.outcome != "merge"
        if counts and finding.severity != "critical":
            reason = Reason(why=override.reason, recorded_by=override.by)
            made = make_dismissal(finding, reason, date.fromisoformat(override.at[:10]))
            yield made, render_dismissal(made, finding)


def _describe_rejected(rejected: Rejected, day: str) -> tuple[str, str] | None:
    """A description of a review's false or late finding."""
    finding = rejected.finding
    what = f"{_code(finding.path)}: {_code(finding.title)}"
    if rejected.cause in _WRONG:
        why = f"{_WRONG[rejected.cause]}, {_code(rejected.reason)}"
        return what, f"{what} {why}{_on(day)}."
    if rejected.cause == "settled" and finding.severity == "medium":
        return what, f"{what} was seen only after a complete review had passed it{_on(day)}."
    if rejected.cause == "unverified" and rejected.finding.reported_by:
        name = _code(name_of_finding(finding.rule, finding.title))
        by = ", ".join(map(_code, finding.reported_by))
        return what, f"{what} ({name}) was reported by {by} without its text in the file{_on(day)}."
    return None


def _on(day: str) -> str:
    return f" ({day})" if day else ""


def _code(text: str) -> str:
    """A text as one line in code font, from which no part of it can break out."""
    plain = "".join(char if char.isprintable() else " " for char in text.replace("`", "'"))
    plain = " ".join(plain.split())
    short = plain if len(plain) <= MAX_TEXT else f"{plain[: MAX_TEXT - 3]}..."
    return f"`{short}`" if short else "`?`"
