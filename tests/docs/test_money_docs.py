"""The page on money says what the commands do."""

import re
import shlex
from pathlib import Path

import pytest

from orchestrator.cli.main import main
from tests.review.review_kit import change

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/money.md").read_text()


def shape(text: str) -> str:
    """The text without its figures, and the room that they take."""
    return re.sub(r"\s+", " ", re.sub(r"[\d,.]+", "0", text)).strip()


def test_its_commands_run_without_a_key_and_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = change(tmp_path, {}, {"app.py": "import os\n"}).path
    monkeypatch.chdir(repo)
    commands = re.findall(r"^diffcourt (review --estimate.*?)(?: +#.*)?$", PAGE, re.MULTILINE)
    assert len(commands) == 3
    printed = []
    for line in commands:
        assert main([*shlex.split(line), "--base", "HEAD~1"]) == 0, line
        out, err = capsys.readouterr()
        assert err == ""
        printed.append(out)
    (drawn,) = re.findall(r"^```text estimate\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert shape(printed[0]).startswith(shape(drawn))
    assert '"worst"' in printed[1]
    assert printed[2] == "No model calls (provider offline): 0 tokens, USD 0.00.\n"
    assert not (repo / ".diffcourt").exists()


def test_an_estimate_names_its_prices_and_its_method(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = change(tmp_path, {}, {"app.py": "import os\n"}).path
    command = ["review", "--estimate", "--repo", str(repo), "--base", "HEAD~1"]
    assert main([*command, "--provider", "openai", "--max-usd", "0.25"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "at most USD 0.2500" in out
    assert "gpt-6.1-terra: input 1, cached input 0.05" in out
    assert "(developers.openai.com/api/docs/pricing, 2026-11-21)" in out
    assert "Expected: one iteration" in out


def test_an_estimate_without_a_model_or_provider_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = change(tmp_path, {}, {"app.py": "import os\n"}).path
    command = ["review", "--estimate", "--repo", str(repo), "--base", "HEAD~1", "--provider"]
    for name, said in (
        ("openai-compatible", "or set OPENAI_COMPATIBLE_MODEL"),
        ("nobody", "there is no provider 'nobody'; known: offline, anthropic"),
    ):
        assert main([*command, name]) == 2
        out, err = capsys.readouterr()
        assert (out, len(err.splitlines())) == ("", 1)
        assert said in err
