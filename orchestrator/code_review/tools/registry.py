"""Which tools a review has: one table from a tool's name to what stands behind it.

A new analyzer is a module in ``analyzers/`` or ``checks/``, a line here, its rules in
``config/rules/``, and its name in the agents and playbooks that use it.
"""

from collections.abc import Mapping
from functools import partial

from msgspec.structs import replace

from diffchecks.file_patterns import (
    ANY,
    CHANGELOG_FILES,
    DATA,
    MARKDOWN,
    NOTHING,
    PARSED_DATA,
    PYTHON,
    PYTHON_MODULES,
    REFERENCING_FILES,
    SCRIPTS,
    SQL,
    TEMPLATES,
    TESTABLE_CODE,
)
from orchestrator.catalog.plugins import TOOL_PLUGINS, load_plugin
from orchestrator.catalog.settings import ToolsConfig
from orchestrator.code_review.analyzers.comparison_checks import Layering
from orchestrator.code_review.analyzers.configured_analyzers import configured_analyzers
from orchestrator.code_review.analyzers.dependency_check import DependencyCheck
from orchestrator.code_review.analyzers.executed_files import ExecutedFiles
from orchestrator.code_review.analyzers.hadolint import Hadolint
from orchestrator.code_review.analyzers.imported_reports import ImportedResults
from orchestrator.code_review.analyzers.one_side_checks import ParseCheck
from orchestrator.code_review.analyzers.oxlint import Oxlint
from orchestrator.code_review.analyzers.program_execution import Program
from orchestrator.code_review.analyzers.protections import Protections
from orchestrator.code_review.analyzers.ruff import Ruff
from orchestrator.code_review.analyzers.run_tests import RunTests
from orchestrator.code_review.analyzers.shellcheck import ShellCheck
from orchestrator.code_review.analyzers.typecheck import TypeChecks
from orchestrator.code_review.analyzers.typos import Typos
from orchestrator.code_review.analyzers.uncovered_lines import UncoveredLines
from orchestrator.code_review.analyzers.zizmor import Zizmor
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.rule_table import CONFIGURED_ANALYZERS
from orchestrator.code_review.tools.analyzer_entries import (
    ChangeEntry,
    Entry,
    SideEntry,
    SidesEntry,
    make_check,
    make_comparison,
    make_infrastructure,
    make_patterns,
    make_taint,
    make_tool,
)
from orchestrator.code_review.tools.http_get import HttpGet
from orchestrator.code_review.tools.lead_tools import ChangeSummary, ProposePlan
from orchestrator.code_review.tools.limited_tools import with_limits
from orchestrator.code_review.tools.prove_fixes import ProveFixes
from orchestrator.code_review.tools.repository_navigation import SPECS as NAVIGATION
from orchestrator.code_review.tools.repository_navigation import Navigation
from orchestrator.code_review.tools.run_snippet import RunSnippet
from orchestrator.code_review.tools.tool_inputs import ToolInputs
from orchestrator.engine.ports import Tool

RUFF = Program("ruff", Ruff.package)  # one for both of its tools: its version is asked for once


SECURITY: Mapping[str, Entry] = {
    "secrets": make_check(
        "secrets.secret_scan",
        ANY,
        "lines",
        "Hardcoded secrets, by kind and by file format.",
        reads=NOTHING,
        reads_others_code=True,
        name="secrets",
    ),
    "invisible_characters": make_check(
        "invisible_characters",
        ANY,
        "lines",
        "Invisible and bidirectional characters, and text that addresses a reviewing model.",
        reads=NOTHING,
        reads_others_code=True,
    ),
    "active_content": make_check(
        "active_content",
        ANY,
        "file",
        "Scripts in images and prose, commands in settings, and settings that run a program.",
        reads=NOTHING,
        reads_others_code=True,
    ),
    "ruff_security": SideEntry(
        "Security defects in Python, by ruff's rules.",
        lambda inputs: Ruff(inputs.codes("ruff", "security"), RUFF),
    ),
    "taint": SideEntry(
        "Data flow from untrusted input to dangerous operations, in Python.", make_taint
    ),
    "patterns": make_patterns(
        "security",
        "Dangerous calls in languages other than Python, and unsafe configuration in Python.",
    ),
    "regular_expressions": make_check(
        "regular_expressions",
        (*PYTHON_MODULES, *SCRIPTS),
        "file",
        "Regular expressions in Python and JavaScript that take exponential or cubic time.",
        reads=NOTHING,
    ),
    "sql": make_check(
        "sql", SQL, "file", "Hazards and bugs in SQL: migrations, routines and scripts.", reads=SQL
    ),
    "templates": make_check(
        "templates",
        TEMPLATES,
        "file",
        "Values that HTML templates print without the escaping that their context needs.",
        reads=TEMPLATES,
    ),
    "zizmor": SideEntry(
        "Hazards in GitHub workflows and actions.", lambda inputs: Zizmor(inputs.codes("zizmor"))
    ),
    "infrastructure": SideEntry(
        "Dangerous settings in Kubernetes, Helm, Compose, GitLab CI and CloudFormation files.",
        make_infrastructure,
    ),
    "shellcheck": SideEntry(
        "Defects and hazards in shell scripts.",
        lambda inputs: ShellCheck(inputs.codes("shellcheck")),
    ),
    "hadolint": SideEntry(
        "Hazards in Dockerfiles.", lambda inputs: Hadolint(inputs.codes("hadolint"))
    ),
    "imported_reports": ChangeEntry(
        "Findings from reports of other analyzers that were passed to the review.",
        lambda inputs: ImportedResults(
            inputs.given.imported,
            inputs.settings.imports,
            pool=inputs.pool,
            workspace=inputs.workspace,
        ),
    ),
    CONFIGURED_ANALYZERS: SidesEntry(
        "Findings of the analyzers that the base branch configures.",
        lambda inputs: configured_analyzers(
            inputs.settings.analyzers,
            inputs.settings.imports,
            allowed=inputs.run_analyzers,
            private=inputs.private_paths,
            checkout=inputs.checkout,
            pool=inputs.pool,
            workspace=inputs.workspace,
        ),
        lambda inputs: inputs.analyzers_seconds,
    ),
    "dependencies": ChangeEntry(
        "Dependencies that are added, loosened, unverified, vulnerable, or from another source.",
        lambda inputs: DependencyCheck(
            inputs.given.advisories, pool=inputs.pool, workspace=inputs.workspace
        ),
    ),
    "executed_files": ChangeEntry(
        "Changed files that programs run although their names are those of texts or data.",
        lambda inputs: ExecutedFiles(pool=inputs.pool, workspace=inputs.workspace),
    ),
    "route_guards": make_comparison(
        "python.route_guards",
        PYTHON_MODULES,
        "Leads: Python routes without the guard or owner check of the routes beside them.",
        reads=NOTHING,
    ),
    "protections": ChangeEntry(
        "Removed access control, escaping and security fixes; leads: removed checks.",
        lambda inputs: Protections(
            inputs.fix_history, pool=inputs.pool, workspace=inputs.workspace
        ),
    ),
}

QA: Mapping[str, Entry] = {
    "parse_check": make_check(
        "syntax_and_duplicates",
        PARSED_DATA,
        "file",
        "Python, JSON, YAML and TOML that does not parse, and unreachable Python code.",
        reads=DATA,
        kind=ParseCheck,
        name="parse_check",
    ),
    "conflict_markers": make_check(
        "conflict_markers", ANY, "lines", "Committed merge conflict markers.", reads=NOTHING
    ),
    "ruff_bugs": SideEntry(
        "Likely bugs in Python, by ruff's rules.",
        lambda inputs: Ruff(inputs.codes("ruff", "qa"), RUFF),
    ),
    "oxlint": SideEntry(
        "Likely bugs in JavaScript and TypeScript.", lambda inputs: Oxlint(inputs.codes("oxlint"))
    ),
    "pattern_bugs": make_patterns("qa", "Likely bugs in languages other than Python."),
    "complexity": make_comparison(
        "python.complexity",
        PYTHON_MODULES,
        "Python functions that became hard to follow.",
        reads=PYTHON_MODULES,
    ),
    "tests_touched": make_comparison(
        "test_quality.weakened_tests",
        ANY,
        "Removed or weakened tests, and source changes without a test.",
        reads=NOTHING,
        name="tests_touched",
    ),
    "uncovered_lines": ChangeEntry(
        "Changed lines that no test executes, from a coverage report that was passed in.",
        lambda inputs: UncoveredLines(
            TESTABLE_CODE, inputs.given.coverage, pool=inputs.pool, workspace=inputs.workspace
        ),
    ),
    "run_tests": ChangeEntry(
        "The change's tests, run in a sandbox with the command that base configures.",
        lambda inputs: RunTests(
            ANY,
            inputs.settings.tests,
            allowed=inputs.run_tests,
            private=inputs.private_paths,
            pool=inputs.pool,
            workspace=inputs.workspace,
        ),
        lambda inputs: inputs.tests_seconds,
    ),
    "typecheck": ChangeEntry(
        "Type errors that the change introduces in any file, by the checkers that base names.",
        lambda inputs: TypeChecks(
            inputs.settings.typecheck,
            allowed=inputs.run_analyzers,
            private=inputs.private_paths,
            checkout=inputs.checkout,
            pool=inputs.pool,
            workspace=inputs.workspace,
        ),
        lambda inputs: inputs.typecheck_seconds,
    ),
}

DOCS: Mapping[str, Entry] = {
    "docstrings": make_comparison(
        "doc_quality.docstrings",
        PYTHON_MODULES,
        "Missing docstrings, and docstrings that name removed parameters.",
        reads=PYTHON_MODULES,
    ),
    "links": make_check(
        "doc_quality.markdown_links",
        MARKDOWN,
        "tree",
        "Broken relative links and anchors in Markdown.",
        reads=MARKDOWN,
        tree="names",
        name="links",
    ),
    "typos": SideEntry(
        "Known misspellings in prose and comments.", lambda inputs: Typos(inputs.codes("typos"))
    ),
    "stale_references": make_comparison(
        "doc_quality.stale_references",
        REFERENCING_FILES,
        "Documentation that mentions a removed public name.",
        reads=NOTHING,
        whole_tree=True,
    ),
    "changelog": make_comparison(
        "doc_quality.changelog",
        CHANGELOG_FILES,
        "Source changes without a changelog entry.",
        reads=NOTHING,
        whole_tree=True,
    ),
}

ARCHITECTURE: Mapping[str, Entry] = {
    "duplicated_blocks": make_comparison(
        "python.duplicated_blocks",
        PYTHON_MODULES,
        "Added Python code blocks that already exist elsewhere.",
        reads=PYTHON_MODULES,
        whole_tree=True,
    ),
    "api_breakage": make_comparison(
        "api.api_breakage",
        PYTHON,
        "Public Python API that the change breaks.",
        reads=PYTHON,
        whole_tree=True,
    ),
    "import_graph": make_comparison(
        "imports.import_graph_changes",
        PYTHON_MODULES,
        "New import cycles, coupling, and the modules that depend on the change.",
        reads=PYTHON_MODULES,
        whole_tree=True,
        name="import_graph",
    ),
    "layering": ChangeEntry(
        "Imports that violate the repository's import contracts (import-linter).",
        lambda inputs: Layering(
            "layering",
            "imports.broken_contracts",
            PYTHON_MODULES,
            PYTHON_MODULES,
            pool=inputs.pool,
            workspace=inputs.workspace,
        ),
    ),
}

TOPICS = {"security": SECURITY, "qa": QA, "docs": DOCS, "architecture": ARCHITECTURE}
"""The tag of each analyzer."""

ANALYZERS: Mapping[str, Entry] = {**SECURITY, **QA, **DOCS, **ARCHITECTURE}

OTHERS: Mapping[str, str] = {
    tool.name: tool.description
    for tool in (
        ChangeSummary.spec,
        ProposePlan.spec,
        HttpGet.spec,
        RunSnippet.spec,
        ProveFixes.spec,
        *NAVIGATION,
    )
}

TOOLS: Mapping[str, str] = {
    **{name: entry.description for name, entry in ANALYZERS.items()},
    **OTHERS,
}
"""Every tool: name → description."""


def _analyzers_over(inputs: ToolInputs, workspace: ReviewWorkspace) -> Mapping[str, Tool]:
    """The same analyzers over another change."""
    own = replace(inputs, workspace=workspace)
    return {
        name: make_tool(name, entry, own, topic)
        for topic, entries in TOPICS.items()
        for name, entry in entries.items()
    }


def build(inputs: ToolInputs, policy: ToolsConfig) -> list[Tool]:
    """All tools over one workspace and those of plugins, with the limits of the tool policy.

    Raises:
        ConfigError: a plugin cannot be loaded.
    """
    workspace = inputs.workspace
    tools: list[Tool] = [
        make_tool(name, entry, inputs, topic)
        for topic, entries in TOPICS.items()
        for name, entry in entries.items()
    ]
    tools += Navigation(workspace).tools()
    tools += [
        ChangeSummary(workspace),
        ProposePlan(workspace, inputs.settings.specialists, inputs.focus, inputs.required_checks),
    ]
    if inputs.run_tests:
        tools.append(RunSnippet(workspace))
    tools.append(ProveFixes(workspace, inputs.pool, inputs.focus, partial(_analyzers_over, inputs)))
    if policy.http.hosts:
        tools.append(HttpGet(policy.http))
    tools += [load_plugin(TOOL_PLUGINS, name) for name in policy.plugins]
    return [with_limits(tool, policy) for tool in tools]
