"""All checks, and what they need: imported once by the process that forks the workers.

It waits until the review gets to its checks, so what only some files need is here as well, and what
is made at first use is made here: the patterns of secrets, and the library models that are shipped.
"""

import ast_grep_py
import markdown_it

from orchestrator.checks import (
    conflict_markers,
    dependencies,
    enclosing_scopes,
    invisible_characters,
    parse_errors,
    redacted_quotes,
    removed_protections,
    taint,
)
from orchestrator.checks.api import api_breakage
from orchestrator.checks.check_io import Source
from orchestrator.checks.doc_quality import changelog, docstrings, markdown_links, stale_references
from orchestrator.checks.imports import import_graph, layering
from orchestrator.checks.python import complexity, duplicated_blocks
from orchestrator.checks.secrets import secret_scan
from orchestrator.checks.taint.library_models import load
from orchestrator.checks.test_quality import weakened_tests
from orchestrator.resources import data_root

__all__ = [
    "api_breakage",
    "ast_grep_py",
    "changelog",
    "complexity",
    "conflict_markers",
    "dependencies",
    "docstrings",
    "duplicated_blocks",
    "enclosing_scopes",
    "import_graph",
    "invisible_characters",
    "layering",
    "markdown_it",
    "markdown_links",
    "parse_errors",
    "redacted_quotes",
    "removed_protections",
    "secret_scan",
    "stale_references",
    "taint",
    "weakened_tests",
]

list(secret_scan.find_secrets(Source("a.txt", b"")))
load(sorted(map(str, (data_root() / "config/taint").glob("*.yaml"))))
