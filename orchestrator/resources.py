"""Where the shipped data (agents, skills, rubrics, config) lies, and where a user's own does."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

DATA_DIRECTORIES = ("agents", "skills_catalog", "rubrics", "config")


def data_root() -> Path:
    """The folder that holds the data folders.

    In a wheel that is ``orchestrator/_data``; in a checkout it is the checkout itself.
    """
    here = Path(__file__).resolve().parent
    packed = here / "_data"
    return packed if packed.is_dir() else here.parent


def user_directory(environment: Mapping[str, str], variable: str, below: str) -> Path | None:
    """This program's folder in one of the XDG base directories; None where nobody knows a home.

    A container often runs as a user without an entry in the system's table and without ``HOME``.

    Args:
        variable: names the base directory where it is set to an absolute path.
        below: the base directory in the user's home, where it is not.
    """
    given = environment.get(variable, "")
    base = given if os.path.isabs(given) else os.path.join(os.path.expanduser("~"), below)
    return Path(base, "diffcourt") if os.path.isabs(base) else None
