"""The guard layers of a review, and the decisions of guards.

Four layers: texts that a model is sent (input), its calls (tool), its reports (output), and budgets
(``engine.budget``), which always block. Decisions are journal notes of the topic ``guards``.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from orchestrator.catalog.guard_policy import GuardsFile
from orchestrator.catalog.plugins import GUARD_PLUGINS, load_plugin
from orchestrator.catalog.settings import ToolsConfig
from orchestrator.catalog.shared_literals import OFFLINE, Environment
from orchestrator.code_review.verdict.document_parts import GuardRuling
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.agent_context import report_unchanged
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_keys import GUARDS, Key
from orchestrator.engine.model_call_events import note_once
from orchestrator.engine.ports import Guard, Model
from orchestrator.engine.secret_redaction import Redactor
from orchestrator.engine.text_guards import Action, GuardDecision, InputGuardedModel, TextGuards
from orchestrator.engine.tool_call_guards import (
    RateGuard,
    RepetitionGuard,
    SensitiveGuard,
    SofterGuard,
)
from orchestrator.engine.tool_call_records import ended_calls
from orchestrator.engine.types import Json
from orchestrator.errors import InputError
from orchestrator.optional_dependencies import install_command

PROSE = frozenset(
    {"summary", "title", "detail", "fix_suggestion", "why", "reason", "question", "missing"}
)
"""The keys of a report with an agent's own prose; quotes, paths and names are none."""


class Guards(Struct, frozen=True):
    """The guards of one run.

    Attributes:
        tier: the trust tier of the change's author; empty: the first of the config.
    """

    file: GuardsFile
    environment: Environment
    tier: str
    journal: Journal

    def model(self, model: Model) -> Model:
        """The model behind the input guards; the offline one needs none.

        Raises:
            InputError: there is no such tier, or the libraries of an enabled guard are missing.
        """
        if model.name == OFFLINE:
            return model
        return InputGuardedModel(model, self.texts("input"), self.journal.redact)

    def calls(self, policy: ToolsConfig) -> list[Guard]:
        """The tool guards."""
        known: list[Guard] = [
            RateGuard(policy.per_tool("per_run"), policy.per_tool("per_minute"), time.monotonic),
            RepetitionGuard(policy.limits.repeat),
            SensitiveGuard(policy.sensitive, "block"),
        ]
        actions = self.file.actions("tool", self.environment, self._tier())
        known += [
            load_plugin(GUARD_PLUGINS, name)
            for name in self.file.plugins
            if actions.get(name, "off") != "off"
        ]
        return [
            guard if action == "block" else SofterGuard(guard, action)
            for guard in known
            if (action := actions[guard.name]) in {"block", "warn", "confirm"}
        ]

    def outgoing(self, model: Model) -> Callable[[str, Json], Json]:
        """The function that applies the output guards to an agent's report."""
        if model.name == OFFLINE:
            return report_unchanged
        layer = self.texts("output")

        def passed(agent: str, value: Json, prose: bool) -> Json:
            if isinstance(value, str):
                return layer.passed(value, "report", agent) if prose else value
            if isinstance(value, list):
                return [passed(agent, item, prose) for item in value]
            if isinstance(value, dict):
                return {key: passed(agent, item, key in PROSE) for key, item in value.items()}
            return value

        return lambda agent, report: passed(agent, report, isinstance(report, str))

    def _tier(self) -> str:
        return self.file.resolve_tier(self.tier)

    def texts(self, layer: Literal["input", "output"]) -> TextGuards:
        """The text guards of a layer."""
        # Imported only if a model answers: it takes a tenth of the start of an offline review.
        from orchestrator.guards.plain_text_guards import ClaimRule  # noqa: PLC0415
        from orchestrator.guards.registry import GuardSettings, make_guards  # noqa: PLC0415

        setting = GuardSettings(
            characters=self.file.limits.characters,
            languages=self.file.limits.languages,
            claims=[ClaimRule(c.what, c.words, frozenset(c.tools)) for c in self.file.claims],
            ran=self._ran,
            toxic=self.file.toxic,
            entities=self.file.presidio.entities,
            score=self.file.presidio.score,
            note=partial(note_once, self.journal),
        )
        chosen = self.file.actions(layer, self.environment, self._tier())
        actions = {name: action for name, action in chosen.items() if action != "confirm"}
        try:
            return TextGuards(layer, make_guards(actions, setting), self._record)
        except ImportError as missing:
            extra = "presidio" if missing.name == "presidio_analyzer" else "pii"
            raise InputError(
                f"a guard that is on in config/guards.yaml needs {missing.name}; "
                f"run: {install_command(extra)}"
            ) from None

    def _ran(self) -> frozenset[str]:
        """The tools that ran successfully in this review and examined something."""
        return frozenset(
            call.tool
            for call in ended_calls(self.journal)
            if call.ok and (not isinstance(call.data, dict) or call.data.get("examined", True))
        )

    def _record(self, ruled: GuardDecision) -> None:
        body = {**to_builtins(ruled), "decision": f"{ruled.guard} {ruled.action}: {ruled.reason}"}
        self.journal.note(Key(GUARDS, subject=f"{ruled.layer}/{digest(body)[:16]}"), body)


def rulings(journal: Journal) -> tuple[GuardRuling, ...]:
    """The decisions of all guards in a run, with the number of equal ones."""
    counted = Counter([*_noted(journal), *_of_calls(journal)])
    ordered = sorted(counted, key=lambda ruling: (ruling.layer, ruling.guard, ruling.agent))
    return tuple(replace(ruling, count=counted[ruling]) for ruling in ordered)


def _noted(journal: Journal) -> Iterator[GuardRuling]:
    names = ("layer", "guard", "action", "agent", "reason")
    for body in journal.notes(GUARDS).values():
        yield GuardRuling(**{name: body[name] for name in names})


def _of_calls(journal: Journal) -> Iterator[GuardRuling]:
    """Decisions on calls, which are in the calls' records; those on texts are notes."""
    for call in ended_calls(journal):
        changes: list[tuple[Action, str, str]] = [
            ("warn", warning.guard, warning.reason) for warning in call.warnings
        ]
        if call.refusal and call.refusal.guard:
            changes.append(("block", call.refusal.guard, call.refusal.reason))
        for action, guard, reason in changes:
            yield GuardRuling(
                layer="tool", guard=guard, action=action, agent=call.agent, reason=reason
            )


def without_secrets(verdict: Verdict, redact: Redactor) -> Verdict:
    """A verdict without our own secrets.

    Texts of agents and tools are redacted already; names and adjacent parts are not.
    """
    if not redact:
        return verdict
    document = to_builtins(verdict)
    shown = redact.json(document)
    return verdict if shown is document else convert(shown, Verdict)
