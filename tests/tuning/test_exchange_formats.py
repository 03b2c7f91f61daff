"""Items and labels of other tools: there and back, and as their documentation has them."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import read_items
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
NOT_THERE = {"langfuse": {"judge"}}


@pytest.mark.parametrize("tool", ["langfuse", "langsmith", "mlflow", "promptfoo", "csv", "jsonl"])
def test_items_and_labels_come_back_as_they_went(save: Save, tmp_path: Path, tool: str) -> None:
    items, labels = save(ITEMS), save(LABELS, "labels.jsonl")
    there, back, said = (tmp_path / name for name in ("there", "back.jsonl", "said.jsonl"))
    assert run("export-items", items, "--labels", labels, "--to", tool, "--out", there) == 0
    assert run("import-items", there, "--from", tool, "--out", back, "--labels", said) == 0
    missing = NOT_THERE.get(tool, set())
    for old, new in zip(read_items([items]), read_items([back]), strict=True):
        for name in {"id", "group", "scores", "text", "reasons", "judge"} - missing:
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
    given = ("--labels", labels, "--to", "csv", "--out", table, "--map", "judge==judge")
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


@pytest.mark.parametrize("tool", ["langfuse", "langsmith", "mlflow", "csv", "jsonl"])
def test_times_and_links_come_back(save: Save, tmp_path: Path, tool: str) -> None:
    items = save([{**ITEMS[0], "url": "https://example.org/7", "at": "2026-05-01T10:00:00Z"}])
    labels = save(
        [{"item": "pr-7/a", "rater": "ana", "label": 4, "at": "2026-05-02"}], "labels.jsonl"
    )
    there, back, said = (tmp_path / name for name in ("there", "back.jsonl", "said.jsonl"))
    run("export-items", items, "--labels", labels, "--to", tool, "--out", there)
    run("import-items", there, "--from", tool, "--out", back, "--labels", said)
    (found,), (label,) = read_items([back]), read_labels([said])
    assert (found.at, label.label, label.at) == ("2026-05-01T10:00:00Z", 4.0, "2026-05-02")
    assert found.url == ("" if tool == "mlflow" else "https://example.org/7")


def test_values_that_a_format_cannot_hold_are_listed(
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
    run(*call, "--to", "promptfoo")
    err = capsys.readouterr().err
    for line in ("a: x: abstained", "a: y: does not apply", "a: repeated scoring 1", "a: url",
                 "a: label: promptfoo has pass or fail, not 4",
                 "a: history and drawing of the label by ana"):  # fmt: skip
        assert f"not mapped: {line}\n" in err


FOREIGN: dict[str, object] = {
    # A page of Langfuse's list of scores, without the traces.
    "langfuse": {
        "data": [
            {"id": "s1", "traceId": "t1", "name": "evidence", "value": 0.5, "source": "EVAL",
             "dataType": "NUMERIC", "comment": "One quote."},
            {"id": "s2", "traceId": "t1", "name": "good", "value": 1, "stringValue": "True",
             "source": "ANNOTATION", "dataType": "BOOLEAN", "authorUserId": "ana"},
            {"id": "s3", "traceId": "t1", "name": "tone", "value": "friendly", "source": "EVAL",
             "dataType": "CATEGORICAL"},
        ],
        "meta": {"page": 1},
    },
    # Feedback of LangSmith, without the runs.
    "langsmith": [
        {"id": "f1", "run_id": "t1", "key": "evidence", "score": 0.5, "value": None,
         "comment": "One quote.", "feedback_source": {"type": "model"}},
        {"id": "f2", "run_id": "t1", "key": "good", "score": None, "value": "yes",
         "feedback_source": {"type": "app", "user_id": "ana"}},
        {"id": "f3", "run_id": "t1", "key": "tone", "value": "friendly"},
    ],
    "mlflow": {
        "info": {
            "trace_id": "t1", "request_time": "2026-05-01T10:00:00Z", "state": "OK",
            "assessments": [
                {"assessment_name": "evidence", "feedback": {"value": 0.5},
                 "source": {"source_type": "LLM_JUDGE", "source_id": "gpt"},
                 "rationale": "One quote."},
                {"assessment_name": "good", "feedback": {"value": True},
                 "source": {"source_type": "HUMAN", "source_id": "ana"}},
                {"assessment_name": "tone", "feedback": {"value": "friendly"},
                 "source": {"source_type": "CODE"}},
            ],
        },
        "data": {"spans": []},
    },
    "promptfoo": {
        "version": 3,
        "results": {
            "version": 3,
            "results": [
                {"id": "t1", "testIdx": 4, "response": {"output": {"text": "Fine."}},
                 "gradingResult": {
                     "pass": True, "score": 1, "comment": "by hand",
                     "componentResults": [
                         {"pass": True, "score": 0.5, "reason": "One quote.",
                          "assertion": {"type": "llm-rubric", "metric": "evidence"}},
                         {"pass": True, "score": 1, "reason": "Manual result",
                          "assertion": {"type": "human"}},
                     ]}},
            ],
        },
    },
}  # fmt: skip


@pytest.mark.parametrize("tool", sorted(FOREIGN))
def test_formats_of_other_tools_are_read(
    tmp_path: Path, tool: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source, back, said = (tmp_path / name for name in ("s.json", "back.jsonl", "said.jsonl"))
    source.write_text(json.dumps(FOREIGN[tool]))
    assert run("import-items", source, "--from", tool, "--out", back, "--labels", said) == 0
    (item,), (label,) = read_items([back]), read_labels([said])
    assert (item.id, item.scores, item.reasons) == (
        "t1", {"evidence": 0.5}, {"evidence": "One quote."}
    )  # fmt: skip
    assert (label.item, label.label) == ("t1", "accept")
    assert label.rater == ("-" if tool == "promptfoo" else "ana")
    if tool == "promptfoo":
        assert (item.text, item.group, label.note) == ("Fine.", "4", "by hand")
    else:
        assert "not mapped: t1: tone: 'friendly' is no score" in capsys.readouterr().err


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
    run("export-items", back, "--labels", said, "--to", "csv", "--out", again, *pairs)
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
        ("langfuse", '{"name": "x"}', (), "requires 'traceId'"),
        ("mlflow", '{"trace_id": "x"}', (), "requires 'info'"),
        ("jsonl", "not json\n", (), "s:1: invalid JSON"),
        ("jsonl", "[" * 200_000, (), "s:1: invalid JSON: it is nested deeper than 100 levels"),
        ("langfuse", "[3]", (), "s: entry 1: must be a JSON object"),
        ("langsmith", '{"id": 1, "feedback": [3]}', (), "is not in the shape of langsmith"),
        ("mlflow", '{"info": {"trace_id": 1, "assessments": 3}}', (), "not in the shape of mlflow"),
        ("jsonl", '[{"id": 1, "label": "accept", "criteria": {"a": "accept"}}]',
         ("--out", "s"), "already exists"),
        ("langsmith", '[{"run_id": 1, "key": "a", "value": "yes", "feedback_source":'
         ' {"type": "app"}}, {"run_id": 1, "key": "b", "value": "no", "feedback_source":'
         ' {"type": "app"}}]', (), "people assessed a, b; choose one as the label with --label"),
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
