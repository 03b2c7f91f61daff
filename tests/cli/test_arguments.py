"""The command line without a review: usage, streams, faults and exit codes."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from orchestrator import __version__
from orchestrator.cli.error_reporting import report_errors
from orchestrator.cli.main import COMMANDS, main
from orchestrator.errors import (
    ConfigError,
    InputError,
    Interrupted,
    OutputError,
    ReplayMismatch,
    StoreError,
)
from tests.review.review_kit import Repo

ROOT = Path(__file__).parents[2]


def diffcourt(*args: str, stdout: IO[str] | int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "orchestrator", *args]
    env = os.environ | {"PYTHONPATH": "."}  # as those have it who work on this program
    return subprocess.run(
        command, cwd=ROOT, text=True, timeout=60, check=False, env=env,
        stdout=stdout, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_version_starts_quickly(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"diffcourt {__version__}\n"
    code = (
        "import sys; before = set(sys.modules); from orchestrator.cli.main import main; "
        "main(['--version']); print(sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True, check=True
    ).stdout.splitlines()[1]
    assert (
        loaded
        == "['__future__', 'gc', 'orchestrator', 'orchestrator.cli', 'orchestrator.cli.main', 'orchestrator.program_search']"
    )


def test_help_names_every_command_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in COMMANDS)
    assert all(f"\n  {code:<5}" in text for code in (0, 1, 2, 3, 130))


def test_the_workers_start_before_what_a_review_imports(tmp_path: Path) -> None:
    """They start in processes of their own, beside the imports that follow."""
    heavy = {"pydantic", "yaml", "networkx", "griffe", "orchestrator.app.run_review"}
    code = (
        "import sys; from orchestrator.cli.main import main; "
        "from orchestrator.sandbox.worker_pool import WorkerPool; "
        f"WorkerPool.start = lambda self: print({heavy!r} & set(sys.modules)); "
        "main(sys.argv[1:])"
    )
    for command in (["review", "--base", "none"], ["resume", "20260102-030405-00000000"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.strip() == "set()"


def test_a_review_imports_nothing_of_other_commands_and_extras() -> None:
    others = (
        "numpy", "httpx", "smtplib", "starlette", "jinja2", "uvicorn", "psycopg", "procrastinate",
        "opentelemetry", "apprise", "prometheus_client", "orchestrator.web", "orchestrator.tuning",
        "orchestrator.service", "orchestrator.app.runs.forking", "orchestrator.app.runs.run_archive",
        "orchestrator.app.statistics.all_runs", "orchestrator.app.tracing", "orchestrator.app.notify.run_alerts",
    )  # fmt: skip
    code = (
        "import sys, orchestrator.cli.commands.review, orchestrator.app.run_review; "
        f"print([m for m in sys.modules if m in {others!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_only_the_chosen_command_is_imported() -> None:
    code = (
        "import sys; from orchestrator.cli.main import main; main(['schema', '--help']); "
        "print([m for m in sys.modules if m in {'orchestrator.cli.commands.review', 'pydantic', 'rich'}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.fixture(scope="module")
def fresh_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of one commit: the checkout of a developer can hold the journal of another version."""
    repo = Repo(tmp_path_factory.mktemp("fresh"))
    repo.commit({"a.py": "x = 1\n"})
    return repo.path


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "usage: diffcourt"),
        (["revieww"], "revieww"),
        (["--bogus"], "COMMAND"),
        (["review", "--bogus", "1"], "unknown arguments: --bogus"),
        (["review", "--max-u", "1"], "unknown arguments: --max-u; did you mean --max-usd?"),
        (["review", "a", "extra"], "unknown arguments: extra"),
        (["export", "--to", "sarif"], "unknown arguments: --to (see"),
        (["review", "--head", "x", "--worktree"], "not allowed with"),
        (["review", "--diff", "x", "--head", "y"], "not allowed with"),
        (["review", "--diff", "x", "--worktree"], "not allowed with"),
        (["review", "--base", ""], "is empty"),
        (["review", "--base=--upload-pack=x"], "is not a commit"),
        (["review", "--repo", "no such folder"], "is not a directory"),
        (["review", "--fail-on", "sometimes"], "needs_changes"),
        (["review", "--pattern", "crowd"], "team"),
        (["review", "--provider", ""], "is empty"),
        (["review", "--diff", "no such file"], "cannot read"),
        (["review", "--diff", "."], "cannot read"),
        (["cancel"], "RUN"),
        (["resume", ""], "diffcourt runs"),
        (["schema", "verdicts"], "verdict"),
        (["runs", "--limit", "5", "prune", "--keep", "1"], "--limit"),
        (["na\udcefve"], r"no command 'na\xefve'"),
        (["review", "--repo", "na\udcefve"], r"'na\xefve' is not a directory"),
        (["review", "--path", "/na\udcefve"], r"'/na\xefve' must be"),
        (["review", "na\udcefve"], r"'na\xefve'"),
        (["review", "--format", "na\udcefve"], r"'na\xefve'"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(
    argv: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    fresh_repository: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(fresh_repository)
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    if argv:
        assert captured.err.startswith("diffcourt: ")
        assert captured.err.count("\n") == 1


@pytest.mark.parametrize("value", ["0", "-1", "nan", "1.5", "", "many", "1e3", "9" * 5_000])
@pytest.mark.parametrize("option", ["--max-iterations", "--max-tool-calls"])
def test_counts_are_whole_and_at_least_one(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["review", f"{option}={value}"]) == 2
    assert "must be a whole number of at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["0", "-0.5", "nan", "inf", "-inf", "", "much"])
@pytest.mark.parametrize("option", ["--max-minutes", "--max-usd"])
def test_amounts_are_finite_and_above_zero(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["review", f"{option}={value}"]) == 2
    assert "must be a number above 0" in capsys.readouterr().err


def test_a_closed_output_pipe_is_not_an_error() -> None:
    for args in (("schema", "verdict"), ("--help",), ("--version",), ("review", "--help")):
        read, write = os.pipe()
        os.close(read)
        done = diffcourt(*args, stdout=write)
        os.close(write)
        assert (done.returncode, done.stderr) == (0, ""), args


def test_closed_streams_do_not_change_the_exit_code() -> None:
    shell = f"{sys.executable} -m orchestrator review --max-usd 0 2>&- >&-"
    assert subprocess.run(["sh", "-c", shell], cwd=ROOT, check=False, timeout=60).returncode == 2


def test_the_schema_is_valid_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "verdict"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["$schema"].endswith("2020-12/schema")
    assert "findings" in schema["properties"]


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        (InputError("no such ref: x\n\x1b[2Jy"), 2, "no such ref: x\\n\\x1b[2Jy"),
        (ConfigError("unknown key", "a.yaml", 3), 2, "a.yaml:3: unknown key"),
        (StoreError("disk full"), 3, "disk full"),
        (OutputError("cannot write v.json"), 3, "cannot write v.json"),
        (Interrupted("r7"), 130, "interrupted; continue with: diffcourt resume r7"),
        (Interrupted("r7", Path("my repo")), 130, "diffcourt resume r7 --repo 'my repo'"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (BaseExceptionGroup("tasks", [KeyboardInterrupt()]), 130, "interrupted"),
        (OSError(errno.ENOSPC, "No space left on device", "x"), 3, "No space left on device for x"),
        (
            ReplayMismatch("k", {"same": "s" * 400, "a": 1}, {"same": "s" * 400, "a": 2}),
            3,
            "recorded: {'a': 1} present: {'a': 2}",
        ),
        (ZeroDivisionError("division by zero"), 3, "internal error, please report it"),
    ],
)
def test_every_fault_is_one_line_and_its_exit_code(
    fault: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> int:
        raise fault

    with report_errors(resumable=True) as outcome:
        outcome.code = command()
    assert outcome.code == code
    captured = capsys.readouterr()
    assert captured.err.startswith("diffcourt: ")
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_an_interrupted_command_without_a_run_names_none_to_resume(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def command() -> int:
        raise KeyboardInterrupt

    with report_errors(resumable=False) as outcome:
        outcome.code = command()
    assert outcome.code == 130
    assert capsys.readouterr().err == "diffcourt: interrupted\n"


def test_an_interrupt_while_the_command_is_loaded_is_one_line_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupting:
        @staticmethod
        def find_spec(name: str, path: object, target: object = None) -> None:
            raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "orchestrator.cli.error_reporting")
    monkeypatch.setattr(sys, "meta_path", [Interrupting, *sys.meta_path])
    assert main(["runs"]) == 130
    assert capsys.readouterr().err == "diffcourt: interrupted\n"


def test_debug_shows_where_an_internal_error_came_from(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIFFCOURT_DEBUG", "1")
    with report_errors(resumable=True) as outcome:
        outcome.code = 1 // 0
    assert outcome.code == 3
    assert "Traceback" in capsys.readouterr().err


def test_ascii_terminals_get_escapes() -> None:
    code = (
        "from orchestrator.cli.error_reporting import report_errors\n"
        "from orchestrator.cli.output import emit\nimport sys\n"
        "with report_errors(resumable=True): emit('caf\\u00e9\\n', sys.stdout)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.stdout == b"caf\\xe9\n"


def test_a_full_disk_is_one_line_and_not_a_pass() -> None:
    with Path("/dev/full").open("w") as full:
        done = diffcourt("schema", "verdict", stdout=full)
    assert done.returncode == 3
    assert done.stderr == "diffcourt: cannot write the output: No space left on device\n"
