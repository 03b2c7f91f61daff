"""The agent that rewords a criterion of a rubric: its brief, and the check of its proposals.

It is shown only items of the training half. Proposals refer to examples by name and code copies
their texts, so a proposal cannot contain a text that the model was not shown as an item.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta, field
from msgspec.structs import replace

from orchestrator.code_review.agent_report_contracts import as_form
from orchestrator.code_review.agents.briefs import build_brief
from orchestrator.code_review.agents.judging import show_criterion
from orchestrator.code_review.json_schema_generation import inlined
from orchestrator.data_directories import read_beside
from orchestrator.engine.field_types import NonEmptyStr, Strict, UnitFloat
from orchestrator.engine.types import AgentSpec, Bounds, Criterion, Json, Rubric, ScoreLevel
from orchestrator.tuning.rewrite_search import MAX_EXAMPLES, Candidate, ShownItem, build_example

NAME = "rubric-writer"
BOUNDS = Bounds(turns=4, tokens=200_000, usd=1.0, seconds=240)
MAX_TEXT, MAX_WORDING = 1_500, 1_200
"""Characters of an item as it is shown, and of a description."""

MAX_LEVELS, SHOWN_EARLIER = 6, 3

PROMPT = read_beside(__file__, "criterion_writer.md")


class ProposedExample(Strict, frozen=True):
    """An item as an example."""

    item: Annotated[str, Meta(description="its reference, such as T3")]
    score: UnitFloat
    why: str = ""


class ProposedWording(Strict, frozen=True, kw_only=True):
    """A new wording of the criterion."""

    reason: str
    description: NonEmptyStr
    levels: Annotated[list[ScoreLevel], Meta(description="ascending; two or more")]
    examples: list[ProposedExample] = field(default_factory=list)


class Wordings(Strict, frozen=True):
    """The writer's report."""

    proposals: list[ProposedWording]


def writer_spec(model: str) -> AgentSpec:
    """The agent that rewords criteria.

    Args:
        model: an escalation stage, or a model's name.
    """
    digest = hashlib.sha256(PROMPT.encode()).hexdigest()
    contract = inlined(Wordings)
    return AgentSpec(
        NAME, "Rewords a criterion.", PROMPT, (), (), model, BOUNDS, contract, digest=digest
    )


def build_writer_brief(
    rubric: Rubric,
    candidate: Candidate,
    shown: Sequence[ShownItem],
    pool: Sequence[Candidate],
    count: int,
    nonce: str,
) -> str:
    """The criterion, the items to learn from, and the scores of earlier wordings."""
    best = sorted(pool, key=lambda c: -c.kappa)[:SHOWN_EARLIER]
    return build_brief(
        f"Propose {count} new wordings of this criterion.",
        nonce,
        rubric={"name": rubric.name, "description": rubric.description},
        criterion=show_criterion(candidate.criterion),
        kappa=round(candidate.kappa, 3),
        items=[_show(reference, one) for reference, one in references(shown).items()],
        earlier=[
            {**show_criterion(c.criterion), "kappa": round(c.kappa, 3)}
            for c in best
            if c is not candidate
        ],
    )


def references(shown: Sequence[ShownItem]) -> Mapping[str, ShownItem]:
    """The shown items by the names that the model uses."""
    return {f"T{number}": one for number, one in enumerate(shown, 1)}


def _show(reference: str, one: ShownItem) -> dict[str, Json]:
    given = {"context": one.item.context[:MAX_TEXT]} if one.item.context else {}
    return {
        "item": reference,
        "people": one.label,
        "rubric": "accept" if one.accepted else "reject",
        "score": one.mark.score,
        "judge_says": one.mark.why,
        **({"people_say": list(one.notes)} if one.notes else {}),
        **given,
        "text": one.item.text[:MAX_TEXT],
    }


async def check_wordings(
    shown: Mapping[str, ShownItem], agent: str, report: Json, earlier: Json
) -> tuple[Json, list[str]]:
    """The report, plus what was valid in the one that was sent back, and errors of proposals."""
    if earlier is not None:
        kept = zip(earlier["proposals"], as_form(Wordings, earlier).proposals, strict=True)
        held = [raw for raw, wording in kept if not _find_error(wording, shown)]
        report = {"proposals": [*held, *report["proposals"]]}
    errors = []
    for number, wording in enumerate(as_form(Wordings, report).proposals, 1):
        error = _find_error(wording, shown)
        errors += [f"proposal {number}: {error}"] if error else []
    return report, errors


def _find_error(wording: ProposedWording, shown: Mapping[str, ShownItem]) -> str:
    scores = [level.score for level in wording.levels]
    if not 2 <= len(scores) <= MAX_LEVELS or scores != sorted(set(scores)):
        return f"it needs 2 to {MAX_LEVELS} levels of ascending scores"
    if len(wording.description) > MAX_WORDING:
        return f"the description has more than {MAX_WORDING} characters"
    if len(wording.examples) > MAX_EXAMPLES:
        return f"it has more than {MAX_EXAMPLES} examples"
    for example in wording.examples:
        if example.item not in shown:
            return f"there is no item {example.item!r}"
        if example.score not in scores:
            return f"the score of the example {example.item} is not a level"
    return ""


def read_wordings(
    criterion: Criterion, shown: Sequence[ShownItem], report: Json, count: int
) -> list[Criterion]:
    """The valid proposals as criteria; only wording, levels and examples are taken."""
    known = references(shown)
    out = []
    for wording in as_form(Wordings, report).proposals[:count]:
        if _find_error(wording, known):
            continue
        examples = tuple(
            build_example(known[e.item].item.text, e.score, e.why) for e in wording.examples
        )
        new = replace(
            criterion,
            description=wording.description.strip(),
            levels=tuple(wording.levels),
            examples=examples,
        )
        if new != criterion and new not in out:
            out.append(new)
    return out
