"""An analyzer as a tool: run it, keep what is new, say what was not looked at."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from diffchecks.check_io import BASE_DOES_NOT_PARSE, NOT_PARSED, NOTHING_TO_COMPARE, RawFinding
from diffchecks.data_files import vocabulary
from diffchecks.file_patterns import TEMPLATE_DIRECTORY
from diffchecks.jobs import ChangedFile
from diffchecks.path_kinds import may_be_broken
from diffchecks.template_marks import describe_template
from orchestrator.code_review.analyzer_types import (
    Analyzer,
    AnalyzerReport,
    ChangeAnalyzer,
    ResultCache,
    Side,
    SideAnalyzer,
    time_limit,
)
from orchestrator.code_review.analyzers.result_cache import run_cached
from orchestrator.code_review.findings.analyzer_findings import (
    NO_FINDINGS,
    Introduced,
    all_findings,
    files_to_compare,
    introduced_findings,
)
from orchestrator.code_review.findings.located_findings import AnalysisResult, Lead
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.data_directories import read_table
from orchestrator.engine.ports import CallContext
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.types import Json, Observation, ToolSpec
from orchestrator.errors import SandboxError
from orchestrator.sandbox.worker_pool import WorkerPool
from orchestrator.wording import count_noun

A = TypeVar("A", bound=SideAnalyzer | ChangeAnalyzer)

TEMPLATE = "it looks like a template"
PLACE = re.compile(r":|\blines?\b")  # what follows in a reason says where
_HOLE = re.compile(rf"{NOT_PARSED} lines? (\d+(?:, \d+)*)(?=; base's)")
SECONDS = 120.0
AROUND_PROGRAMS = 120.0
"""Seconds for what is around programs of base: exporting both sides, and the check."""
SHOWN_FINDINGS = 60
MAX_LEADS = 100
LEAST_NEEDED_FIRST = ("checked", "unreadable_in_base", "gaps", "findings")
RESERVED_FOR_REDACTION = 200  # characters; what stands for a secret may be longer than it
SHOWN_FIELDS: Sequence[str] = read_table(__file__, "shown_fields.yaml")
PATHS_SCHEMA: Mapping[str, Json] = read_table(__file__, "paths_schema.yaml")


class _Scope(Struct, frozen=True):
    """What an analyzer is given, and what it cannot be given.

    Attributes:
        searched_only: those of the files that are left out of the review otherwise.
    """

    files: list[ChangedFile] = field(default_factory=list)
    gaps: dict[str, str] = field(default_factory=dict)
    searched_only: set[str] = field(default_factory=set)


def select(workspace: ReviewWorkspace, requested: Sequence[str] | None, by: Analyzer) -> _Scope:
    """The files that an analyzer can look at, of those that were requested."""
    scope = _Scope()
    for path in workspace.files if requested is None else dict.fromkeys(requested):
        file = workspace.files.get(path)
        if file is None:
            scope.gaps[path] = "not a changed file"
        elif _left_out(workspace, file, by) or not (
            by.wants(path) or (file.old_path and by.wants(file.old_path))
        ):
            continue
        elif workspace.searched_only(file):
            if not (by.needs == "file" and not file.whole):
                scope.files.append(file)
                scope.searched_only.add(path)
        elif by.needs_tree and not workspace.change.has_tree:
            scope.gaps[path] = "needs the whole tree, and only a patch is known"
        elif by.needs == "file" and not file.whole:
            scope.gaps[path] = "needs the whole file, and only the patch's hunks are known"
        else:
            scope.files.append(file)
    return scope


def _left_out(workspace: ReviewWorkspace, file: ChangedFile, by: Analyzer) -> bool:
    if by.vendored and workspace.searched_only(file):
        return False
    if by.lock_files:
        return not workspace.reviewable(file)
    return workspace.left_out(file) is not None


def _without_minor(
    workspace: ReviewWorkspace, report: AnalyzerReport, searched_only: Collection[str]
) -> AnalyzerReport:
    """The report with only severe findings and malicious code in vendored and generated files.

    They do not count as examined, and what cannot be parsed in them is no gap.
    """
    if not searched_only:
        return report

    def is_kept(raw: RawFinding) -> bool:
        rule = workspace.rules.find_for(report.tool, raw)
        if raw.path not in searched_only:
            return True
        if rule is None:
            return False
        return rule.in_others_code(rule.severity_of(raw))

    return replace(
        report,
        findings=tuple(filter(is_kept, report.findings)),
        examined=report.examined.difference(searched_only),
        gaps={path: why for path, why in report.gaps.items() if path not in searched_only},
    )


def make_observation(result: AnalysisResult, max_characters: int) -> Observation:
    """For a model, in at most so many characters, and for code (all of it)."""
    shown = _fitting_json(_shown(result), max_characters - RESERVED_FOR_REDACTION)
    return Observation(shown, result.to_json(), ok=not result.error)


def _shown(result: AnalysisResult) -> dict[str, Json]:
    if result.error:
        content: dict[str, Json] = {"error": result.error}
        return {**content, "facts": dict(result.facts)} if result.facts else content
    shown = [
        {name: getattr(finding, name) for name in SHOWN_FIELDS}
        for finding in result.findings[:SHOWN_FINDINGS]
    ]
    left = len(result.findings) - len(shown)
    if result.examined or result.findings:
        files = count_noun(len(result.examined), "file")
        summary = f"{result.tool}: {len(result.findings)} new in {files}"
    else:
        why = result.facts.get(NOTHING_TO_COMPARE, "none of these files is for it")
        summary = f"{result.tool}: looked at no file: {why}"
    gaps = sorted(result.gaps.items())
    content = {
        "summary": summary + (f", {left} of them not shown here" if left else ""),
        "findings": shown,
        "checked": list(result.examined),
        "gaps": [{"path": path, "tool": result.tool, "why": why} for path, why in gaps],
    }
    if result.known_gaps:
        content["unreadable_in_base"] = dict(result.known_gaps)
    if result.facts:
        content["facts"] = dict(result.facts)
    return content


def _fitting_json(content: dict[str, Json], max_characters: int) -> str:
    """The content as JSON: where it is too long, lists lose their ends, least needed ones first.

    ``left_out`` then counts by name what is missing: what is cut in its middle is no JSON.
    """
    facts: dict[str, Json] = content.get("facts", {})
    parts = [
        (facts, name) for name in sorted(facts, key=lambda name: -len(json.dumps(facts[name])))
    ]
    parts += [(content, name) for name in LEAST_NEEDED_FIRST]
    text = json.dumps(content)
    for holder, name in parts:
        whole = holder.get(name)
        if not isinstance(whole, list | dict):
            continue
        kept = len(whole)
        while kept and len(text) > max_characters:
            kept = kept * 3 // 4
            part = islice(whole.items() if isinstance(whole, dict) else whole, kept)
            holder[name] = type(whole)(part)
            content.setdefault("left_out", {})[name] = len(whole) - kept
            text = json.dumps(content)
    return text


def _join(tool: str, results: Sequence[AnalysisResult]) -> AnalysisResult:
    """What several analyzers say, under the name of their tool; no error of one is all theirs."""
    if len(results) == 1:
        return results[0]
    gaps: dict[str, str] = {}
    for result in results:
        for path, why in result.gaps.items():
            gaps[path] = f"{gaps[path]}; {why}" if path in gaps else why

    def all_of(field: str) -> tuple[Any, ...]:
        return tuple(item for result in results for item in getattr(result, field))

    return AnalysisResult(
        tool=tool,
        findings=all_of("findings"),
        rejected=all_of("rejected"),
        examined=tuple(sorted({*all_of("examined")})),
        read=tuple(sorted({*all_of("read")})),
        given=tuple(sorted({*all_of("given")})),
        gaps=gaps,
    )


def find_leads(workspace: ReviewWorkspace, report: AnalyzerReport) -> tuple[Lead, ...]:
    """The hits at changed lines for which no rule is on, some of very many."""
    leads = {
        Lead(raw.path, raw.line, report.tool, raw.code)
        for raw in report.findings
        if (raw.in_base or raw.removed_line or raw.line in workspace.added(raw.path))
        and workspace.rules.find_for(report.tool, raw) is None
    }
    return tuple(sorted(leads)[:MAX_LEADS])


def _result_of(
    workspace: ReviewWorkspace,
    analyzer: Analyzer,
    report: AnalyzerReport,
    scope: _Scope,
    introduced: Introduced,
    known_gaps: Mapping[str, str],
) -> AnalysisResult:
    """What an analyzer says of a change, by its report on head or on both sides."""
    found, rejected = introduced
    return AnalysisResult(
        tool=report.tool,
        version=report.version,
        findings=found,
        rejected=rejected,
        examined=tuple(sorted(report.examined)),
        read=tuple(sorted(analyzer.files_read(report))),
        given=tuple(sorted({file.path for file in scope.files} - scope.searched_only)),
        gaps={**scope.gaps, **report.gaps},
        known_gaps=dict(known_gaps),
        error=report.error or "",
        facts=dict(report.facts),
        leads=find_leads(workspace, report),
    )


class Analysis(ABC, Generic[A]):
    """What both kinds share: the same question is asked of an analyzer once.

    Two agents may look at the same files with the same tool; both get the one observation. A
    failure is not kept, so that a further iteration does try again.
    """

    compares_sides: bool

    def __init__(
        self,
        name: str,
        description: str,
        analyzers: Sequence[A],
        workspace: ReviewWorkspace,
        pool: WorkerPool,
        *,
        tags: Collection[str] = (),
    ) -> None:
        programs = [one.seconds for one in analyzers if one.seconds is not None]
        seconds = sum(programs, AROUND_PROGRAMS)
        timeout = seconds if programs else time_limit(SECONDS, len(workspace.change.files))
        self.spec = ToolSpec(name, description, PATHS_SCHEMA, timeout=timeout, tags=frozenset(tags))
        self._analyzers, self._workspace, self._pool = analyzers, workspace, pool
        self._lock = anyio.Lock()
        self._known: dict[tuple[str, ...] | None, Observation] = {}

    @property
    def by_file(self) -> bool:
        """Whether what it says of a file depends on no other file."""
        return all(analyzer.needs in {"lines", "file"} for analyzer in self._analyzers)

    def concerns(self, path: str) -> bool:
        """Whether it looks into files of this name."""
        return any(analyzer.wants(path) for analyzer in self._analyzers)

    def reads(self, path: str) -> bool:
        """Whether it reads files of this name as code."""
        return any(
            analyzer.wants(path)
            and path
            in analyzer.files_read(AnalyzerReport(analyzer.name, "", examined=frozenset({path})))
            for analyzer in self._analyzers
        )

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        """Analyze the asked-for files; see ``AnalysisResult``."""
        paths = arguments.get("paths")
        key = None if paths is None else tuple(sorted(paths))
        async with self._lock:
            if key not in self._known:
                seen = await self._analyze(paths)
                if not seen.ok:
                    return seen
                self._known[key] = seen
            return self._known[key]

    @abstractmethod
    async def _analyze(self, paths: Sequence[str] | None) -> Observation:
        """The analyzer's word on these files; None: on all."""


class SideTool(Analysis[SideAnalyzer]):
    """A tool over analyzers of one side: what they find in head and not in base is new.

    Most changes leave most analyzers nothing to say: of base only those files are looked at that
    may hold what an analyzer finds in head.

    Attributes:
        cache: results of earlier reviews; None: every file is analyzed.
    """

    compares_sides = False
    cache: ResultCache | None = None

    async def _analyze(self, paths: Sequence[str] | None) -> Observation:
        results: dict[int, AnalysisResult] = {}

        async def compare(number: int, analyzer: SideAnalyzer) -> None:
            results[number] = await self._compare(analyzer, paths)

        async with task_group() as group:
            for number, analyzer in enumerate(self._analyzers):
                group.start_soon(compare, number, analyzer)
        joined = _join(self.spec.name, [results[number] for number in sorted(results)])
        return make_observation(joined, self.spec.max_output)

    async def _compare(self, analyzer: SideAnalyzer, paths: Sequence[str] | None) -> AnalysisResult:
        """What one analyzer finds in head that it does not find in base."""
        workspace = self._workspace
        scope = select(workspace, paths, analyzer)
        head_paths = [file.path for file in scope.files if file.in_head]
        head_side, unwritten = await workspace.side("head", head_paths)
        written = [path for path in head_paths if path not in unwritten]
        introduced = NO_FINDINGS
        # Both sides in one slot: what has begun, perhaps first because it takes longest, does not
        # wait again behind all others. What waits for its turn takes none.
        async with analyzer.turn, workspace.programs if analyzer.is_program else workspace.slots:
            others = scope.searched_only
            head = await self._report(analyzer, head_side, written, others)
            head = _without_minor(workspace, head, others)
            base = AnalyzerReport(head.tool, head.version)
            files = await files_to_compare(workspace, head, head_side, scope.files)
            base_paths = [file.old_path or file.path for file in files if file.in_base]
            base_side, _ = await workspace.side("base", base_paths)
            if files:
                others = {file.old_path or file.path for file in files if file.path in others}
                base = await self._report(analyzer, base_side, base_paths, others)
        # Where base could not be read there is nothing to compare with: only added lines count.
        unread = {f.path: why for f in scope.files if (why := base.gaps.get(f.old_path or f.path))}
        if head.findings:
            sides = base_side, head_side
            introduced = await introduced_findings(
                workspace, self._pool, base, head, sides, base_unknown=frozenset(unread)
            )
        error = head.error or (base.error if head.findings else None)
        deleted = frozenset(file.path for file in scope.files if file.status == "deleted")
        gaps, known = self._split_gaps(analyzer, head, head_side, unread)
        examined = head.examined | deleted | self._read_around(known)
        # What is no path of base is the analyzer itself, which failed there.
        known = {**{n: w for n, w in base.gaps.items() if n not in base_paths}, **known}
        examined = frozenset() if error else examined
        ended = replace(head, examined=examined, gaps={**unwritten, **gaps}, error=error)
        return _result_of(workspace, analyzer, ended, scope, introduced, known)

    def _read_around(self, known: Mapping[str, str]) -> set[str]:
        """The files of which the change touches no line that a grammar could not parse."""
        holes = ((path, _HOLE.match(why)) for path, why in known.items())
        return {
            path
            for path, hole in holes
            if hole and self._workspace.added(path).isdisjoint(map(int, hole[1].split(", ")))
        }

    def _split_gaps(
        self, analyzer: SideAnalyzer, head: AnalyzerReport, side: Side, unread: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Path → why it could not be examined, of gaps that the change makes and of known ones.

        Known are files of code that could not be read in base for the same reason, templates where
        these lie, and what tests read. What is searched in a file's text, such as secrets, is never
        known, nor is a limit of ours, such as time: it says nothing of the text.

        Args:
            unread: path → why base's version could not be read.
        """
        gaps, known = dict[str, str](), dict[str, str]()
        code = analyzer.files_read(replace(head, findings=(), examined=frozenset(head.gaps)))
        for path, why in head.gaps.items():
            if path not in code or vocabulary("our_limit").search(why):
                gaps[path] = why
                continue
            marks = describe_template(path, "\n".join(self._workspace.read(side, path)))
            named = f"{why}; {TEMPLATE}, with {marks}" if marks and TEMPLATE not in why else why
            # Where templates lie, marks of one are no way around a parser.
            among = TEMPLATE_DIRECTORY.search(path) or "{{" in path.rpartition("/")[0]
            if among and TEMPLATE in named:
                known[path] = named
            elif path in unread and PLACE.split(unread[path])[0] == PLACE.split(why)[0]:
                known[path] = f"{named}; base's version could not be read either"
            elif may_be_broken(path, why):
                known[path] = f"{why}; what tests read may be broken"
            else:
                gaps[path] = named
        return gaps, known

    async def _report(
        self, analyzer: SideAnalyzer, side: Side, paths: Sequence[str], others: Collection[str]
    ) -> AnalyzerReport:
        """Its report on a side; ``others``: the vendored and the generated ones of the paths."""
        narrow = analyzer.for_others_code
        wanted = [path for path in paths if analyzer.wants(path)]
        apart = [path for path in wanted if narrow and path in others]
        own = [path for path in wanted if not narrow or path not in others]
        try:
            report = await run_cached(analyzer, self.cache, side, own)
            if narrow and apart:
                report = report.joined(await run_cached(narrow, self.cache, side, apart))
        except SandboxError as error:
            return AnalyzerReport(analyzer.name, "", error=str(error))
        return report


class ChangeTool(Analysis[ChangeAnalyzer]):
    """A tool over an analyzer that looks at both sides itself."""

    compares_sides = True

    async def _analyze(self, paths: Sequence[str] | None) -> Observation:
        (analyzer,), workspace = self._analyzers, self._workspace
        scope = select(workspace, paths, analyzer)
        old = [file.old_path or file.path for file in scope.files if file.in_base]
        base, _ = await workspace.side("base", old)
        head, unwritten = await workspace.side("head", [f.path for f in scope.files if f.in_head])
        files = [file for file in scope.files if file.path not in unwritten]
        try:
            # No program runs, and what may take longest begins first: only workers are waited for.
            report = await analyzer.run(workspace.change, base, head, files)
        except SandboxError as error:
            report = AnalyzerReport(analyzer.name, "", error=str(error))
        cited = {raw.path for raw in report.findings}
        tree = await workspace.contents.paths("head")
        head, _ = await workspace.side("head", sorted(cited & tree.keys()))
        found = await all_findings(workspace, self._pool, report, (base, head))
        # With base's version of a file that it mends, a change has nothing to be compared.
        known = {
            path: why
            for path, why in report.gaps.items()
            if may_be_broken(path, why)
            or (path.endswith((".py", ".pyi")) and why.startswith(BASE_DOES_NOT_PARSE))
        }
        gaps = {path: why for path, why in report.gaps.items() if path not in known}
        ended = replace(report, gaps={**unwritten, **gaps})
        result = _result_of(workspace, analyzer, ended, scope, found, known)
        return make_observation(replace(result, compares=True), self.spec.max_output)
