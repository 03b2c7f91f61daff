"""What people did with findings, as labels that nobody was asked for, corrected by experts' labels.

Who fixes a finding need not have found it useful, and who merges it may have had no time. So these
labels are a weaker source of their own: they never mix with people's labels, and their rate is
corrected like a judge's (``corrected_rate``).
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.tuning.labels.corrected_rate import CorrectedRate, correct_rate, describe_share
from orchestrator.tuning.labels.disagreements import name_trust
from orchestrator.tuning.labels.label_files import Label, infer_scale
from orchestrator.tuning.statistics.confidence_intervals import (
    Interval,
    number_groups,
    simple_interval,
)

Signal = Literal[
    "dismissed", "disliked", "liked", "not-useful", "useful", "fixed", "marked-fixed",
    "resolved", "merged",
]  # fmt: skip
USEFUL: Mapping[Signal, bool] = {
    "dismissed": False, "disliked": False, "liked": True, "not-useful": False, "useful": True,
    "fixed": True, "marked-fixed": True, "resolved": False, "merged": False,
}  # fmt: skip
"""Whether the finding was of use, by what a person did; what was said most clearly is first."""


class Feedback(Struct, frozen=True):
    """A finding and what a person did with it.

    Attributes:
        id: the finding's identity in all reviews of its change.
        group: unit of resampling, the change.
        signal: None where nothing is known.
        at: day of the signal, YYYY-MM-DD, empty when unknown.
    """

    id: str
    group: str
    text: str
    signal: Signal | None
    at: str = ""

    def to_row(self) -> dict[str, Any]:
        """The finding as an item for ``diffcourt label``, without the signal."""
        row = {"id": self.id, "group": self.group, "scores": {}, "text": self.text, "at": self.at}
        return {key: value for key, value in row.items() if value or key == "scores"}


class SignalSummary(Struct, frozen=True):
    """One signal: how many findings have it, and how far experts agree.

    Attributes:
        useful: what the signal is taken for.
        labeled: findings of this signal that experts labeled.
        agreement: share of these that the experts see the same way; None without any.
    """

    signal: Signal
    useful: bool
    findings: int
    labeled: int
    agreement: Interval | None


class FeedbackReport(Struct, frozen=True):
    """What people did with findings, and what experts make of it.

    Attributes:
        unknown: findings of which nothing is known; they do not count.
        unused_labels: labels of such findings, or of findings that no run has.
        rate: share of useful findings; None without labels.
    """

    findings: int
    unknown: int
    unused_labels: int
    signals: tuple[SignalSummary, ...]
    rate: CorrectedRate | None

    @property
    def is_trusted(self) -> bool | None:
        """Whether what people do tells what experts would say; None when labels cannot tell."""
        return None if self.rate is None else self.rate.is_trusted

    def plain_sentence(self) -> str:
        """The result for a reader who knows no statistics."""
        known = self.findings - self.unknown
        useful = sum(s.findings for s in self.signals if s.useful)
        if not known:
            return f"{name_trust(self.is_trusted)}: nobody has acted on a finding of these runs yet"
        text = f"{name_trust(self.is_trusted)}: by what people did, {useful / known:.0%} of "
        text += f"{known:,} findings were useful"
        if self.rate is None:
            return f"{text}; let experts label some to correct it"
        return f"{text}; experts would say {describe_share(self.rate.corrected)}"


def measure_feedback(
    found: list[Feedback],
    labels: list[Label],
    accept_at: float | None = None,
    assume_random: bool = False,
) -> FeedbackReport:
    """Compare what people did with experts' labels of some of the findings.

    Args:
        labels: experts accept a finding that is useful; may be empty.
        accept_at: the lowest number that means accept; None for 3 on a scale of 1 to 5.
        assume_random: the labeled findings are a random sample, although that is not recorded.
    """
    known = [one for one in found if one.signal is not None]
    at = {one.id: n for n, one in enumerate(known)}
    used = [label for label in labels if label.item in at]
    votes: dict[int, list[bool]] = {}
    if used:
        scale = infer_scale(used, accept_at)
        for label in used:
            votes.setdefault(at[label.item], []).append(scale.accepts(label.label))
    people = np.array([np.mean(votes.get(n, [np.nan])) for n in range(len(known))])
    group = number_groups(one.group for one in known)
    useful = np.array([one.signal is not None and USEFUL[one.signal] for one in known], dtype=bool)
    rate = correct_rate(useful, people, group) if used else None
    undrawn = {x.item for x in used if not x.drawn} if len(votes) < len(known) else set()
    if rate is not None and not assume_random:
        rate = replace(rate, not_drawn=len(undrawn))
    summaries = []
    for signal, value in USEFUL.items():
        own = np.array([one.signal == signal for one in known], dtype=bool)
        rows = own & ~np.isnan(people) if known else own
        if not own.any():
            continue
        same = people[rows] if value else 1.0 - people[rows]
        agreement = simple_interval(same, group[rows]) if rows.any() else None
        counts = int(own.sum()), int(rows.sum())
        summaries.append(SignalSummary(signal, value, *counts, agreement))
    return FeedbackReport(
        len(found), len(found) - len(known), len(labels) - len(used), tuple(summaries), rate
    )
