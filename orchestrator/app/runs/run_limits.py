"""The limits of a run without a verdict, from its base and its options."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.app.human_decisions.limit_grants import GRANTED
from orchestrator.app.policy_sources import load_policy, read_layers
from orchestrator.app.types import ReviewOptions
from orchestrator.code_review.change.types import change_from_json
from orchestrator.engine.journal_keys import GRANT, INTAKE, Key
from orchestrator.engine.ports import Row
from orchestrator.errors import DiffcourtError

_known: dict[str, Mapping[str, float]] = {}
"""Run → limits without grants; a run's base does not change."""


async def read_limits(
    run_id: str, options: Mapping[str, Any], rows: Sequence[Row]
) -> dict[str, float]:
    """The limits in force: ``usd``, ``tokens``, ``tool_calls``, ``minutes``.

    Only those of the options if base cannot be read.
    """
    if run_id not in _known and (intake := _find_intake(rows)) is not None:
        try:
            _known[run_id] = await _read_bounds(options, intake)
        except (DiffcourtError, ValueError, TypeError, KeyError):
            _known[run_id] = {}
    limits = {name: options[flag] for flag, name in GRANTED.items() if options.get(flag)}
    limits = {**_known.get(run_id, {}), **limits}
    for row in rows:
        if row.kind == "intent" and Key.parse(row.key).part == GRANT:
            asked = json.loads(row.body)["asked"]
            limits |= {GRANTED[flag]: value for flag, value in asked.items() if flag in GRANTED}
    return limits


def _find_intake(rows: Sequence[Row]) -> Row | None:
    return next((row for row in rows if row.kind == "outcome" and row.key == INTAKE), None)


async def _read_bounds(options: Mapping[str, Any], intake: Row) -> dict[str, float]:
    change = change_from_json(json.loads(intake.body)["value"])
    given = ReviewOptions.of_meta(options, None)
    bounds = load_policy(await read_layers(change), given).settings.bounds
    return {name: getattr(bounds, name) for name in GRANTED.values()}
