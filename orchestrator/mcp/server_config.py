"""What the configuration says of a server, as data; nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from msgspec import Struct

from orchestrator.engine.types import Level
from orchestrator.errors import DiffcourtError

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

TOTAL_AT_MOST = 256 << 20
"""Bytes that one server may send in one run."""

Tell = Callable[[str], None]
"""Takes the reason why a connection ended, in words for a person."""

Connect = Callable[[Tell], "AbstractAsyncContextManager[TransportStreams]"]
"""Opens the way to a server: streams of messages, closed at the end."""


class ServerFault(DiffcourtError):
    """A server, or one of its tools, cannot be used; says why in one line."""


class Grant(Struct, frozen=True):
    """One tool that the configuration allows. What it does not name does not exist for us.

    Attributes:
        name: as agents know it.
        remote: as the server knows it.
        timeout: seconds.
        max_output: characters that reach a model.
        pin: digest of the description and schemas that a person accepted, empty for none.
    """

    name: str
    remote: str
    level: Level = Level.READ
    timeout: float = 60.0
    max_output: int = 20_000
    tags: frozenset[str] = frozenset()
    pin: str = ""


class Server(Struct, frozen=True):
    """One server.

    Attributes:
        start: seconds until it must have answered.
        refused: why it may not be started here, empty when it may.
    """

    name: str
    connect: Connect
    grants: tuple[Grant, ...]
    start: float = 20.0
    refused: str = ""
