"""Diffcourt: review a change with a lead, parallel specialists and a judge; decide in plain code.

``from orchestrator import ...`` gives the public API: nothing but these names is promised. Central
ones have examples in their docstrings. ``__init__.pyi`` lists them; each is imported when it is
first used. ``docs/architecture.md`` has the layers.
"""

__version__ = "0.1.0"


# Nothing is imported before it is asked for: the command's start-up counts.
def _modules() -> dict[str, str]:
    """Public name → the module that has it."""
    import re  # noqa: PLC0415 - as above
    from pathlib import Path  # noqa: PLC0415

    listed = Path(__file__).with_suffix(".pyi").read_text("utf-8")
    return {name: at for at, name in re.findall(r"^from (\S+) import (\w+)", listed, re.MULTILINE)}


def __getattr__(name: str) -> object:
    from importlib import import_module  # noqa: PLC0415

    modules = _modules()
    if name == "__all__":
        return ["__version__", *modules]
    if name not in modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(modules[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_modules()})
