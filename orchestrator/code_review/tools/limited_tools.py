"""Tools with the limits of the tool policy."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.catalog.settings import ToolsConfig
from orchestrator.code_review.tools.analyzer_tools import Analysis
from orchestrator.engine.ports import CallContext, Tool
from orchestrator.engine.types import Json, Observation, ToolSpec


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
