"""Text guards: each detects one kind of problem in a text (``engine.text_guards``)."""

from pathlib import Path
from typing import Any

import yaml


def read_data(name: str) -> Any:
    """A YAML file of this directory."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(Path(__file__).with_name(name).read_bytes(), loader)  # noqa: S506 - safe
