"""Pages that speak of what is gone, and changelogs that say nothing: by pairs."""

from collections.abc import Callable
from typing import Any

import pytest

from diffchecks import check_io
from diffchecks.check_io import BASE_DOES_NOT_PARSE
from diffchecks.doc_quality import changelog, stale_references

PAGE = "# Guide\n\nCall `load_record(path)` first.\n"


def test_a_page_that_speaks_of_what_is_gone(compare: Callable[..., Any]) -> None:
    base = {"pkg/a.py": "def load_record(path): ...\n", "docs/guide.md": PAGE}
    head = {"pkg/a.py": "def read_record(path): ...\n", "docs/guide.md": PAGE}
    (one,) = compare(stale_references, base, head).findings
    assert (one.code, one.path, one.line) == ("gone", "docs/guide.md", 3)
    assert "load_record" in one.message


@pytest.mark.parametrize(
    "option",
    [
        "parser.add_argument('--dry-run')",
        "parser.add_argument('-n', '--dry-run', action='store_true')",
        "parser.add_argument(\n    '--dry-run',\n)",
        "@click.option('--dry-run')\ndef f(): ...",
        "x = typer.Option(False, '--dry-run')",
    ],
)
def test_a_page_that_speaks_of_an_option_that_is_gone(
    codes: Callable[..., list[str]], option: str
) -> None:
    base = {"pkg/cli.py": f"{option}\n", "docs/g.md": "Say `tool run --dry-run` first.\n"}
    assert codes(stale_references, base, {**base, "pkg/cli.py": "X = 1\n"}) == ["gone"]
    tool = {"tools/cli.py": base["pkg/cli.py"], "docs/g.md": base["docs/g.md"]}
    assert codes(stale_references, tool, {**tool, "tools/cli.py": "X = 1\n"}) == ["gone"]
    assert codes(stale_references, base, {**base, "pkg/cli.py": "X = ['--dry-run']\n"}) == []
    other = {**base, "docs/g.md": "Say `npm publish --dry-run` first.\n"}
    assert codes(stale_references, other, {**other, "pkg/cli.py": "X = 1\n"}) == []


def test_other_files_are_read_only_for_names_that_a_changed_one_no_longer_holds(
    compare: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def read_bytes(root: str, path: str) -> bytes:
        read.append(path)
        return check_io.read(root, path)

    monkeypatch.setattr(stale_references, "read_bytes", read_bytes)
    code = "def load_record(path): ...\n"
    base = {"pkg/a.py": code, "pkg/b.py": "X = 1\n", "docs/guide.md": PAGE}
    compare(stale_references, base, {**base, "pkg/a.py": code + "\nY = 1\n"})
    assert read == ["pkg/a.py"]
    compare(stale_references, base, {**base, "pkg/a.py": "Y = 1\n"})
    assert "pkg/b.py" in read


def test_links_are_read_where_they_lead(compare: Callable[..., Any]) -> None:
    base = {"pkg/a.py": "def load_record(path): ...\n", "docs/guide.md": PAGE}
    head = {"pkg/a.py": "X = 1\n", "docs/guide.md": PAGE}
    reply = compare(stale_references, base, head, links=["README.md", "pkg/b.py"])
    assert [one.path for one in reply.findings] == ["docs/guide.md"]
    assert reply.gaps == {}


@pytest.mark.parametrize(
    ("base", "head", "page"),
    [
        ("def load_record(p): ...\n", "def load_record(p): ...\n\nX = 1\n", PAGE),
        ("def load_record(p): ...\n", "from other import load_record\n", PAGE),
        ("def load_record(p): ...\n", "", "# Guide\n\nWe load_record in prose only.\n"),
        ("def _load_record(p): ...\n", "", "`_load_record`\n"),
        ("def load(p): ...\n", "", "`load` it\n"),  # a plain word
    ],
)
def test_what_is_not_gone_or_not_meant_stays_quiet(
    codes: Callable[..., list[str]], base: str, head: str, page: str
) -> None:
    before, after = {"pkg/a.py": base, "docs/g.md": page}, {"pkg/a.py": head, "docs/g.md": page}
    assert codes(stale_references, before, after) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pkg/fast.pyx", "def load_record(p): ...\n"),
        ("pkg/old.py", b"# caf\xe9\ndef load_record(p): ...\n"),
    ],
)
def test_a_name_that_stands_in_another_kind_of_file_is_not_gone(
    codes: Callable[..., list[str]], name: str, content: str | bytes
) -> None:
    base = {"pkg/a.py": "def load_record(p): ...\n", "docs/g.md": PAGE}
    head = {"pkg/a.py": "X = 1\n", name: content, "docs/g.md": PAGE}
    assert codes(stale_references, base, head) == []


def test_a_page_of_history_may_speak_of_the_past(codes: Callable[..., list[str]]) -> None:
    base = {"pkg/a.py": "def load_record(p): ...\n", "docs/migration.md": PAGE}
    assert codes(stale_references, base, {"pkg/a.py": "", "docs/migration.md": PAGE}) == []


def test_an_example_in_a_fence_counts(codes: Callable[..., list[str]]) -> None:
    page = "# Guide\n\n```python\nload_record(path)\n```\n"
    base = {"pkg/a.py": "def load_record(p): ...\n", "README.md": page}
    assert codes(stale_references, base, {"pkg/a.py": "X = 1\n", "README.md": page}) == ["gone"]


LOG = "# Changelog\n\n## Unreleased\n\n- Nothing yet.\n\n## 1.0\n"
FUNCTION, OTHER = (f"def {name}(source):\n    return source\n" for name in ("first", "other"))
SHORT, LONG = "X = 1\n", "".join(f"X{n} = {n}\n" for n in range(12))


def test_a_changelog_that_says_nothing(compare: Callable[..., Any]) -> None:
    base = {"pkg/a.py": SHORT, "CHANGELOG.md": LOG}
    (one,) = compare(changelog, base, {"pkg/a.py": LONG, "CHANGELOG.md": LOG}).findings
    assert (one.code, one.path, one.line) == ("missing", "CHANGELOG.md", 3)


@pytest.mark.parametrize(
    ("base", "head"),
    [
        ({"pkg/a.py": SHORT}, {"pkg/a.py": LONG}),  # none is kept
        (
            {"pkg/a.py": SHORT, "CHANGELOG.md": LOG},
            {"pkg/a.py": LONG, "CHANGELOG.md": LOG.replace("Nothing yet", "More")},
        ),
        (
            {"pkg/a.py": SHORT, "CHANGELOG.md": LOG},
            {"pkg/a.py": LONG, "CHANGELOG.md": LOG, "newsfragments/1.md": "More.\n"},
        ),
        (
            {"pkg/a.py": SHORT, "CHANGELOG.md": "# Changelog\n\n## 1.0\n"},
            {"pkg/a.py": LONG, "CHANGELOG.md": "# Changelog\n\n## 1.0\n"},
        ),
        (
            {"tests/test_a.py": SHORT, "CHANGELOG.md": LOG},
            {"tests/test_a.py": LONG, "CHANGELOG.md": LOG},
        ),
        ({"pkg/a.py": SHORT, "CHANGELOG.md": LOG}, {"pkg/a.py": "X = 2\n", "CHANGELOG.md": LOG}),
        (  # moved, and rearranged inside
            {"pkg/a.py": FUNCTION, "pkg/b.py": OTHER, "CHANGELOG.md": LOG},
            {"pkg/c.py": OTHER + "\n\n" + FUNCTION, "CHANGELOG.md": LOG},
        ),
    ],
)
def test_a_changelog_that_need_say_nothing(
    codes: Callable[..., list[str]], base: dict[str, str], head: dict[str, str]
) -> None:
    assert codes(changelog, base, head) == []


HUGE = "#" * (8 << 20) + "\n# more\n"


def test_what_cannot_be_read_is_a_gap_where_the_answer_rests_on_it(
    compare: Callable[..., Any],
) -> None:
    before = {"pkg/a.py": "def load_record(path): ...\n", "docs/g.md": PAGE, "big.rst": HUGE}
    reply = compare(stale_references, before, before | {"pkg/a.py": "X = 1\n"})
    assert (len(reply.findings), set(reply.gaps)) == (1, {"big.rst"})
    logged = {"pkg/a.py": SHORT, "CHANGELOG.md": HUGE}
    reply = compare(changelog, logged, logged | {"pkg/a.py": LONG})
    assert (reply.findings, set(reply.gaps)) == ([], {"CHANGELOG.md"})


def test_names_that_base_may_have_held_are_a_gap(compare: Callable[..., Any]) -> None:
    base = {"pkg/a.py": "def load_record(:\n", "docs/g.md": PAGE}
    reply = compare(stale_references, base, {**base, "pkg/a.py": "X = 1\n"})
    assert reply.gaps["pkg/a.py"].startswith(BASE_DOES_NOT_PARSE)


def test_another_encoding_is_no_gap(compare: Callable[..., Any]) -> None:
    """Names and marks are looked for, and they are ASCII."""
    cafe = b"caf\xe9\n"
    base = {"pkg/a.py": "def load_record(path): ...\n", "docs/g.md": cafe + PAGE.encode()}
    reply = compare(stale_references, base, base | {"pkg/a.py": "X = 1\n"})
    assert (len(reply.findings), reply.gaps) == (1, {})
