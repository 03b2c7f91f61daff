"""Labeling by several people at once: which items are asked for, and safe changes of the file."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.tuning.file_formats.text_files import locked
from orchestrator.tuning.labels.label_files import (
    Label,
    Value,
    infer_scale,
    read_labels,
    revise_labels,
    withdraw_label,
    write_labels,
)

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

    Raises:
        InputError: the labels mix scales.
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
