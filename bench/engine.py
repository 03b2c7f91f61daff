"""What the harness adds: a turn's cost, and agents side by side, against their ideal.

    python bench/engine.py

The model answers at once, or after 50 ms; the journal is SQLite with ``synchronous=FULL``; schema
check, guards and hash chain are on; garbage is collected as seldom as in the ``diffcourt`` command.
The ideal is a bare task group that only sleeps; beside it runs one that also keeps a journal with
group commit and waits for each answer to be durable, and nothing else: no chain, no replay, no
guards, no budget.
"""

import gc
import json
import sqlite3
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import anyio
from anyio import to_thread

from orchestrator.engine.agent_context import AgentRuntime
from orchestrator.engine.agent_tasks import Task, run_team
from orchestrator.engine.budget import Account
from orchestrator.engine.executor import Executor
from orchestrator.engine.journal import open_journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.ports import CallContext, Guard, SystemClock
from orchestrator.engine.tool_call_guards import RateGuard, RepetitionGuard
from orchestrator.engine.tool_registry import Registry, ToolPolicy
from orchestrator.engine.types import AgentSpec, Bounds, Json, Observation, ToolSpec, Usage
from orchestrator.stores.sqlite_journal import SqliteStore
from tests.scripted_model import ScriptedModel, text_reply, tool_call_reply

NUMBER = {
    "type": "object",
    "properties": {"x": {"type": "integer"}},
    "required": ["x"],
    "additionalProperties": False,
}


class Echo:
    """The smallest tool."""

    spec = ToolSpec("echo", "says a number", NUMBER)

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        return Observation(f"said {arguments['x']}", {"x": arguments["x"]})


async def team(agents: int, turns: int, latency: float) -> tuple[float, float, int]:
    """Wall time of a team and its thread's processor time in seconds, and its journal's bytes."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        store = SqliteStore(Path(folder) / "journal.db")
        await store.create("run", 0.0, {})
        script = {
            f"a{n}": [tool_call_reply(("echo", {"x": turn})) for turn in range(turns - 1)]
            + [text_reply('{"ok": true}')]
            for n in range(agents)
        }
        model = ScriptedModel(script, latency=latency, worst=Usage(10, 10))
        async with open_journal("run", store, SystemClock(), holder="bench") as journal:
            guards: list[Guard] = [RateGuard({}, {"*": 10**6}, time.monotonic), RepetitionGuard(2)]
            executor = Executor(
                Registry([Echo()]),
                ToolPolicy(),
                journal,
                guards=guards,
                nonce="n",
                observer=ignore_event,
            )
            runtime = AgentRuntime(model, executor, journal, ignore_event)
            budget = Account("the run", Bounds(tool_calls=10**6, tokens=10**9))
            contract = {"type": "object"}
            tasks = [
                Task(
                    AgentSpec(f"a{n}", "", "p", ("echo",), contract=contract),
                    "go",
                    Key.parse(f"1/a{n}"),
                )
                for n in range(agents)
            ]
            start, processor = time.perf_counter(), time.thread_time()
            results = await run_team(tasks, runtime, budget, concurrency=agents)
            seconds = time.perf_counter() - start
            processor = time.thread_time() - processor
        assert all(result.status == "ok" for result in results)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        store.close()
    return seconds, processor, size


async def bare(agents: int, turns: int, latency: float) -> float:
    """The ideal: nothing but the model's latency."""

    async def one() -> None:
        for _ in range(turns):
            await anyio.sleep(latency)

    start = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(agents):
            group.start_soon(one)
    return time.perf_counter() - start


class BareJournal:
    """Rows in SQLite, durable when ``append`` returns; many waiting rows share one commit."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE rows (key, body)"
        )
        self._waiting: list[tuple[str, str]] = []
        self._asked, self._kept = anyio.Event(), anyio.Event()

    async def append(self, key: str, body: str) -> None:
        self._waiting.append((key, body))
        self._asked.set()
        await self._kept.wait()

    async def commit_for_ever(self) -> None:
        while True:
            await self._asked.wait()
            rows, kept = self._waiting, self._kept
            self._waiting, self._asked, self._kept = [], anyio.Event(), anyio.Event()
            await to_thread.run_sync(self.write, rows)
            kept.set()

    def write(self, rows: list[tuple[str, str]]) -> None:
        """Commit rows, in the thread that calls."""
        self._db.execute("BEGIN")
        self._db.executemany("INSERT INTO rows VALUES (?, ?)", rows)
        self._db.execute("COMMIT")

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()


def commits(turns: int) -> float:
    """Wall time of what a turn waits for at least: four rows, committed in this thread."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        journal = BareJournal(Path(folder) / "journal.db")
        start = time.perf_counter()
        for turn in range(turns):
            journal.write([(f"1/a0/turn{turn}/{row}", "x" * 500) for row in range(4)])
        seconds = time.perf_counter() - start
        journal.close()
    return seconds


async def bare_with_journal(agents: int, turns: int, latency: float) -> float:
    """The model's latency, and a journal of the answers."""
    body = json.dumps({"answer": "x" * 300})

    async def one(name: int) -> None:
        for turn in range(turns):
            await anyio.sleep(latency)
            await journal.append(f"1/a{name}/turn{turn}", body)

    with tempfile.TemporaryDirectory(dir=".") as folder:
        journal = BareJournal(Path(folder) / "journal.db")
        async with anyio.create_task_group() as outer:
            outer.start_soon(journal.commit_for_ever)
            start = time.perf_counter()
            async with anyio.create_task_group() as group:
                for name in range(agents):
                    group.start_soon(one, name)
            seconds = time.perf_counter() - start
            outer.cancel_scope.cancel()
    return seconds


def compare(agents: int, turns: int, latency: float, backend: str, rounds: int) -> str:
    """A team beside the bare programs, in turns; the shortest of each."""
    shape = (agents, turns, latency)
    teams, ideals, kept = [], [], []
    for _ in range(rounds):
        teams.append(anyio.run(team, *shape, backend=backend))
        ideals.append(anyio.run(bare, *shape, backend=backend))
        kept.append(anyio.run(bare_with_journal, *shape, backend=backend))
    seconds, processor, _ = map(min, zip(*teams, strict=True))
    size = max(size for _, _, size in teams)
    count, floor = agents * turns / 1e6, min(kept)
    ideal = f", {seconds / min(ideals):.2f} x a bare task group" if latency else ""
    return (
        f"{agents} agents x {turns} turns at {latency * 1000:g} ms: {seconds * 1000:.0f} ms"
        f"{ideal}, {seconds / floor:.2f} x one with a group-committing journal; "
        f"{seconds / count:.0f} us a turn (bare: {floor / count:.0f}), "
        f"{processor / count:.0f} us of it processor time; {size / 1024:,.0f} KiB on disk"
    )


def main() -> None:
    gc.set_threshold(100_000)
    for backend in ("asyncio", "trio"):
        pairs = [(anyio.run(team, 1, 50, 0.0, backend=backend)[0], commits(50)) for _ in range(10)]
        turn, commit = (min(times) / 50 * 1000 for times in zip(*pairs, strict=True))
        print(
            f"{backend}: one agent x 50 turns: {turn:.2f} ms a turn, {turn / commit:.1f} x a bare "
            f"commit of as many bytes ({commit:.2f} ms)"
        )
        print(f"{backend}: {compare(4, 12, 0.0, backend, 20)}")
        print(f"{backend}: {compare(200, 3, 0.05, backend, 5)}")


if __name__ == "__main__":
    main()
