"""One data file of all layers: maps merged key by key, or whole files that replace others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct

from orchestrator.catalog.data_sources import Source, latest, versions
from orchestrator.catalog.yaml_tree import Node, merge
from orchestrator.catalog.yaml_validation import check, read, tree
from orchestrator.errors import ConfigError

T = TypeVar("T", bound=Struct)


def merged(sources: Sequence[Source], path: str, model: type[T]) -> T:
    """One YAML file of all layers merged, as a model.

    Raises:
        ConfigError: the first fault, in the layer where it stands; or no layer has the file.
    """
    faults: list[ConfigError] = []
    found = layered(sources, path, model, faults)
    if found is None:
        raise faults[0]
    return found[1]


def read_all(sources: Sequence[Source], folder: str, model: type[T]) -> list[T]:
    """All YAML files directly in a folder, in the order of their names.

    A later layer adds a file, or replaces the earlier one of the same name.

    Args:
        sources: lowest layer first.
        folder: such as ``config/rules``.
        model: what each file holds.

    Raises:
        ConfigError: the first fault.
    """
    files = latest(sources, f"{folder}/*.yaml").values()
    return [read(model, file.data, file.shown) for file in files]


def layered(
    sources: Sequence[Source], path: str, model: type[T], faults: list[ConfigError]
) -> tuple[Node, T] | None:
    """One YAML file of all layers merged, with its places; None when it has a fault.

    Args:
        faults: every fault is added here.
    """
    node = _tree(sources, path, faults)
    found = check(model, node, faults) if node else None
    return (node, found) if node and found else None


def _tree(sources: Sequence[Source], path: str, faults: list[ConfigError]) -> Node | None:
    files = versions(sources, path)
    if not files:
        faults.append(ConfigError("is missing from every layer", path))
        return None
    try:
        layers = [tree(file.data, file.shown) for file in files]
    except ConfigError as fault:
        faults.append(fault)
        return None
    node = layers[0]
    for layer in layers[1:]:
        node = merge(node, layer)
    return node
