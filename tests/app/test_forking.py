"""A new run from a checkpoint of another: what it takes over, what is edited, and what is refused."""

import json
import shutil
from pathlib import Path

import anyio
import pytest

from orchestrator.app.run_review import resume_review, run_review
from orchestrator.app.runs import run_archive, state_directory, stored_runs
from orchestrator.app.runs.forking import Fork, fork_run
from orchestrator.app.statistics.all_runs import collect, figures_of
from orchestrator.cli.main import main
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.journal_hash_chain import verify_chain
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.ports import Row
from orchestrator.errors import InputError
from tests.review.review_kit import change, options

SHELL = "import subprocess\n\n\ndef run(x, y=[]):\n    subprocess.run(x, shell=True)\n    return eval(y)\n"


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Verdict]:
    repo = change(tmp_path_factory.mktemp("reviewed") / "repo", {}, {"app.py": SHELL})
    return repo.path, run_review(options(repo.path, provider="offline"), ignore_event)


@pytest.fixture
def exported(reviewed: tuple[Path, Verdict], tmp_path: Path) -> Path:
    run_archive.export_run(reviewed[0], reviewed[1].run_id, tmp_path / "run")
    return tmp_path / "run"


def rows_of(repo: Path, run_id: str) -> list[Row]:
    with state_directory.open_store(repo) as store:
        return anyio.run(store.rows, run_id)


def edit_plan(folder: Path, *agents: str) -> Path:
    place = folder / "plan.json"
    plan = json.loads(place.read_text())
    plan["tasks"] = [task for task in plan["tasks"] if task["agent"] in agents]
    place.write_text(json.dumps(plan))
    return place


def test_a_dropped_finding_does_not_count_and_the_chain_names_the_old_head(
    reviewed: tuple[Path, Verdict], capsys: pytest.CaptureFixture[str]
) -> None:
    repo, verdict = reviewed
    old = rows_of(repo, verdict.run_id)
    (shell,) = [one for one in verdict.findings if one.rule == "security.subprocess-shell"]
    given = ["--repo", str(repo), "--quiet", "--json", "-"]
    assert main(["fork", verdict.run_id, "--at", "Evaluate", "--drop", shell.id, *given]) == 1
    forked = json.loads(capsys.readouterr().out)
    states = {one["fingerprint"]: (one["state"], one["waiver"]) for one in forked["findings"]}
    assert states[shell.fingerprint][0] == "waived"
    assert f"dropped in this fork of {verdict.run_id}" in states[shell.fingerprint][1]
    (evaluated,) = [one for one in forked["findings"] if one["rule"] == "security.eval"]
    assert verdict.stop.next_human_action.startswith(f"Start with {shell.id} ")
    assert forked["stop"]["next_human_action"].startswith(f"Start with {evaluated['id']} ")
    assert shell.fix_suggestion in " ".join(verdict.next_actions)
    assert shell.fix_suggestion not in " ".join(forked["next_actions"])
    rows = rows_of(repo, forked["run_id"])
    verify_chain(rows)
    about = json.loads(rows[0].body)
    (reached,) = [row for row in old if row.body == b'{"state":"Evaluate"}']
    assert rows[0].key == "forked/1"
    assert (about["run"], about["head"], about["rows"]) == (
        verdict.run_id,
        reached.hash,
        reached.seq,
    )
    assert [row.key for row in rows if row.key.startswith("1/act/")] == [
        row.key for row in old if row.key.startswith("1/act/")
    ]
    assert rows_of(repo, verdict.run_id) == old
    # What was taken over counts in the run that did it, and not twice.
    runs = {run.run_id: run for run in collect([repo]).runs}
    fork = figures_of([runs[forked["run_id"]]])
    assert (fork.reviews, fork.tasks, fork.resumes) == (1, 0, 0)
    assert fork.tool_calls < figures_of([runs[verdict.run_id]]).tool_calls / 2


def test_a_fork_follows_an_edited_plan(reviewed: tuple[Path, Verdict], exported: Path) -> None:
    repo, _ = reviewed
    assert (exported / "left.txt").read_text().startswith("Start with F1 at app.py:")
    assert json.loads((exported / "usage.json").read_text())["tasks"] == 5
    assert {one["id"] for one in json.loads((exported / "findings.json").read_text())} >= {
        "F1",
        "F2",
    }
    plan = edit_plan(exported, "security", "qa")
    shutil.rmtree(exported / "results")  # what is missing is not edited
    for at in ("Triage", "4"):  # the number of Act
        run_id = fork_run(repo, Fork(str(exported), at, plan=plan))
        verdict = resume_review(repo, run_id, ignore_event)
        worked = {agent.agent for agent in verdict.agents if agent.turns}
        # Without docs; a required check of base brings architecture back.
        assert worked == {"lead", "security", "qa", "architecture"}


@pytest.mark.parametrize(
    ("fork", "why"),
    [
        (
            Fork("", "Nowhere"),
            "never in the state Nowhere, or ended in it; it can be forked at: 1 Intake",
        ),
        (Fork("", "Done"), "never in the state Done, or ended in it"),
        (Fork("", "Evaluate", dropped=["F99"]), "no finding F99 in the run; it has F1"),
        (Fork("", "Evaluate", plan=Path("plan.json")), "--plan has no effect at Evaluate"),
        (Fork("", "Plan", plan=Path("plan.json")), "--plan has no effect at Plan"),
        (Fork("", "Triage", plan=Path("none.json")), "cannot read none.json"),
        (Fork("", "Act", answers=True), "no question waits at Act"),
    ],
)
def test_an_invalid_fork_is_refused_and_leaves_no_run(
    reviewed: tuple[Path, Verdict], fork: Fork, why: str
) -> None:
    repo, verdict = reviewed
    before = len(stored_runs.list_runs(repo))
    named = Fork(verdict.run_id, fork.at, fork.plan, fork.dropped, fork.answers)
    with pytest.raises(InputError) as refused:
        fork_run(repo, named)
    assert why in str(refused.value)
    assert len(stored_runs.list_runs(repo)) == before


def test_a_fork_that_cannot_begin_leaves_no_run(
    reviewed: tuple[Path, Verdict], monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, verdict = reviewed
    before = len(stored_runs.list_runs(repo))
    monkeypatch.setenv("DIFFCOURT_TIER", "nobody")
    assert main(["fork", verdict.run_id, "--at", "Evaluate", "--repo", str(repo)]) == 2
    assert len(stored_runs.list_runs(repo)) == before


@pytest.mark.parametrize("edited", ["verdict.json", "notes/mine.txt", "plan.json"])
def test_edited_files_that_were_not_asked_for_are_refused_by_name(
    reviewed: tuple[Path, Verdict], exported: Path, edited: str
) -> None:
    place = exported / edited
    place.parent.mkdir(exist_ok=True)
    place.write_text('{"a": 1}')
    with pytest.raises(InputError) as refused:
        fork_run(reviewed[0], Fork(str(exported), "Triage"))
    assert f"edited without being asked for: {edited};" in str(refused.value)
    if edited != "plan.json":  # the same, where the run is named and the plan is of its export
        with pytest.raises(InputError, match=f"edited without being asked for: {edited};"):
            fork_run(reviewed[0], Fork(reviewed[1].run_id, "Triage", exported / "plan.json"))
    if edited == "plan.json":
        with pytest.raises(
            InputError, match="is not a plan: .*unknown field|is not a plan: .*required"
        ):
            fork_run(reviewed[0], Fork(str(exported), "Triage", plan=place))


def test_an_edited_journal_counts_as_damaged(
    reviewed: tuple[Path, Verdict], exported: Path
) -> None:
    journal = exported / "journal.jsonl"
    journal.write_text(journal.read_text().replace("subprocess", "subprocezz"))
    with pytest.raises(InputError, match="is damaged: journal row .* was altered"):
        fork_run(reviewed[0], Fork(str(exported), "Evaluate"))


def test_a_directory_without_a_run_is_named_with_the_command_that_exports_one(
    reviewed: tuple[Path, Verdict], tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="is not an exported run: .* diffcourt runs export RUN"):
        fork_run(reviewed[0], Fork(str(tmp_path / "empty"), "Plan"))
