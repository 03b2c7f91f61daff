"""Real reviews in a real store, by a model that answers over loopback."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from orchestrator.app.run_review import run_review
from orchestrator.app.types import ReviewOptions
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.types import Json, Response, Text
from tests.model_server.server import ModelServer, start_server
from tests.prompt_cache import PromptCache
from tests.review.review_kit import change, options

PROVIDER = "openai-compatible"
JUDGED = ("correctness-depth", "risk-focus", "actionability", "severity-fit", "unbacked-claims")
SEEN = {"source": "file", "name": "README.md", "quote": "# A project"}
CALM = dict.fromkeys(JUDGED, 0.5)

Judge = Callable[[str], dict[str, float | None]]


def says(document: object) -> Response:
    return Response((Text(json.dumps(document)),), "end")


def report(scores: dict[str, float | None]) -> Response:
    """A judge's report."""
    return says(
        {
            "criteria": [
                {"id": name, "why": f"seen for {name}", "evidence": [SEEN], "score": score}
                for name, score in scores.items()
            ]
        }
    )


def judging(judge: Judge) -> Callable[[dict[str, Json]], Response]:
    """A line that reads the question."""
    return lambda body: report(judge(json.dumps(body["messages"])))


@contextmanager
def answered(
    patch: pytest.MonkeyPatch, *judge: Callable[[dict[str, Json]], Response] | Response
) -> Iterator[ModelServer]:
    """A provider whose judge has these lines, and whose generalist finds nothing, once."""
    nothing = says({"summary": "Nothing found.", "findings": [], "checked": ["app.py"]})
    server = ModelServer({"generalist": [nothing], "judge": list(judge)}, count=PromptCache())
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(start_server(server)),
        patch.context() as env,
    ):
        env.setenv("OPENAI_COMPATIBLE_BASE_URL", f"{server.url}/v1")
        env.setenv("OPENAI_COMPATIBLE_MODEL", "local-model")
        env.setenv("OPENAI_COMPATIBLE_API_KEY", "test-key")
        yield server


def review(repo: Path, *, provider: str = PROVIDER, back: int = 0) -> Verdict:
    """Review the commit that lies so many before the newest."""
    refs = {"base": f"HEAD~{back + 1}", "head": f"HEAD~{back}"}
    once = {"pattern": "single", "max_iterations": 1}
    given: ReviewOptions = options(repo, provider=provider, **once, **refs)
    return run_review(given, ignore_event)


def repository(path: Path, heads: Sequence[str] = ("X = 2\n",)) -> Path:
    """A repository whose last commits change one file."""
    repo = change(path, {"app.py": "X = 1\n"}, {"app.py": heads[0]})
    for head in heads[1:]:
        repo.commit({"app.py": head})
    return repo.path
