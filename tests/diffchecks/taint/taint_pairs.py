"""Reads the case files: pairs of programs, vulnerable and safe, that differ by a few marked lines."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffchecks import DATA
from diffchecks.taint import run
from tests.diffchecks.check_kit import run_check

CASES = Path(__file__).parent / "cases"
LIBRARY_MODELS = sorted(map(str, (DATA / "taint").glob("*.yaml")))


@dataclass(frozen=True)
class Pair:
    """One pair: file name to text, for each variant."""

    code: str
    name: str
    bad: dict[str, str]
    good: dict[str, str]


def variant(text: str, mark: str) -> dict[str, str]:
    """The files of one side: lines marked ``-`` are the vulnerable one's, ``+`` the fixed one's."""
    files: dict[str, list[str]] = {"case.py": []}
    lines = files["case.py"]
    for line in text.splitlines():
        if line.startswith("--- "):
            lines = files.setdefault(line[4:].strip(), [])
        elif re.match(r"[-+] ", line):
            # The mark and its blanks stand where the indentation is: "-   x" is four deep.
            rest = line[2:]
            depth = len(rest) - len(rest.lstrip())
            if line[0] == mark:
                lines.append(" " * (depth + 2 if depth else 0) + rest.lstrip())
        else:
            lines.append(line)
    return {name: "\n".join(body) + "\n" for name, body in files.items()}


def pairs() -> list[Pair]:
    """All pairs of all case files."""
    found = []
    for file in sorted(CASES.glob("*.txt")):
        for block in file.read_text().split("=== ")[1:]:
            name, _, text = block.partition("\n")
            found.append(Pair(file.stem, name.strip(), variant(text, "-"), variant(text, "+")))
    return found


def write(root: Path, files: Mapping[str, str]) -> None:
    """Write a small tree."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def trace(root: Path, files: Mapping[str, str], *, paths: Sequence[str] = (), **job: Any) -> Any:
    """The reply over a small tree; ``paths``: what is reported on, by default all of it."""
    write(root, files)
    tree = list(files)
    return run_check(
        run,
        {"root": str(root), "paths": paths or tree, "tree": tree, "data": LIBRARY_MODELS, **job},
    )


def codes(root: Path, files: Mapping[str, str]) -> set[str]:
    """The codes found over a small tree that is understood as a whole."""
    reply = trace(root, files)
    assert not reply.gaps, reply.gaps
    return {finding.code for finding in reply.findings}
