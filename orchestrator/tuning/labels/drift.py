"""Drift: whether judge and people have come apart over time, and which of them has changed."""

import math
from collections.abc import Mapping
from datetime import datetime

import numpy as np
from msgspec import Struct

from orchestrator.data_directories import read_table
from orchestrator.engine.types import Rubric
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import Item, describe_seen_groups, unique_items
from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats, Ints
from orchestrator.tuning.judge_reliability import measure_repeated_scoring
from orchestrator.tuning.labels.anchors import (
    FALL,
    LEVEL,
    NOISE,
    AnchorSet,
    advise_anchors,
    find_power,
    paired_change,
    parse_time,
)
from orchestrator.tuning.labels.disagreements import name_trust
from orchestrator.tuning.labels.label_files import Label, Scale
from orchestrator.tuning.rubric_decisions import decide_item
from orchestrator.tuning.statistics.confidence_intervals import (
    Interval,
    cluster_variance,
    mean_rate,
    number_groups,
    t_quantile,
)
from orchestrator.wording import count_noun

MAX_PERIODS = 12
"""Months that are listed, the newest."""
_MAX_NOISE = 0.25
_SENTENCES: Mapping[str, str] = read_table(__file__, "sentences.yaml")


class Period(Struct, frozen=True):
    """Sensitivity and specificity of the judge on the labels of one month, ``2026-11``."""

    month: str
    labels: int
    sensitivity: Interval | None
    specificity: Interval | None


class Drift(Struct, frozen=True):
    """What has changed since a time; a change is now minus before, with a 97.5% interval.

    Attributes:
        since: the time, ISO 8601.
        untimed: labels without a time, which are not used.
        periods: labels of items that are no anchors, by month.
        accepted_anchors, rejected_anchors: anchors scored again that people accept, or reject.
        sensitivity, specificity: change of the judge on the anchors; None without anchors.
        relabeled: anchors that people labeled again since they were frozen.
        leniency: change of the share of these anchors that people accept.
        newer: labels of items that are no anchors, since the time.
        new_sensitivity, new_specificity: change from the frozen anchors, as they were decided then,
            and earlier items, to these newer ones.
        in_sample: a warning that the rubric was tuned on these items; empty where it was not.
        noise: share of decisions that the judge changes each way without drifting.
        advised: anchors of each label that find a fall of 10 points with a power of 90%.
        power: the present anchors' power, of the label with fewer.
    """

    since: str
    untimed: int
    periods: tuple[Period, ...]
    anchors: int
    accepted_anchors: int
    rejected_anchors: int
    sensitivity: Interval | None
    specificity: Interval | None
    relabeled: int
    leniency: Interval | None
    newer: int
    new_sensitivity: Interval | None
    new_specificity: Interval | None
    in_sample: str
    noise: float
    advised: int
    power: float

    @property
    def has_judge_drifted(self) -> bool | None:
        """Whether the judge has become worse on the anchors; None when they cannot tell."""
        return _tell_fall(self.sensitivity, self.specificity)

    @property
    def have_reviewers_drifted(self) -> bool | None:
        """Whether people judge the anchors otherwise than before; None when they cannot tell."""
        found = self.leniency
        if found is None or math.isnan(found.low):
            return None
        if found.low > 0 or found.high < 0:
            return True
        return False if found.low >= -FALL and found.high <= FALL else None

    @property
    def is_trusted(self) -> bool | None:
        """Whether the judge still decides as people do; None when the labels cannot tell."""
        apart = _tell_fall(self.new_sensitivity, self.new_specificity)
        if self.has_judge_drifted or self.have_reviewers_drifted or apart:
            return False
        return True if self.has_judge_drifted is False and apart is False else None

    def plain_sentence(self) -> str:
        """The result for a reader who knows no statistics."""
        return f"{name_trust(self.is_trusted)}: {self._explain()}"

    def _explain(self) -> str:
        if self.has_judge_drifted:
            return _SENTENCES["judge_changed"]
        if self.have_reviewers_drifted:
            more = self.leniency is not None and self.leniency.value > 0
            return _SENTENCES["reviewers_changed"].format("more" if more else "fewer")
        if _tell_fall(self.new_sensitivity, self.new_specificity):
            if self.has_judge_drifted is None:
                anchors = "the anchors, scored again," if self.anchors else "anchors"
                who = _SENTENCES["anchors_would_tell"].format(anchors)
            else:
                unknown = self.have_reviewers_drifted is None
                who = _SENTENCES["judge_as_before" if unknown else "both_as_before"]
            return _SENTENCES["agree_less"].format(who)
        if self.has_judge_drifted is False:
            newer = _SENTENCES["still_on_newer" if self.is_trusted else "newer_cannot_tell"]
            return _SENTENCES["still"] + newer.format(count_noun(self.newer, "label"))
        if self.anchors and not self.accepted_anchors + self.rejected_anchors:
            return _SENTENCES["anchors_not_scored"].format(self.anchors)
        return _SENTENCES["none_seen"].format(self)


def _tell_fall(*changes: Interval | None) -> bool | None:
    """Whether one of some rates has fallen; None when one is unknown or may have by 10 points."""
    known = [c for c in changes if c is not None and not math.isnan(c.low)]
    if any(c.high < 0 for c in known):
        return True
    return False if len(known) == len(changes) and all(c.low > -FALL for c in known) else None


class _Rows(Struct, frozen=True):
    """Timed decisions of judge and people, (n,): labels, and what was frozen of the anchors."""

    judge: Bools
    people: Bools
    group: Ints
    time: tuple[datetime, ...]
    anchored: Bools
    frozen: Bools

    @property
    def listed(self) -> Bools:
        """(n,) labels of items that are no anchors."""
        return ~self.anchored & ~self.frozen

    def compare(self, late: Bools, accepted: bool) -> Interval | None:
        """The change of sensitivity or specificity to the newer items."""
        side = (self.people == accepted) & ~self.anchored
        right = (self.judge == accepted).astype(float)
        return _difference(right, self.group, side & ~late, side & late)


def measure_drift(
    rubric: Rubric,
    items: list[Item],
    labels: list[Label],
    scale: Scale,
    anchors: AnchorSet | None = None,
    since: str = "",
) -> Drift:
    """Compare judge and people before and after a time.

    Args:
        items: with the present scorings of the anchors.
        labels: of anchors and other items; the item's time counts for a label without one.
        anchors: None where none were frozen.
        since: ISO 8601; by default the time at which the anchors were frozen, else the time of the
            middle label.

    Raises:
        InputError: a time is invalid, or no label has one.
    """
    every = {item.id: item for item in unique_items(items)}
    rows, untimed = _read_rows(rubric, every, labels, scale, anchors)
    start = since or (anchors.at if anchors else "")
    cut = parse_time(start, "--since") if start else sorted(rows.time)[len(rows.time) // 2]
    late = np.array([time >= cut for time in rows.time], dtype=bool) & rows.listed
    repeats = measure_repeated_scoring(rubric, items)
    noise = min(max(repeats.flip_rate / 2, 0.01), _MAX_NOISE) if repeats else NOISE
    sensitivity, yes = _judge_change(rubric, every, anchors, accepted=True)
    specificity, no = _judge_change(rubric, every, anchors, accepted=False)
    leniency, again = _people_change(every, labels, scale, anchors)
    return Drift(
        since=cut.isoformat(),
        untimed=untimed,
        periods=_list_periods(rows),
        anchors=len(anchors.anchors) if anchors else 0,
        accepted_anchors=yes,
        rejected_anchors=no,
        sensitivity=sensitivity,
        specificity=specificity,
        relabeled=again,
        leniency=leniency,
        newer=int(late.sum()),
        new_sensitivity=rows.compare(late, accepted=True),
        new_specificity=rows.compare(late, accepted=False),
        in_sample=describe_seen_groups(
            rubric, [every[x] for x in {x.item for x in labels} & every.keys()]
        ),
        noise=noise,
        advised=advise_anchors(noise),
        power=find_power(min(yes, no), noise),
    )


def _read_rows(
    rubric: Rubric,
    items: Mapping[str, Item],
    labels: list[Label],
    scale: Scale,
    anchors: AnchorSet | None,
) -> tuple[_Rows, int]:
    """The labels that have a time, then the frozen anchors; and the number of labels without."""
    timed = [(x, x.at or items[x.item].at) for x in labels if x.item in items]
    used = [(label, parse_time(at, label.location)) for label, at in timed if at]
    if not used and anchors is None:
        raise InputError("no label has a time ('at'), so nothing can be compared over time")
    known = anchors.anchors if anchors else {}
    groups = [items[x.item].group for x, _ in used]
    groups += [items[name].group if name in items else name for name in known]
    judge = [decide_item(rubric, items[x.item]).accepted for x, _ in used]
    people = [scale.accepts(x.label) for x, _ in used]
    frozen = [parse_time(anchors.at, "anchors")] * len(known) if anchors else []
    return _Rows(
        np.array(judge + [one.judge for one in known.values()], dtype=bool),
        np.array(people + [one.people for one in known.values()], dtype=bool),
        number_groups(groups),
        (*(time for _, time in used), *frozen),
        np.array([x.item in known for x, _ in used] + [False] * len(known), dtype=bool),
        np.arange(len(groups)) >= len(used),
    ), len(timed) - len(used)


def _list_periods(rows: _Rows) -> tuple[Period, ...]:
    months = np.array([f"{time:%Y-%m}" for time in rows.time])
    out = []
    for month in sorted(set(months[rows.listed]))[-MAX_PERIODS:]:
        own = (months == month) & rows.listed
        yes, no = own & rows.people, own & ~rows.people
        out.append(
            Period(
                str(month),
                int(own.sum()),
                mean_rate(rows.judge[yes], np.ones(int(yes.sum())), rows.group[yes]),
                mean_rate(~rows.judge[no], np.ones(int(no.sum())), rows.group[no]),
            )
        )
    return tuple(out)


def _difference(right: Floats, group: Ints, early: Bools, late: Bools) -> Interval | None:
    """The change of a rate between two sets of rows; None where one has fewer than three groups."""
    variance, means, counts = 0.0, [], []
    for rows in (early, late):
        groups = np.unique(group[rows]).size
        if groups < 3:
            return None
        n = float(rows.sum())
        mean = (right[rows].sum() + 1) / (n + 2)  # one hit and one miss more: not 0 where all agree
        by_group = cluster_variance(right[rows], np.ones(int(n)), group[rows])
        variance += max(by_group, float(mean * (1 - mean) / (n + 2)))
        means.append(float(right[rows].mean()))
        counts.append(groups)
    half = t_quantile(min(counts) - 1, LEVEL) * math.sqrt(variance)
    change = means[1] - means[0]
    return Interval(change, change - half, change + half)


def _judge_change(
    rubric: Rubric, items: Mapping[str, Item], anchors: AnchorSet | None, accepted: bool
) -> tuple[Interval | None, int]:
    """The judge's change on the anchors that people accept, or reject, and their number."""
    if anchors is None:
        return None, 0
    used = [
        name
        for name, anchor in anchors.anchors.items()
        if anchor.people == accepted and name in items and _is_newer(items[name], anchors.at)
    ]
    before = np.array([float(anchors.anchors[n].judge == accepted) for n in used])
    after = np.array([float(decide_item(rubric, items[n]).accepted == accepted) for n in used])
    return paired_change(before, after, number_groups(items[n].group for n in used)), len(used)


def _is_newer(item: Item, at: str) -> bool:
    """Whether an item is known to be scored after a time."""
    scored = item.scored_at or item.at
    return bool(scored) and parse_time(scored, item.location) > parse_time(at, "anchors")


def _people_change(
    items: Mapping[str, Item], labels: list[Label], scale: Scale, anchors: AnchorSet | None
) -> tuple[Interval | None, int]:
    """People's change on the anchors that were labeled again, and their number."""
    if anchors is None:
        return None, 0
    frozen = parse_time(anchors.at, "anchors")
    votes: dict[str, list[bool]] = {}
    for label in labels:
        if label.item not in anchors.anchors or label.item not in items or not label.at:
            continue
        if parse_time(label.at, label.location) > frozen:
            votes.setdefault(label.item, []).append(scale.accepts(label.label))
    used = list(votes)
    before = np.array([float(anchors.anchors[n].people) for n in used])
    after = np.array([float(np.mean(votes[n]) >= 0.5) for n in used])
    return paired_change(before, after, number_groups(items[n].group for n in used)), len(used)
