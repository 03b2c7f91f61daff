"""``diffcourt init --agents``: what it writes is valid and true, and keeps what people wrote."""

import json
import os
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema_rs import validator_for

from orchestrator import __version__
from orchestrator.app.agent_files import agent_files
from orchestrator.cli.commands.init import HOSTS
from orchestrator.cli.main import main
from tests.mcp_server.host_kit import hosting, served
from tests.mcp_server.test_served_reviews import UNUSED
from tests.review.review_kit import Repo, change

SCHEMAS = yaml.safe_load(Path(__file__).with_name("host_schemas.yaml").read_text("utf-8"))
SERVER = {"command": "diffcourt", "args": ["mcp", "serve"]}
LONG = {"output_token_limit": 100_000}
CODEX = {
    **SERVER,
    "startup_timeout_sec": 60,
    "tools": {"review": LONG, "answer": LONG, "fix": LONG | {"approval_mode": "approve"}},
}
SKILL = ".claude/skills/diffcourt/SKILL.md"


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    made = change(tmp_path / "repo", {}, {"a.py": UNUSED})
    monkeypatch.chdir(made.path)
    return made


def settings(path: Path) -> Any:
    text = path.read_text("utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


def files(top: Path) -> dict[str, bytes]:
    found = (path for path in top.rglob("*") if path.is_file())
    names = {path.relative_to(top).as_posix(): path for path in found}
    return {name: path.read_bytes() for name, path in names.items() if not name.startswith(".git/")}


def test_the_command_knows_every_host() -> None:
    assert set(HOSTS) == set(agent_files().hosts) == SCHEMAS.keys() - {"skill", "plugin"}


@pytest.mark.parametrize("host", HOSTS)
def test_what_is_written_fits_the_published_format_of_the_host(host: str, repo: Repo) -> None:
    assert main(["init", "--agents", host]) == 0
    known = agent_files().hosts[host]
    assert files(repo.path).keys() == {"AGENTS.md", "README.md", "a.py", known.skill, known.config}
    found = settings(repo.path / known.config)
    validator_for(SCHEMAS[host]).validate(found)
    assert any("diffcourt" in value for value in found.values() if isinstance(value, dict))
    skill = repo.path / known.skill
    head, body = re.fullmatch(r"---\n(.*?)---\n(.*)", skill.read_text(), re.DOTALL).groups()  # type: ignore[union-attr]
    front = yaml.safe_load(head)
    validator_for(SCHEMAS["skill"]).validate(front)
    assert front["name"] == skill.parent.name
    assert len(body.splitlines()) < 500


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # not a repository
    assert main(["init", "--plugin", "team/plugin"]) == 0
    return tmp_path / "team/plugin"


def test_a_plugin_fits_the_published_format_of_each_host(plugin: Path) -> None:
    written = files(plugin)
    manifests = {name: json.loads(written.pop(name)) for name in SCHEMAS["plugin"]}
    assert written.keys() == {"skills/diffcourt/SKILL.md", "opencode.js"}
    for name, found in manifests.items():
        validator_for(SCHEMAS["plugin"][name]).validate(found)
    assert {one["version"] for one in manifests.values() if "version" in one} == {__version__}
    servers = {name: one["mcpServers"] for name, one in manifests.items() if "mcpServers" in one}
    assert servers.pop(".codex-plugin/plugin.json") == {"diffcourt": CODEX}
    assert list(servers.values()) == [{"diffcourt": SERVER}] * 3


def test_what_a_person_changed_in_a_plugin_stays_until_it_is_forced(
    plugin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = files(plugin)
    (plugin / "gemini-extension.json").write_text("{}")
    assert main(["init", "--plugin", "team/plugin"]) == 0
    assert "gemini-extension.json was changed and is kept; --force" in capsys.readouterr().out
    assert (plugin / "gemini-extension.json").read_text() == "{}"
    assert main(["init", "--plugin", "team/plugin", "--force"]) == 0
    assert files(plugin) == written


@pytest.mark.attack("a checkout leads what init writes as a plugin elsewhere by a link")
def test_a_link_out_of_a_plugin_is_refused(
    plugin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (plugin / "package.json").unlink()
    (plugin / "package.json").symlink_to("../package.json")
    assert main(["init", "--plugin", "team/plugin", "--force"]) == 2
    assert "package.json leads out of" in capsys.readouterr().err
    assert os.listdir(plugin.parent) == ["plugin"]


def test_without_a_name_all_hosts_get_their_files_once(
    repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--agents"]) == 0
    written = files(repo.path)
    wrote = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Wrote ")]
    assert {f"Wrote {name}" for name in written.keys() - {"a.py", "README.md"}} == set(wrote)
    assert main(["init", "--agents", "--force"]) == main(["init", "--agents"]) == 0
    assert files(repo.path) == written
    assert "Wrote" not in capsys.readouterr().out


def test_the_review_of_what_is_written_finds_nothing(repo: Repo) -> None:
    assert main(["init", "--agents"]) == main(["init", "--plugin", "plugin"]) == 0
    repo.git("add", ".")
    repo.git("commit", "-qm", "agents")
    assert main(["review", "HEAD~1", "--json", "../verdict.json"]) == 0
    verdict = json.loads(Path("../verdict.json").read_text("utf-8"))
    assert (verdict["status"], verdict["findings"]) == ("complete", [])


def test_each_command_and_tool_in_the_texts_exists_and_works(repo: Repo) -> None:
    texts = agent_files().skill + agent_files().agents_md
    commands = sorted(set(re.findall(r"`diffcourt ([^`]+)`", texts)))
    assert commands == ["review --worktree", "show latest", "watch"]
    for command in commands:
        once = ["--once"] if command == "watch" else []
        assert main([*shlex.split(command), *once]) == 0, command


@pytest.mark.either_loop
async def test_each_tool_in_the_texts_is_one_of_the_server(repo: Repo) -> None:
    texts = agent_files().skill + agent_files().agents_md
    named = set(re.findall(r"tools? `(\w+)`", texts)) | {"findings", "explain"}
    async with served(repo.path) as server, hosting(server) as host:
        tools = {tool.name for tool in (await host.client.list_tools()).tools}
        assert named <= tools
        found = await host.call("review")
        assert {"state", "run"} <= found.keys()
        assert (await host.call("gate"))["would_pass"] in {True, False}


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        (".mcp.json", '{\n\t"mcpServers": {"a": {"command": "b"}}, "é": 1}', {"mcpServers": {"a": {"command": "b"}, "diffcourt": SERVER}, "é": 1}),
        (".mcp.json", "", {"mcpServers": {"diffcourt": SERVER}}),
        (".gemini/settings.json", '{"ui": {"theme": "x"}}\n', {"ui": {"theme": "x"}, "mcpServers": {"diffcourt": SERVER}}),
        (".codex/config.toml", '# ours\nmodel = "m"\n[mcp_servers.a]\ncommand = "b"', {"mcp_optional_startup_grace_ms": 0, "model": "m", "mcp_servers": {"a": {"command": "b"}, "diffcourt": CODEX}}),
        (".codex/config.toml", "mcp_optional_startup_grace_ms = 5\n", {"mcp_optional_startup_grace_ms": 5, "mcp_servers": {"diffcourt": CODEX}}),
    ],
)  # fmt: skip
def test_the_settings_of_others_stay(name: str, before: str, after: Any, repo: Repo) -> None:
    (repo.path / name).parent.mkdir(exist_ok=True)
    (repo.path / name).write_text(before, "utf-8")
    assert main(["init", "--agents"]) == 0
    assert settings(repo.path / name) == after
    if "# ours" in before:
        assert (repo.path / name).read_text("utf-8").count(before) == 1
    if "\t" in before:
        assert '\n\t"mcpServers"' in (repo.path / name).read_text("utf-8")


@pytest.mark.parametrize("value", ["1e400", r'"\ud800"', "NaN"])
def test_settings_that_could_not_be_written_as_they_are_stay(
    value: str, repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f'{{"mcpServers": {{}}, "other": {value}}}'
    (repo.path / ".mcp.json").write_text(text)
    assert main(["init", "--agents", "claude"]) == 0
    assert "Add to .mcp.json, which cannot be extended by a program" in capsys.readouterr().out
    assert (repo.path / ".mcp.json").read_text() == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (SKILL, "---\nname: diffcourt\ndescription: mine\n---\n"),
        (".mcp.json", '{"mcpServers": {"diffcourt": {"command": "uvx", "args": ["diffcourt"]}}}'),
        ("AGENTS.md", "# Ours\n<!-- diffcourt -->\n- Mine.\n<!-- /diffcourt -->\n\nMore.\n"),
    ],
)
def test_what_a_person_changed_stays_until_it_is_forced(
    name: str, text: str, repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    (repo.path / name).parent.mkdir(exist_ok=True, parents=True)
    (repo.path / name).write_text(text)
    assert main(["init", "--agents", "claude"]) == 0
    assert f"{name} was changed and is kept; --force" in capsys.readouterr().out
    assert (repo.path / name).read_text() == text
    assert main(["init", "--agents", "claude", "--force"]) == 0
    after = (repo.path / name).read_text()
    assert after != text
    if name == "AGENTS.md":
        assert after.startswith("# Ours\n<!-- diffcourt -->\n- Before")
        assert after.endswith("<!-- /diffcourt -->\n\nMore.\n")


@pytest.mark.parametrize(
    ("before", "gap"),
    [("", ""), ("# A\n", "\n"), ("# A", "\n\n"), ("# A\r\n", "\r\n"), ("# A\r\nB", "\r\n\r\n")],
)
def test_an_agents_md_gets_three_lines_at_its_end(before: str, gap: str, repo: Repo) -> None:
    file = repo.path / "AGENTS.md"
    file.write_bytes(before.encode())
    for _ in range(2):
        assert main(["init", "--agents", "claude"]) == 0
        after = file.read_bytes().decode()
        end = "\r\n" if "\r\n" in gap else "\n"
        first, *lines, last = after.removeprefix(before + gap).split(end)[:-1]
        assert (first, last) == ("<!-- diffcourt -->", "<!-- /diffcourt -->")
        assert [line[:2] for line in lines] == ["- "] * 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".mcp.json", '{\n  // mine\n  "mcpServers": {}\n}'),
        (".mcp.json", '{"mcpServers": {}, "a": 1, "a": 2}'),
        (".mcp.json", '{"mcpServers": []}'),
        (".mcp.json", "[]"),
        (".mcp.json", '{"a": ' + "[" * 100_000),
        (".codex/config.toml", 'mcp_servers = {a = {command = "b"}}\n'),
        (".codex/config.toml", "= broken"),
        ("AGENTS.md", "<!-- diffcourt -->\nwithout an end\n"),
    ],
)
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_file_that_cannot_be_extended_stays_and_what_to_add_is_printed(
    name: str, text: str, force: list[str], repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    (repo.path / name).parent.mkdir(exist_ok=True)
    (repo.path / name).write_text(text)
    assert main(["init", "--agents", "claude", "codex", *force]) == 0
    said = capsys.readouterr().out
    assert f"Add to {name}" in said
    assert "diffcourt" in said.split(f"Add to {name}")[1]
    assert (repo.path / name).read_text() == text


@pytest.mark.attack("a checkout leads what init writes for agents elsewhere by a link")
@pytest.mark.parametrize("target", ["../outside/file", ".git/hooks/pre-commit", "/dev/zero"])
def test_links_out_of_the_work_tree_are_refused_before_anything_is_written(
    target: str, repo: Repo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "outside").mkdir()
    (repo.path / "AGENTS.md").symlink_to(target)
    before = (
        sorted(os.listdir(repo.path / ".git/hooks")) if (repo.path / ".git/hooks").exists() else []
    )
    assert main(["init", "--agents"]) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert "AGENTS.md leads out of the repository" in said.err
    assert os.listdir(tmp_path / "outside") == []
    assert not (repo.path / ".mcp.json").exists()
    if before:
        assert sorted(os.listdir(repo.path / ".git/hooks")) == before


@pytest.mark.attack("a checkout leads what init writes for agents in a circle by links")
def test_a_loop_of_links_is_one_line(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    (repo.path / "AGENTS.md").symlink_to("AGENTS.md")
    assert main(["init", "--agents"]) == 2
    assert re.fullmatch(r"diffcourt: cannot write AGENTS\.md: .*\n", capsys.readouterr().err)
    assert not (repo.path / ".mcp.json").exists()


def test_a_link_to_another_file_of_the_work_tree_is_followed(repo: Repo) -> None:
    (repo.path / "CLAUDE.md").write_text("# Ours\n")
    (repo.path / "AGENTS.md").symlink_to("CLAUDE.md")
    assert main(["init", "--agents", "claude"]) == 0
    assert (repo.path / "AGENTS.md").is_symlink()
    assert (repo.path / "CLAUDE.md").read_text().startswith("# Ours\n\n<!-- diffcourt -->\n")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["clade"], "did you mean claude?"),
        (["claude", "--ci", "github"], "not allowed with"),
        (["--tests"], "not allowed with"),
    ],
)
def test_a_wrong_call_is_one_line(
    words: list[str], error: str, repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--agents", *words]) == 2
    assert error in capsys.readouterr().err
    assert files(repo.path).keys() == {"a.py", "README.md"}


@pytest.mark.parametrize("data", [b"\xff\xfe", None])
def test_a_file_that_is_no_text_is_one_line(
    data: bytes | None, repo: Repo, capsys: pytest.CaptureFixture[str]
) -> None:
    if data is None:
        (repo.path / ".mcp.json").mkdir()
    else:
        (repo.path / ".mcp.json").write_bytes(data)
    assert main(["init", "--agents", "claude"]) == 2
    assert re.fullmatch(r"diffcourt: .*\.mcp\.json.*\n", capsys.readouterr().err)
    assert not (repo.path / "AGENTS.md").exists()
