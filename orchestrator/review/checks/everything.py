"""All checks, and with them what they need: imported once by the process that forks the workers."""

from orchestrator.review.checks import (
    api_breakage,
    changelog,
    complexity,
    conflict,
    dependencies,
    docstrings,
    duplicated_blocks,
    import_graph,
    invisible,
    layering,
    links,
    parsing,
    secrets,
    stale_references,
    taint,
    tests_touched,
)

__all__ = [
    "api_breakage",
    "changelog",
    "complexity",
    "conflict",
    "dependencies",
    "docstrings",
    "duplicated_blocks",
    "import_graph",
    "invisible",
    "layering",
    "links",
    "parsing",
    "secrets",
    "stale_references",
    "taint",
    "tests_touched",
]
