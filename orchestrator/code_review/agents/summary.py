"""The lead's summary of a review for a person, written after everything is decided.

The lead is asked once, after the last iteration, and shown the computed result. Its text is placed
on top of the report and changes nothing. If there is no usable text, only the computed summary is
shown, and a note says why.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from orchestrator.code_review.agent_report_contracts import as_form
from orchestrator.code_review.agents.briefs import (
    PROMPTS,
    build_brief,
    describe,
    describe_rejected,
    group_alike,
    name_alike,
)
from orchestrator.code_review.findings.agent_reports import shorten
from orchestrator.code_review.json_schema_generation import inlined
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.engine.agent_tasks import Task, run_task
from orchestrator.engine.field_types import Strict
from orchestrator.guards.plain_text_guards import ClaimGuard, ClaimRule

MAX_TOKENS = 40_000
"""Of the one call, input and answer."""

MAX_CHARACTERS = 1_500
"""Characters of a summary. Five sentences need no more."""

SHOWN = 40
"""Findings, rejected findings and gaps that the lead is shown of each."""

DETAILED = 10
"""Findings, the first of them, that are shown with their details."""

SHOWN_TEXT = 300
"""Characters of each text among them."""

MISSING = "there is no summary by the lead, only the counts: "

_ID = re.compile(r"\b[FR]\d+\b")
_REPEATED_ID = re.compile(r"\b([FR]\d+)(?:(?:, and|,| and| or) \1\b)+")


class Summary(Strict, frozen=True):
    """The lead's summary."""

    summary: Annotated[str, Meta(min_length=1, description="three to five plain sentences")]
    findings: Annotated[
        list[str], Meta(description="ids of all findings that the summary mentions")
    ]


def build_summary_task(state: ReviewState, verdict: Verdict | None = None) -> Task:
    """The lead's task.

    Args:
        verdict: None before it is known, when only the size of the request matters.
    """
    lead = state.given.catalog.agents[state.given.settings.lead]
    bounds = replace(lead.bounds, turns=1, tokens=min(lead.bounds.tokens, MAX_TOKENS))
    spec = replace(
        lead, tools=(), skills=(), escalation=(), bounds=bounds, contract=inlined(Summary)
    )
    facts = _summary_facts(verdict) if verdict else {}
    nonce, plan = state.runtime.executor.nonce, state.iterations[0].plan.summary
    text = build_brief(PROMPTS["summary"], nonce, plan=plan, **facts)
    return Task(spec, text, state.iteration.key("summary"))


async def write_summary(state: ReviewState, verdict: Verdict) -> tuple[str, str]:
    """The lead's summary of a review, and a note if it is missing or names unknown findings.

    The id of a merged finding is replaced by that of the finding into which it was merged. Without
    findings and gaps, the summary is the plan's sentence on the change, which needs no call.
    """
    planned = state.iterations[0].plan.summary.strip()
    if planned and len(planned) <= MAX_CHARACTERS and _is_clean(verdict):
        return _qualify_check_claims(planned, verdict), ""
    task = build_summary_task(state, verdict)
    result = await run_task(task, state.runtime, state.given.budget)
    if result.status != "ok":
        return "", f"{MISSING}the lead's call ended as {result.status}: {result.detail}"
    form = as_form(Summary, result.report)
    if not form.summary.strip():
        return "", f"{MISSING}it says nothing"
    if (length := len(form.summary)) > MAX_CHARACTERS:
        return "", f"{MISSING}it has {length:,} characters, of at most {MAX_CHARACTERS:,}"
    findings = (*verdict.findings, *(entry.finding for entry in verdict.rejected))
    known = {finding.id for finding in findings}
    # What looks like an id may be a linter's code (F401) that a finding mentions.
    words = set(_ID.findall(form.summary)) - set(_ID.findall(task.brief))
    others = (set(form.findings) | words) - known
    ids, shown = state.synthesis.ids, state.focus.shown  # now, and under which it was shown
    merged = {name: kept for name in others if (kept := ids.get(shown.get(name, ""), "")) in known}
    text = _ID.sub(lambda found: merged.get(found[0], found[0]), form.summary.strip())
    text = _REPEATED_ID.sub(r"\1", text) if merged else text
    unknown = ", ".join(sorted(others - merged.keys())[:5])
    note = f"the lead's summary names {unknown}, which is no finding of this review"
    return _qualify_check_claims(text, verdict), note if unknown else ""


def _is_clean(verdict: Verdict) -> bool:
    gaps = any(skip.gap for skip in verdict.skipped)
    return not (verdict.findings or verdict.rejected or gaps or verdict.stop.uncertain)


def _qualify_check_claims(text: str, verdict: Verdict) -> str:
    """The text, with a note after a claim that the checks passed if not all of them did."""
    if all(
        check.is_satisfied and check.status != "passed_by_own_tests"
        for check in verdict.required_checks
    ):
        return text
    rule = ClaimRule("complete set of checks", ["checks"], frozenset())
    found = ClaimGuard([rule], frozenset[str]).detect(text)
    return found.text or text if found else text


def _summary_facts(verdict: Verdict) -> Mapping[str, object]:
    """The facts that the lead is shown; they are the same in a resumed run."""
    gaps = [skip for skip in verdict.skipped if skip.gap]
    findings = group_alike(verdict.findings)
    return {
        "outcome": verdict.verdict,
        "status": verdict.status,
        "ended": _shorten(verdict.stop.detail),
        "uncertain": [_shorten(text) for text in verdict.stop.uncertain[:SHOWN]],
        "findings": [
            _brief(alike, detailed=place < DETAILED) for place, alike in enumerate(findings[:SHOWN])
        ],
        "rejected": [
            describe_rejected(entry, longest=SHOWN_TEXT, quoted=False)
            for entry in verdict.rejected[:SHOWN]
        ],
        "gaps": [{"path": g.path, "tool": g.tool, "why": _shorten(g.why)} for g in gaps[:SHOWN]],
        "checks": {check.name: check.status for check in verdict.required_checks},
        "not_shown": {
            "findings": sum(map(len, findings[SHOWN:])),
            "rejected": max(0, len(verdict.rejected) - SHOWN),
            "gaps": max(0, len(gaps) - SHOWN),
        },
    }


def _brief(alike: Sequence[Finding], *, detailed: bool) -> Mapping[str, object]:
    """A finding without empty fields, with the ids and places of the rest of its group."""
    first, *others = alike
    shown = describe(first, longest=SHOWN_TEXT, quoted=False)
    shown["detail"] = shown["detail"] if detailed else ""
    return {name: value for name, value in shown.items() if value} | name_alike(others)


def _shorten(text: str) -> str:
    return shorten(text, SHOWN_TEXT)
