"""Commands of GitHub workflows and actions are read as shell, where a shell of Unix runs them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.diffchecks.patterns.test_pattern_files import look

DOWNLOAD = "curl -sSL https://get.helm.sh/i.sh | sh"
Lines = Callable[[str, str], list[tuple[str, int]]]
WORKFLOW, ACTION = ".github/workflows/ci.yml", "tools/setup/action.yml"


def workflow(step: str, job: str = "runs-on: ubuntu-24.04", top: str = "") -> str:
    return f"on: push\n{top}jobs:\n  a:\n    {job}\n    steps:\n      - {step}\n"


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    def find(path: str, text: str) -> list[tuple[str, int]]:
        (tmp_path / path).parent.mkdir(parents=True)
        reply = look(tmp_path, {path: text})
        assert not reply.gaps
        return [(finding.code, finding.line) for finding in reply.findings]

    return find


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        (WORKFLOW, workflow(f"run: {DOWNLOAD}"), 6),
        (WORKFLOW, workflow(f"run: |\n          make\n          {DOWNLOAD}"), 8),
        (WORKFLOW, f'{{on: push, jobs: {{a: {{steps: [{{run: "{DOWNLOAD}"}}]}}}}}}\n', 1),
        (WORKFLOW, workflow(f"run: ./a ${{{{ inputs.a || 'b' }}}} && {DOWNLOAD}"), 6),
        (WORKFLOW, workflow(f"{{shell: bash, run: '{DOWNLOAD}'}}", "runs-on: windows-2025"), 6),
        (
            ACTION,
            f"runs:\n  using: composite\n  steps:\n    - run: {DOWNLOAD}\n      shell: bash\n",
            4,
        ),
    ],
)
def test_a_download_that_is_run_is_found_at_its_line(
    lines: Lines, path: str, text: str, line: int
) -> None:
    assert lines(path, text) == [("shell-remote-script", line)]


@pytest.mark.parametrize(
    "text",
    [
        workflow(f"{{shell: pwsh, run: '{DOWNLOAD}'}}"),
        workflow(f"run: {DOWNLOAD}", "runs-on: windows-2025"),
        workflow(f"run: {DOWNLOAD}", top="defaults: {run: {shell: python}}\n"),
        workflow(f"name: {DOWNLOAD}"),
        workflow("run: chmod -R 777 ."),  # a runner is thrown away after its job
    ],
)
def test_commands_of_other_shells_are_ignored(lines: Lines, text: str) -> None:
    assert lines(WORKFLOW, text) == []
