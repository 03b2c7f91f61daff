"""A dump of advisories that a review is given: where it may be, what of it is read, and resuming."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from diffchecks.dependencies import advisory_dump
from diffchecks.dependencies.advisory_dump import search_dump
from orchestrator.app.rubric_scoring.rescore import Rescored, rescore
from orchestrator.app.run_review import resume_review, run_review
from orchestrator.app.runs.stored_runs import show_run
from orchestrator.cli.main import main
from orchestrator.data_directories import data_root
from orchestrator.engine.observer_events import ignore_event
from orchestrator.errors import EXIT_USAGE
from orchestrator.tuning.file_formats.rubric_file import read_rubric
from tests.diffchecks.test_advisories import advisory
from tests.review.review_kit import Repo, change, options

EVENTS = (("introduced", "1.0"), ("fixed", "2.0.0"))
WEAK = json.dumps(advisory("a", *EVENTS, database_specific={"severity": "HIGH"}))
WANTED = {("PyPI", "a")}
RULE = "security.vulnerable-dependency-high"


# A review that dies before the check of dependencies is called.
KILLED = """
import os, sys
from pathlib import Path
from orchestrator.app.run_review import run_review
from tests.review.review_kit import options

def stop(event):
    if event.kind == "tool_started" and event.tool == "dependencies":
        os._exit(9)

run_review(options(Path(sys.argv[1]), advisories=sys.argv[2]), stop)
"""


def dump(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def archive(place: Path, files: Mapping[str, str | bytes]) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return place


def pinned(place: Path, version: str = "1.0") -> Repo:
    return change(place, {"requirements.txt": "a==0.9\n"}, {"requirements.txt": f"a=={version}\n"})


def test_a_dump_is_a_folder_of_files_or_of_archives_or_an_archive(tmp_path: Path) -> None:
    places = [
        dump(tmp_path / "flat", {"GHSA-1.json": WEAK}),
        dump(tmp_path / "deep", {"PyPI/GHSA-1.json": WEAK, "npm/broken.json": "{"}),
        archive(tmp_path / "zipped/PyPI/all.zip", {"GHSA-1.json": WEAK}).parent.parent,
        archive(tmp_path / "one.zip", {"GHSA-1.json": WEAK, "notes.txt": "x"}),
    ]
    for place in places:
        search = search_dump(place, WANTED)
        assert (list(search.found), search.broken, search.problems({"PyPI"})) == (
            ["GHSA-1"],
            [],
            [],
        )


def test_withdrawn_advisories_and_those_of_other_packages_are_left_out(tmp_path: Path) -> None:
    withdrawn = json.dumps(advisory("a", withdrawn="2026-01-01T00:00:00Z"))
    others = {"1.json": withdrawn, "2.json": json.dumps(advisory("b", id="GHSA-2"))}
    search = search_dump(dump(tmp_path / "osv", others), WANTED)
    assert (search.read, search.found) == (2, {})


def test_names_are_compared_as_the_ecosystem_does(tmp_path: Path) -> None:
    odd = {"1.json": json.dumps(advisory("Odd_Name")), "2.json": WEAK.replace('"a"', '"\\u0061"')}
    search = search_dump(dump(tmp_path / "osv", odd), {("PyPI", "odd-name"), ("PyPI", "a")})
    assert len(search.found) == 1  # both are GHSA-1
    assert search.read == 2


@pytest.mark.parametrize(
    "broken",
    [
        "{",
        "",
        "[]",
        '{"id": 3}',
        "[" * 100_000,
        b"\xff\xfe\x00",
        '{"affected": []}',
        " " * (5 << 20),
    ],
)
def test_a_broken_file_among_good_ones_is_named(tmp_path: Path, broken: str | bytes) -> None:
    for place in (
        dump(tmp_path / "osv", {"GHSA-1.json": WEAK, "odd.json": broken}),
        archive(tmp_path / "all.zip", {"GHSA-1.json": WEAK, "odd.json": broken}),
    ):
        search = search_dump(place, WANTED)
        assert (list(search.found), search.broken) == (["GHSA-1"], ["odd.json"])
        (problem,) = search.problems({"PyPI"})
        assert "no OSV advisories: odd.json" in problem


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    whole = archive(tmp_path / "all.zip", {f"{n}.json": WEAK for n in range(50)}).read_bytes()
    middle = len(whole) // 3
    for data in (whole[:middle], b"no archive", whole[:50] + b"\xff" * 40 + whole[90:]):
        (tmp_path / "all.zip").write_bytes(data)
        assert search_dump(tmp_path / "all.zip", WANTED).broken == ["all.zip"]


def test_an_archive_that_unpacks_to_far_more_is_read_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advisory_dump, "MAX_BYTES", 4 << 20)
    padded = WEAK + " " * (600 << 10)
    bomb = archive(tmp_path / "all.zip", {f"{n}.json": padded for n in range(50)})
    assert bomb.stat().st_size < 1 << 20
    search = search_dump(bomb, WANTED)
    assert search.read < 10
    assert "larger than is read" in search.problems({"PyPI"})[0]
    large = archive(tmp_path / "one.zip", {"1.json": " " * (20 << 20), "GHSA-1.json": WEAK})
    assert search_dump(large, WANTED).broken == ["1.json"]


def test_a_pipe_in_a_dump_does_not_block(tmp_path: Path) -> None:
    place = dump(tmp_path / "osv", {"GHSA-1.json": WEAK})
    os.mkfifo(place / "pipe.json")
    assert search_dump(place, WANTED).broken == ["pipe.json"]


def test_an_ecosystem_of_the_change_that_the_dump_lacks_is_a_problem(tmp_path: Path) -> None:
    place = dump(tmp_path / "osv", {"PyPI/GHSA-1.json": WEAK})
    (problem,) = search_dump(place, {*WANTED, ("npm", "b")}).problems({"PyPI", "npm"})
    assert problem == "has no advisories of npm; fetch those too"


def vulnerable(verdict: Any) -> list[Any]:
    return [one for one in verdict.findings if one.rule == RULE]


def test_a_review_with_a_dump_reports_what_the_change_moves_to(tmp_path: Path) -> None:
    place = dump(tmp_path / "osv", {"PyPI/GHSA-1.json": WEAK})
    verdict = run_review(options(pinned(tmp_path / "r").path, advisories=str(place)), ignore_event)
    (found,) = vulnerable(verdict)
    assert (found.path, found.start_line, found.severity) == ("requirements.txt", 1, "high")
    assert "update to 2.0.0 or later" in found.detail + found.title
    assert verdict.skipped == ()
    safe = pinned(tmp_path / "safe", "2.1").path
    assert vulnerable(run_review(options(safe, advisories=str(place)), ignore_event)) == []
    without = run_review(options(pinned(tmp_path / "without").path), ignore_event)
    assert vulnerable(without) == []


def test_a_dump_is_copied_so_a_run_is_resumed_and_scored_without_it(tmp_path: Path) -> None:
    place = dump(tmp_path / "osv", {"PyPI/GHSA-1.json": WEAK})
    repository = pinned(tmp_path / "r").path
    whole = run_review(options(repository, advisories=str(place)), ignore_event)

    subprocess.run([sys.executable, "-c", KILLED, str(repository), str(place)], check=False)
    assert show_run(repository, "latest").verdict is None
    (place / "PyPI/GHSA-1.json").unlink()
    again = resume_review(repository, "latest", ignore_event)
    assert len(vulnerable(again)) == 1
    assert again.digest == whole.digest
    assert show_run(repository, "latest").verdict == again
    for scored in rescore(repository, [], read_rubric(data_root() / "rubrics" / "pr-review.yaml")):
        assert isinstance(scored, Rescored)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (None, "cannot read the advisories osv: No such file or directory"),
        ({}, "osv holds no OSV advisories; give the folder of an OSV dump, or its all.zip"),
        ({"a.json": "{}", "b.json": "["}, "osv holds no OSV advisories"),
    ],
)
def test_an_invalid_dump_is_one_line_and_exit_code_2(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    files: Mapping[str, str | bytes] | None,
    said: str,
) -> None:
    repository = pinned(tmp_path / "r").path
    if files is not None:
        (tmp_path / "osv").mkdir()
        dump(tmp_path / "osv", files)
    review = ["review", "--quiet", "--repo", str(repository), "--base", "HEAD~1"]
    assert main([*review, "--advisories", str(tmp_path / "osv")]) == EXIT_USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_the_dump_of_the_configuration_is_below_the_repository_and_its_absence_a_gap(
    tmp_path: Path,
) -> None:
    for name, files in (("there", {"osv/GHSA-1.json": WEAK}), ("gone", {})):
        config = ".diffcourt/config/defaults.yaml"
        base = {config: "advisories: osv\n", "requirements.txt": "a==0.9\n"}
        repository = change(tmp_path / name, base, {"requirements.txt": "a==1.0\n"}).path
        dump(repository, dict(files))
        verdict = run_review(options(repository), ignore_event)
        assert len(vulnerable(verdict)) == len(files)
        gaps = {skip.path: skip.why for skip in verdict.skipped if skip.gap}
        assert bool(gaps) is not bool(files)
        assert verdict.status == ("complete" if files else "incomplete")
        if gaps:
            assert "cannot read the advisories osv" in gaps["osv"]


def test_a_change_without_dependencies_reads_nothing_of_the_dump(tmp_path: Path) -> None:
    place = dump(tmp_path / "osv", {"a.json": "{"})
    repository = change(tmp_path / "r", {"a.py": "X = 1\n"}, {"a.py": "X = 2\n"}).path
    verdict = run_review(options(repository, advisories=str(place)), ignore_event)
    assert verdict.status == "complete"
