"""What a review is expected to cost and can cost at the most, worked out before anything is asked.

The worst case is what the bounds allow, which the accounts enforce call by call. The expected case
is a guess with its grounds: each agent opens and follows its playbooks, looks around a few times,
reads its files once, and reports, in one iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.catalog.fields import OFFLINE
from orchestrator.engine.agent import AgentResult, first_request
from orchestrator.engine.escalation import Task
from orchestrator.engine.model_config import Price, price_of
from orchestrator.engine.model_routing import answerers
from orchestrator.engine.types import Bounds, Usage
from orchestrator.providers import pricing
from orchestrator.providers.token_counting import likely_tokens
from orchestrator.review.agents import judging, planning, summary
from orchestrator.review.agents.participants import led
from orchestrator.review.review_state import Case, Round

LOOKS = 2
"""Turns in which an agent looks around by itself, beside its playbooks."""

ANSWER = 700
"""Tokens of an answer, thinking included."""

RESULTS = 1_400
"""Tokens that a playbook's tools answer: 5,400 characters on average, measured on this project."""

READ_AT_MOST = 20_000
BYTES_PER_TOKEN = 4

BASIS = (
    f"""Expected: one iteration, in which an agent takes a turn to open each of its playbooks, one
    to follow it, {LOOKS} to look around and one to report; the lead one more, to sum up. An answer
    has {ANSWER} tokens, a playbook's results {RESULTS:,}, each file is read once, and what was sent
    before is read from a cache.""",
    """At most: what the bounds of the agents and of the run allow, at the dearest rates that can
    apply. No call begins whose worst case does not fit what is left.""",
    "A try whose reply was lost may have been billed, and counts at its worst case.",
)
"""How the figures are reckoned, for whoever reads them."""


class Bill(Struct, frozen=True):
    """Tokens, input and output, and US dollars; models without a price add nothing to these."""

    tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: Bill) -> Bill:
        return Bill(self.tokens + other.tokens, self.usd + other.usd)

    def times(self, count: float) -> Bill:
        """So many of it."""
        return Bill(int(self.tokens * count), self.usd * count)

    def within(self, other: Bill) -> Bill:
        """The lesser of both, each part for itself."""
        return Bill(min(self.tokens, other.tokens), min(self.usd, other.usd))


class Share(Struct, frozen=True):
    """One agent's part of one iteration.

    Attributes:
        turns: that it is expected to take.
        prices: of its model, and of those that it can climb to; None where one is not known.
    """

    agent: str
    model: str
    turns: int
    expected: Bill
    worst: Bill
    prices: Mapping[str, Price | None]

    @property
    def price(self) -> Price | None:
        """Of its own model."""
        return self.prices[self.model]

    def __add__(self, other: Share) -> Share:
        """This and another task of the same agent."""
        return replace(
            self,
            turns=self.turns + other.turns,
            expected=self.expected + other.expected,
            worst=self.worst + other.worst,
            prices={**other.prices, **self.prices},
        )


class Estimate(Struct, frozen=True):
    """What a review will cost.

    Attributes:
        shares: of one iteration, in the order in which the agents begin.
        iterations: that the bounds allow; one is expected.
        limit: the most that the whole run may use.
        notes: what a person should know of the models.
    """

    provider: str
    shares: tuple[Share, ...]
    iterations: int
    limit: Bill
    notes: tuple[str, ...] = ()

    @property
    def iteration(self) -> tuple[Bill, Bill]:
        """One iteration, expected and worst."""
        expected = sum((share.expected for share in self.shares), Bill())
        worst = sum((share.worst for share in self.shares), Bill()).within(self.limit)
        return expected.within(worst), worst

    @property
    def total(self) -> tuple[Bill, Bill]:
        """The whole run, expected and worst."""
        expected, worst = self.iteration
        return expected, worst.times(self.iterations).within(self.limit)


def estimate(case: Case) -> Estimate:
    """What a case that has not begun will cost. Nobody is asked anything.

    Raises:
        ConfigError: an agent's rung has no model.
    """
    bounds, provider = case.settings.run_bounds, case.settings.provider
    limit = Bill(int(bounds.tokens), bounds.usd)
    # The offline provider is code, and uses nothing.
    tasks = _tasks(case) if provider != OFFLINE else ()
    shares: dict[str, Share] = {}
    for task in tasks:
        own, name = _share(case, task, limit), task.spec.name
        shares[name] = shares[name] + own if name in shares else own
    every = tuple(shares.values())
    return Estimate(provider, every, int(bounds.iterations), limit, case.notes)


def _tasks(case: Case) -> Iterator[Task]:
    """The tasks of one iteration in which every specialist gets every file."""
    if not case.session.change.files:
        return
    case.rounds.append(Round(1))
    if case.settings.pattern == "single":
        case.round.plan = planning.everything_to(case, case.settings.single)
    else:
        lead = case.catalog.agents[case.settings.lead]
        case.round.plan = planning.read(case, AgentResult(lead.name, "failed"))
        yield Task(lead, planning.lead_brief(case), "")
    yield from planning.tasks(case)
    if judging.wanted(case.settings, case.rubric):
        yield judging.task(case, judging.judged_of(case.rubric), "")
    if led(case.settings):
        yield summary.task(case)


def _share(case: Case, task: Task, limit: Bill) -> Share:
    spec = task.spec
    models = [choice.model for choice in answerers(spec, case.harness.choose)]
    prices = {model: price_of(case.catalog.prices, model) for model in models}
    steps = len(spec.skills) * (2 if case.harness.choose(spec).progressive else 1)
    turns = int(min(steps + LOOKS + 1, spec.bounds.turns))
    used = _conversation(case, task, turns, prices[models[0]])
    worst = _worst(spec.bounds, prices.values(), limit)
    expected = Bill(used.tokens, used.usd).within(worst)
    return Share(spec.name, models[0], turns, expected, worst, prices)


def _conversation(case: Case, task: Task, turns: int, price: Price | None) -> Usage:
    spec = task.spec
    sizes = [case.session.files[path].size for path in planning.reviewable(case)]
    read = sum(min(size, READ_AT_MOST) for size in sizes) // BYTES_PER_TOKEN
    return pricing.conversation(
        price,
        prompt=likely_tokens(first_request(spec, task.brief, case.harness)),
        per_turn=(len(spec.skills) * RESULTS + read) // max(turns - 1, 1),
        output=ANSWER,
        turns=turns,
    )


def _worst(bounds: Bounds, prices: Iterable[Price | None], limit: Bill) -> Bill:
    tokens = int(min(bounds.tokens, limit.tokens))
    dearest = max(pricing.most(price, tokens) if price else 0.0 for price in prices)
    return Bill(tokens, min(bounds.usd, limit.usd, dearest))
