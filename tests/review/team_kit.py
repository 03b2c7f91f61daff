"""A lead, four specialists and a judge that say what a test has them say."""

import json

from msgspec.structs import replace

from orchestrator.catalog.settings import ReviewSettings
from orchestrator.engine.types import Json, Request, Response, Text, ToolResult
from orchestrator.engine.untrusted_text import parse_framed
from tests.scripted_model import ScriptedReply, text_reply, tool_call_reply

TEAM = ("security", "qa", "docs", "architecture")


def plan(*agents: str, **more: object) -> Response:
    tasks = [{"agent": agent, "paths": ["app.py"], "why": "it changed"} for agent in agents]
    return text_reply(json.dumps({"tasks": tasks, **more}))


def report(**more: object) -> Response:
    looked = {"summary": "looked", "findings": [], "checked": []}
    return text_reply(json.dumps({**looked, **more}))


def sums(text: str = "It names the app.", *named: str) -> Response:
    """What the lead says at the end."""
    return text_reply(json.dumps({"summary": text, "findings": list(named)}))


def looks(*tools: str) -> Response:
    return tool_call_reply(*((tool, {"paths": ["app.py"]}) for tool in tools))


def script(**more: list[ScriptedReply]) -> dict[str, list[ScriptedReply]]:
    """A lead and four specialists of which security and qa do all that is required."""
    lines: dict[str, list[ScriptedReply]] = {
        "lead": [plan(*TEAM)],
        "security": [looks("secrets", "invisible_characters", "ruff_security", "taint"), report()],
        "qa": [looks("conflict_markers", "parse_check", "ruff_bugs"), report()],
        "docs": [report()],
        "architecture": [looks("api_breakage"), report()],
    }
    return {**lines, **more}


def claim(**more: object) -> dict[str, object]:
    return {
        "path": "app.py", "start_line": 3, "end_line": 3, "quote": 'NAME = "app"',
        "title": "A constant", "severity": "high", "confidence": 0.9, **more,
    }  # fmt: skip


def judged(settings: ReviewSettings) -> ReviewSettings:
    return replace(settings, provider="scripted", pattern="team")


SEEN = {"source": "file", "name": "app.py", "quote": 'NAME = "app"'}


def scores(**more: object) -> Response:
    ids = ("correctness-depth", "risk-focus", "actionability", "severity-fit", "unbacked-claims")
    best = {"unbacked-claims": 0}
    criteria = [
        {"id": name, "why": "as read", "evidence": [SEEN], "score": best.get(name, 1), **more}
        for name in ids
    ]
    return text_reply(json.dumps({"criteria": criteria}))


def observed(request: Request) -> list[dict[str, Json]]:
    """What tools answered to whoever asks, as far as it is JSON."""
    blocks = [block for message in request.messages for block in message.blocks]
    answers = [parse_framed(b.content, request.nonce) for b in blocks if isinstance(b, ToolResult)]
    return [answer for answer in answers if isinstance(answer, dict)]


def seen_findings(request: Request) -> dict[int, dict[str, Json]]:
    """The findings that tools have shown to whoever asks, by their first line."""
    return {
        item["start_line"]: item
        for answer in observed(request)
        for item in answer.get("findings", ())
    }


def facts(request: Request) -> dict[str, Json]:
    """What an agent's brief says, beside its words."""
    *_, text = request.messages[0].blocks
    assert isinstance(text, Text)
    return dict(parse_framed(text.text, request.nonce))
