"""Lint of a rubric: criteria that a judge or people cannot score well, and what to do about each.

Wording is judged by word lists, so that a report is precise rather than complete; what the scores
and labels show is reported only where an interval is clear of chance.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from orchestrator.data_directories import read_table
from orchestrator.engine.types import Criterion, Rubric
from orchestrator.tuning.file_formats.item_files import Item, unique_items
from orchestrator.tuning.fitting.ordinal_regression import Floats, Ints
from orchestrator.tuning.labels.disagreements import measure_criteria
from orchestrator.tuning.labels.label_assessment import MIN_ALPHA
from orchestrator.tuning.labels.label_files import Label
from orchestrator.tuning.statistics import agreement
from orchestrator.tuning.statistics.confidence_intervals import (
    Interval,
    format_statistic,
    jackknife_interval,
    number_groups,
)
from orchestrator.tuning.training_data import MIN_LABELS, TrainingData, score_matrix

Kind = Literal[
    "double-barreled", "overlapping", "unanchored", "not discriminating", "raters disagree"
]
MIN_SHARED_WORDS = 3
SAME_WORDS = 0.5
"""Share of all words of two descriptions that both have, from which they overlap."""
SAME_SCORES = 0.8
"""Absolute correlation of two criteria's scores above which their whole interval must lie."""
CONSTANT_SHARE = 0.98
"""Share of items with the same score from which a criterion does not discriminate."""
_COMMON_CRITERIA, _COMMON_SHARE = 3, 0.05
"""A word in more criteria, and in a greater share of all, is the rubric's subject."""
_LONG = 12
_CHANCE = (0.4, 0.6)
_MIN_SHARED_ITEMS = 5

_FINDINGS: Mapping[str, Mapping[str, Any]] = read_table(__file__, "rubric_lint_findings.yaml")
_QUALITY, _VERB, _VAGUE, _FILLER = (
    frozenset(words.split()) for words in read_table(__file__, "rubric_lint_words.yaml").values()
)
_BASE = [v[:-3] + "y" if v.endswith("ies") else v[:-1] for v in _VERB] + ["address"]
_ADVERB = [word[:-1] + "ily" if word.endswith("y") else word + "ly" for word in _QUALITY]
_ANY_QUALITY = "|".join(sorted([*_QUALITY, *_ADVERB], key=len, reverse=True))
_ANY_VERB = "|".join(sorted([*_VERB, *_BASE], key=len, reverse=True))
_JOIN = r"(?:\s*,\s*(?:and|or)?\s*|\s+(?:and|or|as well as|and also)\s+|\s*/\s*)"
_TWO_QUALITIES = re.compile(rf"\b({_ANY_QUALITY}){_JOIN}({_ANY_QUALITY})\b", re.IGNORECASE)
_TWO_CLAUSES = re.compile(
    r"\b(?:and|or)\s+(?:also\s+)?(is|are|does|do|has|have|can|could|should|will|would|whether|how|why)\b",
    re.IGNORECASE,
)
_TWO_VERBS = re.compile(
    rf"\b({_ANY_VERB})\b[^.;:?]*?\band\s+(?:also\s+|then\s+)?({_ANY_VERB})\b", re.IGNORECASE
)


class LintFinding(Struct, frozen=True):
    """One defect of a rubric.

    Attributes:
        criteria: the ids that it is about.
        what: what is wrong, and how one sees it.
        advice: what to do.
    """

    kind: Kind
    criteria: tuple[str, ...]
    what: str
    advice: str


def _finding(key: str, *criteria: str, **values: object) -> LintFinding:
    """The finding of a row in ``rubric_lint_findings.yaml``."""
    row = _FINDINGS[key]
    return LintFinding(row["kind"], criteria, row["what"].format(**values), row["advice"])


class LintReport(Struct, frozen=True):
    """The findings of a lint, those of wording first.

    Attributes:
        unchecked: what could not be looked at, and what it takes.
    """

    name: str
    criteria: int
    findings: tuple[LintFinding, ...]
    unchecked: tuple[str, ...]


def lint_rubric(
    rubric: Rubric,
    items: list[Item],
    labels: list[Label],
    data: TrainingData | None,
    accept_at: float | None = None,
) -> LintReport:
    """Lint a rubric, by its wording and by what items and labels show.

    Args:
        items: may be empty.
        labels: of these items; may be empty.
        data: items and labels joined; None without labels.
        accept_at: the lowest number that means accept; None for 3 on a scale of 1 to 5.
    """
    judged = [c for c in rubric.criteria if c.kind == "judged"]
    findings = [
        *_find_double_barreled(judged),
        *_find_same_words(rubric.criteria),
        *_find_unanchored(judged),
    ]
    unchecked = []
    every = unique_items(items)
    if len(every) >= MIN_LABELS:
        findings += _check_scores(rubric, every)
    else:
        unchecked.append(f"the scores: give at least {MIN_LABELS} ITEMS")
    if data is not None and len(data.items) >= MIN_LABELS:
        findings += _find_chance(rubric, data)
    else:
        unchecked.append(f"the labels: label at least {MIN_LABELS} items")
    agreed = [c for c in measure_criteria(rubric, items, labels, accept_at) if c.alpha is not None]
    for found in agreed:
        alpha = found.alpha
        if alpha is not None and alpha.high < MIN_ALPHA and found.shared_items >= _MIN_SHARED_ITEMS:
            told = {"shared": found.shared_items, "alpha": alpha.format()}
            findings.append(_finding("disagree", found.id, **told))
    if not agreed:
        unchecked.append(
            "agreement of people per criterion: let two label the same items with --criteria"
        )
    return LintReport(rubric.name, len(rubric.criteria), tuple(findings), tuple(unchecked))


def _find_double_barreled(criteria: Iterable[Criterion]) -> Iterator[LintFinding]:
    """Judged criteria that ask two things, so that no level fits where the answers differ."""
    for criterion in criteria:
        text = criterion.description
        joined = ""
        if text.count("?") > 1:
            joined = f"{text.count('?')} questions"
        elif (found := _TWO_QUALITIES.search(text)) or (found := _TWO_VERBS.search(text)):
            joined = f"{found[1]!r} and {found[2]!r}"
        elif found := _TWO_CLAUSES.search(text):
            joined = f"two things, joined by {found[0]!r}"
        if joined:
            yield _finding("two_things", criterion.id, joined=joined)


def _find_same_words(criteria: Sequence[Criterion]) -> Iterator[LintFinding]:
    words = {c.id: _content_words(c.description) for c in criteria}
    counts = Counter(word for own in words.values() for word in own)
    most = max(_COMMON_CRITERIA, _COMMON_SHARE * len(words))
    words = {name: {w for w in own if counts[w] <= most} for name, own in words.items()}
    for one, other in combinations(words, 2):
        shared, every = words[one] & words[other], words[one] | words[other]
        # Long texts that differ both ways say the same of different things, as of two data sets.
        parallel = len(every) >= _LONG and bool(words[one] - shared) and bool(words[other] - shared)
        alike = len(shared) >= MIN_SHARED_WORDS and len(shared) / len(every) >= SAME_WORDS
        if alike and not parallel:
            yield _finding("same_words", one, other, words=", ".join(sorted(shared)[:5]))


def _content_words(text: str) -> set[str]:
    """The words that carry meaning, without the commonest endings."""
    words = re.findall(r"[a-z]+", text.lower())
    return {re.sub(r"(ing|ed|es|s|ly)$", "", w) or w for w in words if w not in _FILLER}


def _find_unanchored(criteria: Iterable[Criterion]) -> Iterator[LintFinding]:
    for criterion in criteria:
        texts = [level.description for level in criterion.levels]
        vague = [text for text in texts if set(re.findall(r"[a-z]+", text.lower())) <= _VAGUE]
        doubles = {text for text in texts if texts.count(text) > 1}
        if vague or doubles:
            text = vague[0] if vague else min(doubles)
            fault = "says nothing observable" if vague else "appears at two levels"
            yield _finding("unanchored", criterion.id, text=text, fault=fault)


def _check_scores(rubric: Rubric, items: list[Item]) -> Iterator[LintFinding]:
    """Criteria that hardly vary (as a blocker should), and pairs that vary together."""
    ids = tuple(c.id for c in rubric.criteria)
    scores, group = score_matrix(rubric, items, ids), number_groups(i.group for i in items)
    blockers = {c.id for c in rubric.criteria if c.blocker}
    varying = []
    for n, name in enumerate(ids):
        own = scores[~np.isnan(scores[:, n]), n]
        if own.size < MIN_LABELS:
            continue
        values, counts = np.unique(own, return_counts=True)
        if counts.max() / own.size < CONSTANT_SHARE:
            varying.append(n)
        elif name not in blockers:
            value = format_statistic(float(values[counts.argmax()]))
            told = {"value": value, "count": counts.max(), "size": own.size}
            yield _finding("constant", name, **told)
    for a, b in combinations(varying, 2):
        found = _correlate(scores[:, a], scores[:, b], group)
        if found is None:
            continue
        same = 1.0 - abs(found.value) < 1e-9
        if same or max(found.low, -found.high) > SAME_SCORES:
            both = int((~np.isnan(scores[:, [a, b]])).all(axis=1).sum())
            key = "same_everywhere" if same else "same_scores"
            yield _finding(key, ids[a], ids[b], both=both, found=found.format())


def _correlate(one: Floats, other: Floats, group: Ints) -> Interval | None:
    """The correlation of two criteria on the items that have both scores."""
    rows = ~np.isnan(one) & ~np.isnan(other)
    if int(rows.sum()) < MIN_LABELS:
        return None
    a, b = one[rows], other[rows]

    def statistic(weight: Floats) -> float | None:
        weighed = weight > 0
        x, y = a[weighed], b[weighed]
        if x.std() == 0 or y.std() == 0:
            return None
        return float(np.corrcoef(x, y)[0, 1])

    # From -1 to 1, twice as wide as a rate.
    return jackknife_interval(statistic, np.ones(int(rows.sum())), group[rows], 0.5)


def _find_chance(rubric: Rubric, data: TrainingData) -> Iterator[LintFinding]:
    """Criteria whose scores surely tell accepted items from rejected ones no better than chance."""
    ids = tuple(c.id for c in rubric.criteria if not c.blocker)
    scores = score_matrix(rubric, list(data.items), ids)[data.sample.item]
    for n, name in enumerate(ids):
        rows = ~np.isnan(scores[:, n])
        x, y = scores[rows, n], data.sample.accept[rows]
        weight, group = data.sample.weight[rows], data.sample.group[rows]
        if x.size < MIN_LABELS or np.unique(x).size < 2:
            continue
        found = jackknife_interval(agreement.roc_auc_by_weight(x, y), weight, group)
        if found is not None and found.low > _CHANCE[0] and found.high < _CHANCE[1]:
            yield _finding("chance", name, auc=found.format())
