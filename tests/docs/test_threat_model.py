"""The threat model names every entry point, and only what exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/threat-model.md").read_text()
ENTRY_POINTS = {
    title: re.findall(r"^\|([^|]*)\|.*$", part, re.MULTILINE)[2:]
    for title, part in re.findall(
        r"^## Entry points: (\w+)\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL
    )
}
"""Kind -> the first cell of each row of its table."""


def names(kind: str) -> set[str]:
    return {name for cell in ENTRY_POINTS[kind] for name in re.findall(r"`([^`]+)`", cell)}


def routes(folder: str) -> Iterator[str]:
    """The paths that a package serves, read from its source."""
    for file in (ROOT / "orchestrator" / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(
                    ast.Name("Route" | "SitePage" | "FormAction" | "Stream"),
                    [ast.Constant(str(path)), *_],
                ):
                    yield path


@pytest.mark.parametrize("page", ["SECURITY.md", "docs/threat-model.md"])
def test_every_file_that_a_security_page_names_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    named = re.findall(r"`((?:tests|docs|bench|orchestrator)/[\w./-]+)`", text)
    linked = [
        (ROOT / page).parent / link for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    ]
    missing = [path for path in [*(ROOT / name for name in named), *linked] if not path.exists()]
    assert missing == []


def test_every_command_is_an_entry_point() -> None:
    assert set(COMMANDS) <= names("commands")


def test_every_workflow_template_is_an_entry_point() -> None:
    assert {file.name for file in (ROOT / "config/ci").iterdir()} <= names("CI")


@pytest.mark.parametrize("folder", ["service", "web"])
def test_every_route_is_an_entry_point(folder: str) -> None:
    found = set(routes(folder))
    assert len(found) > 3
    command = "serve" if folder == "service" else "view"
    cells = [cell for cell in ENTRY_POINTS["HTTP"] if command in cell or command == "view"]
    assert found <= {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_entry_point_has_a_guard_and_a_test() -> None:
    rows = re.findall(r"^\|(.*)\|$", PAGE.partition("## Entry points")[2], re.MULTILINE)
    for row in rows:
        *_, guard, test = (cell.strip() for cell in row.split("|"))
        if (guard, test) not in {("guard", "test"), ("---", "---")} and test != "below":
            assert guard, row
            assert test.startswith("`tests/"), row


def test_the_page_is_short_enough_to_be_read() -> None:
    assert len(PAGE.split()) <= 1500
