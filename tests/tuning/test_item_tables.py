"""Items and labels as tables, there and back, and the scripts that convert other tools' exports."""

import csv
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.engine.rubric_scoring import node_scores
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import read_items
from orchestrator.tuning.file_formats.rubric_file import read_rubric
from orchestrator.tuning.labels.label_files import read_labels
from tests.tuning.test_disagreements import run

Save = Callable[..., Path]
ITEMS: list[dict[str, object]] = [
    {"id": "pr-7/a", "group": "pr-7", "scores": {"evidence": 0.25, "focus": 1.0},
     "text": 'Says "no", twice;\nand Grüße, all', "reasons": {"focus": "One line, one claim."},
     "judge": "model-x"},
    {"id": "pr-7/b", "group": "pr-7", "scores": {"evidence": 0.0, "focus": 0.5}, "text": "b",
     "judge": "model-x"},
    {"id": "pr-9/a", "group": "pr-9", "scores": {"evidence": 0.75}, "text": "c"},
]  # fmt: skip
LABELS: list[dict[str, object]] = [
    {"item": "pr-7/a", "rater": "ana", "label": "accept", "criteria": {"focus": "reject"},
     "note": "too long, but right"},
    {"item": "pr-7/a", "rater": "bo", "label": "reject"},
    {"item": "pr-9/a", "rater": "ana", "label": "reject"},
]  # fmt: skip


@pytest.mark.parametrize("tool", ["csv", "jsonl"])
def test_items_and_labels_come_back_as_they_went(save: Save, tmp_path: Path, tool: str) -> None:
    items, labels = save(ITEMS), save(LABELS, "labels.jsonl")
    there, back, said = (tmp_path / name for name in ("there", "back.jsonl", "said.jsonl"))
    assert run("export-items", items, "--labels", labels, "--format", tool, "--out", there) == 0
    assert run("import-items", there, "--from", tool, "--out", back, "--labels", said) == 0
    for old, new in zip(read_items([items]), read_items([back]), strict=True):
        for name in ("id", "group", "scores", "text", "reasons", "judge"):
            assert getattr(new, name) == getattr(old, name), name
    rows = [x.to_row() for x in read_labels([said])]
    assert rows == [x.to_row() for x in read_labels([labels])]


BEGINNINGS = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    "\uff1d",
    "\uff0b",
    "\uff0d",
    "\uff20",
    "'=",
    "''@",
)


@pytest.mark.attack("a text that a spreadsheet executes as a formula, in a table that we write")
def test_no_cell_of_a_table_is_a_formula_and_each_comes_back_as_it_was(
    save: Save, tmp_path: Path
) -> None:
    texts = [f"{start}HYPERLINK(1)" for start in BEGINNINGS]
    texts += ["'quoted'", "it's; =1", "a\u2028b\x0bc\r\nd"]
    items = save(
        [
            {"id": text, "group": text, "text": text, "judge": text, "scores": {"a": 0.5}}
            for text in texts
        ]
    )
    labels = save(
        [{"item": text, "rater": "-", "label": "accept", "note": text} for text in texts],
        "labels.jsonl",
    )
    table, back, said = (tmp_path / name for name in ("t.csv", "back.jsonl", "said.jsonl"))
    given = ("--labels", labels, "--format", "csv", "--out", table, "--map", "judge==judge")
    assert run("export-items", items, *given) == 0
    with table.open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", *BEGINNINGS[1:11]))]
    more = ("--out", back, "--labels", said, "--map", "judge==judge")
    assert run("import-items", table, "--from", "csv", *more) == 0
    for found in (read_items([back]), read_items([table])):
        assert [(x.id, x.text) for x in found] == [(text, text) for text in texts]
    assert [x.judge for x in read_items([back])] == texts
    assert [(x.rater, x.note) for x in read_labels([said])] == [("-", text) for text in texts]


@pytest.mark.parametrize("tool", ["csv", "jsonl"])
def test_times_and_links_come_back(save: Save, tmp_path: Path, tool: str) -> None:
    items = save([{**ITEMS[0], "url": "https://example.org/7", "at": "2026-05-01T10:00:00Z"}])
    labels = save(
        [{"item": "pr-7/a", "rater": "ana", "label": 4, "at": "2026-05-02"}], "labels.jsonl"
    )
    there, back, said = (tmp_path / name for name in ("there", "back.jsonl", "said.jsonl"))
    run("export-items", items, "--labels", labels, "--format", tool, "--out", there)
    run("import-items", there, "--from", tool, "--out", back, "--labels", said)
    (found,), (label,) = read_items([back]), read_labels([said])
    assert (found.at, label.label, label.at) == ("2026-05-01T10:00:00Z", 4.0, "2026-05-02")
    assert found.url == "https://example.org/7"


def test_values_that_a_table_cannot_hold_are_listed(
    save: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = save(
        [
            {"id": "a", "scores": {"x": None, "y": "na"}, "url": "https://example.org"},
            {"id": "a", "repeat": 1, "scores": {"x": 1}},
        ]
    )
    labels = save(
        [{"item": "a", "rater": "ana", "label": 4, "drawn": "random", "at": "2026-05-02"}],
        "labels.jsonl",
    )
    call = ("export-items", items, "--labels", labels, "--out", tmp_path / "out")
    run(*call, "--format", "csv")
    err = capsys.readouterr().err
    for line in ("a: x: abstained", "a: y: does not apply", "a: repeated scoring 1",
                 "a: history, drawing and adjudication of the label by ana"):  # fmt: skip
        assert f"not mapped: {line}\n" in err


SCRIPTS = dict(
    re.findall(
        r"^```python file=(\S+)\n(.*?)^```$",
        (Path(__file__).parents[2] / "docs" / "other-tools.md").read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
)
FOREIGN: dict[str, object] = {
    "langfuse": {"data": [{
        "id": "t1", "sessionId": "s1", "output": "Fine.",
        "scores": [
            {"id": "s1", "traceId": "t1", "name": "evidence", "value": 0.5, "source": "EVAL",
             "dataType": "NUMERIC", "comment": "One quote."},
            {"id": "s2", "traceId": "t1", "name": "good", "value": 1, "stringValue": "True",
             "source": "ANNOTATION", "dataType": "BOOLEAN", "authorUserId": "ana"},
            {"id": "s3", "traceId": "t1", "name": "tone", "value": None, "source": "EVAL",
             "stringValue": "friendly", "dataType": "CATEGORICAL"},
        ],
    }], "meta": {"page": 1}},
    "langsmith": [{
        "id": "t1", "trace_id": "s1", "outputs": "Fine.",
        "feedback": [
            {"id": "f1", "run_id": "t1", "key": "evidence", "score": 0.5, "value": None,
             "comment": "One quote.", "feedback_source": {"type": "model"}},
            {"id": "f2", "run_id": "t1", "key": "good", "score": None, "value": "yes",
             "feedback_source": {"type": "app", "user_id": "ana"}},
            {"id": "f3", "run_id": "t1", "key": "tone", "value": "friendly"},
        ],
    }],
    "mlflow": [{"info": {
        "trace_id": "t1", "response_preview": "Fine.",
        "trace_metadata": {"mlflow.trace.session": "s1"},
        "assessments": [
            {"assessment_name": "evidence", "feedback": {"value": 0.5}, "rationale": "One quote.",
             "source": {"source_type": "LLM_JUDGE", "source_id": "m"}},
            {"assessment_name": "good", "feedback": {"value": True},
             "source": {"source_type": "HUMAN", "source_id": "ana"}},
            {"assessment_name": "tone", "feedback": {"value": "friendly"},
             "source": {"source_type": "CODE", "source_id": "c"}},
        ],
    }, "data": {"spans": []}}],
    "promptfoo": {"results": {"version": 3, "results": [{
        "id": "t1", "testIdx": 4, "promptIdx": 0, "response": {"output": "Fine."},
        "gradingResult": {"pass": True, "comment": "by hand", "componentResults": [
            {"pass": True, "score": 0.5, "reason": "One quote.",
             "assertion": {"type": "llm-rubric", "metric": "evidence", "value": "has evidence"}},
            {"pass": True, "score": 1, "reason": "Manual", "assertion": {"type": "human"}},
        ]},
    }]}},
}  # fmt: skip


def converted(script: str, given: str) -> str:
    """What a script of the page writes; scripts are short enough to be copied."""
    assert SCRIPTS[script].count("\n") <= 15, script
    call = [sys.executable, "-I", "-c", SCRIPTS[script]]
    return subprocess.run(call, input=given, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("tool", sorted(FOREIGN))
def test_the_scripts_of_the_page_read_other_tools_exports(
    tmp_path: Path, tool: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table, back, said = (tmp_path / name for name in ("rows.jsonl", "back.jsonl", "said.jsonl"))
    table.write_text(converted(f"from_{tool}.py", json.dumps(FOREIGN[tool])))
    assert run("import-items", table, "--from", "jsonl", "--out", back, "--labels", said) == 0
    (item,), (label,) = read_items([back]), read_labels([said])
    assert (item.id, item.text, item.scores, item.reasons) == (
        "t1", "Fine.", {"evidence": 0.5}, {"evidence": "One quote."}
    )  # fmt: skip
    assert (label.item, label.label) == ("t1", "accept")
    if tool == "promptfoo":
        assert (item.group, label.rater, label.note) == ("4", "-", "by hand")
    else:
        assert (item.group, label.rater) == ("s1", "ana")
        assert "not mapped: t1: tone: 'friendly' is no score" in capsys.readouterr().err


def test_the_commands_and_the_script_of_the_page_write_for_other_tools(
    save: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save(ITEMS, "reviews.jsonl"), save(LABELS, "labels.jsonl")
    page = (Path(__file__).parents[2] / "docs" / "other-tools.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for line in block.splitlines():
        assert run(*shlex.split(line)[2:]) == 0
    assert [x.scores for x in read_items([Path("imported.jsonl")])] == [x["scores"] for x in ITEMS]
    export = ("export-items", "reviews.jsonl", "--labels", "labels.jsonl", "--format", "jsonl")
    run(*export, "--out", "rows.jsonl")
    found = json.loads(converted("to_langfuse.py", Path("rows.jsonl").read_text()))
    assert [(x["traceId"], x["name"], x["value"], x["comment"]) for x in found][:4] == [
        ("pr-7/a", "evidence", 0.25, None),
        ("pr-7/a", "focus", 1.0, "One line, one claim."),
        ("pr-7/a", "label by ana", "accept", "too long, but right"),
        ("pr-7/a", "label by bo", "reject", None),
    ]


def test_the_script_of_the_page_converts_a_rubric(tmp_path: Path) -> None:
    doc = {
        "prompt": [],
        "rubrics": [
            {"criterion": "names the dose", "points": 5, "tags": ["level:example"]},
            {"criterion": "asks back", "points": 3, "tags": []},
            {"criterion": "invents a drug", "points": -7, "tags": []},
        ],
    }
    path = tmp_path / "house.yaml"
    path.write_text(converted("from_healthbench.py", json.dumps(doc)))
    rubric = read_rubric(path)
    assert node_scores(rubric, {"c1": 1.0, "c2": 1.0, "c3": 1.0})[None] == pytest.approx(1 / 8)
    assert [(c.description, c.weight, list(c.tags)) for c in rubric.criteria] == [
        (row["criterion"], row["points"], row["tags"]) for row in doc["rubrics"]
    ]


def test_tables_with_names_of_their_own(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["trace", "answer", "f1", "helpful?", "who"])
        writer.writerows([["t1", "a, b", "0.5", "yes", "ana"], ["t1", "a, b", "0.5", "no", "bo"]])
    mapped = ("id=trace", "text=answer", "scores.focus=f1", "label=helpful?", "rater=who")
    pairs = [part for pair in mapped for part in ("--map", pair)]
    back, said = tmp_path / "back.jsonl", tmp_path / "said.jsonl"
    run("import-items", table, "--from", "csv", "--out", back, "--labels", said, *pairs)
    (item,) = read_items([back])
    assert (item.id, item.text, item.scores) == ("t1", "a, b", {"focus": 0.5})
    assert [(x.rater, x.label) for x in read_labels([said])] == [
        ("ana", "accept"),
        ("bo", "reject"),
    ]
    again = tmp_path / "again.csv"
    run("export-items", back, "--labels", said, "--format", "csv", "--out", again, *pairs)
    with again.open(newline="") as file:
        assert next(csv.reader(file)) == ["trace", "group", "answer", "f1", "who", "helpful?"]

    nested = tmp_path / "rows.jsonl"
    metrics = {"focus": 1, "depth": 0, "broken": float("nan")}
    nested.write_text(json.dumps({"run": {"id": "t2"}, "metrics": metrics}) + "\n")
    out = tmp_path / "nested.jsonl"
    pairs = ["--map", "id=run.id", "--map", "scores=metrics"]
    run("import-items", nested, "--from", "jsonl", "--out", out, *pairs)
    assert read_items([out])[0].scores == {"focus": 1.0, "depth": 0.0}


@pytest.mark.parametrize(
    ("tool", "text", "more", "said"),
    [
        ("csv", "a,b\n1,2\n", (), "no id in 'id'; name it with --map id=NAME"),
        ("jsonl", "not json\n", (), "s:1: invalid JSON"),
        ("jsonl", "[" * 200_000, (), "s:1: invalid JSON: it is nested deeper than 100 levels"),
        ("jsonl", "[3]", (), "s: entry 1: must be a JSON object"),
        ("jsonl", '[{"id": 1, "label": "accept", "criteria": {"a": "accept"}}]',
         ("--out", "s"), "already exists"),
    ],
)  # fmt: skip
def test_an_unreadable_file_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, text: str, more: tuple[str, ...],
    said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("s").write_text(text)
    with pytest.raises(InputError) as error:
        run("import-items", "s", "--from", tool, *(more or ("--out", "out.jsonl")))
    assert said in str(error.value)
