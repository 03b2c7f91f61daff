"""Layers of files: what is shipped, and a repository's own ``.diffcourt/`` on top of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from msgspec import Struct

from orchestrator.errors import ConfigError
from orchestrator.resources import FOLDERS, data_root

OVERLAY = ".diffcourt"
STATE_FOLDER = "state"


class Source(Struct, frozen=True):
    """One layer of files.

    Attributes:
        label: what stands before a file's name in messages; empty for the shipped layer.
        files: name relative to the layer (``agents/security.md``, forward slashes) → content.
    """

    label: str
    files: Mapping[str, bytes]

    def shown(self, path: str) -> str:
        """A file's name as a person would look for it."""
        return f"{self.label}/{path}" if self.label else path


class File(Struct, frozen=True):
    """One file of a layer: its name in the layer, its name in messages, and its content."""

    path: str
    shown: str
    data: bytes

    @property
    def stem(self) -> str:
        """The file's name without folder and suffix."""
        return PurePosixPath(self.path).stem

    @property
    def folder(self) -> str:
        """The name of the folder that holds the file."""
        return PurePosixPath(self.path).parent.name


def shipped() -> Source:
    """The layer that comes with the package: agents, skills, rubrics and config."""
    root = os.fspath(data_root())
    # pathlib takes ten times as long, at every start.
    names = (
        os.path.join(folder, name)
        for top in FOLDERS
        for folder, _, found in os.walk(os.path.join(root, top))
        for name in found
        if name.endswith((".md", ".yaml"))
    )
    return Source("", {_below(root, name): Path(name).read_bytes() for name in sorted(names)})


def _below(root: str, name: str) -> str:
    return name[len(root) + 1 :].replace(os.sep, "/")


def overlay(label: str, files: Mapping[str, bytes]) -> Source:
    """A repository's own layer.

    It is policy: it may widen what an agent may do. So its bytes must come from the base commit,
    never from the change under review or from the working tree.

    Args:
        label: the folder's name in messages, ``.diffcourt``.
        files: name relative to that folder → content.
    """
    return Source(label, dict(files))


def latest(sources: Sequence[Source], pattern: str) -> dict[str, File]:
    """Files that match, by name in sorted order; a later layer's file replaces an earlier one's.

    Args:
        sources: lowest layer first.
        pattern: such as ``agents/*.md``; ``*`` stays within one folder.
    """
    found = {
        path: File(path, source.shown(path), data)
        for source in sources
        for path, data in source.files.items()
        if _matches(path, pattern)
    }
    return dict(sorted(found.items()))


def versions(sources: Sequence[Source], path: str) -> list[File]:
    """One file in every layer that has it, lowest layer first."""
    return [
        File(path, source.shown(path), source.files[path])
        for source in sources
        if path in source.files
    ]


def place_of(sources: Sequence[Source], pattern: str, word: str) -> tuple[str, int]:
    """Where a word stands: a file's name in messages, and the 1-based line; 0 where in none.

    For a fault in what several files say together; the topmost layer is looked through first.

    Args:
        pattern: as of ``latest``.
    """
    for source in reversed(sources):
        for path, data in sorted(source.files.items()):
            if _matches(path, pattern):
                for number, line in enumerate(data.splitlines(), 1):
                    if word.encode() in line:
                        return source.shown(path), number
    return pattern, 0


def unread(sources: Sequence[Source]) -> Iterator[ConfigError]:
    """A fault for each file of an overlay that nothing would read: a misspelt name is not silence.

    Files beside the data folders (a README, ``.gitignore``) and the state folder are left alone.
    """
    config = {path for path in sources[0].files if path.startswith("config/")} if sources else set()
    folders = {PurePosixPath(path).parent.as_posix() for path in config} - {"config"}
    for source in sources[1:]:
        for path in sorted(source.files):
            allowed = _why_unread(path, source, config, folders)
            if allowed:
                yield ConfigError(
                    f"nothing reads this file; allowed: {allowed}", source.shown(path)
                )


def _why_unread(path: str, source: Source, config: set[str], folders: set[str]) -> str:
    """What would be allowed in place of this file, empty when the file is read."""
    name = PurePosixPath(path)
    top = name.parts[0]
    if len(name.parts) == 1 or top == STATE_FOLDER:
        return ""
    if top == "skills_catalog":
        # A skill's folder may hold more than its playbook, as the format's specification says.
        has_skill = len(name.parts) > 2 and f"{top}/{name.parts[1]}/SKILL.md" in source.files
        return "" if has_skill else f"{top}/NAME/SKILL.md"
    if top in {"agents", "rubrics"}:
        pattern = "agents/*.md" if top == "agents" else "rubrics/*.yaml"
        return "" if _matches(path, pattern) else pattern.replace("*", "NAME")
    if top != "config":
        return ", ".join(f"{folder}/" for folder in FOLDERS)
    in_folder = name.parent.as_posix() in folders and name.suffix == ".yaml"
    if path in config or in_folder:
        return ""
    files = sorted(item for item in config if item.count("/") == 1)
    return ", ".join([*files, *(f"{folder}/NAME.yaml" for folder in sorted(folders))])


def _matches(path: str, pattern: str) -> bool:
    return path.count("/") == pattern.count("/") and fnmatchcase(path, pattern)
