"""Parts of scripts that no file has: reasoning, and replies cut off, overwritten or trickling."""

from msgspec.structs import replace

from orchestrator.engine.types import Opaque
from tests.model_server.server import HttpReply
from tests.model_server.server_script import Refuse, Reshaped, ServerReply


def raw(body: bytes, kind: str = "application/json", status: int = 200) -> Reshaped:
    """Replies with these bytes."""
    reply = HttpReply(status, {"content-type": kind}, (body,))
    return Reshaped(Refuse(status), lambda _: reply)


def trickle(size: int, seconds: float, line: ServerReply) -> Reshaped:
    """Sends a line in chunks of ``size`` bytes, with a pause of ``seconds`` after each."""

    def change(reply: HttpReply) -> HttpReply:
        data = b"".join(reply.parts)
        parts = tuple(data[at : at + size] for at in range(0, len(data), size))
        return replace(reply, parts=parts, pause=seconds)

    return Reshaped(line, change)


def cut(after: int, line: ServerReply) -> Reshaped:
    """Closes the connection after so many bytes of a line's body."""
    return Reshaped(line, lambda reply: replace(reply, cut=after))


def garble(every: int, line: ServerReply) -> Reshaped:
    """Overwrites every n-th byte of a line's body; its length stays the same."""

    def change(reply: HttpReply) -> HttpReply:
        numbered = (enumerate(part, 1) for part in reply.parts)
        garbled = (bytes(byte if at % every else 0xC0 for at, byte in p) for p in numbered)
        return replace(reply, parts=tuple(garbled))

    return Reshaped(line, change)


def thinking_block(text: str) -> Opaque:
    """Reasoning for a reply; the server signs it and accepts it back only unmodified."""
    return Opaque("server", {"type": "thinking", "thinking": text})
