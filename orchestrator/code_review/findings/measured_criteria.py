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
    passed = {check.name: check.has_passed for check in checks if check.status != "not_applicable"}
    quoted = [True for _ in synthesis.findings]
    quoted += [False for one in synthesis.rejected if one.cause == "unverified"]
    ended = [work.result.status == "ok" for work in team if not _is_made_up(work, team)]
    due = [
        f for f in synthesis.findings if f.state == "open" and is_as_severe(f.severity, "medium")
    ]
    known = {finding.id: finding.support in {"proven", "verified"} for finding in due}
    healthy = [call.did_its_work for call in calls]
    explained = [bool(skip.why) for skip in synthesis.skipped if skip.gap]
    return {
        "files-accounted": _share(
            [f in accounted for f in files], "changed files", "accounted for"
        ),
        "evidence-verified": _share(quoted, "findings", "whose quote was found at their lines"),
        "contracts-kept": _share(ended, "agents' reports", "valid"),
        "findings-supported": _share(
            known, "open findings at medium and above", "proven or verified"
        ),
        "playbooks-followed": _share(named, "requirements of opened playbooks", "met"),
        "required-checks-run": _share(passed, "required checks", "completed"),
        "analyzers-healthy": _share(healthy, "tool runs", "without an error"),
        "gaps-explained": _share(explained, "gaps", "with a reason"),
    }


def _is_made_up(work: Work, team: Sequence[Work]) -> bool:
    """Whether a limit cut an agent off that did its work when a person had raised it."""
    agent = work.result.agent
    return work.result.status in {"budget", "timeout"} and any(
        (later.result.agent, later.result.status) == (agent, "ok")
        for later in team
        if later.iteration > work.iteration
    )


def _share(met: Mapping[str, bool] | Sequence[bool], what: str, how: str) -> CriterionMark:
    """The share that is met; what is not is missing by its name, if it has one."""
    names = met if isinstance(met, Mapping) else {}
    missing = tuple(name for name, is_met in names.items() if not is_met)
    all_of = [*(names.values() if names else met)]
    if not all_of:
        return CriterionMark(None, f"n/a (no {what})", not_applicable=True)
    part, whole = sum(map(bool, all_of)), len(all_of)
    return CriterionMark(part / whole, f"{part} of {whole} {what} {how}", missing)
