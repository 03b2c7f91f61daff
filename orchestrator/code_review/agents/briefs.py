"""Briefs of agents: their texts, and how findings and code are shown in them."""

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from orchestrator.catalog.shared_literals import Severity, is_as_severe
from orchestrator.code_review.agents.model_skills import for_model
from orchestrator.code_review.agents.reviewer_assignment import diffs_by_path
from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.findings.agent_reports import shorten
from orchestrator.code_review.findings.citations import changed_lines, read_lines
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.verdict.model import Finding, Rejected
from orchestrator.data_directories import read_table
from orchestrator.engine.agent_context import describe_bounds
from orchestrator.engine.agent_loop import LoopResult
from orchestrator.engine.agent_tasks import Task, run_task
from orchestrator.engine.types import AgentSpec, Bounds
from orchestrator.engine.untrusted_text import frame

PROMPTS: Mapping[str, str] = read_table(__file__, "prompts.yaml")
"""Texts for models, by name."""

MAX_TEXT = 500
"""Characters of each text, unless a brief has less room."""

MAX_WIDTH, MAX_LINES = 1_000, 40
"""Characters of a line of code; lines of a finding."""

MIN_SEVERITY: Severity = "medium"

ALIKE = 10
"""Findings of the same words that are named behind the first of them."""

Span = tuple[str, SideName, int, int]
"""Path, side, first and last line of code."""

_SHOWN = ("id", "fingerprint", "severity", "confidence", "state", "path", "start_line", "end_line")


def build_brief(task: str, nonce: str, bounds: Bounds | None = None, /, **facts: object) -> str:
    """The first message of a task: its text, and the facts as framed JSON.

    Args:
        bounds: of an agent that does not read the opening, after which it would be told them.
    """
    text = f"{task.rstrip()}\n{describe_bounds(bounds)}" if bounds else task
    return f"{text}\n{frame(json.dumps(facts), nonce)}"


def severe_findings(state: ReviewState) -> list[Finding]:
    """Open findings of at least medium severity: agents prove, verify and fix these."""
    open_ones = (one for one in state.synthesis.findings if one.state == "open")
    return [one for one in open_ones if is_as_severe(one.severity, MIN_SEVERITY)]


def task_about(state: ReviewState, spec: AgentSpec, part: str, /, **facts: object) -> Task:
    """A task of an agent that proves, verifies or fixes findings.

    Its work is optional, so neither a stronger model nor a person is asked after a failure.

    Args:
        part: of the iteration, and the name of the text that asks for it.
    """
    spec, nonce = replace(for_model(state, spec), escalation=()), state.runtime.executor.nonce
    brief = build_brief(PROMPTS[part], nonce, spec.bounds, **facts)
    return Task(spec, brief, state.iteration.key(part))


async def ask_about(
    state: ReviewState,
    spec: AgentSpec,
    part: str,
    findings: Sequence[Finding],
    around: int,
    more: Iterable[Span] = (),
    /,
    **facts: object,
) -> LoopResult:
    """Run one task about findings, with the code around them.

    Args:
        around: lines before and after each finding.
    """
    code = await code_around(state, findings, around, more)
    task = task_about(state, spec, part, **facts, code=code)
    result = await run_task(task, state.runtime, state.given.budget)
    state.iteration.helpers.append(result)
    return result


def describe(finding: Finding, *, longest: int = MAX_TEXT, quoted: bool = True) -> dict[str, Any]:
    """A finding as an agent is shown it.

    Args:
        quoted: with the text at its lines.
    """
    said = [(one.by, one.reason) for one in finding.objections]
    said += [(one.by, one.reason) for one in finding.remarks if one.action == "limits"]
    shown = {
        **{name: getattr(finding, name) for name in _SHOWN},
        "support": finding.support_told,
        "title": shorten(finding.title, longest),
        "detail": shorten(finding.detail, longest),
        "side": finding.evidence.side,
        "quote": shorten(finding.evidence.quote, longest),
        "reported_by": list(finding.reported_by),
        "remarks": [f"{by}: {shorten(reason, longest)}" for by, reason in said],
    }
    if (rule := finding.guideline) is not None:
        shown["guideline"] = f"{rule.path}:{rule.line}: {shorten(rule.quote, longest)}"
    if not quoted:
        del shown["quote"], shown["fingerprint"]
    return shown


def describe_rejected(
    entry: Rejected, *, longest: int = MAX_TEXT, quoted: bool = True
) -> dict[str, Any]:
    """A finding that does not count, and why."""
    shown = describe(entry.finding, longest=longest, quoted=quoted)
    del shown["support"], shown["state"]
    return {**shown, "reason": shorten(entry.reason, longest)}


def group_alike(findings: Iterable[Finding], *, proven: bool = False) -> list[list[Finding]]:
    """Groups of findings that differ only in their place; contested findings are not grouped.

    Args:
        proven: group only those that are proven.
    """
    groups: dict[Hashable, list[Finding]] = {}
    for one in findings:
        same = (one.title, one.rule, one.severity, one.state, one.support, one.reported_by)
        single = one.objections or (proven and one.support != "proven")
        groups.setdefault(one.id if single else same, []).append(one)
    return list(groups.values())


def name_alike(others: Sequence[Finding]) -> dict[str, Any]:
    """The ids and places of the rest of a group; nothing if there is none."""
    named = [f"{one.id} {one.path}:{one.start_line}" for one in others[:ALIKE]]
    more = {"alike_not_shown": len(others) - ALIKE} if len(others) > ALIKE else {}
    return {"alike": named, **more} if named else {}


def number_runs(findings: Sequence[Finding]) -> tuple[list[Any], dict[str, dict[str, Any]]]:
    """Each run once, with its number; and by a finding's id the numbers of its runs, if any."""
    runs = list(dict.fromkeys(run for one in findings for run in one.runs))
    ran = [{"run": at, "code": run.code, "output": run.output} for at, run in enumerate(runs, 1)]
    named = {one.id: [runs.index(run) + 1 for run in one.runs] for one in findings}
    return ran, {name: {"runs": numbers} if numbers else {} for name, numbers in named.items()}


def spans_around(findings: Iterable[Finding], around: int) -> list[Span]:
    """The lines of findings, with so many before and after each."""
    return [
        (
            one.path,
            one.evidence.side,
            max(1, one.start_line - around),
            min(one.end_line, one.start_line + MAX_LINES) + around,
        )
        for one in findings
    ]


async def code_around(
    state: ReviewState, findings: Iterable[Finding], around: int, more: Iterable[Span] = ()
) -> list[dict[str, str]]:
    """The code around findings, each line once, with what the change adds and removes there.

    A line is ``12: text`` behind a sign: a space, ``+`` with its number in head, or ``-`` with its
    number in base. Other code of base has only its own lines.
    """
    own = spans_around(findings, around)
    spans, shows_head = sorted({*own, *more}), {span[:2] for span in own}
    workspace, diffs = state.given.workspace, await diffs_by_path(state)
    shown: list[dict[str, str]] = []
    while spans:
        path, side, first, last = spans.pop(0)
        while spans and spans[0][:2] == (path, side) and spans[0][2] <= last + 1:
            last = max(last, spans.pop(0)[3])
        lines = await read_lines(workspace, side, path)
        changed, last = changed_lines(workspace, side, path), min(last, len(lines))
        others, at = dict[int, list[str]](), 1
        both = path in diffs and (side == "head" or (path, side) in shows_head)
        for line in diffs[path].hunk_lines if both else ():
            here = line.new if side == "head" else line.old
            at = here + 1 if here else at
            if not here and (number := line.old or line.new):
                others.setdefault(at, []).append(f"{line.sign}{number}: {line.text[:MAX_WIDTH]}")
        text = list[str]()
        for number in range(first, last + 1):
            sign = ("+" if side == "head" else "-") if number in changed else " "
            text += others.get(number, ())
            text.append(f"{sign}{number}: {lines[number - 1][:MAX_WIDTH]}")
        text += others.get(last + 1, ())
        shown.append({"path": path, "side": side, "lines": "\n".join(text)})
    return shown
