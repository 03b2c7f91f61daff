"""Scores labeled items with a rubric: measured text criteria by code, judged ones by a model."""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.app.event_loop import blocking
from orchestrator.app.rubric_scoring.item_judge_session import (
    ItemJudge,
    ItemMarks,
    JudgingEstimate,
    JudgingOptions,
    Progress,
    describe_limits,
    open_item_judge,
)
from orchestrator.code_review.agents.judging import judged_criteria
from orchestrator.engine.types import Rubric
from orchestrator.errors import InputError
from orchestrator.tuning.file_formats.item_files import Item, unique_items
from orchestrator.tuning.text_measures import add_measures


class Quote(Struct, frozen=True):
    """The expected cost of a scoring, before any model is called.

    Attributes:
        known: number of recorded scorings.
        limits: of all calls, in words.
    """

    model: str
    items: int
    criteria: int
    repeat: int
    estimate: JudgingEstimate
    limits: str
    known: int
    notes: tuple[str, ...] = ()


class ScoredItems(Struct, frozen=True):
    """Items with their scores.

    Attributes:
        rows: scored items, in the order of the input, each scoring after the other.
        unscored: item id → why a criterion of it has no score.
        stopped: why the scoring ended early; empty if it did not.
        usd, tokens: used by the calls of this session; ``usd`` is None without a known price.
    """

    rows: tuple[Item, ...]
    unscored: dict[str, str]
    stopped: str
    calls: int
    usd: float | None
    tokens: int


@blocking
async def score_items(
    rubric: Rubric,
    items: Sequence[Item],
    options: JudgingOptions,
    repeat: int,
    agree: Callable[[Quote], bool],
    observe: Callable[[Progress], None],
) -> ScoredItems | None:
    """Have a model score items.

    Args:
        agree: is shown the expected cost, and returns whether to continue.

    Returns:
        None if ``agree`` returns False.

    Raises:
        InputError: an item has no text; the provider cannot be used; the expected cost exceeds a
            default limit.
    """
    criteria = judged_criteria(rubric)
    unique = unique_items(items)
    require_texts(unique)
    if not criteria:
        raise InputError(
            f"the rubric {rubric.name!r} has no judged criteria, so there is nothing to ask a "
            "model; leave out --provider"
        )
    async with open_item_judge(options) as judge:
        expected = judge.estimate(criteria, unique, repeat)
        total = len(unique) * repeat
        quote = Quote(
            judge.model, len(unique), len(criteria), repeat, expected,
            describe_limits(judge.budget), total - expected.calls, judge.notes,
        )  # fmt: skip
        if not agree(quote):
            return None
        require_affordable(judge, expected, options)
        last = Progress(total)

        def watch(progress: Progress) -> None:
            nonlocal last
            last = progress
            observe(progress)

        marks = await judge.score(criteria, unique, repeat, observe=watch)
        rows, unscored = _build_rows(rubric, items, marks, judge.name(criteria), repeat)
        used = judge.budget.used
        usd = None if judge.price is None else used.usd
        return ScoredItems(rows, unscored, last.stopped, last.asked, usd, int(used.tokens))


def require_texts(items: Sequence[Item]) -> None:
    """Require a text of each item."""
    for item in items:
        if not item.text.strip():
            raise InputError(
                f"{item.location}: {item.id!r} has no text for a model to judge; give it 'text', "
                "and what it is about as 'context' or 'diff'"
            )


def require_affordable(
    judge: ItemJudge, expected: JudgingEstimate, options: JudgingOptions
) -> None:
    """Require the expected cost to be within the configured limits.

    A limit of the command line stops the work when it is reached. The user may not know of one in
    the configuration, so work that is expected to exceed it is not started.

    Raises:
        InputError: names the option that raises the limit.
    """
    bounds = judge.budget.bounds
    if options.max_usd is None and (expected.usd or 0.0) > bounds.usd:
        raise InputError(
            f"expected to cost {expected.usd:.2f} USD, and the limit is {bounds.usd:.2f}; set "
            "another with --max-usd, or score fewer items"
        )
    if options.max_tokens is None and expected.tokens > bounds.tokens:
        raise InputError(
            f"expected to use {expected.tokens:,} tokens, and the limit is {bounds.tokens:,.0f}; "
            "set another with --max-tokens, or score fewer items"
        )


def _build_rows(
    rubric: Rubric,
    items: Sequence[Item],
    marks: dict[tuple[str, int], ItemMarks],
    judge: str,
    repeat: int,
) -> tuple[tuple[Item, ...], dict[str, str]]:
    rows: list[Item] = []
    unscored: dict[str, str] = {}
    paid: set[str] = set()
    wanted = {c.id for c in judged_criteria(rubric)}
    for item in add_measures(rubric, [i for i in items if not i.repeat]):
        for number in range(repeat):
            found = marks[item.id, number]
            if wanted - found.marks.keys():
                unscored[item.id] = found.why
                continue
            own = replace(item, repeat=number, human=item.human if number == 0 else {})
            once = item.id not in paid or number > 0
            rows.append(add_marks(own, found, judge, found.usd if once else 0.0))
        paid.add(item.id)
    return tuple(rows), unscored


def add_marks(item: Item, found: ItemMarks, judge: str, usd: float) -> Item:
    """An item with a model's scores and reasons."""
    return replace(
        item,
        scores={**item.scores, **{name: mark.given for name, mark in found.marks.items()}},
        reasons={**item.reasons, **{name: mark.why for name, mark in found.marks.items()}},
        judge=judge,
        usd=usd,
        at=item.at or found.at,
        scored_at=found.at,
    )
