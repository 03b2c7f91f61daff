"""Wiring: the one place that chooses providers and stores. Each function blocks until it is done.

Nothing is imported before it is called: a screen that only needs the plain data of ``app.types``
does not pay for the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.app.estimate import estimated
    from orchestrator.app.listing import catalog, newest, rules, runs, show
    from orchestrator.app.pool import workers
    from orchestrator.app.service import resume, review

__all__ = [
    "catalog",
    "estimated",
    "newest",
    "resume",
    "review",
    "rules",
    "runs",
    "show",
    "workers",
]

_HOME = {
    "catalog": "orchestrator.app.listing",
    "estimated": "orchestrator.app.estimate",
    "newest": "orchestrator.app.listing",
    "resume": "orchestrator.app.service",
    "review": "orchestrator.app.service",
    "rules": "orchestrator.app.listing",
    "runs": "orchestrator.app.listing",
    "show": "orchestrator.app.listing",
    "workers": "orchestrator.app.pool",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
