"""Small web applications, vulnerable and fixed, with the vulnerable lines labeled ``#! class``."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from diffchecks import DATA, patterns, regular_expressions
from diffchecks.patterns.pattern_loading import load
from diffchecks.secrets import secret_scan
from tests.diffchecks.check_kit import run_check
from tests.diffchecks.taint.taint_pairs import trace, variant

_SAME = {"exec": "code", "archive-member": "path", "shell-started": "command"}
"""Codes of patterns that a review reports as one finding with the class of a flow."""

_BY_ABSENCE = {"upload", "record-unowned"}
"""What both variants lack, on purpose."""

_LABEL = re.compile(r"\s*#! ([\w -]+)$")


@dataclass(frozen=True, order=True)
class Place:
    """A line of the vulnerable or the fixed variant, and the class of the defect there."""

    path: str
    line: int
    klass: str


@dataclass(frozen=True)
class Application:
    """Both variants as file name to text, and where the first one is vulnerable."""

    group: str
    name: str
    bad: dict[str, str]
    good: dict[str, str]
    labels: frozenset[Place]


@dataclass
class Outcome:
    """What the analysis of both variants says."""

    application: Application
    found: list[Place] = field(default_factory=list)
    missed: list[Place] = field(default_factory=list)
    false: list[Place] = field(default_factory=list)


def _unlabeled(files: dict[str, str]) -> dict[str, str]:
    return {
        path: "\n".join(_LABEL.sub("", line) for line in text.split("\n"))
        for path, text in files.items()
        if text.strip()
    }


def _labels(files: dict[str, str]) -> frozenset[Place]:
    return frozenset(
        Place(path, number, klass)
        for path, text in files.items()
        for number, line in enumerate(text.split("\n"), 1)
        if (label := _LABEL.search(line))
        for klass in label[1].split()
    )


def _applications() -> list[Application]:
    found = []
    for file in sorted((Path(__file__).parent / "applications").glob("*.txt")):
        for block in file.read_text().split("=== ")[1:]:
            name, _, text = block.partition("\n")
            bad, good = variant(text, "-"), variant(text, "+")
            found.append(
                Application(file.stem, name, _unlabeled(bad), _unlabeled(good), _labels(bad))
            )
    return found


APPLICATIONS = _applications()


def _places(root: Path, files: dict[str, str]) -> set[Place]:
    """What the checks that read Python say; ruff and other programs are not asked."""
    replies = [trace(root, files)]
    languages = (str(DATA / "patterns" / "python.yaml"),)
    codes = [pattern.code for language in load(languages) for pattern in language.patterns]
    job = {"root": str(root), "paths": list(files), "data": languages, "codes": codes}
    replies.append(run_check(patterns.run, job))
    job = {"root": str(root), "paths": list(files)}
    replies += [run_check(check.run, job) for check in (regular_expressions, secret_scan)]
    assert not any(reply.gaps for reply in replies), replies
    return {
        Place(finding.path, finding.line, _SAME.get(code, code))
        for reply in replies
        for finding in reply.findings
        if (code := finding.code.removeprefix("python-")) not in _BY_ABSENCE
    }


def measure(application: Application, root: Path) -> Outcome:
    """Analyze both variants of an application under a new directory."""
    bad = _places(root / "bad", application.bad)
    good = _places(root / "good", application.good)
    return Outcome(
        application,
        sorted(bad & application.labels),
        sorted(application.labels - bad),
        sorted(bad - application.labels) + sorted(good),
    )
