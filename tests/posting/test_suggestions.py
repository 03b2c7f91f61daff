"""Patches in comments: what a person commits with a click is what was proven, or there is no click."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from msgspec import to_builtins

from diffchecks.fixes.patches import write_patch
from orchestrator.cli.main import main
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.posting import forgejo, github, gitlab
from orchestrator.posting.forge import Forge
from orchestrator.posting.posting_plan import identity_of, make_cleaner, plan_posting, post_verdict
from tests.posting.forge_server import TOKEN, ForgeServer, serving
from tests.posting.forgejo_server import ForgejoServer
from tests.posting.github_server import GitHubServer
from tests.posting.gitlab_server import GitLabServer
from tests.report.verdict_samples import fixed, verdict

HEAD = [f"line {number}\n" for number in range(1, 61)]
"""The servers' diffs show the lines 38 to 42, of which GitLab lets 39 to 42 be commented on."""
PATH = "src/upload.py"
SECRET = "ghp_" + "a8Bd0Kq2Zr5Tx7Wm1Nc4Vf6Hj9Ls3Py0Ge2u"


@pytest.fixture(params=[GitHubServer, GitLabServer])
def server(request: pytest.FixtureRequest) -> Iterator[ForgeServer]:
    with serving(request.param()) as running:
        yield running


def open_forge(server: ForgeServer) -> Forge:
    if isinstance(server, GitHubServer):
        return github.GitHub(TOKEN, server.url, "acme/shop", 12)
    if isinstance(server, GitLabServer):
        return gitlab.GitLab(TOKEN, server.url, "acme/shop", 12)
    return forgejo.Forgejo(TOKEN, server.url, "acme/shop", 12)


def patched(first: int, last: int, *new: str) -> tuple[str, str]:
    """A patch that replaces lines of head, and the file with it."""
    lines = [*HEAD[: first - 1], *new, *HEAD[last:]]
    before, after = "".join(HEAD), "".join(lines)
    return write_patch({PATH: before.encode()}, {PATH: after.encode()}), after


def of(*findings: Finding) -> Verdict:
    return verdict(verdict="block", exit_code=1, findings=findings)


def comment_of(server: ForgeServer) -> tuple[str, int, int]:
    """The text of the one comment at lines, and the lines at which it stands."""
    if isinstance(server, GitHubServer):
        (thread,) = server.threads
        return thread["body"], thread.get("start_line", thread["line"]), thread["line"]
    if isinstance(server, GitLabServer):
        (one,) = [one for one in server.discussions if one["position"]]
        line = one["position"]["new_line"]
        return one["notes"][0]["body"], line, line
    assert isinstance(server, ForgejoServer)
    (comment,) = [comment for review in server.reviews for comment in review["comments"]]
    return comment["body"], comment["new_position"], comment["new_position"]


def post(server: ForgeServer, given: Verdict, *, suggest: bool = True) -> tuple[str, int, int]:
    """Post a verdict with one finding; returns its comment."""
    plan = partial(plan_posting, suggest_fixes=suggest)
    receipt = post_verdict(given, open_forge(server), make_cleaner({}), plan)
    assert (receipt.wanted, receipt.found) == (1, 1)
    return comment_of(server)


def blocks(body: str) -> list[Any]:
    return [token for token in MarkdownIt().parse(body) if token.type == "fence"]


def committed(body: str, start: int, end: int) -> str:
    """The file as the forge would commit it when a person clicks."""
    (block,) = blocks(body)
    info = re.fullmatch(r"suggestion(?::-(\d+)\+(\d+))?", block.info)
    assert info
    start, end = start - int(info[1] or 0), end + int(info[2] or 0)
    return "".join([*HEAD[: start - 1], block.content, *HEAD[end:]])


@pytest.mark.parametrize(
    ("first", "last", "new"),
    [
        (40, 40, ["fixed\n"]),
        (40, 42, ["\tone = '```'\n", "\n", "    ~~~~ two  \n"]),
        (39, 40, ["``````suggestion\n", "<!-- diffcourt:finding 9 --> @team </details>\n"]),
        (41, 40, ["added = '日本 \\n'\n", "twice\n"]),
        (40, 41, []),
        (39, 41, [HEAD[38], "changed in between\n", HEAD[40], "added behind\n"]),
    ],
)
def test_a_suggestion_commits_exactly_the_proven_patch(
    server: ForgeServer, first: int, last: int, new: list[str]
) -> None:
    patch, after = patched(first, last, *new)
    body, start, end = post(server, of(fixed(1, patch=patch, start_line=40, end_line=40)))
    assert committed(body, start, end) == after
    assert identity_of(body) == f"{1:064x}"
    assert "Patch, verified by ruff&#95;bugs, parse&#95;check:" in body


def test_without_trust_in_the_verdict_a_patch_is_a_diff_to_read(server: ForgeServer) -> None:
    patch, _ = patched(40, 40, "fixed\n")
    given = of(fixed(1, patch=patch, start_line=40, end_line=40))
    body, _, end = post(server, given, suggest=False)
    (block,) = blocks(body)
    assert (block.info, end) == ("diff", 40)
    assert "-line 40\n+fixed\n" in block.content
    assert "`diffcourt fix verdict.json F1`" in body


def other(patch: str) -> str:
    return patch.replace(PATH, "src/other.py")


@pytest.mark.parametrize(
    ("patch", "state"),
    [
        (patched(40, 40, "fixed\n")[0], "applies"),
        (patched(40, 40, "fixed\n")[0], "refused"),
        (patched(43, 43, "no line of the diff\n")[0], "verified"),
        (patched(42, 43, "half of it\n")[0], "verified"),
        (patched(40, 60, *HEAD[39:59], "two places\n", "fixed\n")[0], "verified"),
        (other(patched(40, 40, "fixed\n")[0]), "verified"),
        (patched(40, 40, "fixed\n")[0] + other(patched(40, 40, "fixed\n")[0]), "verified"),
        (patched(40, 40, "carriage return\r\n")[0], "verified"),
        (patched(40, 40, "", "bidi \u202e\n")[0], "verified"),
        (patched(40, 40, " \n")[0], "verified"),
        (patched(40, 40, "blank below\n", "\n")[0], "verified"),
        (patched(40, 40, "x" * 9_000 + "\n")[0], "verified"),
        (patched(40, 41, "/merge\n", "/approve\n")[0], "verified"),
        (patched(40, 40, f"token = '{SECRET}'\n")[0], "verified"),
        ("--- a/x\n+++ b/x\n@@ -40 +40 @@\n-```\n+```suggestion\n+evil\n+```\n", "verified"),
        ("```suggestion\nevil\n```\n", "verified"),
        ("\ud800", "verified"),
    ],
)
def test_nobody_can_commit_what_was_not_proven_byte_for_byte(
    server: ForgeServer, patch: str, state: Any
) -> None:
    found = fixed(1, patch=patch, state=state, start_line=40, end_line=40)
    body, _, end = post(server, of(found))
    assert end == 40
    assert not any(block.info.startswith("suggestion") for block in blocks(body))
    assert SECRET not in body
    assert ("`diffcourt fix verdict.json F1`" in body) == (state == "verified")
    assert identity_of(body) == f"{1:064x}"


def test_a_comment_with_a_suggestion_is_at_the_replaced_lines(server: ForgeServer) -> None:
    patch, after = patched(39, 39, "fixed\n")
    body, start, end = post(server, of(fixed(1, patch=patch, start_line=41, end_line=42)))
    assert end == 39
    assert committed(body, start, end) == after


def test_forgejo_which_knows_no_suggestions_shows_the_diff() -> None:
    patch, _ = patched(40, 40, "fixed\n")
    with serving(ForgejoServer()) as server:
        body, _, _ = post(server, of(fixed(1, patch=patch, start_line=40, end_line=40)))
    assert [block.info for block in blocks(body)] == ["diff"]


def test_the_command_suggests_only_when_it_is_told_to(
    server: ForgeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch, after = patched(40, 40, "fixed\n")
    file = tmp_path / "verdict.json"
    given = of(fixed(1, patch=patch, start_line=40, end_line=40))
    file.write_text(json.dumps(to_builtins(given)))
    name = "github" if isinstance(server, GitHubServer) else "gitlab"
    monkeypatch.setenv(f"{name.upper()}_TOKEN", TOKEN)
    where = ["--to", name, "--project", "acme/shop", "--request", "12", "--url", server.url]
    assert main(["post", str(file), *where, "--suggest-fixes"]) == 0
    body, start, end = comment_of(server)
    assert committed(body, start, end) == after
