"""What a review is expected to cost and can cost at the most, worked out before anything is asked.

The worst case is what the bounds allow, which the accounts enforce call by call. The expected case
is a guess with its grounds: each agent follows its playbooks, looks around a few times, reads its
files once, and reports, in one iteration.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.catalog.prices import Price, price_of
from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.code_review.agents import judging, planning, summary, verifier
from orchestrator.code_review.agents.briefs import task_about
from orchestrator.code_review.agents.participants import has_verifier, named_vendors, needs_judge
from orchestrator.code_review.agents.shared_opening import MAX_FINDINGS_TOKENS
from orchestrator.code_review.review_state import Iteration, ReviewState
from orchestrator.code_review.verdict.document_parts import describe_tier
from orchestrator.data_directories import read_table
from orchestrator.engine.agent_loop import LoopResult, first_request
from orchestrator.engine.agent_tasks import Task
from orchestrator.engine.model_routing import candidate_models
from orchestrator.engine.types import Request
from orchestrator.providers import call_costs
from orchestrator.providers.token_bounds import estimate_input_tokens

LOOKS = 2
"""Turns in which an agent looks around by itself, beside its playbooks."""

ANSWER = 700
"""Tokens of an answer, thinking included."""

RESULTS = 1_400
"""Tokens that a playbook's tools answer: 5,400 characters on average, measured on this project."""

READ_AT_MOST = 20_000
BYTES_PER_TOKEN = 4

BASIS = tuple(
    text.format(looks=LOOKS, answer=ANSWER, results=RESULTS, findings=MAX_FINDINGS_TOKENS)
    for text in read_table(__file__, "cost_basis.yaml")
)
"""How the figures are computed, for the report."""


class EstimatedUse(Struct, frozen=True):
    """Tokens, input and output, and US dollars; models without a price add nothing to these."""

    tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: "EstimatedUse") -> "EstimatedUse":
        return EstimatedUse(self.tokens + other.tokens, self.usd + other.usd)

    def times(self, count: float) -> "EstimatedUse":
        """So many of it."""
        return EstimatedUse(int(self.tokens * count), self.usd * count)

    def within(self, other: "EstimatedUse") -> "EstimatedUse":
        """The lesser of both, each part for itself."""
        return EstimatedUse(min(self.tokens, other.tokens), min(self.usd, other.usd))


class AgentEstimate(Struct, frozen=True):
    """One agent's part of one iteration.

    Attributes:
        turns: that it is expected to take.
        prices: of its model, and of those that it can escalate to; None where one is not known.
    """

    agent: str
    model: str
    turns: int
    expected: EstimatedUse
    worst: EstimatedUse
    prices: Mapping[str, Price | None]

    def __add__(self, other: "AgentEstimate") -> "AgentEstimate":
        """This and another task of the same agent."""
        return replace(
            self,
            turns=self.turns + other.turns,
            expected=self.expected + other.expected,
            worst=self.worst + other.worst,
            prices={**other.prices, **self.prices},
        )


class ReviewEstimate(Struct, frozen=True):
    """What a review will cost.

    Attributes:
        shares: of one iteration, in the order in which the agents begin.
        iterations: that the bounds allow; one is expected.
        limit: the most that the whole run may use.
        notes: what a person should know of the models.
    """

    provider: str
    shares: tuple[AgentEstimate, ...]
    iterations: int
    limit: EstimatedUse
    notes: tuple[str, ...] = ()

    @property
    def iteration(self) -> tuple[EstimatedUse, EstimatedUse]:
        """One iteration, expected and worst."""
        expected = sum((share.expected for share in self.shares), EstimatedUse())
        worst = sum((share.worst for share in self.shares), EstimatedUse()).within(self.limit)
        return expected.within(worst), worst

    @property
    def total(self) -> tuple[EstimatedUse, EstimatedUse]:
        """The whole run, expected and worst."""
        expected, worst = self.iteration
        return expected, worst.times(self.iterations).within(self.limit)


def estimate(state: ReviewState) -> ReviewEstimate:
    """Estimate what a review that has not begun will cost. No model is called."""
    bounds, provider = state.given.settings.run_bounds, state.given.settings.provider
    limit = EstimatedUse(int(bounds.tokens), bounds.usd)
    # The offline provider is code, and uses nothing.
    tasks = _one_iteration(state) if provider != OFFLINE else ()
    shares: dict[str, AgentEstimate] = {}
    opened: set[str] = set()
    for task in tasks:
        own, name = _estimate_share(state, task, limit, opened), task.spec.name
        shares[name] = shares[name] + own if name in shares else own
    every = tuple(shares.values())
    notes = state.given.notes
    if (found := state.assignment) is not None:
        tier = f"{describe_tier(found)}, before the analyzers have run"
        notes = (*notes, f"{tier}; {found.reason}")
    vendors = ", ".join(named_vendors(state.given.catalog, state.given.settings))
    return ReviewEstimate(vendors, every, int(bounds.iterations), limit, notes)


def _one_iteration(state: ReviewState) -> Iterator[Task]:
    """The tasks of one iteration in which the lead leaves nothing out."""
    if not state.given.workspace.change.files:
        return
    state.iterations.append(Iteration(1))
    if not state.is_led:
        state.iteration.plan = planning.plan_by_code(state)
    else:
        task = planning.lead_task(state)
        state.iteration.plan = planning.read_plan(state, LoopResult(task.spec.name, "failed"))
        yield task
    yield from planning.build_tasks(state)
    if has_verifier(state.given.settings) and not state.is_trivial:
        yield task_about(state, verifier.choose_verifier(state), "verify", claims=(), code=())
    if needs_judge(state.given.settings, state.rubric):
        yield judging.build_judge_task(
            state, judging.judged_criteria(state.rubric), state.iteration.key("judge"), {}
        )
    if state.is_led_by_model:
        yield summary.build_summary_task(state)


def _estimate_share(
    state: ReviewState, task: Task, limit: EstimatedUse, opened: set[str]
) -> AgentEstimate:
    """One task's share.

    Args:
        opened: models that were sent the opening before; its own is added.
    """
    spec = task.spec
    models = [choice.model for choice in candidate_models(spec, state.runtime.choose_model)]
    split, known = state.given.catalog.models.split, state.given.catalog.prices
    prices = {model: price_of(known, split(model)[1]) for model in models}
    looks = 0 if state.is_trivial else bool(spec.skills) + LOOKS
    turns = int(min(looks + 1, spec.bounds.turns))
    request = first_request(spec, task.brief, state.runtime)
    shared = _shared_tokens(request)
    cached = shared if models[0] in opened else 0
    opened |= {models[0]} if shared else set()
    tasks = [one for one in state.iteration.plan.tasks if one.agent == spec.name]
    paths = {path for one in tasks for path in one.paths} or planning.reviewable_paths(state)
    sizes = [state.given.workspace.files[path].size for path in paths]
    read = sum(min(size, READ_AT_MOST) for size in sizes) // BYTES_PER_TOKEN
    read += sum(RESULTS for skill in spec.skills if skill.tools)
    used = call_costs.estimate_conversation(
        prices[models[0]],
        prompt=estimate_input_tokens(request),
        cached=cached,
        per_turn=read // max(turns - 1, 1),
        output=ANSWER,
        turns=turns,
    )
    tokens = int(min(spec.bounds.tokens, limit.tokens))
    costs = (call_costs.max_total_cost(one, tokens) if one else 0.0 for one in prices.values())
    worst = EstimatedUse(tokens, min(spec.bounds.usd, limit.usd, max(costs)))
    expected = EstimatedUse(used.tokens, used.usd).within(worst)
    return AgentEstimate(spec.name, models[0], turns, expected, worst, prices)


def _shared_tokens(request: Request) -> int:
    """Tokens of what a request has in common with those of other agents; 0 without an opening."""
    first = request.messages[0]
    if len(first.blocks) == 1:
        return 0
    opening = replace(first, blocks=first.blocks[:1])
    return estimate_input_tokens(replace(request, messages=(opening,)))
