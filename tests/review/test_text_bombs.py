"""Texts that are made to break parsers are named gaps, whatever their language."""

from pathlib import Path

import pytest

from diffchecks.skipped_files import MAX_CONTINUED, MAX_NESTED, inspect_content
from orchestrator.app.run_review import run_review
from orchestrator.engine.observer_events import ignore_event
from tests.review.review_kit import change, options

DEEP = 200_000
KEY = ".".join(["a"] * DEEP)
NESTED = {
    "a.yaml": "a: " + "[" * DEEP,
    "maps.yml": "a: " + "{a: " * DEEP,
    "a.json": "[" * DEEP + "]" * DEEP,
    "maps.json": '{"a":' * DEEP,
    "a.toml": "a = " + "[" * DEEP,
    "a.sh": "x=$(" * DEEP,
    "arithmetic.bash": "((" * DEEP,
    "a.py": "x = " + "(" * DEEP,
    "a.js": "x = " + "[" * DEEP,
    "a.ts": "x = `" + "${`" * DEEP,
    "a.go": "package a\nvar x = " + "(" * DEEP,
    "A.java": "class A { int x = " + "(" * DEEP,
    "a.rb": "x = " + "[" * DEEP,
    "a.rs": "fn main() " + "{" * DEEP,
    "a.php": "<?php $x = " + "(" * DEEP,
    "a.c": "int x = " + "(" * DEEP,
    "a.tf": "a = " + "[" * DEEP,
    "a.md": "[" * DEEP,
    "links.md": "[a](" * DEEP,
    "a.html": "{{" * DEEP,
    "a.css": "{" * DEEP,
    "a.ipynb": '{"cells":' + "[" * DEEP,
    "package.json": '{"scripts":' + '{"a":' * DEEP,
    "package-lock.json": '{"packages":' + '{"a":' * DEEP,
    "Makefile": "A = " + "$(" * DEEP,
    ".gitlab-ci.yml": "a:\n  script: " + "[" * DEEP,
    ".github/workflows/a.yml": "on: push\njobs: " + "[" * DEEP,
    "vendor/a.js": "x = " + "[" * DEEP,
}
CONTINUED = {
    "Dockerfile": "FROM a\nRUN a \\\n" + " b \\\n" * DEEP + " c\n",
    "windows/Dockerfile": "FROM a\r\nRUN a \\\r\n" + " b \\\r\n" * DEEP + " c\r\n",
    "a.mk": "a:\n\tb \\\n" + "\tc \\\n" * DEEP + "\td\n",
}
OTHERS = {"key.toml": f"{KEY} = 1\n", "table.toml": f"[{KEY}]\nx = 1\n"}
ORDINARY = {
    "table": "[\n" + "[1, (2), {3: 4}],\n" * 9000 + "]\n",
    "recording": "\x1b[1mbold\x1b[0m\n" * 9000,
    "list": "x(\n" * 900 + ")" * 900,
    "macros": "".join("#define A \\\n" + " a \\\n" * 99 + " b\n" for _ in range(99)),
}


@pytest.mark.attack("text nested so deeply that parsers take minutes")
def test_a_bomb_is_a_named_gap_and_never_merged_as_complete(tmp_path: Path) -> None:
    head = {**NESTED, **CONTINUED, **OTHERS, "ordinary.py": "X = 1\n"}
    base = {"vendor/b.js": "x = 1;\n"}
    verdict = run_review(options(change(tmp_path, base, head).path), ignore_event)
    gaps = {skip.path: skip.why for skip in verdict.skipped if skip.gap}
    assert gaps.keys() == head.keys() - {"ordinary.py"}
    assert all(f"over {MAX_NESTED} open brackets" in gaps[path] for path in NESTED)
    assert all(f"over more than {MAX_CONTINUED} lines" in gaps[path] for path in CONTINUED)
    assert all("nested too deeply" in gaps[path] for path in OTHERS)
    assert (verdict.verdict, verdict.status) == ("needs_changes", "incomplete")


@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY)
def test_ordinary_texts_with_many_brackets_are_read(text: str) -> None:
    assert inspect_content(text.encode()).bomb == ""
