"""Checks written in Python: a library of its own, which runs confined in worker processes.

A check reads files below a directory and says what it found, as JSON. It knows nothing of reviews,
agents or the engine; an import contract keeps that.
"""

PREFIX = "orchestrator.checks."
"""What the dotted name of every function that a worker may call begins with."""
