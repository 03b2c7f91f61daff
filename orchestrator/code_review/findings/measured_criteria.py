"""The measured criteria of a rubric; each is a share that is computed from the synthesis."""

from collections.abc import Mapping, Sequence

from orchestrator.catalog.shared_literals import is_as_severe
from orchestrator.code_review.findings.evidence_from_journal import AnalyzerCall, Work
from orchestrator.code_review.findings.reading_depth import UNEXAMINED
from orchestrator.code_review.findings.verdict_findings import Synthesis
from orchestrator.code_review.verdict.model import RequiredCheck
from orchestrator.data_directories import read_table
from orchestrator.engine.rubric_scoring import CriterionMark

MEASURES: Mapping[str, str] = read_table(__file__, "measures.yaml")
"""The criteria that can be measured, with what is counted and what is asked of each."""


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
    measured: Mapping[str, Mapping[str, bool] | Sequence[bool]] = {
        "files-accounted": [path in accounted for path in files],
        "evidence-verified": quoted,
        "contracts-kept": ended,
        "findings-supported": known,
        "playbooks-followed": named,
        "required-checks-run": passed,
        "analyzers-healthy": healthy,
        "gaps-explained": explained,
    }
    return {name: _share(measured[name], *words.split(" / ")) for name, words in MEASURES.items()}


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
