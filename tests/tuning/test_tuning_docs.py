"""The examples of the tuning page run."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.arguments import Parser, add_arguments
from orchestrator.cli.commands import label
from orchestrator.cli.commands.rubric import command as rubric
from orchestrator.engine.types import Response
from orchestrator.tuning.file_formats.item_files import read_items
from orchestrator.tuning.labels.label_files import Label, read_labels, write_labels
from tests.tuning.item_models import judge_line, serving
from tests.tuning.labelsets import rows
from tests.tuning.recorded_runs import says
from tests.tuning.test_ordinal import write_csv
from tests.tuning.test_rewrite import wording

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "tuning.md").read_text(encoding="utf-8")
LABELING = (DOCS / "labeling.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_files_of_the_page_load(tmp_path: Path) -> None:
    for _, name, text in FENCE.findall(LABELING):
        if name:
            (tmp_path / name).write_text(text, encoding="utf-8")
    items = read_items([tmp_path / "items.jsonl"])
    assert [i.scores["focus"] for i in items] == [0.4, 0.9, "na"]
    assert [x.rater for x in read_labels([tmp_path / "labels.jsonl"])] == ["ana", "bo", "ana"]


def test_the_commands_of_the_page_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    save: Callable[..., Path],
) -> None:
    monkeypatch.chdir(tmp_path)
    items = rows(150)
    said = [Label(str(r["id"]), "bo", str(r.pop("label"))) for r in items]
    for r in items:
        r.pop("rater")
    save(items, "reviews.jsonl")
    write_labels(tmp_path / "labels.jsonl", said)
    lines = [x for kind, _, text in FENCE.findall(PAGE) if kind == "sh" for x in text.splitlines()]
    write_csv(tmp_path / "ratings.csv", n=150)
    assert len(lines) == 8
    for line in lines:
        program, command, *argv = shlex.split(line)
        assert program == "diffcourt"
        module = {"rubric": rubric, "label": label}[command]
        parser = Parser(prog=f"diffcourt {command}")
        add_arguments(parser, command)
        assert module.run(parser.parse_args(argv)) == 0, line
    assert (tmp_path / "tuning.html").stat().st_size > 10_000
    assert "GAIN PROVEN" in capsys.readouterr().out


def comments(n: int, start: int) -> list[dict[str, Any]]:
    """Comments in the form of the page's, of which people accept those that give a reason."""
    written = [json.loads(x) for x in dict(_files())["comments.jsonl"].splitlines()]
    rows = []
    for i in range(start, start + n):
        row = written[i * 7 % 3]
        text = f"{row['text']} See line {i}."
        rows.append({**row, "id": f"pr-{i // 2}/{i}", "group": f"pr-{i // 2}", "text": text})
    return rows


def _files() -> list[tuple[str, str]]:
    return [(name, text) for _, name, text in FENCE.findall(PAGE) if name]


def judge(text: str, criterion: dict[str, Any]) -> float:
    """A model that takes the polite for the useful, until it is told to look for a reason."""
    return float(("because" if "reason" in criterion["description"] else "Please") in text)


def write_wording(body: dict[str, Any]) -> Response:
    return says({"proposals": [wording("Does it give a reason?")]})


def test_the_walk_through_leads_to_a_better_judge(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    save: Callable[..., Path],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in _files():
        (tmp_path / name).write_text(text, encoding="utf-8")
    save(comments(60, 0), "comments.jsonl")
    save(comments(30, 500), "fresh.jsonl")
    steps = [
        x for kind, _, text in FENCE.findall(PAGE) if kind == "console" for x in text.split("\n")
    ]
    script: dict[str, Any] = {
        "item-judge": [judge_line(judge)] * 500,
        "rubric-writer": [write_wording] * 3,
    }
    with serving(monkeypatch, script):
        for step in filter(None, steps):
            prompt, program, command, *argv = shlex.split(step)
            assert (prompt, program, command) == ("$", "diffcourt", "rubric")
            parser = Parser(prog="diffcourt rubric")
            add_arguments(parser, command)
            assert rubric.run(parser.parse_args(argv)) == 0, step
    out = capsys.readouterr().out
    assert "none asked for" not in out
    assert "NEW WORDING PROVEN" in out
    assert "useful reworded from team version 1: held-out kappa" in out
    assert "B IS BETTER" in out
