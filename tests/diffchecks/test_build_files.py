"""Builds and scripts in languages without a grammar, each pattern beside an honest twin."""

import pytest

from diffchecks.build_files import find_dangerous_builds, languages
from diffchecks.check_io import Source

EXAMPLES = [
    (name, each["code"], each["bad"], each["good"])
    for name, language in languages().items()
    for each in language["patterns"]
]


def found(name: str, text: str) -> list[tuple[str, int]]:
    path = languages()[name]["files"][0].replace("*", "x").replace("[Jj]", "J")
    return [(each.code, each.line) for each in find_dangerous_builds(Source(path, text.encode()))]


@pytest.mark.parametrize(("name", "code", "bad", "good"), EXAMPLES)
def test_each_pattern_finds_its_bad_example_only(name: str, code: str, bad: str, good: str) -> None:
    expected = "foreign-script" if code == "script" else code
    codes = [each for each, _ in found(name, bad)]
    assert codes[0] == expected or (codes[0] == "plain-http-script" and "http:" in bad)
    assert codes.count(codes[0]) == 1
    assert found(name, good) == []
