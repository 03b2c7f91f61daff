"""Runs one agent in a program's run: opens its model and registers its tools.

Models are opened by name when an agent first needs one, and closed with the harness.
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from msgspec.structs import replace
from pydantic import ValidationError

from orchestrator.app.types import PROGRAM
from orchestrator.catalog.catalog import GUARDS as GUARDS_FILE
from orchestrator.catalog.data_file_layers import read_merged, read_shipped_layer
from orchestrator.catalog.guard_policy import ALL_ACTIONS, GUARDS, GuardActions, GuardsFile
from orchestrator.catalog.model_config import load_models
from orchestrator.catalog.prices import load_prices
from orchestrator.code_review.agents.guard_placement import Guards
from orchestrator.engine.agent_context import AgentRuntime
from orchestrator.engine.agent_tasks import Task, run_task
from orchestrator.engine.budget import Account
from orchestrator.engine.executor import Executor
from orchestrator.engine.journal import Journal, open_journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.model_call_events import call_listener
from orchestrator.engine.model_routing import ModelChoice, choose_named_model
from orchestrator.engine.observer_events import Observer
from orchestrator.engine.ports import Clock, Model
from orchestrator.engine.secret_redaction import Redactor
from orchestrator.engine.text_guards import Action, InputGuardedModel, TextGuards
from orchestrator.engine.tool_call_records import ended_calls
from orchestrator.engine.types import AgentSpec, Json
from orchestrator.errors import InputError
from orchestrator.library.agents import Agent, AgentResult
from orchestrator.providers.factory import make_model
from orchestrator.providers.model_selection import choose_model
from orchestrator.sandbox.file_rollback import FileRollback
from orchestrator.stores.sql_store import RunStore
from orchestrator.stores.sqlite_journal import MemoryStore, SqliteStore
from orchestrator.stores.used_approvals import UsedApprovalsLog
from orchestrator.stores.writer_identity import this_process


@dataclass(frozen=True)
class RunLocation:
    """The journal of a program's run, and the files that its tools may change.

    Attributes:
        file: the SQLite journal; None keeps the run in memory.
        files: saves files before a tool writes them; None if no tool may write.
        meta: its entry in the index of runs.
    """

    file: Path | None
    files: FileRollback | None
    meta: Json

    @property
    def used(self) -> UsedApprovalsLog | None:
        """The record of used approvals; None for a run in memory, which cannot be copied."""
        return UsedApprovalsLog(os.environ) if self.file else None

    @classmethod
    def of(cls, path: str | Path | None, root: str | Path | None, run_id: str) -> "RunLocation":
        """Locate a run; creates the journal's directory if necessary."""
        file = None if path is None else Path(path)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
        if root is None:
            return cls(file, None, {"kind": PROGRAM, "root": None})
        saved = (file.parent if file else Path(root)) / "runs" / run_id / "rollback"
        meta = {"kind": PROGRAM, "root": str(Path(root).absolute())}
        return cls(file, FileRollback(Path(root), saved), meta)

    @asynccontextmanager
    async def open_journal(
        self, run_id: str, clock: Clock, redact: Redactor
    ) -> AsyncIterator[tuple[RunStore, Journal]]:
        """Open the run's store and journal; a new run is added first.

        Raises:
            StoreError: another process writes this run, or the journal cannot be used.
        """
        with closing(SqliteStore(self.file) if self.file else MemoryStore(clock)) as store:
            if run_id not in {known.run_id for known in await store.runs()}:
                await store.create(run_id, clock.now(), self.meta)
            holder = this_process()
            async with open_journal(run_id, store, clock, holder=holder, redact=redact) as journal:
                yield store, journal


Opened = tuple[Model, str, Callable[[AgentSpec], ModelChoice]]
"""A model, its name in an agent's spec, and the function that chooses its settings."""


class Models:
    """The models of one run, one client for each provider.

    Args:
        closing: closes the clients.
        default: for agents that name none.
    """

    def __init__(
        self,
        journal: Journal,
        observer: Observer,
        closing: AsyncExitStack,
        *,
        default: str | Model | None,
    ) -> None:
        self._journal, self._observer, self._closing = journal, observer, closing
        self._default = default
        self._open: dict[str, Model] = {}

    async def open(self, model: str | Model | None, agent: str) -> Opened:
        """The model that an agent names.

        Raises:
            InputError: it names none, or the provider's key is missing.
            ConfigError: there is no such provider, or it has no such model.
        """
        model = self._default if model is None else model
        if model is None:
            raise InputError(f"agent {agent} has no model; name one, such as 'anthropic:strong'")
        if not isinstance(model, str):
            return model, model.name, choose_named_model
        sources = [read_shipped_layer()]
        config = load_models(sources)
        provider, name = config.split(model)
        problem = config.name_error(model)
        if problem or not provider:
            form = f"a model is named provider:model, not {model!r}"
            raise InputError(f"agent {agent}: {problem or form}")
        config.resolve(provider, name, os.environ)
        if provider not in self._open:
            events = call_listener(self._journal, self._observer)
            opening = make_model(
                provider, config, load_prices(sources), env=os.environ, on_event=events
            )
            self._open[provider] = await self._closing.enter_async_context(opening)
        choose = partial(choose_model, config, provider, os.environ)
        return self._open[provider], name, choose


@dataclass(frozen=True)
class RunParts:
    """The parts of the harness of a program's run.

    Attributes:
        texts: the guards of texts that a model is sent.
        files: remembers files before a tool writes them; None where no tool may write.
    """

    journal: Journal
    executor: Executor
    account: Account
    clock: Clock
    world: str
    models: Models
    texts: TextGuards
    observer: Observer
    store: RunStore
    files: FileRollback | None


def open_text_guards(journal: Journal, chosen: Mapping[str, Action]) -> TextGuards:
    """The input guards as shipped, with other actions for some; plugins by their names.

    Raises:
        InputError: a guard may not do this, or its libraries are missing.
        ConfigError: there is no such guard.
    """
    file = read_merged([read_shipped_layer()], GUARDS_FILE, GuardsFile)
    for name, action in chosen.items():
        allowed = GUARDS["input"].get(name, ALL_ACTIONS)
        if action not in allowed:
            raise InputError(f"{name} may not {action}; allowed: {', '.join(allowed)}")
    own = {name: GuardActions(action, action) for name, action in chosen.items()}
    return Guards(replace(file, input={**file.input, **own}), "local", "", journal).texts("input")


async def run_agent_task(parts: RunParts, agent: Agent, prompt: str, key: Key) -> AgentResult:
    """Run one agent on one prompt; see ``Harness.run``."""
    model, name, choose = await parts.models.open(agent.model, agent.name)
    spec, registry = agent.spec(name), parts.executor.registry
    for tool in agent.tools:
        if not isinstance(tool, str) and registry.specs().get(tool.spec.name) is not tool.spec:
            registry.add(tool)
    runtime = AgentRuntime(
        model=InputGuardedModel(model, parts.texts, parts.journal.redact),
        executor=parts.executor,
        journal=parts.journal,
        observer=parts.observer,
        choose_model=choose,
    )
    done = await run_task(Task(spec, prompt, key), runtime, parts.account)
    spent = parts.journal.spent(key)
    status, output, detail = done.status, done.report, done.detail
    if status == "ok" and agent.output is not None:
        try:
            output = agent.output.model_validate(output)
        except ValidationError as error:
            status, output, detail = "failed", None, f"its answer does not validate: {error}"
    assert status != "waiting"  # only an escalation to a person waits, and there is none
    assert status != "cancelled"  # only a review is
    return AgentResult(
        agent.name,
        status,
        output,
        detail,
        done.turns,
        done.tool_calls,
        int(spent.tokens),
        spent.usd,
        observed_rulings(parts.journal, key),
    )


def observed_rulings(journal: Journal, under: Key | str = "") -> list[str]:
    """Calls under a key that would have been refused without observe-only: call, guard, reason."""
    below = f"{under}/" if str(under) else ""
    return [
        f"{call.key}: {warning.guard}: {warning.reason}"
        for call in ended_calls(journal)
        if call.key.startswith(below)
        for warning in call.warnings
        if warning.observed
    ]
