"""Commands in settings: npm's scripts, editors' tasks, hooks, units, cron, processes, recipes."""

import json

from diffchecks.data_files import read_patterns

_PATTERNS = read_patterns("configured_commands")


def has_configured_commands(path: str) -> bool:
    """Whether a file of that path configures commands."""
    return _PATTERNS["files"].search(path) is not None


def extract_configured_commands(path: str, text: str) -> str:
    """The commands as a script, on their original lines; every other line is empty."""
    name = path.rpartition("/")[2]
    if name.endswith((".json", ".code-workspace")):
        read = _strings
    else:
        of_cron = name.endswith(("crontab", ".cron")) or "/cron." in f"/{path}"
        read = _cron_command if of_cron else _value
    return "\n".join(" ; ".join(filter(None, map(_command, read(s)))) for s in text.split("\n"))


def extract_recipe(text: str) -> str | None:
    """What a shell runs of a recipe of RPM, on its lines; None where a file has no such sections.

    Its macros become words: ``%{name}`` may be anything.
    """
    runs, found, script = False, False, []
    for line in text.split("\n"):
        if section := _PATTERNS["section"].match(line):
            runs, found = section["shell"] is not None, True
            script.append("")
        elif runs:
            filled = _PATTERNS["filled"].sub(r"$\1", line.replace("%%", ""))
            script.append(_PATTERNS["macro"].sub("x", filled))
        else:
            script.append(" ; ".join(inner[1:-1] for inner in _PATTERNS["filled"].findall(line)))
    return "\n".join(script) if found else None


def _strings(line: str) -> list[str]:
    """All strings of a line of JSON, which may hold the whole file."""
    return [_unescape(text) for text in _PATTERNS["json_string"].findall(line)]


def _unescape(text: str) -> str:
    try:
        return " ; ".join(str(json.loads(f'"{text}"', strict=False)).splitlines())
    except ValueError:
        return text


def _cron_command(line: str) -> list[str]:
    start = _PATTERNS["time"].match(line)
    value = line[start.end() :] if start else ""
    return [value[user.end() :] if (user := _PATTERNS["user"].match(value)) else value]


def _value(line: str) -> list[str]:
    """The value of a line of YAML or of a unit."""
    start = _PATTERNS["key"].match(line)
    value = line[start.end() :].strip() if start else ""
    quoted = value[:1] in {'"', "'"} and value[-1:] == value[:1]
    return [value[1:-1] if quoted else value]


def _command(value: str) -> str:
    inner = _PATTERNS["shell_c"].match(value)
    value = inner[2] if inner else value
    # Only what could do harm: a pipeline, redirection or download. Others are names and versions.
    return value if " " in value and _PATTERNS["may_harm"].search(value) else ""
