"""``diffcourt rubric feedback``: what people did with findings, corrected by experts' labels."""

import json
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from orchestrator.app.runs.stored_runs import load_verdict, show_run
from orchestrator.cli.main import main
from orchestrator.posting.posting_plan import marker
from orchestrator.tuning.labels.feedback_rate import Feedback, measure_feedback
from orchestrator.tuning.labels.label_files import Label, write_labels
from tests.cli.test_waive_and_override import SHELL
from tests.posting.forge_server import TOKEN, serving
from tests.posting.github_server import ME, GitHubServer
from tests.review.review_kit import Repo, templates

FILES = ("a.py", "b.py", "c.py", "d.py")


@pytest.fixture
def server() -> Iterator[GitHubServer]:
    with serving(GitHubServer()) as running:
        yield running


@cache
def _reviewed() -> tuple[Path, dict[str, str]]:
    """A repository, of which each test gets a copy, and file → finding."""
    repo = Repo(templates() / "feedback")
    repo.commit({"README.md": "# A project\n", ".gitignore": ".diffcourt/state/\n"})
    repo.git("checkout", "-q", "-b", "feature")
    repo.commit(dict.fromkeys(FILES, SHELL))
    place = ("--repo", str(repo.path))
    review = ["review", "--base", "main", "--quiet", *place]
    assert main(review) == 1
    findings = {one.path: one for one in load_verdict(repo.path, "latest").findings}
    dismissed = ("--reason", "By hand only.", "--by", "dana", *place)
    assert main(["dismiss", findings["b.py"].id, *dismissed]) == 0
    repo.commit({"a.py": "A = 1\n"})
    assert main(review) == 1
    return repo.path, {path: one.identity for path, one in findings.items()}


@pytest.fixture
def found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> dict[str, str]:
    """File → finding; that in a.py was fixed in a later push, that in b.py dismissed."""
    reviewed, findings = _reviewed()
    monkeypatch.chdir(shutil.copytree(reviewed, tmp_path / "repo"))
    capsys.readouterr()
    return findings


def test_what_people_did_and_how_experts_labeled_it(
    found: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    items, labels = tmp_path / "findings.jsonl", tmp_path / "experts.jsonl"
    assert main(["rubric", "feedback", "--out", str(items)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Cannot tell: by what people did, 50% of 2 findings were useful; let")
    assert "no signal: 2 findings, not counted" in out
    rows = [json.loads(line) for line in items.read_text().splitlines()]
    assert {row["id"] for row in rows} == set(found.values())
    assert "shell=True" in rows[0]["text"]
    # Whoever labels must not see what others did.
    assert not any(word in items.read_text() for word in ("fixed", "dismissed", "By hand"))
    write_labels(labels, [Label(found[path], "ana", "accept") for path in ("a.py", "b.py", "c.py")])
    result = tmp_path / "o.json"
    assert main(["rubric", "feedback", "--labels", str(labels), "--json", str(result)]) == 3
    document = json.loads(result.read_text())
    assert document["unused_labels"] == 1
    signals = {s["signal"]: s["agreement"]["value"] for s in document["signals"]}
    assert signals == {"fixed": 1.0, "dismissed": 0.0}


def test_feedback_of_a_person_is_a_signal_and_does_not_change_the_verdict(
    found: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before, result = load_verdict(None, "latest"), tmp_path / "o.json"
    ids = {one.path: one.id for one in before.findings}
    for path, said in (("c.py", "not-useful"), ("c.py", "fixed"), ("d.py", "useful")):
        assert main(["feedback", ids[path], said]) == 0
    assert capsys.readouterr().out.count(", says ") == 3
    assert main(["feedback", found["b.py"], "useful"]) == 0  # dismissed: that counts more
    rows = len(show_run(None, "latest").timeline)
    assert main(["feedback", found["b.py"], "useful"]) == 0  # the same again is no other
    assert len(show_run(None, "latest").timeline) <= rows + 1  # of the session
    assert load_verdict(None, "latest") == before
    main(["rubric", "feedback", "--json", str(result)])
    signals = {s["signal"]: s["findings"] for s in json.loads(result.read_text())["signals"]}
    assert signals == {"dismissed": 1, "useful": 1, "fixed": 1, "marked-fixed": 1}
    capsys.readouterr()
    assert main(["show"]) == 0
    assert f"{ids['c.py']} is fixed, says " in " ".join(capsys.readouterr().out.split())
    assert main(["stats", "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)["total"]["findings"]
    assert (counts["fixed"], counts["open"]) == (2, 2)  # a.py by its push, c.py as marked
    assert main(["feedback", "F99", "fixed"]) == 2
    assert "has no finding F99; it has F1" in capsys.readouterr().err


def test_answers_in_a_pull_request(
    found: dict[str, str], server: GitHubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    for path, resolved, reactions in (
        ("a.py", True, {}),  # resolved because it was fixed
        ("c.py", True, {}),
        ("d.py", True, {"THUMBS_UP": 2, "THUMBS_DOWN": 1, "HEART": 5}),
    ):
        body = f"Text\n\n{marker(found[path])}"
        server.thread({"body": body, "reactions": reactions, "resolved": resolved}, ME)
    assert main(["rubric", "feedback", "--request", "12"]) == 2
    result = tmp_path / "o.json"
    words = ["--from", "github", "--project", "acme/shop", "--request", "12", "--url", server.url]
    assert main(["rubric", "feedback", *words, "--json", str(result)]) == 3
    signals = {s["signal"]: s["findings"] for s in json.loads(result.read_text())["signals"]}
    assert signals == {"dismissed": 1, "liked": 1, "fixed": 1, "resolved": 1}


def test_the_rate_of_weak_labels_is_corrected_by_a_random_sample_of_experts() -> None:
    rng, covered = np.random.default_rng(4), 0
    truth, times = 0.7, 60
    for _ in range(times):
        useful = rng.random(400) < truth
        # People have no time: of useful findings they fix half, of others they fix a tenth.
        fixed = rng.random(400) < np.where(useful, 0.5, 0.1)
        findings = [
            Feedback(f"f{n}", f"g{n // 2}", "t", "fixed" if did else "merged")
            for n, did in enumerate(fixed)
        ]
        labels = [
            Label(f"f{n}", "ana", "accept" if useful[n] else "reject", drawn="random")
            for n in rng.permutation(400)[:100]
        ]
        report = measure_feedback(findings, labels)
        assert report.rate is not None
        assert report.is_trusted is False
        assert report.rate.judged.high < truth
        covered += report.rate.corrected.low <= truth <= report.rate.corrected.high
    assert covered >= 53  # of 60 at 95%: fewer have a probability below 1%
    by_name = {s.signal: s for s in report.signals}
    assert by_name["fixed"].agreement is not None
    assert by_name["fixed"].agreement.value > 0.8
    assert report.plain_sentence().startswith("Not trusted: by what people did, ")


def test_without_a_run_there_is_a_sentence_and_no_empty_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = Repo(tmp_path / "repo")
    repo.commit({"README.md": "# A project\n"})
    assert main(["rubric", "feedback", "--repo", str(repo.path)]) == 3
    (line,) = capsys.readouterr().out.splitlines()
    assert line == "Cannot tell: nobody has acted on a finding of these runs yet."
