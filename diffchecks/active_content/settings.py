"""Settings that run a program as soon as a tool reads them."""

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from diffchecks.check_io import RawFinding, Source


class ProgramSetting(Struct, frozen=True):
    """A line of a settings file that has a program run.

    Attributes:
        files: matches the paths of such files.
        line: matches the line.
        message: what it does.
        text: must match in the file, if given.
        code: the finding's.
    """

    files: re.Pattern[str]
    line: re.Pattern[str]
    message: str
    text: re.Pattern[str] | None = None
    code: str = "run-setting"


def _setting(
    files: str, line: str, message: str, text: str = "", code: str = "run-setting"
) -> ProgramSetting:
    return ProgramSetting(
        re.compile(rf"(?:.*/)?(?:{files})", re.DOTALL),
        re.compile(line, re.IGNORECASE),
        message,
        re.compile(text) if text else None,
        code,
    )


_SETTINGS: Final = (
    _setting(
        r"\.diffcourt/.+\.(?:yaml|md)",
        r"\s*needs_changes_at:\s*(?:high|critical)|\s*fail_on:\s*block|\s*unread:\s*note|\s*tools:\s*\[\s*\]"
        r"|.*\bpaths:\s*\[\s*[\"']?\*{1,2}(?:/\*{1,2})?[\"']?\s*\]",
        "Reviews are less strict from the merge on",
        code="review-policy",
    ),
    _setting(r"\.gitmodules", r"\s*update\s*=\s*!", "git runs this command to update a submodule"),
    _setting(
        r"\.gitmodules", r"\s*url\s*=\s*[\"']?(?:ext::|-)", "git runs a command for this address"
    ),
    _setting(r"[^/]*\.pth", r"import[ \t]", "Python runs this line each time it starts"),
    _setting(
        r"(?:site|user)customize\.py", r"\s*[^\s#\"']", "Python runs this file each time it starts"
    ),
    _setting(
        r"\.?gitconfig|config",
        r"\s*(?:fsmonitor\s*=(?!\s*(?:true|false))|sshcommand\s*=|hookspath\s*=|askpass\s*=|textconv\s*=)\s*\S",
        "git runs this program",
        r"(?m)^\s*\[\w+",
    ),
    _setting(
        r"config",
        r"\s*bare\s*=",
        "git takes this directory for a repository with its own settings",
        r"(?m)^\[core\]",
    ),
    _setting(
        r"\.vscode/tasks\.json|[^/]*\.code-workspace",
        r".*\"runOn\"\s*:\s*\"folderOpen\"",
        "The editor runs the task when the directory is opened",
    ),
    _setting(
        r"\.vscode/settings\.json|[^/]*\.code-workspace",
        r".*\"(?:git\.path|LD_PRELOAD|DYLD_INSERT_LIBRARIES|terminal\.integrated\.automationProfile\.\w+)\"\s*:\s*[\"{]"
        r"|.*\"(?:task\.allowAutomaticTasks)\"\s*:\s*\"on\"|.*\"security\.workspace\.trust\.enabled\"\s*:\s*false",
        "The editor runs a program of the repository without asking",
    ),
    _setting(
        r"\.npmrc|\.yarnrc",
        r"\s*(?:script-shell|onload-script|init-module|git)\s*=\s*\S"
        r"|\s*node-options\s*=.*(?:--require|--import|-r\s)",
        "npm runs this program",
    ),
    _setting(
        r"\.cargo/config(?:\.toml)?",
        r"\s*(?:rustc(?:-workspace)?-wrapper|rustc)\s*=\s*[\"'](?!sccache|/usr/bin/sccache|clippy)[^\"']",
        "cargo runs this program in place of the compiler",
    ),
    _setting(
        r"go\.env", r".*-toolexec|GOSUMDB=off|GOFLAGS=.*-insecure", "go runs what it did not check"
    ),
    _setting(
        r"jvm\.config|maven\.config|gradle\.properties",
        r".*-javaagent:",
        "The virtual machine loads this agent in each build",
    ),
    _setting(
        r"(?:[^/]*\.)?(?:Docker|Container)file(?:\.[^/]*)?",
        r"#\s*syntax\s*=\s*(?!(?:docker\.io/)?docker/)\S",
        "The image that reads this file is not Docker's own",
    ),
    _setting(
        r"\.pre-commit-config\.ya?ml",
        r"\s*(?:-\s*)?rev:\s*[\"']?(?:main|master|HEAD|develop|trunk)\b",
        "What the hook runs is whatever its branch has",
        code="mutable-source",
    ),
    _setting(
        r"[^/]*\.gitlab-ci\.ya?ml",
        r"\s*(?:-\s*)?remote:\s*[\"']?https?://(?![^/]*gitlab|\S*/raw/)",
        "Whoever controls the server decides what the pipeline runs",
        code="mutable-source",
    ),
    _setting(
        r"[^/]*\.tf",
        r"\s*source\s*=\s*\"(?:git::|git@|hg::|https?://)(?![^\"]*[?&]ref=(?:v?\d|[0-9a-f]{40}))",
        "Whoever can push there decides what the module does",
        r"(?m)^module\s",
        code="mutable-source",
    ),
)


def find_settings(source: Source) -> Iterator[RawFinding]:
    """The settings of a file that have a program run, the first of each kind."""
    for setting in _SETTINGS:
        if setting.files.fullmatch(source.path) is None:
            continue
        if setting.text is not None and setting.text.search(source.text) is None:
            continue
        for number, line in enumerate(source.lines, 1):
            if len(line) < 2000 and setting.line.match(line):
                yield RawFinding(setting.code, source.path, number, setting.message)
                break
