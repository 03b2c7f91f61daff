"""The kinds of entries in the table of analyzers, and how a tool is made from each."""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.code_review.analyzer_types import ChangeAnalyzer, SideAnalyzer
from orchestrator.code_review.analyzers.result_cache import with_cache
from orchestrator.code_review.tools.analyzer_tools import ChangeTool, SideTool
from orchestrator.code_review.tools.tool_inputs import ToolInputs
from orchestrator.engine.ports import Tool


class OfSide(Struct, frozen=True):
    """An analyzer that examines each side on its own; findings of head alone are new."""

    description: str
    make: Callable[[ToolInputs], SideAnalyzer]


class OfSides(Struct, frozen=True):
    """Analyzers of one tool that examine each side on their own, with a time limit."""

    description: str
    make: Callable[[ToolInputs], Sequence[SideAnalyzer]]
    seconds: Callable[[ToolInputs], float]


class OfChange(Struct, frozen=True):
    """An analyzer that compares both sides; ``seconds`` if it may take long."""

    description: str
    make: Callable[[ToolInputs], ChangeAnalyzer]
    seconds: Callable[[ToolInputs], float] | None = None


Entry = OfSide | OfSides | OfChange


def make_tool(name: str, entry: Entry, inputs: ToolInputs, topic: str) -> Tool:
    """The tool that runs an entry's analyzers; its tag is the entry's topic."""
    tool: SideTool | ChangeTool
    if isinstance(entry, OfChange):
        made = entry.make(inputs)
        tool = ChangeTool(name, entry.description, [made], inputs.workspace, inputs.pool)
    else:
        analyzers = (
            [with_cache(entry.make(inputs), inputs.cache)]
            if isinstance(entry, OfSide)
            else entry.make(inputs)
        )
        tool = SideTool(name, entry.description, analyzers, inputs.workspace, inputs.pool)
    if not isinstance(entry, OfSide) and entry.seconds is not None:
        tool.spec = replace(tool.spec, timeout=entry.seconds(inputs))
    tool.spec = replace(tool.spec, tags=frozenset({topic}))
    return tool
