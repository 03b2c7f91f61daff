"""Parsing once and quietly, names for scopes, and the nearest file."""

from pathlib import Path

import pytest

from diffchecks.check_io import Gap
from diffchecks.python.source_definitions import (
    MAX_BYTES,
    definitions_in,
    find_definitions,
    find_nearest,
    keeps_signature,
    parse_text,
    read,
)

TEXT = """import os

@decorate
@other(1)
def outer():
    def inner():
        return 1
    return inner

class Box:
    if os.name:
        def put(self): ...
    class Lid: ...
"""


def test_scopes_include_decorators_and_outer_ones_come_first() -> None:
    found = [(d.lines[0], d.lines[-1], d.dotted) for d in definitions_in(TEXT)]
    assert found == [
        (3, 8, "outer"),
        (6, 7, "outer.inner"),
        (10, 13, "Box"),
        (12, 12, "Box.put"),
        (13, 13, "Box.Lid"),
    ]


@pytest.mark.parametrize("text", ["def f(:\n", "(" * 5000, "\0", "x = " + "-" * 100_000 + "1"])
def test_text_that_does_not_parse_has_no_scopes(text: str) -> None:
    assert definitions_in(text) == []


def test_definitions_know_their_parents_and_conditions() -> None:
    found = {one.dotted: one for one in find_definitions(parse_text(TEXT))}
    assert found["Box.put"].conditional
    assert not found["Box.Lid"].conditional
    assert found["Box.put"].public
    assert not found["outer.inner"].public


def test_only_unknown_decorators_with_arguments_may_change_a_signature() -> None:
    text = (
        "@property\ndef a(): ...\n@lru_cache(None)\ndef b(): ...\n@app.command('x')\ndef c(): ..."
    )
    nodes = [one.node for one in find_definitions(parse_text(text))]
    assert [keeps_signature(node) for node in nodes] == [True, True, False]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"x = (\n", "does not parse: line 1: "),
        (b"print 'two'\n", "does not parse: line 1: "),
        (b"# coding: no-such\n", "does not parse: line 1: unknown encoding"),
        (b"x = '\xff'\n", "does not parse: line 1: "),
        (b"x = 1\0\n", "does not parse: line 1: "),
        (b"x = " + b"(" * 300 + b")" * 300, "does not parse: "),
        (b"x = " + b"-" * 100_000 + b"1", "does not parse: "),
        (b"#" * (MAX_BYTES + 1), "larger than 2 MiB"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_an_unreadable_file_says_why(tmp_path: Path, data: bytes | None, reason: str) -> None:
    if data is not None:
        (tmp_path / "a.py").write_bytes(data)
    with pytest.raises(Gap) as caught:
        read(str(tmp_path), "a.py")
    assert str(caught.value).startswith(reason)


def test_odd_text_is_read_as_python_reads_it_and_nothing_is_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").write_bytes(b"# coding: latin-1\r\nx = '\xe9'\r\ny = '\\d' is 1\r\n")
    source = read(str(tmp_path), "a.py")
    assert source.lines[1] == "x = 'é'"
    assert capfd.readouterr() == ("", "")


def test_the_nearest_file_shares_most_directories() -> None:
    assert find_nearest("a/b/gone.py", ["z.py", "a/c/d.py", "a/b/c/d.py", "a/b/x.py"]) == "a/b/x.py"
    assert find_nearest("a/gone.py", ["ab/x.py", "x.py"]) == "x.py"
    assert find_nearest("a.py", []) is None
