"""Adjudication: a third rater decides, blind, where two disagree."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.cli.main import main
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import read_items
from orchestrator.tuning.file_formats.rubric_file import write_rubric
from orchestrator.tuning.labels.label_files import (
    Label,
    add_label,
    infer_scale,
    list_disputes,
    read_labels,
    settle_labels,
)
from orchestrator.tuning.training_data import build_training_data, summarize_labels
from tests.tuning.labelsets import rows, rubric_of

Save = Callable[..., Path]


def say(item: str, rater: str, label: Any, **more: Any) -> dict[str, Any]:
    return {"item": item, "rater": rater, "label": label, **more}


@pytest.mark.parametrize(
    ("one", "other", "asked"),
    [(1, 2, False), (2, 3, True), (3, 5, True), (4, 5, False), (1, 1, False), (1, 5, True)],
)
def test_a_third_is_asked_where_two_differ_on_accepting_or_by_two_levels(
    save: Save, one: int, other: int, asked: bool
) -> None:
    items = read_items([save([{**row, "label": 1} for row in rows(2)])])
    given = [("i0", "ana", one), ("i0", "bo", other), ("i1", "ana", 1), ("i1", "bo", 1)]
    labels = [Label(item, rater, float(x)) for item, rater, x in [*given, ("i1", "cy", 5)][:4]]
    assert [q.item.id for q in list_disputes(items, labels, "cy")] == ["i0"] * asked
    assert list_disputes(items, labels, "ana") == []
    assert list_disputes(items, [], "cy") == []


def test_the_terminal_asks_only_for_disputes_and_the_label_decides(
    save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items = save([{k: v for k, v in row.items() if k not in ("label", "rater")} for row in rows(4)])
    labels = save(
        [say(f"i{n}", rater, "accept" if n != 2 or rater == "ana" else "reject", drawn="random")
         for n in range(3) for rater in ("ana", "bo")],
        "labels.jsonl",
    )  # fmt: skip
    monkeypatch.setattr("sys.stdin", iter_lines("r\n"))
    assert (
        main(["label", str(items), "--labels", str(labels), "--rater", "cy", "--adjudicate"]) == 0
    )
    out = capsys.readouterr().out
    assert "1 of 1: i2" in out
    assert "ana" not in out
    assert "bo" not in out.replace("above", "")
    assert json.loads(labels.read_text().splitlines()[-1]) | {"at": ""} == say(
        "i2", "cy", "reject", drawn="random", adjudicates=True, at=""
    )
    (settled,) = [x for x in settle_labels(read_labels([labels])) if x.item == "i2"]
    assert (settled.rater, [x.rater for x in settled.overruled]) == ("cy", ["ana", "bo"])
    assert list_disputes(read_items([items]), read_labels([labels]), "dee") == []
    add_label(labels, Label("i2", "cy", "accept", note="on second thought"))
    assert read_labels([labels])[-1].adjudicates


def iter_lines(text: str) -> Any:
    from io import StringIO

    return StringIO(text)


def test_an_adjudicated_item_counts_once_and_people_agree_no_better_for_it(
    save: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = save(rows(40))
    two = [say(f"i{n}", rater, "accept" if n % 2 or (n < 10 and rater == "bo") else "reject")
           for n in range(40) for rater in ("ana", "bo")]  # fmt: skip
    third = [say(f"i{n}", "cy", "reject", adjudicates=True) for n in range(0, 10, 2)]
    write_rubric(tmp_path / "house.yaml", rubric_of())
    printed = []
    for name, given in (("two.jsonl", two), ("three.jsonl", two + third)):
        argv = ["rubric", "eval", str(tmp_path / "house.yaml"), str(items), "--labels"]
        assert main([*argv, str(save(given, name))]) == 0
        printed.append(" ".join(capsys.readouterr().out.split()))
    assert "inter-rater agreement on 40 items: kappa .7" in printed[0]
    agreement = printed[0].split("on 40 items")[1].split("Confusion")[0]
    assert f"on 40 items, 5 of them adjudicated{agreement}" in printed[1]
    labels = settle_labels(read_labels([tmp_path / "three.jsonl"]))
    data = build_training_data(rubric_of(), read_items([items]), labels, infer_scale(labels, None))
    assert data.sample.items == 40
    assert set(summarize_labels(data).values()) == {"accept", "reject"}
    assert summarize_labels(data)["i0"] == "reject"


def test_the_scale_is_that_of_all_labels_and_their_order_stays(save: Save) -> None:
    items = read_items([save(rows(12))])
    labels = [Label(f"i{n}", rater, float(x)) for rater, x in (("ana", 1), ("bo", 5))
              for n in range(12)]  # fmt: skip
    assert settle_labels(labels) == labels
    third = [Label(f"i{n}", "cy", 3.0 + n % 2, adjudicates=True) for n in range(12)]
    settled = settle_labels([*labels, *third, Label("i0", "dee", 1.0, adjudicates=True)])
    assert [x.rater for x in settled] == ["cy"] * 12
    assert [x.rater for x in settled[0].overruled] == ["ana", "bo", "dee"]
    scale = infer_scale(settled, None)
    assert scale.values == (1.0, 2.0, 3.0, 4.0, 5.0)
    data = build_training_data(rubric_of(), items, settled, scale)
    assert np.nansum(~np.isnan(data.ratings)) == 24
    assert set(data.levels) == {2, 3}


def test_a_label_says_with_true_that_it_adjudicates(save: Save) -> None:
    with pytest.raises(InputError, match=r":1: 'adjudicates' is 'yes'; allowed: true, or no such"):
        read_labels([save([say("a", "cy", "accept", adjudicates="yes")])])
