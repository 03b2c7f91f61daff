"""The names of OpenTelemetry's GenAI semantic conventions that a trace of a run uses.

The conventions are in development: names change between releases. All names that we write are in
``conventions.yaml``, as of one release, and in the table of ``docs/traces.md``.

Source: https://github.com/open-telemetry/semantic-conventions-genai
"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Final

from orchestrator.data_directories import read_table

CONVENTIONS: Final = "semantic-conventions-genai 0.1.0"
SCHEMA: Final = "https://opentelemetry.io/schemas/gen-ai/0.1.0"

_TABLES = read_table(__file__, "conventions.yaml")
NAMES: Final = SimpleNamespace(**_TABLES["names"])
PROVIDERS: Final[Mapping[str, str]] = _TABLES["providers"]
FINISHES: Final[Mapping[str, str]] = _TABLES["finishes"]
NOTES: Final[Mapping[str, str]] = _TABLES["notes"]
SHOWN, TOLD = frozenset(_TABLES["shown"]), frozenset(_TABLES["told"])
BODIES: Final[Mapping[str, str]] = _TABLES["bodies"]
