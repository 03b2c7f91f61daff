"""The documentation says what the code does."""

import re
from pathlib import Path

import pytest

from orchestrator.app.catalog_listing import list_readers
from orchestrator.cli.main import COMMANDS
from orchestrator.code_review.review_flow import FLOW
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.state_machine import check, diagram
from tests.cli.test_help_examples import every_parser

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    ),
    *sorted((ROOT / "docs").rglob("*.md")),
]


def test_the_flow_is_sound() -> None:
    check(FLOW)


def test_the_diagram_is_the_table() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    drawn = re.search(r"<!-- diagram:begin -->\n```mermaid\n(.*?)```", text, re.DOTALL)
    assert drawn is not None
    assert drawn.group(1) == diagram(FLOW)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_resolve(page: Path) -> None:
    prose = re.sub(
        r"^```.*?^```|`[^`\n]+`(?!\])", "", page.read_text(), flags=re.DOTALL | re.MULTILINE
    )
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", prose):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_file_that_the_documentation_names_exists() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    for name in re.findall(
        r"`((?:app|catalog|checks|code_review|engine|library|providers|sandbox|stores)/[\w./]+)`",
        text,
    ):
        assert (ROOT / "orchestrator" / name).exists(), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_has_python_import_from_the_working_directory(page: Path) -> None:
    """It would run the modules of a checkout in place of ours."""
    assert not re.search(r"python[\d.]* -m (?:orchestrator|venv|pip\b|build)", page.read_text())


def test_every_command_in_the_readme_exists() -> None:
    for name in re.findall(
        r"^(?:.*\| )?diffcourt (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE
    ):
        assert name in COMMANDS


def test_every_language_that_is_read_as_code_is_listed(tmp_path: Path) -> None:
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs/languages.md").read_text(), re.MULTILINE)
    listed = {name for row in rows for name in row.split(", ")}
    read = {language for language, tools in list_readers(tmp_path).items() if tools}
    assert listed == {"language", "every text file"} | read


def test_the_verdict_page_speaks_of_every_part() -> None:
    text = (ROOT / "docs/verdict-json.md").read_text()
    left_out = {"schema_version", "run_id", "change", "next_actions", "artifacts", "summary"}
    for name in Verdict.__struct_fields__:
        assert name in left_out or f"`{name}`" in text, name


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_headings_that_exist(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target, anchor in re.findall(r"\]\(([^)#: ]*)#([^)]+)\)", prose):
        found = page.parent / target if target else page
        assert found.suffix != ".md" or anchor in anchors_of(found), f"{target}#{anchor}"


def test_the_index_leads_to_every_page() -> None:
    text = (ROOT / "docs/index.md").read_text()
    linked = set(re.findall(r"\]\(([\w-]+\.md)", text))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"} == linked


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_and_their_options_exist(page: Path) -> None:
    parsers = every_parser()
    for command in re.findall(r"\bdiffcourt [a-z][^`\n#|;&]*", page.read_text()):
        words = command.split()
        names = [" ".join(words[:n]) for n in (4, 3, 2) if " ".join(words[:n]) in parsers]
        if not names:
            assert words[1] not in COMMANDS, command
            continue
        options = {name for action in parsers[names[0]]._actions for name in action.option_strings}
        given = {word.partition("=")[0].strip("()[],.") for word in words if word.startswith("--")}
        assert given <= options, command
