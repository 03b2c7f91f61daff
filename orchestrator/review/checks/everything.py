"""All checks, and what they need: imported once by the process that forks the workers.

It waits until the review gets to its checks, so what only some files need is here as well.
"""

import ast_grep_py
import markdown_it

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
    "ast_grep_py",
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
    "markdown_it",
    "parsing",
    "secrets",
    "stale_references",
    "taint",
    "tests_touched",
]
