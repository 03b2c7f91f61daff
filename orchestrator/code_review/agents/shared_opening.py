"""Runs every analyzer before any model is called, and writes the common opening.

The opening holds the change, the analyzers' findings and the diff. It is the same bytes for lead
and examiners, before anything that differs between them, so that a provider's cache serves it to
all. Whoever works on findings afterwards is shown those and the code around them instead.

No model is sent the secrets of a change and its repository. Those in the changed files are looked
for before any agent begins, by the files' contents alone: a resumed run knows the same ones.
Elsewhere a secret is known by its own format.
"""

import json
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

from msgspec.structs import replace

from diffchecks.secrets.live_secrets import redact_live_secrets
from diffchecks.secrets.redaction import REDACTED, redact_secrets
from orchestrator.code_review.agent_report_contracts import contract_of_one
from orchestrator.code_review.agent_report_contracts import contracts as all_contracts
from orchestrator.code_review.agents import reviewer_assignment
from orchestrator.code_review.agents.briefs import PROMPTS
from orchestrator.code_review.agents.changed_functions import list_changed_functions
from orchestrator.code_review.agents.model_skills import LEAD_TOOLS
from orchestrator.code_review.agents.names_across_files import list_used_elsewhere
from orchestrator.code_review.agents.uncalled_analyzers import CODE, is_useful
from orchestrator.code_review.analyzers.own_checks import SECONDS, call_check_in_batches
from orchestrator.code_review.change import history
from orchestrator.code_review.change.changed_files import ChangedSince
from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.change.numbered_diff import FileDiffs
from orchestrator.code_review.findings.evidence_from_journal import (
    CODE_TASK,
    AnalyzerCall,
    analyzer_calls,
)
from orchestrator.code_review.findings.located_findings import LocatedFinding
from orchestrator.code_review.findings.merging import report_order
from orchestrator.code_review.findings.reading_depth import list_checked
from orchestrator.code_review.findings.required_checks import required
from orchestrator.code_review.findings.settled_places import SettledPlaces
from orchestrator.code_review.repository_guidance import Guidance
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.tools.lead_tools import by_risk, describe_file
from orchestrator.code_review.tools.registry import ANALYZERS
from orchestrator.engine.secret_redaction import is_secret
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.types import AgentSpec, Json
from orchestrator.engine.untrusted_text import frame
from orchestrator.sandbox.worker_pool import WorkerPool
from orchestrator.wording import name_rest

SHOWN_FINDINGS = 60
SHOWN_LEADS = 40
SHOWN_FILES = 200
MAX_DETAIL = 400
MAX_FINDINGS_TOKENS = (SHOWN_FINDINGS * (MAX_DETAIL + 300) + SHOWN_LEADS * 100) // 4
"""About what the findings and leads of the opening come to where all that can be shown are."""

ATTEMPTS = 2
"""How often an analyzer that fails is called."""


async def open_for_models(state: ReviewState, *, analyze: bool = True) -> None:
    """Run the analyzers, and give all agents of the run their common opening, tools and contract.

    Args:
        analyze: False for an estimate, where only the size of the opening matters.
    """
    if analyze:
        # Redacted before it is recorded or sent; a replay compares the redacted text, too.
        state.journal.redact.add_filter(await make_filter(state.given.workspace, state.given.pool))
        await _run_analyzers(state)
    calls = list(
        analyzer_calls(
            state.journal, state.runtime.executor.nonce, 1, [CODE_TASK], ANALYZERS.keys()
        )
    )
    findings = [*_list_findings(calls), *_list_leads(calls), *_list_carried(state)]
    findings += await list_changed_since(state)
    by_path = await reviewer_assignment.diffs_by_path(state)
    changed = state.settled.changed if state.settled else {}  # since an earlier review
    diffs = dict(sorted(by_path.items(), key=lambda entry: entry[0] not in changed))
    findings += await list_used_elsewhere(state, diffs)
    await reviewer_assignment.assign(state, diffs, "\n".join(findings), calls)
    checked = list_checked(calls, {}, state.given.catalog.languages)
    text_only = {entry.path for entry in checked if entry.depth == "text"}
    tools, contracts, shown = _common_tools(state), _contracts(state), dict[str, Json]()
    if not (state.carried or any(call.result.findings for call in calls)):
        shown = {**contracts, "report": contract_of_one(responds=False)}
    state.runtime = replace(
        state.runtime, common_tools=tools, contracts=contracts, shown_contracts=shown
    )
    text = await _write_opening(state, findings, diffs, text_only)
    if len(text) > state.given.catalog.guards.limits.characters:  # a guard cuts it in its middle
        state.not_in_opening = {**diffs}
    state.runtime = replace(state.runtime, opening=text)


async def _run_analyzers(state: ReviewState) -> None:
    """Call every analyzer that reads a changed file and that an agent may call."""
    examiners = [state.agent(name) for name in state.examiners]
    useful = [
        name
        for name in ANALYZERS
        if any(is_useful(state, examiner, name) for examiner in examiners)
    ]

    async def call(name: str, position: int) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            key = CODE_TASK.in_turn(attempt).tool_call(position, name)
            if (await state.call_tool(CODE, key, {})).ok:
                return

    async with task_group() as group:
        for position, name in enumerate(useful, 1):
            group.start_soon(call, name, position)


def _common_tools(state: ReviewState) -> tuple[str, ...]:
    """The tools that all readers are shown: theirs except analyzers, which have run.

    A provider's cache depends on equal tools; the executor decides which agent may call which.
    """
    wanted = {tool for agent in _readers(state) for tool in agent.tools}
    wanted -= {*ANALYZERS, *LEAD_TOOLS}
    return tuple(name for name in state.runtime.executor.registry.specs() if name in wanted)


def _contracts(state: ReviewState) -> dict[str, Json]:
    """The readers' contracts, by name; a provider's cache depends on equal schemas."""
    wanted = [spec.contract for spec in _readers(state)]
    if state.is_trivial:
        return {"report": wanted[0]}
    return {name: contract for name, contract in all_contracts().items() if contract in wanted}


def _readers(state: ReviewState) -> list[AgentSpec]:
    """The agents that read the whole change."""
    lead = [state.given.settings.lead] if state.is_led else []
    return [state.agent(name) for name in (*lead, *state.examiners)]


async def _write_opening(
    state: ReviewState, findings: Sequence[str], diffs: FileDiffs, text_only: Collection[str]
) -> str:
    nonce = state.runtime.executor.nonce
    said, guidance = await _author_says(state), _list_guidance(state.given.workspace.guidance)
    contracts = state.runtime.shown_contracts or state.runtime.contracts
    responses = contracts["report"]["properties"]["responses"]
    change = state.given.workspace.change
    added, removed = (
        sum(len(getattr(file, side)) for file in change.files) for side in ("added", "removed")
    )
    described = [
        f"Change {change.base} to {change.head}: {len(change.files)} files, +{added} -{removed}",
        *change.notes,
        *_list_files(state, text_only),
        *([] if state.is_trivial else _list_checks(state)),
        *findings,
        *await _show_diff(state, diffs),
    ]
    return "".join(
        [
            PROMPTS["opening"],
            PROMPTS["reporting"].format(most=state.most_findings),
            PROMPTS["responding"] if "items" in responses else "",
            "\n",
            rules_for_known_lines(state),
            *([PROMPTS["author"], frame("\n".join(said), nonce), "\n"] if said else []),
            *([PROMPTS["guidance"], frame("\n".join(guidance), nonce), "\n"] if guidance else []),
            PROMPTS["change"] if said or guidance else "",
            frame("\n".join(described), nonce),
        ]
    )


def _list_files(state: ReviewState, text_only: Collection[str]) -> list[str]:
    files = by_risk(state.given.workspace.change.files)
    lines = ["", "Files, riskiest first:"]
    for file in files[:SHOWN_FILES]:
        left_out = state.given.workspace.left_out(file)
        lines.append(
            f"- {describe_file(file)}"
            + (f", not analyzed: {left_out}" if left_out else "")
            + (", read by no analyzer as code" if file.path in text_only else "")
        )
    return [*lines, *name_rest(len(files) - SHOWN_FILES, "more; glob lists them")]


def _list_checks(state: ReviewState) -> list[str]:
    """The names of the checks that the policy requires of this change."""
    needed = state.given.catalog.verdict_policy.required_checks
    rules = required(needed, state.given.workspace.open_paths)
    names = ", ".join(rule.name for rule in rules)
    return ["", f"Required checks, which code has run: {names}"] if names else []


def _list_findings(calls: Sequence[AnalyzerCall]) -> list[str]:
    """The analyzers' findings without duplicates, those alike together, and their gaps."""
    found = {finding.fingerprint: finding for call in calls for finding in call.result.findings}
    ordered = sorted(found.values(), key=report_order)
    alike: dict[Hashable, list[LocatedFinding]] = {}
    for one in ordered[:SHOWN_FINDINGS]:
        same = (one.severity, one.confidence, one.rule, one.title)
        alike.setdefault(same, []).append(one)
    lines = ["", f"Findings of analyzers ({len(ordered)}):"]
    for first, *others in alike.values():
        lines += _finding_lines(first)
        if others:
            by_path: dict[str, list[str]] = {}
            for one in others:
                own = "" if one.detail == first.detail else f" {_shorten(one.detail)}"
                by_path.setdefault(one.path, []).append(
                    f"{one.start_line} ({one.fingerprint}){own}"
                )
            places = (f"{path}:{', '.join(at)}" for path, at in by_path.items())
            lines.append(f"  also at {', '.join(places)}")
    lines += name_rest(len(ordered) - SHOWN_FINDINGS, "less severe ones")
    last = {call.tool: call for call in calls}
    lines += [f"- {call.tool} failed: {call.why}" for call in last.values() if call.why]
    return lines


def _list_carried(state: ReviewState) -> list[str]:
    """Carried-over findings of agents; not their responses to findings of analyzers."""
    own = sorted(
        (one for one in state.carried if not one.refers_to),
        key=lambda one: report_order(one.finding),
    )
    if not own:
        return []
    lines = ["", f"Open from the previous review, reported already ({len(own)}):"]
    for one in own[:SHOWN_FINDINGS]:
        first, *more_lines = _finding_lines(one.finding)
        by = ", ".join(one.carried.reported_by) if one.carried else one.reporter
        near = "; lines changed here since" if changed_near(state.settled, one.finding) else ""
        lines += [f"{first} (by {by}{near})", *more_lines]
    return [*lines, *name_rest(len(own) - SHOWN_FINDINGS, "less severe ones")]


def _list_leads(calls: Sequence[AnalyzerCall]) -> list[str]:
    """Hits of analyzers under no rule; a model may report one as a finding."""
    leads = sorted({lead for call in calls for lead in call.result.leads})
    if not leads:
        return []
    places: dict[tuple[str, str], list[str]] = {}
    for one in leads[:SHOWN_LEADS]:
        places.setdefault((one.path, f"{one.tool} {one.code}"), []).append(str(one.line))
    shown = [f"- {path}:{', '.join(lines)}: {hit}" for (path, hit), lines in places.items()]
    more = name_rest(len(leads) - SHOWN_LEADS)
    return ["", PROMPTS["leads"].format(count=len(leads)), *shown, *more]


def _finding_lines(finding: LocatedFinding) -> list[str]:
    return [
        (
            f"- fingerprint {finding.fingerprint}: {finding.severity}, "
            f"confidence {finding.confidence:.2f}, {finding.path}:{finding.start_line}, "
            f"{finding.rule}: {finding.title}"
        ),
        f"  {_shorten(finding.detail)}",
    ]


def _shorten(detail: str) -> str:
    return detail.replace("\n", " ")[:MAX_DETAIL]


async def _show_diff(state: ReviewState, diffs: FileDiffs) -> list[str]:
    """The whole diffs of the riskiest files as space allows, then the names of the others."""
    shown, left = reviewer_assignment.fit(state, diffs)
    state.not_in_opening = left
    optional = reviewer_assignment.optional_tests(state)
    owed = {path: part for path, part in left.items() if path not in optional}
    lines = ["", "Diff:", *reviewer_assignment.list_diffs(shown, owed)]
    lines += [f"{PROMPTS['tests']} {', '.join(sorted(optional))}"] if optional else []
    return lines if state.is_trivial else [*lines, *await list_changed_functions(state, shown)]


async def _author_says(state: ReviewState) -> list[str]:
    """Title, description and commits, each line marked so that it cannot imitate our text."""
    return [
        line
        for name, text in (await history.author_says(state.given.workspace.change)).items()
        for line in (f"{name}:", *(f"  | {line}" for line in text.splitlines()))
    ]


def _list_guidance(guidance: Sequence[Guidance]) -> list[str]:
    lines: list[str] = []
    for one in guidance:
        scope = f", for {one.applies_to}" if one.applies_to else ""
        cut = f" ({one.why_not})" if one.why_not else ""
        text = [f"  {line}" for line in one.numbered()]
        lines += [f"{one.path}{scope}{cut}:", *text] if text or not one.kept else []
    return lines


SHOWN_CHANGED_FILES = 100
SHOWN_RANGES = 20
SHOWN_NEIGHBORS = 5

NEAR_LINES = 5
"""How near to a finding a line has to change for agents to be told."""


def rules_for_known_lines(state: ReviewState) -> str:
    """The rules for lines that an earlier review has settled; empty without one."""
    own = any(not report.refers_to for report in state.carried)
    parts = [PROMPTS["carried"] if own else "", PROMPTS["settled"] if state.settled else ""]
    if not any(parts):
        return ""
    return f"An earlier push of this change was reviewed\n{''.join(parts)}\n"


def changed_near(settled: SettledPlaces | None, finding: LocatedFinding) -> bool:
    """Whether lines of a finding, or near them, changed since an earlier review."""
    since = settled.changed.get(finding.path) if settled and finding.side == "head" else None
    return since is not None and any(
        first - NEAR_LINES <= finding.end_line and finding.start_line <= last + NEAR_LINES
        for first, last in since.added
    )


async def list_changed_since(state: ReviewState) -> list[str]:
    """The files of the change that changed since an earlier review, with lines and neighbors."""
    if state.settled is None:
        return []
    files = {file.path: file for file in state.given.workspace.change.files}
    changed = [since for path, since in state.settled.changed.items() if path in files]
    count = f"{len(changed)} of {len(files)} files"
    lines = [
        "",
        f"Changed since the complete review of {state.settled.head[:12]}: {count}",
        *(f"- {_describe(since)}" for since in changed[:SHOWN_CHANGED_FILES]),
    ]
    lines += name_rest(len(changed) - SHOWN_CHANGED_FILES)
    return [*lines, *await _list_reached(state, {since.path for since in changed})]


def _describe(since: ChangedSince) -> str:
    if since.old_path is None:
        return f"{since.path}: new"
    ranges = [f"{a}-{b}" if a != b else str(a) for a, b in since.added[:SHOWN_RANGES]]
    shown = ", ".join([*ranges, *name_rest(len(since.added) - SHOWN_RANGES)])
    moved = f" (was {since.old_path})" if since.old_path != since.path else ""
    return f"{since.path}{moved}: " + (f"lines {shown}" if shown else "no line added")


async def _list_reached(state: ReviewState, changed: set[str]) -> list[str]:
    """The other files of the change that import one of these, or that one of these imports."""
    paths = state.given.workspace.open_paths
    neighbors: Mapping[str, Sequence[str]] = (
        await reviewer_assignment.find_neighbors_of(state, paths) if changed else {}
    )
    reached = {
        path: near
        for path, all_near in neighbors.items()
        if path not in changed and (near := [one for one in all_near if one in changed])
    }
    if not reached:
        return []
    return [
        "Files of the change that these reach by imports:",
        *(
            f"- {path}: {', '.join(near[:SHOWN_NEIGHBORS])}"
            for path, near in list(reached.items())[:SHOWN_CHANGED_FILES]
        ),
    ]


async def make_filter(workspace: ReviewWorkspace, pool: WorkerPool) -> Callable[[str], str]:
    """Make a function that takes secrets out of a text, changed files' in base and head among them.

    A file that cannot be searched is a gap of the analyzer of secrets as well.
    """
    found: set[tuple[str, str]] = set()
    for name, paths in _changed_paths(workspace).items():
        side, failed = await workspace.side(name, paths)
        readable = [path for path in paths if path not in failed]
        replies, _ = await call_check_in_batches(
            pool,
            "redacted_text:list_secrets",
            {"root": str(side.root)},
            readable,
            SECONDS,
            list[tuple[str, str]],
        )
        found.update(pair for reply in replies for pair in reply)
    return _filter(sorted(found))


def _changed_paths(workspace: ReviewWorkspace) -> Mapping[SideName, list[str]]:
    """What is shown of a change, analyzed or not, but for what is no text or too large."""
    files = [
        file
        for file in workspace.change.files
        if file.skip is None and not workspace.is_too_large(file)
    ]
    return {
        "base": [file.old_path or file.path for file in files if file.old_blob],
        "head": [file.path for file in files if file.new_blob],
    }


def _filter(found: Sequence[tuple[str, str]]) -> Callable[[str], str]:
    """Replace each secret; one that reads like an ordinary word only where its line stands."""
    replacements: dict[str, str] = {}
    words: dict[str, list[str]] = {}
    for secret, line in found:
        if is_secret(secret):
            replacements[secret] = REDACTED
        else:
            words.setdefault(line, []).append(secret)
    for line, secrets in words.items():
        replacements[line] = redact_secrets(line, secrets)
    as_json = {json.dumps(old)[1:-1]: json.dumps(new)[1:-1] for old, new in replacements.items()}
    replacements |= as_json
    ordered = sorted(replacements.items(), key=lambda pair: (-len(pair[0]), pair[0]))

    def without(text: str) -> str:
        for old, new in ordered:
            if old in text:
                text = text.replace(old, new)
        return redact_live_secrets(text)

    return without
