"""The parts of a verdict: of findings, agents, reading depth, policy and the previous review.

``descriptions.yaml`` says what their fields mean.
"""

from typing import Annotated, Literal

from msgspec import Meta, field
from msgspec.structs import replace

from orchestrator.catalog.effort import Tier
from orchestrator.catalog.shared_literals import Outcome, Severity
from orchestrator.engine.field_types import Strict, UnitFloat
from orchestrator.engine.text_guards import Action

TEMPLATE = "template"
"""The source of a patch that a rule's template made."""

FixState = Literal["verified", "applies", "refused"]
ProofState = Literal["reproduced", "not_introduced", "inconclusive"]
BASE_FAILS = "base fails its test too"
NEARBY = "that the cited lines cause it, and not others of their function"
DOUBTED = "that what fails is the harm claimed, which the verifier denies"
UNTIED = "that the cited lines alone cause it, since they cannot be taken back on their own"


class Reported(Strict, frozen=True):
    """The report of one reporter of a finding that several reported."""

    by: str
    proved: bool
    severity: Severity
    confidence: UnitFloat
    title: str
    detail: str = ""
    path: str = ""
    start_line: Annotated[int, Meta(ge=0)] = 0
    reason: str = ""


class Objection(Strict, frozen=True):
    """An argument by an agent or the verifier that a finding is not a defect."""

    by: str
    reason: str
    evidence: tuple[str, ...]
    why_not: str
    refutes: bool = False
    earlier: bool = False


class Remark(Strict, frozen=True):
    """Why the verifier confirms a finding or cannot tell, or why its author changed it.

    Attributes:
        action: ``limits``: it is true, and other code, or what the author wants, bounds the harm.
        evidence: the quotations that show it.
    """

    by: str
    action: Literal["confirms", "cannot tell of", "limits", "refined"]
    reason: str
    evidence: tuple[str, ...] = ()


class SnippetRun(Strict, frozen=True):
    """A snippet that its reporter ran, and what that printed; ``call`` is its journal key."""

    call: str
    code: str
    output: str


class Guideline(Strict, frozen=True):
    """A line of the repository's own guidance in base that a finding says is violated."""

    path: str
    line: Annotated[int, Meta(ge=1)]
    quote: str


class FindingContext(Strict, frozen=True):
    """The code around a finding; a dismissal applies as long as it is unchanged."""

    lines: str
    flow: str = ""
    scope: str = ""
    start_line: Annotated[int, Meta(ge=1)] = 1
    end_line: Annotated[int, Meta(ge=1)] = 1


class Fix(Strict, frozen=True, kw_only=True):
    """A patch for one finding. Code decides its state, not a model."""

    state: FixState
    patch: str
    source: str
    proved_by: tuple[str, ...] = ()
    reason: str = ""
    excludes: tuple[str, ...] = ()

    @property
    def is_verified(self) -> bool:
        """Whether it is proven that the finding is gone with it."""
        return self.state == "verified"


class Proof(Strict, frozen=True, kw_only=True):
    """A test of one claim of a finding, run on base and on head. Code decides its state."""

    state: ProofState
    claim: str
    path: str
    test: str
    command: tuple[str, ...]
    oracle: Literal["base", "same"] = "base"
    exception: str
    value: str
    base: str = ""
    head: str = ""
    versions: str = ""
    reason: str = ""
    not_shown: str = ""

    @property
    def is_reproduced(self) -> bool:
        """Whether it proves its claim."""
        return self.state == "reproduced"

    def without(self, *claims: str) -> "Proof":
        """It, which does not show these either."""
        parts = dict.fromkeys(filter(None, (self.not_shown.strip(), *claims)))
        return replace(self, not_shown="; ".join(parts)[:300])

    @property
    def shows_a_part(self) -> bool:
        """Whether it proves a claim, but not all that the finding says."""
        return self.is_reproduced and self.not_shown.strip() not in {"", UNTIED}

    @property
    def whole_claim(self) -> str:
        """Its claim, and what it does not show."""
        rest = self.not_shown.strip()
        return f"{self.claim.rstrip('.')}; it does not show: {rest}" if rest else self.claim


class AgentShare(Strict, frozen=True):
    """The files assigned to one agent."""

    agent: str
    role: str
    tokens: Annotated[int, Meta(ge=0)]
    paths: tuple[str, ...]


class Assignment(Strict, frozen=True):
    """How many agents reviewed the change, and why."""

    pattern: Literal["team", "single"]
    auto: bool
    tokens: Annotated[int, Meta(ge=0)]
    bound: Annotated[int, Meta(ge=1)]
    reason: str
    tier: Tier = "ordinary"
    tier_reasons: tuple[str, ...] = ()
    shares: tuple[AgentShare, ...] = ()
    packs: dict[str, tuple[str, ...]] = field(default_factory=dict)


def describe_tier(assignment: Assignment) -> str:
    """``ordinary (24 changed lines)``: the tier of a change and its reasons."""
    return f"{assignment.tier} ({'; '.join(assignment.tier_reasons)})"


class RuledOut(Strict, frozen=True):
    """A question that an agent looked into and that led to no finding."""

    path: str
    question: str
    why: str


class AgentReport(Strict, frozen=True):
    """The report of one agent."""

    agent: str
    iteration: Annotated[int, Meta(ge=1)]
    status: Literal["ok", "failed", "timeout", "budget", "skipped", "waiting", "cancelled"]
    summary: str = ""
    findings: tuple[str, ...] = ()
    checked: Annotated[int, Meta(ge=0)] = 0
    gaps: tuple[str, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    notes: tuple[str, ...] = ()
    turns: Annotated[int, Meta(ge=0)] = 0
    tool_calls: Annotated[int, Meta(ge=0)] = 0


class VerdictIteration(Strict, frozen=True):
    """One iteration from Plan to Evaluate."""

    number: Annotated[int, Meta(ge=1)]
    score: UnitFloat | None
    new_findings: int
    new_evidence: int
    gaps: int
    decision: str
    limit_raised: bool = False


class Escalation(Strict, frozen=True):
    """A move of an agent to its next escalation stage, and why."""

    agent: str
    iteration: Annotated[int, Meta(ge=1)]
    from_stage: str
    to_stage: str
    why: str


class HumanQuestion(Strict, frozen=True):
    """A question to a person; the run waits until it is answered."""

    name: str
    agent: str
    question: str
    answer: str = ""
    answered_by: str = ""
    answered_at: str = ""


class PendingApproval(Strict, frozen=True):
    """A tool call that a person must approve or deny before the run continues."""

    approval: str
    call: str
    agent: str
    tool: str
    arguments: str
    level: str


Depth = Literal["code", "text", "none"]
"""How a file was read: as code in its language, as plain text, or not at all."""


class HunkReaders(Strict, frozen=True):
    """A hunk of the change, and the agents with a model that read all of it."""

    first: Annotated[int, Meta(ge=1)]
    last: Annotated[int, Meta(ge=1)]
    side: Literal["head", "base"]
    read_by: tuple[str, ...]


class Checked(Strict, frozen=True):
    """A changed file, and what examined it."""

    path: str
    by: tuple[str, ...]
    tool_calls: tuple[str, ...]
    depth: Depth = "text"
    template: str = ""
    read_by: tuple[str, ...] = ()
    hunks: tuple[HunkReaders, ...] = ()


class DepthCounts(Strict, frozen=True):
    """The number of changed files read at each depth."""

    code: Annotated[int, Meta(ge=0)] = 0
    text: Annotated[int, Meta(ge=0)] = 0
    none: Annotated[int, Meta(ge=0)] = 0
    share_as_code: UnitFloat = 1.0
    hunks: Annotated[int, Meta(ge=0)] = 0
    unread_hunks: Annotated[int, Meta(ge=0)] = 0


WaiverState = Literal["used", "expired", "unmatched"]
MemoryEffect = Literal[
    "dismissed", "reopened", "lowered", "cited", "unnamed", "expired", "unmatched"
]


class WaiverUse(Strict, frozen=True):
    """A waiver that matches a finding, has expired, or matches no file."""

    state: WaiverState
    name: str
    paths: tuple[str, ...]
    why: str
    by: str = ""
    until: str = ""
    findings: tuple[str, ...] = ()


class MemoryUse(Strict, frozen=True, kw_only=True):
    """An entry of the repository's memory in base, and its effect on this review."""

    file: str
    entry: str
    effect: MemoryEffect
    why: str = ""
    by: str = ""
    until: str = ""
    findings: tuple[str, ...] = ()


class GuidanceFile(Strict, frozen=True):
    """A guidance file of the repository in base that agents were shown as data."""

    path: str
    applies_to: str
    lines: Annotated[int, Meta(ge=0)]
    shown: Annotated[int, Meta(ge=0)]
    sha256: str
    why_not: str = ""


class GuardRuling(Strict, frozen=True):
    """An action that a guard took."""

    layer: str
    guard: str
    action: Action
    agent: str
    reason: str
    count: Annotated[int, Meta(ge=1)] = 1


class Override(Strict, frozen=True):
    """A person's decision against the computed outcome, for this head only."""

    verdict: Outcome
    head: str
    by: str
    at: str
    reason: str


SincePrevious = Literal["", "new", "open", "reopened"]
"""The state of a finding; empty if no previous review is known."""


class PreviousFinding(Strict, frozen=True):
    """A finding that was open in the previous review and is not in this one."""

    fingerprint: str
    severity: Severity
    rule: str
    title: str
    path: str
    start_line: Annotated[int, Meta(ge=1)]

    @property
    def counted_as(self) -> str:
        """What it is counted under: its rule, or its title where an agent named none."""
        return self.title if self.rule.endswith(".reported") else self.rule


class PassedReview(Strict, frozen=True):
    """A complete review of the same change, and what its agents read."""

    head: str
    base: str
    policy: str
    read: tuple[str, ...]


class PreviousReview(Strict, frozen=True, kw_only=True):
    """The earlier review of the same change, at another head, with which this one is compared."""

    run_id: str
    head: str
    status: Literal["complete", "incomplete"]
    fixed: tuple[PreviousFinding, ...] = ()
    not_reported: tuple[PreviousFinding, ...] = ()
    fixed_before: tuple[str, ...] = ()
    passed: PassedReview | None = None
    settles_nothing: str = ""
