"""All checks, and what they need: imported once by the process that forks the workers.

It waits until the review gets to its checks, so what only some files need is here as well, and what
is made at first use is made here: the patterns of secrets, and what the tracer is told as shipped.
"""

import ast_grep_py
import markdown_it

from orchestrator.resources import data_root
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
    protections,
    quotes,
    scopes,
    secrets,
    stale_references,
    taint,
    tests_touched,
)
from orchestrator.review.checks.taint.knowledge import load
from orchestrator.review.checks.text import Source

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
    "protections",
    "quotes",
    "scopes",
    "secrets",
    "stale_references",
    "taint",
    "tests_touched",
]

list(secrets.secrets(Source("a.txt", b"")))
load(sorted(map(str, (data_root() / "config/taint").glob("*.yaml"))))
