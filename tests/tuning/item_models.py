"""Models that judge items and rewrite criteria, over a real server on loopback."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from orchestrator.engine.types import Json, Response
from tests.model_server.server import ModelServer, start_server
from tests.model_server.server_script import ServerReply
from tests.prompt_cache import PromptCache
from tests.tuning.recorded_runs import says

PROVIDER = "openai-compatible"
Scorer = Callable[[str, dict[str, Any]], float | None]
"""(text, criterion as the judge is shown it) → score."""


class Asked:
    """What the judge was asked, in order."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.criteria: list[list[str]] = []


def facts(body: Mapping[str, Json], last: bool = False) -> dict[str, Any]:
    """The framed JSON of a request's first message with one, or of its last."""
    found = re.findall(r"<untrusted \w+>\n(\{.*?\})\n</untrusted", _text(body), re.DOTALL)
    parsed: dict[str, Any] = json.loads(found[-1 if last else 0])
    return parsed


def _text(body: Mapping[str, Json]) -> str:
    parts = []
    for message in body.get("messages") or body["input"]:
        content = message["content"]
        parts.append(content if isinstance(content, str) else "".join(c["text"] for c in content))
    return "\n".join(parts)


def judge_line(scorer: Scorer, asked: Asked | None = None) -> Callable[[dict[str, Json]], Response]:
    """A reply of a judge that scores each criterion of a text."""

    def reply(body: dict[str, Json]) -> Response:
        found = facts(body)
        if asked is not None:
            asked.texts.append(found["text"])
            asked.criteria.append([c["id"] for c in found["criteria"]])
        rows = [
            {"id": c["id"], "why": f"seen for {c['id']}", "score": scorer(found["text"], c)}
            for c in found["criteria"]
        ]
        return says({"criteria": rows})

    return reply


@contextmanager
def serving(
    patch: pytest.MonkeyPatch, script: Mapping[str, Sequence[ServerReply]]
) -> Iterator[ModelServer]:
    """A provider on loopback with this script."""
    server = ModelServer(script, count=PromptCache())
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(start_server(server)),
        patch.context() as env,
    ):
        env.setenv("OPENAI_COMPATIBLE_BASE_URL", f"{server.url}/v1")
        env.setenv("OPENAI_COMPATIBLE_MODEL", "local-model")
        env.setenv("OPENAI_COMPATIBLE_API_KEY", "test-key")
        env.setenv("ANTHROPIC_BASE_URL", server.url)
        env.setenv("ANTHROPIC_API_KEY", "test-key")
        env.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        env.setenv("OPENAI_API_KEY", "test-key")
        yield server
