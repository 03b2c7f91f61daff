"""Checks written in Python: a separate library that runs in sandboxed worker processes.

A check reads files below a directory and returns its findings as JSON. It must not import reviews,
agents or the engine; an import contract enforces that.
"""

PREFIX = "orchestrator.checks."
"""The prefix of the dotted name of every function that a worker may call."""
