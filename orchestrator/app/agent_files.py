"""The files that tell coding agents of a repository to call reviews: ``agent_files.yaml``."""

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from msgspec import Struct, convert

from orchestrator.app.ci_files import require_inside, write_ci_files
from orchestrator.data_directories import read_table
from orchestrator.engine.report_reading import unique_keys
from orchestrator.errors import InputError

AGENTS_MD = "AGENTS.md"
NAME = "diffcourt"
_BLOCK = re.compile(
    r"^<!-- diffcourt -->\r?\n.*?^<!-- /diffcourt -->(\r?\n|\Z)", re.MULTILINE | re.DOTALL
)

Settings = dict[str, Any]
Update = Callable[[str, bool], str]
"""A file's text, and whether to replace what a person changed → its new text.

It raises ``ValueError`` or ``RecursionError`` if the file has no form that can be added to.
"""
Updates = dict[str, tuple[Update, str]]
"""Path → how it is updated, and our part of it alone."""


class Host(Struct, frozen=True):
    """A coding agent: paths, and what is merged into ``config`` with settings of others."""

    skill: str
    config: str
    adds: Settings


class AgentFiles(Struct, frozen=True):
    """The hosts by name, the texts, and the files of a plugin, as text or as what JSON holds."""

    hosts: Mapping[str, Host]
    next: str
    next_of_plugin: tuple[str, ...]
    agents_md: str
    skill: str
    plugin: Mapping[str, Settings | str]


@cache
def agent_files() -> AgentFiles:
    """What can be written."""
    return convert(read_table(__file__, "agent_files.yaml"), AgentFiles)


def write_agent_files(top: Path, names: Sequence[str], *, force: bool) -> list[str]:
    """Write or extend the files of hosts, and return the lines that a person is told.

    Args:
        force: also replace what a person changed.

    Raises:
        InputError: a file cannot be read or written.
    """
    known = agent_files()
    updates: Updates = {AGENTS_MD: (partial(_with_block, known.agents_md), known.agents_md)}
    for host in (known.hosts[name] for name in names):
        updates[host.skill] = partial(_whole, known.skill), known.skill
        is_toml = host.config.endswith(".toml")
        own = "\n\n".join(_toml_parts(host)) if is_toml else f"{json.dumps(host.adds, indent=2)}\n"
        updates[host.config] = partial(_extend, host), own
    return [*_write(top, updates, force), known.next]


def write_plugin(directory: Path, *, force: bool) -> list[str]:
    """``write_agent_files`` for a folder that is a plugin of every host."""
    texts = {
        path: content if isinstance(content, str) else json.dumps(content, indent=2) + "\n"
        for path, content in agent_files().plugin.items()
    }
    updates: Updates = {path: (partial(_whole, text), text) for path, text in texts.items()}
    return [*_write(directory, updates, force), *agent_files().next_of_plugin]


def _write(top: Path, updates: Updates, force: bool) -> list[str]:
    """Write files below a directory, and return what a person is told of each."""
    require_inside(top, updates)  # before anything is read
    report: list[str] = []
    changed: dict[str, str] = {}
    for path, (update, ours) in updates.items():
        before = _read(top, path)
        try:
            replaced, kept = update(before, True), update(before, False)
        except (ValueError, RecursionError):
            report += [f"Add to {path}, which cannot be extended by a program:", *ours.splitlines()]
            continue
        after = replaced if force else kept
        if after != before:
            changed[path] = after
            report.append(f"Wrote {path}")
        elif replaced == before:
            report.append(f"{path} is up to date")
        else:
            report.append(f"{path} was changed and is kept; --force replaces our part of it")
    write_ci_files(top, changed, force=True)
    return report


def _read(top: Path, path: str) -> str:
    """The text of a file; empty if there is none."""
    try:
        if not (top / path).exists():
            return ""
        if not (top / path).is_file():
            raise InputError(f"cannot read {path}: it is no file")
        return (top / path).read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(f"cannot read {path}: {why}") from None


def _whole(ours: str, before: str, force: bool) -> str:
    """A text that is ours, unless a person changed it."""
    return ours if force or not before else before


def _with_block(ours: str, before: str, force: bool) -> str:
    """A text with our block: replaced, or added at its end."""
    line_end = "\r\n" if "\r\n" in before else "\n"
    ours = ours.replace("\n", line_end)
    if found := _BLOCK.search(before):
        return before[: found.start()] + ours + before[found.end() :] if force else before
    if "<!-- diffcourt -->" in before:
        raise ValueError
    gap = line_end * (1 if before.endswith("\n") else 2) if before else ""
    return before + gap + ours


def _extend(host: Host, before: str, force: bool) -> str:
    """Settings with our server among those of others."""
    have = _parse(host.config, before)
    wanted = _merge(have, host.adds, force)
    if wanted == have:
        return before
    if host.config.endswith(".toml"):  # put around it, since no writer keeps comments
        keys, table = _toml_parts(host)
        parts = keys * (keys.split()[0] not in have), before.strip(), table
        after = "\n\n".join(filter(None, parts))
    else:
        indent = re.search(r"\n([ \t]+)", before)
        step = indent[1] if indent else "  "
        after = json.dumps(wanted, indent=step, ensure_ascii=False, allow_nan=False) + "\n"
    if _parse(host.config, after.encode().decode()) != wanted:  # half a pair has no bytes
        raise ValueError
    return after


def _parse(name: str, text: str) -> Settings:
    if name.endswith(".toml"):
        return tomllib.loads(text)
    return convert(json.loads(text or "{}", object_pairs_hook=unique_keys), Settings)


def _merge(have: Settings, adds: Settings, force: bool) -> Settings:
    merged = dict(have)
    for key, value in adds.items():
        if key not in have or (force and key == NAME):
            merged[key] = value
        elif key != NAME and isinstance(value, dict):
            merged[key] = _merge(convert(have[key], Settings), value, force)
    return merged


def _toml_parts(host: Host) -> tuple[str, str]:
    """Our keys, which come before a file's first table, and our table."""
    (*keys, (section, servers)) = host.adds.items()
    head, table = (
        "\n".join(f"{key} = {json.dumps(value, separators=(', ', ' = '))}" for key, value in part)
        for part in (keys, servers[NAME].items())
    )
    return head, f"[{section}.{NAME}]\n{table}\n"
