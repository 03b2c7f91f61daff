"""The analyzers of external programs, each with a text in which it finds something."""

from collections.abc import Collection
from dataclasses import dataclass

import pytest

from diffchecks.declarations import CHECKS, Check
from diffchecks.programs import find_linter
from orchestrator.code_review.analyzer_types import AnalyzerReport
from orchestrator.code_review.analyzers.configured_analyzers import LinterCheck
from orchestrator.code_review.analyzers.program_execution import Program

PYTHON = "import os\n\n\ndef f(x):\n    os.system(x)\n"
SCRIPT = '#!/bin/bash\nrm -rf "$1/"\n'
DOCKERFILE = "FROM debian:12\nRUN sudo make\n"
WORKFLOW = (
    "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    env:\n"
    "      ACTIONS_ALLOW_UNSECURE_COMMANDS: true\n    steps:\n      - run: make\n"
)


@dataclass(frozen=True)
class Make:
    """Makes the analyzer of a check that a linter makes."""

    check: Check

    @property
    def name(self) -> str:
        """Of the linter."""
        return self.check.program

    @property
    def package(self) -> str:
        """That contains it."""
        return find_linter(self.name).execution.package

    def __call__(self, codes: Collection[str], program: Program | None = None) -> LinterCheck:
        return LinterCheck(self.check, codes, program)


MAKES = {check.program: Make(check) for check in CHECKS if check.program}
Ruff, Oxlint, ShellCheck, Hadolint, Zizmor, Typos = (
    MAKES[name] for name in ("ruff", "oxlint", "shellcheck", "hadolint", "zizmor", "typos")
)


@dataclass(frozen=True)
class Tool:
    """An analyzer with a text that has one defect, and one that does not parse."""

    make: Make
    code: str
    other: str
    path: str
    text: str
    line: int
    broken: str

    def sibling(self, name: str) -> str:
        """Another path that it wants."""
        folder, _, last = self.path.rpartition("/")
        last = last.replace("a.", f"{name}.") if "a." in last else f"{last}.{name}"
        return f"{folder}/{last}" if folder else last

    @property
    def expected(self) -> list[tuple[str, int, str]]:
        return [(self.path, self.line, self.code)]


TOOLS = [
    Tool(Ruff, "S605", "F632", "a.py", PYTHON, 5, "def f(:\n"),
    Tool(ShellCheck, "SC2115", "SC2071", "a.sh", SCRIPT, 2, "#!/bin/sh\nif true; then\n"),
    Tool(Hadolint, "DL3004", "DL3011", "Dockerfile", DOCKERFILE, 2, "FROM x:1\nRUNN y\n"),
    Tool(
        Zizmor,
        "insecure-commands",
        "unsound-contains",
        ".github/workflows/a.yml",
        WORKFLOW,
        5,
        "on: push\njobs: [\n",
    ),
]
every_tool = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.make.name)


def places(report: AnalyzerReport) -> list[tuple[str, int, str]]:
    assert report.error is None
    return [(found.path, found.line, found.code) for found in report.findings]
