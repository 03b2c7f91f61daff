"""The texts of each command's help, the examples at its end, and how commands are named."""

import argparse
import shlex
from collections import ChainMap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from orchestrator.cli.arguments import (
    Parser,
    add_arguments,
    name_in_help,
    read_arguments,
    read_help,
)
from orchestrator.cli.main import COMMANDS, _make_parser, main
from orchestrator.report.formats import FORMATS
from tests.review.review_kit import Repo

HELP = read_help()
SHARED = HELP.pop("shared")
EXAMPLES: dict[str, list[str]] = {command: known["examples"] for command, known in HELP.items()}


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


@cache
def every_parser() -> dict[str, Parser]:
    """Parsing leaves a parser as it was."""
    top, commands = _make_parser()
    for name in COMMANDS:
        add_arguments(commands.add_parser(name), name)
    return {parser.prog: parser for parser in walk(top)}


def walk(parser: Parser) -> Iterator[Parser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from walk(inner)


def test_every_command_and_subcommand_has_two_examples_and_nothing_else_has() -> None:
    assert sorted(EXAMPLES) == sorted(every_parser())
    assert {len(examples) for examples in EXAMPLES.values()} == {2}


@pytest.mark.parametrize("command", sorted(EXAMPLES))
def test_every_example_is_a_valid_call(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "service").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for example in EXAMPLES[command]:
        if "--help" not in example:
            parser = every_parser()["diffcourt"]
            parser.parse_args([*command.split()[1:], *shlex.split(example.split(" > ")[0])])


def test_every_help_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    texts = [parser.format_help() for parser in every_parser().values()]
    assert [line for text in texts for line in text.splitlines() if len(line) > 80] == []


def test_every_command_has_a_summary_and_a_place_in_the_list() -> None:
    assert {name for name, texts in HELP.items() if "summary" not in texts} == {"diffcourt"}
    listed = [name for group in HELP["diffcourt"]["commands"].values() for name in group]
    assert sorted(listed) == sorted(COMMANDS)
    known = {"summary", "usage", "description", "exit_codes", "arguments", "examples", "commands"}
    assert {key for texts in HELP.values() for key in texts} == known


@pytest.mark.parametrize("command", sorted(HELP))
def test_every_argument_has_a_text_and_every_text_an_argument(command: str) -> None:
    texts = HELP[command].get("arguments", {})
    actions = {
        name_in_help(action): action
        for action in every_parser()[command]._actions
        if action.dest != "help" and not isinstance(action, argparse._SubParsersAction)
    }
    assert sorted(key.split()[0] for key in texts) == sorted(actions)
    assert all(text.strip() for text in texts.values())
    for key in texts:
        name, *placeholders = key.split()
        action = actions[name]
        takes = action.nargs if isinstance(action.nargs, int) else 1
        assert len(placeholders) <= (takes if action.option_strings else 0), key


def test_every_shared_text_is_used() -> None:
    used = {item for texts in HELP.values() for item in texts.get("arguments", {}).items()}
    assert not [key for group in SHARED.values() for key in group.items() - used]


def test_the_help_names_every_format_of_a_verdict() -> None:
    for command in ("diffcourt review", "diffcourt export"):
        text = HELP[command]["arguments"]["--format FORMAT[=FILE]"]
        assert f": {', '.join(FORMATS)};" in text


def test_every_kind_and_every_shared_set_of_arguments_is_used() -> None:
    def words(table: object) -> Iterator[str]:
        if isinstance(table, dict | list):
            for inner in table.values() if isinstance(table, dict) else table:
                yield from words(inner)
        else:
            yield str(table)

    tables = read_arguments()
    assert not {*tables["kinds"], *tables["shared"]} - set(words(tables))


def test_a_command_reads_its_own_tables_and_all_commands_read_all() -> None:
    parts = [*map(read_arguments, COMMANDS), read_arguments("kinds", "shared")]
    assert sorted(key for part in parts for key in part) == sorted(read_arguments())
    assert dict(ChainMap(*parts)) == read_arguments()


def test_json_needs_no_file_in_any_command() -> None:
    options = {
        name: parser._option_string_actions["--json"]
        for name, parser in every_parser().items()
        if "--json" in parser._option_string_actions
    }
    assert {"diffcourt review", "diffcourt show", "diffcourt rubric gate"} <= options.keys()
    wants_file = [name for name, option in options.items() if option.const not in {True, "-"}]
    assert wants_file == []


def test_the_help_ends_with_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "prune", "--help"]) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "examples:",
        "  diffcourt runs prune --older-than 30",
        "  diffcourt runs prune --keep 50 --dry-run",
    ]


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["reviews"], "there is no command 'reviews'; did you mean review?"),
        (["review", "--bases", "main"], "unknown arguments: --bases; did you mean --base?"),
        (["review", "--pattern", "teem"], "invalid choice: 'teem'; did you mean team?"),
        (["review", "--pattern", "x"], "invalid choice: 'x'; choose from auto, team, single"),
    ],
)
def test_a_word_that_resembles_an_option_is_answered_with_it(
    argv: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "files"),
    [
        (["first..second"], 1),
        (["first...second"], 1),
        (["first.."], 2),
        (["first"], 2),
        (["HEAD~1"], 1),
        (["first", "--head", "second"], 1),
    ],
)
def test_a_range_names_base_and_head_as_git_does(
    argv: list[str], files: int, repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, name in enumerate(("first", "second", "third")):
        repo.commit({f"{name}.txt": f"line {number}\n"})
        repo.git("tag", name)
    assert main(["review", "--repo", str(repo.path), "--quiet", "--fail-on", "never", *argv]) == 0
    (change,) = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("Change ")
    ]
    assert f"{files} file" in change


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["a..b", "--base", "c"], "both RANGE and --base name the base; give one of them"),
        (["a..b", "--head", "c"], "RANGE names the head"),
        (["a..b", "--worktree"], "RANGE names the head"),
        (["a..nosuch"], "unknown revision"),
    ],
)
def test_naming_a_side_twice_is_refused(
    argv: list[str], error: str, repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.commit({"a.txt": "x\n"})
    repo.git("tag", "a")
    assert main(["review", "--repo", str(repo.path), *argv]) == 2
    assert error in capsys.readouterr().err


def test_show_and_resume_take_the_latest_run(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    repo.commit({"a.txt": "x\n"})
    assert main(["review", "--repo", str(repo.path), "--quiet"]) == 0
    report = capsys.readouterr().out
    assert main(["show", "--repo", str(repo.path)]) == 0
    assert capsys.readouterr().out.startswith(report.splitlines()[0])
    assert main(["resume", "--repo", str(repo.path), "--quiet"]) == 0
