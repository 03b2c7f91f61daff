"""The judged criteria: a model's scores, each held against the rubric before it counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.catalog.settings import OFFLINE, Settings
from orchestrator.engine.agent import AgentResult
from orchestrator.engine.judge import Mark
from orchestrator.engine.team import Task, run_task
from orchestrator.engine.types import Criterion, Rubric
from orchestrator.review.case import Case
from orchestrator.review.contracts import JudgedCriterion, JudgeReport
from orchestrator.review.planning import brief

JUDGE = "judge"
SHOWN_FINDINGS = 60


def wanted(settings: Settings, rubric: Rubric) -> bool:
    """Whether a model judges: offline there is none that could."""
    return settings.judge and settings.provider != OFFLINE and bool(judged_of(rubric))


async def judged(case: Case) -> Mapping[str, Mark]:
    """Marks of the judged criteria; one that the judge did not score stays unscored."""
    criteria = judged_of(case.rubric)
    asked = task(case, criteria, f"{case.round.number}/judge")
    return marks(criteria, await run_task(asked, case.harness, case.budget))


def judged_of(rubric: Rubric) -> tuple[Criterion, ...]:
    """The criteria that need a judge."""
    return tuple(c for c in rubric.criteria if c.kind == "judged")


def task(
    case: Case,
    criteria: Sequence[Criterion],
    key: str,
    evidence: Mapping[str, object] | None = None,
) -> Task:
    """What the judge is asked.

    Args:
        key: the question's place in the journal.
        evidence: what is judged, where it is not as ``evidence_of`` has it.
    """
    text = brief(
        "Judge this review by the criteria below, in their order.",
        case.harness.executor.nonce,
        criteria=[
            {
                "id": criterion.id,
                "description": criterion.description,
                "levels": [[level.score, level.description] for level in criterion.levels],
            }
            for criterion in criteria
        ],
        **(evidence_of(case) if evidence is None else evidence),
    )
    return Task(case.catalog.agents[JUDGE], text, key)


def marks(criteria: Sequence[Criterion], result: AgentResult) -> dict[str, Mark]:
    """The judge's report as marks; all unscored where there is none."""
    if result.status != "ok":
        why = f"not scored: the judge {result.status}: {result.detail}"
        return {c.id: Mark(None, why) for c in criteria}
    said = {score.id: score for score in JudgeReport.model_validate(result.report).criteria}
    return {c.id: _mark(c, said.get(c.id)) for c in criteria}


def _mark(criterion: Criterion, said: JudgedCriterion | None) -> Mark:
    if said is None:
        return Mark(None, "not scored: the judge did not speak of it")
    missing = tuple(said.missing)
    if said.score is None:
        return Mark(None, f"the judge abstained: {said.evidence}", missing)
    if not said.evidence.strip():
        return Mark(None, "not scored: the judge gave no evidence", missing)
    if criterion.levels and said.score not in {level.score for level in criterion.levels}:
        return Mark(None, f"not scored: {said.score:g} is no level of the rubric", missing)
    return Mark(said.score, said.evidence, missing)


def evidence_of(case: Case) -> dict[str, object]:
    """What the judge is shown of a review."""
    synthesis = case.synthesis
    return {
        "findings": [
            finding.model_dump(mode="json", include=_SHOWN)
            for finding in synthesis.findings[:SHOWN_FINDINGS]
        ],
        "findings_not_shown": max(0, len(synthesis.findings) - SHOWN_FINDINGS),
        "rejected": [
            {"title": rejected.finding.title, "reason": rejected.reason}
            for rejected in synthesis.rejected[:SHOWN_FINDINGS]
        ],
        "gaps": [
            {"path": skip.path, "tool": skip.tool, "why": skip.why}
            for skip in synthesis.skipped
            if skip.gap
        ],
        "checked": [checked.path for checked in synthesis.checked],
    }


_SHOWN = {
    "id", "severity", "confidence", "title", "detail", "category", "path", "start_line",
    "end_line", "evidence", "reported_by",
}  # fmt: skip
