"""The agent that judges a labeled text by the judged criteria of a rubric.

An error (a missing criterion, a score that is no level, a quotation that is not in the text) is
sent back once. A score that is still invalid then counts as abstained, with the reason.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta

from orchestrator.code_review.agent_report_contracts import as_form
from orchestrator.code_review.agents.briefs import build_brief
from orchestrator.code_review.agents.judging import show_criterion
from orchestrator.code_review.json_schema_generation import inlined
from orchestrator.data_directories import read_beside
from orchestrator.engine.field_types import Strict, UnitFloat
from orchestrator.engine.rubric_scoring import CriterionMark
from orchestrator.engine.types import AgentSpec, Bounds, Criterion, Json
from orchestrator.tuning.file_formats.item_files import Item
from orchestrator.tuning.rewrite_search import hide_example

NAME = "item-judge"
MODEL = "strong"
BOUNDS = Bounds(turns=4, tokens=120_000, usd=0.5, seconds=180)

RULES = read_beside(__file__, "item_judge_rules.md")
PROMPT = read_beside(__file__, "item_judge_prompt.md")

MAX_REASON = 500
_ELLIPSIS = re.compile(r"\s*(?:\.\.\.|…|\[\.\.\.\])\s*")


class ItemScore(Strict, frozen=True, kw_only=True):
    """The score of one criterion; null abstains."""

    id: str
    why: str
    quote: Annotated[
        str, Meta(description="words of the text or its context; empty where something is missing")
    ] = ""
    score: UnitFloat | None
    not_applicable: bool = False


class ItemScores(Strict, frozen=True):
    """The judge's report on one text."""

    criteria: Annotated[list[ItemScore], Meta(description="each once, in the order given")]


def judge_spec(prompt: str = PROMPT, model: str = MODEL) -> AgentSpec:
    """The judge of items.

    Args:
        model: an escalation stage, or a model's name.
    """
    contract = inlined(ItemScores)
    digest = hashlib.sha256(prompt.encode()).hexdigest()
    return AgentSpec(NAME, "Scores a text.", prompt, (), (), model, BOUNDS, contract, digest=digest)


def build_judge_brief(criteria: Sequence[Criterion], item: Item, nonce: str) -> str:
    """The criteria, equal for all items but examples so that providers cache them; the item."""
    given = {"context": item.context} if item.context else {}
    return build_brief(
        "Score this text by the criteria below, in their order.",
        nonce,
        criteria=[show_criterion(hide_example(criterion, item)) for criterion in criteria],
        **given,
        text=item.text,
    )


async def check_scores(
    criteria: Sequence[Criterion], item: Item, agent: str, report: Json, earlier: Json
) -> tuple[Json, list[str]]:
    """The report, completed by the one that was sent back, and the errors to send back."""
    scores = _by_criterion(criteria, report)
    if earlier is not None:
        scores = {**_by_criterion(criteria, earlier), **scores}
    whole: Json = {"criteria": list(scores.values())}
    errors = []
    for criterion in criteria:
        row = scores.get(criterion.id)
        error = _find_error(criterion, row, item) if row else "missing: score it, or give null"
        errors += [f"{criterion.id}: {error}"] if error else []
    return whole, errors


def _by_criterion(criteria: Sequence[Criterion], report: Json) -> dict[str, dict[str, Json]]:
    """The first score of each criterion; ids are read without regard to case, spaces and _."""
    known = {_plain(c.id): c.id for c in criteria}
    found: dict[str, dict[str, Json]] = {}
    for row in report["criteria"]:
        name = known.get(_plain(str(row["id"])))
        if name is not None:
            found.setdefault(name, {**row, "id": name})
    return found


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "-", name.strip().lower())


def _find_error(criterion: Criterion, row: Mapping[str, Json], item: Item) -> str:
    """Why a score does not count; empty if it does."""
    score = row["score"]
    if score is None:
        return ""
    levels, errors = [level.score for level in criterion.levels], list[str]()
    if levels and score not in levels:
        allowed = ", ".join(f"{x:g}" for x in levels)
        errors.append(f"the score {score:g} is not a level; allowed: {allowed}")
    if not _stands(str(row.get("quote", "")), item):
        errors.append("the quotation is not in the text or its context verbatim")
    return "; ".join(errors)


def _stands(quote: str, item: Item) -> bool:
    """Whether a quotation is in an item, ignoring white space, outer quotes and gaps (...)."""
    where = " ".join(f"{item.text}\n{item.context}".split())
    words = " ".join(quote.split())
    if words in where:
        return True
    parts = [part for part in _ELLIPSIS.split(words.strip("\"'`“”‘’ ")) if part]
    return all(part in where for part in parts)


def read_item_marks(
    criteria: Sequence[Criterion], item: Item, report: Json
) -> dict[str, CriterionMark]:
    """The marks of a checked report."""
    found = {
        c.id: CriterionMark(None, "not scored: the judge did not speak of it") for c in criteria
    }
    by_id = {c.id: c for c in criteria}
    for score in as_form(ItemScores, report).criteria:
        why = _shorten(score.why)
        raw = {"score": score.score, "quote": score.quote}
        if error := _find_error(by_id[score.id], raw, item):
            found[score.id] = CriterionMark(None, f"counts as abstained: {error}")
        elif score.not_applicable and score.score is None:
            found[score.id] = CriterionMark(None, why, not_applicable=True)
        elif score.score is None:
            found[score.id] = CriterionMark(None, f"the judge abstained: {why}")
        else:
            evidence = (_shorten(score.quote),) if score.quote else ()
            found[score.id] = CriterionMark(score.score, why, evidence=evidence)
    return found


def _shorten(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= MAX_REASON else words[: MAX_REASON - 3] + "..."
