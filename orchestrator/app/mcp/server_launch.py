"""Start or connect to an MCP server, without using files that the change could write."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.abc import Process

from orchestrator.catalog.mcp_servers import ServerEntry
from orchestrator.code_review.analyzers.program_execution import OWN_DIRECTORIES
from orchestrator.errors import SandboxError
from orchestrator.mcp_client.server_config import Connect, ReportEnd
from orchestrator.program_search import find_program
from orchestrator.sandbox import scratch_directory
from orchestrator.sandbox.kernel_calls import kill_process_group
from orchestrator.sandbox.run_program import start_unconfined

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

REPO = "{repo}"
"""Placeholder in a server's command for the directory of the repository under review."""

GRACE = 0.5
"""Seconds for a server to exit after its input is closed."""


def make_connector(entry: ServerEntry, repo: Path, environment: Mapping[str, str]) -> Connect:
    """A function that connects to a server; nothing is imported or started before."""

    def connect(tell: ReportEnd) -> AbstractAsyncContextManager[TransportStreams]:
        # Either takes over a second to import.
        if entry.url is not None:
            from orchestrator.mcp_client.http_transport import over_http  # noqa: PLC0415

            headers = {name: _value(value, environment) for name, value in entry.headers.items()}
            return over_http(entry.url, headers, tell)
        from orchestrator.mcp_client.stdio_transport import over_stdio  # noqa: PLC0415

        return over_stdio(partial(_launch, entry, repo, environment), tell)

    return connect


@asynccontextmanager
async def _launch(
    entry: ServerEntry, repo: Path, environment: Mapping[str, str]
) -> AsyncIterator[Process]:
    """The server's process, in an empty directory and its own process group; stopped at exit."""
    argv = _argv(entry.command, repo, environment)
    env = {name: _value(name, environment) for name in entry.env}
    with tempfile.TemporaryDirectory(
        dir=scratch_directory.server_directory(), ignore_cleanup_errors=True
    ) as directory:
        process = await start_unconfined(argv, cwd=Path(directory), env=env)
        try:
            yield process
        finally:
            with anyio.CancelScope(shield=True):
                assert process.stdin is not None
                await process.stdin.aclose()
                with anyio.move_on_after(GRACE):
                    await process.wait()
                kill_process_group(process.pid)
                await process.aclose()


def _value(name: str, environment: Mapping[str, str]) -> str:
    value = environment.get(name)
    if value is None:
        raise SandboxError(f"the environment variable {name} is not set")
    return value


def _argv(command: Sequence[str], repo: Path, environment: Mapping[str, str]) -> list[str]:
    """The command with the absolute path of its program."""
    path = os.pathsep.join((*OWN_DIRECTORIES, environment.get("PATH", os.defpath)))
    program = command[0]
    found = find_program(program, path) if os.sep not in program else program
    if found is None:
        raise SandboxError(f"{program} is not installed")
    if not os.path.isabs(found):
        raise SandboxError(f"{program} must be a name or an absolute path")
    root = repo.absolute()
    argv = [found, *command[1:]]
    for word in argv:
        if os.path.isabs(word) and _can_be_changed(Path(word), root):
            raise SandboxError(f"{word} is in the repository, where the change could alter it")
    return [str(root) if word == REPO else word for word in argv]


def _can_be_changed(path: Path, repo: Path) -> bool:
    """Whether the change could alter a file: one in the repository, outside our installation."""
    place = Path(os.path.normpath(path))
    ours = Path(sys.prefix)  # may lie in the repository; a repository below it is none of ours
    if place.is_relative_to(ours) and not repo.is_relative_to(ours):
        return False
    return place.is_relative_to(repo) or place.resolve().is_relative_to(repo.resolve())
