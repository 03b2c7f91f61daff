"""The stop rules: iterate, or stop and why. Plain code over plain facts, applied in this order:

1. budget: a hard limit was reached.
2. human: only a person can decide.
3. done: all planned checks ran, and the score is accepted.
4. stagnation: nothing is missing, or another iteration would not help.
5. budget: all iterations are used.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from orchestrator.catalog.settings import StagnationPolicy
from orchestrator.wording import count_noun

Reason = Literal["done", "budget", "stagnation", "human", "cancelled"]


class IterationFacts(Struct, frozen=True):
    """The facts of one iteration.

    Attributes:
        score: the judge's total, None when nothing could be scored.
        accepted: the score meets the threshold, and no criterion blocks.
        judged: a judge took part in the score.
        gates: deterministic gates that do not hold, in words.
        missing: what another iteration could collect, in words.
        failures: signatures of what failed, equal for the same failure.
        evidence, touched: ids of all evidence so far; who examined which file, and verified fixes.
        uncertain: open questions and gaps, in words.
        gaps: number of parts that could not be examined.
        output: the agents' reports as text, compared to detect repetition.
        budget: the limit that was reached, in words, or empty.
        human: what only a person can decide, in words, or empty.
    """

    score: float | None
    accepted: bool
    judged: bool = False
    gates: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    failures: frozenset[str] = frozenset()
    evidence: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()
    uncertain: tuple[str, ...] = ()
    gaps: int = 0
    output: str = ""
    budget: str = ""
    human: str = ""


class StopDecision(Struct, frozen=True):
    """The end of a run."""

    reason: Reason
    detail: str


def decide_stop(
    history: Sequence[IterationFacts], policy: StagnationPolicy, max_iterations: float
) -> StopDecision | None:
    """Whether to stop after the last of these iterations; None means iterate."""
    last = history[-1]
    if last.budget:
        return StopDecision("budget", last.budget)
    if last.human:
        return StopDecision("human", last.human)
    if not last.gates and last.accepted:
        accepts = ", and the judge accepts the review" if last.judged else ""
        gaps = f"; {count_noun(last.gaps, 'gap')} left" if last.gaps else ""
        return StopDecision("done", f"all planned checks ran{accepts}{gaps}")
    if not last.missing:
        scored = "nothing was scored"
        if last.score is not None:
            scored = f"the score of {last.score:.2f} is not accepted"
        why = f"{scored}, and nothing is missing that another iteration could get"
        return StopDecision("stagnation", why)
    if stuck := _stagnation(history, policy):
        return StopDecision("stagnation", stuck)
    if len(history) >= max_iterations:
        return StopDecision("budget", f"all {max_iterations:g} iterations are used")
    return None


def _stagnation(history: Sequence[IterationFacts], policy: StagnationPolicy) -> str:
    """Why a further iteration would not help, or empty."""
    if repeated := _same_failure(history, policy.same_failure):
        return f"the same failure {policy.same_failure} times in a row: {repeated}"
    if len(history) < 2:
        return ""
    before, last = history[-2], history[-1]
    gained = _gain(before, last)
    new = (last.evidence - before.evidence) or (last.touched - before.touched)
    settled = (last.gaps, len(last.uncertain)) < (before.gaps, len(before.uncertain))
    if not new and not settled and gained < policy.epsilon:
        return "the last iteration found no evidence, settled nothing and did not raise the score"
    recent = history[-policy.flat_rounds - 1 :]
    if len(recent) > policy.flat_rounds and all(
        _gain(a, b) < policy.epsilon for a, b in pairwise(recent)
    ):
        return f"the score gained less than {policy.epsilon:g} in {policy.flat_rounds} iterations"
    if _alike(before.output, last.output) >= policy.similarity and not new:
        return "the last two iterations say nearly the same"
    return ""


def _same_failure(history: Sequence[IterationFacts], times: int) -> str:
    if len(history) < times:
        return ""
    shared = frozenset.intersection(*(iteration.failures for iteration in history[-times:]))
    return min(shared, default="")


def _gain(before: IterationFacts, after: IterationFacts) -> float:
    return (after.score or 0.0) - (before.score or 0.0)


def _alike(a: str, b: str) -> float:
    """Similarity of two texts by lines, 0 to 1; only the first 2,000 lines count."""
    if not a:
        return 0.0
    return SequenceMatcher(None, a.splitlines()[:2000], b.splitlines()[:2000], False).ratio()
