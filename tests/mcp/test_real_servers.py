"""The git and time servers of the package registry: accepted by the command, then used in a review."""

from pathlib import Path

import pytest
import yaml

from orchestrator.cli.main import main
from orchestrator.engine.types import Request, Response, ToolResult
from orchestrator.engine.untrusted_text import unframe
from tests.mcp.test_reviews import REPORT, generalist, review
from tests.review.review_kit import Repo
from tests.scripted_model import ScriptedModel, text_reply, tool_call_reply

SERVERS = {
    "git": {"command": ["mcp-server-git", "--repository", "{repo}"], "tools": {"git_log": {}}},
    "time": {
        "command": ["mcp-server-time", "--local-timezone", "UTC"],
        "tools": {"convert_time": {"timeout": 20.0}},
    },
}
NAMED = ".diffcourt/config/mcp.yaml"


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """A repository whose base names both servers, with the pins that the command printed."""
    repo = Repo(tmp_path_factory.mktemp("real"))
    repo.write({NAMED: yaml.safe_dump({"servers": SERVERS})})
    servers = {}
    for name, config in SERVERS.items():
        out = tmp_path_factory.mktemp("out") / name
        with out.open("w") as stream, pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.stdout", stream)
            assert main(["mcp", "accept", name, "--repo", str(repo.path)]) == 0
        printed = out.read_text()
        assert "is new" in printed
        assert "# offered, but not in the configuration: " in printed
        servers[name] = {**config, **yaml.safe_load(printed)["servers"][name]}
    repo.commit(
        {
            NAMED: yaml.safe_dump({"servers": servers}),
            ".diffcourt/agents/generalist.md": generalist("git__git_log", "time__convert_time"),
            "app.py": "X = 1\n",
        }
    )
    repo.commit({"app.py": "X = 2\n"})
    return repo


@pytest.mark.parametrize("anyio_backend", ["trio"])  # the command before it ran on asyncio
async def test_a_review_uses_the_git_and_time_servers(accepted: Repo) -> None:
    told: list[str] = []

    def end(request: Request) -> Response:
        for block in request.messages[-1].blocks:
            assert isinstance(block, ToolResult)
            told.append(unframe(block.content, request.nonce))
        return text_reply(REPORT)

    noon = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    line = tool_call_reply(
        ("git__git_log", {"repo_path": str(accepted.path), "max_count": 1}),
        ("time__convert_time", noon),
        ("git__git_log", {"repo_path": "/etc"}),
        ("git__git_reset", {"repo_path": str(accepted.path)}),
    )
    model = ScriptedModel({"generalist": [line, end] * 3})
    await review(accepted, model, "git,time")
    assert accepted.git("rev-parse", "HEAD") in told[0]
    assert "21:00:00+09:00" in told[1]
    assert "outside" in told[2]  # the server keeps to its repository, and its refusal is told
    assert "there is no tool" in told[3]  # it offers one, and the configuration does not name it


def test_the_list_starts_nothing_and_says_what_is_pinned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = Repo(tmp_path)
    trap = {"command": ["touch", str(tmp_path / "started")], "tools": {"t": {}}}
    repo.write({NAMED: yaml.safe_dump({"servers": {"trap": trap}})})
    assert main(["mcp", "list", "--repo", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "trap__t" in out
    assert "no pin yet" in out
    assert "not allowed to start here" in " ".join(out.split())
    assert not (tmp_path / "started").exists()


def test_a_server_that_cannot_be_used_is_one_line_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = Repo(tmp_path)
    gone = {"command": ["no-such-server"], "tools": {"t": {}}}
    repo.write({NAMED: yaml.safe_dump({"servers": {"gone": gone}})})
    assert main(["mcp", "accept", "gone", "--repo", str(tmp_path)]) == 2
    said = "diffcourt: the MCP server gone cannot be used: no-such-server is not installed\n"
    assert capsys.readouterr() == ("", said)
    assert main(["mcp", "accept", "other", "--repo", str(tmp_path)]) == 2
    assert "known: gone" in capsys.readouterr().err
