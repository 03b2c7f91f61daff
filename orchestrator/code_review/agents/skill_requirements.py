"""What opened skills require of tools, findings and files, held against reports and journal."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from orchestrator.catalog.playbook_steps import FILES_COVERED
from orchestrator.code_review.agent_report_contracts import ReportedFinding
from orchestrator.code_review.agents.files_read import lines_shown, shown_diffs
from orchestrator.code_review.agents.reviewer_assignment import optional_tests
from orchestrator.code_review.agents.uncalled_analyzers import find_tool, is_useful
from orchestrator.code_review.findings.agent_reports import claim_fingerprint, read_reports
from orchestrator.code_review.findings.evidence_from_journal import BY_CODE
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.tools.analyzer_tools import Analysis
from orchestrator.code_review.verdict.model import Cause, Finding
from orchestrator.engine.tool_call_records import ToolCallRecord, calls_under
from orchestrator.engine.tool_registry import NAVIGATION
from orchestrator.engine.types import AgentSpec, Skill

MAX_NAMED = 3
"""Uncovered files that a requirement names."""

Claim = tuple[ReportedFinding, Finding]


def skill_requirements(state: ReviewState) -> Mapping[str, bool]:
    """``skill: requirement`` → whether it is met, for the skills of all agents' tasks.

    Excluded are tools that apply to no changed file, and those that the agent may not call. A model
    is asked only what the playbooks that it was sent ask. What analyzers prove needs no evidence.
    Of a finding that is reported again the last report counts.
    """
    idle = {call.ref for call in state.calls() if not call.did_its_work}
    roots = [str(one.number) for one in state.iterations]  # a replay knows later calls
    made = (call for root in roots for call in calls_under(state.journal, root))
    done = [call for call in made if call.completed and call.key not in idle]
    ran, claims = {call.tool for call in done}, _unproved_claims(state)
    met: dict[str, bool] = {}
    for number, spec in ((one.number, task.spec) for one in state.iterations for task in one.tasks):
        own = [call for call in done if call.ok and call.agent in {spec.name, BY_CODE}]
        work = _Work(state, spec, own, claims.get((number, spec.name), ()))
        sent = {skill.name for skill in spec.skills}
        for skill in state.agent(spec.name).skills:
            named = {tool: tool in ran for tool in sorted(skill.tools) if work.applies(tool)}
            asked = (*work.stop(skill), *work.of_findings(skill)) if skill.name in sent else ()
            met |= {f"{skill.name}: {name}": is_met for name, is_met in (*named.items(), *asked)}
    return met


def _unproved_claims(state: ReviewState) -> Mapping[tuple[int, str], list[Claim]]:
    """(Iteration, agent) → its claims that count and that no analyzer proves."""
    ids, by_id = state.synthesis.ids, {one.id: one for one in state.synthesis.findings}
    shown = {done.number: done.shown for done in state.iterations}
    found: dict[tuple[int, str], list[Claim]] = {}
    for report in read_reports(state.team()):
        for claim in report.form.findings:
            known = shown[report.iteration].get(claim.fingerprint, claim.fingerprint)
            finding = by_id.get(ids.get(claim_fingerprint(claim)) or ids.get(known, ""))
            if finding is not None and finding.support != "proven":
                found.setdefault((report.iteration, report.agent), []).append((claim, finding))
    return found


class _Work(Struct, frozen=True):
    """One agent's work in one iteration, with its calls and those by code in all of them."""

    state: ReviewState
    spec: AgentSpec
    calls: Sequence[ToolCallRecord]
    claims: Sequence[Claim]

    def applies(self, name: str) -> bool:
        """Whether a tool that a step names has work, and the agent may call it."""
        tool = find_tool(self.state, self.spec, name)
        # A model reads further only if the opening leaves questions; not to is no omission.
        if tool is None or (NAVIGATION in tool.spec.tags and self.state.given.settings.has_model):
            return False
        return not isinstance(tool, Analysis) or is_useful(self.state, self.spec, name)

    def stop(self, skill: Skill) -> Iterator[tuple[str, bool]]:
        """A skill's stop conditions, and whether the agent met them."""
        for name in skill.requires.stop:
            if name == FILES_COVERED:
                left = self._uncovered()
                more = [f"{len(left) - MAX_NAMED} more"] if len(left) > MAX_NAMED else []
                without = f", not {', '.join([*left[:MAX_NAMED], *more])}" if left else ""
                yield f"{name} by {self.spec.name}{without}", not left
            elif find_tool(self.state, self.spec, name):
                yield f"{name} by {self.spec.name}", self._shows(name, None)

    def _uncovered(self) -> list[str]:
        """The files of the agent's tasks that it, or offline any analyzer, has not read."""
        state, agent = self.state, self.spec.name
        tasks = (task for one in state.iterations for task in one.plan.tasks)
        owed = {path for task in tasks if task.agent == agent for path in task.paths}
        for entry in state.synthesis.checked:
            readers = [hunk.read_by for hunk in entry.hunks] or [entry.read_by]
            if not state.given.settings.has_model or all(agent in names for names in readers):
                owed.discard(entry.path)
        owed -= optional_tests(state)
        return sorted(owed.difference(s.path for s in state.synthesis.skipped if not s.gap))

    def of_findings(self, skill: Skill) -> Iterator[tuple[str, bool]]:
        """What a skill requires of each finding that it leads to, and whether that is there."""
        for claim, finding in self.claims:
            if not self._leads_to(skill, finding):
                continue
            of = f"{finding.id} by {self.spec.name}"
            for name in skill.requires.output:
                has = getattr(claim, name) or getattr(finding, name, None)
                yield f"{name} of {of}", bool(has)
            for evidence in skill.requires.evidence:
                tool, _, place = evidence.partition(":")
                if find_tool(self.state, self.spec, tool):
                    met = any(self._shows(tool, one) for one in _places(place, claim, finding))
                    yield f"{tool} of {place and f'the {place} of '}{of}", met

    def _leads_to(self, skill: Skill, finding: Finding) -> bool:
        """Whether a finding is of its categories, in a file that its analyzers read.

        A finding of a category that no skill names is of all of the agent's.
        """
        skills = self.state.given.catalog.skills.values()
        known = {name for one in skills for name in one.requires.categories}
        names = skill.requires.categories
        tools = [find_tool(self.state, self.spec, name) for name in skill.tools]
        reads = [one.concerns(finding.path) for one in tools if isinstance(one, Analysis)]
        is_meant = not names or finding.category in names or finding.category not in known
        return is_meant and (not reads or any(reads))

    def _shows(self, tool: str, place: Cause | None) -> bool:
        """Whether a call showed a place; None: any. The opening shows diffs, as ``git_diff``."""
        calls = [call for call in self.calls if call.tool == tool]
        if place is None:
            return bool(calls)
        if tool == "read_file":
            pages = [page for call in calls for page in lines_shown(call, {})]
            return any(
                place.line in (lines.base if place.removed else lines.head)
                for path, lines in pages
                if path.removeprefix("./") == place.path
            )
        paths = {call.arguments.get("path") or place.path for call in calls}
        if tool == "git_diff" and self.state.given.settings.has_model:
            for done in self.state.iterations:
                paths |= shown_diffs(self.state, done, self.spec.name)[0]
        return place.path in paths


def _places(name: str, claim: ReportedFinding, finding: Finding) -> list[Cause | None]:
    """Where a finding's evidence may be; None: anywhere."""
    if not name:
        return [None]
    own = Cause(finding.path, finding.start_line, removed=finding.evidence.side == "base")
    source = claim.because_of or finding.because_of
    return [source] if name == "source" and source else [own, Cause(claim.path, claim.start_line)]
