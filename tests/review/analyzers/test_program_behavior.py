"""What a change can contain to mislead external programs."""

import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from diffchecks.programs import FileCopies, batches
from orchestrator.code_review.analyzer_types import Side
from orchestrator.code_review.analyzers.program_execution import Program
from tests.diffchecks.programs.program_tools import (
    DOCKERFILE,
    PYTHON,
    SCRIPT,
    WORKFLOW,
    Hadolint,
    Make,
    Ruff,
    ShellCheck,
    Tool,
    Zizmor,
    every_tool,
    places,
)

Export = Callable[[Mapping[str, str | bytes]], Side]
FakeProgram = Callable[[str, str], str]


@every_tool
async def test_a_finding_has_its_lines_and_only_codes_that_are_on_are_reported(
    export: Export, tool: Tool
) -> None:
    side = export({tool.path: tool.text})
    report = await tool.make({tool.code}).run(side, [tool.path])
    assert places(report) == tool.expected
    assert report.examined == {tool.path}
    assert report.version[0].isdigit()
    assert not report.gaps
    other = await tool.make({tool.other}).run(side, [tool.path])
    assert places(other) == []
    assert other.examined == {tool.path}


@every_tool
async def test_file_that_does_not_parse_is_a_gap_and_leaves_the_others_alone(
    export: Export, tool: Tool
) -> None:
    hurt = [tool.sibling(f"b{n}") for n in range(3)]
    side = export({tool.path: tool.text, **dict.fromkeys(hurt, tool.broken)})
    report = await tool.make({tool.code}).run(side, [hurt[0], tool.path, *hurt[1:]])
    assert places(report) == tool.expected
    assert report.examined == {tool.path}
    assert set(report.gaps) == set(hurt)
    for why in report.gaps.values():
        assert f"{tool.make.name} cannot parse it" in why
        assert "\n" not in why


@pytest.mark.parametrize(
    ("make", "code", "text", "names"),
    [
        (Ruff, "S605", PYTHON, ["-x.py", "--fix.py", "a b'\".py", "a\nb.py", "ü.py", b"\xff.py"]),
        (ShellCheck, "SC2115", SCRIPT, ["-x.sh", "-e a.sh", "$(a).sh", "a\nb.sh", b"\xff\xfe.sh"]),
        (Hadolint, "DL3004", DOCKERFILE, ["-x.Dockerfile", "a b.Dockerfile", b"\xff.Dockerfile"]),
        (
            Zizmor,
            "insecure-commands",
            WORKFLOW,
            [f".github/workflows/{n}.yml" for n in ("-x", "a b", "ü", "{a}")]
            + [b".github/workflows/\xff.yml"],
        ),
    ],
    ids=["ruff", "sh", "docker", "zizmor"],
)
async def test_unusual_file_names_are_passed_safely_and_reported_unchanged(
    export: Export, make: Make, code: str, text: str, names: list[str | bytes]
) -> None:
    paths = sorted(os.fsdecode(name) for name in names)
    analyzer = make({code})
    assert all(analyzer.wants(path) for path in paths)
    report = await analyzer.run(export(dict.fromkeys(paths, text)), paths)
    assert [place[0] for place in places(report)] == paths
    assert report.examined == set(paths)


HOSTILE = {
    "ruff.toml": 'exclude = ["*"]\n[lint]\nselect = ["E501"]\n',
    ".ruff.toml": 'exclude = ["*"]\n[lint]\nignore = ["ALL"]\n',
    "pyproject.toml": '[tool.ruff]\nexclude = ["*"]\n',
    ".shellcheckrc": "disable=all\n",
    "shellcheckrc": "disable=all\n",
    ".hadolint.yaml": "ignored: [DL3004]\nfailure-threshold: none\n",
    ".hadolint.yml": "ignored: [DL3004]\n",
    "zizmor.yml": "rules:\n  insecure-commands:\n    disable: true\n",
    ".github/zizmor.yml": "rules:\n  insecure-commands:\n    disable: true\n",
    ".gitignore": "*\n",
    ".ignore": "*\n",
}


@every_tool
async def test_configuration_in_the_change_is_not_read(export: Export, tool: Tool) -> None:
    side = export({**HOSTILE, tool.path: tool.text})
    assert places(await tool.make({tool.code}).run(side, [tool.path])) == tool.expected


@pytest.mark.parametrize(
    ("make", "code", "path", "text", "line"),
    [
        (Ruff, "S605", "a.py", "# ruff: noqa\n# flake8: noqa\n" + PYTHON, 7),
        (Ruff, "S605", "a.py", PYTHON.replace("(x)\n", "(x)  # noqa: S605\n"), 5),
        (Ruff, "S605", "a.py", PYTHON.replace("(x)\n", "(x)  # ruff: ignore[S605]\n"), 5),
        (Ruff, "S605", "a.py", "# ruff: disable[S605]\n" + PYTHON + "# ruff: enable[S605]\n", 6),
        (Ruff, "S605", "a.py", "# ruff: file-ignore[S605]\n" + PYTHON, 6),
        (ShellCheck, "SC2115", "a.sh", SCRIPT.replace("rm", "# shellcheck disable=all\nrm"), 3),
        (
            ShellCheck,
            "SC2115",
            "a.sh",
            SCRIPT.replace("rm", "# shellcheck shell=bash  disable=SC2115\nrm"),
            3,
        ),
        (Hadolint, "DL3004", "Dockerfile", "# hadolint global ignore=DL3004\n" + DOCKERFILE, 3),
        (
            Hadolint,
            "DL3004",
            "Dockerfile",
            DOCKERFILE.replace("RUN", "# hadolint ignore=DL3004\nRUN"),
            3,
        ),
        (
            Hadolint,
            "SC2115",
            "Dockerfile",
            '# hadolint shell=pwsh\nFROM debian:12\nARG X\nRUN rm -rf "$X/"\n',
            4,
        ),
        (
            Zizmor,
            "insecure-commands",
            ".github/workflows/a.yml",
            WORKFLOW.replace("true", "true  # zizmor: ignore[insecure-commands]"),
            5,
        ),
    ],
)
async def test_suppression_comments_of_the_change_have_no_effect(
    export: Export, make: Make, code: str, path: str, text: str, line: int
) -> None:
    assert places(await make({code}).run(export({path: text}), [path])) == [(path, line, code)]


async def test_two_hundred_files_in_one_run(export: Export) -> None:
    paths = [f"package/{'x' * 100}/module_{n:03}.py" for n in range(200)]
    report = await Ruff({"S605"}).run(export(dict.fromkeys(paths, PYTHON)), paths)
    assert [place[0] for place in places(report)] == paths
    assert report.examined == set(paths)


async def test_files_beyond_one_run_are_all_analyzed(
    export: Export, fake_program: FakeProgram
) -> None:
    real = shlex.quote(Program("shellcheck", "").find())
    few = 'until [ "${1:---}" = -- ]; do shift; done; [ $# -le 26 ]'
    folder = fake_program("shellcheck", f'( {few} ) || exit 9\nexec {real} "$@"')
    paths = [f"a{n:02}.sh" for n in range(60)]
    side = export(dict.fromkeys(paths, SCRIPT))
    program = Program("shellcheck", "", search=folder)
    report = await ShellCheck({"SC2115"}, program).run(side, paths)
    assert [place[0] for place in places(report)] == paths


def test_file_names_are_split_by_bytes_and_by_number() -> None:
    names = ["a" * 10, "\udcff" * 10, "ü" * 10, "b" * 50, "c", "d"]
    assert list(batches(names, max_bytes=40)) == [names[:2], names[2:3], names[3:4], names[4:]]
    assert list(batches(names, max_files=4)) == [names[:4], names[4:]]
    assert list(batches([])) == []


def test_a_copy_is_read_once_however_many_findings_it_has(tmp_path: Path) -> None:
    (tmp_path / "f0.py").write_text("a\nb\n")
    copies = FileCopies(tmp_path, {"f0.py": "a.py"})
    assert copies.text("f0.py", 2, 2) == "b"
    (tmp_path / "f0.py").unlink()
    assert copies.text("f0.py", 1, 1) == "a"
