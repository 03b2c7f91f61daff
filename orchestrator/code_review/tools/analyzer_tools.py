"""An analyzer as a tool: run it, keep what is new, say what was not looked at."""

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Generic, TypeVar

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from diffchecks.check_io import BASE_DOES_NOT_PARSE, NOTHING_TO_COMPARE, RawFinding
from diffchecks.file_patterns import TEMPLATE_DIRECTORY
from diffchecks.template_marks import describe_template
from orchestrator.catalog.shared_literals import Severity
from orchestrator.code_review.analyzer_types import (
    AnalyzerReport,
    ChangeAnalyzer,
    Side,
    SideAnalyzer,
    time_limit,
)
from orchestrator.code_review.change.types import ChangedFile
from orchestrator.code_review.findings.analyzer_findings import (
    IntroducedFindings,
    all_findings,
    files_to_compare,
    introduced_findings,
)
from orchestrator.code_review.findings.located_findings import AnalysisResult, Lead
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.engine.ports import CallContext
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.types import Json, Observation, ToolSpec
from orchestrator.errors import SandboxError
from orchestrator.sandbox.worker_pool import WorkerPool

A = TypeVar("A", bound=SideAnalyzer | ChangeAnalyzer)

TEMPLATE = "it looks like a template"
SECONDS = 120.0
SHOWN_FINDINGS = 60
MAX_LEADS = 100
SEVERE: frozenset[Severity] = frozenset({"critical", "high"})
LEAST_NEEDED_FIRST = ("checked", "unreadable_in_base", "gaps", "findings")
RESERVED_FOR_REDACTION = 200  # characters; what stands for a secret may be longer than it
SHOWN_FIELDS = (
    "path", "start_line", "end_line", "quote", "title", "severity", "detail", "category",
    "confidence", "rule", "fingerprint", "fix_suggestion",
)  # fmt: skip
PATHS_SCHEMA: Mapping[str, Json] = {
    "type": "object",
    "properties": {
        "paths": {
            "type": "array",
            "items": {"type": "string"},
            "description": "changed files to look at; left out: all of them",
        }
    },
    "additionalProperties": False,
}


class _Scope(Struct, frozen=True):
    """What an analyzer is given, and what it cannot be given.

    Attributes:
        searched_only: those of the files that are left out of the review otherwise.
    """

    files: list[ChangedFile] = field(default_factory=list)
    gaps: dict[str, str] = field(default_factory=dict)
    searched_only: set[str] = field(default_factory=set)


def select(
    workspace: ReviewWorkspace, requested: Sequence[str] | None, by: SideAnalyzer | ChangeAnalyzer
) -> _Scope:
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
        elif by.needs == "tree" and not workspace.change.has_tree:
            scope.gaps[path] = "needs the whole tree, and only a patch is known"
        elif by.needs == "file" and not file.whole:
            scope.gaps[path] = "needs the whole file, and only the patch's hunks are known"
        else:
            scope.files.append(file)
    return scope


def _left_out(
    workspace: ReviewWorkspace, file: ChangedFile, by: SideAnalyzer | ChangeAnalyzer
) -> bool:
    if getattr(by, "reads_others_code", False) and workspace.searched_only(file):
        return False
    if getattr(by, "reads_lock_files", False):
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
        severity = rule.severity_of(raw)
        return severity in SEVERE or (severity == "medium" and rule.is_malicious)

    return replace(
        report,
        findings=tuple(filter(is_kept, report.findings)),
        examined=report.examined.difference(searched_only),
        gaps={path: why for path, why in report.gaps.items() if path not in searched_only},
    )


class AnalyzerOutcome(Struct, frozen=True, kw_only=True):
    """What analyzers say of the files that a call asks for.

    Attributes:
        gaps: path → why it could not be looked at; the name of an analyzer for all of its files.
        read: paths of the files that were read as code.
        known_gaps: path → why it could not be read, in base neither, or could not be compared with
            base's version, which does not parse.
        compares: it looks at both sides itself, and cannot tell which one it cannot read.
    """

    report: AnalyzerReport
    found: IntroducedFindings = IntroducedFindings()
    gaps: Mapping[str, str] = {}
    given: Sequence[ChangedFile] = ()
    leads: Sequence[Lead] = ()
    read: frozenset[str] = frozenset()
    known_gaps: Mapping[str, str] = {}
    compares: bool = False

    def as_observation(self, max_characters: int) -> Observation:
        """For a model, in at most so many characters, and for code (all of it)."""
        report, found = self.report, self.found
        result = AnalysisResult(
            tool=report.tool,
            version=report.version,
            findings=found.findings,
            rejected=found.rejected,
            examined=tuple(sorted(report.examined)),
            read=tuple(sorted(self.read)),
            given=tuple(sorted(file.path for file in self.given)),
            gaps=dict(self.gaps),
            known_gaps=dict(self.known_gaps),
            compares=self.compares,
            error=report.error or "",
            facts=dict(report.facts),
            leads=tuple(sorted(set(self.leads))[:MAX_LEADS]),
        )
        shown = _fitting_json(self._shown(), max_characters - RESERVED_FOR_REDACTION)
        return Observation(shown, result.to_json(), ok=report.error is None)

    def _shown(self) -> dict[str, Json]:
        report, found = self.report, self.found
        shown = [
            {name: getattr(finding, name) for name in SHOWN_FIELDS}
            for finding in found.findings[:SHOWN_FINDINGS]
        ]
        left = len(found.findings) - len(shown)
        if report.examined or found.findings:
            count = len(report.examined)
            files = "1 file" if count == 1 else f"{count} files"
            summary = f"{report.tool}: {len(found.findings)} new in {files}"
        else:
            why = report.facts.get(NOTHING_TO_COMPARE, "none of these files is for it")
            summary = f"{report.tool}: looked at no file: {why}"
        gaps = sorted(self.gaps.items())
        content: dict[str, Json] = {
            "summary": summary + (f", {left} of them not shown here" if left else ""),
            "findings": shown,
            "checked": sorted(report.examined),
            "gaps": [{"path": path, "tool": report.tool, "why": why} for path, why in gaps],
        }
        if self.known_gaps:
            content["unreadable_in_base"] = dict(self.known_gaps)
        if report.error:
            content = {"error": report.error}
        if report.facts:
            content["facts"] = dict(report.facts)
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


def _join(tool: str, outcomes: Sequence[AnalyzerOutcome]) -> AnalyzerOutcome:
    """What several analyzers say, under the name of their tool; no error of one is all theirs."""
    if len(outcomes) == 1:
        return outcomes[0]
    gaps: dict[str, str] = {}
    for outcome in outcomes:
        for path, why in outcome.gaps.items():
            gaps[path] = f"{gaps[path]}; {why}" if path in gaps else why
    return AnalyzerOutcome(
        report=AnalyzerReport(
            tool,
            "",
            examined=frozenset[str]().union(*(outcome.report.examined for outcome in outcomes)),
        ),
        found=IntroducedFindings(
            tuple(finding for outcome in outcomes for finding in outcome.found.findings),
            tuple(finding for outcome in outcomes for finding in outcome.found.rejected),
        ),
        gaps=gaps,
        given=list(dict.fromkeys(file for outcome in outcomes for file in outcome.given)),
        read=frozenset[str]().union(*(outcome.read for outcome in outcomes)),
    )


def find_leads(workspace: ReviewWorkspace, report: AnalyzerReport) -> Iterator[Lead]:
    """The hits at changed lines for which no rule is on."""
    for raw in report.findings:
        counts = workspace.rules.find_for(report.tool, raw) is not None
        changed = raw.removed_line or raw.line in workspace.added(raw.path)
        if not counts and changed:
            yield Lead(raw.path, raw.line, report.tool, raw.code)


class Analysis(ABC, Generic[A]):
    """What both kinds share: the same question is asked of an analyzer once.

    Two agents may look at the same files with the same tool; both get the one observation. A
    failure is not kept, so that a further iteration does try again.
    """

    def __init__(
        self,
        name: str,
        description: str,
        analyzers: Sequence[A],
        workspace: ReviewWorkspace,
        pool: WorkerPool,
    ) -> None:
        timeout = time_limit(SECONDS, len(workspace.change.files))
        self.spec = ToolSpec(name, description, PATHS_SCHEMA, timeout=timeout)
        self._analyzers, self._workspace, self._pool = analyzers, workspace, pool
        self._lock = anyio.Lock()
        self._known: dict[tuple[str, ...] | None, Observation] = {}

    @property
    def needs_tree(self) -> bool:
        """Whether it must have all files of the tree."""
        return any(analyzer.needs == "tree" for analyzer in self._analyzers)

    @property
    def compares_sides(self) -> bool:
        """Whether it looks at both sides at once."""
        return isinstance(self, ChangeTool)

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
        """Analyze the asked-for files; see ``AnalyzerOutcome``."""
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
    """

    async def _analyze(self, paths: Sequence[str] | None) -> Observation:
        outcomes: dict[int, AnalyzerOutcome] = {}

        async def compare(number: int, analyzer: SideAnalyzer) -> None:
            outcomes[number] = await self._compare(analyzer, paths)

        async with task_group() as group:
            for number, analyzer in enumerate(self._analyzers):
                group.start_soon(compare, number, analyzer)
        joined = _join(self.spec.name, [outcomes[number] for number in sorted(outcomes)])
        return joined.as_observation(self.spec.max_output)

    async def _compare(
        self, analyzer: SideAnalyzer, paths: Sequence[str] | None
    ) -> AnalyzerOutcome:
        """What one analyzer finds in head that it does not find in base."""
        workspace = self._workspace
        scope = select(workspace, paths, analyzer)
        head_paths = [file.path for file in scope.files if file.in_head]
        head_side, unwritten = await workspace.side("head", head_paths)
        written = [path for path in head_paths if path not in unwritten]
        found = IntroducedFindings()
        # Both sides in one slot: what has begun, perhaps first because it takes longest, does not
        # wait again behind all others.
        async with workspace.slots:
            head = await self._report(analyzer, head_side, written)
            head = _without_minor(workspace, head, scope.searched_only)
            base = AnalyzerReport(head.tool, head.version)
            files = await files_to_compare(workspace, head, head_side, scope.files)
            base_paths = [file.old_path or file.path for file in files if file.in_base]
            base_side, _ = await workspace.side("base", base_paths)
            if files:
                base = await self._report(analyzer, base_side, base_paths)
        # Where base could not be read there is nothing to compare with: only added lines count.
        unread = frozenset(f.path for f in scope.files if (f.old_path or f.path) in base.gaps)
        if head.findings:
            sides = base_side, head_side
            found = await introduced_findings(
                workspace, self._pool, base, head, sides, base_unknown=unread
            )
        error = head.error or (base.error if head.findings else None)
        deleted = frozenset(file.path for file in scope.files if file.status == "deleted")
        examined = frozenset[str]() if error else head.examined | deleted
        whole = AnalyzerReport(
            head.tool, head.version, examined=examined, error=error, facts=head.facts
        )
        gaps, known = self._split_gaps(analyzer, head, head_side, unread)
        return AnalyzerOutcome(
            report=whole,
            found=found,
            gaps={**scope.gaps, **unwritten, **gaps},
            given=[file for file in scope.files if file.path not in scope.searched_only],
            leads=list(find_leads(workspace, head)),
            read=analyzer.files_read(replace(whole, findings=head.findings)),
            # What is no path of base is the analyzer itself, which failed there.
            known_gaps={**{n: w for n, w in base.gaps.items() if n not in base_paths}, **known},
        )

    def _split_gaps(
        self, analyzer: SideAnalyzer, head: AnalyzerReport, side: Side, unread: frozenset[str]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Path → why it could not be examined, of gaps that the change makes and of known ones.

        Known are files of code that could not be read in base either, and templates where these
        lie. What is searched in a file's text, such as secrets, is never known.

        Args:
            unread: the files of which base's version could not be read.
        """
        gaps, known = dict[str, str](), dict[str, str]()
        code = analyzer.files_read(replace(head, findings=(), examined=frozenset(head.gaps)))
        for path, why in head.gaps.items():
            if path not in code:
                gaps[path] = why
                continue
            marks = describe_template("\n".join(self._workspace.read(side, path)))
            named = f"{why}; {TEMPLATE}, with {marks}" if marks and TEMPLATE not in why else why
            if lies_among_templates(path) and TEMPLATE in named:
                known[path] = named
            elif path in unread:
                known[path] = f"{named}; base's version could not be read either"
            else:
                gaps[path] = named
        return gaps, known

    async def _report(
        self, analyzer: SideAnalyzer, side: Side, paths: Sequence[str]
    ) -> AnalyzerReport:
        try:
            return await analyzer.run(side, [path for path in paths if analyzer.wants(path)])
        except SandboxError as error:
            return AnalyzerReport(analyzer.name, "", error=str(error))


def lies_among_templates(path: str) -> bool:
    """Whether a file lies where templates do: there, marks of one are no way around a parser."""
    return TEMPLATE_DIRECTORY.search(path) is not None or "{{" in path.rpartition("/")[0]


class ChangeTool(Analysis[ChangeAnalyzer]):
    """A tool over an analyzer that looks at both sides itself."""

    async def _analyze(self, paths: Sequence[str] | None) -> Observation:
        (analyzer,), workspace = self._analyzers, self._workspace
        scope = select(workspace, paths, analyzer)
        old = [file.old_path or file.path for file in scope.files if file.in_base]
        base, _ = await workspace.side("base", old)
        head, unwritten = await workspace.side("head", [f.path for f in scope.files if f.in_head])
        files = [file for file in scope.files if file.path not in unwritten]
        try:
            async with workspace.slots:
                report = await analyzer.run(workspace.change, base, head, files)
        except SandboxError as error:
            report = AnalyzerReport(analyzer.name, "", error=str(error))
        cited = {raw.path for raw in report.findings}
        tree = await workspace.contents.paths("head")
        head, _ = await workspace.side("head", sorted(cited & tree.keys()))
        found = await all_findings(workspace, self._pool, report, head)
        # With base's version of a file that it mends, a change has nothing to be compared.
        known = {
            path: why
            for path, why in report.gaps.items()
            if path.endswith((".py", ".pyi")) and why.startswith(BASE_DOES_NOT_PARSE)
        }
        gaps = {path: why for path, why in report.gaps.items() if path not in known}
        return AnalyzerOutcome(
            report=report,
            found=found,
            gaps={**scope.gaps, **unwritten, **gaps},
            given=scope.files,
            leads=list(find_leads(workspace, report)),
            read=analyzer.files_read(report),
            known_gaps=known,
            compares=True,
        ).as_observation(self.spec.max_output)
