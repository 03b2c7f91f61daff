"""The examples of the tuning page run."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli.arguments import Parser
from orchestrator.cli.commands import label
from orchestrator.cli.commands.rubric import command as rubric
from orchestrator.tuning.item_files import read_items
from orchestrator.tuning.labels import Label, read_labels, write_labels
from tests.tuning.labelsets import rows

PAGE = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_files_of_the_page_load(tmp_path: Path) -> None:
    for _, name, text in FENCE.findall(PAGE):
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
    items = rows(200)
    said = [Label(str(r["id"]), "bo", str(r.pop("label"))) for r in items]
    for r in items:
        r.pop("rater")
    save(items, "reviews.jsonl")
    write_labels(tmp_path / "labels.jsonl", said)
    lines = [x for kind, _, text in FENCE.findall(PAGE) if kind == "sh" for x in text.splitlines()]
    assert len(lines) == 5
    for line in lines:
        program, command, *argv = shlex.split(line)
        assert program == "diffcourt"
        module = {"rubric": rubric, "label": label}[command]
        parser = Parser(prog=f"diffcourt {command}")
        module.add_arguments(parser)
        assert module.run(parser.parse_args(argv)) == 0, line
    assert (tmp_path / "tuning.html").stat().st_size > 10_000
    assert "GAIN PROVEN" in capsys.readouterr().out
