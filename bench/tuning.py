"""The figures of rubric tuning: what it gains, whether its intervals hold, how long it takes.

    python bench/tuning.py [--data ../shared/data] [--simulations 400] [--only crscore,speed]

Every random choice has a fixed seed, so two runs print the same figures (times aside).
"""

# The number of threads is read when numpy is loaded; the command sets it likewise.
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from msgspec.structs import replace
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import cohen_kappa_score
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from orchestrator.catalog.yaml_validation import describe_unknown_name
from orchestrator.engine.types import Criterion, Rubric
from orchestrator.tuning import rubric_decisions
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.tuning.file_formats.rubric_file import write_rubric
from orchestrator.tuning.fitting import calibration, cross_validation
from orchestrator.tuning.fitting.calibration import fit_calibration
from orchestrator.tuning.fitting.ordinal_regression import Bools
from orchestrator.tuning.fitting.rule_fitting import Sample, fit_rules, plan_fit
from orchestrator.tuning.labels.label_files import extract_labels, infer_scale
from orchestrator.tuning.statistics.confidence_intervals import (
    PairedComparison,
    compare_decisions,
    estimate_labels_needed,
)
from orchestrator.tuning.text_measures import TEXT_MEASURES
from orchestrator.tuning.training_data import build_training_data
from orchestrator.tuning.tune import tune_rubric

OBJECTIVE = rubric_decisions.Objective()
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
LANGUAGES = (("python",), ("java",), ("python", "java"))
"""The label sets that are measured: each language alone, and both together."""


def crscore(data: Path, languages: tuple[str, ...]) -> tuple[Rubric, list[Item]]:
    """The CRScore items of some languages under a rubric of ten equal weights."""
    items = []
    for language in languages:
        path = data / "labels" / f"crscore-{language}.jsonl"
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            scores = row["machine"] | {n: f(row["review"]) for n, f in TEXT_MEASURES.items()}
            human = {"relevance": row["human"]["relevance"]}
            name, group = f"{language}/{row['id']}", f"{language}/{row['group']}"
            items.append(Item(name, group, scores, human=human, rater=row["rater"]))
    names = items[0].scores
    lines = tuple(Criterion(n, "measured", n) for n in names)
    return Rubric("crscore", 1, "Ten criteria, equal weights.", 0.5, lines), items


def sample_of(rubric: Rubric, items: list[Item]) -> Sample:
    """Items as arrays, with what stands in their rows as labels."""
    labels = extract_labels(items, None)
    return build_training_data(rubric, items, labels, infer_scale(labels, 3.0)).sample


def some(s: Sample, rows: np.ndarray) -> Sample:
    """Some rows of a sample."""
    return replace(
        s, x=s.x[rows], y=s.y[rows], group=s.group[rows], weight=s.weight[rows],
        blocked=s.blocked[rows], item=s.item[rows],
    )  # fmt: skip


def decide_unfitted(s: Sample) -> Bools:
    """(n,) decisions of the given weights at a threshold of 0.5."""
    accept: Bools = s.totals(s.w0[None, :])[0] >= 0.5
    return accept


def gain(data: Path, _: int) -> None:
    for languages in LANGUAGES:
        _gain(data, languages)


def _gain(data: Path, languages: tuple[str, ...]) -> None:
    s = sample_of(*crscore(data, languages))
    plan = plan_fit(s, OBJECTIVE)
    rng = np.random.default_rng(1)
    tuned = cross_validation.cross_validate(s, plan, rng)
    free = cross_validation.cross_validate(s, replace(plan, free_signs=True), rng)
    only = cross_validation.cross_validate(s, replace(plan, fit_weights=False), rng)
    old = decide_unfitted(s)
    c = compare_decisions(OBJECTIVE, old, tuned.accept, s.accept, s.weight, s.group)
    t = OBJECTIVE.score(only.accept, s.accept, s.weight).mean()
    print(
        f"CRScore {'+'.join(languages)}, {s.items:.0f} labels, held out by diff: kappa {c.after.format(3)}; "
        f"tuned threshold on equal weights {t:.3f}; threshold .5 {c.before.value:.3f}"
    )
    signs = compare_decisions(OBJECTIVE, old, free.accept, s.accept, s.weight, s.group)
    print(f"  with --penalties, signs fitted within the folds: {signs.after.format(3)}")
    error = calibration.expected_calibration_error(
        calibration.reliability_curve(tuned.probability, s.accept)
    )
    print(f"  calibration error, out of fold: {error:.3f}")


def transfer(data: Path, _: int) -> None:
    """What a rule that was fitted on one language gains on the other, of which it saw nothing."""
    samples = {name: sample_of(*crscore(data, (name,))) for name in ("python", "java")}
    for name, other in (("python", "java"), ("java", "python")):
        s, test = samples[name], samples[other]
        old = decide_unfitted(test)
        for signs in (False, True):
            plan = replace(plan_fit(s, OBJECTIVE), free_signs=signs)
            rules = fit_rules(s, plan, s.weight[None, :], np.random.default_rng(1))
            c = compare_decisions(
                OBJECTIVE, old, rules.decide(test), test.accept, test.weight, test.group
            )
            how = "with --penalties" if signs else "signs kept"
            print(
                f"CRScore fitted on {name}, {how}: kappa on {other} {c.before.value:.3f} before, "
                f"{c.after.format(3)} after, change {c.change.format(3)}"
            )


def reference(data: Path, _: int) -> None:
    """What rules of other shapes reach on the same scores, nested and grouped in the same way."""
    models: dict[str, Callable[[], Any]] = {
        "logistic regression, signs free": lambda: make_pipeline(
            StandardScaler(), LogisticRegression(C=1.0, max_iter=2000)
        ),
        "boosted trees": lambda: HistGradientBoostingClassifier(
            max_depth=3, max_iter=60, learning_rate=0.08, min_samples_leaf=20
        ),
    }
    for languages in LANGUAGES:
        s = sample_of(*crscore(data, languages))
        for name, make in models.items():
            print(f"CRScore {'+'.join(languages)}, {name}: kappa {_nested(make, s):.3f}")


def _nested(make: Callable[[], Any], s: Sample) -> float:
    """Kappa of held-out decisions; model and threshold are chosen in each training part alone."""
    x, accept = np.nan_to_num(s.x, nan=0.5), s.accept
    names, place = np.unique(s.group, return_inverse=True)
    order = np.random.default_rng(0).permutation(len(names))[place]
    decided = np.zeros(len(accept), bool)
    for fold in range(5):
        train, test = order % 5 != fold, order % 5 == fold
        inner = order[train] // 5 % 5
        held = cross_val_predict(
            make(), x[train], accept[train], groups=inner, cv=LeaveOneGroupOut(),
            method="predict_proba",
        )[:, 1]  # fmt: skip
        at = np.unique(np.quantile(held, np.linspace(0.02, 0.98, 97)))
        kappas = [cohen_kappa_score(accept[train], held >= t) for t in at]
        smooth = np.convolve(kappas, np.ones(9) / 9, mode="valid")
        threshold = at[int(np.argmax(smooth)) + 4]
        model = make().fit(x[train], accept[train])
        decided[test] = model.predict_proba(x[test])[:, 1] >= threshold
    return float(cohen_kappa_score(accept, decided))


def curve(data: Path, _: int) -> None:
    for languages in LANGUAGES:
        _curve(data, languages)


def _curve(data: Path, languages: tuple[str, ...]) -> None:
    s = sample_of(*crscore(data, languages))
    draws = 200
    found: dict[str, list[float]] = {}
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        order = rng.permutation(np.unique(s.group).size)
        pool = np.isin(s.group, order[: order.size // 2])
        rows = rng.permutation(np.flatnonzero(pool))
        test = some(s, np.flatnonzero(~pool))
        for n in (30, 120, 250):
            train = some(s, rows[:n])
            plan = plan_fit(train, OBJECTIVE)
            reference = replace(plan, fit_weights=False)
            rules = fit_rules(train, plan, train.weight[None, :], rng)
            simple = fit_rules(train, reference, train.weight[None, :], rng)
            signs = fit_rules(train, replace(plan, free_signs=True), train.weight[None, :], rng)
            for name, r in (("tuned", rules), ("threshold", simple), ("penalties", signs)):
                value = OBJECTIVE.score(r.decide(test)[0], test.accept, test.weight)
                found.setdefault(f"{name} {n}", []).append(float(value))
            t = train.totals(rules.weights)[0]
            held_out = test.totals(rules.weights)[0]
            p = fit_calibration(t, train.accept, train.weight, plan.use_isotonic).predict(held_out)
            best = fit_calibration(held_out, test.accept, test.weight, use_isotonic=False)
            chance = rng.random(p.size) < p
            for name, said, was in (
                ("tuned", p, test.accept),
                ("perfectly calibrated", p, chance),
                ("best sigmoid", best.predict(held_out), test.accept),
            ):
                width = calibration.expected_calibration_error(
                    calibration.reliability_curve(said, was)
                )
                found.setdefault(f"{name} width {n}", []).append(width)
                found.setdefault(f"{name} mass {n}", []).append(equal_mass(said, was))
    print(
        f"CRScore {'+'.join(languages)} learning curve, {draws} draws, the other half of the diffs held out"
    )
    for n in (30, 120, 250):
        k, t = np.array(found[f"tuned {n}"]), np.array(found[f"threshold {n}"])
        print(
            f"  {n} labels: kappa {k.mean():.3f}, worst 5% {np.quantile(k, 0.05):.3f}; "
            f"threshold only {t.mean():.3f}"
        )
        p = np.array(found[f"penalties {n}"])
        print(f"    with --penalties {p.mean():.3f}, worst 5% {np.quantile(p, 0.05):.3f}")
    print("  calibration error in 10 bins of equal width, in 5 of equal mass:")
    for n in (30, 120, 250):
        for name in ("tuned", "perfectly calibrated", "best sigmoid"):
            wide = np.mean(found[f"{name} width {n}"])
            mass = np.mean(found[f"{name} mass {n}"])
            print(f"    {n} labels, {name}: {wide:.3f}  {mass:.3f}")


def equal_mass(p: np.ndarray, y: np.ndarray, bins: int = 5) -> float:
    """Calibration error over bins that hold equally many items."""
    parts = np.array_split(np.argsort(p, kind="stable"), bins)
    return float(sum(part.size * abs(p[part].mean() - y[part].mean()) for part in parts) / p.size)


SCENES: dict[str, tuple[list[float], float]] = {
    "gain": ([0, 0.2, 0.5, 1, 2, 3], 0.55),
    "no gain": ([0.8] * 6, 0.5),
    "threshold off": ([0.8] * 6, 0.62),
    "noise": ([0.0] * 6, 0.5),
}


def draw(rng: np.random.Generator, n: int, scene: str, size: int) -> Sample:
    """Items in groups that share scores and labels beyond the scores."""
    beta, center = SCENES[scene]
    groups = -(-n // size)
    g = np.repeat(np.arange(groups), size)[:n]
    latent = rng.normal(size=(n, 6)) * 0.8 + rng.normal(size=n)[:, None] * 0.6
    x = 1 / (1 + np.exp(-latent - rng.normal(size=groups)[g][:, None] * 0.5))
    logit = 2.4 * (x - center) @ np.array(beta) + rng.normal(size=groups)[g] * 0.5
    y = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.int64)
    one = np.ones(n)
    return Sample(x, np.ones(6), y, 2, 1, g, one, np.zeros(n, dtype=bool), np.arange(n))


def claimed(c: PairedComparison) -> bool:
    """Whether held-out figures alone would have a new rubric written."""
    return c.change.low > 0 and c.after.low > 0


def coverage(_: Path, times: int) -> None:
    print(
        f"Coverage of nominal 95% intervals, {times} label sets a line (95% ± "
        f"{196 * (0.95 * 0.05 / times) ** 0.5:.1f} by chance)"
    )
    for n in (60, 120, 250):
        kept: dict[str, list[float]] = {}
        for scene in SCENES:
            big = draw(np.random.default_rng(99), 20_000, scene, 3)
            base = OBJECTIVE.score(decide_unfitted(big), big.accept, big.weight)
            hit = np.array([_covers(n, scene, seed, big, float(base)) for seed in range(times)])
            share = hit.mean(axis=0)
            for name, value in zip(("fixed", "kappa", "delta", "claim", "ece"), share, strict=True):
                kept.setdefault(name, []).append(float(value))
            print(
                f"  n={n:<4}{scene:<14} kappa of a fixed rubric {share[0]:.3f}  of a tuned one "
                f"{share[1]:.3f}  change in kappa {share[2]:.3f}  'improved' claimed "
                f"{share[3]:.3f}  calibration error {share[4]:.3f}"
            )
        mean = {k: float(np.mean(v)) for k, v in kept.items()}
        print(
            f"  n={n:<4}all            kappa of a fixed rubric {mean['fixed']:.3f}  of a tuned "
            f"one {mean['kappa']:.3f}  change in kappa {mean['delta']:.3f}"
        )


def _covers(n: int, scene: str, seed: int, big: Sample, base: float) -> list[float]:
    rng = np.random.default_rng([seed, n])
    s = draw(rng, n, scene, 3)
    plan = plan_fit(s, OBJECTIVE)
    full = fit_rules(s, plan, s.weight[None, :], rng)
    truth = float(OBJECTIVE.score(full.decide(big)[0], big.accept, big.weight))
    apart = cross_validation.cross_validate(s, plan, rng)
    c = compare_decisions(OBJECTIVE, decide_unfitted(s), apart.accept, s.accept, s.weight, s.group)
    cal = fit_calibration(s.totals(full.weights)[0], s.accept, s.weight, plan.use_isotonic)
    p = cal.predict(big.totals(full.weights)[0])
    return [
        c.before.low <= base <= c.before.high,
        c.after.low <= truth <= c.after.high,
        c.change.low <= truth - base <= c.change.high,
        claimed(c),
        calibration.expected_calibration_error(calibration.reliability_curve(p, big.accept)),
    ]


def permuted(data: Path, times: int) -> None:
    s = sample_of(*crscore(data, ("python",)))
    claims = {(n, signs): 0 for n in (120, 250, 882) for signs in (False, True)}
    for seed in range(times):
        rng = np.random.default_rng(seed)
        for n, signs in claims:
            rows = rng.permutation(s.y.size)[:n]
            part = some(s, rows)
            part = replace(part, y=rng.permutation(part.y))
            plan = replace(plan_fit(part, OBJECTIVE), free_signs=signs)
            apart = cross_validation.cross_validate(part, plan, rng)
            old = decide_unfitted(part)
            c = compare_decisions(
                OBJECTIVE, old, apart.accept, part.accept, part.weight, part.group
            )
            claims[n, signs] += claimed(c)
    for (n, signs), k in claims.items():
        print(
            f"Permuted CRScore labels, {n}{', --penalties' * signs}: 'improved' claimed in {k} of {times} ({k / times:.1%})"
        )


def power(_: Path, times: int) -> None:
    """Whether "about N labels would prove it" has 80% power, on label sets of N labels."""
    n = 120
    for scene in ("gain", "threshold off"):
        found = [_compare(n, scene, seed) for seed in range(times)]
        asked = [
            estimate_labels_needed(n, c.standard_error, c.groups, c.change.value)
            for c in found
            if not claimed(c) and c.change.value > 0
        ]
        mean = float(np.mean([c.change.value for c in found]))
        error = float(np.mean([c.standard_error for c in found]))
        needed = estimate_labels_needed(n, error, found[0].groups, mean)
        share = np.mean([claimed(_compare(needed, scene, seed + 10_000)) for seed in range(times)])
        print(
            f"Labels that would prove the gain, from {n} labels, {scene}: N = {needed} (gain "
            f"{mean:.3f}) proves it in {share:.0%} of {times}; single label sets say "
            f"{np.quantile(asked, 0.25):.0f} to {np.quantile(asked, 0.75):.0f}"
        )


def _compare(n: int, scene: str, seed: int) -> PairedComparison:
    rng = np.random.default_rng([seed, n])
    s = draw(rng, n, scene, 3)
    apart = cross_validation.cross_validate(s, plan_fit(s, OBJECTIVE), rng)
    old = decide_unfitted(s)
    return compare_decisions(OBJECTIVE, old, apart.accept, s.accept, s.weight, s.group)


def speed(_: Path, __: int) -> None:
    rng = np.random.default_rng(5)
    x = rng.random((500, 10))
    y = rng.random(500) < 1 / (1 + np.exp(-3 * (x - 0.5) @ np.linspace(0, 2, 10)))
    items = [
        Item(f"i{i}", f"g{i // 3}", {f"c{j}": float(v) for j, v in enumerate(row)},
             human={"label": "accept" if ok else "reject"}, rater="a")
        for i, (row, ok) in enumerate(zip(x, y, strict=True))
    ]  # fmt: skip
    rubric = Rubric("s", 1, "d", 0.5, tuple(Criterion(f"c{j}", "measured", "d") for j in range(10)))
    labels = extract_labels(items, None)
    data = build_training_data(rubric, items, labels, infer_scale(labels, None))
    plan = plan_fit(data.sample, OBJECTIVE)
    start = time.perf_counter()
    cross_validation.cross_validate(data.sample, plan, rng)
    nested = time.perf_counter()
    cross_validation.refit_bootstrap(data.sample, plan, rng)
    refits = time.perf_counter()
    tune_rubric(rubric, data, items, OBJECTIVE)
    end = time.perf_counter()
    print(
        f"500 labels x 10 criteria: 5x5 nested CV {nested - start:.2f} s, 1,000 refits "
        f"{refits - nested:.2f} s, together {refits - start:.2f} s; a whole tuning "
        f"{end - refits:.2f} s"
    )


_USAGE = """
import os, resource, subprocess, sys
program = os.path.join(os.path.dirname(sys.executable), "diffcourt")
code = subprocess.run([program, "rubric", *sys.argv[1:]], stdout=2).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(code)
"""
"""In a process of its own: what is forked from this one has its peak of memory."""


def scale(_: Path, __: int) -> None:
    """Processor time and memory of commands, and the former beside parsing the file's JSON."""
    rng = np.random.default_rng(7)
    x = rng.random((10_000, 20)).round(4)
    y = rng.random(10_000) < 1 / (1 + np.exp(-3 * (x - 0.5) @ np.linspace(0, 2, 20)))
    lines = [
        json.dumps({"id": f"i{i}", "group": f"g{i // 3}", "rater": "a", "label": ("reject", "accept")[ok],
                    "scores": {f"c{j}": float(v) for j, v in enumerate(x[i])}})
        for i, ok in enumerate(y.astype(int))
    ]  # fmt: skip
    start = time.process_time()
    for line in lines:
        json.loads(line)
    parsing = time.process_time() - start
    criteria = tuple(Criterion(f"c{j}", "measured", "d") for j in range(20))
    with TemporaryDirectory() as name:
        folder = Path(name)
        items, rubric = folder / "items.jsonl", folder / "s.yaml"
        items.write_text("\n".join(lines) + "\n", encoding="utf-8")
        write_rubric(rubric, Rubric("s", 1, "d", 0.5, criteria))
        frozen = ["--baseline", str(folder / "frozen.json"), "--freeze"]
        for command, *more in (["eval"], ["gate", *frozen], ["gate", *frozen[:2]], ["tune"]):
            given = [sys.executable, "-c", _USAGE, command, str(rubric), str(items), *more]
            done = subprocess.run(given, check=True, stdout=subprocess.PIPE, text=True)
            spent, peak = map(float, done.stdout.split())
            print(
                f"10,000 labels x 20 criteria: {' '.join([command, *more[2:]])} {spent:.2f} s, "
                f"{spent / parsing:.0f} times parsing the file; {peak / 1024:.0f} MiB"
            )


PARTS: dict[str, Callable[[Path, int], None]] = {
    "crscore": gain, "curve": curve, "permuted": permuted, "speed": speed, "scale": scale, "coverage": coverage,
    "power": power, "transfer": transfer, "reference": reference,
}  # fmt: skip


NEED_DATA = {"crscore", "curve", "permuted", "reference", "transfer"}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=SHARED, help="the folder with labels/")
    parser.add_argument("--simulations", type=int, default=100, help="label sets a scene")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas")
    args = parser.parse_args()
    for name in args.only.split(","):
        if name not in PARTS:
            parser.error(describe_unknown_name("part", name, PARTS))
        if name in NEED_DATA and not (args.data / "labels").is_dir():
            print(f"{name}: left out, there is no {args.data / 'labels'}; say --data FOLDER")
        else:
            PARTS[name](args.data, args.simulations)


if __name__ == "__main__":
    main()
