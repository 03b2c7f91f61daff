"""A program that is ended before it has got anywhere."""

import anyio

from orchestrator.sandbox.program_permissions import Permissions
from orchestrator.sandbox.run_program import start


async def test_an_ended_program_is_gone_without_waiting() -> None:
    with anyio.fail_after(50):
        for _ in range(60):
            # It would wait for its input for ever, and its end comes as soon as it is forked.
            await start(["/bin/cat"], permissions=Permissions()).aclose()
