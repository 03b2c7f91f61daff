"""The executor: every tool call of every agent passes these steps.

    look-up → permission → schema → breaker → guards → budget → approval     (``_admit``)
    → rollback scope → run under a timeout → output schema                   (``_perform``)
    → redaction → output limit → marked as untrusted                         (``_observation``)

A refusal is an observation for the model and an event in the journal; the tool never starts.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Literal

import anyio
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from orchestrator.engine.budget import Account, Cost, Reservation
from orchestrator.engine.canonical_json import digest, is_json
from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.journal_rows import GuardWarning
from orchestrator.engine.observer_events import Event, Observer
from orchestrator.engine.ports import (
    Approver,
    CallContext,
    Guard,
    GuardedCall,
    OutputStore,
    Rollback,
    Tool,
)
from orchestrator.engine.program_output_collection import collect_programs
from orchestrator.engine.tool_call_guards import SafeGuard, apply_guards
from orchestrator.engine.tool_call_records import DECLINED, ended_calls
from orchestrator.engine.tool_circuit_breaker import ToolBreaker
from orchestrator.engine.tool_registry import Registry, ToolPolicy
from orchestrator.engine.types import (
    AgentSpec,
    Json,
    Level,
    LoggedCall,
    LogHook,
    Observation,
    Refusal,
    ToolCall,
    ToolResult,
)
from orchestrator.engine.untrusted_text import escape_markers, frame
from orchestrator.errors import ApprovalRequired, InputError, NotOffered, NotPermitted, Refused


def fingerprint(call: ToolCall) -> str:
    """Digest of a call's tool and arguments."""
    return digest([call.name, dict(call.arguments)])


async def _run(admitted: "_Admitted", context: CallContext) -> tuple[Observation, str]:
    """Run the tool. An error in it becomes an observation with a code."""
    try:
        with anyio.move_on_after(context.seconds):
            seen = await admitted.tool.run(admitted.call.arguments, context)
            if not is_json(seen.data):
                return Observation("the tool failed: its data is not JSON", ok=False), "failed"
            return seen, "" if seen.ok else "failed"
    except InputError as error:  # the tool works, but cannot do what was asked
        return Observation(str(error), ok=False), DECLINED
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        return Observation(f"the tool failed: {what}", ok=False), "failed"
    return Observation(f"no result within {context.seconds:g} s", ok=False), "timeout"


class _Admitted(Struct):
    """A call that may be performed: its tool, its arguments after the guards, and warnings."""

    tool: Tool
    call: GuardedCall
    warnings: list[GuardWarning]
    cost: Cost


class Executor:
    """Runs tool calls for agents; the steps are listed in the module's docstring.

    Args:
        approver: asked before anything irreversible; None refuses it.
        rollback: opened around anything that writes; None refuses it.
        outputs: keeps what programs print; None: nothing is kept.
        nonce: marks untrusted text; authors of quoted text cannot know it.
        observe_only: permissions, guards and missing approvals are recorded as warnings and refuse
            nothing. For programs that adopt the harness step by step; a review never sets it.
    """

    def __init__(  # noqa: PLR0913 - options, all by keyword
        self,
        registry: Registry,
        policy: ToolPolicy,
        journal: Journal,
        *,
        guards: Sequence[Guard] = (),
        approver: Approver | None = None,
        rollback: Rollback | None = None,
        outputs: OutputStore | None = None,
        nonce: str = "",
        observe_only: bool = False,
        observer: Observer,
    ) -> None:
        self.registry, self.policy, self.nonce = registry, policy, nonce
        self._journal, self._guards = journal, [SafeGuard(guard) for guard in guards]
        self._approver, self._rollback, self._outputs = approver, rollback, outputs
        self._breaker = ToolBreaker(journal, policy.failures, policy.pause)
        self._observe, self._guards_replayed = observer, False
        self._observe_only = observe_only

    async def call(
        self, agent: AgentSpec, call: ToolCall, key: Key | str, account: Account
    ) -> ToolResult:
        """Run one call, or return its recorded result; a failure or a refusal is a result.

        Raises:
            ReplayMismatch, StoreError: the run itself cannot continue.
        """
        key = str(key)
        self._replay_guards()
        event = Event(
            "tool_started", self._journal.elapsed(), agent=agent.name, tool=call.name, key=key,
            replayed=self._journal.recorded(key),
        )  # fmt: skip
        self._observe(event)

        def ended(detail: str, data: Json = None) -> None:
            at = self._journal.elapsed()
            self._observe(replace(event, kind="tool_finished", at=at, detail=detail, data=data))

        spec = self.registry.specs().get(call.name)
        try:
            value = await self._journal.effect(
                key,
                {"tool": call.name, "arguments": dict(call.arguments), "agent": agent.name},
                lambda admitted: self._perform(agent, admitted, key, account),
                admit=partial(self._admit, agent, call, key, account),
                level=spec.level if spec else Level.READ,
                durable=False,
                undo=partial(self._rollback.undo, key) if self._rollback else None,
            )
        except Refused as error:
            ended(error.code)
            return ToolResult(
                call.id,
                frame(f"refused: {error}", self.nonce),
                ok=False,
                ref=key,
                code=error.code,
                refusal=Refusal(error.code, error.reason, error.guard),
            )
        ok, code, data = value.get("ok", True), value.get("code", ""), value.get("data")
        ended(code or "ok", data)
        return ToolResult(call.id, value["content"], ok=ok, ref=key, data=data, code=code)

    def asks_person(self, agent: AgentSpec, call: ToolCall) -> Mapping[str, Json] | None:
        """What a person would approve: the call's arguments as guards leave them; None: no wait."""
        try:
            fitting, _ = self._permit(agent, call)
            _, made, _ = self._guard(agent, fitting)
        except Refused:
            return None
        asks = not self._observe_only and self._obstacle(made)[0] == "approval"
        return made.arguments if asks else None

    # --- admission ------------------------------------------------------------------------------

    async def _admit(
        self, agent: AgentSpec, call: ToolCall, key: str, account: Account
    ) -> tuple[_Admitted, Reservation]:
        fitting, denied = self._permit(agent, call)
        self._breaker.check(call.name)
        guarded, performed, warnings = self._guard(agent, fitting)
        if denied:
            warnings.insert(0, GuardWarning("permission", denied, observed=True))
        cost = Cost(0, 1, 0, performed.tool.usd)
        reservation = account.reserve(cost)
        if performed.arguments != dict(call.arguments):
            reservation.effective = to_builtins(performed.arguments)
        # Before the first await, or an equal concurrent call would pass the guards too.
        self._breaker.begin(call.name)
        counted: list[SafeGuard] = []
        try:
            for guard in self._guards:
                guard.admitted(guarded)
                counted.append(guard)
            warnings += await self._approve(performed, key)
        except BaseException:
            reservation.refund()
            self._breaker.abandon(call.name)
            for guard in counted:
                guard.withdrawn(guarded)
            raise
        return _Admitted(self.registry.get(call.name), performed, warnings, cost), reservation

    def _permit(self, agent: AgentSpec, call: ToolCall) -> tuple[ToolCall, str | None]:
        """A call as its schema types it, and why an observe-only run lets it pass nevertheless."""
        denied = self.policy.refusal(agent, self.registry.get(call.name).spec)
        if denied and not self._observe_only:
            raise NotPermitted(denied) if call.name in agent.tools else NotOffered(denied)
        fitting = self.registry.fit(call)
        self.registry.check(call.name, fitting.arguments)
        return fitting, denied

    def _guard(
        self, agent: AgentSpec, call: ToolCall
    ) -> tuple[GuardedCall, GuardedCall, list[GuardWarning]]:
        """The call as guards modify it, as it is performed, and their warnings."""
        own = to_builtins(dict(call.arguments))  # a guard may change them in place, now or later
        made = GuardedCall(agent.name, self.registry.get(call.name).spec, own, fingerprint(call))
        guarded, warnings = apply_guards(self._guards, made, observe_only=self._observe_only)
        effective = to_builtins(dict((call if self._observe_only else guarded).arguments))
        if effective != dict(call.arguments):
            self.registry.check(call.name, effective)
        return guarded, replace(guarded, arguments=effective), warnings

    def _obstacle(self, call: GuardedCall) -> tuple[Literal["permission", "approval", ""], str]:
        """What a call that guards let pass is denied, or waits for; and why."""
        tool = call.tool
        if tool.level is Level.WRITE and self._rollback is None:
            return "permission", f"{tool.name} writes, and nothing here can undo it"
        if tool.level > Level.WRITE or call.confirm:
            return "approval", call.confirm or f"{tool.name} cannot be undone"
        return "", ""

    async def _approve(self, call: GuardedCall, key: str) -> Sequence[GuardWarning]:
        """Ask a person if one must approve; an observe-only run warns instead."""
        step, why = self._obstacle(call)
        if step and self._observe_only:
            return [GuardWarning(step, why, observed=True)]
        if step == "permission":
            raise NotPermitted(why)
        if step == "approval":
            if self._approver is None:
                raise ApprovalRequired(f"{why} (call {key}); no person can be asked here")
            await self._approver.approve(call, key)
        return ()

    # --- execution ------------------------------------------------------------------------------

    async def _perform(
        self, agent: AgentSpec, admitted: _Admitted, key: str, account: Account
    ) -> EffectResult:
        spec = admitted.tool.spec
        seconds = min(spec.timeout, max(account.seconds_left(), 0.001))
        context = CallContext(key, agent.name, seconds)
        scope = self._rollback if spec.level is Level.WRITE else None
        try:
            if scope:
                await scope.begin(key)
            with collect_programs() if self._outputs else nullcontext() as programs:
                seen, code = await self._run_logged(admitted, context)
            kept = await self._outputs.keep(key, programs) if programs and self._outputs else None
        except BaseException:
            self._breaker.abandon(spec.name)
            if scope:  # cut off in the middle, and perhaps never resumed
                with anyio.CancelScope(shield=True):
                    await scope.undo(key)
            raise
        if scope:
            with anyio.CancelScope(shield=True):  # what fails beside it may end the run meanwhile
                await (scope.commit if seen.ok else scope.undo)(key)
        self._breaker.record(spec.name, code)
        content = self._observation(seen, admitted)
        value: dict[str, Json] = {"content": content}
        if code:
            value |= {"ok": False, "code": code}
        if seen.data is not None:
            value["data"] = seen.data
        if kept is not None:
            value["output"] = kept
        if admitted.warnings:
            value["warnings"] = to_builtins(admitted.warnings)
        return EffectResult(value, admitted.cost)

    async def _run_logged(
        self, admitted: _Admitted, context: CallContext
    ) -> tuple[Observation, str]:
        """Run the tool between its hooks, and check its data against its output schema."""
        spec = admitted.tool.spec
        if logs := spec.before or spec.after:
            began = self._journal.elapsed()
            arguments = self._journal.redact.json(dict(admitted.call.arguments))
            logged = LoggedCall(context.ref, context.agent, spec.name, arguments)
            self._log(spec.before, logged)
        seen, code = await _run(admitted, context)
        if seen.ok and (errors := self.registry.output_errors(spec.name, seen.data)):
            what = f"its result does not fit its output schema: {'; '.join(errors)}"
            seen, code = Observation(f"the tool failed: {what}", ok=False), "failed"
        if logs:
            seconds = self._journal.elapsed() - began
            self._log(spec.after, replace(logged, code=code or "ok", seconds=seconds))
        return seen, code

    def _log(self, hook: LogHook | None, logged: LoggedCall) -> None:
        """Call a hook; if it fails, that is a note, since logging must not fail a call."""
        try:
            if hook is not None:
                hook(logged)
        except Exception as error:
            detail = self._journal.redact(f"a log hook of {logged.tool} failed: {error}")
            self._observe(Event("note", self._journal.elapsed(), detail=detail))

    # --- observation ----------------------------------------------------------------------------

    def _observation(self, seen: Observation, admitted: _Admitted) -> str:
        # Before the cut, which could leave a part of a secret that redaction no longer recognizes.
        limit, text = admitted.tool.spec.max_output, self._journal.redact(seen.content)
        if len(text) > limit:
            text = f"{text[:limit]}\n[cut: {len(text) - limit} more characters]"
        notes = [f"[guard: {escape_markers(str(warning))}]\n" for warning in admitted.warnings]
        return "".join(notes) + frame(text, self.nonce)

    # --- helpers --------------------------------------------------------------------------------

    def _replay_guards(self) -> None:
        """Let recorded calls count for the guards of a resumed run as they did the first time.

        All of them before the first call: calls of an agent that has ended are not replayed one by
        one.
        """
        if self._guards_replayed:
            return
        specs = self.registry.specs()
        for record in ended_calls(self._journal):
            spec = specs.get(record.tool)
            if not record.admitted or spec is None:  # the tool no longer exists
                continue
            recorded = ToolCall("", spec.name, record.arguments)
            call = GuardedCall(
                record.agent, spec, record.arguments, fingerprint(recorded), replayed=True
            )
            for guard in self._guards:
                guard.admitted(call)
        self._guards_replayed = True
