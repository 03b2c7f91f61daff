"""The evidence of a review: the results of agents' calls, read from the journal.

The journal is the only source. An agent's report is a claim about these calls and no evidence.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct

from diffchecks.check_io import NOT_PARSED, NOTE, NOTHING_TO_COMPARE
from diffchecks.data_files import vocabulary
from diffchecks.new_findings import remove_white_space
from orchestrator.code_review.findings.located_findings import AnalysisResult
from orchestrator.code_review.findings.quote_location import MIN_QUOTE, find_quote
from orchestrator.code_review.tools.run_snippet import RUN_SNIPPET, citable_part
from orchestrator.code_review.verdict.document_parts import SnippetRun
from orchestrator.engine.agent_loop import LoopResult
from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.tool_call_records import DECLINED, ToolCallRecord, calls_under
from orchestrator.engine.untrusted_text import unframe
from orchestrator.errors import NotOffered, NotRegistered
from orchestrator.optional_dependencies import NOT_INSTALLED

NOT_OFFERED = frozenset({NotOffered.code, NotRegistered.code})
"""Codes of refusals of tools that an agent does not have."""

BY_CODE = "analyzers"
"""The name under which code itself calls analyzers, before any agent works."""

CODE_TASK = Key("analysis", 1, BY_CODE)
"""Where these calls are recorded."""


class AnalyzerCall(Struct, frozen=True):
    """One analyzer's call by a specialist.

    Attributes:
        ref: its key in the journal.
        why: why it failed; empty if it did not.
        result: of the analyzer; empty for a refusal or a timeout.
    """

    ref: str
    iteration: int
    agent: str
    tool: str
    why: str
    result: AnalysisResult

    @property
    def did_its_work(self) -> bool:
        """Whether it did not fail, and examined something of what it was given."""
        result = self.result
        return not self.why and not (result.gaps and not result.examined)


class Work(Struct, frozen=True):
    """One agent's work in one iteration."""

    iteration: int
    result: LoopResult


class ToolHealth(Struct, frozen=True):
    """The health of a tool, over all its calls.

    Attributes:
        error: its last error; empty if the last call succeeded.
        own_tests: why only the change's own tests passed; empty if others passed too.
        nothing: why it had nothing to compare; empty if it had.
        found: the number of its findings.
    """

    error: str
    gaps: frozenset[str]
    given: frozenset[str] = frozenset()
    own_tests: str = ""
    nothing: str = ""
    found: int = 0


class Failure(Struct, frozen=True):
    """What a further iteration might fix: an agent that failed, or one of its tools.

    Attributes:
        tool: empty where the agent itself failed.
    """

    agent: str
    tool: str
    why: str

    def __str__(self) -> str:
        return f"{self.agent}/{self.tool}: {self.why}" if self.tool else f"{self.agent}: {self.why}"


def analyzer_calls(
    journal: Journal, nonce: str, iteration: int, tasks: Iterable[Key], analyzers: Collection[str]
) -> Iterator[AnalyzerCall]:
    """The calls of analyzers in one iteration, by agent, attempt, turn and place.

    Calls of other tools are left out, since they are no evidence and their failures no gaps. So are
    calls of tools that the agent was not offered: other agents have these, or a required check that
    has not run shows what is missing.
    """
    for task in sorted(tasks, key=str):
        for call in calls_under(journal, task):
            if call.refusal and call.code in NOT_OFFERED:
                continue
            if call.tool in analyzers and (call.completed or call.refusal):
                result = AnalysisResult.from_json(call.data)
                why = _failure(call, result, nonce)
                yield AnalyzerCall(call.key, iteration, call.agent, call.tool, why, result)


def reported_fingerprints(journal: Journal, analyzers: Collection[str]) -> set[str]:
    """The fingerprints of all findings that analyzers have reported so far."""
    return {
        finding.fingerprint
        for call in calls_under(journal, "")
        if call.tool in analyzers and call.completed
        for finding in AnalysisResult.from_json(call.data).findings
    }


def _failure(call: ToolCallRecord, result: AnalysisResult, nonce: str) -> str:
    if call.refusal:
        return f"{call.code}: {call.refusal}"
    said = unframe(call.content, nonce) if call.code == DECLINED else call.code
    return "" if call.ok else result.error or said


def answers(journal: Journal, nonce: str, tasks: Collection[Key], tool: str) -> Iterator[str]:
    """What a tool answered, as text."""
    for task in tasks:
        for call in calls_under(journal, task):
            if call.tool == tool and call.ok:
                yield citable_answer(call, nonce)


def citable_answer(call: ToolCallRecord, nonce: str) -> str:
    """The part of a call's answer that can be evidence."""
    answer = unframe(call.content, nonce)
    if call.tool == RUN_SNIPPET:
        return citable_part(answer, str(call.arguments.get("code", "")))
    return answer


def find_run(journal: Journal, nonce: str, agent: str, text: str) -> SnippetRun | None:
    """The snippet of an agent that printed a text."""
    for call in calls_under(journal, ""):
        if call.tool == RUN_SNIPPET and call.ok and call.agent == agent:
            code, output = str(call.arguments.get("code", "")), unframe(call.content, nonce)
            if has_printed(run := SnippetRun(call.key, code, output), text):
                return run
    return None


def has_printed(run: SnippetRun, text: str) -> bool:
    """Whether a snippet printed a text, beyond what it holds itself."""
    lines = citable_part(run.output, run.code).split("\n")
    return len(remove_white_space([text])) >= MIN_QUOTE and bool(find_quote(lines, text))


def latest(entries: Iterable[Work]) -> dict[str, Work]:
    """Each agent's work in its last iteration."""
    return {entry.result.agent: entry for entry in entries}


def gaps(entries: Sequence[AnalyzerCall]) -> dict[tuple[str, str], str]:
    """(tool, path) → why; a path that a later call examined is no gap any more.

    Neither is text that a comparison could not read, and another analyzer could not read in base,
    nor a script that a grammar could not parse and oxlint, which conforms, has settled.
    """
    results = [call.result for call in entries]
    read = {p for each in results if each.tool == "oxlint" for p in (*each.read, *each.known_gaps)}
    known = {path for each in results if not each.compares for path in each.known_gaps}
    open_gaps, limit = dict[tuple[str, str], str](), vocabulary("our_limit")
    for call in entries:
        for path in call.result.examined:
            open_gaps.pop((call.tool, path), None)
        for path, why in call.result.gaps.items():
            is_hole = path in read and why.startswith(NOT_PARSED)
            is_known = call.result.compares and path in known and not limit.search(why)
            if not (is_hole or is_known):
                open_gaps[call.tool, path] = why
    return open_gaps


def health(entries: Sequence[AnalyzerCall]) -> dict[str, ToolHealth]:
    """The health of each analyzer, by the tool's name."""
    open_gaps = gaps(entries)
    last = {call.tool: call for call in entries}
    return {
        tool: ToolHealth(
            call.why,
            frozenset(path for name, path in open_gaps if name == tool),
            frozenset(p for entry in entries if entry.tool == tool for p in entry.result.given),
            str(call.result.facts.get("own_tests", "")),
            _nothing_to_compare([entry.result for entry in entries if entry.tool == tool]),
            len({f.fingerprint for e in entries if e.tool == tool for f in e.result.findings}),
        )
        for tool, call in last.items()
    }


def _nothing_to_compare(results: Sequence[AnalysisResult]) -> str:
    """Why none of a tool's calls compared anything; empty if one did."""
    reasons = [str(result.facts.get(NOTHING_TO_COMPARE, "")) for result in results]
    return reasons[-1] if all(reasons) else ""


def tool_notes(entries: Iterable[AnalyzerCall]) -> list[str]:
    """Notes of analyzers for a person, besides findings and gaps, without duplicates."""
    notes = (str(call.result.facts.get(NOTE, "")) for call in entries)
    return list(dict.fromkeys(filter(None, notes)))


def failures(entries: Sequence[AnalyzerCall], team: Iterable[Work]) -> list[Failure]:
    """What a further iteration might fix, in the order of agents and tools.

    A program that is not installed stays so.
    """
    last = {(call.agent, call.tool): call.why for call in entries if call.agent != BY_CODE}
    for name, entry in latest(team).items():
        if entry.result.status != "ok":
            last[name, ""] = f"{entry.result.status}: {entry.result.detail}"
    failed = (Failure(agent, tool, why) for (agent, tool), why in last.items() if why)
    return sorted((one for one in failed if NOT_INSTALLED not in one.why), key=str)
