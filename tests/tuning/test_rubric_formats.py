"""Task trees of PaperBench and rubric files, there and back."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.engine.rubric_scoring import node_scores
from orchestrator.engine.types import Criterion, Rubric
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.paperbench import from_paperbench, to_paperbench
from orchestrator.tuning.file_formats.rubric_file import read_rubric, to_document, write_rubric

SHARED = Path(__file__).parents[3] / "shared" / "data" / "rubrics" / "paperbench"

TREE: dict[str, Any] = {
    "id": "Root", "requirements": "the paper", "weight": 1, "task_category": None, "sub_tasks": [
        {"id": "leaf-1", "requirements": "runs", "weight": 3, "task_category": "Code Execution",
         "sub_tasks": []},
        {"id": "UPPER", "requirements": "methods", "weight": 1, "task_category": None,
         "sub_tasks": [
            {"id": "a", "requirements": "", "weight": 2, "task_category": "Code Development",
             "sub_tasks": []},
            {"id": "b", "requirements": "b", "weight": 1, "task_category": None, "sub_tasks": []},
        ]},
        {"id": "leaf-2", "requirements": "plots", "weight": 1, "task_category": "Result Analysis",
         "sub_tasks": []},
    ],
}  # fmt: skip


def through_a_file(rubric: Rubric, folder: Path) -> Rubric:
    path = folder / f"{rubric.name}.yaml"
    write_rubric(path, rubric)
    return read_rubric(path)


def graded(node: dict[str, Any], scores: dict[str, float]) -> dict[str, Any]:
    """The tree with grades, aggregated as PaperBench does: a weighted mean at every node."""
    children = [graded(c, scores) for c in node["sub_tasks"]]
    mass = sum(c["weight"] for c in children)
    score = (
        sum(c["weight"] * c["score"] for c in children) / mass if children else scores[node["id"]]
    )
    more = {"score": score, "valid_score": True, "explanation": f"why {node['id']}"}
    return {**node, "sub_tasks": children, **more}


def test_a_paperbench_tree_comes_back_as_it_was(tmp_path: Path) -> None:
    rubric = through_a_file(from_paperbench(TREE, "tree", 0.5).rubric, tmp_path)
    assert to_paperbench(rubric).document == TREE


def test_a_graded_tree_comes_back_with_its_grades_and_its_root(tmp_path: Path) -> None:
    tree = graded(TREE, {"leaf-1": 1.0, "leaf-2": 0.0, "a": 0.5, "b": 1.0})
    found = from_paperbench(tree, "tree", 0.5)
    rubric = through_a_file(found.rubric, tmp_path)
    (item,) = found.items
    assert found.unmapped == ()
    assert node_scores(rubric, item["scores"])[None] == pytest.approx(tree["score"], abs=1e-9)
    assert to_paperbench(rubric, item).document == tree


def test_a_root_score_that_its_leaves_do_not_give_is_reported() -> None:
    tree = {**graded(TREE, {"leaf-1": 1.0, "leaf-2": 0.0, "a": 0.5, "b": 1.0}), "score": 0.9}
    assert "its leaves' weighted total is" in from_paperbench(tree, "tree", 0.5).unmapped[0]


def test_an_id_that_is_in_a_published_tree_twice_is_renamed_and_said(tmp_path: Path) -> None:
    leaf = TREE["sub_tasks"][0]
    tree = {**TREE, "sub_tasks": [leaf, *TREE["sub_tasks"], {**leaf, "requirements": "again"}]}
    found = from_paperbench(tree, "tree", 0.5)
    assert [line.rsplit(" ", 1)[1] for line in found.unmapped] == ["leaf-1-2", "leaf-1-3"]
    back = to_paperbench(through_a_file(found.rubric, tmp_path)).document
    assert [c["requirements"] for c in back["sub_tasks"]] == [
        "runs", "runs", "methods", "plots", "again"
    ]  # fmt: skip


def test_a_tree_of_more_than_a_megabyte_comes_back(tmp_path: Path) -> None:
    leaves = [
        {"id": f"leaf-{i}", "requirements": f"{i} {'long ' * 420}x", "weight": 1,
         "task_category": "Code Development", "sub_tasks": []}
        for i in range(500)
    ]  # fmt: skip
    tree = {**TREE, "sub_tasks": [{**TREE["sub_tasks"][1], "sub_tasks": leaves}]}
    rubric = through_a_file(from_paperbench(tree, "tree", 0.5).rubric, tmp_path)
    assert (tmp_path / "tree.yaml").stat().st_size > 1_000_000
    assert to_paperbench(rubric).document == tree


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data is not beside this checkout")
@pytest.mark.parametrize("name", ["fre", "bam", "rice", "rice.graded"])
def test_real_paperbench_trees_are_lossless(name: str, tmp_path: Path) -> None:
    tree = json.loads((SHARED / f"{name}.json").read_text(encoding="utf-8"))
    found = from_paperbench(tree, "tree", 0.5)
    rubric = through_a_file(found.rubric, tmp_path)
    item = found.items[0] if found.items else None
    assert to_paperbench(rubric, item).document == tree
    if item:
        assert node_scores(rubric, item["scores"])[None] == pytest.approx(tree["score"], abs=1e-9)


def test_an_export_says_what_it_cannot_hold() -> None:
    rubric = Rubric(
        "r", 1, "d", 0.5,
        (Criterion("a", "measured", "a", blocker=True), Criterion("b", "judged", "b", -1.0)),
    )  # fmt: skip
    assert [line.split(":")[0] for line in to_paperbench(rubric).unmapped] == ["a", "b"]


@pytest.mark.parametrize(
    ("doc", "message"),
    [
        ({"id": "x"}, "requires 'requirements'"),
        ([], "a PaperBench node requires 'id'"),
        ({**TREE, "sub_tasks": []}, "no sub_tasks"),
    ],
)
def test_a_file_of_another_format_is_refused(doc: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_paperbench(doc, "x", 0.5)


def test_a_rubric_file_holds_everything(tmp_path: Path) -> None:
    rubric = from_paperbench(TREE, "tree", 0.5).rubric
    back = through_a_file(rubric, tmp_path)
    assert to_document(back) == to_document(rubric)


def test_text_that_looks_like_a_number_stays_text(tmp_path: Path) -> None:
    rubric = Rubric(
        "r", 1, "3e47", 0.5, (Criterion("a", "measured", "012"),), provenance={"x": "1e9"}
    )
    back = through_a_file(rubric, tmp_path)
    assert (back.description, back.criteria[0].description) == ("3e47", "012")
    assert back.provenance == {"x": "1e9"}
