"""What the tracer knows of libraries: data files, of all layers, put where it reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from orchestrator.catalog.source import Source, latest
from orchestrator.engine.canonical import digest
from orchestrator.errors import ConfigError

PATTERN = "config/taint/*.yaml"


def write(sources: Sequence[Source], folder: Path) -> list[str]:
    """Write the files of all layers into a folder of ours; returns their paths.

    A layer's file is added, or replaces the lower one of its name.

    Raises:
        ConfigError: a fault in a repository's own file.
    """
    check(sources)
    folder.mkdir()
    paths = []
    for file in latest(sources, PATTERN).values():
        place = folder / f"{file.stem}.yaml"
        place.write_bytes(file.data)
        paths.append(str(place))
    return paths


def check(sources: Sequence[Source]) -> None:
    """Hold a repository's own files against what the tracer can read.

    Raises:
        ConfigError: the first fault.
    """
    own = list(latest(sources[1:], PATTERN).values())
    if not own:
        return
    from orchestrator.review.checks.taint.knowledge import build  # noqa: PLC0415 - as few have own

    for file in own:
        try:
            content = yaml.safe_load(file.data)
        except yaml.YAMLError as fault:
            why = " ".join(str(fault).split())
            raise ConfigError(f"not valid YAML: {why}", file.shown) from None
        if not isinstance(content, dict):
            raise ConfigError("a knowledge file must be a mapping of sections", file.shown)
        build([(file.shown, content)])


def knowledge_digest(sources: Sequence[Source]) -> str:
    """SHA-256 over all files."""
    files = latest(sources, PATTERN)
    return digest({path: file.data.decode("utf-8", "replace") for path, file in files.items()})
