"""Requests that the real services refuse, and a part of what they say."""

from typing import Any

from tests.model_server.server import KEY
from tests.providers.provider_kit import REPORT, SEARCH

PATHS = {"messages": "/v1/messages", "responses": "/v1/responses", "chat": "/v1/chat/completions"}
SYSTEM = "Agent: qa\n\nYou look for bugs."
WORDS = [{"type": "text", "text": "hello"}]
USED = {"type": "tool_use", "id": "t1", "name": "search", "input": {}}
FOUND = {"type": "tool_result", "tool_use_id": "t1", "content": "found"}
CALLED = {"type": "function_call", "call_id": "c1", "name": "search", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "found"}
ASKED = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
SAID = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    ],
}
HEARD = {"role": "tool", "tool_call_id": "c1", "content": "found"}
HELLO = {"role": "user", "content": "hello"}
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}

BODIES: dict[str, dict[str, Any]] = {
    "messages": {
        "model": "m",
        "max_tokens": 10,
        "system": [{"type": "text", "text": SYSTEM}],
        "messages": [{"role": "user", "content": WORDS}],
    },
    "responses": {"model": "m", "instructions": SYSTEM, "input": [ASKED]},
    "chat": {"model": "m", "messages": [{"role": "system", "content": SYSTEM}, HELLO]},
}
HEADERS = {"authorization": f"Bearer {KEY}", "anthropic-version": "2026-10-21"}


def user(*content):
    return {"role": "user", "content": list(content)}


def assistant(*content):
    return {"role": "assistant", "content": list(content)}


def talk(*messages):
    return {"messages": [user(*WORDS), *messages]}


def chat(*messages):
    return {"messages": [{"role": "system", "content": SYSTEM}, *messages]}


def items(*given):
    return {"input": [ASKED, *given]}


def tool(name="search", schema=SEARCH.schema):
    return {"name": name, "input_schema": schema}


def function(name="search", schema=SEARCH.schema, strict=False):
    return {"type": "function", "name": name, "parameters": schema, "strict": strict}


def formed(schema):
    return {
        "text": {"format": {"type": "json_schema", "name": "r", "schema": schema, "strict": True}}
    }


REFUSED = [
    ("messages", {"temperature": 0.2}, "temperature"),
    ("messages", {"max_tokens": 0}, "max_tokens"),
    ("messages", {"messages": []}, "messages"),
    ("messages", talk(user(*WORDS)), "alternate"),
    ("messages", {"messages": [assistant(*WORDS)]}, "alternate"),
    ("messages", talk(assistant(*WORDS)), "prefill"),
    ("messages", talk(assistant(USED), user(*WORDS)), "without `tool_result`"),
    ("messages", talk(assistant(*WORDS), user(FOUND)), "unexpected `tool_use_id`"),
    ("messages", talk(assistant(USED), user(FOUND, FOUND)), "unexpected `tool_use_id`"),
    ("messages", talk(assistant(USED, USED), user(FOUND)), "must be unique"),
    ("messages", talk(assistant(USED), user(*WORDS, FOUND)), "must come first"),
    ("messages", {"messages": [user({"type": "text", "text": " "})]}, "text"),
    ("messages", {"messages": [user()]}, "content"),
    ("messages", {"messages": [user({"type": "mystery"})]}, "is none of"),
    ("messages", {"messages": [user({**WORDS[0], "color": "red"})]}, "color"),
    ("messages", {"tools": [tool("a b")]}, "name"),
    ("messages", {"tools": [tool(), tool()]}, "unique"),
    ("messages", {"tools": [tool(schema={"type": "objekt"})]}, "not a valid JSON schema"),
    ("messages", {"tools": [{"type": "web_search_20260101", "name": "web_search"}]}, "request"),
    ("messages", {"tool_choice": {"type": "auto"}}, "while providing tools"),
    ("messages", {"tools": [tool()], "tool_choice": {"type": "any"}}, "forced"),
    ("messages", {"output_config": {"effort": "huge"}}, "output_config"),
    (
        "messages",
        {"output_config": {"format": {"type": "json_schema", "schema": OPEN}}},
        "additionalProperties",
    ),
    (
        "messages",
        talk(
            assistant({"type": "thinking", "thinking": "x", "signature": "y"}, *WORDS), user(*WORDS)
        ),
        "signature",
    ),
    (
        "messages",
        {
            "messages": [
                user(*({**WORDS[0], "cache_control": {"type": "ephemeral"}} for _ in "12345"))
            ]
        },
        "maximum of 4",
    ),
    ("responses", {"temperature": 0.2}, "temperature"),
    ("responses", {"max_output_tokens": 15}, "max_output_tokens"),
    ("responses", {"previous_response_id": "r"}, "previous_response_id"),
    ("responses", items(OUTPUT), "No tool call found"),
    ("responses", items(CALLED), "No tool output found"),
    ("responses", items(CALLED, CALLED, OUTPUT), "Duplicate"),
    ("responses", items(CALLED, OUTPUT, OUTPUT), "No tool call found"),
    ("responses", items({"type": "mystery"}), "is none of"),
    ("responses", items({"type": "message", "role": "user", "content": "hi"}), "array"),
    ("responses", {"tools": [function(), function()]}, "unique"),
    ("responses", {"tools": [{"type": "web_search"}]}, "request"),
    ("responses", {"tool_choice": "auto"}, "must be specified"),
    ("responses", formed(OPEN), "additionalProperties"),
    (
        "responses",
        formed({**REPORT, "required": [*REPORT["properties"]]}),
        "'default' is not permitted",
    ),
    ("responses", formed({**OPEN, "additionalProperties": False}), "every key"),
    ("chat", {"top_k": 3}, "top_k"),
    ("chat", chat(HELLO, HEARD), "must be a response"),
    ("chat", chat(HELLO, SAID), "did not have response"),
    ("chat", chat(HELLO, SAID, HELLO), "did not have response"),
    ("chat", chat(HELLO, SAID, HEARD, SAID, HEARD), "unique"),
    ("chat", chat(HELLO, {"role": "assistant", "content": ""}), "must have content"),
    ("chat", {"messages": [HELLO, {"role": "system", "content": SYSTEM}]}, "cannot stand"),
    ("chat", {"tool_choice": "auto"}, "`tools` must be set"),
    ("chat", {"response_format": {"type": "xml"}}, "is none of"),
]
