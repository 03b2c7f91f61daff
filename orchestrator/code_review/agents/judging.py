"""The judge's scores, checked against the rubric and its evidence."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from orchestrator.catalog.shared_literals import is_as_severe
from orchestrator.catalog.unknown_name_checks import JUDGE
from orchestrator.code_review.agent_report_contracts import (
    JudgedCriterion,
    JudgeReport,
    as_form,
    score_contract,
)
from orchestrator.code_review.agents.briefs import (
    build_brief,
    code_around,
    describe_rejected,
    group_alike,
    name_alike,
    number_runs,
)
from orchestrator.code_review.findings.agent_reports import read_reports
from orchestrator.code_review.findings.citations import CitableSources, format_citation
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.tools.lead_tools import by_risk, describe_file
from orchestrator.code_review.verdict.decision import outcome_of
from orchestrator.code_review.verdict.document_parts import Proof
from orchestrator.code_review.verdict.model import Finding
from orchestrator.data_directories import read_table
from orchestrator.engine.agent_loop import LoopResult
from orchestrator.engine.agent_tasks import Task, run_task
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.rubric_scoring import CriterionMark
from orchestrator.engine.types import Criterion, Rubric

SHOWN_FINDINGS = 60
SHOWN_FILES = 200

LINES_AROUND = 1
PROOF_LINES, MAX_LINE = 3, 200
"""Of a proof's output: lines, and characters of each."""


def is_decided(state: ReviewState) -> bool:
    """Whether a finding of an agent that read the whole change decides its verdict for certain.

    A score says whether to look again. The verdict would stay, and the same model finds no more.
    """
    readers, policy = state.examiners, state.given.catalog.verdict_policy
    # Without a lead, the single agent reads every file.
    read_by_one = state.assignment is not None and not state.is_led
    shown = any(
        outcome_of(one, policy)[0] != "merge" and one.support in {"proven", "verified"}
        for one in state.synthesis.findings
        if set(one.reported_by) & set(readers)
    )
    whole = not any(skip.gap for skip in state.synthesis.skipped)
    return read_by_one and shown and whole


def judged_criteria(rubric: Rubric) -> tuple[Criterion, ...]:
    """The criteria that need a judge."""
    return tuple(c for c in rubric.criteria if c.kind == "judged")


def marks_of_decided(rubric: Rubric) -> Mapping[str, CriterionMark]:
    """The marks of the judged criteria of a review that is decided without the judge."""
    why = "not scored: a verified finding decides, so no judge was asked"
    return {each.id: CriterionMark(None, why) for each in judged_criteria(rubric)}


async def run_judge(state: ReviewState) -> Mapping[str, CriterionMark]:
    """Run the judge; returns the marks of the judged criteria, unscored if it gave no score."""
    criteria = judged_criteria(state.rubric)
    evidence = await judge_evidence(state)
    task = build_judge_task(state, criteria, state.iteration.key("judge"), evidence)
    state.iteration.judged = await run_task(task, state.runtime, state.given.budget)
    state.iteration.helpers.append(state.iteration.judged)
    known = citable_sources(state, state.answers())
    return await read_marks(criteria, state.iteration.judged, known)


def build_judge_task(
    state: ReviewState, criteria: Sequence[Criterion], key: Key, evidence: Mapping[str, object]
) -> Task:
    """The judge's task."""
    state.focus.criteria = criteria
    text = build_brief(
        "Judge this review by the criteria below, in their order.",
        state.runtime.executor.nonce,
        state.given.catalog.agents[JUDGE].bounds,
        criteria=[show_criterion(criterion) for criterion in criteria],
        **evidence,
    )
    levels = sorted({level.score for criterion in criteria for level in criterion.levels})
    shown = score_contract(levels if all(criterion.levels for criterion in criteria) else ())
    return Task(replace(state.given.catalog.agents[JUDGE], shown_contract=shown), text, key)


def show_criterion(criterion: Criterion) -> dict[str, object]:
    """The description of a criterion for a judge."""
    shown: dict[str, object] = {
        "id": criterion.id,
        "description": criterion.description,
        "levels": [[level.score, level.description] for level in criterion.levels],
    }
    if criterion.examples:
        shown["examples"] = [to_builtins(example) for example in criterion.examples]
    return shown


def citable_sources(state: ReviewState, answers: Callable[[str], Iterable[str]]) -> CitableSources:
    """What a judge can cite."""
    rejected = (entry.finding for entry in state.synthesis.rejected)
    findings = {finding.id: finding for finding in (*state.synthesis.findings, *rejected)}
    return CitableSources(state.given.workspace, findings, answers)


async def read_marks(
    criteria: Sequence[Criterion], result: LoopResult, known: CitableSources
) -> dict[str, CriterionMark]:
    """The judge's report as marks; all unscored where there is none.

    The criteria must be scored in order: a score that comes after one of a later criterion does not
    count.
    """
    is_ok, why = result.status == "ok", f"{result.status}: {result.detail}"
    why = f"not scored: the judge {'did not speak of it' if is_ok else why}"
    found = {c.id: CriterionMark(None, why) for c in criteria}
    places = {c.id: place for place, c in enumerate(criteria)}
    last = -1
    for judged in as_form(JudgeReport, result.report).criteria if is_ok else ():
        place = places.get(judged.id)
        if place is None:
            continue
        if place > last:
            found[judged.id] = await _mark(criteria[place], judged, known)
            last = place
        else:
            found[judged.id] = _abstention(
                "it was scored twice, or out of the rubric's order", judged
            )
    return found


async def _mark(
    criterion: Criterion, judged: JudgedCriterion, known: CitableSources
) -> CriterionMark:
    missing = tuple(judged.missing)
    if judged.score is None:
        return CriterionMark(None, f"the judge abstained: {judged.why}", missing)
    if criterion.levels and judged.score not in {level.score for level in criterion.levels}:
        return _abstention(f"{judged.score:g} is not a level of the rubric", judged)
    if error := await known.check(judged.evidence):
        return _abstention(error, judged)
    return CriterionMark(
        judged.score, judged.why, missing, evidence=tuple(map(format_citation, judged.evidence))
    )


def _abstention(error: str, judged: JudgedCriterion) -> CriterionMark:
    """A score that does not count; the evidence that it named as missing does."""
    return CriterionMark(None, f"counts as abstained: {error}", tuple(judged.missing))


async def judge_evidence(state: ReviewState) -> dict[str, object]:
    """What the judge is shown of a review; what is empty is left out, except ``findings``.

    Of findings at medium and above it sees the code around them, of others the quotation.
    """
    synthesis, files = state.synthesis, by_risk(state.given.workspace.change.files)
    groups = group_alike(synthesis.findings, proven=True)
    reports = [report.form for report in read_reports(state.team())]
    ruled_out = {(one.path, one.question): one for form in reports for one in form.ruled_out}
    gaps = [to_builtins(gap) for form in reports for gap in form.gaps]
    checked = {one.path for one in synthesis.checked}
    shown_groups = groups[:SHOWN_FINDINGS]
    grave = [first for first, *_ in shown_groups if is_as_severe(first.severity, "medium")]
    code = await code_around(state, grave, LINES_AROUND)
    quoted = {(part["path"], part["side"]) for part in code if part["lines"]}
    ran, numbers = number_runs([first for first, *_ in shown_groups])
    shown = {
        "change": state.iterations[0].plan.summary,  # empty where no lead plans
        "files": [describe_file(file) for file in files[:SHOWN_FILES]],
        "files_not_shown": max(0, len(files) - SHOWN_FILES),
        "files_not_checked": [f.path for f in files if f.path not in checked][:SHOWN_FILES],
        "code": code,
        "runs": ran,
        "findings_not_shown": sum(map(len, groups[SHOWN_FINDINGS:])),
        "rejected": [describe_rejected(entry) for entry in synthesis.rejected[:SHOWN_FINDINGS]],
        "gaps": [
            {"path": skip.path, "tool": skip.tool, "why": skip.why}
            for skip in synthesis.skipped
            if skip.gap
        ],
        "gaps_of_agents": gaps[:SHOWN_FINDINGS],
        "ruled_out": [*map(to_builtins, ruled_out.values())][:SHOWN_FINDINGS],
    }
    findings = [
        _shown(first, quoted) | numbers[first.id] | name_alike(others)
        for first, *others in shown_groups
    ]
    return {"findings": findings} | {name: value for name, value in shown.items() if value}


_SHOWN: Sequence[str] = read_table(__file__, "shown_to_the_judge.yaml")


def _shown(finding: Finding, quoted: Collection[tuple[str, str]]) -> dict[str, Any]:
    """A finding for the judge, without empty fields and text that its reports or ``code`` repeat.

    Args:
        quoted: paths and sides of which the judge is shown code.
    """
    known = {finding.title, finding.detail}
    fields: dict[str, Any] = to_builtins(finding)
    fields["proofs"] = [_proof_shown(proof) for proof in finding.proofs]
    fields["reports"] = [
        {name: value for name, value in report.items() if value and str(value) not in known}
        for report in fields["reports"]
    ]
    side = finding.evidence.side
    fields["side"] = "" if side == "head" else side
    fields["quote"] = "" if (finding.path, side) in quoted else finding.evidence.quote
    return {name: fields[name] for name in _SHOWN if fields[name] not in (None, "", [], ())}


def _proof_shown(proof: Proof) -> dict[str, str]:
    """A proof for the judge: what was predicted, and what came on head in a few lines."""
    output = [line.strip() for line in proof.head.splitlines() if line.strip()]
    telling = [line for line in output if proof.value in line or proof.exception in line] or output
    came = "\n".join(line[:MAX_LINE] for line in telling[-PROOF_LINES:])
    shown = {"predicted": f"{proof.exception}: {proof.value}", "came": came, "reason": proof.reason}
    shown |= {"state": proof.state, "claim": proof.whole_claim}
    return {name: text for name, text in shown.items() if text}
