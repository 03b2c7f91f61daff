"""How numbers, times and names are written in the pages of runs."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from msgspec.structs import asdict

from orchestrator.catalog.shared_literals import SEVERITIES
from orchestrator.report.text_layout import format_duration
from orchestrator.web.runs.run_list import Filter
from orchestrator.web.runs.run_pages import Meter, live_meters

_VERDICTS = {"merge": "Merge", "needs_changes": "Needs changes", "block": "Block"}
_CONSEQUENCES = {
    "READ": "it changes nothing",
    "WRITE": "it changes files, which are restored where it fails",
    "ADMIN": "it changes what others rely on, and may not be undone",
    "IRREVERSIBLE": "what it does cannot be undone",
}


def write_when(seconds: float) -> str:
    """A time of day here, with its date."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")


def _severities(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return [(name, counts[name]) for name in SEVERITIES if counts.get(name)]


def _write_used(one: Meter) -> str:
    return f"${one.used:.4f}" if one.money else _write_number(one.used)


def _write_limit(one: Meter) -> str:
    return f"${one.limit:,.2f}" if one.money else _write_number(one.limit or 0)


def _write_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"


def _write_clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%H:%M:%S")


def _write_query(values: Mapping[str, Any]) -> str:
    return urlencode({name: value for name, value in values.items() if value not in {"", None}})


def _fields(chosen: Filter) -> dict[str, str]:
    return {name: value for name, value in asdict(chosen).items() if value}


FILTERS: Mapping[str, Callable[..., Any]] = {
    "clock": _write_clock,
    "consequence": lambda level: _CONSEQUENCES.get(level, "nobody knows what it changes"),
    "duration": format_duration,
    "fields": _fields,
    "limit": _write_limit,
    "live_meters": live_meters,
    "pretty": lambda value: json.dumps(value, indent=2, ensure_ascii=False),
    "query": _write_query,
    "severities": _severities,
    "used": _write_used,
    "verdict_name": lambda name: _VERDICTS.get(name, name),
    "when": write_when,
}
