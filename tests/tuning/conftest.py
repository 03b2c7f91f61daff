"""Files for the tests of tuning."""

import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from shutil import copytree
from typing import NamedTuple

import pytest

from orchestrator.tuning.file_formats.rubric_file import write_rubric


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows as JSON Lines and gives the file."""

    def write(items: list[dict[str, object]], name: str = "items.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(r) + "\n" for r in items), encoding="utf-8")
        return path

    return write


class Tuned(NamedTuple):
    """A rubric that was tuned once for a whole process, with what was printed."""

    rubric: Path
    items: Path
    out: str


@pytest.fixture(scope="session")
def tuned_once(tmp_path_factory: pytest.TempPathFactory) -> Tuned:
    """House, tuned on 300 items of 150 groups; the page and the JSON lie beside it."""
    from orchestrator.cli.arguments import Parser, add_arguments
    from orchestrator.cli.commands.rubric import command
    from tests.tuning.labelsets import rows, rubric_of

    folder = tmp_path_factory.mktemp("tuned")
    write_rubric(folder / "house.yaml", rubric_of())
    items = folder / "items.jsonl"
    items.write_text("".join(json.dumps(r) + "\n" for r in rows(300)), encoding="utf-8")
    parser = Parser(prog="diffcourt rubric")
    add_arguments(parser, "rubric")
    files = ("--report", folder / "page.html", "--json", folder / "o.json")
    given = ("tune", folder / "house.yaml", items, "--refits", 60, *files)
    with redirect_stdout(out := io.StringIO()):
        assert command.run(parser.parse_args([str(one) for one in given])) == 0
    return Tuned(folder / "house-v2.yaml", items, out.getvalue())


@pytest.fixture
def tuned(tuned_once: Tuned, tmp_path: Path) -> Tuned:
    """A copy of what ``tuned_once`` made."""
    copytree(tuned_once.items.parent, folder := tmp_path / "tuned")
    return Tuned(folder / "house-v2.yaml", folder / "items.jsonl", tuned_once.out)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """The file of a rubric of four equal weights."""
    from tests.tuning.labelsets import rubric_of  # numpy comes with it

    path = tmp_path / "house.yaml"
    write_rubric(path, rubric_of())
    return path
