"""What a model is told of our tools, from ``tools.yaml``."""

import json
from collections.abc import Mapping
from typing import Any

from orchestrator.data_directories import read_table
from orchestrator.engine.types import ToolSpec

NO_FIGURES: Mapping[str, object] = {}
_TOOLS = read_table(__file__, "tools.yaml")["tools"]


def make_spec(name: str, figures: Mapping[str, object] = NO_FIGURES, **more: Any) -> ToolSpec:
    """The declaration of a tool.

    Args:
        figures: what stands for names in braces in its text.
        more: further fields of the declaration, such as its tags.
    """
    text = json.dumps(_TOOLS[name])
    for figure, value in figures.items():
        text = text.replace(f"{{{figure}}}", f"{value}")
    tool = json.loads(text)
    about = tool.pop("about")
    schema = {"type": "object", "properties": {}, "additionalProperties": False, **tool}
    return ToolSpec(name, about, schema, **more)
