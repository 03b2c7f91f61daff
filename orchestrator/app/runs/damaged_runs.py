"""Runs whose rows cannot be read: a file was damaged, or another version wrote them."""

from orchestrator.errors import DiffcourtError

DAMAGE = (ValueError, KeyError, TypeError, AttributeError)
"""What interpreting an altered row can raise."""


def describe_damage(run_id: str, error: Exception) -> str:
    """Why a run cannot be read, with the command that says more."""
    if isinstance(error, DiffcourtError):
        return str(error)
    return f"its journal cannot be read ({error}); see: diffcourt audit verify {run_id}"
