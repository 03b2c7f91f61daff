"""The measured criteria of a rubric; each is a share that is computed from the synthesis."""

from collections.abc import Mapping, Sequence

from orchestrator.catalog.shared_literals import is_as_severe
from orchestrator.code_review.findings.evidence_from_journal import AnalyzerCall, Work
from orchestrator.code_review.findings.reading_depth import UNEXAMINED
from orchestrator.code_review.findings.verdict_findings import Synthesis
from orchestrator.code_review.verdict.model import RequiredCheck
from orchestrator.engine.rubric_scoring import CriterionMark

MEASURES = (
    "files-accounted",
    "required-checks-run",
    "analyzers-healthy",
    "gaps-explained",
    "evidence-verified",
    "contracts-kept",
    "findings-supported",
    "playbooks-followed",
)
"""The criteria that can be measured."""


def score_measured(
    synthesis: Synthesis,
    files: Sequence[str],
    checks: Sequence[RequiredCheck],
    calls: Sequence[AnalyzerCall],
    team: Sequence[Work],
    named: Mapping[str, bool],
) -> Mapping[str, CriterionMark]:
    """Marks by criterion id, for all of ``MEASURES``; a rubric uses those that it has.

    Args:
        named: ``playbook: requirement`` of the opened playbooks → whether it is met.
    """
    accounted = {c.path for c in synthesis.checked}
    accounted |= {s.path for s in synthesis.skipped if s.why and s.why != UNEXAMINED}
    applicable = [check for check in checks if check.status != "not_applicable"]
    passed = [check for check in applicable if check.has_passed]
    unverified = [r for r in synthesis.rejected if r.cause == "unverified"]
    reported = len(synthesis.findings) + len(unverified)
    gaps = [skip for skip in synthesis.skipped if skip.gap]
    ended = [work.result for work in team if not _is_made_up(work, team)]
    return {
        "files-accounted": _share(
            sum(path in accounted for path in files), len(files), "changed files", "accounted for"
        ),
        "evidence-verified": _share(
            len(synthesis.findings), reported, "findings", "whose quote was found at their lines"
        ),
        "contracts-kept": _share(
            sum(result.status == "ok" for result in ended), len(ended), "agents' reports", "valid"
        ),
        "findings-supported": _support(synthesis),
        "playbooks-followed": _share(
            sum(named.values()),
            len(named),
            "requirements of opened playbooks",
            "met",
            tuple(name for name, is_met in named.items() if not is_met),
        ),
        "required-checks-run": _share(
            len(passed),
            len(applicable),
            "required checks",
            "completed",
            tuple(check.name for check in applicable if not check.has_passed),
        ),
        "analyzers-healthy": _share(
            sum(call.did_its_work for call in calls), len(calls), "tool runs", "without an error"
        ),
        "gaps-explained": _share(
            sum(bool(gap.why) for gap in gaps), len(gaps), "gaps", "with a reason"
        ),
    }


def _support(synthesis: Synthesis) -> CriterionMark:
    """How many of the findings that may decide are more than claims."""
    open_ones = [f for f in synthesis.findings if f.state == "open"]
    due = [f for f in open_ones if is_as_severe(f.severity, "medium")]
    missing = tuple(f.id for f in due if f.support not in {"proven", "verified"})
    what, how = "open findings at medium and above", "proven or verified"
    return _share(len(due) - len(missing), len(due), what, how, missing)


def _is_made_up(work: Work, team: Sequence[Work]) -> bool:
    """Whether a limit cut an agent off that did its work when a person had raised it."""
    agent = work.result.agent
    return work.result.status in {"budget", "timeout"} and any(
        (later.result.agent, later.result.status) == (agent, "ok")
        for later in team
        if later.iteration > work.iteration
    )


def _share(
    part: int, whole: int, what: str, how: str, missing: tuple[str, ...] = ()
) -> CriterionMark:
    if whole == 0:
        return CriterionMark(None, f"n/a (no {what})", not_applicable=True)
    return CriterionMark(part / whole, f"{part} of {whole} {what} {how}", missing)
