"""Rubric files, there and back."""

from pathlib import Path

from orchestrator.engine.types import Criterion, Group, Rubric
from orchestrator.tuning.file_formats.rubric_file import (
    MET_LEVELS,
    read_rubric,
    to_document,
    write_rubric,
)


def through_a_file(rubric: Rubric, folder: Path) -> Rubric:
    path = folder / f"{rubric.name}.yaml"
    write_rubric(path, rubric)
    return read_rubric(path)


def test_a_rubric_file_holds_everything(tmp_path: Path) -> None:
    rubric = Rubric(
        "tree", 1, "A tree.", 0.4,
        (Criterion("a", "measured", "a", 2.0, blocker=True),
         Criterion("b", "judged", "b", 1.0, MET_LEVELS, "inner", tags=("x",))),
        (Group("inner", "several", 3.0),), provenance={"from": {"id": 7}},
    )  # fmt: skip
    back = through_a_file(rubric, tmp_path)
    assert to_document(back) == to_document(rubric)


def test_text_that_looks_like_a_number_stays_text(tmp_path: Path) -> None:
    rubric = Rubric(
        "r", 1, "3e47", 0.5, (Criterion("a", "measured", "012"),), provenance={"x": "1e9"}
    )
    back = through_a_file(rubric, tmp_path)
    assert (back.description, back.criteria[0].description) == ("3e47", "012")
    assert back.provenance == {"x": "1e9"}
