"""The limits of a run without a verdict, from its base and its options."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from orchestrator.app.human_decisions.limit_grants import GRANTED
from orchestrator.app.policy_sources import load_policy, read_layers
from orchestrator.app.types import ReviewOptions
from orchestrator.code_review.change.types import change_from_json
from orchestrator.engine.journal_keys import GRANT, INTAKE, Key
from orchestrator.engine.journal_rows import Intent, Outcome, read_row
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
    if run_id not in _known:
        ended = (read_row(row) for row in rows if row.key == INTAKE)
        for intake in (body for body in ended if isinstance(body, Outcome)):
            try:
                _known[run_id] = await _read_bounds(options, intake)
            except (DiffcourtError, ValueError, TypeError, KeyError):
                _known[run_id] = {}
    limits = {name: options[flag] for flag, name in GRANTED.items() if options.get(flag)}
    limits = {**_known.get(run_id, {}), **limits}
    for row in rows:
        if Key.parse(row.key).part == GRANT and isinstance(begun := read_row(row), Intent):
            limits |= {
                GRANTED[flag]: begun.parameters[flag] for flag in GRANTED.keys() & begun.parameters
            }
    return limits


async def _read_bounds(options: Mapping[str, Any], intake: Outcome) -> dict[str, float]:
    change = change_from_json(msgspec.json.decode(intake.value))
    given = ReviewOptions.of_meta(options, None)
    bounds = load_policy(await read_layers(change), given).settings.bounds
    return {name: getattr(bounds, name) for name in GRANTED.values()}
