"""Tools of servers, as the engine has tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mcp_types import Tool as RemoteTool

from orchestrator.engine.ports import CallContext, Tool
from orchestrator.engine.types import Json, Observation, ToolSpec
from orchestrator.engine.untrusted_text import escape_markers, map_strings
from orchestrator.mcp.connection import Link
from orchestrator.mcp.input_schemas import closed
from orchestrator.mcp.results import envelope, observation
from orchestrator.mcp.server_config import Grant, ServerFault
from orchestrator.mcp.tool_pins import mismatch

DESCRIPTION_AT_MOST = 4000
"""Characters; longer ones are refused, for a cut one would say something else."""

NO_ARGUMENTS: Mapping[str, Json] = {
    "type": "object",
    "properties": {},
    "additionalProperties": False,
}


async def offer(link: Link) -> dict[str, Json]:
    """What the configuration allows of a server's tools, as it is now.

    Returns:
        Our name of each tool → ``{description, schema}``, or ``{refused}`` with the reason. Plain
        data, so that a journal can keep it and a resumed run shows its model the same.
    """
    grants = link.server.grants
    try:
        listed = await link.tools()
    except ServerFault as fault:
        return {grant.name: {"refused": str(fault)} for grant in grants}
    return {grant.name: _offered(link.server.name, grant, listed) for grant in grants}


def _offered(server: str, grant: Grant, listed: Mapping[str, RemoteTool]) -> dict[str, Json]:
    try:
        tool = listed.get(grant.remote)
        if why := mismatch(server, grant, tool):
            return {"refused": why}
        assert tool is not None
        description = tool.description or ""
        if len(description) > DESCRIPTION_AT_MOST:
            return {"refused": f"{grant.name} has a description of {len(description)} characters"}
        return {"description": description, "schema": closed(tool.input_schema)}
    except (ServerFault, ValueError) as fault:
        return {"refused": f"{grant.name} cannot be used: {fault}"}


def made(link: Link, offered: Mapping[str, Json]) -> Iterator[Tool]:
    """The tools of what a server offered. A refused one is there, and says why when it is called:
    an agent that would have used it must not take its absence for a clean result."""
    for grant in link.server.grants:
        entry = offered[grant.name]
        if "refused" in entry:
            spec = _spec(grant, "Not available in this run.", NO_ARGUMENTS)
            yield Unavailable(spec, entry["refused"])
        else:
            yield ServerTool(_spec(grant, entry["description"], entry["schema"]), grant, link)


def _spec(grant: Grant, description: str, schema: Mapping[str, Json]) -> ToolSpec:
    # A server's words, read beside ours: nothing in them may look like a mark of ours.
    return ToolSpec(
        name=grant.name,
        description=escape_markers(description),
        schema=map_strings(dict(schema), escape_markers),
        level=grant.level,
        tags=grant.tags,
        timeout=grant.timeout,
        max_output=grant.max_output,
    )


@dataclass
class ServerTool:
    """A tool that a server runs."""

    spec: ToolSpec
    grant: Grant
    link: Link

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        """Have the server run it; what goes wrong there is an observation."""
        try:
            answer = await self.link.call(self.grant, arguments)
        except ServerFault as fault:
            return Observation(envelope(self.spec.name, str(fault), self.spec.max_output), ok=False)
        return observation(self.spec.name, answer, self.spec.max_output)


@dataclass
class Unavailable:
    """A tool that is named and cannot be used."""

    spec: ToolSpec
    why: str

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        """Say why."""
        return Observation(self.why, ok=False)
