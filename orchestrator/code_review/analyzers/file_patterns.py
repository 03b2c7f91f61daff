"""Names of the files that analyzers read, as patterns of the last part of a path."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

ANY = ("*",)
PYTHON = ("*.py", "*.pyi")
PYTHON_MODULES = ("*.py",)
PARSED_DATA = (*PYTHON, "*.json", "*.jsonc", "*.yaml", "*.yml", "*.toml")
MANIFESTS = (
    "*requirements*.txt",
    "*requirements*.in",
    "pyproject.toml",
    "package.json",
    "Cargo.toml",
    "go.mod",
)
SCRIPTS = ("*.js", "*.jsx", "*.mjs", "*.cjs", "*.ts", "*.mts", "*.cts", "*.tsx")
COMPONENTS = ("*.vue", "*.svelte", "*.astro")
PATTERN_LANGUAGES = (*SCRIPTS, *COMPONENTS, "*.go", "*.java", "*.rb", "*.rake", "*.erb")
REFERENCING_FILES = ("*.py", "*.pyi", "*.pyx", "*.pxd", "*.md", "*.rst")
CHANGELOG_FILES = ("*.py", "CHANGELOG*", "CHANGES*", "HISTORY*", "NEWS*")
TESTABLE_CODE = (
    *PYTHON_MODULES,
    *SCRIPTS,
    *("*.go", "*.java", "*.kt", "*.scala", "*.rb", "*.php", "*.cs", "*.swift", "*.rs"),
    *("*.c", "*.cc", "*.cpp", "*.h", "*.hpp"),
)
SOURCE_CODE = tuple(dict.fromkeys((*PYTHON, *PATTERN_LANGUAGES, *TESTABLE_CODE)))
MARKDOWN = ("*.md", "*.markdown")


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether the last part of a path matches one of the patterns."""
    name = path.rsplit("/", 1)[-1]
    return any(fnmatchcase(name, pattern) for pattern in patterns)
