"""Reading samples, and what the caller of a worker receives."""

import json
from pathlib import Path
from typing import Any

import yaml
from msgspec import convert, to_builtins

from diffchecks.check_io import CheckReply

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C it takes a tenth of the time


def read_samples(file: Path) -> list[Any]:
    """The samples in a YAML file; each process that collects the tests reads them all."""
    return list(yaml.load(file.read_text("utf-8"), _LOADER))


def as_received(reply: CheckReply) -> CheckReply:
    """A check's reply after its way over the socket as JSON."""
    return convert(json.loads(json.dumps(reply, default=to_builtins)), CheckReply)
