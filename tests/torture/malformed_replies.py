"""Malformed replies of the three APIs by the thousand, the same for the same seed.

Broken JSON, wrong types, counts that cannot be, huge strings, deep nesting, ids that are missing or
used twice, tools that were invented or are somebody else's, arguments that fit no schema.
"""

import json
import random
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from tests.model_server.chat_api import ChatApi
from tests.model_server.messages_api import MessagesApi
from tests.model_server.responses_api import ResponsesApi
from tests.model_server.server_script import Signer

Random = random.Random
CALL = {"text": "eval"}
LONG = "x" * 50_000
THOUGHT = {"type": "thinking", "thinking": "t", "signature": "s"}
HOSTILE: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    3.5,
    10**15,
    "",
    " ",
    "\ud800",
    "\x00\x1b[31m",
    LONG,
    [],
    {},
    [[]],
    [None],
    {"type": None},
    {"type": "text"},
    {"type": "tool_use"},
    {"type": "function_call"},
    {"type": "thinking"},
    "search",
    "<untrusted n0nce>",
    "<tool_call n0nce>",
)
COUNTS: tuple[Any, ...] = (-1, -(10**6), 10**9, 2.5, "12", None, True, [], {}, "\0NaN\0")

SPLICES = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "-0",
    "9" * 400,
    "[" * 5000,
    '{"a":' * 300 + "1" + "}" * 300,
    '"\\ud83d"',
    "\\",
    "'",
    ",",
)


def documents(random: Random) -> dict[str, dict[str, Any]]:
    """A sound reply of each API, with words, a call, and usage."""
    name = random.choice(["search", "search", "erase", "rm_rf", "../search", ""])
    arguments: Any = random.choice([CALL, CALL, {}, {"text": 3}, {"text": "a", "more": 1}, [], "x"])
    ids = random.choice([("a", "b"), ("a", "a"), ("", "b"), ("a" * 500, "!")])
    written = json.dumps(arguments) if random.random() < 0.8 else '{"text": "ev'
    return {
        "anthropic": {
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [
                *([dict(THOUGHT)] if random.random() < 0.1 else []),
                {"type": "text", "text": "Searching."},
                *({"type": "tool_use", "id": i, "name": name, "input": arguments} for i in ids),
            ],
            "stop_reason": random.choice(["tool_use", "end_turn", "max_tokens", "odd"]),
            "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 2},
        },
        "openai": {
            "status": random.choice(["completed", "completed", "incomplete", "failed"]),
            "incomplete_details": {"reason": "max_output_tokens"},
            "model": "m",
            "output": [
                {
                    "type": "message",
                    "id": "m1",
                    "content": [{"type": "output_text", "text": "Searching."}],
                },
                *(
                    {"type": "function_call", "call_id": i, "name": name, "arguments": written}
                    for i in ids
                ),
            ],
            "usage": {
                "input_tokens": 10,
                "output_tokens": 5,
                "input_tokens_details": {"cached_tokens": 3},
            },
        },
        "openai-compatible": {
            "id": "c1",
            "created": 1,
            "model": "m",
            "choices": [
                {
                    "message": {
                        "content": random.choice([None, "Searching.", "<think>a</think>b"]),
                        "tool_calls": [
                            {"id": i, "function": {"name": name, "arguments": written}} for i in ids
                        ],
                    },
                    "finish_reason": random.choice(["tool_calls", "stop", "length", None]),
                }
            ],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5},
        },
    }


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container with every key or index in it."""
    if isinstance(value, dict):
        own: list[tuple[Any, Any]] = [(value, key) for key in value]
        return own + [place for below in value.values() for place in _places(below)]
    if isinstance(value, list):
        own = [(value, at) for at in range(len(value))]
        return own + [place for below in value for place in _places(below)]
    return []


def _replaced(document: Any, random: Random) -> bytes:
    for _ in range(random.choice([1, 1, 2, 4])):
        container, key = random.choice(_places(document))
        container[key] = deepcopy(random.choice(HOSTILE))
        if not _places(document):
            break
    return json.dumps(document).encode()


def _miscounted(document: Any, random: Random) -> bytes:
    for container, key in _places(document["usage"]):
        if not isinstance(container[key], dict) and random.random() < 0.7:
            container[key] = random.choice(COUNTS)
    return json.dumps(document).replace('"\\u0000NaN\\u0000"', "NaN").encode()


def _dropped(document: Any, random: Random) -> bytes:
    container, key = random.choice(_places(document))
    del container[key]
    return json.dumps(document).encode()


def _doubled(document: Any, random: Random) -> bytes:
    lists = [place for place in _places(document) if isinstance(place[0], list)]
    container, _key = random.choice(lists)
    container *= random.choice([2, 30, 300])
    return json.dumps(document).encode()


def _spliced(document: Any, random: Random) -> bytes:
    container, key = random.choice(_places(document))
    container[key] = "\0mark\0"
    text = json.dumps(document)
    return text.replace(json.dumps("\0mark\0"), random.choice(SPLICES)).encode()


def _cut(document: Any, random: Random) -> bytes:
    data = json.dumps(document).encode()
    return data[: random.randrange(len(data))]


def _noised(document: Any, random: Random) -> bytes:
    data = bytearray(json.dumps(document).encode())
    for _ in range(random.choice([1, 3, 30])):
        data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data)


def _wrapped(document: Any, random: Random) -> bytes:
    other: Any = random.choice([[document], {"error": document}, "done", 7, None, {}, []])
    return json.dumps(other).encode()


CHANGES: tuple[Callable[[Any, Random], bytes], ...] = (
    _replaced,
    _replaced,
    _miscounted,
    _dropped,
    _doubled,
    _spliced,
    _cut,
    _noised,
    _wrapped,
)


def malformed(name: str, seed: int) -> bytes:
    """One malformed reply; the same for the same seed."""
    chosen = random.Random(f"{name}/{seed}")
    return chosen.choice(CHANGES)(documents(chosen)[name], chosen)


APIS: dict[str, Any] = {
    "anthropic": MessagesApi("", Signer()),
    "openai": ResponsesApi("", Signer()),
    "openai-compatible": ChatApi(""),
}
USAGE = {"stream_options": {"include_usage": True}}


def _shuffled(events: list[Any], random: Random) -> None:
    """Some events lost, twice, or out of their order."""
    for _ in range(random.choice([1, 2, 5])):
        event = events.pop(random.randrange(len(events)))
        for _ in range(random.choice([0, 1, 2])):
            events.insert(random.randrange(len(events) + 1), event)


def _spoiled(events: list[Any], random: Random) -> None:
    """Some values replaced or gone."""
    for _ in range(random.choice([1, 2, 5])):
        container, key = random.choice(_places(events))
        if random.random() < 0.3:
            del container[key]
        else:
            container[key] = deepcopy(random.choice(HOSTILE))
        if not _places(events):
            break


def _as_sent(event: Any) -> str:
    """An event as the services send it, named by its type."""
    kind = event.get("type") if isinstance(event, dict) else None
    named = f"event: {kind}\n" if isinstance(kind, str) and kind.isprintable() else ""
    return f"{named}data: {event if isinstance(event, str) else json.dumps(event)}\n\n"


def malformed_stream(name: str, seed: int) -> bytes:
    """One malformed stream of events; the same for the same seed."""
    chosen = random.Random(f"stream/{name}/{seed}")
    sound = APIS[name].events(documents(chosen)[name], USAGE)
    events = [deepcopy(data) for _, data in sound]
    change = chosen.choice([_shuffled, _spoiled, _spoiled, None])
    if change:
        change(events, chosen)
    data = bytearray("".join(map(_as_sent, events)).encode("utf-8", "replace"))
    for _ in range(chosen.choice([0, 3, 30]) if change is None else 0):
        data[chosen.randrange(len(data))] = chosen.randrange(256)
    return bytes(data[: chosen.randrange(len(data))] if chosen.random() < 0.1 else data)
