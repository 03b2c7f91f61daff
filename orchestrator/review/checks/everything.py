"""All checks, and with them what they need: imported once by the process that forks the workers."""

from orchestrator.review.checks import (
    api_breakage,
    complexity,
    conflict,
    dependencies,
    docstrings,
    import_graph,
    invisible,
    links,
    parsing,
    secrets,
    taint,
    tests_touched,
)

__all__ = [
    "api_breakage",
    "complexity",
    "conflict",
    "dependencies",
    "docstrings",
    "import_graph",
    "invisible",
    "links",
    "parsing",
    "secrets",
    "taint",
    "tests_touched",
]
