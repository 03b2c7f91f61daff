"""Misspellings in prose and comments, not in names, code or other languages."""

import time
from collections.abc import Callable, Mapping

import pytest

from diffchecks.programs.typos import LINTER
from orchestrator.code_review.analyzer_types import Side
from orchestrator.code_review.analyzers.program_execution import Program
from tests.diffchecks.programs.program_tools import Typos

pytestmark = pytest.mark.either_loop

Export = Callable[[Mapping[str, str | bytes]], Side]


async def words(export: Export, path: str, text: str) -> list[tuple[int, str | None]]:
    report = await Typos({"misspelling"}).run(export({path: text}), [path])
    assert report.error is None
    return [(finding.line, finding.key) for finding in report.findings]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.md", "# Title\nYou will recieve a mail.\n"),
        ("a.rst", "Title\nYou will recieve a mail.\n"),
        ("a.txt", "Title\nYou will recieve a mail.\n"),
        ("a.py", "x = 1\n# You will recieve a mail.\n"),
        ("a.py", 'def f():\n    """You will recieve a mail."""\n'),
        ("a.py", 'class A:\n    """Mail: you will recieve it.\n\n    Soon.\n    """\n'),
        ("a.go", "package a\n// You will recieve a mail.\n"),
        ("a.js", "/**\n * You will recieve a mail.\n */\n"),
        ("a.rb", "x = 1\n  # You will recieve a mail.\n"),
    ],
)
async def test_a_misspelling_is_found(export: Export, path: str, text: str) -> None:
    assert await words(export, path, text) == [(2, "recieve")]
    assert await words(export, path, text.replace("recieve", "receive")) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.md", "Call `recieve` or [it](recieve.md), see http://a.b/recieve or lib/recieve.\n"),
        ("a.md", "```python\nrecieve()\n```\n"),
        ("a.md", "    recieve()\n"),
        (
            "a.md",
            "recieve() and fooRecieve and recieve_all and recieve.now, mail to re@recieve.org\n",
        ),
        ("a.md", "Thanks to Recieve Jones.\n"),
        ("HISTORY.md", "* [`eb51cf5`](http://h/a/b/commit/eb51cf5fb35) - recieve it\n"),
        ("a.md", "The colour and the color, to organise and to organize, requeueing.\n"),
        ("a.py", 'recieve = 1\nx = "recieve"\n'),
        ("a.js", "const recieve = 1;\n"),
        ("a.java", "/**\n * @param recieve what came\n */\n"),
    ],
)
async def test_names_and_code_are_not_prose(export: Export, path: str, text: str) -> None:
    assert await words(export, path, text) == []


async def test_other_languages_are_left_out(export: Export) -> None:
    french = "Les exemples sont dans le dossier adresse, et la ressource est le responsable. " * 20
    side = export({"a.md": french, "b.md": "You will recieve it.\n"})
    report = await Typos({"misspelling"}).run(side, ["a.md", "b.md"])
    assert report.examined == {"b.md"}
    assert [finding.path for finding in report.findings] == ["b.md"]
    analyzer = Typos({"misspelling"})
    assert not analyzer.wants("docs/fr/guide.md")
    assert not analyzer.wants("README.de.md")
    assert not analyzer.wants("requirements.txt")
    assert analyzer.wants("docs/guide.md")
    assert analyzer.wants("README.en.md")


async def test_configuration_of_the_change_is_not_read(export: Export) -> None:
    hidden = '[default.extend-words]\nrecieve = "recieve"\n'
    side = export({"a.md": "You will recieve it.\n", "typos.toml": hidden, ".typos.toml": hidden})
    report = await Typos({"misspelling"}).run(side, ["a.md"])
    assert [finding.key for finding in report.findings] == ["recieve"]


async def test_program_that_fails_is_an_error(
    export: Export, fake_program: Callable[[str, str], str]
) -> None:
    side = export({"a.md": "You will recieve it.\n"})
    for body, why in (("exit 3", "exit code 3"), ("echo '{}'", "with an unknown structure")):
        program = Program("typos", "typos", search=fake_program("typos", body))
        report = await Typos({"misspelling"}, program).run(side, ["a.md"])
        assert report.error is not None
        assert why in report.error
        assert not report.examined


@pytest.mark.parametrize("rest", [b"<script " * 60_000, (b"x" * 1_900 + b" the\n") * 800])
def test_no_length_of_lines_or_words_takes_quadratic_time(rest: bytes) -> None:
    started = time.process_time()
    said = LINTER.prepare("a.md", b"You will recieve it.\n" + rest)
    assert time.process_time() - started < 5  # it took a minute and more, in which nothing else ran
    assert said is not None
    assert said.startswith(b"You will recieve it.\n")
