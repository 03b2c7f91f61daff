"""All checks, and what they need: imported once by the process that forks the workers.

It waits until the review gets to its checks, so what only some files need is here as well, and what
is made at first use is made here: the patterns of secrets, the dialects of
templates, and the library models that are shipped.
"""

import importlib
import pkgutil

import ast_grep_py  # noqa: F401 - with the next one, what a check imports at first use
import markdown_it  # noqa: F401

from orchestrator import checks
from orchestrator.checks.check_io import Source
from orchestrator.checks.secrets.secret_scan import find_secrets
from orchestrator.checks.taint.library_models import load
from orchestrator.checks.templates.dialects import load_dialects
from orchestrator.data_directories import data_root

for module in pkgutil.walk_packages(checks.__path__, f"{checks.__name__}."):
    importlib.import_module(module.name)
list(find_secrets(Source("a.txt", b"")))
load(sorted(map(str, (data_root() / "config/taint").glob("*.yaml"))))
load_dialects()
