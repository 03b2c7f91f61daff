"""Measures what the harness adds to a turn, compared with a bare loop over the same SDK.

    python bench/providers.py [--turns 20] [--rounds 5] [--provider anthropic openai]

Both talk to the strict model server in its own process, stream their answers, call one tool a turn
and send the same results back. The harness does all that it does in a review: reservation, journal
on disk, executor, framing of untrusted text, retries and prices. Prints the time of a turn for both
and the difference, with the journal on disk (at least one commit a turn) and in memory; exits 1 when
the former is above 5 ms. For comparison it also prints the bare loop without streaming, which spares
the SDK its events. Times are those of the fastest round, since other load only adds time; CPU time,
without any waiting, is printed beside them.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anthropic
import anyio
import openai

from orchestrator.catalog.data_file_layers import read_shipped_layer
from orchestrator.catalog.model_config import load_models
from orchestrator.catalog.prices import load_prices
from orchestrator.engine.agent_context import AgentRuntime
from orchestrator.engine.agent_loop import run_agent
from orchestrator.engine.budget import Account
from orchestrator.engine.executor import Executor
from orchestrator.engine.journal import open_journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.observer_events import ignore_event
from orchestrator.engine.ports import CallContext, SystemClock
from orchestrator.engine.tool_registry import Registry, ToolPolicy
from orchestrator.engine.types import AgentSpec, Bounds, Json, Observation, ToolSpec
from orchestrator.providers.factory import make_model
from orchestrator.stores.sqlite_journal import MemoryStore, SqliteStore
from tests.model_server.server import KEY

LIMIT = 0.005
PROMPT = "You look for bugs. " + "Be careful and exact. " * 60
SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
REPORT: dict[str, Json] = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
    "additionalProperties": False,
}


Times = tuple[float, float]
"""Seconds of a turn: wall-clock time and CPU time."""


class Stopwatch:
    """Measures from its construction."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def per_turn(self, turns: int) -> Times:
        """Return the elapsed times divided by the turns."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return wall / turns, cpu / turns


def search_result(text: str) -> str:
    """The tool's result: always the same length, never the same text, which would be a loop."""
    return "".join(f"{n}: {text}_{n} = load(path, strict=True)  # line {n}\n" for n in range(60))


class Search:
    """The one tool of the agent."""

    spec = ToolSpec("search", "finds lines that hold a text", SCHEMA)

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> Observation:
        return Observation(search_result(arguments["text"]))


async def ask_claude(client: anthropic.AsyncAnthropic, streamed: bool, **body: Any) -> Any:
    """Return the SDK's reply object."""
    if not streamed:
        return await client.messages.create(**body)
    async with client.messages.stream(**body) as stream:
        return await stream.get_final_message()


async def ask_openai(client: openai.AsyncOpenAI, streamed: bool, **body: Any) -> Any:
    """Return the SDK's reply object."""
    reply: Any = await client.responses.create(stream=streamed, **body)
    return [event async for event in reply][-1].response if streamed else reply


async def run_bare_claude(url: str, model: str, agent: str, turns: int, streamed: bool) -> None:
    system: list[Any] = [{"type": "text", "text": f"Agent: {agent}\n\n{PROMPT}"}]
    tools: list[Any] = [{"name": "search", "description": "finds lines", "input_schema": SCHEMA}]
    messages: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "Look."}]}]
    async with anthropic.AsyncAnthropic(api_key=KEY, base_url=url, max_retries=0) as client:
        clock = Stopwatch()
        for _ in range(turns + 1):
            reply = await ask_claude(
                client,
                streamed,
                model=model,
                max_tokens=2000,
                system=system,
                tools=tools,
                messages=messages,
            )
            calls = [block for block in reply.content if block.type == "tool_use"]
            content = [block.model_dump(exclude_none=True) for block in reply.content]
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": call.id,
                    "content": search_result(call.input["text"]),
                }
                for call in calls
            ]
            messages += [
                {"role": "assistant", "content": content},
                {"role": "user", "content": results},
            ]
        TIMES.append(clock.per_turn(turns + 1))


async def run_bare_openai(url: str, model: str, agent: str, turns: int, streamed: bool) -> None:
    tools: list[Any] = [
        {"type": "function", "name": "search", "parameters": SCHEMA, "strict": False}
    ]
    part = {"type": "input_text", "text": "Look."}
    items: list[Any] = [{"type": "message", "role": "user", "content": [part]}]
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0) as client:
        clock = Stopwatch()
        for _ in range(turns + 1):
            reply = await ask_openai(
                client,
                streamed,
                model=model,
                instructions=f"Agent: {agent}\n\n{PROMPT}",
                input=items,
                tools=tools,
                max_output_tokens=2000,
                store=False,
            )
            for item in reply.output:
                if item.type == "function_call":
                    result = search_result(json.loads(item.arguments)["text"])
                    items += [
                        item.model_dump(exclude_none=True),
                        {"type": "function_call_output", "call_id": item.call_id, "output": result},
                    ]
        TIMES.append(clock.per_turn(turns + 1))


async def run_harness(
    url: str, name: str, model: str, agent: str, turns: int, directory: Path | None
) -> None:
    config, prices = load_models([read_shipped_layer()]), load_prices([read_shipped_layer()])
    base = url if name == "anthropic" else f"{url}/v1"
    provider = config.provider(name)
    env = {provider.key_env: KEY, provider.base_url_env: base}
    spec = AgentSpec(
        agent,
        "looks",
        PROMPT,
        ("search",),
        model=model,
        bounds=Bounds(turns=turns + 2),
        contract=REPORT,
    )
    store = SqliteStore(directory / "journal.sqlite") if directory else MemoryStore(SystemClock())
    try:
        await store.create(agent, time.time(), {})
        async with (
            make_model(name, config, prices, env=env) as answers,
            open_journal(agent, store, SystemClock(), holder="bench") as journal,
        ):
            executor = Executor(
                Registry([Search()]), ToolPolicy(), journal, nonce="n0nce", observer=ignore_event
            )
            runtime = AgentRuntime(answers, executor, journal, ignore_event)
            account = Account(agent, Bounds(usd=1000))
            clock = Stopwatch()
            result = await run_agent(spec, "Look.", runtime, Key(agent), account)
            TIMES.append(clock.per_turn(turns + 1))
        if result.status != "ok":
            raise SystemExit(f"the harness run failed: {result.detail}")
    finally:
        if isinstance(store, SqliteStore):
            store.close()


TIMES: list[Times] = []
KINDS = ("whole", "bare", "disk", "memory")
"""The bare SDK without and with streaming, and the harness with both stores."""


def measure_run(work: Any, *args: Any) -> Times:
    """Run the loop and return its times of a turn."""
    TIMES.clear()
    anyio.run(work, *args)
    return TIMES[0]


KNOWN = ["anthropic", "openai"]


def build_script(names: list[str], turns: int, rounds: int) -> dict[str, list[Json]]:
    """The same lines for each run: tool calls, then the report."""
    asked = [{"name": "search", "arguments": {"text": f"value{n}"}} for n in range(turns)]
    lines: list[Json] = [*({"calls": [call]} for call in asked), {"report": {"summary": "none"}}]
    kinds = [f"{kind}-{name}" for kind in KINDS for name in names]
    return {f"{kind}-{n}": lines for kind in kinds for n in range(rounds + 1)}


def measure(url: str, name: str, args: argparse.Namespace) -> float:
    """Measure the seconds that the harness adds to a turn."""
    model = {"anthropic": "claude-haiku-5-5", "openai": "gpt-6-luna"}[name]
    bare = run_bare_claude if name == "anthropic" else run_bare_openai
    times: dict[str, list[Times]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as directory:
        for n in range(args.rounds + 1):  # the first of each warms up
            for kind in ("whole", "bare"):
                agent = f"{kind}-{name}-{n}"
                times[kind].append(measure_run(bare, url, model, agent, args.turns, kind == "bare"))
            for kind, place in (("disk", Path(directory)), ("memory", None)):
                agent = f"{kind}-{name}-{n}"
                times[kind].append(
                    measure_run(run_harness, url, name, model, agent, args.turns, place)
                )
    wall, cpu = (
        {kind: min(one[at] for one in own[1:]) for kind, own in times.items()} for at in (0, 1)
    )
    print(f"{name}: {args.turns} turns, {args.rounds} rounds; ms a turn, CPU time in brackets")
    for kind, how in (("bare", "streamed"), ("whole", "whole")):
        print(f"  bare SDK, answers {how}: {1000 * wall[kind]:.1f} ({1000 * cpu[kind]:.1f})")
    for kind, where in (("disk", "on disk"), ("memory", "in memory")):
        added = [1000 * (own[kind] - own["bare"]) for own in (wall, cpu)]
        print(f"  the harness adds, with the journal {where}: {added[0]:.1f} ({added[1]:.1f})")
    print(f"  the limit is {1000 * LIMIT:.0f} with the journal on disk")
    return wall["disk"] - wall["bare"]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--provider", nargs="+", choices=KNOWN, default=KNOWN)
    args = parser.parse_args()
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(build_script(args.provider, args.turns, args.rounds), file)
        file.flush()
        command = [sys.executable, "-m", "tests.model_server", "--port", "0"]
        with subprocess.Popen(
            [*command, "--script", file.name], stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout is not None
            url = server.stdout.readline().split()[2].rstrip(",")
            try:
                added = [measure(url, name, args) for name in args.provider]
            finally:
                server.terminate()
    return int(max(added) > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
