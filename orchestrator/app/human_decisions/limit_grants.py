"""Grants: a person raises limits of a run; recorded with the name before they apply."""

from collections.abc import Mapping

from msgspec.structs import replace

from orchestrator.app.human_decisions.approvals import current_user
from orchestrator.app.types import ReviewOptions
from orchestrator.catalog.settings import RunBounds
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.journal import IMPORTED, EffectResult, Journal
from orchestrator.engine.journal_keys import GRANT, Key
from orchestrator.engine.ports import SystemClock
from orchestrator.errors import InputError

GRANTED = {
    "max_tool_calls": "tool_calls",
    "max_tokens": "tokens",
    "max_minutes": "minutes",
    "max_usd": "usd",
}
"""Option of a review that a person may raise later → the bound that it sets."""


async def record_grant(journal: Journal, present: RunBounds, grant: Mapping[str, float]) -> None:
    """Record a person's grant before it is used.

    Args:
        present: the limits in force.
        grant: option → the new limit of the whole run.

    Raises:
        InputError: it raises no limit.
    """
    for option, value in grant.items():
        limit = getattr(present, GRANTED[option])
        if value <= limit:
            flag = option.replace("_", "-")
            raise InputError(
                f"--{flag} {value:g} raises nothing: the run's limit is {limit:g} already; name a "
                "higher one"
            )

    async def perform() -> EffectResult:
        return EffectResult({"who": current_user(), "at": SystemClock().now()})

    number = 1 + sum(Key.parse(key).part == GRANT for key, _ in journal.records())
    await journal.effect(Key(GRANT, number=number), dict(grant), perform)


def require_stopped_by_limit(verdict: Verdict) -> None:
    """Check that a finished run stopped at a limit, so that it can continue with a higher one.

    Raises:
        InputError: it did not.
    """
    if verdict.stop.reason != "budget":
        raise InputError(
            f"{verdict.run_id} is finished and did not stop at a limit ({verdict.stop.reason}); "
            "start a new review"
        )


def with_grants(options: ReviewOptions, journal: Journal) -> ReviewOptions:
    """The options of a review with what was granted since, in this state and not elsewhere."""
    granted: dict[str, float] = {}
    for text, record in journal.records():
        key = Key.parse(text)
        if key.part == IMPORTED:  # this machine does not know who granted it
            granted.clear()
        elif key.part == GRANT and record.ended:
            granted |= record.body["asked"]
    return replace(options, **granted)
