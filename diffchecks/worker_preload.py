"""Checks that most reviews need, imported once by the process that forks the workers.

This happens while the review prepares its checks. Checks that few changes need, such as those of
infrastructure and dependencies, are imported by the first worker that runs them.
"""

from diffchecks import (  # noqa: F401 - imported for the workers
    DATA,
    active_content,
    conflict_markers,
    enclosing_scopes,
    executed_files,
    invisible_characters,
    redacted_text,
    regular_expressions,
    removed_controls,
    syntax_and_duplicates,
    taint,
)
from diffchecks.active_content import load_settings
from diffchecks.check_io import Source
from diffchecks.data_files import read_rows, read_yaml, vocabulary
from diffchecks.doc_quality import changelog, docstrings, stale_references  # noqa: F401
from diffchecks.imports import import_graph_changes  # noqa: F401
from diffchecks.path_kinds import path_kinds
from diffchecks.python import complexity, route_guards  # noqa: F401
from diffchecks.removed_controls.unsafe_replacements import load_replacements
from diffchecks.secrets.contexts import context
from diffchecks.secrets.secret_scan import find_secrets
from diffchecks.taint.entry_points import make_hints
from diffchecks.taint.library_models import load
from diffchecks.test_quality import weakened_tests  # noqa: F401

list(find_secrets(Source("a.txt", b"")))  # compiles its patterns
make_hints(load(sorted(map(str, (DATA / "taint").glob("*.yaml")))))
load_settings()
load_replacements()
path_kinds("a.txt")  # reads the names
for section in ("any_case", "exact"):
    for kind in read_yaml("vocabulary.yaml")[section]:
        vocabulary(kind)
for name, _ in read_rows("secrets/contexts.txt"):
    context(name)
