"""Statistics over runs: each figure against what the runs themselves say."""

import csv
import io
import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import anyio
import jsonschema_rs
import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from orchestrator.app.human_decisions.run_decisions import override_verdict
from orchestrator.app.run_review import resume_review, run_review
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.verdict_recording import record_verdict
from orchestrator.app.statistics.all_runs import (
    Collected,
    collect,
    figures_of,
    percentiles,
    summarize,
)
from orchestrator.app.statistics.run_facts import RunFacts, read_run
from orchestrator.app.statistics.run_totals import RunTotals
from orchestrator.app.statistics.statistics_document import Percentiles, Statistics, json_schema
from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.catalog.model_config import load_models
from orchestrator.cli.main import main
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.journal import open_journal
from orchestrator.engine.journal_rows import Intent, read_row
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.ports import Row, RunMeta, SystemClock
from orchestrator.engine.types import Response, Usage
from orchestrator.errors import ModelError, StoreError
from orchestrator.providers.model_selection import choose_model
from orchestrator.stores.sqlite_journal import MemoryStore, SqliteStore
from orchestrator.stores.writer_identity import this_process
from tests.review.memory_kit import dismiss, named
from tests.review.push_kit import Branch, claims, said, together
from tests.review.review_kit import Repo, change, options, review
from tests.review.team_kit import TEAM, looks, plan, report, script, sums
from tests.scripted_model import ScriptedModel
from tests.torture.journal_edits import rechained

SHELL = "import subprocess\n\n\ndef run(x):\n    subprocess.run(x, shell=True)\n"
META: dict[str, object] = {"options": {"has_diff": False}}
CHOOSE = partial(choose_model, load_models([read_shipped_layer()]), "anthropic", {})
BILLED = Usage(1200, 300, 900, usd=0.04)


async def facts_of(store: MemoryStore, verdict: Verdict, run_id: str = "run") -> RunFacts:
    """The facts of a run that ``review`` has brought to its verdict."""
    async with open_journal(run_id, store, SystemClock(), holder="test") as journal:
        record_verdict(journal, verdict)
    (run,) = [run for run in await store.runs() if run.run_id == run_id]
    return read_run(replace(run, meta=META), await store.rows(run_id))


@pytest.mark.either_loop
async def test_the_figures_of_a_review_with_models_are_those_that_its_verdict_states(
    tmp_path: Path,
) -> None:
    policy = {".diffcourt/config/defaults.yaml": "agents: {docs: {model: fast}}\n"}
    repo = change(tmp_path, policy, {"app.py": '"""An app."""\n\nNAME = "app"\n'})
    refused = Response((), "refused", BILLED)
    dead = ModelError("the line went dead")
    lines = script(docs=[dead, refused, looks("typos"), report()], lead=[plan(*TEAM), sums()])
    lines["qa"].insert(0, replace(looks("typos", "no_such_tool"), usage=BILLED))
    store = MemoryStore(SystemClock())
    await store.create("run", 1.0, {})
    model = ScriptedModel(lines, worst=Usage(1500, 500, usd=0.05))
    verdict = await review(repo, model, store=store, choose_model=CHOOSE, adjust=together)
    facts = await facts_of(store, verdict)
    figures = figures_of([facts])
    used = verdict.usage
    assert figures.usd == pytest.approx(used.usd)
    assert sum(facts.usd_by_agent.values()) == pytest.approx(used.usd)
    assert figures.usd == pytest.approx(0.05 + 2 * 0.04)  # a lost call counts at its worst case
    assert (figures.input_tokens, figures.output_tokens) == (used.input_tokens, used.output_tokens)
    assert (figures.cached_tokens, figures.cache_share) == (used.cached_tokens, 0.75)
    assert (figures.model_calls, figures.model_errors) == (used.model_calls, 1)
    assert (figures.tool_calls, figures.tool_errors) == (used.tool_calls, 0)
    assert figures.tool_refusals == {"not_offered": 1, "not_registered": 1}
    assert figures.escalations == {step.to_stage: 1 for step in verdict.escalations}
    assert figures.tasks == len(verdict.agents) + 1  # the lead's summary is a task as well
    assert figures.escalation_rates["strong"] == pytest.approx(1 / figures.tasks)
    assert figures.steps == sum(one.turns + one.tool_calls for one in verdict.agents) + 1
    assert (figures.verdicts, figures.stops) == ({verdict.verdict: 1}, {verdict.stop.reason: 1})
    assert facts.pattern == "team"
    groups = summarize(Collected([facts], [], 0.0, 2.0))
    assert sum(one.usd for one in groups.agents) == pytest.approx(figures.usd)
    assert sum(one.calls for one in groups.tools) == figures.tool_calls
    assert [(one.name, one.escalations) for one in groups.agents if one.escalations] == [
        ("docs", 2)
    ]


@pytest.mark.either_loop
async def test_a_task_that_loops_again_after_each_escalation_is_one_cut_task(
    tmp_path: Path,
) -> None:
    repo = change(tmp_path, {}, {"app.py": '"""An app."""\n\nNAME = "app"\n'})
    store = MemoryStore(SystemClock())
    await store.create("run", 1.0, {})
    model = ScriptedModel(script(docs=[looks("typos")] * 40))
    verdict = await review(repo, model, store=store, choose_model=CHOOSE, adjust=together)
    assert len(verdict.escalations) > 1
    figures = figures_of([await facts_of(store, verdict)])
    assert figures.loops_cut == 1
    assert figures.loop_share == pytest.approx(1 / figures.tasks)


@pytest.mark.either_loop
async def test_a_finding_counts_once_as_its_newest_review_has_it(tmp_path: Path) -> None:
    branch = Branch(tmp_path, {"base.py": "X = 1\n"})
    facts: list[RunFacts] = []

    async def look(*findings: dict[str, object], text: str) -> None:
        await branch.push({"app.py": text}, said(*findings))
        store = MemoryStore(SystemClock())
        await store.create("run", float(len(facts)), {})
        assert branch.verdict is not None
        facts.append(await facts_of(store, branch.verdict))

    def function(name: str, place: int) -> str:
        return f'\n\ndef {name}(items: list[int]) -> int:\n    """Give one."""\n    return items[{place}]\n'

    head, one, two, three = (
        '"""An app."""\n',
        function("one", 0),
        function("two", 1),
        function("three", 2),
    )
    found = [claims(f"return items[{n}]", f"Leak {n}", 6 + 5 * n, severity="low") for n in range(3)]
    await look(*found, text=head + one + two + three)
    assert branch.verdict is not None
    dismiss(branch, named(branch.verdict, "Leak 1"))
    await look(*found[1:], text=head + one.replace("items[0]", "max(items)") + two + three)
    total = figures_of(facts).findings
    assert (total.found, total.open, total.fixed, total.dismissed) == (3, 1, 1, 1)
    rules = summarize(Collected(facts, [], 0.0, 2.0)).rules
    assert {rule.name: rule.counts.fixed for rule in rules} == {
        "Leak 0": 1,
        "Leak 1": 0,
        "Leak 2": 0,
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunMeta, list[Row]]:
    """A repository with one finished run, and the run's rows; nobody changes it."""
    repo = change(tmp_path_factory.mktemp("finished") / "repo", {}, {"app.py": SHELL})
    run_review(options(repo.path, provider="offline"), ignore_event)
    with state_directory.open_store(repo.path) as store:
        (run,) = anyio.run(store.runs)
        return repo.path, run, anyio.run(store.rows, run.run_id)


def journal_of(repo: Path) -> Path:
    return state_directory.state_dir(repo) / "journal.db"


@pytest.fixture
def fill(tmp_path: Path, finished: tuple[Path, RunMeta, list[Row]]) -> Callable[..., Path]:
    """A repository whose store has runs with these parts of a finished run's rows."""
    _, run, rows = finished

    def filled(**runs: int | None) -> Path:
        repo = Repo(tmp_path / "filled")
        with closing(SqliteStore(journal_of(repo.path))) as store:
            for age, (name, length) in enumerate(runs.items()):
                meta = RunMeta(name, run.started - age, run.meta)
                anyio.run(store.restore, meta, rows[:length])
        return repo.path

    return filled


def alter(repo: Path, statement: str) -> None:
    with closing(sqlite3.connect(journal_of(repo), isolation_level=None)) as db:
        assert db.execute(statement).rowcount == 1


def test_broken_journals_are_named_and_the_others_counted(
    fill: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    repo = fill(one=None, two=None, altered=None, entry=None, cut=30, empty=0)
    place = "(SELECT number FROM runs WHERE run = '{}') << 32 | {}"
    alter(repo, f"UPDATE journal SET at = at + 1 WHERE place = {place.format('altered', 40)}")
    alter(repo, "UPDATE runs SET meta = '{' WHERE run = 'entry'")
    assert main(["stats", "--repo", str(repo), "--json"]) == 3
    out, err = capsys.readouterr()
    statistics = json.loads(out)
    jsonschema_rs.validator_for(json_schema()).validate(statistics)
    total = statistics["total"]
    assert (total["reviews"], total["complete"], total["interrupted"]) == (4, 2, 2)
    assert total["completion"] == 0.5
    assert {broken["run_id"] for broken in statistics["broken"]} == {"altered", "entry"}
    assert "not counted: run altered: journal row 40 (" in err
    assert "not counted: run entry: its entry in the store is damaged, " in err
    assert main(["stats", "--repo", str(repo)]) == 3
    text = capsys.readouterr().out
    assert "2 complete (50.0%)" in text
    assert max(map(len, text.splitlines())) <= 80


def test_only_sessions_that_continue_the_run_count_as_resumptions(
    tmp_path: Path, finished: tuple[Path, RunMeta, list[Row]]
) -> None:
    source, run, rows = finished
    with closing(SqliteStore(journal_of(source))) as store:
        anyio.run(store.restore, RunMeta("cut", run.started + 1, run.meta), rows[:60])
    resume_review(source, "cut", ignore_event)
    override_verdict(source, "cut", "merge", "It is a demonstration.")
    (facts,) = [run for run in collect([source]).runs if run.run_id == "cut"]
    assert (facts.resumes, facts.resumes_ended, facts.state) == (1, 1, "finished")
    assert facts.outcome == "needs_changes"  # as computed; the override stands beside it
    assert facts.seconds < 60


def test_a_task_that_waits_for_a_person_counts_as_one(
    finished: tuple[Path, RunMeta, list[Row]],
) -> None:
    _, run, rows = finished
    begun = 0
    for end in range(1, len(rows) + 1):
        read = read_row(rows[end - 1])
        begun += isinstance(read, Intent) and read.request.kind == "task"
        assert len(read_run(replace(run, writer=None), rows[:end]).tasks) == begun
    assert begun


def test_totals_are_kept_and_only_what_changed_is_read_again(
    fill: Callable[..., Path],
    finished: tuple[Path, RunMeta, list[Row]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repo = fill(one=None, two=None)
    with closing(SqliteStore(journal_of(repo))) as store:
        rows = [*finished[2][:39], replace(finished[2][39], body=b"{}")]
        anyio.run(store.restore, RunMeta("altered", 1.0, finished[1].meta), rows)
    read: list[str] = []
    take = SqliteStore.rows

    async def note(self: SqliteStore, run_id: str, after: int = 0) -> list[Row]:
        read.append(run_id)
        return await take(self, run_id, after)

    monkeypatch.setattr(SqliteStore, "rows", note)
    kept = RunTotals()

    def check(*again: str) -> RunTotals:
        """The totals are those of the whole store, of which only some runs were read."""
        kept.update([repo])
        assert sorted(read) == sorted(again)
        whole = RunTotals.of(collect([repo]))
        assert (kept.sum_counts(), kept.broken) == (whole.sum_counts(), whole.broken)
        assert kept.count_findings() == whole.count_findings()
        (sums, seconds), other = (one.figures(0.0, one.until) for one in (kept, whole))
        assert (sums, sorted(seconds)) == (other[0], sorted(other[1]))
        read.clear()
        return whole

    assert check("one", "two", "altered").broken == 1
    check()
    override_verdict(repo, "one", "merge", "It is a demonstration.")
    read.clear()
    check("one")
    with closing(SqliteStore(journal_of(repo))) as store:
        anyio.run(store.restore, RunMeta("three", time.time(), finished[1].meta), finished[2])
        # Somebody writes it: it is read each time.
        fence = anyio.run(store.acquire, "two", this_process(), 60.0)
        check("three", "two")
        check("two")
        anyio.run(store.release, "two", fence)
        check("two")
        for name in ("one", "two", "altered"):
            anyio.run(store.forget, name)
    assert check().sum_counts()["reviews", "complete", "needs_changes"] == 1


@pytest.mark.parametrize("body", [b"null", b"[]", b"7", b'{"request": 7}', b'{"value": [7]}'])
def test_a_row_of_another_form_is_an_error_of_the_store_and_nothing_else(
    finished: tuple[Path, RunMeta, list[Row]], body: bytes
) -> None:
    _, run, rows = finished
    for at in range(0, len(rows), 7):
        altered = [replace(row, body=body) if row is rows[at] else row for row in rows]
        with suppress(StoreError):
            read_run(replace(run, writer=None), rechained(altered))


def test_groups_are_in_the_table_and_in_csv(
    fill: Callable[..., Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    repo = fill(one=None, two=None)
    tools = summarize(collect([repo])).tools
    assert {tool.name: tool.calls for tool in tools}["secrets"] == 2
    for by in ("agent", "tool", "model", "rule", "pattern"):
        place = tmp_path / f"{by}.csv"
        given = ["stats", "--repo", str(repo), "--by", by, "--csv", str(place)]
        assert main(given) == 0
        head, *lines = capsys.readouterr().out.splitlines()
        assert head.split()[0] == by
        assert max(map(len, lines)) <= 80
        listed = list(csv.DictReader(io.StringIO(place.read_text())))
        assert [line.split()[0] for line in lines[:10]] == [row["name"] for row in listed][:10]
    assert main(["stats", "--repo", str(repo), "--csv", "-"]) == 0
    rows = dict(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert (rows["reviews"], rows["verdicts.needs_changes"]) == ("2", "2")


def test_runs_before_since_do_not_count(
    fill: Callable[..., Path], finished: tuple[Path, RunMeta, list[Row]]
) -> None:
    repo, started = fill(new=None, old=None), finished[1].started
    assert [run.run_id for run in collect([repo]).runs] == ["old", "new"]
    assert [run.run_id for run in collect([repo, repo], since=started).runs] == ["new"]


@pytest.mark.parametrize("when", ["yesterday", "7", "2027-02-30", "99999999d"])
def test_since_must_be_a_day_or_a_span(when: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", "--since", when]) == 2
    assert "is neither a day" in capsys.readouterr().err


def test_percentiles_are_by_nearest_rank() -> None:
    assert percentiles([float(n) for n in range(1, 101)]) == Percentiles(100, 50.0, 95.0)
    assert percentiles([None, 3.0, 1.0]) == Percentiles(2, 1.0, 3.0)
    assert percentiles([]) == Percentiles()


def test_an_empty_store_has_no_rates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repo = Repo(tmp_path).path
    assert main(["stats", "--repo", str(repo)]) == 0
    said = "No runs yet. Start one with: diffcourt review\n"
    assert capsys.readouterr().out == said
    empty: Statistics = summarize(collect([repo]))
    assert empty.total.completion is None
    jsonschema_rs.validator_for(json_schema()).validate(to_builtins(empty))
