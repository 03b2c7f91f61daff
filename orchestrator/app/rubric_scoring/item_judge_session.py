"""Models that judge labeled items: journal, budget, cache by content, and concurrency.

    item + wording of a criterion + judge  →  a note in ``judgings.db``, if it was scored before
    missing scores                         →  one call per item, as an effect of that journal

So an interrupted scoring continues where it stopped, and after a criterion is reworded only that
one is scored again. Nothing is paid for twice.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import anyio
from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from orchestrator.app.model_opening import open_model
from orchestrator.app.policy_sources import (
    detect_author_tier,
    detect_environment,
    load_policy,
    read_layers_on_disk,
    required_prices,
)
from orchestrator.app.rubric_scoring.item_judge_prompt import (
    PROMPT,
    RULES,
    build_judge_brief,
    check_scores,
    judge_spec,
    read_item_marks,
)
from orchestrator.app.rubric_scoring.rescore import REJUDGE, open_judgings
from orchestrator.app.runs import state_directory
from orchestrator.app.types import ReviewOptions
from orchestrator.catalog.prices import Price, batch_prices, price_of
from orchestrator.code_review.agents.guard_placement import Guards
from orchestrator.engine.agent_context import AgentRuntime
from orchestrator.engine.agent_loop import LoopResult, first_request
from orchestrator.engine.agent_tasks import Task, run_task
from orchestrator.engine.budget import Account
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.executor import Executor
from orchestrator.engine.field_types import shared_fields
from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.rubric_scoring import CriterionMark
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.tool_registry import Registry, ToolPolicy
from orchestrator.engine.types import AgentSpec, Bounds, Criterion
from orchestrator.engine.untrusted_text import run_nonce
from orchestrator.errors import GuardRefused, InputError
from orchestrator.providers import call_costs
from orchestrator.providers.batches import note_open_batch
from orchestrator.providers.reply_normalization import TokenCounts
from orchestrator.providers.token_bounds import estimate_input_tokens
from orchestrator.tuning.file_formats.item_files import Item, name_judge
from orchestrator.tuning.file_formats.rubric_file import describe_wording
from orchestrator.tuning.labels.label_files import now

RUN = "items"
"""The run of ``judgings.db`` that holds the scores of items."""

SCORE = "score"
BUDGET = "all calls"
BATCHED = (
    "calls are sent in batches, answered within a day and often within an hour; after Ctrl-C, the "
    "same command goes on with them"
)
CORRECTED = 1.25
"""What a call that corrects a report uses at most, in parts of the first call."""

OUTPUT_BASE, OUTPUT_PER_CRITERION = 60, 110
"""Tokens of an expected answer."""


class JudgingOptions(Struct, frozen=True):
    """The judge of items and its limits; None leaves a setting to the configuration.

    Attributes:
        model: an escalation stage of the configuration, or a model's name.
        prompt: the judge's system prompt.
        concurrency: number of items that are judged at the same time.
        allow_spending: base may choose a paid provider, and prices; None: only in CI.
        batch: send the calls in batches of the provider, at their lower price.
        round: a name under which items are scored anew, although they were scored before.
        used: by another judge under the same limits.
    """

    repo: Path | None
    provider: str
    model: str = "strong"
    prompt: str = PROMPT
    concurrency: int | None = None
    max_usd: float | None = None
    max_tokens: int | None = None
    round: str = ""
    allow_spending: bool | None = None
    batch: bool = False
    used: Bounds = Bounds(tokens=0.0, usd=0.0)


class JudgingEstimate(Struct, frozen=True):
    """The expected use of calls.

    Attributes:
        usd: None if the model's price is unknown.
    """

    calls: int = 0
    tokens: int = 0
    usd: float | None = 0.0

    def __add__(self, other: "JudgingEstimate") -> "JudgingEstimate":
        unknown = self.usd is None or other.usd is None
        usd = None if unknown else (self.usd or 0.0) + (other.usd or 0.0)
        return JudgingEstimate(self.calls + other.calls, self.tokens + other.tokens, usd)

    def times(self, count: int) -> "JudgingEstimate":
        """So many of it."""
        usd = None if self.usd is None else self.usd * count
        return JudgingEstimate(self.calls * count, self.tokens * count, usd)


class ItemMarks(Struct, frozen=True):
    """The marks of one item in one scoring.

    Attributes:
        usd: their cost when they were scored.
        at: when the oldest of them was scored, ISO 8601.
        why: the error of a failed call, because of which a criterion has no score; else empty.
        out_of_budget: whether that error is an exhausted budget.
    """

    marks: Mapping[str, CriterionMark]
    usd: float = 0.0
    at: str = ""
    why: str = ""
    out_of_budget: bool = False


class Progress(Struct):
    """The progress of a scoring; it is updated.

    Attributes:
        waiting: what is waited for, in words.
    """

    total: int
    done: int = 0
    asked: int = 0
    failed: int = 0
    stopped: str = ""
    waiting: str = ""


class ItemJudge:
    """A model that judges items. Use ``open_item_judge``.

    Attributes:
        runtime: shared by its agents.
        budget: for all calls.
        price: of the model; None if unknown.
        observe_wait: called with what a batch waits for.
    """

    def __init__(
        self, options: JudgingOptions, runtime: AgentRuntime, budget: Account, concurrency: int
    ) -> None:
        self.runtime, self.budget = runtime, budget
        self._concurrency, self._round, self._now = concurrency, options.round, now()
        self._batch = options.batch
        self.observe_wait: Callable[[str], None] = lambda _: None
        self._locks: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)
        self.spec = judge_spec(options.prompt, options.model)
        choice = runtime.choose_model(self.spec)
        self.model, self._effort = choice.model or runtime.model.name, choice.effort
        self.price: Price | None = None
        self.notes: tuple[str, ...] = ()

    def name(self, criteria: Sequence[Criterion]) -> str:
        """The judge's name in scores: the model, and short digests of prompt and wording."""
        wording = digest([[c.id, *describe_wording(c)] for c in criteria])
        return name_judge([self.model], {"agents/judge.md": self.spec.prompt}, wording)

    def known(
        self, criteria: Sequence[Criterion], item: Item, number: int = 0, *, alone: bool = False
    ) -> ItemMarks:
        """The recorded scores.

        Args:
            alone: only scores of a criterion that was scored by itself.
        """
        found: dict[str, CriterionMark] = {}
        usd, times = 0.0, []
        for criterion in criteria:
            noted = self.runtime.journal.noted(self._score_key(criterion, item, number, alone))
            if noted is not None:
                found[criterion.id] = convert(noted["mark"], CriterionMark)
                usd += noted["usd"]
                times.append(noted["at"])
        return ItemMarks(found, usd, min(times, default=""))

    def _score_key(self, criterion: Criterion, item: Item, number: int, alone: bool) -> Key:
        """The key of a score, from everything on which it depends."""
        asked = [self.spec.digest, self.model, self._effort, item.text, item.context, number]
        asked += [self._round] if self._round else []
        topic = f"{SCORE}-alone" if alone else SCORE
        return Key(topic, subject=digest([*asked, criterion.id, *describe_wording(criterion)]))

    def estimate(
        self,
        criteria: Sequence[Criterion],
        items: Sequence[Item],
        repeat: int = 1,
        *,
        recorded: bool = True,
        alone: bool = False,
    ) -> JudgingEstimate:
        """Estimate what scoring items will use.

        Args:
            recorded: recorded scores cost nothing; False: ignore them.
            alone: as for ``score``.
        """
        total = JudgingEstimate(usd=None if self.price is None else 0.0)
        for item in items:
            for number in range(repeat):
                found = self.known(criteria, item, number, alone=alone)
                known = found.marks if recorded else {}
                missing = [c for c in criteria if c.id not in known]
                if missing:
                    brief = build_judge_brief(missing, item, self.runtime.executor.nonce)
                    answer = OUTPUT_BASE + OUTPUT_PER_CRITERION * len(missing)
                    total += self.estimate_call(self.spec, brief, answer)
        return total

    def estimate_call(self, spec: AgentSpec, brief: str, answer: int) -> JudgingEstimate:
        """Estimate what one call of an agent without tools will use."""
        tokens = estimate_input_tokens(first_request(spec, brief, self.runtime))
        price = self.price
        usd = None if price is None else call_costs.compute_cost(price, TokenCounts(tokens, answer))
        return JudgingEstimate(1, tokens + answer, usd)

    async def score(
        self,
        criteria: Sequence[Criterion],
        items: Sequence[Item],
        repeat: int = 1,
        *,
        alone: bool = False,
        account: Account | None = None,
        observe: Callable[[Progress], None] = lambda _: None,
    ) -> dict[tuple[str, int], ItemMarks]:
        """Score items; recorded scores are reused.

        Args:
            alone: score one criterion by itself, even if it was scored with others: other criteria
                may influence its score, and wordings are compared under equal conditions.
            account: the part of ``budget`` for these calls; None: all of it.
            observe: called after each item.

        Returns:
            (item id, number of the scoring) → marks; without criteria for which the budget was
            exhausted.

        Raises:
            ProviderRefused: no model can be called.
        """
        account = account or self.budget
        limiter = anyio.CapacityLimiter(self._count_at_once(criteria, items, account))
        jobs = [(item, number) for item in items for number in range(repeat)]
        progress, out = Progress(len(jobs)), dict[tuple[str, int], ItemMarks]()

        def observe_wait(waiting: str) -> None:
            progress.waiting = waiting
            observe(progress)

        self.observe_wait = observe_wait

        async def one(item: Item, number: int) -> None:
            # Items of the same text are one question.
            async with self._locks[digest([item.text, item.context, number])], limiter:
                out[item.id, number] = await self._score_one(
                    criteria, item, number, account, progress, alone
                )
                progress.done += 1
                observe(progress)

        async with task_group() as group:
            for item, number in jobs:
                group.start_soon(one, item, number)
        return {(item.id, number): out[item.id, number] for item, number in jobs}

    def _count_at_once(
        self, criteria: Sequence[Criterion], items: Sequence[Item], account: Account
    ) -> int:
        """How many items are judged at the same time: in a batch, all that the budget can hold."""
        if not self._batch or not items:
            return self._concurrency
        longest = max(items, key=lambda item: len(item.text) + len(item.context))
        brief = build_judge_brief(criteria, longest, self.runtime.executor.nonce)
        with suppress(GuardRefused):
            worst = self.runtime.model.worst_case(first_request(self.spec, brief, self.runtime))
            needed = [("tokens", worst.tokens), ("usd", worst.usd)]
            fit = [account.left(name) / (most * CORRECTED) for name, most in needed if most]
            return max(int(min(len(items), *fit)), 1)
        return self._concurrency

    async def _score_one(
        self,
        criteria: Sequence[Criterion],
        item: Item,
        number: int,
        account: Account,
        progress: Progress,
        alone: bool,
    ) -> ItemMarks:
        known = self.known(criteria, item, number, alone=alone)
        missing = [c for c in criteria if c.id not in known.marks]
        if not missing:
            return known
        if progress.stopped:
            return replace(known, why=progress.stopped, out_of_budget=True)
        progress.asked += 1
        result, usd = await self._ask(missing, item, number, account)
        if result.status != "ok":
            progress.failed += 1
            why = f"the judge {result.status}: {result.detail}"
            names = tuple(f"{one.name}:" for one in (account, self.budget))
            stopped = result.status == "budget" and result.detail.startswith(names)
            progress.stopped = progress.stopped or (why if stopped else "")
            return replace(known, usd=known.usd + usd, why=why, out_of_budget=stopped)
        marks = read_item_marks(missing, item, result.report)
        for criterion in missing:
            mark = to_builtins(marks[criterion.id])
            body = {"mark": mark, "usd": usd / len(missing), "at": self._now}
            for by_itself in (False, True) if len(missing) == 1 else (False,):
                key = self._score_key(criterion, item, number, by_itself)
                if self.runtime.journal.noted(key) is None:
                    self.runtime.journal.note(key, body)
        return ItemMarks({**known.marks, **marks}, known.usd + usd, known.at or self._now)

    async def _ask(
        self, criteria: Sequence[Criterion], item: Item, number: int, account: Account
    ) -> tuple[LoopResult, float]:
        runtime = replace(self.runtime, check_report=partial(check_scores, criteria, item))
        brief = build_judge_brief(criteria, item, runtime.executor.nonce)
        return await self.run(self.spec, brief, account, runtime=runtime, number=number)

    async def run(
        self,
        spec: AgentSpec,
        brief: str,
        account: Account,
        *,
        runtime: AgentRuntime | None = None,
        number: int = 0,
    ) -> tuple[LoopResult, float]:
        """Run an agent without tools on a brief; returns its result and what it cost, in dollars.

        It is recorded under a key made from everything on which the result depends. A failed
        attempt is repeated under the next key.
        """
        runtime = runtime or self.runtime
        if self._batch:  # it takes hours, and each restart would count as a lost attempt
            spec = replace(spec, bounds=Bounds(turns=spec.bounds.turns))
        journal, choice = runtime.journal, runtime.choose_model(spec)
        asked = [spec.digest, spec.name, self.model, choice.effort, brief, number]
        request = digest([*asked, self._round] if self._round else asked)
        attempt = 1
        while journal.noted(Key(f"failed-{REJUDGE}", subject=f"{request}.{attempt}")) is not None:
            attempt += 1
        key = Key(REJUDGE, name=f"{request}.{attempt}")
        own, before = Account(account.name, account.bounds, parent=account), journal.recorded(key)
        result = await run_task(Task(spec, brief, key), runtime, own)
        if result.status != "ok":
            why: dict[str, object] = {"why": result.detail}
            journal.note(Key(f"failed-{REJUDGE}", subject=f"{request}.{attempt}"), why)
        # The journal has what earlier sessions paid; the search reads all rows.
        return result, journal.spent(key).usd if before else own.used.usd


@asynccontextmanager
async def open_item_judge(options: JudgingOptions) -> AsyncIterator[ItemJudge]:
    """Open the judge of items, with the settings of the work tree.

    Raises:
        InputError: there is no such provider, its key is missing, or --max-usd needs a price.
        StoreError: another process is judging items of this repository.
    """
    given = ReviewOptions(**shared_fields(options, ReviewOptions))
    policy = load_policy(read_layers_on_disk(options.repo), given)
    prices = required_prices(policy, given)
    judge: ItemJudge

    def observe_wait(waiting: str) -> None:
        judge.observe_wait(waiting)

    async with (
        open_judgings(state_directory.state_dir(options.repo), RUN) as journal,
        open_model(
            policy.settings,
            catalog := policy.catalog,
            journal,
            required_prices=prices,
            agents=[judge_spec(options.prompt, options.model)],
            batched=observe_wait if options.batch else None,
        ) as opened,
    ):
        guards = Guards(catalog.guards, detect_environment(), detect_author_tier(), journal)
        runtime = AgentRuntime(
            model=guards.model(opened.model),
            executor=await _make_executor(journal),
            journal=journal,
            observer=ignore_event,
            rules=RULES,
            choose_model=opened.choose_model,
            outgoing=guards.outgoing(opened.model),
        )
        bounds = policy.settings.run_bounds
        # With a bound in dollars and a known price, tokens need no bound of their own.
        free = options.max_tokens is None and options.max_usd is not None
        tokens = float("inf") if free else max(bounds.tokens - options.used.tokens, 0.0)
        budget = Account(BUDGET, Bounds(tokens=tokens, usd=max(bounds.usd - options.used.usd, 0.0)))
        judge = ItemJudge(
            options, runtime, budget, options.concurrency or policy.settings.concurrency
        )
        known = prices or catalog.prices
        charged = batch_prices(known) if options.batch else known
        judge.price = price_of(charged, catalog.models.split(judge.model)[1])
        if judge.price is None and options.max_usd is not None:
            raise InputError(
                f"--max-usd needs a price of {judge.model}; name one in config/prices.yaml, or "
                "limit the tokens with --max-tokens"
            )
        judge.notes = (*policy.notes, *[BATCHED][: options.batch], *note_open_batch(journal))
        yield judge


async def _make_executor(journal: Journal) -> Executor:
    nonce = await run_nonce(journal)
    return Executor(Registry([]), ToolPolicy(), journal, nonce=nonce, observer=ignore_event)


def describe_limits(budget: Account) -> str:
    """The limits of calls, in words; empty without limits."""
    bounds, parts = budget.bounds, list[str]()
    if bounds.usd < float("inf"):
        parts.append(f"{bounds.usd:.2f} USD")
    if bounds.tokens < float("inf"):
        parts.append(f"{bounds.tokens:,.0f} tokens")
    return " and ".join(parts)
