"""Which tools a review has: one table from a tool's name to what stands behind it.

Analyzers are declared in ``diffchecks.declarations``.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from diffchecks.declarations import CHECKS, Check, Files, with_own_languages
from diffchecks.declarations import TOPICS as TOPIC_NAMES
from diffchecks.dependencies.manifests import MEMBERS
from diffchecks.executed_files import PROGRAMS, choose_texts
from diffchecks.file_patterns import file_names, matches
from diffchecks.imports.broken_contracts import MARK, find_config_files
from diffchecks.jobs import ChangedFile, GivenCoverage, GivenReport, PatternsJob
from diffchecks.rules import CONFIGURED_ANALYZERS
from orchestrator.catalog.plugins import TOOL_PLUGINS, load_plugin
from orchestrator.catalog.settings import ToolsConfig
from orchestrator.code_review.analyzer_types import ChangeAnalyzer, SideAnalyzer
from orchestrator.code_review.analyzers.check_data_files import contents_digest
from orchestrator.code_review.analyzers.configured_analyzers import (
    ConfiguredAnalyzer,
    LinterCheck,
    TypeCheckRuns,
)
from orchestrator.code_review.analyzers.own_checks import (
    PATTERN_CHECKS,
    ComparisonCheck,
    PatternsCheck,
    SideCheck,
)
from orchestrator.code_review.analyzers.run_tests import TestRuns
from orchestrator.code_review.change.contents import SIDES
from orchestrator.code_review.change.git.commands import OID, Git
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.tools.analyzer_tools import Analysis, ChangeTool, SideTool
from orchestrator.code_review.tools.http_get import HttpGet
from orchestrator.code_review.tools.lead_tools import ProposePlan
from orchestrator.code_review.tools.prove_finding import PROVE_FINDING, ProveFinding
from orchestrator.code_review.tools.prove_fixes import ProveFixes
from orchestrator.code_review.tools.repository_navigation import SPECS as NAVIGATION
from orchestrator.code_review.tools.repository_navigation import Navigation
from orchestrator.code_review.tools.run_snippet import RunSnippet
from orchestrator.code_review.tools.test_runners import single_test
from orchestrator.code_review.tools.tool_inputs import ToolInputs
from orchestrator.engine.ports import CallContext, Tool
from orchestrator.engine.types import Json, Observation, ToolSpec

ANALYZERS: Mapping[str, Check] = {check.name: check for check in CHECKS}
"""All analyzers, by the name of their tool."""

TOPICS: Mapping[str, Sequence[str]] = {
    topic: [one.name for one in CHECKS if one.topic == topic] for topic in TOPIC_NAMES
}
"""Topic → the names of its analyzers."""

OTHERS: Mapping[str, str] = {
    tool.name: tool.description
    for tool in (ProposePlan.spec, HttpGet.spec, RunSnippet.spec, ProveFixes.spec, *NAVIGATION)
} | {PROVE_FINDING: ProveFinding.about}

TOOLS: Mapping[str, str] = {**{name: one.about for name, one in ANALYZERS.items()}, **OTHERS}
"""Every tool: name → description."""

MAX_MEMBERS = 1_000
Options = Mapping[str, Any] | None
"""Further parts of a job, see ``ComparisonCheck``."""


async def dependencies(inputs: ToolInputs, files: Sequence[ChangedFile]) -> Options:
    """The advisories, and the manifests of head that are of the kinds of changed ones."""
    names = tuple(sorted({PurePath(file.path).name for file in files} & {*MEMBERS}))
    members: list[str] = []
    if names:
        await inputs.workspace.pack_matching("head", names)
        members = [
            path
            for path in await inputs.workspace.contents.regular("head")
            if PurePath(path).name in names and "node_modules/" not in path
        ][:MAX_MEMBERS]
    given = inputs.given.advisories
    if given is None:
        return {"members": members}
    copy = inputs.workspace.copy_report
    path = await anyio.to_thread.run_sync(copy, given.path) if given.path else ""
    return {"members": members, "advisories": path, "advisory_gaps": dict(given.gaps)}


async def executed_files(inputs: ToolInputs, files: Sequence[ChangedFile]) -> Options:
    """The programs of head, where a file was changed that one of them might run."""
    changed = (
        file.path for file in inputs.workspace.change.files if file.in_head and file.kind == "text"
    )
    texts, is_any_unusual = choose_texts(changed)
    if not is_any_unusual:
        return {"texts": texts, "programs": []}
    await inputs.workspace.pack_matching("head", PROGRAMS.names)
    regular = await inputs.workspace.contents.regular("head")
    return {"texts": texts, "programs": [path for path in regular if path in PROGRAMS]}


async def protections(inputs: ToolInputs, files: Sequence[ChangedFile]) -> Options:
    """What security fixes in the history of base did to the changed files."""
    change, reviewable = inputs.workspace.change, inputs.workspace.reviewable
    paths = {
        file.old_path or file.path
        for file in change.files
        if file.in_base and file.in_head and (file.added or file.removed)
        if matches(file.path, file_names("guarded_code")) and reviewable(file)
    }
    if not paths:
        return {}
    tree = await inputs.workspace.contents.paths("base")
    fixes, unsearched = await inputs.fix_history.find(change, paths, tree)
    return {"fixes": fixes, "history_unsearched": unsearched}


async def imported_reports(inputs: ToolInputs, files: Sequence[ChangedFile]) -> Options:
    """The reports, the commit under review, and which results count and how much."""
    head = inputs.workspace.change.head
    reports = await anyio.to_thread.run_sync(_copy, inputs.workspace, inputs.given.imported)
    return {
        "reports": reports,
        "head_commit": head if OID.fullmatch(head) else "",
        "lines": inputs.settings.imports.lines,
        "severities": inputs.settings.imports.severities,
    }


async def uncovered_lines(inputs: ToolInputs, files: Sequence[ChangedFile]) -> Options:
    """The reports, and when head was committed; None where head is not a commit."""
    change, head_time = inputs.workspace.change, None
    if OID.fullmatch(change.head):
        seconds = await Git.of(change).run("show", "-s", "--format=%ct", change.head, "--")
        head_time = float(seconds)
    reports = await anyio.to_thread.run_sync(_copy, inputs.workspace, inputs.given.coverage)
    return {"reports": reports, "head_time": head_time}


def _copy(workspace: ReviewWorkspace, reports: Sequence[GivenReport | GivenCoverage]) -> list[Any]:
    """Copy reports into the review's own directory, to which a worker is confined."""
    return [
        report
        if isinstance(report, GivenReport) and report.error
        else replace(report, path=workspace.copy_report(report.path))
        for report in reports
    ]


async def layering(inputs: ToolInputs, files: Sequence[ChangedFile]) -> Options:
    """Nothing more, where base declares contracts; None where it does not."""
    workspace = inputs.workspace
    blobs = await workspace.contents.regular("base")
    found = find_config_files(list(blobs), [file.path for file in files])
    if not any([MARK in await workspace.contents.read(blobs[path]) for path in found]):
        return None
    await workspace.side("base", found)
    for side in SIDES:  # the library that builds the graph looks into directories
        paths = await workspace.contents.paths(side)
        await workspace.side(side, [path for path in paths if path.endswith(".py")])
    return {}


OPTIONS = {
    function.__name__: function
    for function in (
        dependencies, executed_files, protections, imported_reports, uncovered_lines, layering,
    )
}  # fmt: skip
"""Name of a check → what its job holds besides the two sides."""


def make_tool(check: Check, inputs: ToolInputs) -> Tool:
    """The tool of an analyzer, with the topic as its tag."""
    tool: Analysis[SideAnalyzer] | Analysis[ChangeAnalyzer]
    place = inputs.workspace, inputs.pool
    name, about, tags = check.name, check.about, [check.topic]
    if check.compares:
        compared = make_comparison(check, inputs)
        return ChangeTool(name, about, [compared], *place, tags=tags)
    tool = SideTool(name, about, make_side_analyzers(check, inputs), *place, tags=tags)
    tool.cache = inputs.cache
    return tool


def make_side_analyzers(check: Check, inputs: ToolInputs) -> Sequence[SideAnalyzer]:
    """What analyzes each side for a check; nothing where base configures no analyzers."""
    if check.name == CONFIGURED_ANALYZERS:
        programs = inputs.settings.analyzers.items()
        return [ConfiguredAnalyzer(name, program, inputs) for name, program in programs]
    if check.program:
        return [LinterCheck(check, inputs.codes(check.reporter, check.rules_topic))]
    return [make_side_check(check, inputs)]


def make_side_check(check: Check, inputs: ToolInputs) -> SideCheck:
    """A check of one side, with the data and the rules of the repository."""
    options, depends = dict[str, object](), ""
    if check.data:
        options["data"] = list(inputs.data[check.data])
        depends = contents_digest((*inputs.data[check.data],))
    if check.data == "patterns":
        check = with_own_languages(check, inputs.data["patterns"])
    place = check, inputs.pool, inputs.workspace
    if check.job is not PatternsJob:
        return SideCheck(*place, options=options, depends=depends)

    def search(*, others_code: bool) -> PatternsCheck:
        tables = [
            (one.reporter, one.rules_topic) for one in map(ANALYZERS.__getitem__, PATTERN_CHECKS)
        ]
        codes = [sorted(inputs.codes(*table, others_code=others_code)) for table in tables]
        return PatternsCheck(
            *place, options={**options, "codes": codes}, depends=f"{codes} {depends}"
        )

    made = search(others_code=False)
    made.for_others_code = search(others_code=True)
    return made


def make_comparison(check: Check, inputs: ToolInputs) -> ComparisonCheck:
    """A check that compares both sides; it wants no file where it is given nothing to judge."""
    pool, workspace, settings = inputs.pool, inputs.workspace, inputs.settings
    if check.name == "run_tests" and settings.tests:
        tests = TestRuns(settings.tests, inputs)
        return ComparisonCheck(check, pool, workspace, tests.options, seconds=tests.seconds)
    if check.name == "typecheck" and settings.typecheck:
        types = TypeCheckRuns(settings.typecheck, inputs)
        wanted = Files(also=types.wants)
        check = replace(check, files=wanted, code=wanted)
        return ComparisonCheck(check, pool, workspace, types.options, seconds=types.seconds)
    reports = {"imported_reports": inputs.given.imported, "uncovered_lines": inputs.given.coverage}
    if check.given and not reports.get(check.name):
        return ComparisonCheck(replace(check, files=Files()), pool, workspace)
    options = OPTIONS.get(check.name)
    return ComparisonCheck(check, pool, workspace, options and partial(options, inputs))


def build(inputs: ToolInputs, policy: ToolsConfig) -> list[Tool]:
    """All tools over one workspace and those of plugins, with the limits of the tool policy."""
    workspace = inputs.workspace

    def over(patched: ReviewWorkspace) -> Mapping[str, Tool]:
        own = replace(inputs, workspace=patched)
        made = (*(make_tool(one, own) for one in ANALYZERS.values()), *_provers(own))
        return {tool.spec.name: tool for tool in made}

    tools = [make_tool(one, inputs) for one in ANALYZERS.values()]
    given, focus = inputs.settings, inputs.focus
    tools += Navigation(workspace).tools(focus)
    tools.append(ProposePlan(workspace, given.specialists, focus, inputs.required_checks))
    if inputs.run_tests:
        if any(path.endswith(".py") for path in workspace.files):
            tools.append(RunSnippet(workspace, given.tests, inputs.private_paths))
        tools += _provers(inputs)
    tools.append(ProveFixes(workspace, inputs.pool, inputs.focus, over))
    if policy.http.hosts:
        tools.append(HttpGet(policy.http))
    tools += [load_plugin(TOOL_PLUGINS, name) for name in policy.plugins]
    return [with_limits(tool, policy) for tool in tools]


def _provers(inputs: ToolInputs) -> list[ProveFinding]:
    """The tool that runs tests of findings, where they may run and base says how."""
    tests = inputs.settings.tests
    single = single_test(tests) if tests and inputs.run_tests else None
    return [ProveFinding(tests, single, inputs)] if tests and single else []


class LimitedTool(Struct):
    """A tool with limits of the tool policy."""

    spec: ToolSpec
    tool: Tool

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        """Run the tool."""
        return await self.tool.run(arguments, context)


def with_limits(tool: Tool, policy: ToolsConfig) -> Tool:
    """The tool with its limits of the policy, if it has any."""
    own, spec = policy.tools.get(tool.spec.name), tool.spec
    if own is None:
        return tool
    limits = {
        "timeout": own.timeout or spec.timeout,
        "max_output": own.max_output or spec.max_output,
    }
    if isinstance(tool, Analysis):  # other code checks its class
        tool.spec = replace(spec, **limits)
        return tool
    return LimitedTool(replace(spec, **limits), tool)
