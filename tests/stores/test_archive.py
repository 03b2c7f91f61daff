"""Runs that go: removed, or out as a folder and in again."""

import json
import re
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from orchestrator.app.run_review import resume_review, run_review
from orchestrator.app.runs import run_archive, state_directory, stored_runs
from orchestrator.cli.main import main
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.ports import Row, RunMeta
from orchestrator.errors import InputError, OutputError, RunNotFound, StoreError
from orchestrator.stores.sqlite_journal import SqliteStore
from orchestrator.stores.writer_identity import this_process
from tests.review.review_kit import Repo, change, options

pytestmark = pytest.mark.attack("an archive of a run from elsewhere")

SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"


def rows_of(repo: Path, name: str = "latest") -> tuple[RunMeta, list[Row]]:
    with state_directory.open_store(repo) as store:
        run = state_directory.find_run(name, anyio.run(store.runs))
        return run, anyio.run(store.rows, run.run_id)


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one finished run, which nobody changes."""
    repo = change(tmp_path_factory.mktemp("reviewed") / "repo", {}, {"app.py": SHELL})
    run_review(options(repo.path, provider="offline"), ignore_event)
    return repo.path


@pytest.fixture(scope="module")
def exported(reviewed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "run"
    run_archive.export_run(reviewed, "latest", folder)
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Another repository, with no runs."""
    return Repo(tmp_path / "elsewhere").path


def test_an_exported_run_can_be_read_with_cat(reviewed: Path, exported: Path) -> None:
    run, rows = rows_of(reviewed)
    progress = (exported / "progress.txt").read_text()
    assert progress.startswith(f"run {run.run_id}: {len(rows)} rows, head {rows[-1].hash}\n")
    assert "1/act/security/turn1/model" in progress
    names = sorted(file.name for file in (exported / "checkpoints").iterdir())
    assert [name.partition("-")[2] for name in names] == [
        f"{name}.json"
        for name in ("Intake", "Plan", "Triage", "Act", "Synthesize", "Evaluate", "Done")
    ]
    act = json.loads((exported / "checkpoints" / names[3]).read_text())
    assert rows[act["rows"] - 1].hash == act["head"]
    (tool,) = (exported / "results").glob("*-1.act.security.turn1.tool1.*.json")
    told = json.loads(tool.read_text())
    assert told["asked"]["arguments"] == {"paths": ["app.py"]}
    assert told["value"]["content"]
    assert json.loads((exported / "verdict.json").read_text())["verdict"] == "needs_changes"
    brief = json.loads(next((exported / "results").glob("*-1.plan.json")).read_text())["asked"]
    assert (exported / "data" / f"{brief['brief']}.json").exists()


@pytest.mark.parametrize("file", ["", "journal.jsonl"])
def test_an_imported_run_is_the_same_run(
    reviewed: Path, exported: Path, elsewhere: Path, file: str
) -> None:
    run_archive.import_run(elsewhere, exported / file)
    (before, rows), (after, again) = rows_of(reviewed), rows_of(elsewhere)
    assert (again[:-1], again[-1].key) == (rows, "imported/1")
    assert (after.run_id, after.started, after.writer) == (before.run_id, before.started, None)
    undecided = {"run_tests": None, "run_analyzers": None, "allow_spending": None}
    assert after.meta["options"] == {**before.meta["options"], **undecided, "repo": str(elsewhere)}
    here, there = (stored_runs.show_run(repo, "latest") for repo in (elsewhere, reviewed))
    assert (here.info, here.verdict) == (there.info, there.verdict)
    with pytest.raises(StoreError, match="here already; nothing was changed"):
        run_archive.import_run(elsewhere, exported / file)
    assert rows_of(elsewhere)[1] == again


def test_an_interrupted_run_goes_on_after_its_state_was_lost(tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {}, {"app.py": SHELL}).path
    whole = run_review(options(repo, provider="offline"), ignore_event)
    run, rows = rows_of(repo)
    with state_directory.open_store(repo) as store:
        anyio.run(store.forget, run.run_id)
        anyio.run(store.restore, run, rows[: len(rows) // 2])
    run_archive.export_run(repo, "latest", tmp_path / "cut")
    shutil.rmtree(state_directory.state_dir(repo))
    run_archive.import_run(repo, tmp_path / "cut")
    assert [info.state for info in stored_runs.list_runs(repo)] == ["interrupted"]
    assert resume_review(repo, "latest", ignore_event).digest == whole.digest


def test_a_patch_travels_with_its_run(tmp_path: Path, elsewhere: Path) -> None:
    repo = change(tmp_path / "repo", {}, {"app.py": SHELL})
    patch = repo.git("diff", "HEAD~1", "HEAD").encode() + b"\n"
    given = options(repo.path, diff=patch, diff_name="p", provider="offline")
    whole = run_review(given, ignore_event)
    name = run_archive.export_run(repo.path, "latest", tmp_path / "run")
    kept = state_directory.state_dir(repo.path) / "runs" / name / "change.patch"
    kept.rename(tmp_path / "away")
    for look in (
        lambda: resume_review(repo.path, name, ignore_event),
        lambda: run_archive.export_run(repo.path, name, tmp_path / "again"),
    ):
        with pytest.raises(StoreError, match="resume it on the machine that started it"):
            look()
    carried = tmp_path / "run" / "change.patch"
    carried.write_bytes(patch + b" ")
    with pytest.raises(InputError, match="change.patch is damaged"):
        run_archive.import_run(elsewhere, tmp_path / "run")
    carried.unlink()
    with pytest.raises(InputError, match="change.patch is missing; import the whole directory"):
        run_archive.import_run(elsewhere, tmp_path / "run" / "journal.jsonl")
    assert stored_runs.list_runs(elsewhere) == []
    carried.write_bytes(patch)
    run_archive.import_run(elsewhere, tmp_path / "run")
    assert resume_review(elsewhere, name, ignore_event).digest == whole.digest


def _edit(number: int, **said: object) -> Callable[[list[str]], list[str]]:
    def edit(lines: list[str]) -> list[str]:
        lines[number] = json.dumps({**json.loads(lines[number]), **said})
        return lines

    return edit


@pytest.mark.parametrize("edit", [
    _edit(20, body="{}"),
    _edit(20, body="no JSON"),
    _edit(20, body="\udcff"),
    _edit(20, key="x"),
    _edit(20, at=1.0),
    _edit(20, at=float("nan")),
    _edit(20, seq="x"),
    _edit(20, seq=None),
    _edit(-1, hash="0" * 64),
    _edit(0, run="../../../outside"),
    _edit(0, run=".."),
    _edit(0, run=7),
    _edit(0, meta={}),
    _edit(0, meta={"options": {"repo": None}}),
    _edit(0, format="diffcourt-run/2"),
    _edit(0, rows=1),
    _edit(0, head="0" * 64),
    lambda lines: lines[:-1],
    lambda lines: lines[:10] + lines[11:],
    lambda lines: lines[:10] + [lines[11], lines[10]] + lines[12:],
    lambda lines: lines[:10] + [lines[10]] + lines[10:],
    lambda lines: lines[1:],
    lambda lines: [*lines[:-1], lines[-1][:50]],
    lambda _: [],
    lambda _: ["[" * 100_000],
    lambda _: ["7"],
])  # fmt: skip
def test_a_damaged_export_is_not_imported(
    exported: Path, elsewhere: Path, tmp_path: Path, edit: Callable[[list[str]], list[str]]
) -> None:
    lines = (exported / "journal.jsonl").read_text().splitlines()
    (tmp_path / "journal.jsonl").write_text("\n".join(edit(lines)))
    with pytest.raises(InputError, match=r"is damaged|or is damaged") as caught:
        run_archive.import_run(elsewhere, tmp_path)
    assert "\n" not in str(caught.value)
    assert stored_runs.list_runs(elsewhere) == []
    assert not (state_directory.state_dir(elsewhere) / "runs").exists()


def test_a_journal_that_was_altered_is_not_exported(reviewed: Path, tmp_path: Path) -> None:
    run, rows = rows_of(reviewed)
    broken = [*rows[:5], *rows[6:]]
    with state_directory.open_store(reviewed) as store:
        anyio.run(store.restore, RunMeta("0-broken", 0.0, run.meta), broken)
        with pytest.raises(StoreError, match="row 7 where row 6 belongs"):
            run_archive.export_run(reviewed, "0-broken", tmp_path / "run")
        anyio.run(store.forget, "0-broken")
    assert not (tmp_path / "run").exists()


def test_an_export_overwrites_nothing_and_leaves_no_half(reviewed: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    with pytest.raises(InputError, match="taken already exists"):
        run_archive.export_run(reviewed, "latest", tmp_path / "taken")
    with pytest.raises(OutputError, match="cannot write"):
        run_archive.export_run(reviewed, "latest", tmp_path / "taken" / "file" / "run")
    with pytest.raises(RunNotFound):
        run_archive.export_run(reviewed, "nothing", tmp_path / "run")
    assert [file.name for file in tmp_path.iterdir()] == ["taken"]
    (tmp_path / "empty").mkdir()
    run_archive.export_run(reviewed, "latest", tmp_path / "empty")
    assert (tmp_path / "empty" / "journal.jsonl").exists()


@pytest.fixture
def five(elsewhere: Path, reviewed: Path) -> Path:
    """Five runs, a day apart, the oldest being written."""
    meta = rows_of(reviewed)[0].meta
    with state_directory.open_store(elsewhere) as store:
        for number in range(5):
            started = time.time() - (number + 0.5) * stored_runs.DAY
            anyio.run(store.create, f"run{number}", started, meta)
            state_directory.make_scratch_dir(state_directory.state_dir(elsewhere), f"run{number}")
        anyio.run(store.acquire, "run4", this_process(), 30)
    with closing(
        SqliteStore(state_directory.state_dir(elsewhere) / state_directory.JUDGINGS)
    ) as judged:
        for number in range(5):
            anyio.run(judged.create, f"run{number}", 0.0, {})
    return elsewhere


@pytest.mark.parametrize(("said", "going"), [
    (["--keep", "2"], ["run2", "run3"]),
    (["--keep", "9"], []),
    (["--older-than", "1"], ["run1", "run2", "run3"]),
    (["--older-than", "0.1"], ["run0", "run1", "run2", "run3"]),
    (["--older-than", "9"], []),
])  # fmt: skip
def test_old_runs_go_and_the_one_that_is_being_written_stays(
    five: Path, said: list[str], going: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    everything = {f"run{number}" for number in range(5)}
    for dry in (["--dry-run"], []):
        assert main(["runs", "--repo", str(five), "prune", *said, *dry, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert [run["run_id"] for run in told] == going
        left = everything if dry else everything - set(going)
        assert {run.run_id for run in stored_runs.list_runs(five)} == left
        assert {
            place.name for place in (state_directory.state_dir(five) / "runs").iterdir()
        } == left
        with closing(
            SqliteStore(state_directory.state_dir(five) / state_directory.JUDGINGS)
        ) as judged:
            assert {run.run_id for run in anyio.run(judged.runs)} == left


def test_the_command_says_what_it_did(
    reviewed: Path, tmp_path: Path, elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*args: str) -> str:
        assert main(["runs", *args]) == 0
        return capsys.readouterr().out

    folder = str(tmp_path / "run")
    assert re.fullmatch(
        rf"exported run \S+ to {folder}\n",
        said("export", "latest", folder, "--repo", str(reviewed)),
    )
    assert "; show it with: diffcourt show" in said("import", folder, "--repo", str(elsewhere))
    assert "needs changes" in said("--repo", str(elsewhere))
    assert said("prune", "--keep", "1", "--repo", str(elsewhere)) == "0 runs deleted\n"
    assert "1 run would be deleted" in said(
        "prune", "--older-than", "0.0000001", "--dry-run", "--repo", str(elsewhere)
    )


def test_a_long_list_is_cut_and_says_so(five: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*args: str) -> str:
        assert main(["runs", "--repo", str(five), *args]) == 0
        return capsys.readouterr().out

    _, *rows, last = said("--limit", "2").splitlines()
    assert [row.split()[0] for row in rows] == ["run0", "run1"]
    assert last == "and 3 older runs; --limit 5 lists all"
    assert "older" not in said("--limit", "5") + said()
    assert len(json.loads(said("--json"))) == 5
    assert len(json.loads(said("--json", "--limit", "2"))) == 2
