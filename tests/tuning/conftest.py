"""Files for the tests of tuning."""

import json
from collections.abc import Callable
from pathlib import Path

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


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """The file of a rubric of four equal weights."""
    from tests.tuning.labelsets import rubric_of  # numpy comes with it

    path = tmp_path / "house.yaml"
    write_rubric(path, rubric_of())
    return path
