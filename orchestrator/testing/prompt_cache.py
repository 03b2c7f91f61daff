"""A provider's prompt cache: which tokens of a request are read from it, and which are written.

An entry is the beginning of a prompt up to a cache breakpoint, exact to the byte. A request reads
the longest entry that its own prompt begins with, and writes one for each of its breakpoints.
"""

import hashlib
from collections.abc import Iterator, Sequence

from msgspec import Struct

from orchestrator.engine.types import Json

BYTES_PER_TOKEN = 4


class Prompt(Struct, frozen=True):
    """A request as a model reads it.

    Attributes:
        scope: requests of different scopes share no entry.
        parts: in reading order; an entry ends with one of them.
        breakpoints: numbers of parts, each the length of an entry that the request writes.
        lookback: how many parts before a breakpoint an entry may end to be found.
    """

    scope: str
    parts: Sequence[str]
    breakpoints: Sequence[int]
    lookback: int


class Counted(Struct, frozen=True):
    """Input tokens: all of them, those read from the cache, and those written to it."""

    input: int
    read: int
    written: int


class PromptCache:
    """The entries that earlier requests have written; none expires."""

    def __init__(self) -> None:
        self._entries: set[bytes] = set()

    def count(self, prompt: Prompt) -> Counted:
        """Count the tokens of a request by length, and store its entries."""
        tokens = [0]
        for part in prompt.parts:
            tokens.append(tokens[-1] + len(part.encode()))
        tokens = [size // BYTES_PER_TOKEN for size in tokens]
        digests = list(_digests(prompt))
        within = {
            at for end in prompt.breakpoints for at in range(max(1, end - prompt.lookback), end + 1)
        }
        read = max((tokens[at] for at in within if digests[at] in self._entries), default=0)
        self._entries |= {digests[end] for end in prompt.breakpoints}
        stored = max((tokens[end] for end in prompt.breakpoints), default=0)
        return Counted(tokens[-1], read, max(0, stored - read))


def _digests(prompt: Prompt) -> Iterator[bytes]:
    """The digest of each beginning of a prompt, the empty one first."""
    running = hashlib.sha256(prompt.scope.encode())
    yield running.digest()
    for part in prompt.parts:
        running.update(len(part).to_bytes(8) + part.encode())
        yield running.digest()


def without_marks(value: Json, name: str) -> Json:
    """JSON without the member that marks a cache breakpoint."""
    if isinstance(value, dict):
        return {key: without_marks(below, name) for key, below in value.items() if key != name}
    return [without_marks(below, name) for below in value] if isinstance(value, list) else value
