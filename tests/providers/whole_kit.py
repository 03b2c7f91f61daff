"""Whole reviews as the command runs them, through the real SDKs, against the strict server."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal

from orchestrator.app.run_review import run_review
from orchestrator.app.types import ReviewOptions
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.observer_events import Event, ignore_event
from orchestrator.engine.types import Json, Response, Text
from tests.model_server.server import KEY, ModelServer, start_server
from tests.model_server.server_script import ServerReply
from tests.prompt_cache import PromptCache
from tests.review.review_kit import change, options
from tests.scripted_model import tool_call_reply

PROVIDERS = ("anthropic", "openai", "openai-compatible")
ADDRESS = {
    "anthropic": ("ANTHROPIC", ""),
    "openai": ("OPENAI", "/v1"),
    "openai-compatible": ("OPENAI_COMPATIBLE", "/v1"),
}
JUDGED = ("correctness-depth", "risk-focus", "actionability", "severity-fit", "unbacked-claims")
TEAM = ("security", "qa", "docs", "architecture")

NO_FIXER = "fixes: {agent: null}\nverify: {agent: null}\n"
"""Nobody writes patches at the end, for which few scripts have lines."""

POLICY = {
    ".diffcourt/config/defaults.yaml": NO_FIXER,
    ".diffcourt/config/models.yaml": "calls: {attempts: 3, timeout: 20, deadline: 30, "
    "first_wait: 0.01, longest_wait: 0.02}\n",
    ".diffcourt/config/prices.yaml": "prices: {local-model: {input: 0.2, output: 0.8, cached: 0.1, "
    "cache_write: 0.2, source: a test, date: 2026-01-31}}\n",
    ".diffcourt/config/verdict.yaml": "required_checks: []\n",
}
BASE = {"app.py": "X = 1\n"}
HEAD = {"app.py": "X = 1\n\n\ndef run(text):\n    return eval(text)\n"}
FINDING = {
    "path": "app.py",
    "start_line": 5,
    "end_line": 5,
    "quote": "return eval(text)",
    "title": "runs what it is given",
    "severity": "high",
}


def says(**report: Json) -> Response:
    """An agent's last word."""
    return Response((Text(json.dumps(report)),), "end")


def reports(**report: Json) -> Response:
    """A specialist's last word."""
    return says(**{"findings": [], "checked": [], **report})


def plans() -> Response:
    """The lead's plan: everybody looks at the one file."""
    return says(tasks=[{"agent": name, "paths": ["app.py"], "why": "it is new"} for name in TEAM])


SUMMARY = "It adds run(), which evaluates what it is given (F1). Look at F1 first."


def sums_up(text: str = SUMMARY, *named: str) -> Response:
    """The lead's last word."""
    return says(summary=text, findings=list(named or ("F1",)))


def judges(score: float | None = 1.0, missing: Sequence[str] = ()) -> Response:
    """The judge's scores, all alike."""
    seen = {"source": "file", "name": "app.py", "quote": "return eval(text)"}
    one = {"why": "as read", "evidence": [seen], "score": score, "missing": list(missing)}
    return says(criteria=[{"id": name, **one} for name in JUDGED])


def team(**other: Sequence[ServerReply]) -> dict[str, Sequence[ServerReply]]:
    """What a whole team says in one iteration; ``other`` agents' lines replace these."""
    return {
        "lead": [tool_call_reply(("git_log", {})), plans(), sums_up()],
        "security": [
            tool_call_reply(("read_file", {"path": "app.py"}), ("search", {"pattern": "eval"})),
            reports(summary="One.", findings=[FINDING], checked=["app.py"]),
        ],
        "qa": [tool_call_reply(("ruff_bugs", {"paths": ["app.py"]})), reports(checked=["app.py"])],
        "docs": [reports(summary="Nothing.")],
        "architecture": [reports(summary="Nothing.")],
        "judge": [tool_call_reply(("read_file", {"path": "app.py"})), judges()],
        **other,
    }


def repository(path: Path) -> Path:
    """A repository whose newest commit is to be reviewed, by impatient rules."""
    return change(path, {**BASE, **POLICY}, HEAD).path


@contextmanager
def serving(
    portal: BlockingPortal,
    patch: pytest.MonkeyPatch,
    name: str,
    script: Mapping[str, Sequence[ServerReply]],
    *,
    local: str = "local-model",
) -> Iterator[ModelServer]:
    """A server with a script, which a provider is pointed at."""
    server, (prefix, path) = ModelServer(script, count=PromptCache()), ADDRESS[name]
    with portal.wrap_async_context_manager(start_server(server)), patch.context() as env:
        env.setenv(f"{prefix}_BASE_URL", server.url + path)
        env.setenv(f"{prefix}_API_KEY", KEY)
        env.setenv("OPENAI_COMPATIBLE_MODEL", local)
        yield server


def asked(repo: Path, name: str, **said: object) -> ReviewOptions:
    """A review of the newest commit in one iteration, unless something else is said."""
    return options(
        repo,
        provider=name,
        **{"pattern": "team", "max_iterations": 1, "allow_spending": True, **said},
    )


def review(
    repo: Path, name: str, backend: str = "asyncio", told: list[Event] | None = None, **said: object
) -> Verdict:
    """Review it. What happened is added to ``told``."""
    observer = ignore_event if told is None else told.append
    return run_review(asked(repo, name, **said), observer, backend=backend)
