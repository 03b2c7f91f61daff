"""The examples in the docs run: files load on top of what is shipped, faults read as printed."""

import re
from pathlib import Path

import pytest

from orchestrator.catalog.settings import ReviewSettings
from orchestrator.code_review.findings.finding_context import find_block
from tests.review.test_converging_reviews import OPENING, step

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (
    *("agents", "analyzers", "skills", "rubrics", "config", "mcp", "money", "guards", "escalation"),
    *("loops", "memory", "typecheck"),
)
BROKEN = ("agent-reports", *PAGES[1:])
FENCE = re.compile(r"^```(\w+)(?: file=(\S+))?( broken)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(page: str) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """The page's files, and its broken files with the fault that is printed below each."""
    files: dict[str, str] = {}
    broken: list[tuple[str, str, str]] = []
    fences = FENCE.findall((DOCS / f"{page}.md").read_text("utf-8"))
    for at, (_, name, fault, text) in enumerate(fences):
        path = name.removeprefix(".diffcourt/")
        if fault:
            broken.append((path, text, fences[at + 1][3].strip()))
        elif name:
            assert path not in files
            files[path] = text
    return files, broken


@pytest.mark.parametrize("page", PAGES)
def test_the_files_of_a_page_load(page, faults_of):
    files, _ = examples(page)
    assert files
    assert faults_of(files) == []


@pytest.mark.parametrize("page", BROKEN)
def test_a_broken_example_gives_the_fault_that_is_printed(page, faults_of):
    _, broken = examples(page)
    assert broken
    for path, text, printed in broken:
        (found,) = faults_of({path: text})
        assert found.startswith(printed.removesuffix("…"))


def test_examples_do_what_the_pages_say(with_files):
    agents = with_files(examples("agents")[0])
    assert "performance" in agents.settings.specialists
    assert [skill.name for skill in agents.agents["performance"].skills] == ["hot-paths"]
    assert with_files(examples("rubrics")[0]).settings.rubric == "careful"
    assert with_files(examples("money")[0]).prices["gpt-6-luna"].output == 0.5
    config = with_files(examples("config")[0])
    assert (config.settings.bounds.minutes, config.settings.bounds.iterations) == (5, 3)
    assert len(config.verdict_policy.required_checks) == 1
    shipped, own = with_files({}).agents["docs"].bounds, config.agents["docs"].bounds
    assert (own.seconds, own.tool_calls) == (300, shipped.tool_calls)


def test_the_page_of_the_memory_shows_a_dismissal_as_it_is_made(with_files):
    dismissal, *rules = with_files(examples("memory")[0]).verdict_policy.waivers
    assert (dismissal.who, dismissal.about.severity) == ("maintainer", "medium")
    assert [(one.rule, one.severity) for one in rules] == [
        ("qa.complexity-jump", "info"),
        ("docs.misspelling", "off"),
    ]
    block = find_block((OPENING + step(1)).split("\n"), dismissal.about.line, dismissal.about.line)
    assert (block.scope, block.digest) == (dismissal.about.scope, dismissal.about.context)


def test_every_setting_is_in_the_shipped_file():
    shipped = (DOCS.parent / "config" / "defaults.yaml").read_text("utf-8")
    assert all(
        re.search(rf"^{name}:", shipped, re.MULTILINE) for name in ReviewSettings.__struct_fields__
    )
