"""``diffcourt doctor``: what is configured, what it costs, and one tiny call when asked for."""

import json
import subprocess
import sys

import pytest

from orchestrator.cli.main import main
from tests.model_server.server import KEY


@pytest.fixture(scope="module")
def server():
    """The test server in a process of its own; gives its address."""
    command = [sys.executable, "-m", "tests.model_server", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[2].rstrip(",")
        finally:
            process.terminate()


@pytest.fixture
def doctor(tmp_path, capsys):
    def ask(*arguments):
        code = main(["doctor", "--repo", str(tmp_path), *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return ask


def test_an_unconfigured_provider_is_reported_and_is_not_a_failure(doctor):
    code, out, err = doctor("--verbose")
    assert (code, err) == (0, "")
    assert "offline" in out
    assert "set ANTHROPIC_API_KEY" in out
    assert "set OPENAI_API_KEY" in out
    assert "claude-haiku-5-5: $0.10 in, $0.50 out" in out
    assert "(platform.claude.com/docs/en/models/haiku-5-5/overview, 2026-11-21)" in " ".join(
        out.split()
    )
    assert "no model is configured" in out


def test_a_key_is_never_printed_and_without_the_flag_nothing_is_called(doctor, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-value")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    code, out, err = doctor("--verbose")
    assert code == 0
    assert "ANTHROPIC_API_KEY is set" in out
    assert "sk-secret" not in out + err


def test_a_call_to_each_configured_provider(doctor, monkeypatch, server):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server)
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_COMPATIBLE_BASE_URL", f"{server}/v1")
    monkeypatch.setenv("OPENAI_COMPATIBLE_MODEL", "qwen")
    code, out, err = doctor("--call", "--json")
    assert (code, err) == (0, "")
    providers = {entry["name"]: entry for entry in json.loads(out)["providers"]}
    assert providers["anthropic"]["answer"].startswith("claude-haiku-5-5 answered in ")
    assert providers["openai-compatible"]["answer"].startswith("qwen answered in ")
    assert providers["openai"] | {"models": 0} == {
        "name": "openai",
        "configured": False,
        "missing": "OPENAI_API_KEY",
        "models": 0,
        "answer": None,
        "error": None,
    }
    assert providers["anthropic"]["models"][0]["source"].startswith("platform.claude.com")
    assert providers["openai-compatible"]["models"][0] == {
        "stage": "fast",
        "model": "qwen",
        "input": None,
        "output": None,
        "source": None,
        "date": None,
    }


def test_a_call_that_fails_is_one_line_and_exit_code_2(doctor, monkeypatch, server):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-key")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server}/v1")
    code, out, err = doctor("--call")
    assert code == 2
    assert "rejected the API key (401)" in " ".join(out.split())
    assert "sk-wrong" not in out + err


def test_a_call_with_nothing_configured_says_so(doctor):
    code, _, err = doctor("--call")
    assert (code, err) == (2, "no provider is configured, so none was called\n")


def test_an_error_in_the_repositorys_file_is_a_failed_check(doctor, tmp_path):
    (tmp_path / ".diffcourt/config").mkdir(parents=True)
    (tmp_path / ".diffcourt/config/models.yaml").write_text("calls: {attempts: none}\n")
    code, out, err = doctor()
    assert (code, err) == (2, "")
    out = " ".join(out.split())
    assert "configuration failed .diffcourt/config/models.yaml:1: calls.attempts must be" in out
