"""Where the shipped data (agents, skills, rubrics, config) lies."""

from __future__ import annotations

from pathlib import Path

FOLDERS = ("agents", "skills_catalog", "rubrics", "config")


def data_root() -> Path:
    """The folder that holds the data folders.

    In a wheel that is ``orchestrator/_data``; in a checkout it is the checkout itself.
    """
    here = Path(__file__).resolve().parent
    packed = here / "_data"
    return packed if packed.is_dir() else here.parent
