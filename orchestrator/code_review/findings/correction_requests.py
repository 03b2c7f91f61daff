"""Requests to correct a report: quotations and references that fail are sent back once.

A wrong line or a copied prefix is corrected without asking. Quotations that code cannot place are
sent back together, with the lines as they are. What was valid in the first version stays in the
second, whether the agent repeats it or not.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Any

from msgspec import Struct

from orchestrator.code_review.agent_report_contracts import (
    JudgeReport,
    ReportedFinding,
    SpecialistReport,
    VerifierReport,
    as_form,
)
from orchestrator.code_review.change.contents import SIDES
from orchestrator.code_review.findings.agent_reports import (
    BOTH_STAY,
    OWN_CLAIM,
    claim_fingerprint,
    read_claim,
    response_error,
)
from orchestrator.code_review.findings.citations import CitableSources, locate_finding, read_lines
from orchestrator.code_review.findings.evidence_from_journal import (
    citable_answer,
    find_run,
    reported_fingerprints,
)
from orchestrator.code_review.findings.located_findings import FindingTarget, Rejection
from orchestrator.code_review.findings.verification import as_lines, check_verdicts
from orchestrator.code_review.review_workspace import IterationFocus, ReviewWorkspace
from orchestrator.code_review.tools.registry import ANALYZERS
from orchestrator.engine.journal import Journal
from orchestrator.engine.tool_call_records import calls_under
from orchestrator.engine.types import Json

SHOWN_AROUND = 3
"""Lines shown before and behind those that a finding cites."""

MAX_SHOWN_LINES = 40
_LINES = re.compile(r":\d+(?:-\d+)?$")

ReportCheck = Callable[[str, Json, Json], Awaitable[tuple[Json, list[str]]]]


class ReportCorrections(Struct, frozen=True):
    """The check of reports for ``AgentRuntime.check_report``.

    Attributes:
        focus: has the ids that the agents of the present iteration were shown.
        nonce: the run's nonce, which marks tools' answers.
    """

    workspace: ReviewWorkspace
    focus: IterationFocus
    journal: Journal
    nonce: str

    async def check(self, agent: str, report: Json, earlier: Json) -> tuple[Json, list[str]]:
        """The report that counts, and the errors to send back.

        Args:
            earlier: the version that was sent back before; None: there is none.
        """
        if not isinstance(report, dict):
            return report, []
        if "criteria" in report:
            if isinstance(earlier, dict):
                scores = {e["id"]: e for e in (*earlier["criteria"], *report["criteria"])}
                return {**report, "criteria": list(scores.values())}, []
            return report, await self._score_errors(report)
        if "verdicts" in report:
            if isinstance(earlier, dict):
                again = {each["finding"] for each in report["verdicts"]}
                kept = [each for each in earlier["verdicts"] if each["finding"] not in again]
                return {**report, "verdicts": [*kept, *report["verdicts"]]}, []
            given = as_form(VerifierReport, report)
            _, faults = await check_verdicts(self.workspace, given, self.focus.asked)
            return report, as_lines(faults)
        if "checked" not in report:  # no specialist's
            return report, []
        known = reported_fingerprints(self.journal, ANALYZERS)
        if isinstance(earlier, dict):
            return await self._keep_what_held(agent, report, earlier, known), []
        form = as_form(SpecialistReport, report)
        errors = [
            f"finding {number} ({finding.title}): {error}"
            for number, finding in enumerate(form.findings, 1)
            if (error := await self._error(agent, finding, known))
        ]
        errors += (await self._response_errors(agent, form, known)).values()
        ruled_out, unplaced = await self._ruled_out(report)
        if ruled_out and not unplaced:
            report = {**report, "ruled_out": ruled_out}
        return report, [*errors, *unplaced]

    async def _ruled_out(self, *reports: dict[str, Any]) -> tuple[list[Json], list[str]]:
        """What these ruled out, each question once, and errors of those at no path that exists."""
        trees = [await self.workspace.contents.paths(side) for side in SIDES]
        held: dict[tuple[str, ...], Json] = {}
        wrong: dict[tuple[str, ...], str] = {}
        for one in (one for report in reports for one in report.get("ruled_out", ())):
            path = _LINES.sub("", one["path"].strip()).rstrip("/")
            path = await self.workspace.known_path(path)
            words = tuple(one["question"].casefold().split())
            inside = f"{path}/"  # a directory is a place too, and so is the whole change
            if path in {"", "."} or any(
                name == path or name.startswith(inside) for tree in trees for name in tree
            ):
                held.setdefault((path, *words), {**one, "path": path})
            else:
                wrong[words] = f"ruled out ({one['question']}): there is no file {one['path']}"
        found = {key[1:] for key in held}
        return [*held.values()], [why for words, why in wrong.items() if words not in found]

    async def _response_errors(
        self, agent: str, form: SpecialistReport, known: Collection[str]
    ) -> dict[int, str]:
        """The place of a response in a report → what is wrong with it."""
        own = {claim_fingerprint(finding) for finding in form.findings}

        def find(name: str) -> FindingTarget | None:
            fingerprint = self.focus.shown.get(name, name)
            if fingerprint in own:
                return FindingTarget(agents=frozenset({agent}))
            if fingerprint in known and fingerprint not in self.focus.targets:
                return FindingTarget(proved=True)
            return self.focus.targets.get(fingerprint)

        sources = CitableSources(self.workspace, {}, self._answers)
        found: dict[int, str] = {}
        for number, response in enumerate(form.responses, 1):
            error = await response_error(sources, agent, response, find)
            # A corrected report could only leave these out.
            if error and not error.endswith((BOTH_STAY, OWN_CLAIM)):
                what = f"{response.action} of {response.finding}"
                found[number] = f"response {number}: {what}: {error}"
        return found

    async def _score_errors(self, report: dict[str, Any]) -> list[str]:
        sources = CitableSources(self.workspace, {}, self._answers)
        form = as_form(JudgeReport, report)
        found = [*self._level_errors(form)]
        for criterion in form.criteria:
            # Texts of findings are not available here; quotations of them are checked later.
            cited = [citation for citation in criterion.evidence if citation.source != "finding"]
            if criterion.score is None or (criterion.evidence and not cited):
                continue
            if why := await sources.check(cited):
                found.append(f"score of {criterion.id}: {why}")
        return found

    def _level_errors(self, form: JudgeReport) -> Iterator[str]:
        """Criteria that were asked and are left out, and scores that are none of their levels."""
        given = {criterion.id: criterion for criterion in form.criteria}
        for known in self.focus.criteria:
            if known.id not in given:
                yield f"nothing is said of {known.id}; score it or abstain"
                continue
            score, levels = given[known.id].score, [level.score for level in known.levels]
            if score is not None and levels and score not in levels:
                allowed = ", ".join(f"{level:g}" for level in levels)
                yield f"score of {known.id}: {score:g} is not a level; its levels are {allowed}"

    def _answers(self, tool: str) -> Iterator[str]:
        for call in calls_under(self.journal, ""):
            if call.tool == tool and call.ok:
                yield citable_answer(call, self.nonce)

    async def _keep_what_held(
        self, agent: str, report: dict[str, Any], earlier: dict[str, Any], known: Collection[str]
    ) -> dict[str, Any]:
        """The second report, plus what was valid in the first and is not repeated."""
        first, second = (as_form(SpecialistReport, version) for version in (earlier, report))
        repeated = {_identity(finding) for finding in second.findings}
        findings = list[Json]()
        for raw, finding in zip(earlier.get("findings", ()), first.findings, strict=True):
            if _identity(finding) in repeated:
                continue
            if why := await self._why_not(agent, finding, known):
                self.focus.dropped.setdefault((self.focus.number, agent), []).append(
                    f"left out when sent back: {finding.severity}: {finding.title}: {why}"
                )
            else:
                findings.append(raw)
        wrong = await self._response_errors(agent, first, known)
        answered = {response.finding for response in second.responses}
        responses = [
            raw
            for number, raw in enumerate(earlier.get("responses", ()), 1)
            if number not in wrong and raw["finding"] not in answered
        ]
        lists = {
            name: [*added, *(each for each in earlier.get(name, ()) if each not in added)]
            for name in ("checked", "gaps")
            for added in [report.get(name, ())]
        }
        lists["ruled_out"], unplaced = await self._ruled_out(report, earlier)
        dropped = self.focus.dropped.setdefault((self.focus.number, agent), [])
        dropped += [f"left out when sent back: {why}" for why in unplaced]
        return {
            **report,
            **lists,
            "summary": earlier.get("summary") or report.get("summary", ""),
            "findings": [*report.get("findings", ()), *findings],
            "responses": [*report.get("responses", ()), *responses],
        }

    async def _why_not(self, agent: str, finding: ReportedFinding, known: Collection[str]) -> str:
        """Why a finding does not count; empty if it does."""
        if self.focus.shown.get(finding.fingerprint, finding.fingerprint) in known:
            return ""
        found = await locate_finding(self.workspace, read_claim(finding, agent))
        return found.reason if isinstance(found, Rejection) and found.cause != "older" else ""

    async def _error(self, agent: str, finding: ReportedFinding, known: Collection[str]) -> str:
        """Why a finding does not count, with the cited lines; empty if it does."""
        why = await self._why_not(agent, finding, known)
        if not why:
            unprinted = (x for x in finding.ran if not find_run(self.journal, self.nonce, agent, x))
            own = "beyond what its own code holds"
            return "; ".join(f"no snippet of yours printed {x!r:.200} {own}" for x in unprinted)
        lines = await read_lines(self.workspace, "head", finding.path)
        start = max(1, min(finding.start_line, len(lines)) - SHOWN_AROUND)
        end = min(len(lines), finding.end_line + SHOWN_AROUND, start + MAX_SHOWN_LINES)
        shown = "\n".join(f"{number}: {lines[number - 1]}" for number in range(start, end + 1))
        is_elsewhere = why.startswith("its guideline")
        return why if is_elsewhere or not shown else f"{why}; {finding.path} reads\n{shown}"


def _identity(finding: ReportedFinding) -> tuple[str, str]:
    return finding.path, finding.title.casefold()
