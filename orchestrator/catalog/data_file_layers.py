"""Layers of data files: the shipped ones, and a repository's own ``.diffcourt/`` on top."""

import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, reduce
from pathlib import Path, PurePosixPath
from typing import TypeVar

from msgspec import Struct

from diffchecks import DATA
from orchestrator.catalog.yaml_parsing import YamlNode, merge_nodes
from orchestrator.catalog.yaml_validation import convert_node, parse_yaml, read_yaml
from orchestrator.data_directories import (
    DATA_DIRECTORIES,
    MEMORY,
    MEMORY_FILES,
    STATE_DIRECTORY,
    data_root,
)
from orchestrator.errors import ConfigError

T = TypeVar("T", bound=Struct)


class Layer(Struct, frozen=True):
    """One layer of files.

    Attributes:
        label: the prefix of a file's name in messages; empty for the shipped layer.
        files: name relative to the layer (``agents/security.md``, forward slashes) → content.
        locations: name → the file on disk, of files that can be read there.
    """

    label: str
    files: Mapping[str, bytes]
    locations: Mapping[str, str] = {}

    def display_path(self, path: str) -> str:
        """A file's name for messages."""
        return f"{self.label}/{path}" if self.label else path


class File(Struct, frozen=True):
    """One file of a layer.

    Attributes:
        path: its name in the layer.
        display_path: its name in messages.
        location: where it lies, in a layer whose files may be read there.
    """

    path: str
    display_path: str
    data: bytes
    location: str | None = None

    @property
    def stem(self) -> str:
        """The file's name without directory and suffix."""
        return PurePosixPath(self.path).stem

    @property
    def directory(self) -> str:
        """The name of the directory that holds the file."""
        return PurePosixPath(self.path).parent.name


@cache
def read_shipped_layer() -> Layer:
    """The layer that comes with the packages: agents, skills, rubrics, config; read once.

    The data of checks is named as in an overlay, ``config/rules/security.yaml``.
    """
    root = os.fspath(data_root())
    shipped = [(top, os.path.join(root, top)) for top in DATA_DIRECTORIES]
    # pathlib takes ten times as long, at every start.
    locations = {
        f"{top}{path[len(start) :]}".replace(os.sep, "/"): path
        for top, start in (*shipped, ("config", os.fspath(DATA)))
        for directory, _, names in os.walk(start)
        for path in (os.path.join(directory, name) for name in names)
        if path.endswith((".md", ".yaml"))
    }
    files = {name: Path(path).read_bytes() for name, path in sorted(locations.items())}
    return Layer("", files, locations)


def make_overlay(label: str, files: Mapping[str, bytes]) -> Layer:
    """A repository's own layer.

    It is policy and can widen what an agent may do, so its bytes must come from the base commit,
    never from the change under review or from the working tree.
    """
    return Layer(label, dict(files))


def find_files(layers: Sequence[Layer], pattern: str) -> dict[str, File]:
    """The files that match a pattern, by name in sorted order.

    A later layer's file replaces that of an earlier layer.

    Args:
        pattern: such as ``agents/*.md``; ``*`` matches within one directory.
    """
    files = {
        path: File(path, layer.display_path(path), data, layer.locations.get(path))
        for layer in layers
        for path, data in layer.files.items()
        if _matches(path, pattern)
    }
    return dict(sorted(files.items()))


def find_versions(layers: Sequence[Layer], path: str) -> list[File]:
    """One file in every layer that has it, lowest layer first."""
    return [
        File(path, layer.display_path(path), layer.files[path])
        for layer in layers
        if path in layer.files
    ]


def locate_text(layers: Sequence[Layer], pattern: str, text: str) -> tuple[str, int]:
    """The first line that contains a text: the file's name for messages, and the 1-based line.

    For an error in what several files say together. The topmost layer is searched first.
    """
    for layer in reversed(layers):
        for path, data in sorted(layer.files.items()):
            if _matches(path, pattern):
                for number, line in enumerate(data.splitlines(), 1):
                    if text.encode() in line:
                        return layer.display_path(path), number
    return pattern, 0


def find_unused_files(layers: Sequence[Layer]) -> Iterator[ConfigError]:
    """An error for each file of an overlay that nothing reads, such as one with a misspelled name.

    Files beside the data directories (a README, ``.gitignore``) and the state directory may stay.
    """
    config = {path for path in layers[0].files if path.startswith("config/")} if layers else set()
    directories = {PurePosixPath(path).parent.as_posix() for path in config} - {"config"}
    for layer in layers[1:]:
        for path in sorted(layer.files):
            allowed = _allowed_instead(path, layer, config, directories)
            if allowed:
                yield ConfigError(
                    f"nothing reads this file; allowed: {allowed}", layer.display_path(path)
                )


def _allowed_instead(path: str, layer: Layer, config: set[str], directories: set[str]) -> str:
    """The names that are allowed in place of this file, empty when the file is read."""
    name = PurePosixPath(path)
    top = name.parts[0]
    if len(name.parts) == 1 or top == STATE_DIRECTORY:
        return ""
    if top == MEMORY:
        return "" if path in MEMORY_FILES else ", ".join(MEMORY_FILES)
    if top == "skills_catalog":
        # A skill's directory may hold more than its SKILL.md, as the format's specification says.
        has_skill = len(name.parts) > 2 and f"{top}/{name.parts[1]}/SKILL.md" in layer.files
        return "" if has_skill else f"{top}/NAME/SKILL.md"
    if top in {"agents", "rubrics"}:
        pattern = "agents/*.md" if top == "agents" else "rubrics/*.yaml"
        return "" if _matches(path, pattern) else pattern.replace("*", "NAME")
    if top != "config":
        return ", ".join(f"{directory}/" for directory in DATA_DIRECTORIES)
    in_directory = name.parent.as_posix() in directories and name.suffix == ".yaml"
    if path in config or in_directory:
        return ""
    files = sorted(item for item in config if item.count("/") == 1)
    return ", ".join([*files, *(f"{directory}/NAME.yaml" for directory in sorted(directories))])


def _matches(path: str, pattern: str) -> bool:
    return path.count("/") == pattern.count("/") and fnmatchcase(path, pattern)


def read_merged(layers: Sequence[Layer], path: str, model: type[T]) -> T:
    """Read one YAML file of all layers, merged, into a struct.

    Raises:
        ConfigError: the first error, with the file of the layer that has it; or no layer has the
            file.
    """
    errors: list[ConfigError] = []
    merged = check_merged(layers, path, model, errors)
    if merged is None:
        raise errors[0]
    return merged[1]


def read_directory(layers: Sequence[Layer], directory: str, model: type[T]) -> list[T]:
    """Read all YAML files directly in a directory, in the order of their names.

    A later layer adds a file, or replaces that of an earlier layer.
    """
    files = find_files(layers, f"{directory}/*.yaml").values()
    return [read_yaml(model, file.data, file.display_path) for file in files]


def check_merged(
    layers: Sequence[Layer], path: str, model: type[T], errors: list[ConfigError]
) -> tuple[YamlNode, T] | None:
    """One YAML file of all layers, merged: tree and struct; None, and ``errors`` filled, else."""
    node = _merge_files(layers, path, errors)
    value = convert_node(model, node, errors) if node else None
    return (node, value) if node and value else None


def _merge_files(layers: Sequence[Layer], path: str, errors: list[ConfigError]) -> YamlNode | None:
    """The trees of one YAML file of all layers, merged; None when one cannot be parsed."""
    files = find_versions(layers, path)
    if not files:
        errors.append(ConfigError("is missing from every layer", path))
        return None
    try:
        nodes = [parse_yaml(file.data, file.display_path) for file in files]
    except ConfigError as error:
        errors.append(error)
        return None
    return reduce(merge_nodes, nodes)
