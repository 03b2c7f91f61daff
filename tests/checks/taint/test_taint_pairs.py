"""Each class of defect: pairs of programs that differ by one thing, one vulnerable and one safe."""

from pathlib import Path

import pytest

from tests.checks.taint.taint_pairs import Pair, codes, pairs

PAIRS = pairs()
CLASSES = {
    "sql", "command", "code", "path", "xss", "template", "ldap", "xpath", "xxe", "deserialization",
    "redirect", "ssrf", "header", "log", "trust-boundary", "weak-hash", "weak-random",
    "insecure-cookie", "regex", "rendered", "nosql", "nosql-script", "attribute", "mass-assignment",
    "xss-stored", "rendered-stored", "sql-stored", "command-stored", "code-stored", "template-stored",
    "query-fields",
}  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.code}-{pair.name}")
def test_the_vulnerable_program_is_distinguished_from_the_safe_one(
    pair: Pair, tmp_path: Path
) -> None:
    assert pair.code in codes(tmp_path / "bad", pair.bad)
    assert pair.code not in codes(tmp_path / "good", pair.good)


def test_every_class_has_a_pair() -> None:
    assert {pair.code for pair in PAIRS} == CLASSES
