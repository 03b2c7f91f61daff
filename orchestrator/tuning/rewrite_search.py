"""Search for a better wording of one judged criterion, and prove it on groups it never saw.

    groups of labeled items  →  a training half and a held-out half
    training half            →  rounds: disagreements of a candidate → new wordings by a model, and
                                one by code: the same with corrections as examples → their scores
    the best of the pool     →  scored once on the held-out half, against the present wording

Candidates are chosen as in GEPA (https://arxiv.org/abs/2507.19457): the one to be rewritten next is
drawn from those that are best on some training item, so that the search does not follow one alone.
Only the one winner is looked at on the held-out half, so its interval needs no correction.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.catalog.yaml_parsing import UNPRINTABLE
from orchestrator.engine.rubric_scoring import CriterionMark
from orchestrator.engine.types import Criterion, Rubric, ScoredExample
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import Item, unique_items
from orchestrator.tuning.fitting.ordinal_regression import Bools, Floats
from orchestrator.tuning.labels.label_files import Label, Scale, infer_scale
from orchestrator.tuning.rubric_comparison import (
    ComparedRubric,
    LabeledRows,
    RubricComparison,
    build_rows,
    compare_sides,
)
from orchestrator.tuning.rubric_decisions import Objective, decide_item
from orchestrator.tuning.statistics.confidence_intervals import smallest_detectable_change

MIN_ITEMS, MIN_GROUPS, MIN_CLASS_ITEMS = 60, 20, 10
SHOWN_DISAGREEMENTS, SHOWN_AGREEMENTS = 8, 4
MAX_EXAMPLES, MAX_EXAMPLE, MAX_WHY = 4, 600, 200
"""Examples of a wording, and characters of one's text and reason."""

CHANGED_SHARE = 0.2
"""Share of decisions that a new wording is expected to change, for the power before the search."""

Score = Callable[[Criterion, Sequence[Item]], Awaitable[Mapping[str, CriterionMark] | None]]
"""A wording and items → the criterion's mark by item id; None where the budget has ended."""


class Halves(Struct, frozen=True):
    """Labeled items by halves that share no group and no text.

    Attributes:
        rubric: what decides: the rubric, or the criterion alone where people labeled that.
        by_criterion: labels are those of the criterion, not of the whole.
    """

    rubric: Rubric
    labels: tuple[Label, ...]
    scale: Scale
    training: tuple[Item, ...]
    held_out: tuple[Item, ...]
    by_criterion: bool

    @property
    def detectable(self) -> float:
        """The gain in kappa that the held-out half proves with 80% power, roughly."""
        groups = len({item.group for item in self.held_out})
        error = 2.0 * math.sqrt(CHANGED_SHARE / len(self.held_out))
        return smallest_detectable_change(error, groups)


class ShownItem(Struct, frozen=True):
    """A training item as the proposing model is shown it.

    Attributes:
        label: what people decided: accept or reject.
        accepted: what the rubric decided, with the candidate's wording.
        mark: of the criterion, with the judge's reason.
        notes: what people said of the item.
    """

    item: Item
    label: str
    accepted: bool
    mark: CriterionMark
    notes: tuple[str, ...] = ()


class Candidate(Struct, frozen=True):
    """A wording with its marks on the training half.

    Attributes:
        right: (items,) whether it decides each training item as people do.
        kappa: with people, on training items that are none of its examples.
    """

    criterion: Criterion
    marks: Mapping[str, CriterionMark]
    right: Bools
    kappa: float


Correction = tuple[float, ScoredExample]
"""How far a mark is from people's, and the item with theirs."""

Propose = Callable[
    [Candidate, Sequence[ShownItem], Sequence[Candidate]], Awaitable[list[Criterion] | None]
]
"""A candidate, items to learn from, and the pool → wordings; None where the budget has ended."""


class SearchResult(Struct, frozen=True):
    """What a search found.

    Attributes:
        best: the wording with the best agreement on the training half; None where none is better
            than the present one.
        proof: present wording (A) against the best (B), on the held-out half.
        training: kappa of the present wording and of the best on the same training items.
        tried: number of wordings that were scored.
        stopped: the budget ended the search.
        failed: why models gave nothing that could be tried, empty where one did.
    """

    best: Criterion | None
    proof: RubricComparison | None
    training: tuple[float, float]
    tried: int
    stopped: bool
    failed: str = ""

    @property
    def proven(self) -> bool:
        """Whether the new wording agrees better with people, by an interval above 0."""
        return self.proof is not None and self.proof.outcome == "better"


def split_halves(
    rubric: Rubric,
    criterion: Criterion,
    items: Sequence[Item],
    labels: Sequence[Label],
    accept_at: float | None,
    seed: int,
) -> Halves:
    """Split the labeled items by group.

    Labels of the criterion itself are used where there are enough of them.

    Raises:
        InputError: too few labeled items, groups, or items of one class.
    """
    own = [
        replace(label, label=label.criteria[criterion.id])
        for label in labels
        if criterion.id in label.criteria
    ]
    by_criterion = criterion.weight > 0 and len({x.item for x in own}) >= MIN_ITEMS
    used = own if by_criterion else list(labels)
    if by_criterion:
        line = replace(criterion, weight=1.0, parent=None, blocker=False)
        rubric = Rubric(rubric.name, rubric.version, rubric.description, 0.5, (line,))
    scale = infer_scale(used, accept_at)
    rows = build_rows(items, used, scale)
    _require_enough(rows)
    groups = np.unique(rows.group)
    np.random.default_rng(seed).shuffle(groups)
    name = {item.group: rows.group[rows.item == i][0] for i, item in enumerate(rows.items)}
    size = np.array([sum(name[i.group] == g for i in rows.items) for g in groups])
    first = set(groups[np.cumsum(size) <= len(rows.items) / 2].tolist())
    held_out = tuple(item for item in rows.items if name[item.group] not in first)
    texts = {" ".join(item.text.split()) for item in held_out}
    training = tuple(
        item
        for item in rows.items
        if name[item.group] in first and " ".join(item.text.split()) not in texts
    )
    return Halves(rubric, tuple(used), scale, training, held_out, by_criterion)


def _require_enough(rows: LabeledRows) -> None:
    groups = len({item.group for item in rows.items})
    labels = [rows.label_of(i) for i in range(len(rows.items))]
    fewest = min(labels.count("accept"), labels.count("reject"))
    for count, least, noun in (
        (len(rows.items), MIN_ITEMS, "labeled items"),
        (groups, MIN_GROUPS, "groups of labeled items"),
        (fewest, MIN_CLASS_ITEMS, "items of the rarer label"),
    ):
        if count < least:
            raise InputError(
                f"{count} {noun} are too few to prove a rewording; label at least {least}"
            )


def build_example(text: str, score: float, why: str) -> ScoredExample:
    """An example without the characters that YAML, and so a rubric file, refuses."""
    shown, reason = (UNPRINTABLE.sub("\ufffd", part) for part in (text[:MAX_EXAMPLE], why))
    return ScoredExample(shown, score, reason)


def hide_example(wording: Criterion, item: Item) -> Criterion:
    """The wording without the example that an item is, or that its text begins with."""
    text = " ".join(UNPRINTABLE.sub("\ufffd", item.text).split())
    others = [
        example
        for example in wording.examples
        if text != (own := " ".join(example.text.split()))
        and not (len(example.text) >= MAX_EXAMPLE and text.startswith(own))
    ]
    same = len(others) == len(wording.examples)
    return wording if same else replace(wording, examples=tuple(others))


class _Training:
    """The training half as arrays."""

    def __init__(self, halves: Halves) -> None:
        self.halves = halves
        self.rows = build_rows(halves.training, halves.labels, halves.scale)
        self.items = self.rows.items
        self.labels = [self.rows.label_of(i) for i in range(len(self.items))]
        self.notes: dict[str, tuple[str, ...]] = {}
        for label in halves.labels:
            if label.note:
                self.notes[label.item] = (*self.notes.get(label.item, ()), label.note)

    def measure(self, criterion: Criterion, marks: Mapping[str, CriterionMark]) -> Candidate:
        accepted = self.accepted(criterion, marks)
        right = np.array(
            [(label == "accept") == a for label, a in zip(self.labels, accepted, strict=True)]
        )
        used = self.without_examples(criterion)
        return Candidate(criterion, marks, right, self.kappa(accepted, used))

    def accepted(self, criterion: Criterion, marks: Mapping[str, CriterionMark]) -> Bools:
        rubric, name = self.halves.rubric, criterion.id
        scored = [replace(i, scores={**i.scores, name: marks[i.id].given}) for i in self.items]
        return np.array([decide_item(rubric, item).accepted for item in scored])

    def without_examples(self, wording: Criterion) -> Bools:
        """(items,) whether an item is none of the examples: those are no test of a wording."""
        return np.array([hide_example(wording, item) is wording for item in self.items])

    def correct(self, candidate: Candidate, rng: np.random.Generator) -> Criterion:
        """The wording, with items that it marks far from people as examples: half too high."""
        old, scale = candidate.criterion, self.halves.scale
        levels = [level.score for level in old.levels] or [0.0, 1.0]
        said: dict[str, list[int]] = {}
        for label in self.halves.labels:
            said.setdefault(label.item, []).append(scale.category(label.label))
        sides: tuple[list[Correction], ...] = ([], [])
        for at in rng.permutation(len(self.items)):
            item, mark = self.items[at], candidate.marks[self.items[at].id].score
            people = float(np.mean(said[item.id])) / (len(scale.values) - 1)
            wanted = people if old.weight > 0 else 1.0 - people
            score = min(levels, key=lambda level: abs(level - wanted))
            if mark is not None and mark != score and self.labels[at] != "disputed":
                why = [*self.notes.get(item.id, ()), f"people: {self.labels[at]}, judge: {mark:g}"]
                line = " ".join(why[0].split())[:MAX_WHY]
                example = build_example(item.text, score, line)
                sides[mark < score].append((abs(mark - score), example))
        high, low = ([e for _, e in sorted(side, key=lambda x: -x[0])] for side in sides)
        count = max(MAX_EXAMPLES // 2, MAX_EXAMPLES - len(low))
        examples = [*high[:count], *low][:MAX_EXAMPLES]
        return replace(old, examples=tuple(examples) or old.examples)

    def kappa(self, accepted: Bools, used: Bools) -> float:
        weight: Floats = self.rows.weight * used[self.rows.item]
        return float(Objective().score(accepted[self.rows.item], self.rows.accept, weight))

    def pick_shown(self, candidate: Candidate, rng: np.random.Generator) -> list[ShownItem]:
        """Disagreements, the most confident of each kind first, and some agreements."""
        accepted = self.accepted(candidate.criterion, candidate.marks)
        order = rng.permutation(len(self.items))
        agreed = [i for i in order if candidate.right[i] and self.labels[i] != "disputed"]
        wrong = [i for i in order if not candidate.right[i] and self.labels[i] != "disputed"]
        kinds = [[i for i in wrong if accepted[i] == side] for side in (True, False)]
        half = SHOWN_DISAGREEMENTS // 2
        chosen = [*kinds[0][:half], *kinds[1][:half]]
        chosen += [i for i in wrong if i not in chosen][: SHOWN_DISAGREEMENTS - len(chosen)]
        chosen += agreed[:SHOWN_AGREEMENTS]
        return [self._show(i, candidate, bool(accepted[i])) for i in chosen]

    def _show(self, at: int, candidate: Candidate, accepted: bool) -> ShownItem:
        item = self.items[at]
        notes = self.notes.get(item.id, ())
        return ShownItem(item, self.labels[at], accepted, candidate.marks[item.id], notes)


def choose_parent(pool: Sequence[Candidate], rng: np.random.Generator) -> Candidate:
    """Draw a candidate, by the number of items on which no other is better."""
    right = np.stack([candidate.right for candidate in pool])
    best = right == right.max(axis=0)
    # One that is right only where another is as well is dominated.
    undominated = [
        i
        for i in range(len(pool))
        if not any(
            (right[j] >= right[i]).all() and (right[j] > right[i]).any() for j in range(len(pool))
        )
    ]
    weight = best[undominated].sum(axis=1).astype(float)
    return pool[int(rng.choice(undominated, p=weight / weight.sum()))]


async def search(
    criterion: Criterion, halves: Halves, score: Score, propose: Propose, rounds: int, seed: int
) -> SearchResult:
    """Search for a wording on the training half and prove it on the held-out half."""
    rng, training = np.random.default_rng(seed), _Training(halves)
    base = await score(criterion, training.items)
    if base is None:
        return SearchResult(None, None, (math.nan, math.nan), 0, stopped=True)
    pool, stopped = [training.measure(criterion, base)], False
    for _ in range(rounds):
        parent = choose_parent(pool, rng)
        if parent.right.all():
            break
        wordings = await propose(parent, training.pick_shown(parent, rng), pool)
        corrected = training.correct(parent, rng)
        if wordings is not None and corrected not in [c.criterion for c in pool]:
            wordings = [*wordings, corrected]
        for wording in wordings or []:
            scores = await score(wording, training.items)
            stopped = stopped or scores is None
            if scores is not None:
                pool.append(training.measure(wording, scores))
        stopped = stopped or wordings is None
        if stopped:
            break
    best, before, after = _choose_best(training, pool)
    if best is None:
        return SearchResult(None, None, (before, after), len(pool) - 1, stopped)
    proof = await _prove(criterion, best.criterion, halves, score)
    return SearchResult(
        best.criterion, proof, (before, after), len(pool) - 1, stopped or proof is None
    )


def _choose_best(
    training: _Training, pool: Sequence[Candidate]
) -> tuple[Candidate | None, float, float]:
    """The candidate with the largest gain over the present wording on the same items."""
    base = pool[0]
    accepted = training.accepted(base.criterion, base.marks)
    gains = [
        c.kappa - training.kappa(accepted, training.without_examples(c.criterion)) for c in pool
    ]
    at = int(np.argmax(gains))
    if gains[at] <= 0.0:
        return None, base.kappa, base.kappa
    return pool[at], pool[at].kappa - gains[at], pool[at].kappa


async def _prove(
    old: Criterion, new: Criterion, halves: Halves, score: Score
) -> RubricComparison | None:
    """The one look at the held-out half; None where the budget has ended."""
    items = unique_items(halves.held_out)
    sides = []
    for name, wording in (("present wording", old), ("new wording", new)):
        found = await score(wording, items)
        if found is None:
            return None
        scores = {i.id: {**i.scores, wording.id: found[i.id].given} for i in items}
        sides.append(ComparedRubric(name, halves.rubric, scores))
    return compare_sides(sides[0], sides[1], items, halves.labels, halves.scale)
