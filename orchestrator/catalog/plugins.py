"""Tools and guards of other installed packages, found by entry points and switched on by name."""

from collections.abc import Collection, Iterator
from types import FunctionType
from typing import Any, Literal

from orchestrator.catalog.yaml_parsing import YamlNode
from orchestrator.errors import ConfigError

Group = Literal["diffcourt.tools", "diffcourt.guards"]
TOOL_PLUGINS: Group = "diffcourt.tools"
GUARD_PLUGINS: Group = "diffcourt.guards"


def find_problems(
    node: YamlNode, group: Group, names: Collection[str], ours: Collection[str]
) -> Iterator[ConfigError]:
    """Errors for plugins of the config that are not installed, or named like something of ours."""
    if not names:
        return
    installed = _installed(group)
    for at, name in enumerate(names):
        if name in ours:
            yield node.error(
                f"the plugin {name!r} has the name of a built-in tool or guard; rename it",
                "plugins",
                at,
            )
        elif name not in installed:
            there = ", ".join(sorted(installed)) or "none"
            yield node.error(
                f"the plugin {name!r} is not installed; install the package that has it as an "
                f"entry point of {group}, or remove it here; installed: {there}",
                "plugins",
                at,
            )


def load_plugin(group: Group, name: str) -> Any:
    """What an installed plugin is: an object, or what its class or function makes."""
    file = f"config/{group.removeprefix('diffcourt.')}.yaml"
    try:
        made = _installed(group)[name].load()
        found = made() if isinstance(made, type | FunctionType) else made
        own = found.spec.name if group == TOOL_PLUGINS else found.name
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise ConfigError(f"the plugin {name!r} cannot be loaded ({what})", file) from None
    if own != name:
        raise ConfigError(f"the plugin {name!r} calls itself {own!r}; make both names equal", file)
    return found


def _installed(group: Group) -> dict[str, Any]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - only plugins need it

    return {entry.name: entry for entry in entry_points(group=group)}
