"""MCP servers (``config/mcp.yaml``) and the tools of theirs that agents may use."""

import re
from collections.abc import Iterator
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta, field

from orchestrator.catalog.settings import LevelName
from orchestrator.engine.field_types import NonEmptyStr, PositiveFloat, Strict

NAME_AT_MOST = 64
"""The longest tool name that every provider accepts, in characters."""

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

Variable = Annotated[str, Meta(pattern="^[A-Za-z_][A-Za-z0-9_]*$")]

_SERVER = re.compile(r"[a-z][a-z0-9-]*")
_OTHER = re.compile(r"[^a-z0-9_-]")


class ToolEntry(Strict, frozen=True, omit_defaults=True):
    """One tool that agents may use; when it is written, defaults are left out.

    Attributes:
        timeout: seconds of one call.
        max_output: characters of a result that reach a model.
        pin: digest of the accepted description; None: not accepted yet, so refused.
    """

    level: LevelName = "read"
    timeout: PositiveFloat = 60.0
    max_output: Annotated[int, Meta(ge=1000)] = 20_000
    tags: tuple[NonEmptyStr, ...] = ()
    pin: Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$")] | None = None


class ServerEntry(Strict, frozen=True, kw_only=True):
    """One server, a program or a URL.

    Attributes:
        env: environment variables that are passed to the program.
        headers: HTTP header → the environment variable that holds its value.
        start: seconds that it may take to start.
    """

    command: tuple[NonEmptyStr, ...] = ()
    env: tuple[Variable, ...] = ()
    url: NonEmptyStr | None = None
    headers: dict[NonEmptyStr, Variable] = field(default_factory=dict)
    start: PositiveFloat = 20.0
    tools: dict[NonEmptyStr, ToolEntry]

    @property
    def is_local(self) -> bool:
        """Whether its address is on this machine."""
        return self.url is None or urlsplit(self.url).hostname in LOOPBACK

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ValueError("needs either a command or a url; allowed: one of them")
        if self.url is None and self.headers:
            raise ValueError("has headers, which a command cannot use; allowed: env")
        if self.url is not None and self.env:
            raise ValueError("has env, which a url cannot use; allowed: headers")
        if self.url is not None:
            scheme = urlsplit(self.url).scheme
            if scheme != "https" and not (scheme == "http" and self.is_local):
                raise ValueError(
                    "url must begin with https://; http:// is allowed for this machine only"
                )


class McpFile(Strict, frozen=True):
    """The whole of ``config/mcp.yaml``."""

    servers: dict[str, ServerEntry]

    def __post_init__(self) -> None:
        odd = next((name for name in self.servers if not _SERVER.fullmatch(name)), None)
        if odd is not None:
            raise ValueError(
                f"the server name {odd!r} must be lower-case letters, digits and hyphens"
            )
        names = list(self.names())
        long = next((name for name in names if len(name) > NAME_AT_MOST), None)
        if long is not None:
            raise ValueError(
                f"the tool name {long!r} is longer than {NAME_AT_MOST} characters; "
                "give the server a shorter name"
            )
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two tools would be named {twice!r}; leave one of them out")

    def names(self) -> Iterator[str]:
        """The names of all tools, as agents use them."""
        return (
            tool_name(server, tool)
            for server, entry in self.servers.items()
            for tool in entry.tools
        )


def tool_name(server: str, tool: str) -> str:
    """The name that agents use for a server's tool, in lower case: ``git__git_log``."""
    return f"{server}__{_OTHER.sub('_', tool.lower())}"
