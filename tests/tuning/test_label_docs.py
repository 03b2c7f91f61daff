"""The commands of the page on labels run, one after the other."""

import io
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli.arguments import Parser, add_arguments
from orchestrator.cli.commands import label
from orchestrator.cli.commands.rubric import command as rubric
from orchestrator.tuning.labels.label_files import Label, write_labels
from tests.tuning.labelsets import rows

PAGE = (Path(__file__).parents[2] / "docs" / "labels.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for text in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for line in text.splitlines()
]


def test_the_commands_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Callable[..., Path], house: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    items = rows(200)
    for n, row in enumerate(items):
        row["id"] = f"pr-{n // 2}/{'ab'[n % 2]}"
    write_labels(
        tmp_path / "labels.jsonl", [Label(str(r["id"]), "ana", str(r["label"])) for r in items]
    )
    save(items, "reviews.jsonl")
    assert COMMANDS
    for line in COMMANDS:
        monkeypatch.setattr(sys, "stdin", io.StringIO("r\n"))
        program, command, *argv = shlex.split(line)
        assert program == "diffcourt"
        module = {"rubric": rubric, "label": label}[command]
        parser = Parser(prog=f"diffcourt {command}")
        add_arguments(parser, command)
        assert module.run(parser.parse_args(argv)) in {0, 1, 3}, line
