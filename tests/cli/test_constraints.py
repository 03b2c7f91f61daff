"""constraints.txt, of which ``tools/setup.sh`` installs the lines of some extras."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
WANTED = {
    "core": PROJECT["project"]["dependencies"],
    "build": PROJECT["build-system"]["requires"],
    **EXTRAS,
}
LINE = re.compile(r"([\w.-]+)==(\S+)( ; .*?)?(( --hash=sha256:[0-9a-f]{64})+) #((?: [\w-]+)+)")
LINES = [LINE.fullmatch(line) for line in (ROOT / "constraints.txt").read_text().splitlines()]


def test_every_release_has_its_hashes_and_who_needs_it() -> None:
    assert LINES
    assert all(LINES)
    assert {user for line in LINES if line for user in line[6].split()} == set(WANTED)


@pytest.mark.parametrize("extra", WANTED)
def test_what_an_extra_requires_is_among_its_lines(extra: str) -> None:
    """Else an installation would lack it: ``make constraints`` was forgotten."""
    locked: dict[str, list[str]] = {}
    for line in LINES:
        if line and {extra, "core"} & set(line[6].split()):
            locked.setdefault(canonicalize_name(line[1]), []).append(line[2])
    for text in WANTED[extra]:
        required = Requirement(text)
        if required.name != "diffcourt":
            versions = locked[canonicalize_name(required.name)]
            assert all(required.specifier.contains(version) for version in versions), text
