"""Rewords a judged criterion with a model, and keeps a wording proven on held-out groups."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from orchestrator.app.event_loop import blocking
from orchestrator.app.rubric_scoring.criterion_writer import (
    build_writer_brief,
    check_wordings,
    read_wordings,
    references,
    writer_spec,
)
from orchestrator.app.rubric_scoring.item_judge_session import (
    ItemJudge,
    JudgingOptions,
    Progress,
    describe_limits,
    open_item_judge,
)
from orchestrator.app.rubric_scoring.score_items import Quote, require_affordable, require_texts
from orchestrator.code_review.agents.judging import judged_criteria
from orchestrator.engine.budget import Account
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.rubric_scoring import CriterionMark, Given
from orchestrator.engine.types import Bounds, Criterion, Rubric
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import Item, hash_groups, unique_items
from orchestrator.tuning.file_formats.rubric_file import describe_wording, digest_criteria
from orchestrator.tuning.labels.label_files import Label
from orchestrator.tuning.rewrite_search import (
    Candidate,
    Halves,
    SearchResult,
    ShownItem,
    search,
    split_halves,
)
from orchestrator.tuning.text_measures import add_measures

HELD_OUT_RESERVE = 1.5
"""What is kept for the proof, in parts of its estimate."""

LOOK = "look"

WRITER_ANSWER = 1_200
"""Tokens of an expected answer of the writer."""


class RewriteOptions(Struct, frozen=True):
    """The options of the search for a wording.

    Attributes:
        rounds: number of calls of the writer.
        proposals: wordings per call.
    """

    criterion: str
    rounds: int = 3
    proposals: int = 2
    accept_at: float | None = None
    seed: int = 20260101


class RewritePlan(Struct, frozen=True):
    """The plan of a rewrite, before any model is called.

    Attributes:
        detectable: gain in kappa that the held-out half proves with about 80% power.
        by_criterion: labels of the criterion decide, not those of the whole item.
    """

    quote: Quote
    training: int
    held_out: int
    rounds: int
    proposals: int
    detectable: float
    by_criterion: bool


class Rewrite(Struct, frozen=True):
    """The result of a rewrite.

    Attributes:
        rubric: with the proven wording, the next version and the proof as provenance; None if no
            gain is proven.
        usd, tokens: used by the calls of this session; ``usd`` is None without a known price.
        looks: number of wordings that were tested on this held-out half so far.
    """

    plan: RewritePlan
    found: SearchResult
    rubric: Rubric | None
    usd: float | None
    tokens: int
    looks: int


@blocking
async def rewrite_criterion(  # noqa: PLR0917 - what is reworded, how, and who watches
    rubric: Rubric,
    items: Sequence[Item],
    labels: Sequence[Label],
    options: RewriteOptions,
    judging: JudgingOptions,
    agree: Callable[[RewritePlan], bool],
    observe: Callable[[str, Progress], None],
) -> Rewrite | None:
    """Reword a criterion.

    Args:
        agree: is shown the plan, and returns whether to continue.

    Returns:
        None if ``agree`` returns False.

    Raises:
        InputError: there is no such judged criterion, too few labels, no text, or the expected cost
            exceeds a default limit.
    """
    criterion = _find_criterion(rubric, options.criterion)
    rated = {label.item for label in labels}
    texts = [item for item in add_measures(rubric, unique_items(items)) if item.id in rated]
    require_texts(texts)
    halves = split_halves(rubric, criterion, texts, labels, options.accept_at, options.seed)
    async with open_item_judge(judging) as judge:
        work = _Work(rubric, criterion, halves, options, judge, observe)
        plan = work.plan()
        if not agree(plan):
            return None
        require_affordable(judge, plan.quote.estimate, judging)
        found = await work.run()
        used = judge.budget.used
        new = _write(rubric, criterion, found, judge, halves) if found.proven else None
        usd = None if judge.price is None else used.usd
        return Rewrite(plan, found, new, usd, int(used.tokens), work.looks)


def _find_criterion(rubric: Rubric, name: str) -> Criterion:
    known = judged_criteria(rubric)
    for criterion in known:
        if criterion.id == name:
            return criterion
    names = ", ".join(c.id for c in known) or "none"
    raise InputError(f"{rubric.name!r} has no judged criterion {name!r}; it has: {names}")


class _Work:
    """One rewrite: answers the search's questions with models."""

    def __init__(
        self,
        rubric: Rubric,
        criterion: Criterion,
        halves: Halves,
        options: RewriteOptions,
        judge: ItemJudge,
        observe: Callable[[str, Progress], None],
    ) -> None:
        self._rubric, self._criterion, self._options = rubric, criterion, options
        self._halves, self._judge, self._observe = halves, judge, observe
        self._held_out = {item.id for item in halves.held_out}
        self._writer = writer_spec(judge.spec.model)
        others = () if halves.by_criterion else judged_criteria(rubric)
        self._others = [c for c in others if c.id != criterion.id and c.weight]
        self._search = judge.budget
        self._scored = self.looks = 0
        self._failures: dict[str, list[str]] = {"writer": [], "judge": []}
        self._answers = {"writer": 0, "judge": 0}

    def plan(self) -> RewritePlan:
        """The plan; reserves the budget of the proof, so that the search cannot use it."""
        judge, options, halves = self._judge, self._options, self._halves
        own = [self._criterion]
        base = judge.estimate(own, [*halves.training, *halves.held_out], alone=True)
        for other in self._others:
            base += judge.estimate([other], self._without(other))
        candidate = judge.estimate(own, halves.training, recorded=False)
        proof = judge.estimate(own, halves.held_out, recorded=False)
        brief = self._brief_size()
        writing = judge.estimate_call(self._writer, brief, WRITER_ANSWER).times(options.rounds)
        tried = candidate.times(options.rounds * (options.proposals + 1))
        bounds = judge.budget.bounds
        tokens = bounds.tokens - proof.tokens * HELD_OUT_RESERVE
        usd = bounds.usd - (proof.usd or 0.0) * HELD_OUT_RESERVE
        limits = Bounds(tokens=max(tokens, 0.0), usd=max(usd, 0.0))
        self._search = Account("the search", limits, parent=judge.budget)
        quote = Quote(
            judge.model, len(halves.training) + len(halves.held_out), 1, 1,
            base + writing + tried + proof, describe_limits(judge.budget), 0, judge.notes,
        )  # fmt: skip
        return RewritePlan(
            quote,
            len(halves.training),
            len(halves.held_out),
            options.rounds,
            options.proposals,
            halves.detectable,
            halves.by_criterion,
        )

    def _without(self, criterion: Criterion) -> list[Item]:
        every = (*self._halves.training, *self._halves.held_out)
        return [item for item in every if criterion.id not in item.scores]

    def _brief_size(self) -> str:
        shown = [
            ShownItem(item, "accept", True, CriterionMark(None, ""))
            for item in self._halves.training[:12]
        ]
        dummy = Candidate(self._criterion, {}, np.zeros(0, dtype=bool), 0.0)
        return build_writer_brief(self._rubric, dummy, shown, [], self._options.proposals, "")

    async def run(self) -> SearchResult:
        """Score missing criteria, then search."""
        filled = await self._fill()
        if filled is None:
            return SearchResult(None, None, (math.nan, math.nan), 0, stopped=True)
        options = self._options
        found = await search(
            self._criterion, filled, self.score, self.propose, options.rounds, options.seed
        )
        return replace(found, failed=self._describe_failure())

    def _describe_failure(self) -> str:
        """Why every call of the writer, or of the judge, failed; empty where one did not."""
        for who, failures in self._failures.items():
            if failures and not self._answers[who]:
                return f"every call of the {who} failed ({len(failures)}), the last: {failures[-1]}"
        return ""

    async def _fill(self) -> Halves | None:
        """The halves with scores of all other criteria; None if the budget is exhausted."""
        scores: dict[str, dict[str, Given]] = {}
        for other in self._others:
            items = self._without(other)
            found = await self._score(other, items, f"scoring {other.id}", self._search)
            if found is None:
                return None
            for name, mark in found.items():
                scores.setdefault(name, {})[other.id] = mark.given
        training, held_out = (
            tuple(replace(i, scores={**i.scores, **scores.get(i.id, {})}) for i in half)
            for half in (self._halves.training, self._halves.held_out)
        )
        return replace(self._halves, training=training, held_out=held_out)

    async def score(
        self, criterion: Criterion, items: Sequence[Item]
    ) -> Mapping[str, CriterionMark] | None:
        """A wording's marks; the proof may use the budget reserved for it."""
        proof = bool(items) and items[0].id in self._held_out
        if proof:
            self._note_look(criterion)
            return await self._score(criterion, items, "held-out half", self._judge.budget)
        self._scored += 1
        name = "present wording" if self._scored == 1 else f"wording {self._scored - 1}"
        return await self._score(criterion, items, name, self._search)

    def _note_look(self, wording: Criterion) -> None:
        """Count the wordings that were tested on this held-out half."""
        if wording == self._criterion:
            return
        journal = self._judge.runtime.journal
        half = digest([[x.item, x.label] for x in self._halves.labels if x.item in self._held_out])
        key = Key(LOOK, subject=f"{half}/{digest(describe_wording(wording))}")
        if journal.noted(key) is None:
            journal.note(key, {"criterion": wording.id})
        self.looks = len(journal.notes(Key(LOOK, subject=half)))

    async def _score(
        self, criterion: Criterion, items: Sequence[Item], what: str, account: Account
    ) -> Mapping[str, CriterionMark] | None:
        found = await self._judge.score(
            [criterion],
            items,
            alone=criterion.id == self._criterion.id,
            account=account,
            observe=lambda progress: self._observe(what, progress),
        )
        # An item whose call failed counts as abstained, with every wording alike.
        if any(marks.out_of_budget for marks in found.values()):
            return None
        for marks in found.values():
            self._note_call("judge", marks.why)
        abstained = CriterionMark(None, "the judge's call failed")
        return {i.id: found[i.id, 0].marks.get(criterion.id, abstained) for i in items}

    def _note_call(self, who: str, failure: str) -> None:
        self._answers[who] += not failure
        self._failures[who] += [failure] if failure else []

    async def propose(
        self, candidate: Candidate, shown: Sequence[ShownItem], pool: Sequence[Candidate]
    ) -> list[Criterion] | None:
        """New wordings; none if the writer fails, None if the budget is exhausted."""
        count, judge = self._options.proposals, self._judge
        check = partial(check_wordings, references(shown))
        runtime = replace(judge.runtime, check_report=check)
        nonce = runtime.executor.nonce
        brief = build_writer_brief(self._rubric, candidate, shown, pool, count, nonce)
        result, _ = await judge.run(self._writer, brief, self._search, runtime=runtime)
        if result.status == "budget":
            return None
        self._note_call("writer", "" if result.status == "ok" else result.detail)
        if result.status != "ok":
            return []
        return read_wordings(self._criterion, shown, result.report, count)


def _write(
    rubric: Rubric, old: Criterion, found: SearchResult, judge: ItemJudge, halves: Halves
) -> Rubric:
    """The rubric with the proven wording and its proof."""
    assert found.best is not None
    assert found.proof is not None
    best = found.best
    criteria = tuple(best if c.id == old.id else c for c in rubric.criteria)
    new = replace(rubric, version=rubric.version + 1, criteria=criteria)
    rewritten = {
        "criterion": old.id,
        "judge": judge.name([best]),
        "from": {
            "name": rubric.name,
            "version": rubric.version,
            "criteria": digest_criteria(rubric),
        },
        "held_out": {
            "items": found.proof.items,
            "groups": found.proof.groups,
            **found.proof.comparison.to_provenance(),
        },
        "training_items": len(halves.training),
        "groups": hash_groups(halves.training),
        "wordings_tried": found.tried,
    }
    return replace(new, provenance={**rubric.provenance, "rewritten": rewritten})
