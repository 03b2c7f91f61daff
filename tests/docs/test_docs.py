"""The documentation says what the code does."""

import argparse
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from orchestrator.app.catalog_listing import list_readers
from orchestrator.cli.main import COMMANDS
from orchestrator.code_review import assemble_verdict
from orchestrator.code_review.review_flow import FLOW
from orchestrator.code_review.verdict.document_parts import HumanQuestion
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.state_machine import check, diagram
from tests.cli.test_help_examples import every_parser
from tests.report.verdict_samples import rich_verdict

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    ),
    *sorted((ROOT / "docs").rglob("*.md")),
]
TEXTS = {page: page.read_text() for page in PAGES}
BLOCKS = re.DOTALL | re.MULTILINE


def test_the_flow_is_sound() -> None:
    check(FLOW)


def test_the_diagram_is_the_table() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    drawn = re.search(r"<!-- diagram:begin -->\n```mermaid\n(.*?)```", text, re.DOTALL)
    assert drawn is not None
    assert drawn.group(1) == diagram(FLOW)


def test_relative_links_resolve() -> None:
    prose = r"^```.*?^```|`[^`\n]+`(?!\])"
    assert not [
        f"{page.name}: {target}"
        for page, text in TEXTS.items()
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", re.sub(prose, "", text, flags=BLOCKS))
        if "://" not in target and not (page.parent / target).exists()
    ]


def test_every_file_that_the_documentation_names_exists() -> None:
    packages = "|".join(path.name for path in (ROOT / "orchestrator").iterdir() if path.is_dir())
    named = re.compile(rf"`(?:orchestrator/)?((?:{packages})/[\w./]+\.(?:py|yaml|toml))`")
    assert not [
        f"{page.name}: {name}"
        for page, text in TEXTS.items()
        if page.name != "CHANGELOG.md" and page.parent.name != "decisions"
        for name in named.findall(text)
        if not (ROOT / "orchestrator" / name).exists()
    ]


def test_no_page_has_python_import_from_the_working_directory() -> None:
    """It would run the modules of a checkout in place of ours."""
    imports = re.compile(r"python[\d.]* -m (?:orchestrator|venv|pip\b|build)")
    assert not [page.name for page, text in TEXTS.items() if imports.search(text)]


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
    unread = re.findall(
        r"another language, such as ([\w-]+)|as text only\*\*: .*?\((.*?)\s*\.\.\.\)",
        TEXTS[ROOT / "README.md"] + TEXTS[ROOT / "docs/reading-depth.md"],
        re.DOTALL,
    )
    examples = {name.strip() for pair in unread for name in ",".join(pair).split(",")} - {""}
    assert len(examples) == 3
    assert examples.isdisjoint(read)


def test_the_verdict_page_speaks_of_every_part() -> None:
    text = (ROOT / "docs/verdict-json.md").read_text()
    left_out = {"schema_version", "run_id", "change", "next_actions", "artifacts", "summary"}
    for name in Verdict.__struct_fields__:
        assert name in left_out or f"`{name}`" in text, name


def missing_keys(whole: Any, part: Any) -> Iterator[str]:
    """The keys, at any depth, that a part of a document lacks."""
    if isinstance(whole, dict):
        yield from whole.keys() - part.keys()
        whole, part = [whole[key] for key in part], [*part.values()]
    if isinstance(whole, list | tuple):
        for one, other in zip(whole, part, strict=True):
            yield from missing_keys(one, other)


def test_the_verdict_page_lists_what_the_digest_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = HumanQuestion("q", "qa", "Why?", answer="So.", answered_by="dana", answered_at="now")
    whole = replace(rich_verdict(), questions=(asked,))
    monkeypatch.setattr(assemble_verdict, "digest", lambda plain: plain)
    left_out = {*missing_keys(to_builtins(whole), assemble_verdict.digest_of(whole))}
    row = re.search(r"^\| `digest` \| .*", TEXTS[ROOT / "docs/verdict-json.md"], re.MULTILINE)
    assert row is not None
    assert {*re.findall(r"`(\w+)`", row[0])} == left_out


@cache
def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=BLOCKS)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_to_headings_that_exist() -> None:
    missing = []
    for page, text in TEXTS.items():
        prose = re.sub(r"^```.*?^```", "", text, flags=BLOCKS)
        for target, anchor in re.findall(r"\]\(([^)#: ]*)#([^)]+)\)", prose):
            found = page.parent / target if target else page
            if found.suffix == ".md" and anchor not in anchors_of(found):
                missing.append(f"{page.name}: {target}#{anchor}")
    assert not missing


def test_the_index_leads_to_every_page() -> None:
    text = (ROOT / "docs/index.md").read_text()
    linked = set(re.findall(r"\]\(([\w-]+\.md)", text))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"} == linked


def unknown_parts(command: str, parsers: Mapping[str, argparse.ArgumentParser]) -> set[str]:
    words = command.split()
    names = [" ".join(words[:n]) for n in (4, 3, 2) if " ".join(words[:n]) in parsers]
    if not names:
        return {words[1]} & set(COMMANDS)  # a command whose rest does not exist
    options = {name for action in parsers[names[0]]._actions for name in action.option_strings}
    given = {word.partition("=")[0].strip("()[],.") for word in words if word.startswith("--")}
    return given - options


def test_the_commands_of_the_pages_and_their_options_exist() -> None:
    parsers = every_parser()
    assert not [
        f"{page.name}: {command}: {unknown}"
        for page, text in TEXTS.items()
        for command in re.findall(r"\bdiffcourt [a-z][^`\n#|;&]*", text)
        if (unknown := unknown_parts(command, parsers))
    ]


def test_the_commands_in_blocks_of_code_have_all_that_is_required() -> None:
    parsers, lacking = every_parser(), []
    for page, text in TEXTS.items():
        blocks = "".join(re.findall(r"^```.*?^```", text, flags=BLOCKS)).replace("\\\n", " ")
        for command in re.findall(r"^(?:\$ )?(diffcourt [a-z][^`\n#|;&>]*)", blocks, re.MULTILINE):
            words = shlex.split(command)
            length = next(n for n in (4, 3, 2) if " ".join(words[:n]) in parsers)
            required = [
                action.option_strings
                for action in parsers[" ".join(words[:length])]._actions
                if action.required and action.nargs not in {"*", "?"}
            ]
            places = sum(not names for names in required)
            given = sum(not word.startswith("-") for word in words[length:])
            if given < places or any(names and not {*names} & {*words} for names in required):
                lacking.append(f"{page.name}: {command}")
    assert not lacking
