"""Each class of defect: pairs of programs that differ by one thing, one vulnerable and one safe."""

from pathlib import Path

import pytest

from tests.diffchecks.taint.taint_pairs import codes, pairs

PAIRS = pairs()
CLASSES = {
    "sql", "command", "code", "path", "xss", "template", "ldap", "xpath", "xxe", "deserialization",
    "redirect", "ssrf", "header", "log", "trust-boundary", "weak-hash", "weak-random",
    "insecure-cookie", "regex", "rendered", "nosql", "nosql-script", "attribute", "mass-assignment",
    "xss-stored", "rendered-stored", "sql-stored", "command-stored", "code-stored", "template-stored",
    "page", "query-fields", "deserialization-parameter", "template-parameter", "xxe-parameter",
    "sql-parameter-name",
}  # fmt: skip


@pytest.mark.parametrize("code", sorted(CLASSES))
def test_the_vulnerable_program_is_distinguished_from_the_safe_one(
    code: str, tmp_path: Path
) -> None:
    wrong = []
    for number, pair in enumerate(pair for pair in PAIRS if pair.code == code):
        root = tmp_path / str(number)
        found = code in codes(root / "bad", pair.bad), code in codes(root / "good", pair.good)
        if found != (True, False):
            wrong.append((pair.name, found))
    assert not wrong


def test_every_class_has_a_pair() -> None:
    assert {pair.code for pair in PAIRS} == CLASSES
