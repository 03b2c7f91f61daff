"""Diffcourt: review a change with a lead, parallel specialists and a judge; decide in plain code.

The package is layered; imports point down only (``import-linter`` holds it)::

    cli - adapters - report - app      screens, other frameworks, wiring
      review, tuning                   the application
        catalog, guards, mcp, providers, stores, sandbox, testing    behind the engine's ports
          engine                       the harness
            errors, resources

As a library: ``from orchestrator import Harness`` and what it raises.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # importing typing alone would double the start-up time
if TYPE_CHECKING:
    from typing import Any

    from orchestrator.app.harness import Harness
    from orchestrator.engine.types import Bounds, Level
    from orchestrator.errors import (
        ActionFailed,
        ApprovalPending,
        BudgetExhausted,
        Denied,
        GuardRefused,
        InvalidArguments,
        NotPermitted,
        NotRegistered,
        Refused,
    )

_HOME = {
    "Harness": "orchestrator.app.harness",
    "Bounds": "orchestrator.engine.types",
    "Level": "orchestrator.engine.types",
    "ActionFailed": "orchestrator.errors",
    "ApprovalPending": "orchestrator.errors",
    "BudgetExhausted": "orchestrator.errors",
    "Denied": "orchestrator.errors",
    "GuardRefused": "orchestrator.errors",
    "InvalidArguments": "orchestrator.errors",
    "NotPermitted": "orchestrator.errors",
    "NotRegistered": "orchestrator.errors",
    "Refused": "orchestrator.errors",
}

__all__ = [
    "ActionFailed",
    "ApprovalPending",
    "Bounds",
    "BudgetExhausted",
    "Denied",
    "GuardRefused",
    "Harness",
    "InvalidArguments",
    "Level",
    "NotPermitted",
    "NotRegistered",
    "Refused",
    "__version__",
]


def __getattr__(name: str) -> "Any":
    # Nothing is imported before it is asked for: the command's start-up counts.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - it would slow `--version` down

    return getattr(import_module(_HOME[name]), name)
