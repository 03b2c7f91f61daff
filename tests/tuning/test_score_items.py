"""``rubric score ITEMS``: a model judges texts through the journal, and nothing is paid for twice."""

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.app.rubric_scoring import item_judge_session
from orchestrator.engine.types import Criterion, Response, Rubric, ScoredExample, ScoreLevel, Text
from orchestrator.errors import ConfigError, InputError
from orchestrator.tuning.file_formats.item_files import read_items
from orchestrator.tuning.file_formats.rubric_file import digest_criteria, read_rubric, write_rubric
from tests.model_server.server_script import Refuse
from tests.tuning.item_models import PROVIDER, Asked, judge_line, serving
from tests.tuning.recorded_runs import says
from tests.tuning.test_rubric_cli import run

Save = Callable[..., Path]
LEVELS = (ScoreLevel(0.0, "no"), ScoreLevel(0.5, "half"), ScoreLevel(1.0, "yes"))


def judged(name: str, description: str = "", **more: Any) -> Criterion:
    return Criterion(name, "judged", description or f"Is it {name}?", levels=LEVELS, **more)


def texts(n: int, **more: Any) -> list[dict[str, Any]]:
    return [{"id": f"i{i}", "group": f"g{i}", "text": f"text number {i}", **more} for i in range(n)]


def by_number(text: str, criterion: dict[str, Any]) -> float:
    return float(int(text.rsplit(maxsplit=1)[-1]) % 2) if criterion["id"] == "right" else 0.5


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_rubric(
        tmp_path / "two.yaml",
        Rubric("two", 1, "A rubric.", 0.6, (judged("right"), judged("clear"))),
    )
    return tmp_path


def score(items: Path, *more: object, rubric: str = "two.yaml") -> int:
    return run("score", rubric, items, "--provider", PROVIDER, *more)


def test_scores_reasons_judge_and_labels_are_written_and_asked_once(
    save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items, asked = save(texts(6, rater="ana", label="accept", diff="- old\n+ new")), Asked()
    with serving(monkeypatch, {"item-judge": [judge_line(by_number, asked)] * 6}) as server:
        assert score(items, "--out", "scored.jsonl") == 0
        shown = capsys.readouterr()
        assert "6 items by 2 judged criteria, by local-model\nestimate: 6 calls" in shown.err
        assert "6 items scored: 3 accepted, 3 rejected; 6 asked for" in shown.out
        assert score(items, "--out", "again.jsonl") == 0
        assert "none asked for: all scores are on record" in capsys.readouterr().out
        assert len(server.requests) == 6
        assert "- old" in json.dumps(server.requests[0].body)
    first, again = (Path(n).read_bytes() for n in ("scored.jsonl", "again.jsonl"))
    assert first == again
    found = read_items([Path("scored.jsonl")])
    assert [i.scores for i in found] == [{"right": n % 2, "clear": 0.5} for n in range(6)]
    assert found[0].reasons == {"right": "seen for right", "clear": "seen for clear"}
    assert found[0].judge.startswith("local-model, prompt ")
    assert (found[0].human, found[0].context) == ({"label": "accept"}, "- old\n+ new")
    assert sorted(asked.texts) == [f"text number {n}" for n in range(6)]


def test_only_reworded_criteria_are_asked_again(
    save: Save, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items, asked = save(texts(3)), Asked()
    new = judged("clear", examples=(ScoredExample("as here", 0.5, "half of it"),))
    write_rubric(here / "new.yaml", Rubric("new", 1, "A rubric.", 0.6, (judged("right"), new)))
    with serving(monkeypatch, {"item-judge": [judge_line(by_number, asked)] * 6}):
        score(items)
        score(items, rubric="new.yaml")
    assert asked.criteria == [["right", "clear"]] * 3 + [["clear"]] * 3
    assert run("export", "new.yaml") == 0
    assert "not mapped: clear: examples" in capsys.readouterr().err
    old, read = read_rubric(here / "two.yaml"), read_rubric(here / "new.yaml")
    assert read.criteria[1].examples == new.examples
    assert digest_criteria(old) != digest_criteria(read)


def test_an_example_has_the_score_of_a_level(here: Path) -> None:
    wrong = judged("clear", examples=(ScoredExample("as here", 0.7),))
    write_rubric(here / "wrong.yaml", Rubric("wrong", 1, "A rubric.", 0.6, (wrong,)))
    with pytest.raises(ConfigError, match="an example of 'clear' has the score 0.7, no level's"):
        read_rubric(here / "wrong.yaml")


def slips(body: dict[str, Any]) -> Response:
    """Prose around the JSON, a wrong level, another spelling of an id, and one criterion left out."""
    report = {"criteria": [{"id": "RIGHT", "why": "x", "score": 0.7, "quote": "no such words"}]}
    return Response((Text(f"Sure!\n```json\n{json.dumps(report)}\n``` Anything else?"),), "end")


def mends(body: dict[str, Any]) -> Response:
    sent_back = json.dumps(body["messages"][-1])
    assert (
        "right: the score 0.7 is not a level; allowed: 0, 0.5, 1; the quotation is not in"
        in sent_back
    )
    assert "clear: missing" in sent_back
    return says({"criteria": [{"id": "clear", "why": "y", "score": 1, "quote": "not there"}]})


def test_a_slip_is_sent_back_once_and_then_counts_as_abstained(
    save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(monkeypatch, {"item-judge": [slips, mends]}):
        assert score(save(texts(1)), "--out", "o.jsonl") == 0
    (item,) = read_items([Path("o.jsonl")])
    assert item.scores == {"right": None, "clear": None}
    assert item.reasons["right"].startswith("counts as abstained: the score 0.7 is not a level")
    assert "the quotation is not in" in item.reasons["clear"]


def test_a_failed_item_is_named_and_asked_again_next_time(
    save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items, good = save(texts(2)), judge_line(by_number)
    broken = Response((Text("I would rather not."),), "end")
    with serving(monkeypatch, {"item-judge": [good, broken, broken, broken, good]}) as server:
        assert score(items, "--concurrency", 1, "--out", "o.jsonl") == 3
        assert "not scored: i1: the judge failed: its report broke" in capsys.readouterr().out
        assert [i.id for i in read_items([Path("o.jsonl")])] == ["i0"]
        assert score(items, "--concurrency", 1) == 0
    assert len(server.requests) == 5


def test_it_stops_at_its_limit_and_goes_on_with_a_higher_one(
    save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items = save(texts(8))
    with serving(monkeypatch, {"item-judge": [judge_line(by_number)] * 8}) as server:
        limit = ("--concurrency", 1, "--max-tokens", 5_000)
        assert score(items, *limit) == 3
        out = " ".join(capsys.readouterr().out.split())
        assert "stopped: the judge budget: all calls: tokens would reach" in out
        assert "run the command again: what is scored is kept" in out
        before = len(server.requests)
        assert 0 < before < 8
        assert score(items, "--concurrency", 1) == 0
        assert len(server.requests) == 8


CASCADE = ("--model", "cheap", "--model", "dear", "--within", 0.15, "--out", "scored.jsonl")


def sure_or_not(text: str, criterion: dict[str, Any]) -> float:
    """Items 0, 3, ... have a total of .5, .1 below the threshold; the others of 0 or 1."""
    number = int(text.rsplit(maxsplit=1)[-1])
    return (0.5, 0.0, 1.0)[number % 3]


def is_by(model: str) -> Callable[[dict[str, Any]], Response]:
    """A judge who is unsure, and one who accepts; each answers only as the model it is."""

    def reply(body: dict[str, Any]) -> Response:
        assert body["model"] == model
        return judge_line(sure_or_not if model == "cheap" else lambda *_: 1.0)(body)

    return reply


def test_a_cascade_asks_the_second_judge_where_the_first_is_unsure_and_says_who_scored(
    save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items = save(texts(6))
    replies = [*map(is_by, ["cheap"] * 6 + ["dear"] * 2)]
    with serving(monkeypatch, {"item-judge": replies}) as server:
        assert score(items, *CASCADE, "--estimate") == 0
        assert capsys.readouterr().out.count("estimate: 6 calls") == 2
        assert score(items, *CASCADE) == 0
        shown = capsys.readouterr()
        assert "second judge: asked for 2 of 6 items; price unknown per item" in shown.err
        assert "6 items scored: 4 accepted, 2 rejected; 8 asked for" in shown.out
        assert score(items, *CASCADE) == 0
        assert "none asked for: all scores are on record" in capsys.readouterr().out
        assert len(server.requests) == 8
    found = read_items([Path("scored.jsonl")])
    assert [i.judge.split(",")[0] for i in found] == ["dear", "cheap", "cheap"] * 2
    assert [i.scores["right"] for i in found] == [1.0, 0.0, 1.0] * 2
    # No command reads such a file as if one judge had scored all of it.
    with pytest.raises(InputError, match="--judge"):
        run("lint", "two.yaml", "scored.jsonl")


def test_an_item_of_which_the_second_judge_fails_has_no_score_until_it_is_asked_again(
    save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items = save(texts(3))
    first = [*map(is_by, ["cheap"] * 3)]
    with serving(monkeypatch, {"item-judge": [*first, Refuse(400, "no")]}):
        assert score(items, *CASCADE) == 3
        assert "not scored: i0" in capsys.readouterr().out
        assert [i.id for i in read_items([Path("scored.jsonl")])] == ["i1", "i2"]
    with serving(monkeypatch, {"item-judge": [is_by("dear")]}):
        assert score(items, *CASCADE) == 0
        assert len(read_items([Path("scored.jsonl")])) == 3


def test_a_cascade_has_two_judges_one_limit_and_a_width(
    save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items = save(texts(3))
    for wrong in (("--within", 0.1), ("--model", "a", "--model", "b"), (*CASCADE, "--repeat", 2)):
        with pytest.raises(InputError, match="--within takes two --model"):
            score(items, *wrong)
    with pytest.raises(InputError, match="--within needs a model"):
        run("score", "two.yaml", items, "--within", 0.1)
    replies = [*map(is_by, ["cheap"] * 3), is_by("dear")]
    with serving(monkeypatch, {"item-judge": replies}):
        assert score(items, *CASCADE, "--max-tokens", 50_000) == 0
    limits = re.findall(r"USD and\s+([\d,]+)\s+tokens", capsys.readouterr().err)
    # What the first judge used is no longer there for the second.
    assert limits[:2] == ["50,000", "50,000"]
    assert len(limits) == 3
    assert int(limits[2].replace(",", "")) < 50_000


def test_two_judges_of_a_cascade_differ_and_share_the_limit_of_the_settings(
    save: Save, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items = save(texts(3))
    with pytest.raises(InputError, match="two --model that differ"):
        score(items, "--model", "cheap", "--model", "cheap", "--within", 0.1)
    settings = here / ".diffcourt" / "config" / "defaults.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text("bounds: {tokens: 50000}\n")
    with serving(monkeypatch, {"item-judge": [*map(is_by, ["cheap"] * 3), is_by("dear")]}):
        assert score(items, *CASCADE) == 0
    limits = re.findall(r"USD and\s+([\d,]+)\s+tokens", capsys.readouterr().err)
    assert limits[:2] == ["50,000", "50,000"]
    assert int(limits[2].replace(",", "")) < 50_000


def test_an_interrupted_scoring_goes_on_where_it_stopped(
    save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from orchestrator.report.tuning.scoring_text import ScoringProgress

    def interrupt(self: object, progress: Any) -> None:
        if progress.done == 2:
            signal.raise_signal(signal.SIGINT)

    items, asked = save(texts(4)), Asked()
    with serving(monkeypatch, {"item-judge": [judge_line(by_number, asked)] * 4}) as server:
        with monkeypatch.context() as patch:
            patch.setattr(ScoringProgress, "__call__", interrupt)
            # A suite that a shell began with & ignores the signal.
            before = signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                assert score(items, "--concurrency", 1) == 130
            finally:
                signal.signal(signal.SIGINT, before)
        assert "what is scored is kept" in capsys.readouterr().err
        assert len(server.requests) == 2
        assert score(items, "--concurrency", 1) == 0
    assert sorted(asked.texts) == [f"text number {n}" for n in range(4)]


def test_equal_texts_are_one_question_and_repeats_are_scorings_of_their_own(
    save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items = save([*texts(1), {"id": "same", "group": "s", "text": "text number 0"}])
    lines: list[Any] = [judge_line(lambda t, c: 0.5), judge_line(lambda t, c: 1.0)]
    with serving(monkeypatch, {"item-judge": lines}):
        assert score(items, "--repeat", 2, "--concurrency", 1, "--out", "o.jsonl") == 0
    assert "100.0% of pairs decide" in capsys.readouterr().out
    rows = read_items([Path("o.jsonl")])
    assert [(i.id, i.repeat, i.scores["right"]) for i in rows] == [
        ("i0", 0, 0.5), ("i0", 1, 1.0), ("same", 0, 0.5), ("same", 1, 1.0)
    ]  # fmt: skip


def test_site_and_time_of_an_item_are_kept_and_the_time_of_scoring_is_written(
    save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {"site": "shop", "at": "2026-01-05T10:00:00+00:00"}
    items = save([texts(1, **own)[0], *texts(2)[1:]])
    lines: list[Any] = [judge_line(lambda t, c: 0.5)] * 2 + [judge_line(lambda t, c: 1.0)] * 2
    with serving(monkeypatch, {"item-judge": lines}) as server:
        score(items, "--out", "first.jsonl")
        monkeypatch.setattr(item_judge_session, "now", lambda: "2999-01-01T00:00:00+00:00")
        score(items, "--out", "again.jsonl")
        score(items, "--round", "2026-11", "--out", "anew.jsonl")
        score(items, "--round", "2026-11", "--out", "anew-again.jsonl")
        assert len(server.requests) == 4
    first, again, anew, anew_again = (
        read_items([Path(f"{name}.jsonl")]) for name in ("first", "again", "anew", "anew-again")
    )
    assert [(i.site, i.at) for i in first] == [tuple(own.values()), ("", first[1].scored_at)]
    assert first[0].scored_at == first[1].scored_at > "2026"
    # What is on record was not scored again, and does not say so.
    assert [replace(i, location="") for i in again] == [replace(i, location="") for i in first]
    assert {i.scored_at for i in anew + anew_again} == {"2999-01-01T00:00:00+00:00"}
    assert [i.at for i in anew] == [own["at"], "2999-01-01T00:00:00+00:00"]
    assert {i.scores["right"] for i in anew_again} == {1.0}
    out = " ".join(capsys.readouterr().out.split())
    assert "price unknown" in out
    assert "USD" not in out
    for kind in ("csv", "jsonl"):
        run("export-items", "first.jsonl", "--format", kind, "--out", f"table.{kind}")
        run("import-items", f"table.{kind}", "--from", kind, "--out", f"back-{kind}.jsonl")
        back = read_items([Path(f"back-{kind}.jsonl")])
        assert [(i.site, i.at, i.scored_at) for i in back] == [
            (i.site, i.at, i.scored_at) for i in first
        ]
    assert "i0: usd" not in capsys.readouterr().err  # its price is not known


def test_an_estimate_calls_no_model_and_a_cost_above_the_default_limit_is_not_begun(
    save: Save, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = here / ".diffcourt" / "config" / "defaults.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text("bounds: {tokens: 3000}\n")
    items = save(texts(20))
    with serving(monkeypatch, {"item-judge": []}) as server:
        assert score(items, "--estimate") == 0
        out = " ".join(capsys.readouterr().out.split())
        assert "estimate: 20 calls, about " in out
        assert "price unknown; limit 2.00 USD and 3,000 tokens" in out
        with pytest.raises(InputError, match="set another with --max-tokens"):
            score(items)
        with pytest.raises(InputError, match="--max-usd needs a price of local-model"):
            score(items, "--max-usd", 1)
    assert not server.requests


def test_a_refused_key_says_so(save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    from orchestrator.errors import ProviderRefused

    with serving(monkeypatch, {"item-judge": [Refuse(401)]}), pytest.raises(ProviderRefused):
        score(save(texts(1)))


def test_offline_text_criteria_are_measured_and_others_need_a_model(
    save: Save, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = tuple(Criterion(n, "measured", n) for n in ("states", "gives-reason"))
    write_rubric(here / "text.yaml", Rubric("text", 1, "A rubric.", 0.6, measured))
    rows = [
        {"id": "a", "text": "Close the file, because it leaks."},
        {"id": "b", "text": "Why is this needed?"},
    ]
    assert run("score", "text.yaml", save(rows)) == 0
    assert capsys.readouterr().out == "accept  1.0000  a\nreject  0.0000  b\n"
    with pytest.raises(InputError, match="have a model judge the texts with --provider NAME"):
        run("score", "two.yaml", save(rows))
    with pytest.raises(InputError, match="has no text for a model to judge"):
        score(save([{"id": "a", "scores": {"right": 1}}]))
