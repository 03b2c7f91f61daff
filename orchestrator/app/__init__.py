"""Wiring: the one place that chooses providers and stores. Each function blocks until it is done.

Nothing is imported before it is called: a screen that only needs the plain data of ``app.types``
does not pay for the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.app.cost_estimate import estimated
    from orchestrator.app.review_service import resume, review
    from orchestrator.app.run_listing import catalog, newest, rules, runs, show
    from orchestrator.app.worker_pool import workers

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
    "catalog": "orchestrator.app.run_listing",
    "estimated": "orchestrator.app.cost_estimate",
    "newest": "orchestrator.app.run_listing",
    "resume": "orchestrator.app.review_service",
    "review": "orchestrator.app.review_service",
    "rules": "orchestrator.app.run_listing",
    "runs": "orchestrator.app.run_listing",
    "show": "orchestrator.app.run_listing",
    "workers": "orchestrator.app.worker_pool",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
