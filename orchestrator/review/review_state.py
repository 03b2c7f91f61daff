"""One review in progress: what the handlers of the flow share and fill in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.settings import Settings
from orchestrator.engine.agent import AgentRuntime
from orchestrator.engine.budget import Account
from orchestrator.engine.context import add_skill_tool
from orchestrator.engine.escalation import StageChange, Task
from orchestrator.engine.journal import Journal
from orchestrator.engine.judge import Scorecard
from orchestrator.engine.stop_rules import Iteration, Stop
from orchestrator.engine.tool_registry import MAX_SHOWN_TOOLS
from orchestrator.engine.types import Rubric
from orchestrator.review.findings.journal_queries import Call, Work, answers, calls, work
from orchestrator.review.findings.synthesis import Synthesis
from orchestrator.review.focus import Focus
from orchestrator.review.report_contracts import Plan
from orchestrator.review.session import Session
from orchestrator.review.tools.registry import ANALYZERS
from orchestrator.review.verdict.model import RequiredCheck


@dataclass
class Round:
    """One iteration.

    Attributes:
        answers: what a person said to the plan's questions: the question's name → the answer.
        stage_changes: agents whose work the judge scored too low for their stage → the next one.
    """

    number: int
    plan: Plan = field(default_factory=lambda: Plan(tasks=[]))
    tasks: list[Task] = field(default_factory=list)
    decision: str = ""
    answers: Mapping[str, str] = field(default_factory=dict)
    stage_changes: Mapping[str, StageChange] = field(default_factory=dict)


@dataclass
class ReviewState:
    """Everything of one review.

    Attributes:
        budget: the whole run's account.
        focus: what the present iteration looks at; shared with the lead's tools.
        notes: what a person should know of the models and the sandbox.
        waiting: agents that wait for a person, whose work has no end yet.
        closing: what the lead says at the end, empty where it says nothing.
    """

    session: Session
    catalog: Catalog
    settings: Settings
    runtime: AgentRuntime
    budget: Account
    focus: Focus
    notes: tuple[str, ...] = ()
    rounds: list[Round] = field(default_factory=list)
    history: list[Iteration] = field(default_factory=list)
    checks: list[RequiredCheck] = field(default_factory=list)
    synthesis: Synthesis = field(default_factory=Synthesis)
    scorecard: Scorecard | None = None
    stop: Stop | None = None
    waiting: list[Work] = field(default_factory=list)
    closing: str = ""

    @property
    def journal(self) -> Journal:
        """The run's journal."""
        return self.runtime.journal

    @property
    def round(self) -> Round:
        """The present iteration."""
        return self.rounds[-1]

    @property
    def rubric(self) -> Rubric:
        """What the judge scores by."""
        return self.catalog.rubrics[self.settings.rubric]

    def calls(self) -> list[Call]:
        """What the analyzers showed, over all iterations so far.

        The journal of a run that is gone on with holds later ones as well.
        """
        found = calls(self.journal, ANALYZERS.keys())
        return [call for call in found if call.iteration <= self.focus.number]

    def answers(self, *by: str) -> Callable[[str], Iterable[str]]:
        """What a tool answered so far, by its name, to those who ``act`` or ``judge``.

        The journal of a run that is gone on with holds later answers as well.
        """
        places = [f"{number}/{part}/" for number in range(1, self.focus.number + 1) for part in by]
        return partial(answers, self.journal, self.runtime.executor.nonce, places)

    def withheld(self) -> Mapping[str, tuple[str, bool]]:
        """Analyzer → why an agent that had work for it was not given it, and whether that is a gap.

        What the tool policy denies is its will, and no gap. One tool too many to be shown is.
        """
        runtime, executor = self.runtime, self.runtime.executor
        registry, policy = executor.registry, executor.policy
        found: dict[str, tuple[str, bool]] = {}
        for spec in (task.spec for done in self.rounds for task in done.tasks):
            able = add_skill_tool(spec, runtime.choose_model(spec), executor)
            shown = {tool.name for tool in registry.shown_to(able, policy)}
            for name in spec.tools:
                if name in ANALYZERS and name not in shown:
                    reason = policy.refusal(spec, registry.specs()[name])
                    most = f"{spec.name} can be shown {MAX_SHOWN_TOOLS} tools at the most"
                    found[name] = (reason, False) if reason else (most, True)
        return found

    def team(self) -> list[Work]:
        """What the specialists came to, over all iterations so far."""
        ended = [entry for entry in work(self.journal) if entry.iteration <= self.focus.number]
        return [*ended, *self.waiting]
