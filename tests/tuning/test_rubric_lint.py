"""What the lint of a rubric reports, and what it leaves alone."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from orchestrator.data_directories import data_root
from orchestrator.engine.types import Criterion, Rubric, ScoreLevel
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.tuning.file_formats.rubric_file import read_rubric
from orchestrator.tuning.labels.label_files import Label, infer_scale
from orchestrator.tuning.rubric_lint import LintReport, lint_rubric
from orchestrator.tuning.training_data import build_training_data
from tests.tuning.labelsets import rubric_of
from tests.tuning.test_disagreements import run

Save = Callable[..., Path]
ANCHORED = ("Names no line.", "Names the line and the input that fails.")


def judged(name: str, text: str, levels: tuple[str, ...] = ANCHORED) -> Criterion:
    scored = tuple(ScoreLevel(n / (len(levels) - 1), level) for n, level in enumerate(levels))
    return Criterion(name, "judged", text, levels=scored)


def lint(*criteria: Criterion) -> list[tuple[str, tuple[str, ...]]]:
    found = lint_rubric(Rubric("r", 1, "d", 0.5, criteria), [], [], None)
    return [(one.kind, one.criteria) for one in found.findings]


@pytest.mark.parametrize("path", sorted((data_root() / "rubrics").glob("*.yaml")), ids=str)
def test_shipped_rubrics_have_nothing_to_mend(path: Path) -> None:
    assert lint_rubric(read_rubric(path), [], [], None).findings == ()


@pytest.mark.parametrize(
    "text",
    [
        "Is the comment clear and concise?",
        "The comment is polite, helpful.",
        "Is the answer accurate/complete?",
        "Is the summary clearly and precisely worded?",
        "Is the defect real? Does the author know what to do?",
        "Is the finding in the diff and does it matter?",
        "Explains the defect and suggests a remedy.",
        "Does the review cite the line and then explain the failure?",
    ],
)
def test_a_criterion_that_asks_two_things(text: str) -> None:
    assert lint(judged("x", text)) == [("double-barreled", ("x",))]


@pytest.mark.parametrize(
    "text",
    [
        "Does the review follow inputs and outputs of the changed function?",
        "Could the author act on each finding without asking back?",
        "Is the severity right for the consequence in this code base?",
        "Are claims about callers and tests backed by a quote?",
        "Does attention follow risk, so that the worst parts were looked at hardest?",
        "Is it clear which line fails?",
        "Penalty: statements about the code and its history that no evidence supports.",
        "Does the reason, rather than the style, decide the severity?",
    ],
)
def test_a_criterion_that_asks_one_thing(text: str) -> None:
    assert lint(judged("x", text)) == []


def test_measured_criteria_may_be_computed_from_several_things() -> None:
    assert lint(Criterion("x", "measured", "Share of clear and concise findings.")) == []


def test_criteria_with_nearly_the_same_words() -> None:
    one = judged("one", "Does the review cite evidence for each claim?")
    same = judged("same", "Is evidence cited by the review for every claim it makes?")
    other = judged("other", "Does the review cover the risky files of the change?")
    assert lint(one, same, other) == [("overlapping", ("one", "same"))]


@pytest.mark.parametrize(
    ("levels", "reported"),
    [
        (("Poor.", "Good.", "Excellent quality."), True),
        (("Not good", "A very high level"), True),
        (("Names a line.", "Names a line."), True),
        (("not met", "met"), False),
        (("None.", "One.", "Several, or one that the verdict leans on."), False),
        (ANCHORED, False),
    ],
)
def test_levels_without_meaning(levels: tuple[str, ...], reported: bool) -> None:
    found = lint(judged("x", "Is the place of each finding right?", levels))
    assert found == ([("unanchored", ("x",))] if reported else [])


def simulate(n: int = 200) -> LintReport:
    """``a`` decides, ``b`` copies it, ``c`` never varies, ``d`` is noise; raters toss coins on a."""
    rng = np.random.default_rng(2)
    x = rng.random((n, 2))
    items = [
        Item(f"i{k}", f"g{k // 2}",
             {"a": float(v), "b": float(min(v + 0.01, 1.0)), "c": 1.0, "d": float(w)})
        for k, (v, w) in enumerate(x)
    ]  # fmt: skip
    labels = [
        Label(item.id, rater, "accept" if v > 0.5 else "reject",
              {"a": "accept" if rng.random() < 0.5 else "reject",
               "b": "accept" if v > 0.5 else "reject"} if k < 60 else {})
        for k, (item, (v, _)) in enumerate(zip(items, x, strict=True))
        for rater in ("ana", "bo")
    ]  # fmt: skip
    rubric = rubric_of()
    data = build_training_data(rubric, items, labels, infer_scale(labels, None))
    return lint_rubric(rubric, items, labels, data)


def test_findings_from_scores_and_labels() -> None:
    found = simulate()
    assert {(f.kind, f.criteria) for f in found.findings} == {
        ("overlapping", ("a", "b")),
        ("not discriminating", ("c",)),
        ("not discriminating", ("d",)),
        ("raters disagree", ("a",)),
    }
    assert found.unchecked == ()
    assert all(f.advice for f in found.findings)


def test_a_blocker_may_hardly_vary_and_few_items_tell_nothing() -> None:
    items = [Item(f"i{n}", f"g{n}", {"a": 1.0}) for n in range(40)]
    plain, blocker = rubric_of(("a",)), rubric_of(("a",), blocker=True)
    assert [f.kind for f in lint_rubric(plain, items, [], None).findings] == ["not discriminating"]
    assert lint_rubric(blocker, items, [], None).findings == ()
    few = lint_rubric(plain, items[:20], [], None)
    assert (few.findings, few.unchecked[0]) == ((), "the scores: give at least 30 ITEMS")


def test_the_command(save: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lint", "pr-review") == 0
    assert capsys.readouterr().out.startswith("Nothing to fix in 13 criteria.")
    bad = tmp_path / "bad.yaml"
    bad.write_text(
        "name: bad\nversion: 1\ndescription: Some.\nthreshold: 0.5\ncriteria:\n"
        "  - {id: x, kind: judged, description: Is it clear and concise?,\n"
        "     levels: [{score: 0, description: bad}, {score: 1, description: good}]}\n"
    )
    assert run("lint", bad, "--json", tmp_path / "o.json") == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "2 findings in 1 criterion." in out
    assert "x: asks 'clear' and 'concise'; make it two criteria" in out
    kinds = [f["kind"] for f in json.loads((tmp_path / "o.json").read_text())["findings"]]
    assert kinds == ["double-barreled", "unanchored"]
    items = save([{"id": f"i{n}", "scores": {"x": n % 2}} for n in range(40)])
    assert run("lint", bad, items) == 1
    assert "the scores" not in capsys.readouterr().out
    with pytest.raises(InputError, match="--labels requires the labeled ITEMS"):
        run("lint", bad, "--labels", items)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_equal_scores_are_no_estimate_of_a_correlation(sign: float) -> None:
    scores = np.random.default_rng(1).integers(0, 3, 40) / 2
    items = [
        Item(f"i{n}", f"g{n}", {"a": float(x), "b": float((1 - sign) / 2 + sign * x)})
        for n, x in enumerate(scores)
    ]
    (found,) = lint_rubric(rubric_of(("a", "b")), items, [], None).findings
    assert found.criteria == ("a", "b")
    assert found.what == "on all 40 items the score of one tells that of the other"
