"""Which tools a review has: one table from a tool's name to what stands behind it.

Analyzers are declared in ``diffchecks.declarations``.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from diffchecks.declarations import CHECKS, Check, Files, with_own_languages
from diffchecks.declarations import TOPICS as TOPIC_NAMES
from diffchecks.jobs import PatternsJob
from diffchecks.rules import CONFIGURED_ANALYZERS
from orchestrator.catalog.plugins import TOOL_PLUGINS, load_plugin
from orchestrator.catalog.settings import ToolsConfig
from orchestrator.code_review.analyzer_types import ChangeAnalyzer, SideAnalyzer
from orchestrator.code_review.analyzers import job_options
from orchestrator.code_review.analyzers.check_data_files import contents_digest
from orchestrator.code_review.analyzers.configured_analyzers import (
    ConfiguredAnalyzer,
    TypeCheckRuns,
)
from orchestrator.code_review.analyzers.linters import LinterCheck
from orchestrator.code_review.analyzers.own_checks import ComparisonCheck, SideCheck
from orchestrator.code_review.analyzers.run_tests import TestRuns
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


OPTIONS = {
    "dependencies": job_options.dependencies,
    "executed_files": job_options.executed_files,
    "protections": job_options.protections,
    "imported_reports": job_options.imported_reports,
    "uncovered_lines": job_options.uncovered_lines,
    "layering": job_options.layering,
}
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
    options: dict[str, object] = {}
    depends = ""
    if check.data:
        options["data"] = list(inputs.data[check.data])
        depends = contents_digest((*inputs.data[check.data],))
    if issubclass(check.job, PatternsJob):
        options["codes"] = codes = sorted(inputs.codes(check.reporter, check.rules_topic))
        depends = f"{codes} {depends}"
    if check.data == "patterns":
        check = with_own_languages(check, inputs.data["patterns"])
    return SideCheck(check, inputs.pool, inputs.workspace, options=options, depends=depends)


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
    if check.name not in OPTIONS:
        return ComparisonCheck(check, pool, workspace)
    options = partial(OPTIONS[check.name], inputs)
    return ComparisonCheck(check, pool, workspace, options)


def build(inputs: ToolInputs, policy: ToolsConfig) -> list[Tool]:
    """All tools over one workspace and those of plugins, with the limits of the tool policy.

    Raises:
        ConfigError: a plugin cannot be loaded.
    """
    workspace = inputs.workspace

    def over(patched: ReviewWorkspace) -> Mapping[str, Tool]:
        own = replace(inputs, workspace=patched)
        made = (*(make_tool(one, own) for one in ANALYZERS.values()), *_provers(own))
        return {tool.spec.name: tool for tool in made}

    tools = [make_tool(one, inputs) for one in ANALYZERS.values()]
    tools += Navigation(workspace).tools()
    given, focus = inputs.settings, inputs.focus
    tools.append(ProposePlan(workspace, given.specialists, focus, inputs.required_checks))
    if inputs.run_tests:
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
