"""The rubric and label commands as people run them."""

import argparse
import io
import json
import random
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from orchestrator.cli.arguments import Parser, add_arguments
from orchestrator.cli.commands import label
from orchestrator.cli.commands.label import LabelingSession
from orchestrator.cli.commands.rubric import command
from orchestrator.cli.commands.rubric.shared_inputs import find_rubric, to_json_data
from orchestrator.engine.types import Rubric
from orchestrator.errors import DiffcourtError, InputError
from orchestrator.tuning.file_formats.item_files import read_items
from orchestrator.tuning.file_formats.rubric_file import read_rubric, write_rubric
from orchestrator.tuning.fitting.rule_fitting import Sample
from orchestrator.tuning.labels.label_files import (
    SHARED_ITEMS,
    Label,
    add_label,
    list_questions,
    read_labels,
    remove_label,
)
from orchestrator.tuning.rubric_comparison import find_detectable_drop
from orchestrator.tuning.rubric_decisions import Objective, find_flips
from orchestrator.tuning.simple_rules import measure_simple_rules
from orchestrator.tuning.statistics.confidence_intervals import (
    compare_decisions,
    compare_fixed_rules,
)
from tests.tuning.conftest import Tuned
from tests.tuning.labelsets import rows, rubric_of
from tests.tuning.simulations import draws

Save = Callable[..., Path]


def parse(name: str, *argv: object) -> argparse.Namespace:
    parser = Parser(prog="diffcourt x")
    add_arguments(parser, name)
    return parser.parse_args([str(a) for a in argv])


def run(*argv: object) -> int:
    return command.run(parse("rubric", *argv))


def test_a_real_gain_is_written_with_its_provenance(tuned: Tuned) -> None:
    assert "GAIN PROVEN" in tuned.out
    assert re.search(r"\d+ of 300 decisions change", tuned.out)
    new = read_rubric(tuned.rubric)
    weights = [c.weight for c in new.criteria]
    assert weights[0] > weights[1] > max(weights[2:])
    assert new.version == 2
    provenance = new.provenance["tuned"]
    assert {"labels", "criteria", "judge", "seed", "method", "held_out"} <= set(provenance)
    assert json.loads(tuned.rubric.with_name("o.json").read_text())["proven"] is True
    assert read_rubric(tuned.rubric.with_name("house.yaml")).version == 1


def test_same_inputs_give_the_same_bytes(save: Save, house: Path, tmp_path: Path) -> None:
    items = save(rows(120))
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        page, doc = folder / "page.html", folder / "o.json"
        args = ("--refits", 30, "--report", page, "--json", doc, "--out", folder / "new.yaml")
        run("tune", house, items, *args)
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes(), path.name


def test_noise_proves_nothing_and_writes_nothing(
    save: Save, house: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run("tune", house, save(rows(200, (0.0,) * 4)), "--refits", 30)
    assert code == 1
    assert "no significant gain" in " ".join(capsys.readouterr().out.split())
    assert [p.name for p in tmp_path.glob("*.yaml")] == ["house.yaml"]


def test_a_cost_at_which_the_best_rubric_rejects_all(
    save: Save, house: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = save(rows(200, (0.6, 0.2, 0.0, 0.0)))
    costs = ("--cost-false-merge", 100, "--cost-false-block", 1)
    assert run("tune", house, items, "--refits", 30, *costs) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "rejecting everything is as cheap: the tuned rubric does so" in out
    assert not (tmp_path / "house-v2.yaml").exists()


def test_costs_move_the_threshold(save: Save, house: Path, tmp_path: Path) -> None:
    items = save(rows(300))
    found = []
    for merge, block in ((5, 1), (1, 5)):
        out = tmp_path / f"c{merge}.yaml"
        costs = ("--cost-false-merge", merge, "--cost-false-block", block)
        run(
            "tune",
            house,
            items,
            "--refits",
            30,
            *costs,
            "--json",
            tmp_path / "o.json",
            "--out",
            out,
        )
        found.append(json.loads((tmp_path / "o.json").read_text())["thresholds"][1])
    assert found[0] > found[1]


def test_raters_who_contradict_each_other(
    save: Save, house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = rows(80)
    turn = {"accept": "reject", "reject": "accept"}
    other = [
        {**r, "rater": "bo", "label": turn[str(r["label"])] if i % 2 else r["label"]}
        for i, r in enumerate(items)
    ]
    assert run("tune", house, save(items + other), "--refits", 30) == 1
    assert "the raters disagree: Krippendorff's alpha" in " ".join(capsys.readouterr().out.split())


def test_raters_who_share_no_item_but_pull_in_opposite_directions(
    save: Save, house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turn = {"accept": "reject", "reject": "accept"}
    items = rows(160)
    for r in items[80:]:
        r |= {"rater": "bo", "label": turn[str(r["label"])]}
    assert run("tune", house, save(items), "--refits", 30) == 1
    assert "contradict each other" in capsys.readouterr().out


def test_a_gain_that_does_not_carry_over_to_later_items(
    save: Save, house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Early on only 'a' counts; later the old weights are right and 'a' alone misleads.
    early = rows(400, (8.0, 0.0, 0.0, 0.0), seed=3)
    late = rows(160, (-1.0, 3.0, 3.0, 3.0), seed=4)
    for r in late:
        r |= {"id": f"l{r['id']}", "group": f"l{r['group']}"}
    assert run("tune", house, save(early + late), "--refits", 30) == 1
    assert "does not generalize" in " ".join(capsys.readouterr().out.split())


Spoil = Callable[[list[dict[str, Any]]], object]
BAD: list[tuple[str, Spoil, str]] = [
    ("one class", lambda r: [x.update(label="accept") for x in r], "all 80 labels are 'accept'"),
    ("constant", lambda r: [x.update(scores=r[0]["scores"]) for x in r], "no criterion's score"),
    ("missing", lambda r: r[7]["scores"].pop("c"), "has no score for 'c'"),
    ("duplicate", lambda r: r.append(dict(r[3])), "duplicate id 'i3' by rater 'ana'"),
    ("nan", lambda r: r[5]["scores"].update(a=float("nan")), "not a number"),
    ("out of range", lambda r: r[5]["scores"].update(a=3.2), "--scale"),
    ("text", lambda r: r[5]["scores"].update(a="good"), "allowed: a number"),
    ("ten", lambda r: r.__delitem__(slice(10, None)), "10 labeled items are too few"),
    ("label", lambda r: r[2].update(label="fine"), "the label is 'fine'"),
    ("no id", lambda r: r[2].pop("id"), "missing 'id'"),
    ("one group", lambda r: [x.update(group="g") for x in r], "the labeled items come from 1;"),
]


@pytest.mark.parametrize(("name", "spoil", "message"), BAD, ids=[b[0] for b in BAD])
def test_bad_input_is_one_clear_line_and_no_rubric(
    name: str, spoil: Spoil, message: str, save: Save, house: Path, tmp_path: Path
) -> None:
    items = rows(80)
    spoil(items)
    with pytest.raises(DiffcourtError) as caught:
        run("tune", house, save(items))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    assert [p.name for p in tmp_path.glob("*.yaml")] == ["house.yaml"]


def test_a_criterion_that_never_varies_is_held_and_named(
    save: Save, house: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = rows(300)
    for r in items:
        r["scores"] |= {"c": 1.0, "d": None}
    run("tune", house, save(items), "--refits", 30)
    out = " ".join(capsys.readouterr().out.split())
    assert "'c' has the same score on all labeled items, so nothing is learned" in out
    assert "'d' has no score on all labeled items, so nothing is learned" in out
    weights = [c.weight for c in read_rubric(tmp_path / "house-v2.yaml").criteria]
    assert weights[2] == pytest.approx(np.mean(weights), rel=1e-3)
    assert weights[3] == pytest.approx(np.mean(weights), rel=1e-3)


def test_labels_that_follow_one_leaf_of_the_shipped_rubric_find_it(
    save: Save, tmp_path: Path
) -> None:
    rubric = read_rubric(find_rubric("pr-review"))
    rng = np.random.default_rng(1)
    items = []
    for i in range(300):
        scores = {
            c.id: float(rng.beta(6, 1.2) if c.kind == "measured" else rng.choice([0, 0.5, 1]))
            for c in rubric.criteria
        } | {"required-checks-run": 1.0}
        accept = rng.random() < 1 / (1 + np.exp(-9 * (scores["actionability"] - 0.5)))
        said = {"rater": "ana", "label": "accept" if accept else "reject"}
        items.append({"id": f"i{i}", "group": f"g{i // 2}", "scores": scores, **said})
    path, out, doc = save(items), tmp_path / "pr-review-v2.yaml", tmp_path / "o.json"
    assert run("tune", "pr-review", path, "--refits", 30, "--out", out, "--json", doc) == 0
    found = json.loads(doc.read_text())
    assert found["comparison"]["before"]["value"] < 0.25
    assert found["comparison"]["after"]["low"] > 0.5
    share = {c["name"]: c["share_after"]["value"] for c in found["criteria"]}
    assert max(share, key=lambda name: share[name]) == "actionability"
    assert set(share) == {c.id for c in rubric.criteria}
    new = read_rubric(out)
    flips = {f.id for f in find_flips(rubric, new, read_items([path]), {})}
    assert flips == {f["id"] for f in found["flips"]}
    assert [g.id for g in new.groups] == [g.id for g in rubric.groups]


def test_contradicting_labels_from_one_rater(save: Save, house: Path, tmp_path: Path) -> None:
    items = save(rows(80))
    labels = tmp_path / "labels.jsonl"
    said = [{"item": f"i{i}", "rater": "ana", "label": "accept"} for i in (0, 1, 0)]
    said[2]["label"] = "reject"
    labels.write_text("".join(json.dumps(x) + "\n" for x in said))
    with pytest.raises(InputError, match="both accept and reject"):
        run("tune", house, items, "--labels", labels)


def test_a_group_in_two_files(save: Save, house: Path) -> None:
    items = rows(80)
    one, two = save(items[:41], "one.jsonl"), save(items[41:], "two.jsonl")
    with pytest.raises(InputError, match="the group 'g20' is also in"):
        run("tune", house, one, two)


def test_scores_of_several_judges_are_refused_or_asked_for_by_name(
    save: Save, house: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [r | {"judge": "m1, prompt a"} for r in rows(300)]
    other = [r | {"judge": "m2, prompt a", "scores": dict.fromkeys("abcd", 0.5)} for r in items[:9]]
    path, new = save(items + other), tmp_path / "house-v2.yaml"
    with pytest.raises(InputError, match=r"2 judges: m1, prompt a \(300\); m2, prompt a \(9\)"):
        run("tune", house, path)
    with pytest.raises(InputError, match="no item was scored by a judge 'm3'"):
        run("tune", house, path, "--judge", "m3")
    assert run("tune", house, path, "--judge", "m1", "--refits", 30) == 0
    assert read_rubric(new).provenance["tuned"]["judges"] == ["m1, prompt a"]
    capsys.readouterr()
    for name, items_said, stale in (("m2", "9 items", True), ("m1", "300 items", False)):
        assert run("eval", new, path, "--judge", name) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert items_said in out
        assert ("the items were scored by m2, prompt a, at tuning by m1" in out) is stale
    half = [r | {"judge": f"m{i % 2}"} for i, r in enumerate(items)]
    assert run("eval", house, save(half), "--judge", "any") == 0


def test_a_rubric_with_no_free_weight(save: Save, tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    write_rubric(path, replace(rubric_of(("a",)), name="one"))
    with pytest.raises(InputError, match="no free weight"):
        run("tune", path, save(rows(80)))


def test_eval_names_the_ceiling_and_what_is_stale(
    save: Save, house: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = rows(120)
    second = [{**r, "rater": "bo"} for r in items[:40]]
    path = save(items + second)
    assert run("tune", house, path, "--refits", 30) in {0, 1}
    write_rubric(tmp_path / "house-v2.yaml", _renamed(tmp_path, house, path))
    capsys.readouterr()
    assert run("eval", tmp_path / "house-v2.yaml", path) == 0
    out = capsys.readouterr().out
    assert "inter-rater agreement on 40 items: kappa 1.00" in " ".join(out.split())
    assert "optimistic" in out
    run("eval", tmp_path / "house-v2.yaml", path, "--report", tmp_path / "page.html")
    *_, blank, said = capsys.readouterr().out.splitlines()
    assert (blank, said.endswith(f"({tmp_path / 'page.html'})")) == ("", True)
    text = (tmp_path / "house-v2.yaml").read_text().replace("what a means", "something else")
    (tmp_path / "house-v2.yaml").write_text(text)
    assert run("check", tmp_path / "house-v2.yaml") == 0
    assert "stale: the text of the criteria has changed" in capsys.readouterr().out


def test_fresh_labels_are_a_test_set_and_seen_ones_make_before_in_sample(
    save: Save, tuned: Tuned, capsys: pytest.CaptureFixture[str]
) -> None:
    fresh = [r | {"id": f"f{r['id']}", "group": f"f{r['group']}"} for r in rows(200, seed=7)]
    assert run("eval", tuned.rubric, save(fresh, "fresh.jsonl")) == 0
    out = capsys.readouterr().out
    assert "tuned on none of these groups: this is a test set" in out
    assert "stale" not in out
    assert re.search(r"equal weights from 0\.\d+ +\.\d\d \[", out)
    run("tune", tuned.rubric, tuned.items, "--refits", 30)
    out = " ".join(capsys.readouterr().out.split())
    assert "was tuned on 150 of these 150 groups, so 'before' is in-sample" in out


@pytest.mark.parametrize(
    ("beta", "said"),
    [
        ((4.0, 0.0, 0.0, 0.0), "best criterion, a from"),
        ((-4.0, 0.0, 0.0, 0.0), "best criterion, a at most"),
        ((2.0, 2.0, 2.0, 2.0), "equal weights from"),
        ((4.0, 2.0, 0.0, 0.0), ""),
        ((0.0, 0.0, 0.0, 0.0), ""),
    ],
)
def test_a_simple_rule_that_agrees_as_well_as_the_tuned_rubric_is_offered(
    beta: tuple[float, ...], said: str, save: Save, house: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Its figures are those of the threshold that the other folds choose."""
    data = save(rows(300, beta, seed=4))
    run("tune", house, data, "--refits", 20, "--json", tmp_path / "t.json", "--out",
        tmp_path / "t.yaml")  # fmt: skip
    found = json.loads((tmp_path / "t.json").read_text())
    accept_all, reject_all, equal, single = found["simple_rules"]
    offered = [rule["name"] for rule in (equal, single) if rule["suffices"]]
    assert [name.startswith(said) for name in offered] == [True] * bool(said)
    assert (accept_all["value"]["value"], reject_all["suffices"]) == (0.0, False)
    after = found["comparison"]["after"]["value"]
    for rule in (equal, single):
        assert rule["difference"]["value"] == pytest.approx(after - rule["value"]["value"])
    assert bool(said) == ("to use it: " in " ".join(capsys.readouterr().out.split()))


def test_the_best_criterion_is_chosen_on_other_groups_than_it_decides() -> None:
    """Forty criteria of noise: the best of them on all labels seems to agree."""
    rng = np.random.default_rng(2)
    x, y = rng.random((200, 40)), rng.integers(0, 2, 200)
    one, group = np.ones(200), np.arange(200)
    none = np.zeros(200, dtype=bool)
    sample = Sample(x, np.ones(40), y, 2, 1, group, one, none, group)
    names = tuple(f"c{j}" for j in range(40))
    *_, single = measure_simple_rules(sample, names, Objective(), y[None, :] > 0, 1)
    best = max(
        Objective().score((side * x[:, j] >= side * at), y > 0, one)
        for j in range(40) for side in (1, -1) for at in np.linspace(0.1, 0.9, 9)
    )  # fmt: skip
    assert single.value.low <= 0.0
    assert single.value.value < best / 2
    assert not single.suffices


def test_a_policy_that_may_be_as_cheap_is_a_note_and_no_refusal(
    save: Save, house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = save(rows(200, (0.3, 0.0, 0.0, 0.0), seed=6))
    run("tune", house, items, "--refits", 30, "--cost-false-merge", 2, "--cost-false-block", 1)
    out = " ".join(capsys.readouterr().out.split())
    assert "GAIN PROVEN" in out
    assert re.search(r"rejecting everything may be cheaper: 0\.4\d\d per decision, tuned", out)


def test_a_criterion_that_acts_against_the_labels_is_advised_as_a_penalty(
    save: Save, house: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items, page = save(rows(400, (3.0, 3.0, 1.0, -2.0))), tmp_path / "page.html"
    run("tune", house, items, "--refits", 30, "--report", page, "--out", tmp_path / "kept.yaml")
    out = " ".join(capsys.readouterr().out.split())
    found = re.search(
        r"'d' acts against .*? it would help: .*? kappa is (\.\d+) instead of (\.\d+)", out
    )
    assert found is not None
    assert float(found[1]) > float(found[2]) + 0.03
    assert "'d' acts against the labels" in unescape(page.read_text())
    assert run("tune", house, items, "--refits", 30, "--penalties", "--report", page) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "its sign is reversed" in out
    assert "acts against the labels, given the other criteria; as" not in out
    new = read_rubric(tmp_path / "house-v2.yaml")
    assert [c.weight > 0 for c in new.criteria] == [True, True, True, False]
    assert new.provenance["tuned"]["signs"] == "free"
    kappa = read_rubric(tmp_path / "house-v2.yaml").provenance["tuned"]["held_out"]["after"][0]
    assert kappa == pytest.approx(float(found[1]), abs=0.02)


def test_no_penalty_is_advised_where_none_acts_against_the_labels(
    save: Save, house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(3):
        items = save(rows(150, (1.0, 1.0, 0.0, 0.0), seed=seed))
        run("tune", house, items, "--refits", 30, "--json", "-")
        assert json.loads(capsys.readouterr().out)["penalties"] is None
        (house.parent / "house-v2.yaml").unlink(missing_ok=True)


def test_a_weight_that_reached_zero_can_come_back(
    save: Save, house: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And one that a person set to 0 does not."""
    first, other = (
        save(rows(300, (4.0, 3.0, 0.0, -1.0))),
        save(
            [r | {"group": f"o{r['group']}"} for r in rows(400, (1.0, 1.0, 0.0, 4.0), seed=5)],
            "other.jsonl",
        ),
    )
    assert run("tune", house, first, "--refits", 30) == 0
    second, third = tmp_path / "house-v2.yaml", tmp_path / "house-v3.yaml"
    tuned = read_rubric(second)
    zeroed = {c.id: 1.0 for c in tuned.criteria if c.weight == 0}
    assert "d" in zeroed
    assert tuned.provenance["tuned"]["zeroed"] == zeroed
    assert run("tune", second, other, "--refits", 30) == 0
    share = {c.id: c.weight for c in read_rubric(third).criteria}
    assert share["d"] == max(share.values())
    off = replace(tuned, name="off", provenance={})
    write_rubric(tmp_path / "off.yaml", off)
    run("tune", tmp_path / "off.yaml", other, "--refits", 30, "--out", tmp_path / "off-v3.yaml")
    assert "\n  d  " not in capsys.readouterr().out.split("Criteria")[-1].split("Learning")[0]


def _renamed(tmp_path: Path, house: Path, items: Path) -> Rubric:
    """A tuned rubric, whether or not this sample happens to prove it."""
    from orchestrator.cli.commands.rubric.shared_inputs import load_inputs
    from orchestrator.tuning.rubric_decisions import Objective
    from orchestrator.tuning.tune import add_provenance, tune_rubric

    read = load_inputs(parse("rubric", "eval", house, items))
    found = tune_rubric(read.rubric, read.data, read.items, Objective(), refits=20)
    return add_provenance("house-v2", read.rubric, read.data, read.labels, found)


def test_a_gate_fails_on_a_worse_rubric_and_passes_on_the_same(
    save: Save, house: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items, base = save(rows(200, (3.0, 3.0, 3.0, 3.0))), tmp_path / "base.json"
    assert run("gate", house, items, "--baseline", base, "--freeze") == 0
    assert run("gate", house, items, "--baseline", base) == 0
    worse = tmp_path / "worse.yaml"
    write_rubric(worse, replace(rubric_of(threshold=0.75), name="worse"))
    assert run("gate", worse, items, "--baseline", base) == 1
    assert "gate failed: agreement with people dropped" in capsys.readouterr().out


def test_a_gate_compares_on_the_labels_that_both_have(
    save: Save, house: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, base = rows(200, (3.0, 3.0, 3.0, 3.0)), tmp_path / "base.json"
    call = ("gate", house, save(made[:150]), "--baseline", base)
    assert run(*call, "--freeze") == 0
    made[0]["label"] = "reject" if made[0]["label"] == "accept" else "accept"
    del made[1]
    more = ("gate", house, save(made, "more.jsonl"), "--baseline", base)
    assert run(*more) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "baseline's are not compared: 50 new, 1 changed, 1 gone" in out
    assert "0 of 148 decisions changed" in out
    with pytest.raises(InputError, match="no label is as in the baseline"):
        run("gate", house, save(made[180:], "others.jsonl"), "--baseline", base)
    # What was frozen is shown beside the present state before it is replaced, and only on demand.
    frozen = base.read_bytes()
    with pytest.raises(InputError, match="already exists; to freeze the present state instead"):
        run(*more, "--freeze")
    assert "0 of 148 decisions changed" in capsys.readouterr().out
    assert base.read_bytes() == frozen
    assert run(*more, "--freeze", "--force") == 0
    assert len(json.loads(base.read_text())["decisions"]) == 199


def test_no_changed_decision_among_few_items_is_no_proof_that_a_margin_is_kept(
    save: Save, house: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {}
    for count in (6, 60, 300):
        items, base = save(rows(count, (3.0,) * 4)), tmp_path / f"{count}.json"
        call = ("gate", house, items, "--baseline", base)
        run(*call, "--freeze")
        said[count] = (run(*call), run(*call, "--margin", "0.05"), run(*call, "--margin", "0.1"))
    assert said == {6: (0, 3, 3), 60: (0, 3, 3), 300: (0, 3, 0)}


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("n", "size", "right", "margin"),
    [(30, 1, 1.0, 0.2), (60, 1, 0.9, 0.1), (120, 1, 1.0, 0.05), (240, 1, 0.9, 0.05),
     (120, 3, 0.9, 0.1), (240, 3, 0.9, 0.1)],
)  # fmt: skip
def test_a_gate_passes_a_drop_of_the_margin_in_one_of_forty_cases(
    n: int, size: int, right: float, margin: float
) -> None:
    rng, times = np.random.default_rng(1), draws(200, 2_000)
    flip = margin / 2 / (2 * right - 1)  # kappa falls by twice the share of agreement
    one, group, passed = np.ones(n), np.arange(n) // size, 0
    for _ in range(times):
        y = rng.random(n) < 0.5
        before = y ^ (rng.random(n) > right)
        after = before ^ (rng.random(n) < flip)
        found = compare_fixed_rules(before, after, y, one, group)
        passed += found.change.low >= -margin
    # 2.5%, and two standard errors of so many draws.
    assert passed / times <= (0.033 if times == 2_000 else 0.05), passed / times


@pytest.mark.parametrize(
    "damage",
    [
        lambda doc: doc.pop("decisions"),
        lambda doc: doc.update(decisions=None),
        lambda doc: doc.update(decisions=dict.fromkeys(doc["decisions"], "yes")),
        lambda doc: doc["decisions"].pop("i3"),
        lambda doc: doc.update(labels=[["i3", "ana"]]),
        lambda doc: doc.update(format=1),
    ],
)
def test_a_damaged_baseline_is_named_in_one_line(
    damage: Spoil, save: Save, house: Path, tmp_path: Path
) -> None:
    items, base = save(rows(40)), tmp_path / "base.json"
    run("gate", house, items, "--baseline", base, "--freeze")
    doc = json.loads(base.read_text())
    damage(doc)
    base.write_text(json.dumps(doc))
    with pytest.raises(InputError, match=r"base\.json: is not a baseline") as caught:
        run("gate", house, items, "--baseline", base)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        ("show", lambda tuned: tuned.pop("counts")),
        ("show", lambda tuned: tuned.update(held_out={"before": None, "after": []})),
        ("eval", lambda tuned: tuned.update(calibration={"method": "platt", "x": ["a", 1]})),
        ("eval", lambda tuned: tuned.update(calibration={"method": "isotonic", "x": [1.0]})),
    ],
)
def test_damaged_provenance_is_named_in_one_line(part: str, damage: Spoil, tuned: Tuned) -> None:
    rubric = read_rubric(tuned.rubric)
    provenance = json.loads(json.dumps(to_builtins(rubric.provenance)))
    damage(provenance["tuned"])
    path = tuned.rubric.with_name("damaged.yaml")
    write_rubric(path, replace(rubric, name="damaged", provenance=provenance))
    items = () if part == "show" else (tuned.items,)
    with pytest.raises(InputError, match="is damaged") as caught:
        run(part, path, *items)
    assert "\n" not in str(caught.value)


def test_figures_of_a_rubric_on_what_it_was_tuned_on_say_so(
    tuned: Tuned, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    house = tuned.items.with_name("house.yaml")
    page, base = tmp_path / "page.html", tmp_path / "base.json"
    run("gate", tuned.rubric, tuned.items, "--baseline", base, "--freeze")
    for given in (
        ("eval", tuned.rubric, tuned.items),
        ("disagree", tuned.rubric, tuned.items, "--report", page),
        ("rate", tuned.rubric, tuned.items, "--report", page),
        ("compare", house, tuned.rubric, "--items", tuned.items, "--report", page),
        ("gate", tuned.rubric, tuned.items, "--baseline", base),
    ):
        capsys.readouterr()
        run(*given)
        out = " ".join(capsys.readouterr().out.split())
        assert "tuned on 150 of these 150 groups, so its agreement here is optimistic" in out
        if "--report" in given:
            assert "its agreement here is optimistic" in page.read_text(), given
        run(*(house if part == tuned.rubric else part for part in given))
        assert "optimistic" not in capsys.readouterr().out


@pytest.mark.parametrize("part", ["tune", "rewrite", "new", "import"])
@pytest.mark.parametrize("name", ["C Tuned.yaml", "out-js--penalties.yaml", "Über.yaml"])
def test_a_rubric_is_not_written_under_a_name_that_no_command_reads(
    part: str, name: str, save: Save, house: Path, tmp_path: Path
) -> None:
    items = save(rows(40))
    given = {"tune": (house, items), "rewrite": (house, "a", items), "new": (items,)}
    with pytest.raises(InputError, match=r"no command would read .*; write .*[a-z-]+\.yaml$"):
        run(part, *given.get(part, (items,)), "--out", tmp_path / name)
    assert not (tmp_path / name).exists()


def test_labels_of_other_items_are_not_used_and_counted(
    save: Save, house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = rows(90)
    labels = save(
        [{"item": r["id"], "rater": "ana", "label": r["label"]} for r in made], "labels.jsonl"
    )
    two = [r | {"judge": "m1" if n < 60 else "m2", "label": None} for n, r in enumerate(made)]
    both = save(two, "two.jsonl")
    for given in (
        ("eval", house, both, "--judge", "m1"), ("disagree", house, both, "--judge", "m1"),
        ("rate", house, both, "--judge", "m1"), ("lint", house, both, "--judge", "m1"),
        ("eval", house, save(two[:60], "some.jsonl")),
    ):  # fmt: skip
        run(*given, "--labels", labels)
        err = capsys.readouterr().err
        assert "30 labels of items that are not in ITEMS not used, such as 'i60'" in err
    other = save([r | {"id": f"x{r['id']}"} for r in two], "other.jsonl")
    with pytest.raises(InputError, match="the labeled item 'i0' is not in the items"):
        run("eval", house, other, "--judge", "m1", "--labels", labels)


def test_what_is_given_and_not_used_is_said(
    save: Save, house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = rows(40)
    labels = save(
        [{"item": r["id"], "rater": "bo", "label": r["label"]} for r in made], "labels.jsonl"
    )
    run("eval", house, save(made), "--labels", labels)
    assert "so the labels in 40 rows of ITEMS not used" in capsys.readouterr().err
    with pytest.raises(InputError, match="--accept-at is for labels that are numbers"):
        run("eval", house, save(made), "--accept-at", 3)


def test_three_raters_of_whom_one_is_random_are_written_as_json(
    save: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What numpy computes is JSON as well."""
    rng, items, labels = random.Random(1), [], []
    for n in range(80):
        x = rng.random()
        items.append({"id": f"i{n}", "scores": {"a": round(x, 3), "b": round(rng.random(), 3)}})
        for who in ("ana", "bo", "cy"):
            yes = rng.random() > 0.5 if who == "cy" else x + rng.gauss(0, 0.1) > 0.5
            labels.append({"item": f"i{n}", "rater": who, "label": "accept" if yes else "reject"})
    path, out = tmp_path / "two.yaml", tmp_path / "o.json"
    given = (save(items), "--labels", save(labels, "labels.jsonl"))
    run("new", given[0], "--out", path)
    assert run("tune", path, *given, "--refits", 20, "--json", out) == 0
    assert [r["at_chance"] for r in json.loads(out.read_text())["raters"]] == [False, False, True]
    assert (tmp_path / "two-v2.yaml").exists()
    numpy = {"a": np.bool_(True), "b": np.float64("nan"), "c": np.int64(3), "d": np.zeros((1, 2))}
    plain = {"a": True, "b": None, "c": 3, "d": [[0.0, 0.0]]}
    assert json.loads(json.dumps(to_json_data(numpy), allow_nan=False)) == plain


def test_a_gate_over_too_few_items_cannot_tell(
    save: Save, house: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few, base = rows(200, (3.0, 3.0, 3.0, 3.0))[:2], tmp_path / "base.json"
    items = save([row | {"group": "one"} for row in few])
    assert run("gate", house, items, "--baseline", base, "--freeze") == 0
    assert "too few to find any drop" in capsys.readouterr().out
    assert run("gate", house, items, "--baseline", base) == 0
    assert "gate passed: no decision changed" in capsys.readouterr().out
    frozen = json.loads(base.read_text())
    frozen["decisions"] = {item: not accepted for item, accepted in frozen["decisions"].items()}
    base.write_text(json.dumps(frozen))
    assert run("gate", house, items, "--baseline", base) == 3
    out = capsys.readouterr().out
    assert "gate cannot tell: an interval requires labeled items of at least 3 groups" in out
    assert "2 of 2 decisions changed" in out


def test_a_gate_with_a_margin_names_what_changed_and_says_when_it_cannot_tell(
    save: Save, house: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, base = rows(200, (3.0, 3.0, 3.0, 3.0)), tmp_path / "base.json"
    wrong = [
        str(r["id"])
        for r in made
        if (np.mean(list(r["scores"].values())) >= 0.5) != (r["label"] == "accept")
    ]
    items, now_wrong = save(made), wrong[:3]
    run("gate", house, items, "--baseline", base, "--freeze")
    frozen = json.loads(base.read_text())
    for name in now_wrong:
        frozen["decisions"][name] = not frozen["decisions"][name]
    base.write_text(json.dumps(frozen))
    capsys.readouterr()
    found = {}
    for margin, code in (("0.2", 0), ("0.005", 3)):
        doc = tmp_path / "gate.json"
        args = ("gate", house, items, "--baseline", base, "--margin", margin, "--json", doc)
        assert run(*args) == code
        found[margin] = json.loads(doc.read_text())
    out = capsys.readouterr().out
    assert "gate passed: any drop is smaller than 0.2" in out
    assert "gate cannot tell: the drop may be 0.005 or more; label about" in out
    line = rf"^  {now_wrong[2]}  \w+ → \w+ \(total \.\d\d, label: (accept|reject)\)$"
    assert re.search(line, out, re.MULTILINE)
    assert [f["id"] for f in found["0.2"]["changed"]] == now_wrong
    assert [found[m]["outcome"] for m in found] == ["passed", "unknown"]
    assert found["0.005"]["labels_needed"] > 200
    assert found["0.2"]["labels_needed"] is None


def test_the_detectable_drop_of_a_gate_is_found_four_times_in_five() -> None:
    from sklearn.metrics import cohen_kappa_score  # it takes a second

    """By flips that the gate did not draw itself, and smaller with more labels."""
    drops = []
    for n in (120, 500):
        items = rows(n, (3.0, 3.0, 3.0, 3.0))
        x = np.array([list(r["scores"].values()) for r in items])
        y = np.array([r["label"] == "accept" for r in items]).astype(np.int64)
        one, at = np.ones(n), np.arange(n)
        s = Sample(x, np.ones(4), y, 2, 1, at // 2, one, one < 0, at)
        before = x.mean(axis=1) >= 0.5
        drop = find_detectable_drop(s, before)
        assert drop is not None
        drops.append(drop)
        old = cohen_kappa_score(y, before)
        # Flips of a share f lower kappa to about (1 - 2f) of it where classes are even.
        share, rng = drop / old / 2, np.random.default_rng(3)
        hit = []
        for _ in range(200):
            after = before ^ (rng.random(n) < share)
            found = compare_decisions(Objective(), before, after[None], y > 0, one, at // 2)
            hit.append(found.change.high < 0)
        assert 0.68 < np.mean(hit) < 0.9
    assert drops[1] < 0.6 * drops[0]


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_page_fetches_nothing_and_escapes_what_comes_from_outside(
    save: Save, house: Path, tmp_path: Path
) -> None:
    items = rows(150)
    for r in items:
        r |= {"id": f"<script>{r['id']}", "url": "javascript:alert(1)"}
    items[0]["url"] = "https://example.org/pr/1"
    page = tmp_path / "page.html"
    run("tune", house, save(items), "--refits", 30, "--report", page)
    text = page.read_text(encoding="utf-8")
    found = _Page()
    found.feed(text)
    tags = {tag for tag, _ in found.tags}
    assert {"svg", "table", "figure"} <= tags
    assert not tags & {"script", "img", "link", "iframe"}
    links = [a.get("href") or "" for _, a in found.tags if "href" in a]
    assert all(x.startswith(("https://example.org", "#")) for x in links)
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text
    assert "decisions change" in text


def test_new_and_show_and_diff(
    save: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "made.yaml"
    assert run("new", save(rows(5)), "--out", made) == 0
    assert run("check", made) == 0
    assert run("show", made) == 0
    out = capsys.readouterr().out
    assert "accept threshold 0.5" in out
    assert "1  a (judged)" in out
    assert run("diff", made, made) == 0
    write_rubric(tmp_path / "other.yaml", replace(rubric_of(threshold=0.4), name="other"))
    assert run("diff", made, tmp_path / "other.yaml") == 1
    assert "threshold: 0.5 → 0.4" in capsys.readouterr().out


def test_score_says_accept_or_reject(
    save: Save, house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [{"id": "x", "scores": dict.fromkeys("abcd", 0.9)},
             {"id": "y", "scores": {"a": 0.1, "b": None, "c": "na", "d": 0.2}}]  # fmt: skip
    assert run("score", house, save(items), "--json") == 0
    x, y = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (x["accept"], x["total"]) == (True, pytest.approx(0.9))
    assert (y["accept"], y["total"]) == (False, pytest.approx(0.15))


def sit(tmp_path: Path, items: Path, typed: str, *more: object) -> str:
    args = parse("label", items, "--rater", "ana", "--labels", tmp_path / "labels.jsonl", *more)
    known = read_labels([args.labels]) if args.labels.exists() else []
    todo = list_questions(read_items([items]), known, "ana")
    out = io.StringIO()
    LabelingSession(args, todo, {}, io.StringIO(typed), out).run()
    return out.getvalue()


def test_a_session_can_go_back_skip_and_be_resumed(save: Save, tmp_path: Path) -> None:
    items = save(rows(5))
    asked = [q.item.id for q in list_questions(read_items([items]), [], "ana")]
    assert sorted(asked) == ["i0", "i1", "i2", "i3", "i4"]
    sit(tmp_path, items, "a\nr\n<\na\ns\n#odd one\nr\nq\n")
    found = read_labels([tmp_path / "labels.jsonl"])
    assert [(x.item, x.label, x.note, x.drawn) for x in found] == [
        (asked[0], "accept", "", "random"),
        (asked[1], "accept", "", "random"),
        (asked[3], "reject", "odd one", "random"),
    ]
    out = sit(tmp_path, items, "a\n")
    assert f"1 of 2: {asked[2]}" in out
    assert "0.5" not in out.split("accept")[0]
    assert len(read_labels([tmp_path / "labels.jsonl"])) == 4


class Interrupted(io.StringIO):
    """What a person types before Ctrl-C."""

    def readline(self, *_: object) -> str:  # type: ignore[override]
        if line := super().readline():
            return line
        raise KeyboardInterrupt


def test_an_interrupted_session_says_what_is_saved(save: Save, tmp_path: Path) -> None:
    items, out = save(rows(3)), io.StringIO()
    args = parse("label", items, "--rater", "ana", "--labels", tmp_path / "labels.jsonl")
    todo = list_questions(read_items([items]), [], "ana")
    with pytest.raises(KeyboardInterrupt):
        LabelingSession(args, todo, {}, Interrupted("a\n"), out).run()
    assert out.getvalue().endswith(f"\n1 labeled in this session; saved to {args.labels}\n")
    assert len(read_labels([args.labels])) == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "name who labels with --rater NAME"),
        (["--rater", "ana", "--port", "8400"], "require --web"),
    ],
)
def test_a_session_that_cannot_begin_says_what_is_missing(
    save: Save, more: list[str], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        label.run(parse("label", save(rows(3)), *more))


def test_the_score_is_hidden_unless_asked_for(save: Save, tmp_path: Path, house: Path) -> None:
    items = save([{"id": "x", "scores": {"a": 0.123}, "text": "hello\x1b[2J"}])
    blind = sit(tmp_path, items, "q\n")
    assert "0.123" not in blind
    assert "\x1b" not in blind
    assert "0.123" in sit(tmp_path, items, "q\n", "--rubric", house, "--show-score")


def test_the_context_of_a_text_is_shown_below_it(save: Save, tmp_path: Path) -> None:
    diff = "@@ -1 +1 @@\n-old = 1\n+new = 2\x1b[2J " + "long " * 30
    items = save([{"id": "x", "scores": {}, "text": "Reads well.", "diff": diff}])
    shown = sit(tmp_path, items, "q\n").splitlines()
    at = shown.index("  Reads well.")
    assert shown[at + 1 : at + 3] == ["  | @@ -1 +1 @@", "  | -old = 1"]
    assert shown[at + 3].startswith("  | +new = 2\\x1b[2J long")
    assert all(len(line) <= 80 for line in shown[: at + 5])


def test_criteria_are_asked_one_by_one(save: Save, tmp_path: Path, house: Path) -> None:
    items = save(rows(1))
    sit(tmp_path, items, "4\n5\n\nx\n2\n\n", "--rubric", house, "--criteria", "--answers", "1-5")
    (found,) = read_labels([tmp_path / "labels.jsonl"])
    assert (found.label, found.criteria) == (4.0, {"a": 5.0, "c": 2.0})


def test_next_draws_at_random_and_gives_every_rater_the_same_items(
    save: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items, labels = rows(400), tmp_path / "labels.jsonl"
    path = save(items)

    def drawn(rater: str, count: int) -> list[str]:
        args = parse("label", path, "--rater", rater, "--next", count, "--list", "--labels", labels)
        assert label.run(args) == 0
        return capsys.readouterr().out.split()

    first = drawn("ana", 200)
    totals = {r["id"]: np.mean(list(r["scores"].values())) for r in items}
    # Neither near the threshold nor in the order of the file.
    assert abs(np.mean([abs(totals[n] - 0.5) < 0.1 for n in first]) - 0.5) < 0.1
    assert abs(np.mean([int(n[1:]) for n in first]) - 200) < 25
    monkeypatch.setattr("sys.stdin", io.StringIO("a\nr\n"))
    label.run(parse("label", path, "--rater", "ana", "--next", 2, "--labels", labels))
    capsys.readouterr()
    assert [(x.item, x.drawn) for x in read_labels([labels])] == [
        (first[0], "random"), (first[1], "random")
    ]  # fmt: skip
    assert drawn("ana", 198) == first[2:]
    assert drawn("bo", 200) == first
    labels.write_text(labels.read_text().replace('"random"', '"chosen"'))
    with pytest.raises(InputError, match="'drawn' is 'chosen'"):
        read_labels([labels])


def test_a_second_rater_begins_with_what_another_chose_to_label(save: Save, tmp_path: Path) -> None:
    items = read_items([save(rows(100))])
    asked = [q.item.id for q in list_questions(items, [], "bo")]
    chosen = asked[-30:]
    path = tmp_path / "labels.jsonl"
    for name in chosen:
        add_label(path, Label(name, "ana", "accept"))
    first = list_questions(items, read_labels([path]), "bo")
    # Ana chose them, so they are no random draw for Bo either; what follows is.
    assert [(q.item.id, q.drawn) for q in first[:21]] == [
        *((name, "") for name in chosen[:SHARED_ITEMS]), (asked[0], "random")
    ]  # fmt: skip
    assert sorted(q.item.id for q in first) == sorted(asked)
    for name in chosen[:5]:
        add_label(path, Label(name, "bo", "reject"))
    rest = list_questions(items, read_labels([path]), "bo")
    assert [q.item.id for q in rest[:16]] == [*chosen[5:SHARED_ITEMS], asked[0]]


def test_raters_who_label_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    raters, count = ("ana", "bo", "cy", "di"), 25

    def sit_down(rater: str) -> None:
        for n in range(count):
            add_label(path, Label(f"i{n}", rater, "accept"))
            if n % 5 == 4:
                remove_label(path, f"i{n}", rater)

    with ThreadPoolExecutor() as pool:
        list(pool.map(sit_down, raters))
    kept = {f"i{n}" for n in range(count) if n % 5 != 4}
    assert {(x.item, x.rater) for x in read_labels([path])} == {
        (item, rater) for item in kept for rater in raters
    }
    assert [p.name for p in tmp_path.iterdir()] == ["labels.jsonl"]


def test_labels_that_were_not_drawn_at_random_are_named(
    save: Save, house: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = rows(80)
    given = [{"item": r["id"], "rater": "ana", "label": r.pop("label")} for r in items]
    for row in given[1:]:
        row["drawn"] = "random"
    said = []
    for count in (70, 80):
        labels = save(given[:count], "labels.jsonl")
        out = tmp_path / f"n{count}.yaml"
        run("tune", house, save(items), "--refits", 30, "--labels", labels, "--out", out)
        said.append("are not recorded as drawn" in " ".join(capsys.readouterr().out.split()))
    assert said == [True, False]


def test_the_label_command_needs_something_to_label(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to label"):
        label.run(parse("label", "--rater", "ana", "--labels", tmp_path / "x.jsonl"))


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_csv_items_and_names_that_are_no_ids(
    mark: str, house: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "items.csv"
    lines = ["id,group,text,scores.A,scores.b,score.c,machine.d,rater,label"]
    lines += [f'"x{i}",g,"one AND two",0.9,abstain,na,0.5,ana,accept' for i in range(2)]
    text = "\n".join(lines).replace(",", mark).replace(" AND", ",")
    path.write_text(text + "\n", encoding="utf-8")
    first = read_items([path])[0]
    assert first.scores == {"a": 0.9, "b": None, "c": "na", "d": 0.5}
    assert (first.text, first.human) == ("one, two", {"label": "accept"})
    assert run("score", house, path) == 0
    assert "accept  0.7000  x0" in capsys.readouterr().out


def test_repeated_scorings_measure_the_judges_noise(
    save: Save, house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = rows(60)
    again = [
        {"id": r["id"], "group": r["group"], "repeat": 1,
         "scores": {k: min(1.0, v + 0.3) for k, v in r["scores"].items()}}
        for r in items[:20]
    ]  # fmt: skip
    assert run("eval", house, save(items + again)) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert re.search(r"Repeated scoring of 20 items: \d+\.\d% of pairs decide differently", out)


def test_verdicts_on_three_levels_are_ordered(
    save: Save, house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = rows(240)
    for r in items:
        mean = 0.7 * r["scores"]["a"] + 0.3 * r["scores"]["b"]
        said = "merge" if mean > 0.6 else ("needs_changes" if mean > 0.35 else "block")
        r |= {"label": said, "verdict": said}
    path = save(items)
    assert run("tune", house, path, "--refits", 20) == 0
    capsys.readouterr()
    assert run("eval", house, path) == 0
    assert re.search(r"weighted kappa +1\.00", capsys.readouterr().out)


def test_import_and_export_through_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "tree.json", tmp_path / "tree-rubric.yaml"
    leaf = {"id": "a", "requirements": "runs", "weight": 2, "sub_tasks": []}
    root = {"id": "root", "requirements": "all", "weight": 1}
    source.write_text(json.dumps({**root, "sub_tasks": [leaf, leaf]}))
    assert run("import", source, "--out", out) == 0
    assert "not mapped: a: this id is in the tree twice" in capsys.readouterr().err
    assert run("export", out) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {**root, "sub_tasks": [leaf, {**leaf, "id": "a-2"}]}
    source.write_text("{")
    with pytest.raises(InputError, match="invalid json"):
        run("import", source, "--out", out)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ("score HOUSE ITEMS --out ITEMS", "is an input"),
        ("disagree HOUSE ITEMS --report ITEMS", "is an input"),
        ("eval HOUSE ITEMS --json HOUSE", "exists, and by its name is no report"),
        ("eval HOUSE ITEMS --json=", "--json: the file name is empty"),
        ("gate HOUSE ITEMS --baseline ITEMS --freeze", "is an input"),
        ("drift HOUSE ITEMS --anchors ITEMS --freeze", "is an input"),
        ("export-items ITEMS --format csv --out ITEMS", "is an input"),
        ("import-items ITEMS --from jsonl --out NEW --labels NEW", "is named twice"),
        ("export-items ITEMS --format csv --out -", "--out: name a file"),
        ("rate HOUSE ITEMS --report NEW/page.html", "--report: cannot write"),
        ("score HOUSE ITEMS --provider anthropic --out NEW/x", "--out: cannot write"),
        ("score HOUSE ITEMS --estimate", "--estimate needs a model; set --provider NAME"),
        ("compare HOUSE HOUSE --items ITEMS --max-usd 1", "--max-usd needs a model"),
        (
            "import-items ITEMS --from jsonl --out NEW --map foo=bar",
            "'foo' is not one of our columns",
        ),
    ],
)
def test_options_that_would_overwrite_a_file_or_have_no_effect_are_refused_first(
    save: Save, house: Path, tmp_path: Path, argv: str, said: str
) -> None:
    items = save(rows(40))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    names = {"HOUSE": str(house), "ITEMS": str(items), "NEW": str(tmp_path / "new")}
    for name, path in names.items():
        argv = argv.replace(name, path)
    with pytest.raises(InputError) as error:
        run(*argv.split())
    assert said in str(error.value)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
