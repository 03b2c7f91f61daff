"""Commands in the settings of tools: scripts of npm, tasks of editors, hooks, units and cron."""

import re

_FILES = re.compile(
    r"(?:^|/)(?:package\.json|\.pre-commit-config\.ya?ml|\.vscode/tasks\.json|devcontainer\.json"
    r"|lefthook\.ya?ml|crontab|cron\.(?:d|daily|hourly|weekly|monthly)/[^/]+)\Z|\.service\Z"
)
_TIME = re.compile(r"\s*(?:@\w+|(?:[\d*,/-]+\s+){4}[\w*,/-]+)\s+")
_USER = re.compile(r"[a-z_][\w-]*\s+(?=(?:/\S*/)?(?:curl|wget|bash|sh|eval|nc|echo)\s)")
_KEY = re.compile(r"""\s*(?:-\s*)?(?:"[^"]*"|'[^']*'|[\w.-]+)\s*[:=]\s*""")
_SHELL_C = re.compile(r"\A(?:/\S*/)?(?:bash|dash|zsh|sh)\s+-\w*c\s+([\"'])(.*)\1\Z")


def has_configured_commands(path: str) -> bool:
    """Whether a file of that path configures commands."""
    return _FILES.search(path) is not None


def extract_configured_commands(path: str, text: str) -> str:
    """The commands as a script, on their original lines; every other line is empty."""
    is_cron = path.rpartition("/")[2] == "crontab" or "/cron." in f"/{path}"
    return "\n".join(_command(line, is_cron=is_cron) for line in text.split("\n"))


def _command(line: str, *, is_cron: bool) -> str:
    start = (_TIME if is_cron else _KEY).match(line)
    if start is None:
        return ""
    value = line[start.end() :].strip()
    if is_cron:
        value = value[user.end() :] if (user := _USER.match(value)) else value
    value = value.rstrip(", ]}")
    if value[:1] == '"' and value[-1:] == '"':
        value = value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    elif value[:1] == "'" and value[-1:] == "'":
        value = value[1:-1]
    inner = _SHELL_C.match(value)
    value = inner[2] if inner else value
    # Only what could be a pipeline or redirection: other values are names, versions and globs.
    return value if " " in value and re.search(r"[|<>]|\beval\b|\bnc", value) else ""
