"""Where a rubric and people disagree: item by item, and criterion by criterion."""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.rubric_scoring import Given
from orchestrator.engine.types import Criterion, Rubric
from orchestrator.tuning.file_formats.item_files import Item, describe_seen_groups, unique_items
from orchestrator.tuning.fitting.ordinal_regression import Bools
from orchestrator.tuning.labels.label_files import Label, Scale, Value, infer_scale
from orchestrator.tuning.rubric_decisions import decide_item
from orchestrator.tuning.statistics import agreement, confidence_intervals
from orchestrator.tuning.statistics.confidence_intervals import Interval
from orchestrator.tuning.training_data import MIN_CLASS_ITEMS, MIN_LABELS, TrainingData

MIN_KAPPA = 0.4
"""A rubric is trusted when the 95% interval of its kappa with people is above this, and not trusted
when it is below."""
CRITERION_CUT = 0.5
"""The score from which a criterion counts as met, to compare it with people's accept or reject."""


class CriterionView(Struct, frozen=True):
    """One criterion of an item on which rubric and person disagree.

    Attributes:
        reason: the judge's, empty when unknown.
        label: the person's label of this criterion; None without one.
        agrees: whether score and label are on the same side; None where either is missing.
    """

    id: str
    score: Given
    reason: str
    label: Value | None
    agrees: bool | None


class Disagreement(Struct, frozen=True):
    """A label that the rubric's decision contradicts.

    Attributes:
        accepted: the rubric's decision; people's is the opposite.
        total: None where nothing counts.
        confidence: distance of the total from the threshold, as a share of the greatest possible
            one on its side; 1 for a blocker.
        history: the same person's earlier labels of the item, oldest first.
    """

    item: str
    group: str
    url: str
    text: str
    accepted: bool
    total: float | None
    confidence: float
    blocked_by: tuple[str, ...]
    rater: str
    label: Value
    note: str
    at: str
    history: tuple[Value, ...]
    criteria: tuple[CriterionView, ...]


class CriterionAgreement(Struct, frozen=True):
    """Agreement of one criterion's scores with people's labels of that criterion.

    Attributes:
        labels: labels that have a score to compare with.
        unscored: labels of items that the judge gave no score.
        false_accepts: share of what people reject that the score accepts.
        false_rejects: share of what people accept that the score rejects.
        auc: how well the scores rank what people accept above what they reject; high with many
            errors means that the levels are in the right order but people draw the line elsewhere.
        shared_items, alpha: people among themselves, on items with two or more raters.
    """

    id: str
    labels: int
    unscored: int
    raters: int
    false_accepts: Interval | None
    false_rejects: Interval | None
    kappa: Interval | None
    auc: Interval | None
    shared_items: int
    alpha: Interval | None


class DisagreementReport(Struct, frozen=True):
    """Disagreements of a rubric with people, the most confident first.

    Attributes:
        agreed, expected: share of labels on which both agree, and the share by chance alone.
        kappa: None for a single class.
        too_few: why the labels are too few to tell anything, empty when they are not.
        revised: labels that replace an earlier one of the same person.
        in_sample: a warning that the rubric was tuned on these items; empty where it was not.
    """

    name: str
    version: int
    items: int
    labels: int
    agreed: float
    expected: float
    kappa: Interval | None
    too_few: str
    revised: int
    disagreements: tuple[Disagreement, ...]
    criteria: tuple[CriterionAgreement, ...]
    in_sample: str

    @property
    def is_trusted(self) -> bool | None:
        """Whether the rubric decides as people do; None when the labels cannot tell."""
        return None if self.too_few else decide_trust(self.kappa)

    def plain_sentence(self) -> str:
        """The result for a reader who knows no statistics."""
        text = f"{name_trust(self.is_trusted)}: the rubric agrees with {self.agreed:.0%} of labels"
        if self.expected < 1:
            text += f", where chance alone would give {self.expected:.0%}"
        return f"{text}; {self.too_few}" if self.too_few else text


def name_trust(trusted: bool | None) -> str:
    """The outcome in words."""
    return {True: "Trusted", False: "Not trusted", None: "Cannot tell"}[trusted]


def decide_trust(kappa: Interval | None) -> bool | None:
    """True where the interval is above ``MIN_KAPPA``, False where below, None where neither."""
    if kappa is None:
        return None
    if kappa.low >= MIN_KAPPA:
        return True
    return False if kappa.high < MIN_KAPPA else None


def find_disagreements(
    rubric: Rubric, data: TrainingData, labels: list[Label], accept_at: float | None = None
) -> DisagreementReport:
    """Compare a rubric with labels, item by item and criterion by criterion.

    Args:
        data: of these labels.
        accept_at: the lowest number that means accept; None for 3 on a scale of 1 to 5.

    Raises:
        InputError: labels of a criterion that mix scales.
    """
    s = data.sample
    decided = np.array([decide_item(rubric, item).accepted for item in data.items])[s.item]
    table = agreement.confusion_matrix(s.accept.astype(int), decided.astype(int), 2, s.weight)
    share = table / table.sum()
    by_id, scales = {item.id: item for item in data.items}, _infer_scales(labels, accept_at)
    found = [
        _describe(rubric, by_id[label.item], label, bool(accepted), scales)
        for label, accepted, people in zip(labels, decided, s.accept, strict=True)
        if accepted != people
    ]
    return DisagreementReport(
        name=rubric.name,
        version=rubric.version,
        items=len(data.items),
        labels=len(labels),
        agreed=float(np.trace(share)),
        expected=float(share.sum(axis=1) @ share.sum(axis=0)),
        kappa=confidence_intervals.measure_kappa(s.accept, decided, s.weight, s.group),
        too_few=_find_shortage(len(data.items), s.minority_items),
        revised=sum(bool(label.previous) for label in labels),
        disagreements=tuple(sorted(found, key=lambda d: (-d.confidence, d.item, d.rater))),
        criteria=tuple(measure_criteria(rubric, data.items, labels, accept_at)),
        in_sample=describe_seen_groups(rubric, data.items),
    )


def _find_shortage(items: int, minority: float) -> str:
    if items < MIN_LABELS:
        return f"{items} labeled items are too few, label at least {MIN_LABELS}"
    if minority < MIN_CLASS_ITEMS:
        return f"{minority:g} items of the rarer label are too few, at least {MIN_CLASS_ITEMS}"
    return ""


def _infer_scales(labels: list[Label], accept_at: float | None) -> dict[str, Scale]:
    """The scale of each criterion that people labeled."""
    named: dict[str, list[Label]] = {}
    for label in (y for x in labels for y in (*x.overruled, x)):
        for criterion, value in label.criteria.items():
            named.setdefault(criterion, []).append(replace(label, label=value))
    return {criterion: infer_scale(own, accept_at) for criterion, own in named.items()}


def _describe(
    rubric: Rubric, item: Item, label: Label, accepted: bool, scales: Mapping[str, Scale]
) -> Disagreement:
    card = decide_item(rubric, item)
    return Disagreement(
        item=item.id,
        group=item.group,
        url=item.url,
        text=item.text,
        accepted=accepted,
        total=card.total,
        confidence=1.0 if card.is_rejected else _margin(card.total, rubric.threshold),
        blocked_by=card.blocked_by,
        rater=label.rater,
        label=label.label,
        note=label.note,
        at=label.at,
        history=tuple(earlier.label for earlier in label.previous),
        criteria=tuple(_view(c, item, label, scales.get(c.id)) for c in rubric.criteria),
    )


def _margin(total: float | None, threshold: float) -> float:
    if total is None:
        return 0.0
    room = 1.0 - threshold if total >= threshold else threshold
    return abs(total - threshold) / room if room > 0 else 0.0


def _view(criterion: Criterion, item: Item, label: Label, scale: Scale | None) -> CriterionView:
    score, mark = item.scores.get(criterion.id), label.criteria.get(criterion.id)
    met, agrees = is_met(criterion, score), None
    if scale is not None and met is not None and mark is not None:
        agrees = met == (scale.accepts(mark))
    return CriterionView(criterion.id, score, item.reasons.get(criterion.id, ""), mark, agrees)


def is_met(criterion: Criterion, score: Given) -> bool | None:
    """Whether a score speaks for accepting; None without a score. A penalty's is reversed."""
    if not isinstance(score, float):
        return None
    return score >= CRITERION_CUT if criterion.weight >= 0 else score < CRITERION_CUT


def measure_criteria(
    rubric: Rubric, items: Iterable[Item], labels: list[Label], accept_at: float | None
) -> list[CriterionAgreement]:
    """Agreement of each criterion that people labeled, in the rubric's order.

    Args:
        accept_at: the lowest number that means accept; None for 3 on a scale of 1 to 5.

    Raises:
        InputError: the labels of a criterion mix scales.
    """
    by_id = {item.id: item for item in unique_items(items)}
    scales, out = _infer_scales(labels, accept_at), []
    for criterion in rubric.criteria:
        own = [
            replace(label, label=label.criteria[criterion.id])
            for given in labels
            for label in (*given.overruled, given)
            if criterion.id in label.criteria and label.item in by_id
        ]
        if own:
            out.append(_measure_criterion(criterion, by_id, own, scales[criterion.id]))
    return out


def _measure_criterion(
    criterion: Criterion, items: Mapping[str, Item], labels: list[Label], scale: Scale
) -> CriterionAgreement:
    people = np.array([scale.accepts(x.label) for x in labels])
    scored = [is_met(criterion, items[x.item].scores.get(criterion.id)) for x in labels]
    rows = np.array([met is not None for met in scored])
    y, met = people[rows], np.array([met for met in scored if met is not None], dtype=bool)
    used = [x.item for x, there in zip(labels, rows, strict=True) if there]
    times = Counter(used)
    group = confidence_intervals.number_groups(items[i].group for i in used)
    weight = np.array([1.0 / times[i] for i in used])
    score = np.array([float(items[i].scores[criterion.id] or 0.0) for i in used])
    signed = score if criterion.weight >= 0 else -score
    shared, alpha = _agree_among_people(labels, items, people)
    return CriterionAgreement(
        id=criterion.id,
        labels=int(rows.sum()),
        unscored=int((~rows).sum()),
        raters=len({x.rater for x in labels}),
        false_accepts=confidence_intervals.mean_rate(met[~y], weight[~y], group[~y]),
        false_rejects=confidence_intervals.mean_rate(~met[y], weight[y], group[y]),
        kappa=confidence_intervals.measure_kappa(y, met, weight, group),
        auc=confidence_intervals.jackknife_interval(
            agreement.roc_auc_by_weight(signed, y), weight, group
        ),
        shared_items=shared,
        alpha=alpha,
    )


def _agree_among_people(
    labels: list[Label], items: Mapping[str, Item], people: Bools
) -> tuple[int, Interval | None]:
    """Items with two or more raters, and Krippendorff's alpha on them."""
    names, raters = (sorted({getattr(x, key) for x in labels}) for key in ("item", "rater"))
    ratings = np.full((len(raters), len(names)), np.nan)
    for label, accepted in zip(labels, people, strict=True):
        ratings[raters.index(label.rater), names.index(label.item)] = accepted
    twice = (~np.isnan(ratings)).sum(axis=0) >= 2
    if not twice.any():
        return 0, None
    group = confidence_intervals.number_groups(items[n].group for n in names)[twice]
    both = ratings[:, twice]
    alpha = confidence_intervals.jackknife_interval(
        lambda w: agreement.krippendorff_alpha(both[:, w > 0], "nominal"),
        np.ones(int(twice.sum())),
        group,
        ratings=both,
    )
    return int(twice.sum()), alpha
