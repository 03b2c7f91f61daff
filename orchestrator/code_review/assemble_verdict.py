"""Assemble the verdict, with its digest, from a finished review."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import convert, to_builtins
from msgspec.structs import replace

from diffchecks import name_some
from orchestrator import __version__
from orchestrator.catalog.shared_literals import OFFLINE, Outcome
from orchestrator.code_review.agent_report_contracts import SpecialistReport, as_form
from orchestrator.code_review.agents import escalation_stages
from orchestrator.code_review.agents.guard_placement import rulings, without_secrets
from orchestrator.code_review.findings.agent_reports import claim_fingerprint
from orchestrator.code_review.findings.gap_remedies import close_gaps
from orchestrator.code_review.findings.reading_depth import count_depths
from orchestrator.code_review.fixes.patch_files import patch_artifacts
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.stop_rules import StopDecision
from orchestrator.code_review.tools.prove_fixes import PROVE_FIXES
from orchestrator.code_review.verdict.decision import decide_outcome, exit_code, outcome_of
from orchestrator.code_review.verdict.document_parts import AgentReport, VerdictIteration
from orchestrator.code_review.verdict.model import (
    Artifact,
    CallRef,
    ChangeRef,
    CriterionScore,
    Finding,
    Provenance,
    ReviewScore,
    RunUsage,
    SeverityCounts,
    Verdict,
    VerdictStop,
    name_counts,
    severity_counts,
)
from orchestrator.data_directories import read_table
from orchestrator.engine.agent_loop import LoopResult
from orchestrator.engine.budget import Cost
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.field_types import shared_fields
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.rubric_scoring import Scorecard
from orchestrator.engine.tool_call_records import ended_calls
from orchestrator.engine.types import Bounds, Usage
from orchestrator.errors import answer_command, approve_command, raise_limit_command, resume_command
from orchestrator.wording import count_noun

VOLATILE = ("run_id", "usage", "previous", "override", "artifacts", "exit_code", "digest")
VOLATILE_PROVENANCE = ("journal_head", "journal_length")
_SUMMED = ("input_tokens", "output_tokens", "cached_tokens", "saved_usd")
_UNCOUNTED: Mapping[str, str] = read_table(__file__, "uncounted.yaml")
NAMED_CONTESTED = 5
MAX_RULED_OUT = 10
"""Of one agent."""


async def conclude_review(state: ReviewState) -> Verdict:
    """The verdict of a review that has stopped, with the lead's summary where a model leads."""
    verdict = assemble_verdict(state)
    waiting = verdict.approvals or any(not question.answer for question in verdict.questions)
    if not state.is_led_by_model or not state.iterations or waiting:
        return verdict
    # Imported here to keep the start of an offline review fast.
    from orchestrator.code_review.agents import summary  # noqa: PLC0415

    state.lead_summary, state.summary_note = await summary.write_summary(state, verdict)
    return assemble_verdict(state)


def assemble_verdict(state: ReviewState) -> Verdict:
    """The computed verdict of a review that has stopped, without the lead's summary."""
    stop, synthesis, policy = state.stop, state.synthesis, state.given.catalog.verdict_policy
    assert stop is not None
    gaps = [skip for skip in synthesis.skipped if skip.gap]
    checks_ok = all(check.is_satisfied for check in state.checks)
    complete = not gaps and checks_ok and stop.reason == "done"
    status: Literal["complete", "incomplete"] = "complete" if complete else "incomplete"
    findings = tuple(sorted(synthesis.findings, key=lambda one: one.rank))  # as tests left it
    outcome, reasons = decide_outcome(findings, policy, complete=complete)
    change = state.given.workspace.change
    verdict = Verdict(
        run_id=state.journal.run_id,
        change=ChangeRef(
            base=change.base,
            head=change.head,
            files=len(change.files),
            added_lines=sum(len(file.added) for file in change.files),
            removed_lines=sum(len(file.removed) for file in change.files),
            notes=state.notes,
        ),
        verdict=outcome,
        status=status,
        fail_on=state.given.settings.fail_on,
        exit_code=exit_code(outcome, status, state.given.settings.fail_on),
        confidence=_confidence(state, len(gaps)),
        reasons=reasons,
        stop=VerdictStop(
            reason=stop.reason,
            detail=stop.detail,
            uncertain=_uncertain(state),
            next_human_action=next_human_action(state, stop, outcome, complete=complete),
        ),
        score=_score(state.scorecard, state.rubric.threshold),
        counts=SeverityCounts(**severity_counts(synthesis.findings)),
        findings=tuple(replace(f, outcome=outcome_of(f, policy)[0]) for f in findings),
        rejected=synthesis.rejected,
        checked=synthesis.checked,
        depth=count_depths(change.files, synthesis.checked),
        skipped=synthesis.skipped,
        required_checks=tuple(state.checks),
        next_actions=next_actions(findings),
        agents=_agents(state),
        assignment=state.assignment,
        escalations=escalation_stages.escalations(state.journal),
        questions=escalation_stages.questions(state.journal),
        approvals=state.approvals,
        iterations=_iterations(state),
        guards=rulings(state.journal),
        usage=_usage(state),
        waivers=synthesis.waivers,
        memory=synthesis.memory,
        artifacts=_artifacts(state),
        guidance=tuple(one.to_entry() for one in state.given.workspace.guidance),
        provenance=_provenance(state),
        summary=_summary(state),
        lead_summary=state.lead_summary,
    )
    verdict = without_secrets(_number_calls(verdict), state.journal.redact)
    return replace(_list_patches(state, verdict), digest=digest_of(verdict))


def _confidence(state: ReviewState, gaps: int) -> float | None:
    """How reliable the verdict is: the review's score, reduced by what was not examined.

    At most the share of the changed lines that an analyzer or an agent read as code. None if
    nothing was judged: analyzers say nothing about defects that they do not look for.
    """
    card = state.scorecard
    if card is None or card.total is None or not card.is_judged:
        return None
    looked = sum(len(checked.by) for checked in state.synthesis.checked)
    score = card.total * (looked / (looked + gaps) if looked + gaps else 1)
    depth = count_depths(state.given.workspace.change.files, state.synthesis.checked)
    return round(min(score, depth.share_as_code), 3)


def _number_calls(verdict: Verdict) -> Verdict:
    """The verdict with short ids for tool calls, instead of long and often repeated keys."""
    rejected = [entry.finding for entry in verdict.rejected]
    cited = [finding.evidence.tool_calls for finding in (*verdict.findings, *rejected)]
    cited += [entry.tool_calls for entry in verdict.checked]
    ids = {key: f"C{n}" for n, key in enumerate(sorted({k for keys in cited for k in keys}), 1)}

    def finding(kept: Finding) -> Finding:
        calls = tuple(ids[key] for key in kept.evidence.tool_calls)
        return replace(kept, evidence=replace(kept.evidence, tool_calls=calls))

    return replace(
        verdict,
        calls=tuple(CallRef(id=short, key=key) for key, short in ids.items()),
        findings=tuple(map(finding, verdict.findings)),
        rejected=tuple(replace(r, finding=finding(r.finding)) for r in verdict.rejected),
        checked=tuple(
            replace(entry, tool_calls=tuple(ids[key] for key in entry.tool_calls))
            for entry in verdict.checked
        ),
    )


def digest_of(verdict: Verdict) -> str:
    """SHA-256 of the document without fields that differ between equal reviews."""
    plain = to_builtins(verdict)
    for name in VOLATILE:
        del plain[name]
    for finding in (*plain["findings"], *(entry["finding"] for entry in plain["rejected"])):
        del finding["since_previous"], finding["first_fingerprint"]
    # Notes are also about the checkout (files that are not committed).
    del plain["change"]["notes"]
    for name in VOLATILE_PROVENANCE:
        del plain["provenance"][name]
    # It is derived from the rest, and may contain the run's id.
    del plain["stop"]["next_human_action"]
    for question in plain["questions"]:
        del question["answered_by"], question["answered_at"]
    return digest(plain)


def _score(card: Scorecard | None, threshold: float) -> ReviewScore:
    if card is None:
        return ReviewScore(total=None, threshold=threshold, criteria=())
    return ReviewScore(
        total=None if card.total is None else round(card.total, 4),
        threshold=threshold,
        criteria=tuple(
            CriterionScore(
                criterion.id,
                criterion.kind,
                criterion.weight,
                **shared_fields(card.marks[criterion.id], CriterionScore),
            )
            for criterion in card.rubric.criteria
        ),
    )


def _uncertain(state: ReviewState) -> tuple[str, ...]:
    open_ends = state.history[-1].uncertain if state.history else ()
    contested = [f"{one.id} ({one.title})" for one in state.synthesis.findings if one.objections]
    if not contested:
        return open_ends
    named = name_some(contested, NAMED_CONTESTED, "; ")
    return (*open_ends, f"reporters contradict each other on {named}")


def _agents(state: ReviewState) -> tuple[AgentReport, ...]:
    """The lead's, every specialist's and the judge's report, by iteration."""
    found: list[AgentReport] = []
    for done in state.iterations:
        team = [work.result for work in state.team() if work.iteration == done.number]
        results = [*([done.planned] if done.planned else []), *team, *done.helpers]
        found += [_agent(state, done.number, result) for result in results]
    return tuple(found)


def _agent(state: ReviewState, iteration: int, result: LoopResult) -> AgentReport:
    report = result.report if isinstance(result.report, dict) else {}
    empty = SpecialistReport(findings=[], checked=[])
    form = as_form(SpecialistReport, report) if "checked" in report else empty
    known = state.synthesis.ids
    ids = [
        known.get(finding.fingerprint) or known.get(claim_fingerprint(finding))
        for finding in form.findings
    ]
    gaps = [
        ": ".join(filter(None, (f"{gap.tool} {gap.path}".strip(), gap.why))) for gap in form.gaps
    ]
    notes = list(state.synthesis.notes.get((iteration, result.agent), ()))
    # An agent that escalated may have left out the same at two stages.
    notes += dict.fromkeys(state.focus.dropped.get((iteration, result.agent), ()))
    if "verdicts" in report:
        notes += state.iterations[iteration - 1].verdict_errors
    return AgentReport(
        **shared_fields(result, AgentReport),
        iteration=iteration,
        summary=report.get("summary", "") or result.detail,
        findings=tuple(dict.fromkeys(name for name in ids if name)),
        checked=len(form.checked),
        gaps=tuple(gaps),
        ruled_out=tuple(form.ruled_out[:MAX_RULED_OUT]),
        notes=tuple(notes),
    )


def _iterations(state: ReviewState) -> tuple[VerdictIteration, ...]:
    found: list[VerdictIteration] = []
    seen: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()
    for entry, facts in zip(state.iterations, state.history, strict=True):
        found.append(
            VerdictIteration(
                number=entry.number,
                score=None if facts.score is None else round(facts.score, 4),
                new_findings=len(facts.evidence - seen),
                new_evidence=len(facts.touched - touched),
                gaps=facts.gaps,
                decision=entry.decision,
                limit_raised=entry.limit_raised,
            )
        )
        seen, touched = seen | facts.evidence, touched | facts.touched
    return tuple(found)


def _usage(state: ReviewState) -> RunUsage:
    journal = state.journal
    spent: Cost = journal.spent()
    calls = [record for key, record in journal.ended if Key.parse(key).step == "model"]
    replies = [call.body["value"] for call in calls if "value" in call.body]
    usages = [convert(reply["usage"], Usage) for reply in replies]
    # A failed call may have been billed, so its recorded cost is the worst case.
    failed = sum((call.cost() for call in calls if "error" in call.body), journal.unseen())
    bounds: Bounds = state.given.budget.bounds
    limits = {
        name: value
        for name in ("iterations", "seconds", "tokens", "tool_calls", "usd")
        if (value := float(getattr(bounds, name))) != float("inf")
    }
    return RunUsage(
        iterations=len(state.iterations),
        model_calls=0 if state.runtime.model.name == OFFLINE else int(spent.turns),
        tool_calls=int(spent.tool_calls),
        **{name: sum(getattr(used, name) for used in usages) for name in _SUMMED},
        usd=spent.usd,
        uncertain_usd=failed.usd + sum(used.usd for used in usages if used.estimated),
        uncertain_tokens=int(failed.tokens),
        seconds=round(journal.elapsed(), 3),
        limits=limits,
        notes=tuple(filter(None, (*state.given.notes, state.summary_note, *_uncounted(usages)))),
    )


def _artifacts(state: ReviewState) -> tuple[Artifact, ...]:
    """The files with programs' output, by the call that ran them."""
    found = [
        Artifact(
            name=call.tool,
            tool_call=call.key,
            exit_statuses=tuple((name, code) for name, code in call.output["programs"]),
            **call.output["file"],
        )
        for call in ended_calls(state.journal)
        if call.output and "file" in call.output
    ]
    return tuple(sorted(found, key=lambda artifact: artifact.tool_call))


def _list_patches(state: ReviewState, verdict: Verdict) -> Verdict:
    """The verdict with the files of its verified patches among the artifacts."""
    calls = [call for call in ended_calls(state.journal) if call.tool == PROVE_FIXES]
    proofs = {call.data["patch"]: call.key for call in calls if isinstance(call.data, dict)}
    artifacts = (*verdict.artifacts, *patch_artifacts(verdict, proofs))
    return replace(verdict, artifacts=artifacts)


def _uncounted(usages: Sequence[Usage]) -> tuple[str, ...]:
    """Notes on calls whose cost is not known to the token."""
    counts = {name: sum(getattr(used, name) for used in usages) for name in _UNCOUNTED}
    return tuple(f"{_UNCOUNTED[name]}: {count}" for name, count in counts.items() if count)


def _provenance(state: ReviewState) -> Provenance:
    journal = state.journal
    models = {
        value.get("model", "")
        for key, value in journal.outcomes().items()
        if Key.parse(key).step == "model"
    }
    versions = {call.result.tool: call.result.version for call in state.calls()
                if call.result.version}  # fmt: skip
    return Provenance(
        version=__version__,
        provider=state.runtime.model.name,
        models=tuple(sorted(models)),
        policy_commit=state.given.workspace.change.policy_commit,
        digests=state.policy_digests,
        # Sorted like JSON in the journal, so that a verdict read back has the same bytes.
        analyzers=dict(sorted(versions.items())),
        carried_over=_carried_over(state),
        journal_head=journal.log.head,
        journal_length=journal.log.length,
    )


def _carried_over(state: ReviewState) -> str:
    """The digest of what the review took over from the previous one; empty without any."""
    if not (state.carried or state.settled):
        return ""
    return digest(to_builtins([state.carried, state.settled and state.given.handed_over.changed]))


def _summary(state: ReviewState) -> str:
    severities = name_counts(state.synthesis.findings)
    files = len(state.given.workspace.change.files)
    gaps = sum(skip.gap for skip in state.synthesis.skipped)
    parts = [count_noun(files, "changed file"), severities or "no findings"]
    return "; ".join([*parts, *([count_noun(gaps, "gap")] if gaps else [])]) + "."


LISTED_ACTIONS = 10
LISTED_MISSING = 3


def next_human_action(
    state: ReviewState, stop: StopDecision, outcome: Outcome, *, complete: bool
) -> str:
    """The one thing to do next."""
    if stop.reason == "cancelled":
        return "To have the change reviewed after all, start again: diffcourt review"
    return _waiting_action(state) or _stopped_action(state, stop, outcome, complete=complete)


def _waiting_action(state: ReviewState) -> str:
    """All questions and calls that wait for a person; empty if none does."""
    run = state.journal.run_id
    waiting = [one for one in escalation_stages.questions(state.journal) if not one.answer]
    several = len(waiting) > 1
    asked = [
        f"{one.question} Answer with: {answer_command(run, one.name if several else '')}"
        for one in waiting
    ]
    asked += [
        f"Decide whether {call.agent} may call {call.tool} {call.arguments}: "
        f"{approve_command(run, call.approval)} (or deny), then: {resume_command(run)}"
        for call in state.approvals
    ]
    return " ".join(asked)


def _stopped_action(
    state: ReviewState, stop: StopDecision, outcome: Outcome, *, complete: bool
) -> str:
    """What to do next with a review that does not wait for a person."""
    if stop.reason == "human":
        return f"Resolve this, then review again: {stop.detail}"
    if stop.reason == "budget":
        command = raise_limit_command(state.journal.run_id, stop.detail)
        return f"Continue with a higher limit ({command}), or review the rest by hand."
    if outcome == "merge":
        reviewed = len({entry.path for entry in state.synthesis.checked})
        files = len(state.given.workspace.change.files)
        return f"No blocking findings in the files that were reviewed ({reviewed} of {files})."
    findings = (one for one in state.synthesis.findings if one.state == "open")
    counting = (one for one in findings if one.support != "refuted")
    first = min(counting, key=lambda one: one.rank, default=None)
    made = state.synthesis
    gaps = (made.skipped, made.findings, state.checks, state.given.workspace)
    steps = [] if complete else close_gaps(*gaps)
    decides = first and outcome_of(first, state.given.catalog.verdict_policy)[0] != "merge"
    if first is not None and (decides or not steps):
        where = f"{first.path}:{first.start_line}"
        wrong = f" If it is wrong: diffcourt dismiss {first.id} --reason TEXT." if decides else ""
        steps.insert(0, f"Start with {first.id} at {where}: {first.title}.{wrong}")
    card = state.scorecard
    missing = card.missing_of("judged") if card and not card.accepted else ()
    if not steps and missing:
        steps.append(f"Look at what the judge misses: {'; '.join(missing[:LISTED_MISSING])}.")
    return " ".join(steps) or "Resolve the reasons, then review again."


def next_actions(findings: tuple[Finding, ...]) -> tuple[str, ...]:
    """How to fix the open findings, the most severe first."""
    open_findings = [finding for finding in findings if finding.state == "open"]
    return tuple(
        f"{finding.id} {finding.path}:{finding.start_line}: {finding.fix_suggestion}"
        for finding in open_findings[:LISTED_ACTIONS]
        if finding.fix_suggestion
    )
