"""Rubrics of other tools, there and back."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.engine.rubric_scoring import total
from orchestrator.engine.types import Criterion, Rubric
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.foreign_rubric_formats import EXPORTERS, IMPORTERS
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
    assert total(rubric, item["scores"]) == pytest.approx(tree["score"], abs=1e-9)
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
        assert total(rubric, item["scores"]) == pytest.approx(tree["score"], abs=1e-9)


def test_healthbench_points_are_weights_and_come_back(tmp_path: Path) -> None:
    doc = {
        "rubrics": [
            {"criterion": "names the dose", "points": 5, "tags": ["level:example"]},
            {"criterion": "asks back", "points": 3, "tags": []},
            {"criterion": "invents a drug", "points": -7, "tags": []},
        ]
    }
    rubric = through_a_file(IMPORTERS["healthbench"](doc, "hb", 0.5).rubric, tmp_path)
    assert total(rubric, {"c1": 1.0, "c2": 0.0, "c3": 0.0}) == pytest.approx(5 / 8)
    assert total(rubric, {"c1": 1.0, "c2": 1.0, "c3": 1.0}) == pytest.approx(1 / 8)
    assert total(rubric, {"c1": 0.0, "c2": 0.0, "c3": 1.0}) == 0.0
    assert EXPORTERS["healthbench"](rubric).document == doc


def test_healthbench_lists_what_it_left_out() -> None:
    doc = {"prompt": [], "rubrics": [{"criterion": "x", "points": 1}]}
    assert IMPORTERS["healthbench"](doc, "hb", 0.5).unmapped == ("prompt: not part of a rubric",)


def test_autorubric_sections_and_options(tmp_path: Path) -> None:
    doc = {
        "rubric": {
            "sections": [
                {"name": "facts", "criteria": [{"weight": 8.0, "requirement": "right numbers"}]},
                {
                    "name": "style",
                    "criteria": [
                        {
                            "name": "Tone",
                            "requirement": "kind",
                            "options": [
                                {"label": "rude", "value": 0.0},
                                {"label": "kind", "value": 1.0},
                                {"label": "no tone", "value": 0.0, "na": True},
                            ],
                            "aggregation": "median",
                        }
                    ],
                },
            ]
        }
    }
    found = IMPORTERS["autorubric"](doc, "auto", 0.5)
    rubric = through_a_file(found.rubric, tmp_path)
    assert [(c.id, c.weight, c.tags) for c in rubric.criteria] == [
        ("c1", 8.0, ("facts",)),
        ("tone", 10.0, ("style",)),
    ]
    assert [x.description for x in rubric.criteria[1].levels] == ["rude", "kind"]
    assert len(found.unmapped) == 2
    back = EXPORTERS["autorubric"](rubric).document
    assert back[0] == {"name": "c1", "weight": 8, "requirement": "right numbers"}


def test_promptfoo_maps_judged_assertions_and_lists_the_rest(tmp_path: Path) -> None:
    doc = {
        "tests": [
            {
                "threshold": 0.7,
                "vars": {"x": 1},
                "assert": [
                    {"type": "llm-rubric", "value": "is polite", "weight": 2, "metric": "polite"},
                    {"type": "contains", "value": "hello"},
                    {
                        "type": "assert-set",
                        "metric": "depth",
                        "weight": 3,
                        "assert": [{"type": "g-eval", "value": ["reasons", "cites"]}],
                    },
                ],
            }
        ]
    }
    found = IMPORTERS["promptfoo"](doc, "pf", 0.5)
    rubric = through_a_file(found.rubric, tmp_path)
    assert rubric.threshold == 0.7
    assert [(c.id, c.weight, c.parent) for c in rubric.criteria] == [
        ("polite", 2.0, None),
        ("c2", 1.0, "depth"),
    ]
    assert total(rubric, {"polite": 1.0, "c2": 0.0}) == pytest.approx(0.4)
    assert any("contains" in line for line in found.unmapped)
    assert any("vars" in line for line in found.unmapped)
    test = EXPORTERS["promptfoo"](rubric).document["tests"][0]
    assert [a["type"] for a in test["assert"]] == ["llm-rubric", "assert-set"]
    assert test["assert"][1]["assert"][0]["type"] == "g-eval"


def test_deepeval_metrics_and_score_ranges(tmp_path: Path) -> None:
    doc = [
        {
            "name": "Correctness",
            "criteria": "is it right",
            "threshold": 0.5,
            "rubric": [
                {"score_range": [0, 4], "expected_outcome": "wrong"},
                {"score_range": [5, 10], "expected_outcome": "right"},
            ],
        }
    ]
    found = IMPORTERS["deepeval"](doc, "de", 0.5)
    rubric = through_a_file(found.rubric, tmp_path)
    assert [(x.score, x.description) for x in rubric.criteria[0].levels] == [
        (0.2, "wrong"),
        (0.75, "right"),
    ]
    assert any("threshold" in line for line in found.unmapped)


def test_exports_say_what_they_cannot_hold() -> None:
    rubric = Rubric(
        "r", 1, "d", 0.5,
        (Criterion("a", "measured", "a", blocker=True), Criterion("b", "judged", "b", -1.0)),
    )  # fmt: skip
    for name in ("healthbench", "autorubric", "promptfoo", "deepeval", "paperbench"):
        assert any(line.startswith("a:") for line in EXPORTERS[name](rubric).unmapped), name


@pytest.mark.parametrize(
    ("name", "doc", "message"),
    [
        ("paperbench", {"id": "x"}, "requires 'requirements'"),
        ("paperbench", {**TREE, "sub_tasks": []}, "no sub_tasks"),
        ("healthbench", [], "requires 'rubrics'"),
        ("autorubric", {"x": 1}, "requires 'rubric'"),
        ("promptfoo", {"tests": []}, "requires exactly one test"),
        ("promptfoo", {"assert": [{"type": "equals"}]}, "no assertion can be imported"),
        ("deepeval", {}, "list of G-Eval metrics"),
    ],
)
def test_a_file_of_another_format_is_refused(name: str, doc: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        IMPORTERS[name](doc, "x", 0.5)


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
