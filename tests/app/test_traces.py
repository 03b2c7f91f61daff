"""A run is one trace: exported afterwards or beside it, to a server that decodes the protobuf."""

import json
import re
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from orchestrator.app.tracing import export, spans
from orchestrator.cli.main import main
from orchestrator.engine.trace_context import parse_traceparent
from tests.app.collector import Received, collector
from tests.providers.test_escalation_over_the_wire import (
    NAME,
    REVIEW,
    WORK,
    Says,
    command,
    repo,
    says,
)
from tests.providers.whole_kit import BASE, HEAD, POLICY
from tests.review.review_kit import change

__all__ = ["repo", "says"]  # fixtures

PAGE = (Path(__file__).resolve().parents[2] / "docs/traces.md").read_text()
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def reviewed(repo: Path, says: Says, *arguments: str) -> dict[str, Any]:
    """The verdict of a review with a model."""
    target = repo.parent / "verdict.json"
    with says(*WORK):
        command(repo, *REVIEW, "--json", str(target), *arguments)
    verdict: dict[str, Any] = json.loads(target.read_text())
    return verdict


def exported(repo: Path, *arguments: str) -> Received:
    with collector() as received:
        assert command(repo, "trace", "latest", "--to", received.url, *arguments) == 0
    return received


def test_a_run_is_one_trace_of_its_agents_models_and_tools(repo: Path, says: Says) -> None:
    verdict = reviewed(repo, says)
    received = exported(repo)
    spans = received.spans
    assert received.requests[0][0] == "/v1/traces"
    assert received.resources[0]["service.name"] == "diffcourt"
    assert received.resources[0]["telemetry.sdk.language"] == "python"
    assert received.schemas == {"https://opentelemetry.io/schemas/gen-ai/0.1.0"}
    assert len({span["trace"] for span in spans.values()}) == 1
    (root,) = received.named("invoke_workflow review")
    assert (root["parent"], root["error"]) == ("", verdict["status"] != "complete")
    assert root["attributes"]["gen_ai.conversation.id"] == verdict["run_id"]
    assert root["attributes"]["diffcourt.verdict"] == verdict["verdict"]
    assert root["attributes"]["vcs.ref.head.revision"] == verdict["change"]["head"]
    assert all(span["parent"] in spans for span in spans.values() if span is not root)
    (agent,) = received.named("invoke_agent generalist")
    assert agent["parent"] == root["id"]
    chats = [s for s in spans.values() if s["parent"] == agent["id"] and "chat" in s["name"]]
    first = min(chats, key=lambda span: int(span["startTimeUnixNano"]))
    assert first["kind"] == "SPAN_KIND_CLIENT"
    assert first["name"] == f"chat {first['attributes']['gen_ai.request.model']}"
    assert first["attributes"]["gen_ai.provider.name"] == NAME
    assert first["attributes"]["gen_ai.agent.name"] == "generalist"
    assert first["attributes"]["gen_ai.response.finish_reasons"] == ["tool_call"]
    ids = [span["attributes"]["gen_ai.response.id"] for span in chats]
    assert len(set(ids)) == len(chats)
    assert all(ids)
    assert first["attributes"]["gen_ai.request.max_tokens"] > 0
    assert first["attributes"]["server.address"] == "127.0.0.1"
    assert first["attributes"]["server.port"] > 0
    used = ("input", "output")
    for kind in used:
        total = sum(s["attributes"].get(f"gen_ai.usage.{kind}_tokens", 0) for s in spans.values())
        assert total == verdict["usage"][f"{kind}_tokens"] > 0
    (tool,) = [s for s in spans.values() if s["parent"] == agent["id"] and s not in chats]
    assert tool["name"] == "execute_tool ruff_bugs"
    assert tool["attributes"]["gen_ai.operation.name"] == "execute_tool"
    events = [name for name, _ in root["events"]]
    assert events.count("diffcourt.checkpoint") >= 5
    judged = {e["gen_ai.evaluation.name"]: e for name, e in root["events"]
              if name == "gen_ai.evaluation.result"}  # fmt: skip
    marks = {c["id"]: c["score"] for c in verdict["score"]["criteria"] if c["kind"] == "judged"}
    assert {k: e["gen_ai.evaluation.score.value"] for k, e in judged.items()} == marks
    assert marks


def test_a_second_export_is_the_same_trace_and_has_content_only_when_asked(
    repo: Path, says: Says, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reviewed(repo, says)
    plain, again = exported(repo), exported(repo)
    assert plain.spans == again.spans
    assert "Nothing." not in json.dumps(plain.spans)
    assert "os.system" not in json.dumps(plain.spans)
    monkeypatch.setenv("SOME_API_KEY", "Nothing.")
    assert "Nothing." not in json.dumps(exported(repo, "--with-content").spans)
    monkeypatch.delenv("SOME_API_KEY")
    full = exported(repo, "--with-content")
    assert full.spans.keys() == plain.spans.keys()
    (agent,) = full.named("invoke_agent generalist")
    (said,) = json.loads(agent["attributes"]["gen_ai.output.messages"])
    assert (said["role"], said["finish_reason"]) == ("assistant", "stop")
    assert "Nothing." in said["parts"][0]["content"]
    file = tmp_path / "trace.json"
    assert command(repo, "trace", "latest", "--to", str(file)) == 0
    (entry,) = json.loads(file.read_text())["resourceSpans"]
    written = {span["spanId"]: span for span in entry["scopeSpans"][0]["spans"]}
    assert written.keys() == plain.spans.keys()
    assert {span["traceId"] for span in written.values()} == {agent["trace"]}


def test_a_live_export_is_the_trace_that_is_exported_afterward_and_changes_nothing(
    repo: Path, says: Says, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(export, "POLL_SECONDS", 0.05)
    monkeypatch.setenv("TRACEPARENT", PARENT)
    with collector() as live:
        traced = reviewed(repo, says, "--otel", live.url)
    assert "trace" not in capsys.readouterr().err
    monkeypatch.delenv("TRACEPARENT")
    later = exported(repo)
    assert live.spans == later.spans
    assert len(live.requests) > 1
    (root,) = live.named("invoke_workflow review")
    assert (root["trace"], root["parent"]) == parse_traceparent(PARENT)
    assert command(repo, "audit", "verify", "latest") == 0
    assert reviewed(repo, says)["digest"] == traced["digest"]


def test_a_provider_that_supports_it_gets_the_calling_span(tmp_path: Path, says: Says) -> None:
    models = ".diffcourt/config/models.yaml"
    wants = f"{POLICY[models]}providers: {{{NAME}: {{can: {{traceparent: true}}}}}}\n"
    repo = change(tmp_path, {**BASE, **POLICY, models: wants}, HEAD).path
    with says(*WORK) as server:
        command(repo, *REVIEW)
        told = [request.headers["traceparent"] for request in server.requests]
    chats = [s for s in exported(repo).spans.values() if s["name"].startswith("chat ")]
    assert sorted(told) == sorted(f"00-{one['trace']}-{one['id']}-01" for one in chats)
    assert len(told) > 2


def refused_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def no_tls(received: Received) -> str:
    return received.url.replace("http:", "https:")


@pytest.mark.parametrize("trouble", ["down", "500", "slow", "tls"])
def test_a_failing_collector_is_one_line_and_nothing_is_lost(
    trouble: str,
    repo: Path,
    says: Says,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(export, "LAST_SECONDS", 0.5)
    untraced = reviewed(repo, says)
    # The SDK says what is wrong with TLS when it tries again, a second later on a quiet machine.
    timeout = 5.0 if trouble == "tls" else 0.5
    monkeypatch.setattr("orchestrator.app.tracing.export.TIMEOUT", timeout)
    capsys.readouterr()
    hang = threading.Event() if trouble == "slow" else None
    with collector(500 if trouble == "500" else 200, hang) as received:
        url = {"down": refused_port(), "tls": no_tls(received)}.get(trouble, received.url)
        traced = reviewed(repo, says, "--otel", url)
        told = capsys.readouterr().err
        assert command(repo, "trace", "--to", url) == 3
        (line,) = capsys.readouterr().err.splitlines()
    assert traced["digest"] == untraced["digest"]
    (said,) = [line for line in told.splitlines() if "trace" in line]
    assert f"export it with: diffcourt trace {traced['run_id']} --to {url} --repo " in said
    assert line.startswith(f"diffcourt: {url} did not take the trace: ")
    assert ("TLS cannot be trusted" in line) == (trouble == "tls")
    (root,) = exported(repo).named("invoke_workflow review")
    assert root["attributes"]["gen_ai.conversation.id"] == traced["run_id"]


def test_only_the_user_decides_where_a_trace_goes(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["review", "--base", "HEAD~1", "--quiet", "--json", "/dev/null", "--repo", str(repo)])
    for to, wrong in (
        ("", "there is no collector"),
        ("ftp://host", "is not the address"),
        (str(repo / "gone" / "trace.json"), "--to: cannot write"),
    ):
        assert command(repo, "trace", "latest", "--to", to) == 2
        assert wrong in capsys.readouterr().err
    capsys.readouterr()
    assert command(repo, "trace", "--to", "-") == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["resourceSpans"]
    assert said.err.startswith("exported run ")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic abc")
    with collector() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"{received.url}/api/public/otel")
        assert command(repo, "trace") == 0
        ((path, headers),) = received.requests
    assert path == "/api/public/otel/v1/traces"
    assert headers["authorization"] == "Basic abc"
    assert len(received.named("invoke_workflow review")) == 1
    assert {span["attributes"].get("gen_ai.provider.name", "offline")
            for span in received.spans.values()} == {"offline"}  # fmt: skip


def test_the_page_names_each_attribute_of_the_conventions() -> None:
    ours = {v for v in vars(spans.NAMES).values() if v.startswith("gen_ai.")}
    listed = set(re.findall(r"`(gen_ai\.[a-z_.]+)`", PAGE))
    assert listed == ours
    assert spans.CONVENTIONS.split()[1] in PAGE


def test_a_refused_connection_is_named_without_the_classes_of_the_http_client() -> None:
    said = (
        "Transient error HTTPConnectionPool(host='127.0.0.1', port=1): Max retries exceeded with "
        "url: /v1/traces (Caused by NewConnectionError(\"HTTPConnection(host='127.0.0.1', port=1): "
        'Failed to establish a new connection: [Errno 111] Connection refused")) '
        "encountered while exporting span batch, retrying in 1.00s."
    )
    why = "Failed to establish a new connection: [Errno 111] Connection refused"
    assert export._reason([said, "Failed to export spans batch"]) == why
