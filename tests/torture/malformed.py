"""Malformed replies over the three APIs, each answered to a whole agent through the real SDK.

A case passes when nothing is raised, nothing is done but what a sound call of a permitted tool asks
for, what it cost stays a number of 0 or more, and the reply ends as an observation that the agent
goes on from, or as a failed attempt.
"""

import math
from collections.abc import Callable, Sequence

import anyio

from orchestrator.engine.journal import Journal
from orchestrator.engine.types import Level, ToolSpec
from tests.model_server.server_script import Reshaped, ServerReply
from tests.providers.provider_kit import (
    PROVIDERS,
    SEARCH,
    ProviderSession,
    Search,
    open_memory_run,
    open_session,
    run_test_agent,
)
from tests.scripted_model import text_reply
from tests.server_replies import raw
from tests.torture.malformed_replies import malformed, malformed_stream

FULL = 10_000
SAMPLE = 16
BATCH = 240
GOOD = text_reply('{"summary": "clean", "score": 0.5, "places": []}')
ITS_OWN = ("thinking", "reasoning", "is none of")
"""Refusals of blocks that the reply itself made up: they go back as they came."""


class Erase(Search):
    """A tool that writes, and that the agent was not given."""

    spec = ToolSpec("erase", "erases", SEARCH.schema, level=Level.WRITE)


def name_of(seed: int) -> str:
    """The agent that is given the reply of this seed."""
    return f"qa{seed}"


async def answered(name: str, seeds: Sequence[int], say: Callable[[str], None]) -> int:
    """Give each reply to an agent of its own, then three good ones; returns how many failed."""
    lines: dict[str, list[ServerReply]] = {
        name_of(seed): [_reply(name, seed), GOOD, GOOD, GOOD] for seed in seeds
    }
    failed = 0
    async with open_session(name, lines) as used, open_memory_run() as journal:
        for seed in seeds:
            try:
                await _one(used, journal, seed)
            except Exception as fault:
                failed += 1
                say(f"malformed reply {seed} of {name}: {type(fault).__name__}: {fault}")
            used.server.rejected.clear()
    return failed


def _reply(name: str, seed: int) -> Reshaped:
    """Every second reply is a stream."""
    if seed % 2:
        return raw(malformed_stream(name, seed), "text/event-stream")
    return raw(malformed(name, seed))


async def _one(used: ProviderSession, journal: Journal, seed: int) -> None:
    search, erase, agent = Search(), Erase(), name_of(seed)
    result = await run_test_agent(used, journal, search, agent=agent, usd=1e9, others=[erase])
    assert not erase.asked, "an effect"
    for asked in search.asked:
        assert list(asked) == ["text"], asked
        assert isinstance(asked["text"], str), asked
    # As an observation it takes another turn; a stream that was not whole, or a gateway's error in a
    # reply of 200, another try; otherwise it was a failed attempt.
    retried = any(event.kind == "retry" for event in used.events if event.agent == agent)
    went_on = result.status == "ok" and (result.turns > 1 or retried)
    assert result.status == "failed" or went_on, result
    spent = journal.spent(f"{agent}")
    assert 0 <= spent.tokens < math.inf, spent
    assert 0 <= spent.usd < math.inf, spent
    strange = [why for why in used.server.rejected if not any(own in why for own in ITS_OWN)]
    assert not strange, strange


def run(count: int, say: Callable[[str], None] = print) -> tuple[int, int]:
    """So many replies; returns how many passed and failed."""
    failed = 0
    for batch, first in enumerate(range(0, count, BATCH)):
        seeds = range(first, min(first + BATCH, count))
        for at, name in enumerate(PROVIDERS):
            own = seeds[at :: len(PROVIDERS)]
            failed += anyio.run(answered, name, own, say, backend=("asyncio", "trio")[batch % 2])
    return count - failed, failed
