"""Recorded runs scored again: by replay, free of charge, and a judge asked anew held to itself."""

import hashlib
import json
import shutil
from pathlib import Path

import anyio
import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from orchestrator.app.rubric_scoring.rescore import JudgeOptions, NotRescored, Rescored, rescore
from orchestrator.app.runs.state_directory import open_store
from orchestrator.cli.main import main
from orchestrator.data_directories import data_root
from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.journal import open_journal
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.types import Rubric
from orchestrator.stores.sql_store import RunStore
from orchestrator.stores.sqlite_journal import MemoryStore
from orchestrator.tuning.file_formats.item_files import item_from_verdict
from orchestrator.tuning.file_formats.rubric_file import read_rubric, write_rubric
from tests.tuning.recorded_runs import (
    CALM,
    JUDGED,
    PROVIDER,
    answered,
    judging,
    report,
    repository,
    review,
)


@pytest.fixture
def shipped() -> Rubric:
    return read_rubric(data_root() / "rubrics" / "pr-review.yaml")


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one finished run that a model judged."""
    repo = repository(tmp_path_factory.mktemp("once") / "repo")
    with pytest.MonkeyPatch.context() as patch, answered(patch, report(dict(CALM))) as server:
        review(repo)
    assert len(server.requests) == 2
    return repo


@pytest.fixture
def recorded(once: Path, tmp_path: Path) -> Path:
    """A copy of it, with its store."""
    return Path(shutil.copytree(once, tmp_path / "repo"))


def journal(repo: Path) -> str:
    return hashlib.sha256(
        b"".join(p.read_bytes() for p in sorted((repo / ".diffcourt/state").glob("journal.db*")))
    ).hexdigest()


def only(found: list[Rescored | NotRescored]) -> Rescored:
    (run,) = found
    assert isinstance(run, Rescored), run
    return run


def test_the_old_rubric_gives_the_very_numbers_of_the_verdict(
    recorded: Path, shipped: Rubric
) -> None:
    run = only(rescore(recorded, [], shipped))
    said = {c.id: c.score for c in run.verdict.score.criteria}
    assert {n: m.score for n, m in run.card.marks.items()} == said
    assert run.card.total is not None
    assert round(run.card.total, 4) == run.verdict.score.total
    assert set(run.reused) == set(JUDGED)


def test_what_a_judge_left_out_is_its_worst_when_the_run_is_scored_again(
    shipped: Rubric, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository(tmp_path / "repo")
    with answered(monkeypatch, report({**CALM, "risk-focus": None})):
        verdict = review(repo)
    assert verdict.score.total is not None
    run, new = (only(rescore(repo, [], one)) for one in (shipped, reworded(shipped)))
    assert run.card.total == new.card.total == pytest.approx(verdict.score.total, abs=1e-4)


def test_nothing_recorded_is_asked_again_and_the_run_is_not_touched(
    recorded: Path, shipped: Rubric, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = journal(recorded)
    lighter = replace(
        shipped, criteria=tuple(replace(c, weight=abs(c.weight)) for c in shipped.criteria)
    )
    with answered(monkeypatch) as server:  # a judge without a line: any question is an error
        run = only(rescore(recorded, [], lighter, JudgeOptions(PROVIDER)))
    assert server.requests == []
    assert run.card.total != run.verdict.score.total
    assert journal(recorded) == before


def reworded(rubric: Rubric) -> Rubric:
    """The rubric with one judged criterion in other words."""
    return replace(
        rubric,
        criteria=tuple(
            replace(c, description="Is risk met?") if c.id == "risk-focus" else c
            for c in rubric.criteria
        ),
    )


def test_a_reworded_criterion_is_not_scored_without_a_judge(
    recorded: Path, shipped: Rubric
) -> None:
    run = only(rescore(recorded, [], reworded(shipped)))
    mark = run.card.marks["risk-focus"]
    assert mark.score is None
    assert "not scored" in mark.why
    assert set(run.reused) == set(JUDGED) - {"risk-focus"}


def test_only_a_reworded_criterion_is_asked_and_that_once(
    recorded: Path, shipped: Rubric, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = journal(recorded)
    for _ in range(2):
        with answered(monkeypatch, report({"risk-focus": 1.0})) as server:
            run = only(rescore(recorded, [], reworded(shipped), JudgeOptions(PROVIDER)))
        assert run.card.marks["risk-focus"].score == 1.0
        asked, server.requests[:] = list(server.requests), []
        if _ == 0:
            (question,) = asked
            assert "Is risk met?" in json.dumps(question.body)
            assert "correctness-depth" not in json.dumps(question.body["messages"])
        else:
            assert asked == []
    assert journal(recorded) == before


def test_an_answer_that_failed_is_asked_for_again(
    recorded: Path, shipped: Rubric, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = report({"risk-focus": 7.0})
    with answered(monkeypatch, broken, broken, broken):
        run = only(rescore(recorded, [], reworded(shipped), JudgeOptions(PROVIDER)))
    assert "not scored: the judge failed" in run.card.marks["risk-focus"].why
    with answered(monkeypatch, report({"risk-focus": 0.5})):
        run = only(rescore(recorded, [], reworded(shipped), JudgeOptions(PROVIDER)))
    assert run.card.marks["risk-focus"].score == 0.5


def test_a_run_without_a_verdict_is_named(
    recorded: Path, shipped: Rubric, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(recorded) as store:
        anyio.run(store.create, "begun", 0.0, {"options": {"has_diff": False}})
    assert len(rescore(recorded, [], shipped)) == 1
    assert scored(recorded, shipped, tmp_path, "--runs", "begun") == 3
    assert "not scored: begun: no verdict yet" in capsys.readouterr().err


def test_a_run_that_does_not_come_to_its_own_score_is_named(
    recorded: Path, shipped: Rubric
) -> None:
    """Its rows are sound, and its verdict claims another total than they give."""

    async def forge(store: RunStore) -> None:
        (run,) = await store.runs()
        rows = await store.rows(run.run_id)
        clock, copy = SystemClock(), MemoryStore(SystemClock())
        await copy.restore(run, rows)
        verdict = json.loads(next(row.body for row in rows if row.key == "verdict"))
        verdict["score"]["total"] = 0.1234
        async with open_journal(run.run_id, copy, clock, holder="test") as rewritten:
            rewritten.log.append("note", "verdict", canonical(verdict))
        await store.forget(run.run_id)
        await store.restore(run, await copy.rows(run.run_id))

    with open_store(recorded) as store:
        anyio.run(forge, store)
    (found,) = rescore(recorded, [], shipped)
    assert isinstance(found, NotRescored)
    assert "gives a different score than the verdict" in found.why


def test_an_altered_journal_is_named(recorded: Path, shipped: Rubric) -> None:
    async def alter(store: RunStore) -> None:
        (run,) = await store.runs()
        rows = await store.rows(run.run_id)
        await store.forget(run.run_id)
        await store.restore(run, [replace(rows[0], at=1.0), *rows[1:]])

    with open_store(recorded) as store:
        anyio.run(alter, store)
    (found,) = rescore(recorded, [], shipped)
    assert isinstance(found, NotRescored)
    assert "altered" in found.why


def scored(repo: Path, rubric: Rubric, tmp_path: Path, *more: str) -> int:
    path = tmp_path / "other.yaml"
    write_rubric(path, replace(rubric, name="other"))
    return main(["rubric", "score", str(path), "--repo", str(repo), *more])


def test_the_command_says_what_was_and_what_is_not_scored(
    recorded: Path, shipped: Rubric, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert scored(recorded, reworded(shipped), tmp_path, "--runs") == 0
    out = capsys.readouterr().out
    assert "(was 0." in out
    assert "not scored: risk-focus" in out


def test_a_steady_judge_is_called_stable(
    recorded: Path,
    shipped: Rubric,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with answered(monkeypatch, *[report(dict(CALM))] * 5) as server:
        more = ("--runs", "all", "--provider", PROVIDER, "--repeat", "3", "--probes")
        assert scored(recorded, shipped, tmp_path, *more) == 0
    assert len(server.requests) == 5
    out = " ".join(capsys.readouterr().out.split())
    assert "Stable on these runs" in out
    assert "100.0% identical risk-focus" in out


def test_a_judge_that_is_swayed_by_length_is_not_called_stable(
    recorded: Path,
    shipped: Rubric,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def judge(question: str) -> dict[str, float | None]:
        return {**CALM, "actionability": 1.0 if "text longer" in question else 0.5}

    swayed = judging(judge)
    with answered(monkeypatch, *[swayed] * 4):
        scored(recorded, shipped, tmp_path, "--runs", "--provider", PROVIDER, "--probes")
    out = " ".join(capsys.readouterr().out.split())
    assert "Evidence padded, 1 run: 0.0% of decisions flip, 20.0%" in out
    assert "100.0% changed actionability" in out
    assert "Evidence reversed, 1 run: 0.0% of decisions flip, 0.0%" in out
    assert "Not stable: padded evidence changes 20.0% of scores" in out
    assert "Stable on" not in out


def test_a_judge_that_contradicts_itself_is_measured(
    recorded: Path,
    shipped: Rubric,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = [report({**CALM, "risk-focus": score}) for score in (0.0, 0.0, 1.0)]
    with answered(monkeypatch, *lines):
        more = ("--runs", "--provider", PROVIDER, "--repeat", "3", "--json")
        assert scored(recorded, shipped, tmp_path, *more) == 0
    printed = capsys.readouterr()
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert [row["repeat"] for row in rows] == [0, 1, 2, 3]
    assert [row["scores"]["risk-focus"] for row in rows] == [0.5, 0.0, 0.0, 1.0]
    said = " ".join(printed.err.split())
    assert "33.3% identical risk-focus" in said
    assert "repetition or perturbation was not tested" in said


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--repeat", "2"), "require --runs"),
        ((), "nothing to score"),
        (("--runs", "--repeat", "2"), "set --provider NAME"),
        (("--runs", "--provider", "nobody"), "there is no provider"),
        (("--runs", "--max-usd", "2"), "--max-usd is for ITEMS"),
    ],
)
def test_incompatible_options_are_one_line(
    recorded: Path,
    shipped: Rubric,
    tmp_path: Path,
    more: tuple[str, ...],
    why: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert scored(recorded, shipped, tmp_path, *more) == 2
    assert why in capsys.readouterr().err


def test_an_item_says_who_judged_it(
    recorded: Path, tmp_path: Path, shipped: Rubric, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    command = ["rubric", "score", "pr-review", "--runs", "--repo", str(recorded), "--json"]
    assert main(command) == 0
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    verdict = only(rescore(recorded, [], shipped)).verdict
    assert row["judge"] == item_from_verdict(to_builtins(verdict)).judge
    assert row["judge"].startswith("local-model, prompt ")
    with answered(monkeypatch, *[report(dict(CALM))] * 2):
        assert main([*command, "--provider", PROVIDER, "--repeat", "2"]) == 0
    was, *again = map(json.loads, capsys.readouterr().out.splitlines())
    assert was["judge"] == row["judge"]
    # The same model, prompt and criteria: repetitions are no other judge.
    assert {r["judge"] for r in again} == {row["judge"]}
