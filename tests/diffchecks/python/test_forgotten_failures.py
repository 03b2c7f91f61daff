"""Calls whose failure base let through: each way to forget it, and one that forgets nothing."""

from collections.abc import Callable

import pytest

from diffchecks import removed_controls as check
from diffchecks.data_files import read_yaml

TABLE = read_yaml("forgotten_failures.yaml")
ROWS = [
    (f"a{TABLE['suffixes'][name].split()[0]}", *row["example"])
    for row in TABLE["patterns"]
    for name in row["in"].split()
]
Codes = Callable[..., list[str]]


@pytest.mark.parametrize(("path", "base", "forgets", "keeps"), ROWS)
def test_a_failure_that_base_let_through_is_forgotten(
    codes: Codes, path: str, base: str, forgets: str, keeps: str
) -> None:
    was = {path: f"first\n{base}last\n"}
    assert codes(check, was, {path: f"first\n{forgets}last\n"}) == ["effect-forgotten"]
    assert codes(check, was, {path: f"first\n{keeps}last\n"}) == []
    assert codes(check, {path: f"first\n{forgets}last\n"}, was) == []


def test_what_only_reads_and_what_base_forgot_too_are_told_apart(codes: Codes) -> None:
    reads = "try:\n    cache.load(x)\nexcept Exception:\n    pass\n"
    assert codes(check, {"a.py": "cache.load(x)\n"}, {"a.py": reads}) == ["failure-forgotten"]
    assert codes(check, {"a.py": "other()\n"}, {"a.py": reads}) == []
    assert codes(check, {"a.py": reads.replace("Exception", "KeyError")}, {"a.py": reads}) == []
    assert codes(check, {"a.go": "save(x)\n"}, {"a.go": "_ = save(x)\n"}) == []
