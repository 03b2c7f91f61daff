"""Failures of external programs: always an error or a gap, never a clean report."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from orchestrator.code_review.analyzer_types import AnalyzerReport, Side
from orchestrator.code_review.analyzers.program_execution import Program
from orchestrator.errors import SandboxError
from orchestrator.sandbox.program_permissions import ResourceLimits
from tests.diffchecks.programs.program_tools import PYTHON, Ruff, Tool, every_tool, places

Export = Callable[[Mapping[str, str | bytes]], Side]
FakeProgram = Callable[[str, str], str]


@every_tool
async def test_a_missing_program_is_an_error_that_says_how_to_install_it(
    export: Export, tmp_path: Path, tool: Tool
) -> None:
    nowhere = Program(tool.make.name, tool.make.package, search=str(tmp_path))
    report = await tool.make({tool.code}, nowhere).run(export({tool.path: tool.text}), [tool.path])
    assert report.error is not None
    assert report.error.startswith(f"{tool.make.name} is not installed; run: ")
    assert tool.make.package in report.error
    assert not report.examined
    assert not report.findings


@every_tool
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            "echo 'fatal: out of' >&2; echo cheese >&2; exit 9",
            "ended with exit code 9: fatal: out of cheese",
        ),
        ("echo done", "printed something other than JSON"),
        ("echo '[{\"x\": 1}]'", "printed JSON with an unknown structure"),
        ("sleep 9", "ran longer than 0.3 s"),
    ],
)
async def test_failing_program_is_an_error(
    export: Export, fake_program: FakeProgram, tool: Tool, body: str, why: str
) -> None:
    folder = fake_program(tool.make.name, body)
    program = Program(
        tool.make.name, tool.make.package, limits=ResourceLimits(seconds=0.3), search=folder
    )
    report = await tool.make({tool.code}, program).run(export({tool.path: tool.text}), [tool.path])
    assert report.error is not None
    assert why in report.error
    assert tool.make.name in report.error
    assert "\n" not in report.error
    assert not report.examined


@every_tool
async def test_nothing_runs_without_codes_or_files(
    export: Export, tmp_path: Path, tool: Tool
) -> None:
    nowhere = Program(tool.make.name, tool.make.package, search=str(tmp_path))
    side = export({tool.path: tool.text})
    for report in (
        await tool.make({tool.code}, nowhere).run(side, []),
        await tool.make((), nowhere).run(side, [tool.path]),
    ):
        assert report == AnalyzerReport(tool.make.name, "")


@every_tool
async def test_file_that_is_not_there_is_a_gap(export: Export, tool: Tool) -> None:
    gone = tool.sibling("gone")
    report = await tool.make({tool.code}).run(export({tool.path: tool.text}), [gone, tool.path])
    assert places(report) == tool.expected
    assert report.gaps == {gone: f"{tool.make.name} could not read it: No such file or directory"}


async def test_a_relative_folder_of_the_search_path_is_not_used(
    tmp_path: Path, fake_program: FakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(fake_program("ruff", "exit 0"))
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "programs").symlink_to(folder)
    monkeypatch.chdir(tmp_path / "here")
    assert Program("ruff", "ruff", search=f"{tmp_path}:{folder}").find() == str(folder / "ruff")
    with pytest.raises(SandboxError, match="ruff is not installed"):
        Program("ruff", "ruff", search=f"programs:.:{tmp_path}").find()


async def test_a_message_of_a_program_is_one_line(
    export: Export, fake_program: FakeProgram
) -> None:
    body = "printf 'a\\033[2Jb\\rc %0500d\\nd\\n' 1 >&2; exit 4"
    program = Program("ruff", "ruff", search=fake_program("ruff", body))
    report = await Ruff({"S605"}, program).run(export({"a.py": PYTHON}), ["a.py"])
    assert report.error is not None
    assert report.error.isprintable()
    assert len(report.error) < 300
