"""Text guards: each detects one kind of problem in a text (``engine.text_guards``)."""

from pathlib import Path
from typing import Any

from diffchecks.data_files import parse_yaml


def read_data(name: str) -> Any:
    """A YAML file of this directory."""
    return parse_yaml(Path(__file__).with_name(name).read_bytes())
