"""A run whose rows were damaged on the disk keeps neither other runs nor new reviews back."""

import os
import shutil
import sqlite3
from functools import cache
from pathlib import Path

import psycopg
import pytest

from orchestrator.app.run_review import run_review
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.run_details import describe_call, load_details
from orchestrator.app.runs.run_index import CachedRunIndex
from orchestrator.app.runs.stored_runs import list_runs, show_run
from orchestrator.app.runs.verdict_recording import VERDICT
from orchestrator.cli.main import main
from orchestrator.engine.journal_rows import read_fields
from orchestrator.engine.observer_events import ignore_event
from orchestrator.errors import InputError
from tests.review.review_kit import Repo, change, options, templates
from tests.stores.postgres_server import Server


def test_a_damaged_verdict_is_listed_and_named_and_a_new_review_runs(tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {"a.py": "x = 1\n"}, {"a.py": "x = 2\n"})
    damaged = run_review(options(repo.path), ignore_event)
    with sqlite3.connect(repo.path / ".diffcourt/state/journal.db") as db:
        altered = db.execute("UPDATE journal SET body = ? WHERE key = ?", (b'{"a": \xff', VERDICT))
        assert altered.rowcount == 1
    db.close()
    repo.commit({"a.py": "x = 3\n"})
    again = run_review(options(repo.path), ignore_event)
    assert again.previous is None
    states = {run.run_id: run.state for run in list_runs(repo.path)}
    assert states == {damaged.run_id: "unreadable", again.run_id: "finished"}
    with pytest.raises(InputError, match=f"diffcourt audit verify {damaged.run_id}"):
        show_run(repo.path, damaged.run_id)


ENTRIES = [
    "meta = '{'",
    "meta = '[]'",
    "meta = replace(meta, 'options', 'optionr')",
    "meta = printf('%.*c', 100000, '[')",
    "started = 1e300",
]

NUMBERS = {
    "number = -5": ["repair"],
    "number = 4294967297": ["repair"],
    "run = CAST(x'ff41' AS TEXT)": ["repair"],
    "fence = 9223372036854775807": ["repair"],
    "lease_until = 1e300, holder = 'process 1 on b'": ["prune", "--run"],
    "lease_until = 9e999": ["prune", "--run"],
    """meta = '{"kind": "program", "root": 5}'""": ["prune", "--run"],
    """meta = '{"kind": "program"}'""": ["prune", "--run"],
}
"""What damages the newest run's entry, and the subcommand of ``runs`` that removes it."""

ROWS = {
    "at = -5": "%outcome%",
    "at = 9e999": "%outcome%",
    "body = x'5b5d'": "%outcome%",
    """body = CAST('{"value": 1e999}' AS BLOB)""": "%outcome%",
    """body = CAST('{"state": 5}' AS BLOB)""": "%note%",
    "kind = 'note'": "%intent%",
    "key = CAST(x'2fff' AS TEXT)": "%note%",
}
"""What damages rows, and of which kind."""


STATE = ".diffcourt/state"


@cache
def _reviewed() -> tuple[Repo, str, str]:
    """A repository with two runs, whose state is kept beside it."""
    made = _two_runs(templates() / "damaged")
    shutil.copytree(made[0].path / STATE, templates() / "damaged/state")
    return made


def _same_two_runs() -> tuple[Repo, str, str]:
    """The same for each test that changes nothing but the state."""
    made = _reviewed()
    shutil.rmtree(made[0].path / STATE)
    shutil.copytree(templates() / "damaged/state", made[0].path / STATE)
    return made


def _two_runs(tmp_path: Path) -> tuple[Repo, str, str]:
    repo = change(tmp_path / "repo", {"a.py": "x = 1\n"}, {"a.py": "x = 2\n"})
    sound = run_review(options(repo.path), ignore_event).run_id
    repo.commit({"a.py": "x = 3\n"})
    return repo, sound, run_review(options(repo.path), ignore_event).run_id


def _commands(repo: Repo, sound: str, damaged: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All commands work beside the damaged run, name it, and remove it."""
    at = ["--repo", str(repo.path)]
    for command in (["runs"], ["show", "latest"], ["runs", "prune", "--keep", "9"]):
        assert main([*command, *at]) == 0, capsys.readouterr().err
    assert f"diffcourt runs prune --run {damaged}" in capsys.readouterr().err
    assert main(["stats", *at]) == 3
    assert f"not counted: run {damaged}: its entry in the store" in capsys.readouterr().err
    assert main(["audit", "verify", damaged, *at]) == 0
    found = {run.run_id: run.state for run in CachedRunIndex([repo.path]).list_runs()}
    assert found == {sound: "finished", damaged: "unreadable"}
    assert main(["review", *at, "--base", "HEAD~1", "--quiet"]) == 0
    assert main(["runs", "prune", "--run", damaged, *at]) == 0
    assert damaged not in {run.run_id for run in list_runs(repo.path)}
    assert sound in {run.run_id for run in list_runs(repo.path)}


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_damaged_entry_stops_no_command_and_is_removed_by_its_name(
    capsys: pytest.CaptureFixture[str], entry: str
) -> None:
    repo, sound, damaged = _same_two_runs()
    with sqlite3.connect(repo.path / ".diffcourt/state/journal.db") as db:
        db.execute(f"UPDATE runs SET {entry} WHERE run = ?", (damaged,))
    db.close()
    _commands(repo, sound, damaged, capsys)


def _run_each(commands: list[list[str]], repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command works, or names in a line what is wrong, and none has an internal error."""
    for command in commands:
        code, printed = main([*command, "--repo", str(repo.path)]), capsys.readouterr()
        assert code in {0, 1, 3} or (code == 2 and printed.err.count("\n") == 1), command
        assert code in {0, 1} or printed.err.startswith("diffcourt: ") or printed.out, command
        assert "internal error" not in printed.err, command


def _all_on(run: str, folder: Path) -> list[list[str]]:
    return [
        ["show", run],
        ["stats"],
        ["audit", "verify", run],
        ["audit", "show", run],
        ["export", run, "--format", f"html={folder / 'html'}"],
        ["remember", "--out", str(folder / "patch")],
        ["runs", "export", run, str(folder / "exported")],
        ["trace", run, "--to", str(folder / "trace"), "--with-content"],
        ["view", "--bundle", run, str(folder / "bundle")],
        ["approve", run],
        ["rollback", run],
        ["feedback", "F1", "useful", "--run", run],
        ["resume", run, "--quiet"],
    ]


@pytest.mark.parametrize("entry", NUMBERS)
def test_damaged_numbers_and_names_of_the_newest_run_keep_nothing_else_back(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, entry: str
) -> None:
    repo, sound, damaged = _same_two_runs()
    with sqlite3.connect(repo.path / STATE / "journal.db") as db:
        db.execute(f"UPDATE runs SET {entry} WHERE run = ?", (damaged,))
    db.close()
    at = ["--repo", str(repo.path)]
    _run_each(_all_on(damaged, tmp_path), repo, capsys)
    for command in (["show", sound], ["review", "--base", "HEAD~1", "--quiet"]):
        assert main([*command, *at]) == 0, capsys.readouterr().err
    remedy = NUMBERS[entry]
    assert main(["runs", *remedy, *([damaged] if "--run" in remedy else []), *at]) == 0
    left = list_runs(repo.path)
    assert sound in {run.run_id for run in left}
    assert all(run.state != "unreadable" for run in left)
    assert main(["resume", "latest", "--quiet", *at]) == 0


@pytest.mark.parametrize("row", ROWS)
def test_damaged_rows_are_said_to_be_so_by_each_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, row: str
) -> None:
    repo, sound, damaged = _same_two_runs()
    with sqlite3.connect(repo.path / STATE / "journal.db") as db:
        db.execute(
            f"UPDATE journal SET {row} WHERE place >> 32 = (SELECT number FROM runs WHERE run = ?)"
            " AND kind LIKE ?",
            (damaged, ROWS[row]),
        )
    db.close()
    _run_each(_all_on(damaged, tmp_path), repo, capsys)
    assert main(["audit", "verify", damaged, "--repo", str(repo.path)]) == 1
    assert main(["show", sound, "--repo", str(repo.path)]) == 0


def test_an_option_of_another_type_in_an_entry_is_no_internal_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    repo, _, damaged = _same_two_runs()
    with sqlite3.connect(repo.path / ".diffcourt/state/journal.db") as db:
        db.execute("UPDATE runs SET meta = replace(meta, '\"paths\":[]', '\"paths\":7')")
    db.close()
    assert main(["fork", damaged, "--at", "Evaluate", "--repo", str(repo.path)]) == 3
    assert f"run {damaged} cannot be used: its entry in the store" in capsys.readouterr().err
    assert main(["show", damaged, "--repo", str(repo.path)]) == 0


def test_a_damaged_entry_in_a_shared_store_stops_no_command(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    postgres: Server,
) -> None:
    monkeypatch.setenv(state_directory.STORE, address := postgres.fresh("damaged"))
    repo, sound, damaged = _two_runs(tmp_path)
    with psycopg.connect(address) as db:
        db.execute("UPDATE diffcourt_runs SET meta = '{' WHERE run = %s", (damaged,))
    _commands(repo, sound, damaged, capsys)


def test_a_lease_without_end_in_a_shared_store_locks_nothing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    postgres: Server,
) -> None:
    monkeypatch.setenv(state_directory.STORE, address := postgres.fresh("lease"))
    repo = change(tmp_path / "repo", {"a.py": "x = 1\n"}, {"a.py": "x = 2\n"})
    run = run_review(options(repo.path), ignore_event).run_id
    at = ["--repo", str(repo.path)]
    for end in ("-infinity", "infinity"):
        with psycopg.connect(address) as db:
            db.execute("UPDATE diffcourt_runs SET lease_until = %s, holder = 'x on y'", (end,))
        for command in (["runs"], ["stats"], ["approve", run]):
            assert main([*command, *at]) == 0, capsys.readouterr().err
    assert main(["runs", "prune", "--run", run, *at]) == 0


def test_a_file_name_that_is_not_utf8_loses_the_run_in_no_reader(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = Repo(tmp_path / "repo")
    repo.commit({"a.py": "x = 1\n"})
    Path(os.fsdecode(os.fsencode(repo.path) + b"/na\xefve.py")).write_text("x = eval(input())\n")
    repo.git("add", "-A")
    repo.git("commit", "-qm", "Add")
    at = ["--repo", str(repo.path)]
    assert main(["review", *at, "--base", "HEAD~1", "--quiet"]) == 1
    items = str(tmp_path / "items.jsonl")
    trace = ["trace", "--with-content", "--to", str(tmp_path / "trace.json")]
    for command in (
        ["stats"],
        ["audit", "show"],
        ["runs", "export", "latest", str(tmp_path / "x")],
        ["rubric", "feedback", "--out", items],
        ["label", items, "--rater", "a", "--labels", str(tmp_path / "labels.jsonl"), "--list"],
    ):
        assert main([*command, *at]) == 0, capsys.readouterr().err
    assert main([*trace, *at]) == 0
    capsys.readouterr()
    for shown in (["show"], ["fix"]):  # a patch cannot name the file
        main([*shown, *at])
        text = "".join(capsys.readouterr())
        assert (r"name 'na\xefve.py'" in text, "udc" in text) == (True, False)
    for form in ("json", "sarif", "rdjson", "gitlab", "html", "markdown"):
        assert main(["export", "--format", f"{form}={tmp_path / form}", *at]) == 0
    (run,) = CachedRunIndex([repo.path]).list_runs()
    assert (run.state, run.verdict) == ("finished", "needs_changes")
    details = load_details(repo.path, "latest")
    assert not details.problem
    calls = [row.seq for row in details.rows if row.kind == "intent" and "/act/" in row.key]
    sent = [passage.text for seq in calls for passage in describe_call(details, seq).sent]
    assert any("ve.py" in text for text in sent)


@pytest.mark.parametrize(
    ("body", "read"),
    [
        (b'{"p":"\\udcef"}', {"p": "\\udcef"}),
        (b'{"p":"\\ud83d\\ude00"}', {"p": "\U0001f600"}),
        (b'{"p":"\\\\udcef"}', {"p": "\\udcef"}),
        (b'{"p":"\\ud83d\\ud83d\\ude00\\ude00"}', {"p": "\\ud83d\U0001f600\\ude00"}),
    ],
)
def test_a_lone_surrogate_is_read_as_the_text_of_its_escape(body: bytes, read: object) -> None:
    assert read_fields(body) == read


def test_a_journal_with_a_damaged_page_is_named_by_each_command_and_repaired_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo, *runs = _two_runs(tmp_path)
    journal, at = repo.path / ".diffcourt/state/journal.db", ["--repo", str(repo.path)]
    data = bytearray(journal.read_bytes())
    data[100] ^= 0x80  # how SQLite's schema begins
    journal.write_bytes(data)
    for command in (["runs"], ["stats"], ["review", "--base", "HEAD~1", "--quiet"]):
        assert main([*command, *at]) == 3
        (line,) = capsys.readouterr().err.splitlines()
        assert line.endswith("take what can be read: diffcourt runs repair")
    assert main(["runs", "repair", *at]) == 0
    said = capsys.readouterr().out
    assert "runs in the new journal: 2; copy of the damaged one: " in said
    assert journal.with_name("journal.db.damaged-1").read_bytes() == data
    assert {run.run_id for run in list_runs(repo.path)} == {*runs}
    assert main(["stats", *at]) == 0
    assert main(["review", *at, "--base", "HEAD~1", "--quiet"]) == 0
    assert main(["runs", "repair", *at]) == 0
    assert capsys.readouterr().out.endswith("the journal is not damaged\n")
