"""An installation without optional dependencies, and what it says of those that are missing."""

import subprocess
import sys

import pytest

from orchestrator import optional_dependencies
from orchestrator.optional_dependencies import install_command, minimum_version

EXTRAS = [
    *("agents", "cryptography", "langgraph", "mcp", "numpy", "phonenumbers", "presidio_analyzer"),
    *("opentelemetry", "psycopg", "stdnum"),
]
WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS!r}))\n"
COMMAND = f"{WITHOUT}from orchestrator.cli.main import main; sys.exit(main(sys.argv[1:]))"


def diffcourt(repo, *arguments, **environment):
    """Run a command where no extra is installed."""
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        cwd=repo,
        env={"PATH": "/usr/bin:/bin", "HOME": str(repo / "home"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def repo(tmp_path_factory):
    root = tmp_path_factory.mktemp("repo")
    git = ["git", "-C", str(root), "-c", "user.name=N", "-c", "user.email=n@example.org"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    for text in ("A = 1\n", "A = 2\n"):
        (root / "a.py").write_text(text)
        subprocess.run([*git, "add", "a.py"], check=True)
        subprocess.run([*git, "commit", "-qm", text], check=True)
    return root


def test_a_review_needs_no_extra_but_the_analyzers(repo):
    done = diffcourt(repo, "review", "--base", "HEAD~1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("NOTHING FOUND")
    assert diffcourt(repo, "audit", "verify", "latest").returncode == 0


def test_help_and_listings_need_no_extra(repo):
    code = f"{WITHOUT}from orchestrator.cli.main import COMMANDS, main\n"
    code += "print([name for name in COMMANDS if main([name, '--help']) != 0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
    (repo / "items.jsonl").write_text("")
    listed = diffcourt(repo, "label", "items.jsonl", "--rater", "ana", "--list")
    assert "internal error" not in listed.stderr


def test_a_missing_extra_is_one_line_with_the_packages_to_install(repo):
    key = "-----BEGIN PRIVATE KEY-----\n"
    done = diffcourt(repo, "review", DIFFCOURT_AUDIT_KEY=key)
    assert done.returncode == 2
    assert "needs cryptography; run: " in done.stderr
    assert "install 'cryptography>=" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("prefix", "pip", "command"),
    [
        ("/h/.venv", True, "~/.venv/bin/python -P -m pip install 'numpy>=2'"),
        ("/opt/venv", True, "/opt/venv/bin/python -P -m pip install 'numpy>=2'"),
        ("/h/.local/share/pipx/venvs/diffcourt", True, "pipx inject diffcourt 'numpy>=2'"),
        ("/h/x/uv/tools/d", False, "uv pip install --python ~/x/uv/tools/d/bin/python 'numpy>=2'"),
    ],
)
def test_the_command_fits_the_way_diffcourt_was_installed(monkeypatch, prefix, pip, command):
    monkeypatch.setenv("HOME", "/h")
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(optional_dependencies, "_has_pip", lambda: pip)
    assert install_command("tune") == command


def test_one_package_of_an_extra_is_named_with_its_version(monkeypatch):
    lines = ["rich>=14", "ruff>=0.17; extra == 'analyzers'", "typos>=1.5; extra == 'analyzers'"]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: lines)
    assert install_command("analyzers", "ruff").endswith(" install 'ruff>=0.17'")
    assert minimum_version("analyzers", "ruff") == "0.17"
    assert minimum_version("analyzers", "rich") == ""
    assert install_command("analyzers").endswith(" install 'ruff>=0.17' 'typos>=1.5'")
