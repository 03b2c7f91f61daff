"""What the house may weigh: lines of the product, words of its documentation. Prints the figures.

A word of the documentation is a piece of text between white space that has a letter or a digit.
Code blocks do not count for the total, which is about reading, but for the length of a page they do.
A sentence is prose: no table, no heading, no code block. It ends at a full stop, an item of a list
or a paragraph.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "AGENTS.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
BUDGETS = {
    "lines of orchestrator/ and diffchecks/": (118_000, 118_000),
    "lines of orchestrator/": (85_000, 85_000),
    "words of the documentation": (60_000, 60_000),
    "words a sentence, all pages": (17.5, 17.5),
    "words a sentence, the worst page": (20.0, 20.0),
    "words of the longest page": (1_500, 1_500),
}
"""Figure -> what it may be now, and the next bound, once it is reached."""
CODE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
MIN_SENTENCES = 10
"""On a page with fewer, one long sentence is no style."""


def count_lines(package: str) -> int:
    return sum(len(file.read_bytes().splitlines()) for file in (ROOT / package).rglob("*.py"))


def count_words(text: str) -> int:
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def sentences(page: str) -> Iterator[str]:
    """The sentences of a page's prose, links as their text."""
    prose = re.sub(r"\]\([^)]*\)", "]", CODE.sub("\n", page))
    prose = re.sub(r"^(?:[|#!<]|---$).*$", "", prose, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n|\n(?= *(?:[-*]|\d+\.) )", prose):
        for sentence in re.split(r"(?<=[.!?])[)*_\"]*\s", paragraph):
            if count_words(sentence):
                yield sentence


def words_a_sentence(texts: list[str]) -> float:
    found = [count_words(sentence) for text in texts for sentence in sentences(text)]
    return sum(found) / len(found)


@pytest.fixture(scope="module")
def figures() -> dict[str, tuple[float, str]]:
    """Figure -> its value, and which page it is of."""
    texts = {str(page.relative_to(ROOT)): page.read_text() for page in PAGES}
    averages = {
        name: words_a_sentence([text])
        for name, text in texts.items()
        if len(list(sentences(text))) >= MIN_SENTENCES
    }
    worst = max(averages, key=averages.__getitem__)
    longest = max(texts, key=lambda name: count_words(texts[name]))
    lines = {package: count_lines(package) for package in ("orchestrator", "diffchecks")}
    return {
        "lines of orchestrator/ and diffchecks/": (sum(lines.values()), ""),
        "lines of orchestrator/": (lines["orchestrator"], ""),
        "words of the documentation": (
            sum(count_words(CODE.sub("", text)) for text in texts.values()),
            f"{len(texts)} pages",
        ),
        "words a sentence, all pages": (round(words_a_sentence([*texts.values()]), 1), ""),
        "words a sentence, the worst page": (round(averages[worst], 1), worst),
        "words of the longest page": (count_words(texts[longest]), longest),
    }


@pytest.mark.parametrize("name", BUDGETS)
def test_a_budget_is_kept(
    name: str, figures: dict[str, tuple[float, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    (value, of), (bound, goal) = figures[name], BUDGETS[name]
    with capsys.disabled():
        print(f"\nbudget: {name}: {value:,} of {bound:,}; goal {goal:,}. {of}")  # noqa: T201
    assert value <= bound, f"{name}: {value:,}, {of}"


def test_a_sentence_is_counted_as_a_reader_would() -> None:
    page = "# A head\n\nOne two. Three\nfour `five`!\n\n- six\n- [seven](x.md#y) eight.\n\n| a | b |\n\n```sh\nx\n```\n"
    assert [count_words(sentence) for sentence in sentences(page)] == [2, 3, 1, 2]
