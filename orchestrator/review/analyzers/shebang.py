"""Programs without an ending: where they are kept, and what their first line asks for."""

from __future__ import annotations

from pathlib import PurePosixPath

_PROGRAMS = frozenset(["bin", "sbin", "libexec", "script", "scripts", "tool", "tools", "hack"])
_JOBS = frozenset(["ci", ".ci", "hooks", ".githooks", ".husky"])
_FOLDERS = _PROGRAMS | _JOBS


def may_be_script(path: str) -> bool:
    """Whether a file without an ending lies where scripts do; its first line tells."""
    pure = PurePosixPath(path)
    hidden = pure.name.startswith(".")
    return not pure.suffix and not hidden and not _FOLDERS.isdisjoint(pure.parts[:-1])


def interpreter(data: bytes) -> str | None:
    """The name of the program that a script's first line asks for, None if it asks for none."""
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
