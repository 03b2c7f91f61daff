"""``rubric rewrite``: wordings from the training half, proven on the held-out half, or nothing."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from msgspec.structs import replace

from orchestrator.engine.rubric_scoring import CriterionMark
from orchestrator.engine.types import Criterion, Json, Response, Rubric, Text
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import Item, read_items
from orchestrator.tuning.file_formats.rubric_file import read_rubric, write_rubric
from orchestrator.tuning.labels.label_files import Label, extract_labels
from orchestrator.tuning.rewrite_search import (
    Candidate,
    SearchResult,
    _Training,
    hide_example,
    search,
    split_halves,
)
from tests.tuning.item_models import PROVIDER, Asked, facts, judge_line, serving
from tests.tuning.recorded_runs import says
from tests.tuning.simulations import draws
from tests.tuning.test_rubric_cli import run
from tests.tuning.test_score_items import judged

Save = Callable[..., Path]
PRESENT = judged("useful", "Is the comment useful?")
HOUSE = Rubric("house", 1, "Comments of a code review.", 0.6, (PRESENT,))


def comments(n: int, seed: int = 3, noise: bool = False) -> list[dict[str, Any]]:
    """Comments of which people accept those that give a reason; 2 of each group."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        reason, long = rng.random(2) < 0.5
        text = f"Comment {i}: close the file" + (", because it leaks" if reason else "")
        accept = rng.random() < 0.5 if noise else reason
        label = "accept" if accept else "reject"
        text += " at the very end of the function." if long else "."
        rows.append(
            {"id": f"i{i}", "group": f"g{i // 2}", "text": text, "rater": "ana", "label": label}
        )
    return rows


def by_wording(text: str, criterion: dict[str, Any]) -> float:
    """A judge that goes by length, until the wording asks for a reason."""
    sought = "because" if "reason" in criterion["description"] else "very end"
    return float(sought in text)


def wording(description: str, *examples: dict[str, Any]) -> dict[str, Any]:
    levels = [{"score": 0, "description": "No."}, {"score": 1, "description": "Yes."}]
    shown = list(examples)
    return {"reason": "r", "description": description, "levels": levels, "examples": shown}


def writing(body: dict[str, Json]) -> Response:
    """One wording that is worse, and one that says what people go by, with an example."""
    found = facts(body)["items"]
    good = next(i for i in found if i["people"] == "accept")
    example = {"item": good["item"], "score": 1, "why": "it says why"}
    return says(
        {"proposals": [wording("Is it polite?"), wording("Does it give a reason?", example)]}
    )


def slipping(body: dict[str, Json]) -> Response:
    """Prose around the report, one level alone, and an example that was not shown."""
    alone = {**wording("Is it nice?"), "levels": [{"score": 1, "description": "Yes."}]}
    bad = wording("Is it kind?", {"item": "T99", "score": 1, "why": "w"})
    text = f"Some ideas: {json.dumps({'proposals': [alone, bad]})} Luck!"
    return Response((Text(text),), "end")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_rubric(tmp_path / "house.yaml", HOUSE)
    return tmp_path


def rewrite(items: Path, *more: object) -> int:
    return run("rewrite", "house.yaml", "useful", items, "--provider", PROVIDER, *more)


def test_a_better_wording_is_proven_and_written_and_no_held_out_text_is_shown(
    save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items = save(comments(60))
    script: dict[str, Any] = {
        "rubric-writer": [slipping, writing],
        "item-judge": [judge_line(by_wording)] * 400,
    }
    with serving(monkeypatch, script) as server:
        assert rewrite(items, "--rounds", 1, "--max-tokens", 9_000_000) == 0
        asked = [json.dumps(r.body) for r in server.requests if r.agent == "rubric-writer"]
    out = capsys.readouterr()
    assert out.out.startswith("NEW WORDING PROVEN")
    assert (
        "-  description: Is the comment useful?\n+  description: Does it give a reason?" in out.out
    )
    assert "estimate: " in out.err
    assert "wording 2: " in out.err
    assert "seen for useful" in asked[0]  # the judge's reason
    new = read_rubric(Path("house-v2.yaml"))
    (criterion,) = new.criteria
    assert criterion.description == "Does it give a reason?"
    assert "because" in criterion.examples[0].text
    proof: Any = new.provenance["rewritten"]
    assert proof["held_out"]["change"][1] > 0
    assert proof["held_out"]["items"] == 30

    found = read_items([items])
    halves = split_halves(HOUSE, PRESENT, found, extract_labels(found, None), None, 20260101)
    assert {i.group for i in halves.held_out}.isdisjoint({i.group for i in halves.training})
    assert "there is no item 'T99'" in asked[1]  # it is sent back
    assert len(asked) == 2
    for body in asked:
        shown = [i.id for i in found if f"{i.text.partition(':')[0]}:" in body]
        assert shown
        assert not set(shown) & {i.id for i in halves.held_out}


def polite(body: dict[str, Json]) -> Response:
    """A wording that is no better."""
    return says({"proposals": [wording("Is it polite?")]})


def test_items_that_the_judge_got_wrong_become_its_examples_and_never_of_themselves(
    save: Save, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The judge learns from examples what people go by, and not from any wording."""
    seen: list[tuple[str, list[Any]]] = []

    def scorer(text: str, criterion: dict[str, Any]) -> float:
        seen.append((text, criterion.get("examples", [])))
        learned = any(e["score"] == 1 and "because" in e["text"] for e in seen[-1][1])
        return float(("because" if learned else "very end") in text)

    rows = comments(60)
    rows[0]["text"] += " x" * 900
    script: dict[str, Any] = {
        "rubric-writer": [polite] * 2,
        "item-judge": [judge_line(scorer)] * 400,
    }
    with serving(monkeypatch, script):
        given = ("--rounds", 2, "--max-tokens", 9_000_000)
        assert rewrite(save(rows), *given) == 0
    out = capsys.readouterr().out
    assert out.startswith("NEW WORDING PROVEN")
    (criterion,) = read_rubric(Path("house-v2.yaml")).criteria
    assert criterion.description == PRESENT.description
    assert "+    why: 'people: accept, judge: 0'" in out
    by_text = {row["text"][:600]: row for row in rows}
    found = read_items([save(rows)])
    halves = split_halves(HOUSE, PRESENT, found, extract_labels(found, None), None, 20260101)
    held_out = {item.text[:600] for item in halves.held_out}
    assert 0 < len(criterion.examples) <= 4
    for example in criterion.examples:
        row = by_text[example.text]
        assert example.text not in held_out
        assert example.score == (row["label"] == "accept") != ("very end" in row["text"])
        assert example.why == f"people: {row['label']}, judge: {int('very end' in row['text'])}"
    assert any(examples for _, examples in seen)
    for text, examples in seen:
        assert text[:600] not in [example["text"] for example in examples]


@pytest.mark.attack("a control character in an example of a rubric")
def test_an_example_with_a_character_that_yaml_refuses_is_written_and_hidden_from_its_item(
    here: Path,
) -> None:
    items = [Item(f"i{n}", f"g{n}", {}, f"\0\x1b[31m {n} " + "x " * 400) for n in range(120)]
    labels = [Label(i.id, "ana", float(n % 2), note="\0 why") for n, i in enumerate(items)]
    training = _Training(split_halves(HOUSE, PRESENT, items, labels, None, 1))
    marks = {i.id: CriterionMark(0.0, "") for i in training.items}
    new = training.correct(training.measure(PRESENT, marks), np.random.default_rng(0))
    write_rubric(here / "new.yaml", Rubric("new", 1, "Comments.", 0.6, (new,)))
    assert read_rubric(here / "new.yaml").criteria == (new,)
    assert sum(hide_example(new, item) is not new for item in items) == len(new.examples) == 4


@pytest.mark.parametrize("weight", [1.0, -1.0])
def test_the_marks_of_people_are_levels_on_the_scale_of_their_labels(weight: float) -> None:
    items = [Item(f"i{n}", f"g{n}", {}, f"text {n}") for n in range(120)]
    noted = "\n".join(["It must", "say why " * 40])
    labels = [Label(i.id, "ana", float(1 + n % 5), note=noted) for n, i in enumerate(items)]
    criterion = replace(PRESENT, weight=weight)
    halves = split_halves(replace(HOUSE, criteria=(criterion,)), criterion, items, labels, None, 1)
    training = _Training(halves)
    marks = {i.id: CriterionMark(0.0, "") for i in training.items}
    new = training.correct(training.measure(criterion, marks), np.random.default_rng(0))
    given = {item.text: 1 + n % 5 for n, item in enumerate(items)}
    assert {given[e.text] for e in new.examples} == {5 if weight > 0 else 1}
    assert {e.score for e in new.examples} == {1.0}
    assert new.examples[0].why.startswith("It must say why say why")
    assert len(new.examples[0].why) == 200


def test_on_labels_that_are_noise_nothing_is_written(
    save: Save, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script: dict[str, Any] = {
        "rubric-writer": [writing],
        "item-judge": [judge_line(by_wording)] * 400,
    }
    with serving(monkeypatch, script):
        assert rewrite(save(comments(60, noise=True)), "--rounds", 1, "--max-tokens", 10**7) == 1
    assert capsys.readouterr().out.startswith("NO NEW WORDING")
    assert not list(here.glob("house-v*"))


def hashed(criterion: Criterion, item: Item) -> float:
    seed = f"{criterion.description}/{criterion.examples}/{item.id}".encode()
    return float(hashlib.sha256(seed).digest()[0] % 2)


async def _search(seed: int) -> SearchResult:
    """A search in which wordings and labels have nothing to do with each other."""
    rng = np.random.default_rng(seed)
    items = [Item(f"{seed}/{i}", f"g{i}", {}, f"text {i}") for i in range(120)]
    labels = [Label(i.id, "ana", "accept" if rng.random() < 0.5 else "reject") for i in items]
    halves = split_halves(HOUSE, PRESENT, items, labels, None, seed)

    async def score(criterion: Criterion, some: Sequence[Item]) -> Mapping[str, CriterionMark]:
        return {i.id: CriterionMark(hashed(criterion, i), "") for i in some}

    async def propose(
        parent: Candidate, shown: object, pool: Sequence[Candidate]
    ) -> list[Criterion]:
        return [replace(PRESENT, description=f"{seed}/{len(pool)}/{n}") for n in range(2)]

    return await search(PRESENT, halves, score, propose, rounds=3, seed=seed)


@pytest.mark.simulation
def test_noise_is_rarely_proven_however_many_wordings_are_tried() -> None:
    times = draws(40, 200)
    found = [anyio.run(_search, seed) for seed in range(times)]
    gains = [f.training[1] - f.training[0] for f in found]
    assert np.mean(gains) > 0.15  # on the training half the best of six looks much better
    assert sum(f.proven for f in found) / times <= 0.025


def test_it_stops_at_its_limit_and_writes_nothing(
    save: Save, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script: dict[str, Any] = {
        "rubric-writer": [writing] * 3,
        "item-judge": [judge_line(by_wording)] * 400,
    }
    with serving(monkeypatch, script) as server:
        assert rewrite(save(comments(60)), "--estimate") == 0
        assert "80% power" in " ".join(capsys.readouterr().out.split())
        assert not server.requests
        assert rewrite(save(comments(60)), "--max-tokens", 110_000) == 3
    assert "The limit ended the search" in " ".join(capsys.readouterr().out.split())
    assert not list(here.glob("house-v*"))


@pytest.mark.parametrize("failing", ["rubric-writer", "item-judge"])
def test_models_of_which_every_call_fails_are_no_result(
    failing: str,
    save: Save,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = Response((Text("{}"),), "end")
    script: dict[str, Any] = {
        "rubric-writer": [writing] * 3,
        "item-judge": [judge_line(by_wording)] * 400,
        failing: [broken] * 900,
    }
    with serving(monkeypatch, script):
        given = ("--rounds", 2, "--max-tokens", 9_000_000)
        assert rewrite(save(comments(60)), *given) == 3
    out = " ".join(capsys.readouterr().out.split())
    who = "writer" if failing == "rubric-writer" else "judge"
    assert f"NO NEW WORDING Every call of the {who} failed" in out
    assert "its report broke" in out
    assert "No wording agrees better" not in out
    assert not list(here.glob("house-v*"))


def test_too_few_labels_and_unknown_criteria_are_refused(save: Save) -> None:
    with pytest.raises(InputError, match="30 labeled items are too few to prove a rewording"):
        rewrite(save(comments(30)))
    with pytest.raises(InputError, match="'house' has no judged criterion 'nice'; it has: useful"):
        run("rewrite", "house.yaml", "nice", save(comments(60)), "--provider", PROVIDER)
    with pytest.raises(InputError, match="name its provider with --provider NAME"):
        run("rewrite", "house.yaml", "useful", save(comments(60)))


def test_labels_of_the_criterion_itself_are_used_where_there_are_enough() -> None:
    items = [Item(f"i{n}", f"g{n}", {}, f"text {n}") for n in range(80)]
    own = [
        Label(i.id, "ana", "accept", {"useful": "accept" if n % 2 else "reject"})
        for n, i in enumerate(items)
    ]
    halves = split_halves(HOUSE, PRESENT, items, own, None, 1)
    assert halves.by_criterion
    assert {label.label for label in halves.labels} == {"accept", "reject"}
    assert halves.rubric.threshold == 0.5


def test_both_wordings_are_judged_by_themselves(
    save: Save, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores that were given beside other criteria are no fair baseline for a wording alone."""
    write_rubric(here / "house.yaml", replace(HOUSE, criteria=(PRESENT, judged("clear"))))
    items, asked = save(comments(60)), Asked()
    script: dict[str, Any] = {
        "rubric-writer": [writing],
        "item-judge": [judge_line(by_wording, asked)] * 400,
    }
    with serving(monkeypatch, script):
        given = ("--provider", PROVIDER, "--max-tokens", 9_000_000)
        assert run("score", "house.yaml", items, *given, "--out", "scored.jsonl") == 0
        rewrite(Path("scored.jsonl"), "--rounds", 1, *given[2:])
    assert asked.criteria[:60] == [["useful", "clear"]] * 60
    assert set(map(tuple, asked.criteria[60:])) == {("useful",)}
    assert len(asked.criteria) == 60 + 30 + 3 * 30 + 2 * 30
