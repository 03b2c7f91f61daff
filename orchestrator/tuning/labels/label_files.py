"""People's labels of items: a JSON Lines file that a team can commit, and what to label next."""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from orchestrator.catalog.shared_literals import OUTCOMES
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.tuning.file_formats.text_files import (
    locked,
    parse_object,
    read_text,
    write_text_atomically,
)

Value = float | str
LABEL_WORDS: dict[str, int] = {
    "reject": 0, "accept": 1, "no": 0, "yes": 1, "false": 0, "true": 1, "fail": 0, "pass": 1,
}  # fmt: skip
VERDICT_RANKS: dict[str, int] = {word: rank for rank, word in enumerate(OUTCOMES[::-1])}
"""Verdicts as ordered categories, the most severe lowest."""
_MORE = {"criteria", "note", "at", "drawn", "revision", "adjudicates"}
LABEL_KEYS = {"item", "rater", "label"} | _MORE
_MAX_LEVELS = 12


class Label(Struct, frozen=True, omit_defaults=True):
    """One person's label of one item.

    Attributes:
        label: ``accept``/``reject``, ``merge``/``needs_changes``/``block``, or a number.
        criteria: labels per criterion, if the person gave any.
        at: time, ISO 8601, empty when unknown.
        drawn: ``random`` for an item drawn at random (``diffcourt label --next``), else empty.
        location: file and line, for error messages.
        revision: 1, or one more than that of the label which this one replaces.
        previous: the person's earlier labels of the item, oldest first; they do not count.
        adjudicates: the person was asked, blind, since two others disagree: this label decides.
        overruled: the labels of the others, see :func:`settle_labels`.
    """

    item: str
    rater: str
    label: Value
    criteria: dict[str, Value] = field(default_factory=dict)
    note: str = ""
    at: str = ""
    drawn: str = ""
    location: str = ""
    revision: int = 1
    previous: tuple["Label", ...] = ()
    adjudicates: bool = False
    overruled: tuple["Label", ...] = ()

    def to_row(self) -> dict[str, Any]:
        """The label as a row of its file, without empty values."""
        row: dict[str, Any] = to_builtins(replace(self, location="", previous=(), overruled=()))
        return row


def read_labels(paths: Iterable[Path]) -> list[Label]:
    """Read label files: each person's newest label of an item, with the earlier ones in it.

    Raises:
        InputError: an invalid row, a rater's second label of an item that does not say which
            revision it is, or a history that lacks a revision.
    """
    rows: list[Label] = []
    for path in paths:
        lines = read_text(path).split("\n")
        rows += [_label(line, f"{path}:{n}") for n, line in enumerate(lines, 1) if line.strip()]
    require_one_label_per_rater(rows)
    histories: dict[tuple[str, str], list[Label]] = {}
    for row in rows:
        histories.setdefault((row.item, row.rater), []).append(row)
    return [_newest(history) for history in histories.values()]


def settle_labels(labels: Iterable[Label]) -> list[Label]:
    """The labels that count: of an adjudicated item, one that holds those it overrules.

    A second adjudicator's label of an item is an ordinary one, so it is overruled by the first.
    """
    every = list(labels)
    decide = {label.item: label for label in reversed(every) if label.adjudicates}
    rest: dict[str, tuple[Label, ...]] = {}
    for x in every:
        if x is not decide.get(x.item):
            rest[x.item] = (*rest.get(x.item, ()), x)
    kept = (x for x in every if x is decide.get(x.item, x))
    return [replace(x, overruled=rest.get(x.item, ())) if x.adjudicates else x for x in kept]


def _newest(history: list[Label]) -> Label:
    *earlier, newest = sorted(history, key=lambda x: x.revision)
    if newest.revision != len(history):
        raise InputError(
            f"{newest.location}: revision {newest.revision} of the label of {newest.item!r} "
            f"by {newest.rater!r} follows {len(earlier)} earlier ones; restore the missing lines"
        )
    return replace(newest, previous=tuple(earlier))


def revise_labels(labels: Iterable[Label], new: Label) -> list[Label]:
    """The labels with a new one at the end.

    An earlier label of the same item by the same rater becomes the new one's history, unless both
    say the same. The new one is drawn at random if the earlier one was, since the item is the same,
    and it keeps the labels of criteria if it has none.
    """
    kept: list[Label] = []
    for label in labels:
        if (label.item, label.rater) != (new.item, new.rater):
            kept.append(label)
            continue
        kept_as = {"drawn": label.drawn, "adjudicates": label.adjudicates}
        new = replace(new, criteria=new.criteria or label.criteria, **kept_as)
        if (label.label, label.criteria, label.note) == (new.label, new.criteria, new.note):
            new = label
            continue
        history = (*label.previous, replace(label, previous=()))
        new = replace(new, revision=label.revision + 1, previous=history)
    return [*kept, new]


def withdraw_label(labels: Iterable[Label], item: str, rater: str) -> list[Label]:
    """The labels without a rater's newest one of an item; the one before it counts again."""
    kept: list[Label] = []
    for label in labels:
        if (label.item, label.rater) != (item, rater):
            kept.append(label)
        elif label.previous:
            *earlier, before = label.previous
            kept.append(replace(before, previous=tuple(earlier)))
    return kept


def _label(line: str, location: str) -> Label:
    row = parse_object(line, location)
    if not {"item", "rater", "label"} <= set(row):
        raise InputError(f"{location}: a label requires 'item', 'rater' and 'label'")
    unknown = sorted(set(row) - LABEL_KEYS)
    if unknown:
        raise InputError(
            f"{location}: unknown key {unknown[0]!r}; allowed: {', '.join(sorted(LABEL_KEYS))}"
        )
    criteria = row.get("criteria", {})
    if not isinstance(criteria, dict):
        raise InputError(f"{location}: 'criteria' must map criterion ids to values")
    return Label(
        item=str(row["item"]),
        rater=str(row["rater"]),
        label=parse_label(row["label"], location),
        criteria={str(k): parse_label(v, location) for k, v in criteria.items()},
        note=str(row.get("note", "")),
        at=str(row.get("at", "")),
        drawn=_mark(row, "drawn", "random", location),
        location=location,
        revision=_revision(row.get("revision", 1), location),
        adjudicates=_mark(row, "adjudicates", True, location),
    )


def _mark(row: Mapping[str, Any], key: str, value: Any, location: str) -> Any:
    """A key of a row that has one value or is left out."""
    raw = row.get(key, type(value)())
    if raw not in (type(value)(), value):
        name = json.dumps(value).strip('"')
        raise InputError(f"{location}: {key!r} is {raw!r}; allowed: {name}, or no such key")
    return type(value)(raw)


def _revision(raw: Any, location: str) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int) or raw < 1:
        raise InputError(f"{location}: 'revision' is {raw!r}; allowed: a whole number from 1")
    return raw


def parse_label(raw: Any, location: str) -> Value:
    """Parse a label into a lower-case word or a number.

    Raises:
        InputError: neither, or NaN.
    """
    if isinstance(raw, bool):
        return "accept" if raw else "reject"
    if isinstance(raw, (int, float)) and math.isfinite(raw):
        return float(raw)
    if isinstance(raw, str) and raw.strip().lower() in LABEL_WORDS | VERDICT_RANKS:
        word = raw.strip().lower()
        return word if word in VERDICT_RANKS else ("accept" if LABEL_WORDS[word] else "reject")
    raise InputError(
        f"{location}: the label is {raw!r}; allowed: accept, reject, merge, needs_changes, block, "
        "or a number"
    )


def extract_labels(items: Iterable[Item], name: str | None) -> list[Label]:
    """The labels in the items' own rows.

    Raises:
        InputError: rows have several labels and no name was given, or a label is invalid.
    """
    out = []
    for item in items:
        if not item.human or item.repeat:
            continue
        if name is None and len(item.human) > 1:
            known = ", ".join(sorted(item.human))
            raise InputError(
                f"{item.location}: several labels ({known}); choose one with --label NAME"
            )
        key = name or next(iter(item.human))
        if item.human.get(key) in (None, ""):
            continue
        value = parse_label(item.human[key], item.location)
        out.append(Label(item.id, item.rater or "-", value, location=item.location))
    require_one_label_per_rater(out)
    return out


def require_one_label_per_rater(labels: Iterable[Label]) -> None:
    """Require at most one label per rater, item and revision."""
    seen: dict[tuple[str, str, int], Label] = {}
    for label in labels:
        other = seen.setdefault((label.item, label.rater, label.revision), label)
        if other is label:
            continue
        how = "twice" if other.label == label.label else f"both {other.label} and {label.label}"
        raise InputError(
            f"{label.location}: rater {label.rater!r} labeled {label.item!r} {how} "
            f"(first at {other.location}); keep one line, and change a label with diffcourt label "
            "--relabel"
        )


def require_known_criteria(labels: Iterable[Label], criteria: Iterable[str]) -> None:
    """Require that labels per criterion name criteria of the rubric."""
    known = set(criteria)
    for label in labels:
        for name in label.criteria.keys() - known:
            near = get_close_matches(name, sorted(known), n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(sorted(known))}"
            raise InputError(
                f"{label.location}: the rubric has no criterion {name!r} that {label.rater!r} "
                f"labeled of {label.item!r}; {hint}"
            )


def write_labels(path: Path, labels: Iterable[Label]) -> None:
    """Write a label file atomically, each label after its history."""
    every = (x for label in labels for x in (*label.previous, label))
    rows = (json.dumps(x.to_row(), ensure_ascii=False) + "\n" for x in every)
    write_text_atomically(path, "".join(rows))


class Scale(Struct, frozen=True):
    """The ordered categories of a label set.

    Attributes:
        values: label values in ascending order; a category is an index into it.
        cut: categories from here up mean accept.
    """

    values: tuple[Value, ...]
    cut: int

    def category(self, value: Value) -> int:
        """The category of a value."""
        return self.values.index(value)

    def accepts(self, value: Value) -> bool:
        """Whether a value means accept."""
        return self.category(value) >= self.cut


def infer_scale(labels: list[Label], accept_at: float | None) -> Scale:
    """Infer the scale of a label set from its values.

    Args:
        accept_at: the lowest number that means accept; None for 3 on a scale of 1 to 5.

    Raises:
        InputError: mixed scales, or numbers whose lowest accepted value is unclear.
    """
    values = {y.label for x in labels for y in (*x.overruled, x)}
    words = {x for x in values if isinstance(x, str)}
    if words and len(words) < len(values):
        raise InputError("labels mix words and numbers; use one scale per label set")
    if words & set(VERDICT_RANKS) and words & {"accept", "reject"}:
        raise InputError("labels mix accept/reject with merge/needs_changes/block; use one scale")
    if words & set(VERDICT_RANKS):
        return Scale(tuple(VERDICT_RANKS), 2)
    if words:
        return Scale(("reject", "accept"), 1)
    return _infer_numeric_scale({x for x in values if not isinstance(x, str)}, accept_at)


def _infer_numeric_scale(numbers: set[float], accept_at: float | None) -> Scale:
    if len(numbers) > _MAX_LEVELS:
        raise InputError(
            f"labels have {len(numbers)} distinct numbers, more than {_MAX_LEVELS}; "
            "use a scale of 1 to 5"
        )
    if accept_at is None:
        if numbers <= {0.0, 1.0}:
            accept_at = 1.0
        elif all(1 <= x <= 5 for x in numbers):
            accept_at = 3.0
        else:
            raise InputError(
                f"labels range from {min(numbers):g} to {max(numbers):g}; set the lowest accepted "
                "value with --accept-at NUMBER"
            )
    values = sorted(numbers)
    steps = range(int(values[0]), int(values[-1]) + 1)
    if all(x.is_integer() for x in values) and len(steps) <= _MAX_LEVELS:
        values = [float(x) for x in steps]  # a value that nobody gave is a step as well
    return Scale(tuple(values), sum(x < accept_at for x in values))


ANSWERS: dict[str, dict[str, Value]] = {
    "accept": {"a": "accept", "r": "reject"},
    "verdict": {"m": "merge", "n": "needs_changes", "b": "block"},
    "1-5": {str(n): float(n) for n in range(1, 6)},
}
"""Scales of labels: the key that a person presses → the label."""
SHARED_ITEMS = 20
"""Items that a second rater labels first, among those of others (see ``label_assessment``)."""


class LabelQuestion(Struct, frozen=True):
    """An item that a rater is asked for.

    Attributes:
        drawn: as in :class:`~orchestrator.tuning.labels.label_files.Label`.
        earlier: the rater's label that is asked for again.
        adjudicates: as in :class:`~orchestrator.tuning.labels.label_files.Label`.
    """

    item: Item
    drawn: str
    earlier: Label | None = None
    adjudicates: bool = False


def list_questions(
    items: Iterable[Item], labels: Sequence[Label], rater: str
) -> list[LabelQuestion]:
    """The items that a rater has not labeled, in the order in which they are asked for.

    The order is random and the same for every rater: it depends on the items' ids alone, so that
    what is labeled at any time is a random sample of the items. Before it come, until
    ``SHARED_ITEMS`` items are shared, those that other raters have labeled.
    """
    own = {x.item for x in labels if x.rater == rater}
    others = {x.item: x for x in labels if x.rater != rater}
    todo = sorted((i for i in items if i.id not in own), key=lambda item: _random_rank(item.id))
    missing = max(SHARED_ITEMS - len(own & others.keys()), 0)
    shared = [item for item in todo if item.id in others][:missing]
    first = {item.id for item in shared}
    return [
        *(LabelQuestion(item, others[item.id].drawn) for item in shared),
        *(LabelQuestion(item, "random") for item in todo if item.id not in first),
    ]


def list_disputes(
    items: Iterable[Item], labels: Sequence[Label], rater: str
) -> list[LabelQuestion]:
    """The items that a third rater adjudicates, in random order.

    Two others disagree on whether to accept, or by two levels; nobody has adjudicated, and the
    rater has not labeled the item.
    """
    if not labels:
        return []
    scale = infer_scale(list(labels), None)
    given: dict[str, list[Label]] = {}
    for label in labels:
        given.setdefault(label.item, []).append(label)
    out = []
    for item in sorted(items, key=lambda item: _random_rank(item.id)):
        rated = given.get(item.id, [])
        levels = [scale.category(x.label) for x in rated] or [0]
        low, high = min(levels), max(levels)
        settled = any(x.adjudicates or x.rater == rater for x in rated)
        if not settled and (low < scale.cut <= high or high - low >= 2):
            out.append(LabelQuestion(item, rated[0].drawn, adjudicates=True))
    return out


def list_revisions(
    items: Iterable[Item], labels: Iterable[Label], rater: str, names: Sequence[str]
) -> list[LabelQuestion]:
    """The named items, which a rater labels again.

    Raises:
        InputError: one is not among the items, or has no label by the rater.
    """
    own, known = {x.item: x for x in labels if x.rater == rater}, {i.id: i for i in items}
    for name in names:
        if name not in own.keys() & known.keys():
            raise InputError(f"--relabel {name}: there is no such item with a label by {rater!r}")
    return [LabelQuestion(known[name], own[name].drawn, own[name]) for name in dict.fromkeys(names)]


def _random_rank(item: str) -> bytes:
    return hashlib.sha256(item.encode("utf-8", "surrogateescape")).digest()


def now() -> str:
    """The time of a label."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def edit_labels(path: Path, edit: Callable[[list[Label]], list[Label]]) -> list[Label]:
    """Change a label file, one writer at a time; returns its labels.

    Raises:
        InputError: it cannot be read or written, or holds no valid labels.
    """
    with locked(path):
        labels = edit(read_labels([path]))
        write_labels(path, labels)
    return labels


def add_label(path: Path, label: Label) -> list[Label]:
    """Save a label; one that the rater gave the item before becomes its history."""
    return edit_labels(path, lambda labels: revise_labels(labels, label))


def remove_label(path: Path, item: str, rater: str) -> list[Label]:
    """Take a rater's newest label of an item back."""
    return edit_labels(path, lambda labels: withdraw_label(labels, item, rater))
