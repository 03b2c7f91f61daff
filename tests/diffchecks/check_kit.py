"""Reading samples, and what the caller of a worker receives."""

import json
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import yaml
from msgspec import convert, to_builtins

from diffchecks.check_io import CheckReply

Reply = TypeVar("Reply")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C it takes a tenth of the time


def read_samples(file: Path) -> list[Any]:
    """The samples in a YAML file; each process that collects the tests reads them all."""
    return list(yaml.load(file.read_text("utf-8"), _LOADER))


def run_check(check: Callable[[Any], Reply], job: Mapping[str, Any]) -> Reply:
    """Call a check as a worker does: with the job that its annotation names."""
    return check(convert(job, get_type_hints(check)["job"]))


WRONG: tuple[Any, ...] = (
    None,
    [],
    ["x"],
    [{"name": 1}],
    {"x": None},
    {"x": {"y": [1]}},
    "",
    "x",
    0,
    1.5,
    True,
)


def with_wrong_types(value: Any) -> Iterator[Any]:
    """The document, with each value in it, at every level, as one of another kind."""
    yield from WRONG
    for key in (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    ):
        for other in with_wrong_types(value[key]):
            changed = copy(value)
            changed[key] = other
            yield changed


def as_received(reply: CheckReply) -> CheckReply:
    """A check's reply after its way over the socket as JSON."""
    return convert(json.loads(json.dumps(reply, default=to_builtins)), CheckReply)
