"""``diffcourt label --runs`` over real reviews in a real store."""

import io
import json
import shutil
from pathlib import Path

import pytest
from msgspec import to_builtins

from orchestrator.cli.main import main
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.tuning.file_formats.item_files import (
    describe_run_groups,
    name_run_group,
    read_items,
)
from orchestrator.tuning.labels.label_files import Label, read_labels
from tests.tuning.recorded_runs import repository, review

HEADS = ("X = 2\n", "X = 3\n", "X = eval(input())\n")


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Verdict]]:
    """A repository whose three last commits were reviewed offline."""
    repo = repository(tmp_path_factory.mktemp("label") / "repo", HEADS)
    return repo, [review(repo, provider="offline", back=back) for back in range(len(HEADS))]


class Desk:
    """A person at a terminal."""

    def __init__(self, repo: Path, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.repo, self.labels, self._patch = repo, folder / "labels.jsonl", patch

    def sit(self, typed: str, *more: str, rater: str = "ana") -> int:
        self._patch.setattr("sys.stdin", io.StringIO(typed))
        where = ("--repo", str(self.repo), "--labels", str(self.labels))
        return main(["label", "--runs", *where, "--rater", rater, *more])

    @property
    def selection_frequency(self) -> list[Label]:
        return read_labels([self.labels])


@pytest.fixture
def desk(
    reviewed: tuple[Path, list[Verdict]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Desk:
    return Desk(Path(shutil.copytree(reviewed[0], tmp_path / "repo")), tmp_path, monkeypatch)


def test_runs_are_labeled_blind_and_can_be_skipped_undone_and_continued(
    desk: Desk, reviewed: tuple[Path, list[Verdict]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert desk.sit("", "--list") == 0
    names = capsys.readouterr().out.split()
    assert sorted(names) == sorted(v.run_id for v in reviewed[1])
    assert desk.sit("s\nr\n<\n#too lax\na\nq\n") == 0
    said = capsys.readouterr().out
    assert f"1 of 3: {names[0]}" in said
    assert [(x.item, x.rater, x.label, x.note) for x in desk.selection_frequency] == [
        (names[1], "ana", "accept", "too lax")
    ]
    assert desk.sit("a\nr\n") == 0
    again = capsys.readouterr().out
    assert f"1 of 2: {names[0]}" in again
    assert names[1] not in again
    assert {(x.item, x.label) for x in desk.selection_frequency} == {
        (names[0], "accept"), (names[1], "accept"), (names[2], "reject")
    }  # fmt: skip
    assert desk.sit("") == 0
    assert "0 labeled in this session" in capsys.readouterr().out


def test_a_run_is_its_findings_and_its_diff_and_never_its_verdict(
    desk: Desk, reviewed: tuple[Path, list[Verdict]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert desk.sit("s\ns\ns\n") == 0
    shown = capsys.readouterr().out
    # The three pushes: X = 1 became 2, then 3, then what an analyzer reports.
    for line in ("1 -X = 1", "1 +X = 2", "1 +X = 3", "1 +X = eval(input())"):
        assert line in shown
    (bad,) = [v for v in reviewed[1] if v.findings]
    assert all(f.title in shown and f.evidence.quote in shown for f in bad.findings)
    assert shown.count("no findings") == 2
    for verdict in reviewed[1]:
        assert verdict.summary in shown
        for word in ("merge", "needs_changes", "needs changes", "block", *verdict.reasons):
            assert word not in shown.lower()
        assert not any(c.id in shown for c in verdict.score.criteria)
    assert desk.sit("q\n", "--rubric", "pr-review", "--show-score") == 0
    asked_for = capsys.readouterr().out
    assert all(f"{c.id}: " in asked_for for c in reviewed[1][0].score.criteria)


def test_a_run_whose_commits_are_gone_is_its_findings(
    desk: Desk, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shutil.rmtree(desk.repo / ".git")
    repository(desk.repo, ("other = 1\n",))
    assert desk.sit("s\ns\ns\n") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count("The lines of the change are not in this repository") == 3
    assert "eval" in shown


def test_a_second_rater_is_asked_everything(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.sit("a\na\na\n")
    capsys.readouterr()
    assert desk.sit("r\nr\nr\n", rater="bo") == 0
    assert "1 of 3" in capsys.readouterr().out
    assert sorted((x.rater, x.label) for x in desk.selection_frequency) == [
        *[("ana", "accept")] * 3, *[("bo", "reject")] * 3
    ]  # fmt: skip


def test_labels_of_runs_evaluate_the_runs_scored_again(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.sit("a\nr\na\n")
    capsys.readouterr()
    again = ["rubric", "score", "pr-review", "--runs", "--repo", str(desk.repo), "--json"]
    assert main(again) == 0
    items = tmp_path / "runs.jsonl"
    items.write_text(capsys.readouterr().out)
    told = main(["rubric", "eval", "pr-review", str(items), "--labels", str(desk.labels)])
    assert told == 0
    assert "3 items" in capsys.readouterr().out


def test_all_pushes_of_a_pull_request_are_one_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = repository(tmp_path / "repo", HEADS[:2])
    monkeypatch.setenv("GITHUB_REF", "refs/pull/7/merge")
    verdicts = [review(repo, provider="offline", back=back) for back in range(2)]
    assert main(["rubric", "score", "pr-review", "--runs", "--repo", str(repo), "--json"]) == 0
    runs = tmp_path / "runs.jsonl"
    runs.write_text(capsys.readouterr().out)
    items = read_items([runs])
    assert [i.group for i in items] == ["pull/7", "pull/7"]
    assert describe_run_groups(items) == "by pull request: 1"
    # A verdict document does not name its pull request; its pushes start from one base.
    base = verdicts[0].change.base
    paths = []
    for verdict in verdicts:
        paths.append(tmp_path / f"{verdict.run_id}.json")
        document = to_builtins(verdict)
        paths[-1].write_text(json.dumps(document | {"change": document["change"] | {"base": base}}))
    assert {i.group for i in read_items(paths)} == {f"base {base}"}
    assert name_run_group("branch/fix", base, "1" * 40) == f"branch/fix from {base}"
    assert name_run_group("", "patch", "worktree-1") == "worktree-1"


def test_no_runs_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = repository(tmp_path / "empty")
    assert Desk(empty, tmp_path, monkeypatch).sit("") == 2
    assert "there are no finished runs to label" in capsys.readouterr().err
