"""A directory of files, and what an analyzer reports on them."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

from diffchecks.rules import RuleTable
from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.code_review.analyzer_types import Side
from orchestrator.code_review.policy_loading import load_rules

Content = str | bytes


@cache
def table() -> RuleTable:
    """The rules that are shipped."""
    return load_rules([read_shipped_layer()])


def put(root: Path, files: Mapping[str, Content]) -> Side:
    """Write files as they are exported for a review; names may hold surrogates."""
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Side("head", root)


@pytest.fixture(scope="session")
def rules() -> RuleTable:
    return table()


@pytest.fixture
def export(tmp_path: Path) -> Callable[[Mapping[str, Content]], Side]:
    return lambda files: put(tmp_path / "side", files)


@pytest.fixture
def fake_program(tmp_path: Path) -> Callable[[str, str], str]:
    """Write a script under a program's name; returns the directory to search."""

    def make(name: str, body: str) -> str:
        folder = tmp_path / "programs"
        folder.mkdir(exist_ok=True)
        script = folder / name
        script.write_text(
            f"#!/bin/sh\n[ \"$1\" = --version ] && echo '{name} 1.2.3' && exit\n{body}"
        )
        script.chmod(0o755)
        return str(folder)

    return make
