"""What it costs to start a program in the sandbox, against a bare start in the same run.

    python bench/sandbox.py [--count 100]

For each level: the wall time of `true` from the call to its result, median and least, against the
same program started bare by the event loop; and the wait for the first program, sandbox included.
"""

import argparse
import statistics
import time
from collections.abc import Awaitable, Callable

import anyio

from orchestrator.errors import SandboxError
from orchestrator.sandbox import run_program
from orchestrator.sandbox.level_and_launchers import Sandbox, Setting
from orchestrator.sandbox.program_permissions import Permissions

TRUE = "/bin/true"
LEVELS: tuple[Setting, ...] = ("bubblewrap", "landlock", "off")


async def confined() -> None:
    await run_program.run([TRUE], permissions=Permissions())


async def bare() -> None:
    await anyio.run_process([TRUE])


async def timed(start: Callable[[], Awaitable[None]]) -> float:
    begun = time.perf_counter()
    await start()
    return 1000 * (time.perf_counter() - begun)


async def measure(level: Setting, count: int) -> None:
    sandbox = Sandbox()
    vars(run_program)["SANDBOX"] = sandbox
    try:
        begun = time.perf_counter()
        sandbox.use(level)
        await confined()
        first = 1000 * (time.perf_counter() - begun)
        pairs = [(await timed(confined), await timed(bare)) for _ in range(count)]
    except SandboxError as fault:
        print(f"{level}: {fault}")
        return
    finally:
        sandbox.close()
    ours, theirs = zip(*pairs, strict=True)
    print(
        f"{level}: median {statistics.median(ours):.1f} ms, least {min(ours):.1f} ms; "
        f"bare: median {statistics.median(theirs):.1f} ms, least {min(theirs):.1f} ms; "
        f"the first one, with the sandbox itself: {first:.0f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    args = parser.parse_args()
    for level in LEVELS:
        anyio.run(measure, level, args.count)


if __name__ == "__main__":
    main()
