"""Regular expressions of exponential and cubic time: which ones are, and where they are read."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
import yaml

import diffchecks
from diffchecks import regular_expressions
from diffchecks.regular_expressions.backtracking import find_growth
from tests.diffchecks.test_text_checks import codes, look


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
def test_two_paths_through_a_loop_take_exponential_time(expression: str | bytes) -> None:
    assert find_growth(expression) == "exponential"


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
def test_one_path_through_each_loop_is_no_finding(expression: str) -> None:
    assert find_growth(expression) != "exponential"


@pytest.mark.parametrize(
    ("slow", "fast"),
    [
        (r"a*a*a*b", r"a*a*b"),  # two parts take the square: not reported
        (r"a*a*a*b", r"a*a*a*"),  # nothing that may fail follows
        (r"\s*\s*\s*x", r"\s*\S*\s*x"),
        (r"^\s*(\s*)(?:\s*)x", r"^\s*(\s*)\b\s*x"),
        (r".*,.*,.*,.*;", r"[^,]*,[^,]*,[^,]*,[^,]*;"),
        (r"(.*?)-(.*?)-(.*?)\.whl", r"(.*?)-(.*?)-(.*?)-"),
        (r".*, .*; .*!", r"[^;]*, .*; [^,]*!"),
        (r"\w+\d+[a-z0-9]+\.", r"\w+\d+[a-z]+\."),
        (r"x*;?x*,?x*!", r"x*;x*,?x*!"),
        (r"\s*\s*\s*$", r"\s*\s*\s*"),
        (r"^(.*) (.*) (.*)x$", r"^(.*) (.*) (.*)$"),  # all of a line always matches
        (r"a*a{0,5000}a*b", r"a*a{0,50}a*b"),
        (r"(?:x|y)a*a*a*b", r"(?!aa)a*a*a*b"),
        (r"a*a*a*b", r"(?>a*)a*a*b"),
        (r"(?i)K*k*\w*!", r"K*k*\w*!"),
        (r"a+a+(?:a+)b", r"a++a+a+b"),
        (r"(?:;\s*\s*\s*x)?", r"(?:;\s*\s*x)?"),
        (b"^.*:.*:.*@", b"^.*:.*:.*:"),
    ],
)
def test_three_loops_that_share_a_text_take_cubic_time(
    slow: str | bytes, fast: str | bytes
) -> None:
    assert find_growth(slow) == "polynomial"
    assert find_growth(fast) is None


def test_a_full_match_needs_all_of_the_text() -> None:
    assert find_growth(r"(a+)+", whole=True) == "exponential"


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
        (
            "a.py",
            "import re\ndef f(x):\n    form = '([a-z]+)*[0-9]'\n    return re.search(form, x)\n",
            "import re\ndef f(x, form=''):\n    form = '([a-z]+)*[0-9]'\n    return re.search(form, x)\n",
        ),
        ("a.js", "ok = /^(\\w+\\s?)*$/i.test(x);\n", "ok = /^(\\w+\\s)*$/i.test(x);\n"),
        ("a.ts", "const p = /^(?<a>\\d+,?)+;/;\n", "const p = /^(?<a>\\d+,)+;/;\n"),
        # A dot is no carriage return, unless s makes it one.
        ("a.js", "ok = /^{(?:.|\\r?\\n)+}/s.test(x);\n", "ok = /^{(?:.|\\r?\\n)+}/.test(x);\n"),
    ],
)
def test_literals_are_read_where_they_are_used_as_regular_expressions(
    name: str, bad: str, good: str, tmp_path: Path
) -> None:
    assert codes(look(regular_expressions, tmp_path, name, bad)) == ["exponential"]
    assert codes(look(regular_expressions, tmp_path, name, good)) == []


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        ("a.py", "import re\nre.search('.*,.*,.*;', x)\n", "import re\nre.search('.*,.*;', x)\n"),
        ("a.py", "re_path(r'^a/\\w+\\w*\\d*/$', v)\n", "re_path(r'^a/\\w+\\d*/$', v)\n"),
        ("a.js", "x.split(/\\s*\\s*\\s*;/s);\n", "x.split(/\\s*;\\s*,\\s*;/s);\n"),
        ("a.tsx", "const p = /^.*-.*-.*\\.gz/;\n", "const p = /^[^-]*-[^-]*-[^-]*\\.gz/;\n"),
    ],
)
def test_loops_in_a_row_are_read_in_each_language(
    name: str, bad: str, good: str, tmp_path: Path
) -> None:
    assert codes(look(regular_expressions, tmp_path, name, bad)) == ["polynomial"]
    assert codes(look(regular_expressions, tmp_path, name, good)) == []


def test_a_file_that_cannot_be_parsed_is_a_gap(tmp_path: Path) -> None:
    reply = look(regular_expressions, tmp_path, "a.py", "def (a+)+:\n")
    assert reply.gaps == {"a.py": "it is not Python that can be parsed"}


def test_no_expression_of_our_tables_skips_blank_lines_from_each_line_on() -> None:
    r"""In ``(?m)^\s*``, each blank line is the start of all those below it: quadratic time."""
    skips = re.compile(r"\(\?[a-z]*m[a-z]*[:)]\^\\s[*+]")
    folder = Path(diffchecks.__file__).parent
    files = [file for name in ("data", "tables") for file in (folder / name).rglob("*.*")]
    assert len(files) > 100
    assert [file.name for file in files if skips.search(file.read_text())] == []


_LOOK = re.compile(r"\(\?<?[!=]")
_ATOMS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)


def _hidden(expression: str) -> str:
    """The expression with a NUL for each character of its escapes and classes."""
    return _ATOMS.sub(lambda atom: "\0" * len(atom[0]), expression)


def _end_of_group(hidden: str, start: int) -> int:
    """Where the group ends that opens at ``start``."""
    depth = 0
    for at in range(start, len(hidden)):
        depth += (hidden[at] == "(") - (hidden[at] == ")")
        if not depth:
            return at + 1
    return len(hidden)


def _repeated_groups(expression: str) -> Iterator[str]:
    """Each group that is repeated five times or more, without assertions and back references."""
    hidden = _hidden(expression)
    for opening in re.finditer(r"\((?!\?>)", hidden):
        end = _end_of_group(hidden, opening.start())
        repeat = re.match(r"(?:[*+]|\{\d*,(?:\d\d+|[5-9])?\})(?!\+)", hidden[end:])
        group = expression[opening.start() : end]
        while repeat and (look := _LOOK.search(_hidden(group))):
            group = group[: look.start()] + group[_end_of_group(_hidden(group), look.start()) :]
        if repeat:
            yield re.sub(r"\(\?P=\w+\)|(?<!\\)\\[1-9]", "", re.sub(r"\(\?P<\w+>", "(", group))


def _texts(value: object) -> Iterator[str]:
    """All texts in a table; a ``regex`` is for ast-grep, whose expressions take linear time."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        parts = (part for key, part in value.items() if key not in {"regex", "why", "bad"})
        yield from chain.from_iterable(map(_texts, chain(value, parts)))
    elif isinstance(value, list):
        yield from chain.from_iterable(map(_texts, value))


def test_no_repeated_group_of_our_tables_has_two_ways_through_one_text() -> None:
    r"""In ``(?:[ \t]+[^\n]*\n){0,8}``, each blank line can be split anywhere: the eighth power."""
    folder = Path(diffchecks.__file__).parent
    files = [file for name in ("data", "tables") for file in (folder / name).rglob("*.yaml")]
    texts = chain.from_iterable(_texts(yaml.load(f.read_text(), yaml.CSafeLoader)) for f in files)
    groups = {group for text in texts for group in _repeated_groups(text)}
    assert len(groups) > 100
    assert [g for g in groups if find_growth(rf"{g}*\0") == "exponential"] == []
