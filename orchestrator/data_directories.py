"""The directories of the shipped data (agents, skills, rubrics, config) and of a user's files."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diffchecks.data_files import parse_yaml

OVERLAY = ".diffcourt"
"""The directory of a repository that holds its policy and, in ``state``, its runs."""

STATE_DIRECTORY = "state"

WAIVERS = "waivers.yaml"
"""The file of accepted findings in a repository's directory."""

MEMORY = "memory"
"""The directory in a repository's directory that holds what people want remembered."""

DISMISSED = f"{MEMORY}/dismissed.yaml"
CONVENTIONS = f"{MEMORY}/conventions.md"
PREFERENCES = f"{MEMORY}/preferences.md"
FAILURES = f"{MEMORY}/failures.md"
MEMORY_FILES = (CONVENTIONS, PREFERENCES, FAILURES, DISMISSED)

DATA_DIRECTORIES = ("agents", "skills_catalog", "rubrics", "config")


def read_beside(module: str, name: str) -> str:
    """The text of a file of ours beside a module, which gives its ``__file__``."""
    return Path(module).with_name(name).read_text("utf-8")


def read_table(module: str, name: str) -> Any:
    """A YAML file of ours beside a module, which gives its ``__file__``."""
    return parse_yaml(read_beside(module, name))


def read_queries(module: str, name: str) -> dict[str, str]:
    """The queries of an SQL file of ours, by the names in the lines ``-- name: NAME`` before."""
    _, *parts = re.split(r"^-- name: (\w+)\n", read_beside(module, name), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def data_root() -> Path:
    """The directory that holds the data directories.

    In a wheel this is ``orchestrator/_data``; in a checkout, the checkout itself.
    """
    here = Path(__file__).resolve().parent
    packed = here / "_data"
    return packed if packed.is_dir() else here.parent


def user_directory(environment: Mapping[str, str], variable: str, below: str) -> Path | None:
    """This program's directory in one of the XDG base directories; None when there is no home.

    A container often runs as a user without a passwd entry and without ``HOME``.

    Args:
        variable: the environment variable of the base directory, used when it is an absolute path.
        below: the default base directory, relative to the user's home.
    """
    given = environment.get(variable, "")
    base = given if os.path.isabs(given) else os.path.join(os.path.expanduser("~"), below)
    return Path(base, "diffcourt") if os.path.isabs(base) else None
