"""A review in progress: what it is given, and what it has found so far."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.settings import ReviewSettings
from orchestrator.catalog.verdict_policy import Waiver
from orchestrator.code_review.agent_report_contracts import ReviewPlan
from orchestrator.code_review.change.numbered_diff import FileDiffs
from orchestrator.code_review.findings.agent_reports import References, most_findings
from orchestrator.code_review.findings.carried_findings import NOTHING_HANDED_OVER, HandedOver
from orchestrator.code_review.findings.evidence_from_journal import (
    BY_CODE,
    CODE_TASK,
    AnalyzerCall,
    Work,
    analyzer_calls,
    answers,
    find_run,
)
from orchestrator.code_review.findings.located_findings import ProposedFix, Verification
from orchestrator.code_review.findings.merging import FindingReport
from orchestrator.code_review.findings.settled_places import SettledPlaces
from orchestrator.code_review.findings.verdict_findings import Synthesis
from orchestrator.code_review.policy_loading import rules_digest
from orchestrator.code_review.review_workspace import IterationFocus, ReviewWorkspace
from orchestrator.code_review.stop_rules import IterationFacts, StopDecision
from orchestrator.code_review.tools.registry import ANALYZERS
from orchestrator.code_review.verdict.document_parts import (
    AgentShare,
    Assignment,
    Fix,
    PendingApproval,
    Proof,
)
from orchestrator.code_review.verdict.model import RequiredCheck
from orchestrator.engine.agent_context import AgentRuntime
from orchestrator.engine.agent_loop import LoopResult
from orchestrator.engine.agent_tasks import StageChange, Task
from orchestrator.engine.budget import Account
from orchestrator.engine.journal import Journal
from orchestrator.engine.journal_keys import Key
from orchestrator.engine.rubric_scoring import Scorecard
from orchestrator.engine.tool_registry import MAX_SHOWN_TOOLS
from orchestrator.engine.types import AgentSpec, Json, Rubric, Skill, ToolCall, ToolResult
from orchestrator.sandbox.worker_pool import WorkerPool


@dataclass
class Iteration:
    """One iteration.

    Attributes:
        limit_raised: a limit cut it short, and a person has raised one since.
        results: of the tasks, in the order of arrival.
        planned, judged: the results of the lead and the judge; may be None.
        helpers: the results of prover, verifier, judge and fixer, in the order of their tasks.
        answers: a person's answers to the plan's questions, by the question's key.
        stage_changes: agent → the next stage, if the judge scored its work too low for its stage.
        shown: id → fingerprint of the findings that its agents were shown.
        verified: fingerprint of a report → what the verifier says of its finding.
        verdict_errors: which of the verifier's verdicts do not count, and why.
    """

    number: int
    plan: ReviewPlan = field(default_factory=lambda: ReviewPlan(tasks=[]))
    tasks: list[Task] = field(default_factory=list)
    decision: str = ""
    limit_raised: bool = False
    results: list[LoopResult] = field(default_factory=list)
    planned: LoopResult | None = None
    judged: LoopResult | None = None
    helpers: list[LoopResult] = field(default_factory=list)
    answers: Mapping[Key, str] = field(default_factory=dict)
    stage_changes: Mapping[str, StageChange] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)
    verified: Mapping[str, Verification] = field(default_factory=dict)
    verdict_errors: Sequence[str] = ()

    def key(self, part: str, agent: str = "") -> Key:
        """The journal key of a part of this iteration, or of an agent's task in it."""
        return Key(part, self.number, agent)


class ReviewInputs(Struct, frozen=True):
    """What a review is given; nothing of it changes while it runs.

    Attributes:
        budget: the whole run's account.
        pool: the worker processes of checks.
        fix_templates: paths of the files of templates of fixes.
        author_tier: the trust tier of the change's author.
        notes: what a person should know of the models and the sandbox.
        handed_over: what the previous review of the same change left open.
        patches: fingerprint of a finding → patches to prove, and no others; None: prove all that
            the review finds.
    """

    workspace: ReviewWorkspace
    catalog: Catalog
    settings: ReviewSettings
    budget: Account
    pool: WorkerPool
    fix_templates: Sequence[str]
    author_tier: str = ""
    notes: tuple[str, ...] = ()
    handed_over: HandedOver = NOTHING_HANDED_OVER
    patches: Mapping[str, tuple[ProposedFix, ...]] | None = None


class DroppedFindings(Struct, frozen=True):
    """The findings that a person drops in a fork.

    Attributes:
        iteration: the first in which they do not count; what agents of earlier ones saw is on
            record.
        again: whether the checkpoint is before it, so that the last findings are built again.
    """

    waivers: tuple[Waiver, ...]
    iteration: int
    again: bool


@dataclass
class ReviewState:
    """What a review has found so far; the handlers of the flow fill it in.

    Attributes:
        runtime: what agents share; it gets the common opening before the first of them starts.
        focus: what the present iteration looks at; shared with tools.
        tool_notes: what analyzers tell a person besides findings and gaps.
        approvals: calls that wait for a person's approval and stopped the run.
        unfinished_agents: agents that wait for a person or were cancelled, without a result.
        lead_summary: the lead's summary at the end; may be empty.
        summary_note: why the lead has given none, or what of it was left out; may be empty.
        assignment: which agent reviews which files; None offline.
        packs: agent → the knowledge packs that its model is shown.
        seams: agent → what its files and those of others of its role share.
        diffs: the numbered diffs of the changed files, once they were asked for; see
            ``reviewer_assignment.diffs_by_path``.
        not_in_opening: the numbered diffs that the common opening has no room for, by path.
        carried: the claims in ``handed_over`` that still apply to this change.
        settled: the lines that a previous review has settled; None: none.
        why_unsettled: why none are settled; empty if no model takes part.
        fixes: fingerprint of a finding → the best patch for it so far.
        proofs: fingerprint of a finding → how its tests ended.
        proof_note: why no finding was proven by a test although some could be; may be empty.
        verifier_note: why claims were not verified; may be empty.
        written: fingerprint of a finding → patches that were given or that the fixer wrote for it.
        dropped: what a person drops in a fork, and in the forks that it comes from.
    """

    given: ReviewInputs
    runtime: AgentRuntime
    focus: IterationFocus
    tool_notes: Sequence[str] = ()
    iterations: list[Iteration] = field(default_factory=list)
    history: list[IterationFacts] = field(default_factory=list)
    checks: list[RequiredCheck] = field(default_factory=list)
    synthesis: Synthesis = field(default_factory=Synthesis)
    scorecard: Scorecard | None = None
    stop: StopDecision | None = None
    approvals: tuple[PendingApproval, ...] = ()
    unfinished_agents: list[Work] = field(default_factory=list)
    lead_summary: str = ""
    summary_note: str = ""
    assignment: Assignment | None = None
    packs: dict[str, tuple[Skill, ...]] = field(default_factory=dict)
    seams: Mapping[str, Sequence[str]] = field(default_factory=dict)
    diffs: FileDiffs | None = None
    not_in_opening: FileDiffs = field(default_factory=dict)
    carried: Sequence[FindingReport] = ()
    settled: SettledPlaces | None = None
    why_unsettled: str = ""
    fixes: dict[str, Fix] = field(default_factory=dict)
    written: dict[str, tuple[ProposedFix, ...]] = field(default_factory=dict)
    dropped: Sequence[DroppedFindings] = ()
    proofs: dict[str, tuple[Proof, ...]] = field(default_factory=dict)
    proof_note: str = ""
    verifier_note: str = ""

    @property
    def journal(self) -> Journal:
        """The run's journal."""
        return self.runtime.journal

    @property
    def iteration(self) -> Iteration:
        """The present iteration."""
        return self.iterations[-1]

    @property
    def rubric(self) -> Rubric:
        """What the judge scores by."""
        return self.given.catalog.rubrics[self.given.settings.rubric]

    @property
    def examiners(self) -> Sequence[str]:
        """Names of the agents that examine the change."""
        settings = self.given.settings
        if self.pattern == "auto":
            return tuple(dict.fromkeys((*settings.specialists, settings.single)))
        if self.shares:
            return tuple(share.agent for share in self.shares)
        return (settings.single,) if self.pattern == "single" else settings.specialists

    @property
    def pattern(self) -> str:
        """``team`` or ``single``; ``auto`` until code has decided. Offline, auto means a team."""
        if self.assignment is not None:
            return self.assignment.pattern
        chosen = self.given.settings.pattern
        return "team" if chosen == "auto" and not self.given.settings.has_model else chosen

    @property
    def is_led(self) -> bool:
        """Whether a lead plans: of a team that reads beside the single agent, code does."""
        return self.pattern == "team" and self.given.settings.single not in self.focus.shares

    @property
    def is_led_by_model(self) -> bool:
        """Whether a model leads the review and can write its summary."""
        return self.is_led and self.given.settings.has_model

    @property
    def beside(self) -> Sequence[str]:
        """The specialists that read beside the single agent, which reads the whole change."""
        settings, shares = self.given.settings, self.focus.shares
        return [name for name in settings.auto.beside if {name, settings.single} <= shares.keys()]

    @property
    def is_trivial(self) -> bool:
        """Whether one agent reviews a change of the tier ``trivial`` in one short call."""
        return self.assignment is not None and self.assignment.tier == "trivial"

    @property
    def shares(self) -> Sequence[AgentShare]:
        """The files that code assigned to each agent; empty if the lead assigns them."""
        return self.assignment.shares if self.assignment is not None else ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person is told of the change besides findings and gaps."""
        optional = filter(None, [self.proof_note, self.verifier_note])
        return (*self.given.workspace.change.notes, *self.tool_notes, *optional)

    def agent(self, name: str) -> AgentSpec:
        """An agent of the catalog, or one of several that share its role.

        The single agent of a team leaves their playbooks to those beside it.
        """
        role = next((share.role for share in self.shares if share.agent == name), name)
        agents = self.given.catalog.agents
        spec = agents[role]
        if name == self.given.settings.single:
            beside = [agents[one.role] for one in self.shares if one.agent != name]
            theirs = {skill.name for one in beside for skill in one.skills}
            return replace(spec, skills=tuple(s for s in spec.skills if s.name not in theirs))
        return spec if role == name else replace(spec, name=name, role=role)

    def calls(self) -> list[AnalyzerCall]:
        """The analyzers' calls in all iterations so far."""
        return [
            call
            for done in self.iterations
            for call in analyzer_calls(
                self.journal,
                self.runtime.executor.nonce,
                done.number,
                [
                    *(task.key for task in done.tasks),
                    *(done.key("analysis", agent) for agent in (BY_CODE, *self.examiners)),
                ],
                ANALYZERS.keys(),
            )
        ]

    def answers(self) -> Callable[[str], Iterable[str]]:
        """What a tool answered the specialists and the judge so far, by its name."""
        tasks = [task.key for done in self.iterations for task in done.tasks]
        tasks += [CODE_TASK, *(done.key("judge") for done in self.iterations)]
        return partial(answers, self.journal, self.runtime.executor.nonce, tasks)

    async def call_tool(
        self, spec: AgentSpec, key: Key, arguments: Mapping[str, Json]
    ) -> ToolResult:
        """Have code call the tool that a key names; the executor journals it like any call."""
        call = ToolCall(str(key), key.tool, arguments)
        return await self.runtime.executor.call(spec, call, key, self.given.budget)

    def references(self, ids: Mapping[str, str]) -> References:
        """What the ids in the reports so far refer to, and what the verifier says of them.

        Args:
            ids: fingerprint → the id that a finding keeps.
        """
        verified = {name: one for done in self.iterations for name, one in done.verified.items()}
        shown = {done.number: done.shown for done in self.iterations}
        run_of, settled = partial(find_run, self.journal, self.runtime.executor.nonce), self.settled
        found = References(shown, verified, ids, self.carried, run_of=run_of)
        found = replace(found, family_of=self.family_of, most=self.most_findings)
        return replace(found, why_settled=settled.why_settled) if settled else found

    @property
    def most_findings(self) -> int:
        """How many findings above ``info`` an agent may report."""
        given = self.assignment
        parts = [share.tokens for share in given.shares] if given else []
        return most_findings(parts or [given.tokens if given else 0])

    def family_of(self, agent: str) -> str:
        """The provider that answered for an agent; the review's own of one that takes no part."""
        known = {share.agent: share.role for share in self.shares}
        spec = self.given.catalog.agents.get(known.get(agent, agent))
        own, split = self.given.settings.provider, self.given.catalog.models.split
        stages = [one.result.stage for one in self.team() if one.result.agent == agent]
        replaced = split(stages[-1])[0] if stages else ""
        return replaced or (split(spec.model, own)[0] if spec else own)

    @property
    def policy_digests(self) -> dict[str, str]:
        """SHA-256 digests of what the review goes by, by name."""
        rules = rules_digest(self.given.workspace.rules)
        return dict(sorted({**self.given.catalog.digests, "config/rules": rules}.items()))

    def withheld(self) -> Mapping[str, tuple[str, bool]]:
        """Analyzer → why an agent that had work for it was not given it, and whether that is a gap.

        A tool that the tool policy denies is no gap. A tool that no playbook names and that exceeds
        the number that can be shown is one.
        """
        registry, policy = self.runtime.executor.registry, self.runtime.executor.policy
        found: dict[str, tuple[str, bool]] = {}
        for spec in (task.spec for done in self.iterations for task in done.tasks):
            named = frozenset[str]().union(*(one.tools for one in self.agent(spec.name).skills))
            shown, count = set[str](), -1
            while len(shown) > count:
                count = len(shown)
                shown |= {
                    tool.name for tool in registry.tools_for_task(spec, policy, shown & named)
                }
            for name in spec.tools:
                if name in ANALYZERS and name not in shown:
                    reason = policy.refusal(spec, registry.specs()[name])
                    most = f"{spec.name} can be shown {MAX_SHOWN_TOOLS} tools at the most"
                    found[name] = (reason, False) if reason else (most, True)
        return found

    def team(self) -> list[Work]:
        """The specialists' results in all iterations so far, by iteration and name."""
        ended = [
            Work(done.number, result)
            for done in self.iterations
            for result in sorted(done.results, key=lambda result: result.agent)
        ]
        return [*ended, *self.unfinished_agents]
