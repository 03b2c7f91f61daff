"""What people did with findings of past reviews: fixed, merged, dismissed or answered them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from orchestrator.app.memory.past_reviews import PastReviews, find_outcomes
from orchestrator.app.memory.suggested_entries import read_memory
from orchestrator.catalog.repository_memory import DismissalFile
from orchestrator.catalog.yaml_validation import read_yaml
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.data_directories import DISMISSED, OVERLAY
from orchestrator.tuning.file_formats.item_files import name_run_group
from orchestrator.tuning.labels.feedback_rate import USEFUL, Feedback, Signal


def collect_feedback(
    repo: Path | None, reviews: PastReviews, answers: Sequence[tuple[str, Signal]] = ()
) -> tuple[list[Feedback], str]:
    """Every finding of the reviews once, and why the base branch gives no signal.

    Of several signals the clearest counts: what a person said before what a person did.
    """
    outcomes, why = anyio.run(find_outcomes, repo or Path(), reviews.verdicts)
    days = {one.identity: one.day for one in outcomes}
    signals: dict[str, set[Signal]] = {}
    for one in outcomes:
        signals.setdefault(one.identity, set()).add(one.outcome)
    for identity, answer in answers:
        signals.setdefault(identity, set()).add(answer)
    for identity in _read_dismissed(repo):
        signals.setdefault(identity, set()).add("dismissed")
    for identity, given in reviews.feedback.items():
        signal: Signal = "marked-fixed" if given.said == "fixed" else given.said
        signals.setdefault(identity, set()).add(signal)
        days.setdefault(identity, given.at[:10])
    found: dict[str, tuple[Verdict, Finding]] = {}
    for review in reviews.verdicts:
        for finding in review.verdict.findings:
            found.setdefault(finding.identity, (review.verdict, finding))
    return [
        _describe(verdict, finding, signals, days.get(identity, ""))
        for identity, (verdict, finding) in found.items()
    ], why


def _read_dismissed(repo: Path | None) -> set[str]:
    """The fingerprints that the memory in the work tree has as dismissed."""
    name = f"{OVERLAY}/{DISMISSED}"
    text = read_memory(repo).get(name, "")
    if not text.strip():
        return set()
    entries = read_yaml(DismissalFile, text.encode(), name).dismissed
    return {one.fingerprint for one in entries if one.fingerprint}


def _describe(
    verdict: Verdict, finding: Finding, signals: Mapping[str, set[Signal]], day: str
) -> Feedback:
    known = signals.get(finding.identity, set()) | signals.get(finding.fingerprint, set())
    place = f"{finding.path}:{finding.start_line}"
    lines = (f"{finding.severity}: {finding.title}", place, finding.evidence.quote, finding.detail)
    return Feedback(
        finding.identity,
        name_run_group("", verdict.change.base, verdict.change.head),
        "\n".join(filter(None, lines)),
        next((signal for signal in USEFUL if signal in known), None),
        day,
    )
