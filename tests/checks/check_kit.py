"""What the caller of a worker receives."""

import json

from msgspec import convert, to_builtins

from orchestrator.checks.check_io import CheckReply


def as_received(reply: CheckReply) -> CheckReply:
    """A check's reply after its way over the socket as JSON."""
    return convert(json.loads(json.dumps(reply, default=to_builtins)), CheckReply)
