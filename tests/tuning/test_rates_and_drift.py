"""The accept rate of all items, and drift: what the intervals cover, and who is said to drift."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.tuning.labels.anchors import (
    advise_anchors,
    find_power,
    freeze_anchors,
    paired_change,
)
from orchestrator.tuning.labels.corrected_rate import (
    CorrectedRate,
    correct_rate,
    describe_share,
    estimate_rate,
)
from orchestrator.tuning.labels.drift import Drift, measure_drift
from orchestrator.tuning.labels.label_files import Label, infer_scale
from orchestrator.tuning.statistics.confidence_intervals import Interval
from orchestrator.tuning.training_data import build_training_data
from tests.tuning.labelsets import rows, rubric_of
from tests.tuning.simulations import draws
from tests.tuning.test_disagreements import run

Save = Callable[..., Path]
ONE = rubric_of(("a",))


def draw(seed: int, labels: int, items: int, size: int, truth: float) -> CorrectedRate:
    """A judge with sensitivity .85 and specificity .7 over groups that are alike."""
    rng = np.random.default_rng(seed)
    groups = -(-items // size)
    alike = rng.beta(truth * 5, (1 - truth) * 5, groups) if size > 1 else np.full(groups, truth)
    group = np.repeat(np.arange(groups), size)[:items]
    accepted = rng.random(items) < alike[group]
    judge = np.where(accepted, rng.random(items) < 0.85, rng.random(items) > 0.7)
    people = np.full(items, np.nan)
    chosen = rng.permutation(items)[:labels]
    people[chosen] = accepted[chosen]
    return correct_rate(judge, people, group)


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("labels", "items", "size", "truth"),
    [(60, 400, 1, 0.6), (120, 900, 3, 0.8), (120, 600, 5, 0.5), (250, 2000, 3, 0.9)],
)
def test_intervals_of_the_corrected_rate_cover(
    labels: int, items: int, size: int, truth: float
) -> None:
    # 800 draws: by chance a coverage of 95% is seen as 93.5 to 96.5%; 200: as 90.5 to 99.5%.
    times, hits, narrower = draws(200, 800), np.zeros(3), 0
    bias = truth * 0.85 + (1 - truth) * 0.3 - truth
    for seed in range(times):
        found = draw(seed, labels, items, size, truth)
        for n, (interval, value) in enumerate(
            ((found.corrected, truth), (found.rogan_gladen, truth), (found.bias, bias))
        ):
            hits[n] += interval is None or interval.low <= value <= interval.high
        narrower += found.worth > labels
    assert (np.abs(hits / times - 0.95) <= (0.025 if times == 800 else 0.045)).all(), hits / times
    assert narrower / times > 0.9


def test_a_judge_who_knows_nothing_does_not_harm() -> None:
    rng = np.random.default_rng(3)
    people = np.full(500, np.nan)
    people[:100] = rng.random(100) < 0.7
    found = correct_rate(rng.random(500) < 0.5, people, np.arange(500))
    assert found.corrected.value == pytest.approx(found.labeled_only.value, abs=0.03)
    assert found.worth == pytest.approx(100, rel=0.1)


def rated(save: Save, labeled: int, drawn: str = "random", bias: float = 0.0) -> tuple[Path, Path]:
    """Files of 300 items, of which the judge accepts ``bias`` more than people."""
    rng = np.random.default_rng(5)
    good = rng.random(300) < 0.5
    score = np.where(good, 0.9, np.where(rng.random(300) < bias * 2, 0.9, 0.1))
    items: list[dict[str, object]] = [
        {"id": f"i{n}", "scores": dict.fromkeys("abcd", float(v))} for n, v in enumerate(score)
    ]
    labels: list[dict[str, object]] = [
        {"item": f"i{n}", "rater": "ana", "label": "accept" if good[n] else "reject",
         "drawn": drawn}
        for n in rng.permutation(300)[:labeled]
    ]  # fmt: skip
    return save(items), save(labels, "labels.jsonl")


@pytest.mark.parametrize(
    ("labeled", "drawn", "bias", "more", "code", "said"),
    [
        (150, "random", 0.0, (), 0, "Trusted: the judge accepts"),
        (150, "random", 0.3, (), 1, "Not trusted: the judge accepts"),
        (150, "", 0.3, (), 3, "if the 150 labeled items that are not recorded as drawn at random"),
        (150, "", 0.3, ("--assume-random",), 1, "Not trusted: the judge accepts"),
        (20, "random", 0.3, (), 3, "20 labeled items are too few, label at least 30"),
        (300, "", 0.0, (), 0, "300 of 300 items labeled"),
    ],
)
def test_whether_the_rate_of_the_judge_is_trusted(
    save: Save, house: Path, capsys: pytest.CaptureFixture[str], labeled: int, drawn: str,
    bias: float, more: tuple[str, ...], code: int, said: str,
) -> None:  # fmt: skip
    items, labels = rated(save, labeled, drawn, bias)
    assert run("rate", house, items, "--labels", labels, *more) == code
    out = capsys.readouterr().out
    assert said in " ".join(out.split())
    assert len(out.splitlines()) <= 12


def test_two_labels_give_a_share_without_bounds(
    save: Save, house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items, labels = rated(save, 2)
    one_group = [{**json.loads(x), "group": "g"} for x in items.read_text().splitlines()]
    assert run("rate", house, save(one_group, "one.jsonl"), "--labels", labels) == 3
    assert run("rate", house, items, "--labels", labels) == 3
    out = " ".join(capsys.readouterr().out.split())
    assert "nan" not in out
    assert "2 labeled items are too few" in out


def test_several_raters_of_an_item_count_once() -> None:
    items = [Item(f"i{n}", f"g{n}", {"a": 0.9}) for n in range(40)]
    labels = [Label(i.id, "ana", "accept", drawn="random") for i in items[:30]]
    labels += [Label("i0", f"r{n}", "reject", drawn="random") for n in range(9)]
    found = estimate_rate(ONE, items, labels, infer_scale(labels, None))
    assert found.labeled == 30
    assert found.labeled_only.value == pytest.approx(29.1 / 30)


@pytest.mark.simulation
@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1])
def test_a_fall_of_ten_points_is_found_with_the_advised_number_of_anchors(noise: float) -> None:
    n, times, rng = advise_anchors(noise), draws(300, 1500), np.random.default_rng(8)
    assert find_power(n, noise) >= 0.9 > find_power(n - 2, noise)
    found = {"fall": 0, "none": 0}
    for name, lost in (("fall", noise + 0.1), ("none", noise)):
        for _ in range(times):
            u = rng.random(n)
            # Of the anchors that people accept the judge accepted 80%.
            before, now = (u < 0.8).astype(float), (u < 0.8).astype(float)
            now[u < lost], now[u > 1 - noise] = 0.0, 1.0
            change = paired_change(before, now, np.arange(n))
            assert change is not None
            found[name] += change.high < 0
    # 90% less three standard errors of the simulation
    assert found["fall"] / times >= (0.88 if times == 1500 else 0.85)
    assert found["none"] / times <= (0.025 if times == 1500 else 0.05)


class World:
    """Anchors frozen in June, and later scorings and labels of them and of other items."""

    def __init__(self, anchors: int = 600) -> None:
        self.rng = np.random.default_rng(11)
        self.labels: list[Label] = []
        self.items: list[Item] = []
        for n in range(anchors):
            self.add(f"a{n}", good=n % 2 == 0, right=self.rng.random() < 0.85, at="2026-05-01")
        scale = infer_scale(self.labels, None)
        data = build_training_data(ONE, self.items, self.labels, scale)
        self.frozen = freeze_anchors(ONE, data, "2026-06-01T00:00:00+00:00")

    def add(self, name: str, *, good: bool, right: bool, at: str) -> None:
        score = 0.9 if good == right else 0.1
        self.items.append(Item(name, name, {"a": score}, location="items"))
        self.labels.append(Label(name, "ana", "accept" if good else "reject", at=at))

    def add_new(self, count: int, accuracy: float, at: str) -> None:
        for n in range(count):
            self.add(f"n{at}{n}", good=n % 2 == 0, right=self.rng.random() < accuracy, at=at)

    def score_again(self, fall: float) -> None:
        """The judge loses so many of what people accept, and changes 3% of all each way."""
        again = []
        for n, item in enumerate(self.items):
            score, u = item.scores["a"], self.rng.random()
            right = (score == 0.9) == (n % 2 == 0)
            lost = 0.03 + fall if n % 2 == 0 else 0.03
            flips = u < (lost / 0.85 if right else 0.03 / 0.15)
            score = (0.1 if score == 0.9 else 0.9) if flips else score
            again.append(Item(item.id, item.group, {"a": score}, at="2026-07-01"))
        self.items = again

    def label_again(self, stricter: float) -> None:
        for n in range(200):
            strict = self.rng.random() < stricter
            word = "reject" if strict or n % 2 else "accept"
            self.labels.append(Label(f"a{n}", "bo", word, at="2026-07-02"))

    def measure(self, *, anchors: bool = True) -> Drift:
        scale = infer_scale(self.labels, None)
        frozen = self.frozen if anchors else None
        return measure_drift(ONE, self.items, self.labels, scale, frozen, "2026-06-01")


def test_who_has_drifted() -> None:
    calm = World()
    calm.score_again(0.0)
    calm.label_again(0.0)
    found = calm.measure()
    assert found.is_trusted is None  # nobody knows of newer items
    assert "0 labels of newer items cannot tell" in found.plain_sentence()
    calm.add_new(400, 0.85, "2026-07-03")
    found = calm.measure()
    assert found.plain_sentence().startswith("Trusted: on the frozen anchors the judge decides")
    assert (found.has_judge_drifted, found.have_reviewers_drifted) == (False, False)

    judge = World()
    judge.score_again(0.15)
    assert judge.measure().plain_sentence().startswith("Not trusted: the judge has changed")

    people = World()
    people.score_again(0.0)
    people.label_again(0.25)
    found = people.measure()
    assert found.plain_sentence().startswith(
        "Not trusted: the reviewers have changed: they now accept fewer of the same anchors"
    )
    assert found.has_judge_drifted is False


@pytest.mark.parametrize(
    ("relabel", "anchors", "said"),
    [
        (True, True, "both decide the anchors as before, so the work has changed"),
        (False, True, "the judge decides the anchors as before, so the reviewers or the work"),
        (False, False, "whether the judge or the reviewers changed, anchors would tell"),
    ],
)
def test_newer_items_on_which_both_disagree(relabel: bool, anchors: bool, said: str) -> None:
    world = World()
    world.score_again(0.0)
    if relabel:
        world.label_again(0.0)
    world.add_new(200, 0.9, "2026-05-02")
    world.add_new(200, 0.6, "2026-07-03")
    found = world.measure(anchors=anchors)
    assert found.is_trusted is False
    assert said in found.plain_sentence()
    assert [p.month for p in found.periods][-2:] == ["2026-05", "2026-07"]


def test_newer_items_are_compared_with_the_anchors_as_they_were_frozen() -> None:
    """Freezing makes anchors of all labeled items, so there are no others from before."""
    world = World()
    world.score_again(0.0)
    world.add_new(300, 0.5, "2026-07-03")
    found = world.measure()
    assert found.new_sensitivity is not None
    assert found.new_sensitivity.high < -0.2
    assert found.is_trusted is False
    world = World()
    world.score_again(0.0)
    world.add_new(900, 0.85, "2026-07-03")
    assert world.measure().is_trusted is True
    world = World()
    world.add_new(12, 0.85, "2026-07-03")
    world.score_again(0.0)
    assert world.measure().is_trusted is None


def test_few_anchors_cannot_tell_and_say_how_many_would() -> None:
    world = World(anchors=60)
    world.score_again(0.0)
    found = world.measure()
    assert found.is_trusted is None
    assert "236 anchors of each label would give 90%" in found.plain_sentence()
    stale = World()
    stale.items = [Item(i.id, i.group, i.scores, at="2026-05-01") for i in stale.items]
    assert stale.measure().accepted_anchors == 0


def test_anchors_are_frozen_and_compared_from_the_command_line(
    save: Save, house: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = rows(120)
    items = save(lines)
    labels = save(
        [{"item": r["id"], "rater": "ana", "label": r["label"], "at": "2026-05-01"} for r in lines],
        "labels.jsonl",
    )
    call = ("drift", house, items, "--labels", labels, "--anchors", tmp_path / "anchors.json")
    assert run(*call, "--freeze") == 0
    assert "236 of each give 90%" in capsys.readouterr().out
    assert run(*call) == 3
    out = " ".join(capsys.readouterr().out.split())
    assert "none of the 120 anchors is known to be scored since they were frozen" in out
    frozen = (tmp_path / "anchors.json").read_bytes()
    with pytest.raises(InputError, match="already exists; to freeze the present state instead"):
        run(*call, "--freeze")
    assert "Change since" in capsys.readouterr().out
    assert (tmp_path / "anchors.json").read_bytes() == frozen
    save([r | {"scored_at": "2999-01-01"} for r in lines])
    assert run(*call, "--json", tmp_path / "o.json") == 3
    found = json.loads((tmp_path / "o.json").read_text())
    assert "0 labels of newer items cannot tell" in found["sentence"]
    assert found["accepted_anchors"] + found["rejected_anchors"] == 120
    house.write_text(house.read_text().replace("threshold: 0.5", "threshold: 0.6"))
    with pytest.raises(InputError, match=r"anchors of 'house' with other weights or another"):
        run(*call)
    (tmp_path / "anchors.json").write_text('{"format": 1}')
    with pytest.raises(InputError, match="is not a file of anchors"):
        run(*call)


@pytest.mark.parametrize(
    ("at", "more", "said"),
    [
        ("", (), "no label has a time"),
        ("yesterday", (), "labels.jsonl:1: 'yesterday' is not a time"),
        ("2026-05-01", ("--since", "May"), "--since: 'May' is not a time"),
        ("2026-05-01", ("--freeze",), "--freeze requires --anchors FILE"),
    ],
)
def test_times_that_cannot_be_read(
    save: Save, house: Path, at: str, more: tuple[str, ...], said: str
) -> None:
    lines = rows(4)
    labels = save(
        [{"item": r["id"], "rater": "ana", "label": r["label"], "at": at} for r in lines],
        "labels.jsonl",
    )
    with pytest.raises(InputError) as error:
        run("drift", house, save(lines), "--labels", labels, *more)
    assert said in str(error.value)


def test_the_sentence_rounds_a_share_as_the_table_does() -> None:
    assert describe_share(Interval(0.435, 0.125, 0.505)) == "43%, between 12% and 51%"
    assert [f"{share:.2f}" for share in (0.435, 0.125, 0.505)] == ["0.43", "0.12", "0.51"]
