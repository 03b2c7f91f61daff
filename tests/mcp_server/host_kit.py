"""A scripted coding agent: it calls the server's tools and may answer with a model of its own."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from anyio import to_thread
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp_types import Implementation, TextContent
from msgspec.structs import replace

from orchestrator.app.runs.stored_runs import load_verdict
from orchestrator.app.types import ReviewOptions
from orchestrator.code_review.assemble_verdict import digest_of
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.types import Response, Text, ToolCall
from orchestrator.mcp_server.reviews import ServedReviews
from orchestrator.mcp_server.server import ReviewServer

Answer = dict[str, Any]


class Host:
    """A connected coding agent; ``calls`` counts what it called."""

    def __init__(self, client: Client) -> None:
        self.client, self.calls = client, 0

    async def raw(self, tool: str, **arguments: Any) -> tuple[bool, str]:
        """Call a tool: whether it failed, and what it said."""
        self.calls += 1
        result = await self.client.call_tool(tool, arguments)
        (content,) = result.content
        assert isinstance(content, TextContent)
        return bool(result.is_error), content.text

    async def call(self, tool: str, **arguments: Any) -> Answer:
        failed, text = await self.raw(tool, **arguments)
        assert not failed, text
        found: Answer = json.loads(text)
        return found

    async def refused(self, tool: str, **arguments: Any) -> str:
        failed, text = await self.raw(tool, **arguments)
        assert failed, text
        return text

    async def finish(self, found: Answer, brain: "Brain") -> Answer:
        """Answer questions until there are none."""
        while found["state"] in {"asks", "running"}:
            if found["state"] == "running":
                found = await self.call("review", run=found["run"])
            else:
                found = await self.call("answer", **brain.answer(found))
        return found


class Brain:
    """The coding agent's model: a script per agent, which is asked each question once.

    Attributes:
        asked: the questions so far.
    """

    def __init__(self, script: Mapping[str, Sequence[Any]]) -> None:
        self._lines: dict[str, Iterator[Response]] = {
            agent: iter(lines) for agent, lines in script.items()
        }
        self.asked: list[str] = []

    def answer(self, found: Answer) -> Answer:
        """The arguments of ``answer`` for a question."""
        assert found["question"] not in self.asked, "asked twice"
        self.asked.append(found["question"])
        blocks = next(self._lines[found["agent"]]).blocks
        return {
            "run": found["run"],
            "question": found["question"],
            "text": "".join(block.text for block in blocks if isinstance(block, Text)),
            "calls": [
                {"name": block.name, "arguments": dict(block.arguments)}
                for block in blocks
                if isinstance(block, ToolCall)
            ],
        }


@asynccontextmanager
async def hosting(target: Any, **settings: Any) -> AsyncIterator[Host]:
    """A coding agent at a server: one of this process, a program, or a URL."""
    info = Implementation(name="scripted-host", version="1")
    async with Client(target, client_info=info, cache=None, **settings) as client:
        yield Host(client)


@asynccontextmanager
async def served(repo: Path, **options: Any) -> AsyncIterator[MCPServer[Any]]:
    """A server in this process, which interrupts its reviews at the end."""
    given: dict[str, Any] = {"base": "HEAD~1", **options}
    reviews = ServedReviews(ReviewOptions(repo=repo, **given))
    try:
        yield ReviewServer(reviews)
    finally:
        reviews.close()


async def stored(repo: Path, run: str) -> Verdict:
    """The verdict of a run."""
    return await to_thread.run_sync(load_verdict, repo, run)


def reasoned_by_nobody(verdict: Verdict) -> str:
    """The digest of a verdict without who reasoned."""
    return digest_of(
        replace(verdict, provenance=replace(verdict.provenance, provider="", models=()))
    )
