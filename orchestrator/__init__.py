"""Diffcourt: review a change with a lead, parallel specialists and a judge; decide in plain code.

``from orchestrator import ...`` gives the public API: nothing but these names is promised. Central
ones have examples in their docstrings. ``__init__.pyi`` lists them; each is imported when it is
first used. ``docs/architecture.md`` has the layers.
"""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # Nothing is imported before it is asked for: the command's start-up counts.
    import re  # noqa: PLC0415 - as above
    from importlib import import_module  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    listed = Path(__file__).with_suffix(".pyi").read_text("utf-8")
    homes = {what: at for at, what in re.findall(r"^from (\S+) import (\w+)", listed, re.MULTILINE)}
    if name == "__all__":
        return ["__version__", *homes]
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(homes[name]), name)
