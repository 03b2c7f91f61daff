"""What labels say about a rubric without fitting it: disagreements, and labels that are revised."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from orchestrator.cli.commands import label
from orchestrator.cli.commands.label import LabelingSession
from orchestrator.cli.commands.rubric import command
from orchestrator.engine.types import Criterion, Rubric
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import Item, read_items
from orchestrator.tuning.labels.disagreements import DisagreementReport, find_disagreements
from orchestrator.tuning.labels.label_files import (
    Label,
    infer_scale,
    list_revisions,
    read_labels,
    revise_labels,
    withdraw_label,
    write_labels,
)
from orchestrator.tuning.statistics.confidence_intervals import mean_rate
from orchestrator.tuning.training_data import build_training_data
from tests.tuning.labelsets import rows, rubric_of
from tests.tuning.test_rubric_cli import parse

Save = Callable[..., Path]
REJECT = "reject"


def run(*argv: object) -> int:
    return command.run(parse("rubric", *argv))


def measure(rubric: Rubric, items: list[Item], labels: list[Label]) -> DisagreementReport:
    data = build_training_data(rubric, items, labels, infer_scale(labels, None))
    return find_disagreements(rubric, data, labels)


def scored(n: int, score: float, other: float = 0.5, group: int = 1) -> Item:
    return Item(f"i{n}", f"g{n // group}", {"a": score, "b": other}, f"text of {n}")


PENALTY = Rubric(
    "two", 1, "d", 0.5, (Criterion("a", "measured", "A"), Criterion("b", "measured", "B", weight=-0.2))
)  # fmt: skip


def test_the_clearest_disagreement_comes_first_with_all_its_details(
    save: Save, house: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flat: dict[str, Any] = {"a": 0.5, "b": 0.5, "c": 0.5, "d": 0.5}
    items = save(
        [
            {"id": "near", "scores": {**flat, "a": 0.7}, "text": "x"},
            {"id": "far", "scores": dict.fromkeys(flat, 0.97), "text": "One\nTwo",
             "reasons": {"a": "Quotes line 4."}},
            {"id": "low", "scores": dict.fromkeys(flat, 0.1)},
        ]
    )  # fmt: skip
    labels = save(
        [
            {"item": "near", "rater": "ana", "label": "reject"},
            {"item": "far", "rater": "ana", "label": "reject", "note": "line 4 is old",
             "criteria": {"a": "reject", "b": "accept"}},
            {"item": "low", "rater": "ana", "label": "reject"},
        ],
        "labels.jsonl",
    )  # fmt: skip
    result = tmp_path / "o.json"
    assert run("disagree", house, items, "--labels", labels, "--all", "--json", result) == 3
    out = capsys.readouterr().out
    assert out.startswith("Cannot tell: the rubric agrees with 33% of labels")
    assert out.index("far: rubric accepts (total .97), ana says reject: line 4 is old") < out.index(
        "near: rubric accepts"
    )
    for line in ("| One", "| Two", "a .97 (person: reject, DISAGREES): Quotes line 4.",
                 "b .97 (person: accept, agrees)", "c .97\n"):  # fmt: skip
        assert line in out
    found = json.loads(result.read_text())
    assert found["trusted"] is None
    assert [d["item"] for d in found["disagreements"]] == ["far", "near"]
    assert found["disagreements"][0]["confidence"] == pytest.approx(0.94)


def test_the_short_list_fits_on_a_screen(
    save: Save, house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [{**r, "text": "long " * 400} for r in rows(200, (0.0,) * 4)]
    assert run("disagree", house, save(items)) == 1
    out = capsys.readouterr().out.splitlines()
    assert len(out) <= 13
    assert out[0].startswith("Not trusted: the rubric agrees with ")
    assert max(map(len, out)) <= 80


def test_a_rubric_that_decides_as_people_do_is_trusted(save: Save, house: Path) -> None:
    assert run("disagree", house, save(rows(200, (8.0,) * 4, sharp=9.0))) == 0


def test_both_kinds_of_error_of_each_criterion_and_a_penalty_in_reverse() -> None:
    # People accept a on the even items. The scores of a accept 1 of 4 rejected ones too many;
    # b is a penalty, so its score 0 means what people call accept.
    items = [scored(n, 0.9 if n % 2 == 0 or n % 8 == 1 else 0.2, 1.0 - n % 2) for n in range(80)]
    labels = [
        Label(i.id, "ana", "accept" if n % 2 == 0 else REJECT,
              {"a": "accept" if n % 2 == 0 else REJECT, "b": "accept" if n % 2 else REJECT})
        for n, i in enumerate(items)
    ]  # fmt: skip
    found = {c.id: c for c in measure(PENALTY, items, labels).criteria}
    assert found["a"].false_accepts is not None
    assert found["a"].false_rejects is not None
    assert found["a"].false_accepts.value == pytest.approx(10 / 40)
    assert 0.1 < found["a"].false_accepts.low < 0.25 < found["a"].false_accepts.high < 0.45
    assert found["a"].false_rejects.value == 0.0
    assert 0.0 < found["a"].false_rejects.high < 0.15
    assert found["b"].kappa is not None
    assert found["b"].kappa.value == pytest.approx(1.0)
    scrambled = [replace(x, criteria={"a": "accept"}) for x in labels]
    (only,) = measure(PENALTY, items, scrambled).criteria
    assert (only.labels, only.false_accepts) == (80, None)


def test_people_among_themselves_on_one_criterion() -> None:
    items = [scored(n, 0.9) for n in range(40)]
    labels = [
        Label(i.id, rater, "accept" if n % 3 else REJECT,
              {"a": "accept" if n % 2 else REJECT, "b": "accept" if (n + turn) % 2 else REJECT})
        for n, i in enumerate(items) for turn, rater in enumerate(("ana", "bo"))
    ]  # fmt: skip
    a, b = measure(PENALTY, items, labels).criteria
    assert a.alpha is not None
    assert b.alpha is not None
    assert (a.shared_items, a.alpha.value) == (40, 1.0)
    assert b.alpha.high < 0


def test_an_unknown_criterion_in_a_label_is_an_error(save: Save, house: Path) -> None:
    row = rows(4)
    labels = [{"item": "i1", "rater": "bo", "label": "accept", "criteria": {"aa": "accept"}}]
    for part in ("disagree", "eval"):
        with pytest.raises(InputError, match=r"labels\.jsonl:1: .*'aa'.* did you mean 'a'\?"):
            run(part, house, save(row), "--labels", save(labels, "labels.jsonl"))


def revise(tmp_path: Path, items: Path, typed: str, *more: object) -> list[Label]:
    path = tmp_path / "labels.jsonl"
    args = parse("label", items, "--labels", path, "--rater", "ana", *more)
    todo = list_revisions(read_items([items]), read_labels([path]), "ana", args.relabel)
    LabelingSession(args, todo, {}, io.StringIO(typed), io.StringIO()).run()
    return read_labels([path])


def test_a_label_is_revised_with_its_history_and_never_overwritten(
    save: Save, tmp_path: Path
) -> None:
    items = save(rows(2))
    first = Label("i0", "ana", REJECT, {"a": REJECT}, "too long", "2026-01-01", "random")
    write_labels(tmp_path / "labels.jsonl", [first, Label("i1", "ana", REJECT)])
    *_, found = revise(tmp_path, items, "#I was wrong\na\n", "--relabel", "i0")
    assert (found.label, found.note, found.revision) == ("accept", "I was wrong", 2)
    assert (found.drawn, found.criteria) == ("random", {"a": REJECT})
    assert [(x.label, x.note, x.at) for x in found.previous] == [
        ("reject", "too long", "2026-01-01")
    ]
    again = revise(tmp_path, items, "r\n<\nq\n", "--relabel", "i0", "--relabel", "i1")
    assert {x.item: x.label for x in again} == {"i0": "accept", "i1": "reject"}
    *_, third = revise(tmp_path, items, "r\n", "--relabel", "i0")
    assert [x.label for x in third.previous] == ["reject", "accept"]
    assert (tmp_path / "labels.jsonl").read_text().count("\n") == 4


def test_undo_brings_back_the_label_before() -> None:
    one, two = Label("i", "ana", REJECT), Label("i", "ana", "accept")
    both = revise_labels([one], two)
    assert withdraw_label(both, "i", "ana") == [one]
    assert revise_labels(both, two) == both
    assert withdraw_label([one], "i", "ana") == []


@pytest.mark.parametrize(
    ("revisions", "said"),
    [
        ((1, 3), "revision 3 of the label of 'i0' by 'ana' follows 1 earlier ones"),
        ((1, 1), "change a label with diffcourt label --relabel"),
        ((0,), "'revision' is 0; allowed: a whole number from 1"),
    ],
)
def test_a_history_with_a_hole_or_a_double_is_an_error(
    save: Save, revisions: tuple[int, ...], said: str
) -> None:
    lines: list[dict[str, object]] = [
        {"item": "i0", "rater": "ana", "label": "accept", "revision": n} for n in revisions
    ]
    with pytest.raises(InputError) as error:
        read_labels([save(lines, "labels.jsonl")])
    assert said in str(error.value)


def test_only_an_item_that_one_labeled_can_be_relabeled(save: Save, tmp_path: Path) -> None:
    write_labels(tmp_path / "labels.jsonl", [Label("i0", "bo", REJECT), Label("x", "ana", REJECT)])
    for item in ("i0", "x"):
        args = parse("label", save(rows(2)), "--labels", tmp_path / "labels.jsonl", "--rater", "ana",
                     "--relabel", item)  # fmt: skip
        with pytest.raises(
            InputError, match=f"--relabel {item}: there is no such item with a label"
        ):
            label.run(args)


@pytest.mark.parametrize(("rate", "size"), [(0.5, 1), (0.5, 4), (0.9, 4), (0.97, 1)])
def test_intervals_of_rates_cover(rate: float, size: int) -> None:
    times, groups = 1000, 40
    rng, hit = np.random.default_rng(7), 0
    for _ in range(times):
        own = rng.beta(rate * 6, (1 - rate) * 6, groups) if size > 1 else np.full(groups, rate)
        y = rng.random((groups, size)) < own[:, None]
        found = mean_rate(y.ravel(), np.ones(y.size), np.repeat(np.arange(groups), size))
        assert found is not None
        hit += found.low <= rate <= found.high
    assert 0.93 <= hit / times <= 0.985


def test_the_report_of_a_house_of_four_names_no_criterion_without_labels() -> None:
    items = [Item(f"i{n}", f"g{n}", dict.fromkeys("abcd", 0.9)) for n in range(4)]
    labels = [Label(i.id, "ana", "accept") for i in items]
    found = measure(rubric_of(), items, labels)
    assert (found.criteria, found.disagreements, found.kappa) == ((), (), None)
    assert found.plain_sentence() == (
        "Cannot tell: the rubric agrees with 100% of labels; 4 labeled items are too few, label at "
        "least 30"
    )
