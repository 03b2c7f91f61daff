"""The kinds of entries in the table of analyzers: how each is made, and a tool from it."""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from diffchecks.file_patterns import (
    INFRASTRUCTURE,
    PATTERN_LANGUAGES,
    PYTHON,
    PYTHON_MODULES,
    TEMPLATE_DIRECTORIES,
    WITH_PROGRAMS,
)
from orchestrator.code_review.analyzer_types import ChangeAnalyzer, Needs, SideAnalyzer
from orchestrator.code_review.analyzers.check_data_files import (
    added_file_patterns,
    contents_digest,
    extends,
)
from orchestrator.code_review.analyzers.comparison_checks import ComparisonCheck
from orchestrator.code_review.analyzers.one_side_checks import (
    InfrastructureCheck,
    PatternCheck,
    SideCheck,
    TaintCheck,
)
from orchestrator.code_review.analyzers.result_cache import with_cache
from orchestrator.code_review.tools.analyzer_tools import ChangeTool, SideTool
from orchestrator.code_review.tools.tool_inputs import ToolInputs
from orchestrator.engine.ports import Tool


class SideEntry(Struct, frozen=True):
    """An analyzer that examines each side on its own; findings of head alone are new."""

    description: str
    make: Callable[[ToolInputs], SideAnalyzer]


class SidesEntry(Struct, frozen=True):
    """Analyzers of one tool that examine each side on their own, with a time limit."""

    description: str
    make: Callable[[ToolInputs], Sequence[SideAnalyzer]]
    seconds: Callable[[ToolInputs], float]


class ChangeEntry(Struct, frozen=True):
    """An analyzer that compares both sides; ``seconds`` if it may take long."""

    description: str
    make: Callable[[ToolInputs], ChangeAnalyzer]
    seconds: Callable[[ToolInputs], float] | None = None


Entry = SideEntry | SidesEntry | ChangeEntry


def make_tool(name: str, entry: Entry, inputs: ToolInputs, topic: str) -> Tool:
    """The tool that runs an entry's analyzers; its tag is the entry's topic."""
    tool: SideTool | ChangeTool
    if isinstance(entry, ChangeEntry):
        made = entry.make(inputs)
        tool = ChangeTool(name, entry.description, [made], inputs.workspace, inputs.pool)
    else:
        analyzers = (
            [with_cache(entry.make(inputs), inputs.cache)]
            if isinstance(entry, SideEntry)
            else entry.make(inputs)
        )
        tool = SideTool(name, entry.description, analyzers, inputs.workspace, inputs.pool)
    if not isinstance(entry, SideEntry) and entry.seconds is not None:
        tool.spec = replace(tool.spec, timeout=entry.seconds(inputs))
    tool.spec = replace(tool.spec, tags=frozenset({topic}))
    return tool


def _last(module: str) -> str:
    return module.rpartition(".")[2]


def make_check(
    module: str,
    patterns: Sequence[str],
    needs: Needs,
    about: str,
    *,
    reads: Sequence[str],
    name: str = "",
    tree: Literal["nothing", "names", "files"] = "nothing",
    kind: type[SideCheck] = SideCheck,
    reads_others_code: bool = False,
) -> SideEntry:
    """The entry of a check module, which has the module's name unless it is given another."""
    return SideEntry(
        about,
        lambda inputs: kind(
            name or _last(module),
            module,
            patterns,
            needs,
            reads,
            pool=inputs.pool,
            workspace=inputs.workspace,
            tree=tree,
            reads_others_code=reads_others_code,
        ),
    )


def make_taint(inputs: ToolInputs) -> SideAnalyzer:
    """The taint analysis, which follows values through the whole tree."""
    return TaintCheck(
        "taint",
        "taint",
        PYTHON,
        "tree",
        PYTHON,
        pool=inputs.pool,
        workspace=inputs.workspace,
        tree="files",
        beside=TEMPLATE_DIRECTORIES,
        both_sides=True,
        extra={"library_models": inputs.taint_models},
        depends=contents_digest(inputs.taint_models),
    )


def make_patterns(category: str, about: str) -> SideEntry:
    """The patterns of one category."""

    def make(inputs: ToolInputs) -> SideAnalyzer:
        codes = sorted(inputs.codes("patterns", category))
        reads = (*PATTERN_LANGUAGES, *added_file_patterns(inputs.pattern_files))
        # These are searched for a few words only; other tools read them as code.
        wanted = category == "security" or extends("python", inputs.pattern_files)
        searched = (*WITH_PROGRAMS, *(PYTHON_MODULES if wanted else ()))
        return PatternCheck(
            "patterns",
            "patterns",
            (*reads, *searched),
            "file",
            reads,
            pool=inputs.pool,
            workspace=inputs.workspace,
            reads_others_code=category == "security",
            extra={"languages": list(inputs.pattern_files), "codes": codes},
            depends=f"{codes} {contents_digest(inputs.pattern_files)}",
        )

    return SideEntry(about, make)


def make_infrastructure(inputs: ToolInputs) -> SideAnalyzer:
    """The check of infrastructure files."""
    return InfrastructureCheck(
        "infrastructure",
        "infrastructure",
        INFRASTRUCTURE,
        "file",
        INFRASTRUCTURE,
        pool=inputs.pool,
        workspace=inputs.workspace,
        extra={"patterns": list(inputs.infrastructure_files)},
        depends=contents_digest(inputs.infrastructure_files),
    )


def make_comparison(
    module: str,
    patterns: Sequence[str],
    about: str,
    *,
    reads: Sequence[str],
    name: str = "",
    whole_tree: bool = False,
) -> ChangeEntry:
    """The entry of a check module that compares both sides."""
    return ChangeEntry(
        about,
        lambda inputs: ComparisonCheck(
            name or _last(module),
            module,
            patterns,
            reads,
            pool=inputs.pool,
            workspace=inputs.workspace,
            whole_tree=whole_tree,
        ),
    )
