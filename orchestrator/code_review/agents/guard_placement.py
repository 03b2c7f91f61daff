"""Which guards stand where in a review, and what they ruled.

Four layers: what a model is shown (input), its calls (tool), what it reports (output), and budgets,
which are ``engine.budget`` and always block. Rulings are journal notes of the topic ``guards``.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from orchestrator.catalog.guard_policy import GuardsFile
from orchestrator.catalog.plugins import GUARD_PLUGINS, load_plugin
from orchestrator.catalog.settings import ToolsConfig
from orchestrator.catalog.shared_literals import OFFLINE, Environment
from orchestrator.code_review.verdict.model import GuardRuling, Verdict
from orchestrator.engine.agent_loop import report_unchanged
from orchestrator.engine.canonical_json import digest
from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_keys import GUARDS, Key
from orchestrator.engine.ports import Guard, Model
from orchestrator.engine.secret_redaction import Redactor
from orchestrator.engine.text_guards import Action, GuardDecision, GuardedModel, TextGuards
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
"""The keys of a report under which an agent speaks; quotes, paths and names are not its words."""


class Guards(Struct, frozen=True):
    """The guards of one run.

    Attributes:
        tier: who the change's author counts as; empty: the first of the config.
    """

    file: GuardsFile
    environment: Environment
    tier: str
    journal: Journal

    def model(self, model: Model) -> Model:
        """A model behind the input guards; the offline one is none that could be misled.

        Raises:
            InputError: there is no such tier, or a guard is on whose libraries are missing.
        """
        if model.name == OFFLINE:
            return model
        return GuardedModel(model, self._texts("input"), self.journal.redact)

    def calls(self, policy: ToolsConfig) -> list[Guard]:
        """The tool guards."""
        known: list[Guard] = [
            RateGuard(policy.per_tool("per_run"), policy.per_tool("per_minute"), time.monotonic),
            RepetitionGuard(policy.limits.repeat),
            SensitiveGuard(frozenset(policy.sensitive)),
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
        """What becomes of a report: an agent's words as the output guards let them pass."""
        if model.name == OFFLINE:
            return report_unchanged
        layer = self._texts("output")

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

    def _texts(self, layer: Literal["input", "output"]) -> TextGuards:
        # Only where a model answers: they are a tenth of the start of an offline review.
        from orchestrator.guards.passed_check_claims import ClaimRule  # noqa: PLC0415
        from orchestrator.guards.registry import GuardSettings, make_guards  # noqa: PLC0415

        setting = GuardSettings(
            characters=self.file.limits.characters,
            languages=self.file.limits.languages,
            claims=[ClaimRule(c.what, c.words, frozenset(c.tools)) for c in self.file.claims],
            ran=self._ran,
            toxic=self.file.toxic,
            entities=self.file.presidio.entities,
            score=self.file.presidio.score,
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
        """The tools that have run in this review, went well, and looked at something."""
        return frozenset(
            call.tool
            for call in ended_calls(self.journal)
            if call.ok and (not isinstance(call.data, dict) or call.data.get("examined", True))
        )

    def _record(self, ruled: GuardDecision) -> None:
        body = {**to_builtins(ruled), "decision": f"{ruled.guard} {ruled.action}: {ruled.reason}"}
        self.journal.note(Key(GUARDS, subject=f"{ruled.layer}/{digest(body)[:16]}"), body)


def rulings(journal: Journal) -> tuple[GuardRuling, ...]:
    """What all guards ruled in a run, equal rulings counted."""
    counted = Counter([*_noted(journal), *_of_calls(journal)])
    ordered = sorted(counted, key=lambda ruling: (ruling.layer, ruling.guard, ruling.agent))
    return tuple(replace(ruling, count=counted[ruling]) for ruling in ordered)


def _noted(journal: Journal) -> Iterator[GuardRuling]:
    names = ("layer", "guard", "action", "agent", "reason")
    for body in journal.notes(GUARDS).values():
        yield GuardRuling(**{name: body[name] for name in names})


def _of_calls(journal: Journal) -> Iterator[GuardRuling]:
    """Calls that were refused, or went ahead with a warning; a model's texts are notes already."""
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
    """A verdict with none of our secrets in it.

    All that agents and tools wrote is clean already; names, and parts side by side, are not.
    """
    if not redact:
        return verdict
    document = to_builtins(verdict)
    shown = redact.json(document)
    return verdict if shown is document else convert(shown, Verdict)
