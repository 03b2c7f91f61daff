"""The server as a program: over its pipes, and over HTTP with a token."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.mcp_server.host_kit import Brain, Host, hosting, stored
from tests.mcp_server.test_served_reviews import SHELL, UNUSED
from tests.plain_http import PLAIN
from tests.providers.whole_kit import repository, team
from tests.review.review_kit import Repo, change

PROGRAM = [sys.executable, "-m", "orchestrator", "mcp", "serve"]
PAGE = Path(__file__).parents[2] / "docs/coding-agents.md"
PACKAGES = Path(sys.prefix) / "provers"
TOKEN = "a-token-of-a-test-only"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "plain", "version": "1"},
    },
}

pytestmark = pytest.mark.either_loop


def program(repo: Path, *more: str) -> StdioServerParameters:
    """The server as coding agents start it."""
    arguments = [*PROGRAM[1:], "--repo", str(repo), "--base", "HEAD~1", *more]
    return StdioServerParameters(command=PROGRAM[0], args=arguments, env=dict(os.environ))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_program_serves_its_pipes(mode: str, tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {}, {"b.py": SHELL})
    async with hosting(program(repo.path), mode=mode) as host:
        found = await host.call("review")
        assert found["untrusted"]["findings"][0]["at"] == "b.py:5"
        assert (await host.call("gate"))["run"] == found["run"]


async def test_the_page_in_a_clean_folder_leads_to_no_findings_in_six_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = re.findall(r"```json\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    config = json.loads(block)["mcpServers"]["diffcourt"]
    repo = Repo(tmp_path / "repo")
    repo.commit({"README.md": "# Shop\n"})
    repo.git("checkout", "-q", "-b", "work")
    repo.write({"a.py": UNUSED, "b.py": SHELL})
    better = SHELL.replace("os.system('ls ' + text)", 'subprocess.run(["ls", text], check=True)')
    monkeypatch.chdir(repo.path)
    start = [str(Path(sys.prefix, "bin", config["command"])), *config["args"]]
    server = StdioServerParameters(command=start[0], args=start[1:], env=dict(os.environ))
    async with hosting(server) as host:
        before = await host.call("review")
        (tmp_path / "all.patch").write_text((await host.call("fix"))["untrusted"]["patch"])
        repo.git("apply", str(tmp_path / "all.patch"))
        repo.write({"b.py": better.replace("import os", "import subprocess")})
        after = await host.call("review")
        repo.git("add", "-A")
        repo.git("commit", "-qm", "Fix what the review found")
        gate = await host.call("gate")
    assert before["open"] >= 3
    assert after["open"] == 0, after
    assert (gate["would_pass"], gate["why_not"]) == (True, [])
    assert host.calls <= 6


async def test_a_delegated_run_outlives_the_program(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    brain = Brain({"generalist": [*team()["security"]], "judge": [*team()["judge"]]})
    async with hosting(program(repo)) as host:
        asks = await host.call("review", reasoner="host")
        asks = await host.call("answer", **brain.answer(asks))
    async with hosting(program(repo)) as host:
        found = await host.finish(await host.call("review", run=asks["run"]), brain)
    assert len(brain.asked) == 4
    assert (await stored(repo, found["run"])).status == "complete"


def test_it_ends_when_its_input_ends_and_leaves_nothing(tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {}, {"b.py": SHELL}).path
    asked = json.dumps(HELLO) + "\n"
    run = [*PROGRAM, "--repo", str(repo)]
    done = subprocess.run(run, input=asked, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert done.stderr == ""
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "diffcourt"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_host_on_the_typescript_sdk_reviews_and_has_patches_applied(
    mode: str, tmp_path: Path
) -> None:
    if not (PACKAGES / "node_modules/@modelcontextprotocol/client").is_dir():
        pytest.skip("the TypeScript SDK is not installed: make provers")
    repo = change(tmp_path / "repo", {}, {"a.py": UNUSED}).path
    server = [*PROGRAM, "--repo", str(repo), "--base", "HEAD~1"]
    run = ["node", str(Path(__file__).with_name("host.cjs")), str(PACKAGES / "package.json"), mode]
    done = subprocess.run([*run, *server], capture_output=True, text=True, timeout=90, check=False)
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert "answer" in told["tools"]
    assert (told["review"]["open"], told["again"]["open"]) == (2, 0)
    assert told["fix"]["applied"] == ["F1", "F2"]
    assert len(told["asked"]) == 1
    assert "should match pattern" in told["forged"]["error"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_inspector_of_the_protocol_accepts_the_tools_and_reviews(
    transport: str, era: str, tmp_path: Path
) -> None:
    program = PACKAGES / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build"
    if not program.is_dir():
        pytest.skip("the inspector is not installed: make provers")
    repo = change(tmp_path / "repo", {}, {"b.py": SHELL}).path

    def inspect(place: list[str], method: str, *more: str) -> dict[str, Any]:
        run = ["node", str(program / "index.js"), "--cli", *place, "--method", method, *more]
        run += ["--protocol-era", era, "--transport", transport, "--format", "json"]
        run += ["--quiet", "--connect-timeout", "60000"]
        env = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(run, capture_output=True, text=True, env=env, timeout=90, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        found: dict[str, Any] = json.loads(done.stdout)["result"]
        return found

    with ExitStack() as opened:
        place = [*PROGRAM, "--repo", str(repo), "--base", "HEAD~1"]
        if transport == "http":
            address, token = opened.enter_context(over_http(repo))
            place = ["--server-url", address, "--header", f"Authorization: Bearer {token}"]
        tools = {tool["name"] for tool in inspect(place, "tools/list", "--strict")["tools"]}
        assert {"review", "answer", "findings", "fix", "gate"} <= tools
        found = inspect(place, "tools/call", "--tool-name", "review")
        assert json.loads(found["content"][0]["text"])["untrusted"]["findings"][0]["at"] == "b.py:5"


@contextmanager
def over_http(repo: Path, **environment: str) -> Iterator[tuple[str, str]]:
    """A server; its address and the token that it prints."""
    run = [*PROGRAM, "--http", "--repo", str(repo), "--base", "HEAD~1"]
    env: Mapping[str, str] = {**os.environ, **environment}
    with subprocess.Popen(run, stdout=subprocess.PIPE, text=True, env=env) as server:
        assert server.stdout is not None
        try:
            address = server.stdout.readline().split()[-1]
            yield address, server.stdout.readline().split()[-1]
        finally:
            server.send_signal(signal.SIGINT)
    assert server.returncode == 0


async def test_http_needs_the_token_of_this_start_and_our_own_name(tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {}, {"b.py": SHELL}).path
    with over_http(repo) as (address, token):
        assert address.startswith("http://127.0.0.1:")
        async with httpx2.AsyncClient(verify=PLAIN) as client:
            accepts = {"Accept": "application/json, text/event-stream"}
            for given, status in (
                ({}, 401),
                ({"Authorization": "Bearer wrong"}, 401),
                ({"Authorization": token}, 401),
                ({"Authorization": f"Bearer {token}", "Host": "evil.example"}, 421),
                ({"Authorization": f"Bearer {token}", "Origin": "https://evil.example"}, 403),
                ({"Authorization": f"Bearer {token}"}, 200),
            ):
                reply = await client.post(address, json=HELLO, headers={**accepts, **given})
                assert reply.status_code == status, given
        async with connected(address, token) as host:
            assert (await host.call("review"))["verdict"] == "needs_changes"


@asynccontextmanager
async def connected(address: str, token: str, mode: str = "auto") -> AsyncIterator[Host]:
    """A coding agent at a server of HTTP."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(verify=PLAIN, headers=headers, timeout=30) as client:
        transport = streamable_http_client(address, http_client=client)
        async with hosting(transport, mode=mode) as host:
            yield host


@pytest.mark.attack("two coding agents of one server that take each other's latest run")
@pytest.mark.parametrize(("mode", "has_session"), [("legacy", True), ("auto", False)])
async def test_two_clients_over_http_never_mix_up_their_latest_runs(
    mode: str, has_session: bool, tmp_path: Path
) -> None:
    repo = change(tmp_path / "repo", {}, {"a.py": UNUSED, "b.py": SHELL}).path
    with over_http(repo) as (address, token):
        async with connected(address, token, mode) as one, connected(address, token, mode) as two:
            first = await one.call("review", paths=["b.py"], uncommitted=False)
            for tool, more in (("findings", {}), ("explain", {"finding": "F1"}), ("gate", {}), ("fix", {}), ("cancel", {"run": "latest"}), ("review", {"run": "latest"})):  # fmt: skip
                assert "name the run by its id" in await two.refused(tool, **more)
            assert (await two.call("findings", run=first["run"]))["open"] == first["open"]
            second = await two.call("review", paths=["a.py"], uncommitted=False)
            for host, own in ((one, first), (two, second)):
                if has_session:
                    assert (await host.call("findings"))["run"] == own["run"]
                else:
                    assert "name the run by its id" in await host.refused("findings")
                assert (await host.call("findings", run=own["run"]))["open"] == own["open"]


def test_a_token_of_the_environment_counts_and_must_be_long(tmp_path: Path) -> None:
    repo = change(tmp_path / "repo", {}, {"b.py": SHELL}).path
    with over_http(repo, DIFFCOURT_MCP_TOKEN=TOKEN) as (_, token):
        assert token == TOKEN
    run = [*PROGRAM, "--http", "--repo", str(repo)]
    env = {**os.environ, "DIFFCOURT_MCP_TOKEN": "short"}
    done = subprocess.run(run, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("diffcourt: DIFFCOURT_MCP_TOKEN needs 16 ASCII characters")
