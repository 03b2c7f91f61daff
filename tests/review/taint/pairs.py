"""Reads the case files: pairs of programs, vulnerable and safe, that differ by a few marked lines."""

import re
from dataclasses import dataclass
from pathlib import Path

CASES = Path(__file__).parent / "cases"
KNOWLEDGE = sorted(map(str, (Path(__file__).parents[3] / "config" / "taint").glob("*.yaml")))


@dataclass(frozen=True)
class Pair:
    """One pair: file name to text, for each variant."""

    code: str
    name: str
    bad: dict[str, str]
    good: dict[str, str]


def _variant(text: str, mark: str) -> dict[str, str]:
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
            found.append(Pair(file.stem, name.strip(), _variant(text, "-"), _variant(text, "+")))
    return found


def codes(root: Path, files: dict[str, str]) -> list[dict]:
    """The findings over a small tree."""
    from orchestrator.review.checks.taint import run

    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    reply = run(
        {"root": str(root), "paths": list(files), "tree": list(files), "knowledge": KNOWLEDGE}
    )
    assert not reply["gaps"], reply["gaps"]
    return reply["findings"]
