"""The tuning itself: advise, fit, prove or say why not, and name every decision that would flip."""

import math
from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.types import Rubric
from orchestrator.tuning import agreement, cross_validation, decision_rule, generalization
from orchestrator.tuning.calibration import Calibration, calibrate
from orchestrator.tuning.confidence_intervals import Compared, change, compare, number, t_quantile
from orchestrator.tuning.criterion_analysis import Criterion, examine
from orchestrator.tuning.decision_flips import Flip, flips
from orchestrator.tuning.feasibility import Advice, advise
from orchestrator.tuning.items import Item
from orchestrator.tuning.penalty_selection import Plan, Rules, Sample, plan_for, tune_many
from orchestrator.tuning.training_data import Labeled, refuse_unfit
from orchestrator.tuning.weight_fitting import Bools, Floats

SEED = 20260101
STEPS = 20
_FARTHEST = 20  # times the labels at hand: beyond this a guess is no plan


Table = tuple[tuple[float, float], tuple[float, float]]


class Spread(Struct, frozen=True):
    """Labeled items by total, in equal steps from 0 to 1.

    Attributes:
        accepted, rejected: items in each step, by what people say.
    """

    name: str
    threshold: float
    accepted: tuple[float, ...]
    rejected: tuple[float, ...]


class Outcome(Struct, frozen=True):
    """All that a tuning found.

    Attributes:
        proven: the new rubric is better on labels it has not seen, and may be written.
        why: one sentence each: the reasons against, or what proves it.
        rubric: the candidate; None when nothing was fitted.
        compared: held out, None when nothing was fitted; ``kappa`` the same by kappa when the aim
            is cost.
        trivial: held-out value of trivial policies, by name.
        reliability: calibration curve of held-out probabilities, and its error.
        needed: labeled items at which the gain, if it is what it looks like, would be proven.
        flips: of all items, labeled or not.
        spread: totals by label, before and after.
        tables: confusion before and after, held out; rows what people say, reject first.
    """

    proven: bool
    why: tuple[str, ...]
    advice: Advice
    plan: Plan
    seed: int
    rubric: Rubric | None = None
    penalty: float = math.inf
    threshold: tuple[float, float] | None = None
    compared: Compared | None = None
    kappa: Compared | None = None
    trivial: Mapping[str, float] | None = None
    calibration: Calibration | None = None
    reliability: tuple[agreement.Bin, ...] = ()
    ece: float = math.nan
    criteria: tuple[Criterion, ...] = ()
    curve: tuple[cross_validation.Point, ...] = ()
    needed: int | None = None
    flips: tuple[Flip, ...] = ()
    items: int = 0
    spread: tuple[Spread, ...] = ()
    tables: tuple[Table, Table] | None = None


def tune(
    rubric: Rubric,
    data: Labeled,
    items: list[Item],
    aim: decision_rule.Aim,
    seed: int = SEED,
    refits: int = cross_validation.REFITS,
) -> Outcome:
    """Tune a rubric.

    Args:
        data: labeled items, built for this rubric.
        items: all items, for the flips.
        refits: bootstrap refits behind the weights' intervals.

    Raises:
        InputError: labels that nothing can be fitted on.
    """
    refuse_unfit(data, rubric)
    advice = advise(data)
    sample = data.sample
    plan, rng = plan_for(sample, aim), np.random.default_rng(seed)
    if advice.refusals:
        return Outcome(False, advice.refusals, advice, plan, seed)
    chosen = tune_many(sample, plan, sample.weight[None, :], rng)
    apart = cross_validation.cross_validate(sample, plan, rng)
    was = decide(sample, sample.w0, rubric.threshold)
    compared = compare(aim, was, apart.accept, sample.accept, sample.weight, sample.group)
    trivial = _trivial(sample, plan, rng)
    again = cross_validation.refit(sample, plan, rng, refits)
    new, cal = _candidate(rubric, data, plan, chosen)
    curve = tuple(agreement.reliability(apart.p, sample.accept, sample.weight))
    why = _against(sample, aim, compared, trivial)
    if not why:
        why = generalization.does_not_carry(data, plan, rubric.threshold, apart.accept, rng)
    return Outcome(
        proven=not why,
        why=tuple(why) or (_for(aim, compared),),
        advice=advice,
        plan=plan,
        seed=seed,
        rubric=new,
        penalty=float(chosen.lam[0]),
        threshold=(rubric.threshold, new.threshold),
        compared=compared,
        kappa=_by_kappa(sample, was, apart.accept) if aim.by_cost else None,
        trivial=trivial,
        calibration=cal,
        reliability=curve,
        ece=agreement.ece(list(curve)),
        criteria=tuple(examine(sample, data.free, chosen.w[0], again)),
        curve=tuple(cross_validation.learning_curve(sample, plan, rng)),
        needed=_needed(sample, compared),
        flips=tuple(flips(rubric, new, items, labels_by_item(data))),
        items=len({i.id for i in items}),
        spread=_spreads(sample, rubric.threshold, chosen.w[0], new.threshold),
        tables=(_table(sample, was[None, :]), _table(sample, apart.accept)),
    )


def _spreads(
    sample: Sample, threshold: float, weights: Floats, tuned: float
) -> tuple[Spread, Spread]:
    """How the totals spread before and after."""
    return (
        _spread("before", sample, sample.w0, threshold),
        _spread("after", sample, weights, tuned),
    )


def _spread(name: str, sample: Sample, w: Floats, threshold: float) -> Spread:
    t = np.clip(decision_rule.totals(sample.x, w[None, :], sample.blocked)[0], 0.0, 1.0)
    step = np.minimum((t * STEPS).astype(np.int64), STEPS - 1)
    yes, no = (
        np.bincount(step[side], weights=sample.weight[side], minlength=STEPS)
        for side in (sample.accept, ~sample.accept)
    )
    return Spread(name, threshold, tuple(yes.tolist()), tuple(no.tolist()))


def _table(sample: Sample, said: Bools) -> Table:
    """Confusion counts, mean over splits."""
    y, w = sample.accept, sample.weight
    cell = [
        [float((w * ((y == a) & (said == b))).sum(axis=1).mean()) for b in (False, True)]
        for a in (False, True)
    ]
    return (cell[0][0], cell[0][1]), (cell[1][0], cell[1][1])


def decide(sample: Sample, w: Floats, threshold: float) -> Bools:
    """(n,) decisions of one rule."""
    out: Bools = decision_rule.totals(sample.x, w[None, :], sample.blocked)[0] >= threshold
    return out


def _trivial(sample: Sample, plan: Plan, rng: np.random.Generator) -> dict[str, float]:
    """Held-out value of policies that need no tuning of weights."""
    y, w = sample.accept, sample.weight
    equal = replace(sample, w0=np.sign(sample.w0))
    tuned = cross_validation.cross_validate(equal, replace(plan, weights=False), rng)
    everything = np.ones(y.size, dtype=bool)
    return {
        "accept all": float(plan.aim.of(everything, y, w)),
        "reject all": float(plan.aim.of(~everything, y, w)),
        "equal weights, tuned threshold": float(plan.aim.of(tuned.accept, y, w).mean()),
    }


def _by_kappa(sample: Sample, was: Bools, now: Bools) -> Compared:
    return compare(decision_rule.Aim(), was, now, sample.accept, sample.weight, sample.group)


def _against(
    sample: Sample, aim: decision_rule.Aim, compared: Compared, trivial: Mapping[str, float]
) -> list[str]:
    """Why the new rule may not be written, as far as its held-out value tells."""
    why = []
    if aim.by_cost:
        name, best = max(
            ((n, trivial[n]) for n in ("accept all", "reject all")), key=lambda pair: pair[1]
        )
        if best >= compared.after.value:
            verb = "accepting" if name == "accept all" else "rejecting"
            return [
                (
                    f"at these costs {verb} everything is cheaper: {-best:.3f} a decision where "
                    f"the tuned rubric costs {-compared.after.value:.3f}; nothing is written"
                )
            ]
    if compared.delta.low <= 0.0:
        what = "expected cost" if aim.by_cost else "kappa"
        sign = -1 if aim.by_cost else 1
        ends = sorted((sign * compared.delta.low, sign * compared.delta.high))
        why.append(
            f"no gain is proven: held out, {what} goes from {number(sign * compared.before.value)} "
            f"to {number(sign * compared.after.value)}, a change of "
            f"{change(sign * compared.delta.value)}, between {change(ends[0])} and "
            f"{change(ends[1])}"
        )
        needed = _needed(sample, compared)
        if needed is not None:
            why.append(f"if the gain is what it looks like, about {needed:,} labels would prove it")
    elif not aim.by_cost and compared.after.low <= 0.0:
        why.append("even tuned, the rubric agrees with people no better than chance would")
    return why


def _for(aim: decision_rule.Aim, compared: Compared) -> str:
    if aim.by_cost:
        return (
            f"held out, a decision costs {-compared.after.value:.3f} where it cost "
            f"{-compared.before.value:.3f}; the saving lies between {compared.delta.low:.3f} and "
            f"{compared.delta.high:.3f}"
        )
    return (
        f"held out, kappa rises from {number(compared.before.value)} to "
        f"{number(compared.after.value)}; the gain lies between {compared.delta.low:+.2f} and "
        f"{compared.delta.high:+.2f}"
    )


def _needed(sample: Sample, compared: Compared) -> int | None:
    """Labeled items at which a gain of this size would stand clear of its noise."""
    gain = compared.delta.value
    if gain <= 0.0 or compared.delta.low > 0.0:
        return None
    half = t_quantile(compared.groups - 1) * compared.se
    items = sample.items * (half / gain) ** 2
    return math.ceil(items / 10) * 10 if items <= _FARTHEST * sample.items else None


def _candidate(
    rubric: Rubric, data: Labeled, plan: Plan, chosen: Rules
) -> tuple[Rubric, Calibration]:
    """The rubric with fitted weights and threshold, and its calibration."""
    fitted = {n: float(f"{w:.6g}") for n, w in zip(data.free, chosen.w[0], strict=True)}
    if math.isinf(chosen.lam[0]):
        fitted = {}
    threshold = round(min(max(float(chosen.threshold[0]), 0.0), 1.0), 6)
    new = replace(
        rubric,
        threshold=threshold,
        criteria=tuple(replace(c, weight=fitted.get(c.id, c.weight)) for c in rubric.criteria),
        groups=tuple(replace(g, weight=fitted.get(g.id, g.weight)) for g in rubric.groups),
    )
    s = data.sample
    t = decision_rule.totals(s.x, chosen.w, s.blocked)[0]
    return new, calibrate(t, s.accept, s.weight, plan.isotonic)


def labels_by_item(data: Labeled) -> dict[str, str]:
    """What people said of each labeled item, as accept or reject, or both."""
    out: dict[str, str] = {}
    words = np.where(np.isnan(data.ratings), -1, data.ratings >= data.scale.cut)
    for i, item in enumerate(data.items):
        said = {int(v) for v in words[:, i] if v >= 0}
        out[item.id] = "disputed" if len(said) > 1 else ("accept" if 1 in said else "reject")
    return out
