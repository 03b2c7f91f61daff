"""Regular expressions of exponential time: which ones are, and where they are read."""

from pathlib import Path

import pytest

from orchestrator.checks import regular_expressions
from orchestrator.checks.regular_expressions.backtracking import is_exponential
from tests.checks.test_text_checks import codes, look


@pytest.mark.parametrize(
    "expression",
    [
        r"(a+)+$",
        r"^(a*)*b",
        r"(a|a?)+$",
        r"^(a{1,3})+$",
        r"^(\w+\s?)*$",
        r"(.|\s)*;",
        r"(a|ab|b)*c",
        r"(?:\d+|[0-9a-f]+)*z",
        r"'(?:[^'\\]|\\.|\\\\)*'",
        r"^(?:[a-z]+\.?)+@",
        r"-(\w+\d+(\.\w+\d+)*)-",
        b"^(?:[^,]+,?)+;",
    ],
)
def test_two_ways_through_a_loop_take_exponential_time(expression: str | bytes) -> None:
    assert is_exponential(expression)


@pytest.mark.parametrize(
    "expression",
    [
        r"(a+)+",  # nothing behind the loop can fail
        r"^(\S+\s*)*$",  # it matches any text that begins as it does
        r"^(?:a|b)*a$" + "(",  # it is no regular expression
        r"(a+b)+$",
        r'"(?:[^"\\]|\\.)*"',
        r"^(?:[a-z]+\.)+com$",
        r"(?:(?!-->).)*-->",
        r"^\d+(,\d+)*$",
        r"(a{4})*b",
        r"\s*(.*?)\s*$",
        r"^(\w+\b\s*)*$",
        r"^(?>a+)+$",
        r"(?:[a-z]++)+$",
        r"(a*){0,3}b",
        r"([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,6}$",
        r"((a+)+" * 300 + "b)" * 300,
        "(" * 5000,
        "(" * 12 + "){19}" * 12,
    ],
)
def test_one_way_through_each_loop_is_no_finding(expression: str) -> None:
    assert not is_exponential(expression)


def test_a_full_match_needs_all_of_the_text() -> None:
    assert is_exponential(r"(a+)+", whole=True)


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        (
            "a.py",
            "import re\nWORDS = re.compile(r'^(\\w+\\s?)*$')\n",
            "import re\nWORDS = re.compile(r'^(\\w+\\s)*$')\n",
        ),
        (
            "a.py",
            "from re import fullmatch as f\nf('([a-z]+)*', x)\n",
            "from re import match as f\nf('([a-z]+)*', x)\n",
        ),
        (
            "a.py",
            "import re as r\nr.sub('(K+|k)+;', '', x, flags=r.IGNORECASE)\n",
            "import re as r\nr.sub('(K|k)+;', '', x, flags=r.IGNORECASE)\n",
        ),
        (
            "forms.py",
            "check = RegexValidator(regex=r'^([a-z]+-?)+$')\n",
            "check = RegexValidator(regex=r'^[a-z]+(-[a-z]+)*$')\n",
        ),
        ("a.js", "ok = /^(\\w+\\s?)*$/i.test(x);\n", "ok = /^(\\w+\\s)*$/i.test(x);\n"),
        ("a.ts", "const p = /^(?<a>\\d+,?)+;/;\n", "const p = /^(?<a>\\d+,)+;/;\n"),
    ],
)
def test_literals_are_read_where_they_are_used_as_regular_expressions(
    name: str, bad: str, good: str, tmp_path: Path
) -> None:
    assert codes(look(regular_expressions, tmp_path, name, bad)) == ["exponential"]
    assert codes(look(regular_expressions, tmp_path, name, good)) == []


def test_a_file_that_cannot_be_parsed_is_a_gap(tmp_path: Path) -> None:
    reply = look(regular_expressions, tmp_path, "a.py", "def (a+)+:\n")
    assert reply.gaps == {"a.py": "it is no Python that can be parsed"}
