"""Diffcourt: review a change with a lead, parallel specialists and a judge; decide in plain code.

The package is layered; imports point down only (``import-linter`` holds it)::

    cli - adapters                     commands, other frameworks
      library - report                 the public API, output for people
        app                            wiring
          review, tuning               the application
            checks                     analyzers of our own, confined in worker processes
              catalog, guards, mcp, providers, stores, sandbox, testing    behind the engine's ports
                engine                 the harness
                  errors, resources

``from orchestrator import ...`` gives the public API; each name is imported when it is first used.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # importing typing alone would double the start-up time
if TYPE_CHECKING:
    from typing import Any

    from orchestrator.engine.types import Bounds as Bounds
    from orchestrator.engine.types import Level as Level
    from orchestrator.errors import ActionFailed as ActionFailed
    from orchestrator.errors import ApprovalPending as ApprovalPending
    from orchestrator.errors import BudgetExhausted as BudgetExhausted
    from orchestrator.errors import Denied as Denied
    from orchestrator.errors import GuardRefused as GuardRefused
    from orchestrator.errors import InvalidArguments as InvalidArguments
    from orchestrator.errors import NotPermitted as NotPermitted
    from orchestrator.errors import NotRegistered as NotRegistered
    from orchestrator.errors import Refused as Refused
    from orchestrator.library.harness import Harness as Harness
    from orchestrator.library.tools import Tool as Tool
    from orchestrator.library.tools import tool as tool
    from orchestrator.library.verdict import Verdict as Verdict

_PUBLIC = {
    "engine.types": ("Bounds", "Level"),
    "errors": (
        "ActionFailed",
        "ApprovalPending",
        "BudgetExhausted",
        "Denied",
        "GuardRefused",
        "InvalidArguments",
        "NotPermitted",
        "NotRegistered",
        "Refused",
    ),
    "library.harness": ("Harness",),
    "library.tools": ("Tool", "tool"),
    "library.verdict": ("Verdict",),
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = ["__version__", *_HOME]  # noqa: PLE0604 - the names are those of the table


def __getattr__(name: str) -> "Any":
    # Nothing is imported before it is asked for: the command's start-up counts.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - it would slow `--version` down

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
