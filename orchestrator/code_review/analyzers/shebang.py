"""Scripts without a suffix: the directories they are kept in, and their ``#!`` line."""

from __future__ import annotations

from pathlib import PurePosixPath

_PROGRAM_DIRECTORIES = frozenset(
    ["bin", "sbin", "libexec", "script", "scripts", "tool", "tools", "hack"]
)
_HOOK_DIRECTORIES = frozenset(["ci", ".ci", "hooks", ".githooks", ".husky"])
_SCRIPT_DIRECTORIES = _PROGRAM_DIRECTORIES | _HOOK_DIRECTORIES


def may_be_script(path: str) -> bool:
    """Whether a file without a suffix is in a directory of scripts; ``interpreter`` decides."""
    pure = PurePosixPath(path)
    hidden = pure.name.startswith(".")
    return not pure.suffix and not hidden and not _SCRIPT_DIRECTORIES.isdisjoint(pure.parts[:-1])


def interpreter(data: bytes) -> str | None:
    """The name of the program in a script's ``#!`` line, None where there is no such line."""
    first = data.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0]
    if not first.startswith(b"#!"):
        return None
    words = first[2:].decode(errors="replace").split()
    names = [PurePosixPath(word).name for word in words]
    if names and names[0] == "env":
        names = [name for name in names[1:] if name[:1] != "-" and "=" not in name]
    if names and names[0] == "busybox":
        names = names[1:]
    return names[0] if names else ""
