"""A provider's prompt cache: which tokens of a request are read from it, and which are written.

An entry is the beginning of a prompt up to a cache breakpoint, exact to the byte. A request reads
the longest entry that its own prompt begins with, and writes one for each of its breakpoints.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence

from msgspec import Struct

from orchestrator.engine.types import Json
from tests.model_server import chat_api, messages_api, responses_api
from tests.model_server.api_validation import without_marks
from tests.model_server.server import BYTES_PER_TOKEN, Counted

BREAKPOINT = "prompt_cache_breakpoint"
LOOKBACK = 20
"""Blocks before a breakpoint in which an entry of Anthropic's cache is looked for."""


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


class PromptCache:
    """The entries that earlier requests have written; none expires."""

    def __init__(self) -> None:
        self._entries: set[bytes] = set()

    def __call__(self, path: str, body: dict[str, Json]) -> Counted:
        """Count the tokens of a request to a path of the model server, and store its entries."""
        return self.count(PROMPTS[path](body))

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


def chat_prompt(body: dict[str, Json]) -> Prompt:
    """The prompt in reading order; such a server caches nothing."""
    return Prompt("", [json.dumps([body.get("tools"), body["messages"]])], (), 0)


def messages_prompt(body: dict[str, Json]) -> Prompt:
    """The prompt in reading order, with its cache breakpoints."""
    # Another output format is another prompt from its beginning.
    form = body.get("output_config", {}).get("format")
    parts: list[Json] = [[body["model"], body.get("tools"), form], *body.get("system", [])]
    for message in body["messages"]:
        content = message["content"]
        parts += content if isinstance(content, list) else [message]
    breakpoints = [at for at, part in enumerate(parts, 1) if "cache_control" in part]
    bare = [json.dumps(without_marks(part, "cache_control")) for part in parts]
    return Prompt("", bare, breakpoints, LOOKBACK)


def responses_prompt(body: dict[str, Json]) -> Prompt:
    """The prompt in reading order, with its cache breakpoints.

    The output schema stands in front of all. One breakpoint is at the end of the newest message,
    unless the request has explicit ones only; a part can set others. Requests are routed by their
    cache key.
    """
    first = [body["model"], body.get("text"), body.get("tools"), body.get("instructions")]
    parts = [first, *body["input"]]
    breakpoints = [at for at, part in enumerate(parts, 1) if BREAKPOINT in json.dumps(part)]
    bare = [json.dumps(without_marks(part, BREAKPOINT)) for part in parts]
    scope = str(body.get("prompt_cache_key", ""))
    if body.get("prompt_cache_options", {}).get("mode") != "explicit":
        breakpoints.append(len(parts))
    return Prompt(scope, bare, breakpoints, len(parts))


PROMPTS = {
    chat_api.PATH: chat_prompt,
    messages_api.PATH: messages_prompt,
    responses_api.PATH: responses_prompt,
}
