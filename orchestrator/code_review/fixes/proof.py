"""The proof of a patch: the analyzers' reports on head with and without it, compared."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, convert, to_builtins

from diffchecks.test_quality.proof_ends import HEAD_PASSES
from orchestrator.code_review.agent_report_contracts import WrittenTest
from orchestrator.code_review.findings.located_findings import AnalysisResult, LocatedFinding
from orchestrator.code_review.fixes.fix_targets import FixFocus, FixTarget, ToolReport
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.tools.analyzer_tools import Analysis
from orchestrator.code_review.tools.prove_finding import PROVE_FINDING
from orchestrator.code_review.verdict.document_parts import FixState, Proof
from orchestrator.engine.field_types import shared_fields
from orchestrator.engine.ports import CallContext, Tool
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.types import Json

AnalyzerTool = Analysis[Any]

MakeTools = Callable[[ReviewWorkspace], Mapping[str, Tool]]
"""The analyzers, and the tool that runs a finding's test, over a workspace, by name."""

PROGRAMS = frozenset({"run_tests", "typecheck"})
"""Tools that run what base configures over the whole tree."""
FIXED_RESULTS = frozenset({"imported_reports", "uncovered_lines"})
"""Tools that cannot say what they would find in other contents."""


class ProofResult(Struct, frozen=True):
    """What came of a proof.

    Attributes:
        patch: all patches as one, as git writes it; empty where they do not apply.
        tools: those that looked at the patched files.
        reason: why it is refused, or no more than applies.
    """

    state: FixState
    patch: str = ""
    tools: tuple[str, ...] = ()
    reason: str = ""


async def prove(
    targets: Sequence[FixTarget],
    patched: ReviewWorkspace,
    paths: Collection[str],
    make_tools: MakeTools,
    focus: FixFocus,
    context: CallContext,
) -> ProofResult:
    """Run analyzers on patched files, and compare their reports with the review's calls.

    Args:
        paths: the files that the patch changes.
        patched: the workspace of the change with the patch.
    """
    tools = make_tools(patched)
    wanted = _choose(targets, paths, tools, focus)
    looked = sorted({*paths, *(target.path for target in targets)})
    results: dict[str, AnalysisResult] = {}

    async def ask(name: str) -> None:
        whole = wanted[name].compares_sides and not wanted[name].by_file
        here = [path for path in looked if path in patched.files]
        arguments: dict[str, Json] = {} if whole else {"paths": list(here)}
        seen = await wanted[name].run(arguments, context)
        results[name] = AnalysisResult.from_json(seen.data)

    async with task_group() as group:
        for name in wanted:
            group.start_soon(ask, name)
    proved_by = tuple(sorted(results))
    for name in proved_by:
        before = focus.reported[name]
        if why := _why_not(name, results[name], before, targets, looked):
            return ProofResult("refused", tools=proved_by, reason=why)
    passed = set[Proof]()
    for proof in (one for target in targets for one in target.tests if PROVE_FINDING in tools):
        again = to_builtins(WrittenTest("", **shared_fields(proof, WrittenTest)))
        end = convert((await tools[PROVE_FINDING].run(again, context)).data, Proof)
        if end.reason == HEAD_PASSES:
            passed.add(proof)
        elif end.head or end.is_reproduced:  # else it was not run
            why = end.reason or "it fails as before"
            why = f"the test that shows {proof.claim!r} does not pass with it: {why}"
            return ProofResult("refused", tools=proved_by, reason=why)
    unproved = _why_unproved(targets, results, passed)
    state: FixState = "applies" if unproved else "verified"
    by_test = (PROVE_FINDING,) if passed and not unproved else ()
    return ProofResult(state, tools=(*by_test, *proved_by), reason=unproved)


async def prove_by_programs(
    patched: ReviewWorkspace, make_tools: MakeTools, focus: FixFocus, context: CallContext
) -> str:
    """Why base's tests or type checks fail with the patch; empty if they pass."""
    tools = make_tools(patched)
    for name in sorted(focus.programs):
        result = AnalysisResult.from_json((await tools[name].run({}, context)).data)
        if why := result.error or next(iter(result.gaps.values()), ""):
            return f"{name} could not run on the patched files: {why}"
        if result.findings:
            return f"{name} rejects it: {result.findings[0].detail}"
    return ""


def is_content(result: AnalysisResult) -> bool:
    """Whether a program of base ran on head and reported nothing."""
    return bool(result.examined) and not (result.findings or result.gaps or result.error)


def _choose(
    targets: Sequence[FixTarget], paths: Collection[str], tools: Mapping[str, Tool], focus: FixFocus
) -> dict[str, AnalyzerTool]:
    """The tools of a proof: those that reported the finding or read a patched file on its own.

    A tool without a report on head has nothing to compare with.
    """
    reporters = frozenset[str]().union(*(target.tools for target in targets))
    chosen: dict[str, AnalyzerTool] = {}
    for name, tool in tools.items():
        if (
            name in FIXED_RESULTS | PROGRAMS - reporters
            or name not in focus.reported
            or not isinstance(tool, Analysis)
        ):
            continue
        if name in reporters or (tool.by_file and any(map(tool.concerns, paths))):
            chosen[name] = tool
    return chosen


def _why_not(
    name: str,
    result: AnalysisResult,
    before: ToolReport,
    targets: Iterable[FixTarget],
    looked: Collection[str],
) -> str:
    """Why a tool's report on the patched files refutes the patch; empty if it does not."""
    if result.error:
        return f"{name} failed over the patched files: {result.error}"
    gone = frozenset[str]().union(*(target.fingerprints for target in targets))
    found = [finding for finding in result.findings if finding.path in looked]
    if left := next((finding for finding in found if finding.fingerprint in gone), None):
        return f"{name} still reports {left.rule} at {left.path}:{left.start_line}"
    asked = set(looked).intersection(result.given) - set(result.read)
    if not result.compares and (unread := sorted(before.read & asked)):
        why = result.gaps.get(unread[0], "it is no longer read as code")
        return f"{name} cannot read {unread[0]} with it: {why}"
    if new := _new_finding(found, [one for one in before.findings if one.path in looked], gone):
        return f"{name} reports {new.rule} at {new.path}:{new.start_line}, which is new"
    return ""


def _new_finding(
    found: Sequence[LocatedFinding], before: Sequence[LocatedFinding], gone: Collection[str]
) -> LocatedFinding | None:
    """A finding that unpatched head does not have.

    A finding in a patched line gets another fingerprint. So in a file as many findings of a rule
    may appear as disappear, not counting those that are to be fixed.
    """
    known = {finding.fingerprint for finding in before}
    still = {finding.fingerprint for finding in found}
    went = Counter(
        (finding.path, finding.rule)
        for finding in before
        if finding.fingerprint not in still and finding.fingerprint not in gone
    )
    for finding in found:
        if finding.fingerprint in known:
            continue
        went[finding.path, finding.rule] -= 1
        if went[finding.path, finding.rule] < 0:
            return finding
    return None


def _why_unproved(
    targets: Sequence[FixTarget], results: Mapping[str, AnalysisResult], passed: set[Proof]
) -> str:
    """Why it is not shown that all targets are gone; empty if it is.

    Args:
        passed: the tests of findings that pass now.
    """
    if any(not (target.tools or passed & {*target.tests}) for target in targets):
        return "only agents report the finding"
    silent = {name for target in targets for name in target.tools} - results.keys()
    if silent:
        return f"{', '.join(sorted(silent))} cannot be run again"
    return ""
