"""The parts of a verdict: of findings, agents, reading depth, policy and the previous review."""

from typing import Annotated, Literal

from msgspec import Meta, field

from orchestrator.catalog.effort import Tier
from orchestrator.catalog.shared_literals import Outcome, Severity
from orchestrator.engine.field_types import Strict, UnitFloat
from orchestrator.engine.text_guards import Action

TEMPLATE = "template"
"""The source of a patch that a rule's template made."""

FixState = Literal["verified", "applies", "refused"]
ProofState = Literal["reproduced", "not_introduced", "inconclusive"]


class Reported(Strict, frozen=True):
    """The report of one reporter of a finding that several reported."""

    by: str
    proved: Annotated[bool, Meta(description="true: reported by an analyzer")]
    severity: Severity
    confidence: UnitFloat
    title: str
    detail: str = ""
    path: Annotated[str, Meta(description="its file; empty: the lines of the finding")] = ""
    start_line: Annotated[int, Meta(ge=0, description="in path; 0: the lines of the finding")] = 0
    reason: Annotated[str, Meta(description="why it confirms or refines the finding")] = ""


class Objection(Strict, frozen=True):
    """An argument by an agent or the verifier that a finding is not a defect."""

    by: str
    reason: str
    evidence: Annotated[tuple[str, ...], Meta(description="quotations with their sources")]
    why_not: Annotated[
        str, Meta(description="why the finding still counts; empty: the finding is set aside")
    ]
    refutes: Annotated[
        bool,
        Meta(
            description="true: its evidence was verified, so a finding that only agents "
            "report cannot block; false: its evidence is invalid"
        ),
    ] = False
    earlier: Annotated[
        bool, Meta(description="true: raised in an earlier review of this change")
    ] = False


class Remark(Strict, frozen=True):
    """Why the verifier confirms a finding or cannot tell, or why its author changed it."""

    by: str
    action: Literal["confirms", "cannot tell of", "refined"]
    reason: str


class Guideline(Strict, frozen=True):
    """A line of the repository's own guidance in base that a finding says is violated."""

    path: Annotated[str, Meta(description="path of the guidance file")]
    line: Annotated[int, Meta(ge=1)]
    quote: Annotated[str, Meta(description="verbatim text of that line")]


class FindingContext(Strict, frozen=True):
    """The code around a finding; a dismissal applies as long as it is unchanged."""

    lines: Annotated[
        str, Meta(description="digest of its function, or of the surrounding lines; 16 hex digits")
    ]
    flow: Annotated[
        str, Meta(description="digest of lines elsewhere that lead to it; empty: none")
    ] = ""
    scope: Annotated[str, Meta(description="the first line of its function; empty: none")] = ""
    start_line: Annotated[int, Meta(ge=1)] = 1
    end_line: Annotated[int, Meta(ge=1)] = 1


class Fix(Strict, frozen=True, kw_only=True):
    """A patch for one finding. Code decides its state, not a model."""

    state: Annotated[
        FixState,
        Meta(
            description="verified: with the patch, the analyzers that reported the finding "
            "no longer report it, and report nothing new; applies: they report nothing "
            "new, but cannot tell whether the finding is gone; refused: do not use it, see "
            "reason"
        ),
    ]
    patch: Annotated[str, Meta(description="a unified diff against head")]
    source: Annotated[str, Meta(description="the analyzer or agent that proposed it, or template")]
    proved_by: Annotated[
        tuple[str, ...], Meta(description="the tools that ran on head with the patch")
    ] = ()
    reason: Annotated[str, Meta(description="why it is refused, or why it is not verified")] = ""
    excludes: Annotated[
        tuple[str, ...], Meta(description="ids of findings whose patch conflicts with this one")
    ] = ()

    @property
    def is_verified(self) -> bool:
        """Whether it is proven that the finding is gone with it."""
        return self.state == "verified"


class Proof(Strict, frozen=True, kw_only=True):
    """A test of one claim of a finding, run on base and on head. Code decides its state."""

    state: Annotated[
        ProofState,
        Meta(
            description="reproduced: base passes the test and head fails it as was predicted, "
            "twice; not_introduced: base fails it in the same way; inconclusive: anything "
            "else, see reason; that refutes nothing"
        ),
    ]
    claim: Annotated[str, Meta(description="what the test shows, in one sentence")]
    path: Annotated[str, Meta(description="where the test goes in the repository")]
    test: Annotated[str, Meta(description="the text of the test file")]
    command: Annotated[tuple[str, ...], Meta(description="runs it, in the repository's directory")]
    oracle: Annotated[
        Literal["base", "same"],
        Meta(
            description="base: base passes it; same: base lacks the feature, and the test "
            "compares two ways of head that have to agree"
        ),
    ] = "base"
    exception: Annotated[str, Meta(description="with which head was predicted to fail")]
    value: Annotated[str, Meta(description="text predicted in the message of that failure")]
    base: Annotated[str, Meta(description="the end of what its run on base printed")] = ""
    head: Annotated[str, Meta(description="the end of what its run on head printed")] = ""
    versions: Annotated[str, Meta(description="of the programs that ran it; empty: unknown")] = ""
    reason: Annotated[str, Meta(description="why it is not reproduced")] = ""

    @property
    def is_reproduced(self) -> bool:
        """Whether it proves its claim."""
        return self.state == "reproduced"


class AgentShare(Strict, frozen=True):
    """The files assigned to one agent."""

    agent: str
    role: Annotated[str, Meta(description="the agent definition whose prompt and tools it uses")]
    tokens: Annotated[int, Meta(ge=0, description="of the numbered diff of its files")]
    paths: tuple[str, ...]


class Assignment(Strict, frozen=True):
    """How many agents reviewed the change, and why."""

    pattern: Literal["team", "single"]
    auto: Annotated[bool, Meta(description="true: code chose the pattern, by the tier")]
    tokens: Annotated[
        int, Meta(ge=0, description="of the numbered diff and the analyzers' findings")
    ]
    bound: Annotated[int, Meta(ge=1, description="tokens that one agent reads at once")]
    reason: str
    tier: Annotated[
        Tier,
        Meta(
            description="trivial: one short call by one agent, not judged; ordinary: one agent and "
            "a judge; risky: the specialists. Claims are verified and proven in each"
        ),
    ] = "ordinary"
    tier_reasons: tuple[str, ...] = ()
    shares: Annotated[
        tuple[AgentShare, ...],
        Meta(description="assigned by code; empty: the lead assigned the files"),
    ] = ()
    packs: Annotated[
        dict[str, tuple[str, ...]],
        Meta(description="the knowledge packs that code chose for each agent"),
    ] = field(default_factory=dict)


def describe_tier(assignment: Assignment) -> str:
    """``ordinary (24 changed lines)``: the tier of a change and its reasons."""
    return f"{assignment.tier} ({'; '.join(assignment.tier_reasons)})"


class RuledOut(Strict, frozen=True):
    """A question that an agent looked into and that led to no finding."""

    path: str
    question: str
    why: Annotated[str, Meta(description="why it is no defect")]


class AgentReport(Strict, frozen=True):
    """The report of one agent."""

    agent: str
    iteration: Annotated[int, Meta(ge=1)]
    status: Literal["ok", "failed", "timeout", "budget", "skipped", "waiting", "cancelled"]
    summary: str = ""
    findings: Annotated[tuple[str, ...], Meta(description="ids of the findings it reported")] = ()
    checked: Annotated[int, Meta(ge=0, description="number of files that it examined")] = 0
    gaps: tuple[str, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    notes: Annotated[
        tuple[str, ...], Meta(description="parts of its report that do not count, and why")
    ] = ()
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


class Escalation(Strict, frozen=True):
    """A move of an agent to its next escalation stage, and why."""

    agent: str
    iteration: Annotated[int, Meta(ge=1)]
    from_stage: Annotated[str, Meta(description="the previous stage, or provider:stage")]
    to_stage: Annotated[str, Meta(description="the next stage; human: a person")]
    why: str


class HumanQuestion(Strict, frozen=True):
    """A question to a person; the run waits until it is answered."""

    name: Annotated[str, Meta(description="the name for diffcourt resume --to")]
    agent: str
    question: str
    answer: str = ""
    answered_by: str = ""
    answered_at: Annotated[str, Meta(description="ISO 8601, UTC")] = ""


class PendingApproval(Strict, frozen=True):
    """A tool call that a person must approve or deny before the run continues."""

    approval: Annotated[str, Meta(description="the id for diffcourt approve and deny")]
    call: str
    agent: str
    tool: str
    arguments: Annotated[str, Meta(description="JSON, without secrets")]
    level: str


Depth = Literal["code", "text", "none"]
"""How a file was read: as code in its language, as plain text, or not at all."""


class HunkReaders(Strict, frozen=True):
    """A hunk of the change, and the agents with a model that read all of it."""

    first: Annotated[int, Meta(ge=1, description="the first line that it adds")]
    last: Annotated[int, Meta(ge=1, description="the last line that it adds")]
    side: Annotated[
        Literal["head", "base"],
        Meta(description="base: the hunk adds no lines; first and last are lines that it removes"),
    ]
    read_by: Annotated[
        tuple[str, ...], Meta(description="empty: only analyzers read it, see by of the file")
    ]


class Checked(Strict, frozen=True):
    """A changed file, and what examined it."""

    path: str
    by: tuple[str, ...]
    tool_calls: Annotated[tuple[str, ...], Meta(description="ids in calls")]
    depth: Annotated[
        Depth,
        Meta(
            description="code: an analyzer for its language or an agent read it; text: it "
            "was only searched for secrets, invisible characters and the like. A file that "
            "was not read is only in skipped"
        ),
    ] = "text"
    template: Annotated[
        str, Meta(description="the kind of template, by the file name; empty: none")
    ] = ""
    read_by: Annotated[
        tuple[str, ...],
        Meta(
            description="agents with a model that were shown its diff, or called read_file "
            "or git_diff for it, and finished with a report"
        ),
    ] = ()
    hunks: Annotated[
        tuple[HunkReaders, ...],
        Meta(description="only in a review with a model, for files that its agents review"),
    ] = ()


class DepthCounts(Strict, frozen=True):
    """The number of changed files read at each depth."""

    code: Annotated[int, Meta(ge=0)] = 0
    text: Annotated[int, Meta(ge=0)] = 0
    none: Annotated[int, Meta(ge=0)] = 0
    share_as_code: Annotated[
        UnitFloat,
        Meta(
            description="share of the changed lines in files read as code; each file "
            "counts as at least one line"
        ),
    ] = 1.0
    hunks: Annotated[int, Meta(ge=0, description="number of hunks in checked; offline 0")] = 0
    unread_hunks: Annotated[
        int, Meta(ge=0, description="number of hunks that no agent read completely")
    ] = 0


WaiverState = Literal["used", "expired", "unmatched"]
MemoryEffect = Literal[
    "dismissed", "reopened", "lowered", "cited", "unnamed", "expired", "unmatched"
]


class WaiverUse(Strict, frozen=True):
    """A waiver that matches a finding, has expired, or matches no file."""

    state: Annotated[WaiverState, Meta(description="unmatched: it applies to no file of head")]
    name: Annotated[str, Meta(description="its rule or fingerprint")]
    paths: tuple[str, ...]
    why: str
    by: Annotated[
        str, Meta(description="the person who accepted the findings; empty: not named")
    ] = ""
    until: Annotated[str, Meta(description="its last day; empty: it does not expire")] = ""
    findings: Annotated[
        tuple[str, ...], Meta(description="ids of the findings that it matches")
    ] = ()


class MemoryUse(Strict, frozen=True, kw_only=True):
    """An entry of the repository's memory in base, and its effect on this review."""

    file: str
    entry: Annotated[str, Meta(description="a fingerprint, a rule, or the text of a line")]
    effect: Annotated[
        MemoryEffect,
        Meta(
            description="dismissed: findings are waived; reopened: the dismissed code has "
            "changed, so the finding is open; lowered: findings have less weight; cited: "
            "findings cite the line; unnamed: the findings are critical, which needs a "
            "person's name; expired: its last day has passed; unmatched: head has no such "
            "file"
        ),
    ]
    why: str = ""
    by: Annotated[str, Meta(description="the person who dismissed it or added the entry")] = ""
    until: Annotated[str, Meta(description="its last day; empty: it does not expire")] = ""
    findings: Annotated[
        tuple[str, ...], Meta(description="ids of the findings that it applies to")
    ] = ()


class GuidanceFile(Strict, frozen=True):
    """A guidance file of the repository in base that agents were shown as data."""

    path: str
    applies_to: Annotated[str, Meta(description="globs or a directory; empty: the whole change")]
    lines: Annotated[int, Meta(ge=0)]
    shown: Annotated[int, Meta(ge=0, description="number of lines that agents were shown")]
    sha256: str
    why_not: Annotated[str, Meta(description="why some or all lines were not shown")] = ""


class GuardRuling(Strict, frozen=True):
    """An action that a guard took."""

    layer: Annotated[str, Meta(description="input, tool or output")]
    guard: str
    action: Action
    agent: str
    reason: str
    count: Annotated[int, Meta(ge=1, description="how often")] = 1


class Override(Strict, frozen=True):
    """A person's decision against the computed outcome, for this head only."""

    verdict: Outcome
    head: Annotated[str, Meta(description="the head commit that it applies to")]
    by: Annotated[str, Meta(description="the operating system's user, and the name that CI gives")]
    at: Annotated[str, Meta(description="ISO 8601, in UTC")]
    reason: str


SincePrevious = Literal["", "new", "open", "reopened"]
"""The state of a finding; empty if no previous review is known."""


class PreviousFinding(Strict, frozen=True):
    """A finding that was open in the previous review and is not in this one."""

    fingerprint: str
    severity: Severity
    rule: str
    title: str
    path: Annotated[str, Meta(description="path and start_line are those of the previous review")]
    start_line: Annotated[int, Meta(ge=1)]


class PassedReview(Strict, frozen=True):
    """A complete review of the same change, and what its agents read."""

    head: str
    base: str
    policy: Annotated[str, Meta(description="SHA-256 of its provenance's digests")]
    read: Annotated[tuple[str, ...], Meta(description="the changed files that agents read")]


class PreviousReview(Strict, frozen=True, kw_only=True):
    """The earlier review of the same change, at another head, with which this one is compared."""

    run_id: str
    head: Annotated[str, Meta(description="the head that it reviewed")]
    status: Literal["complete", "incomplete"]
    fixed: Annotated[
        tuple[PreviousFinding, ...],
        Meta(description="the cited text is gone, and the file was examined again"),
    ] = ()
    not_reported: Annotated[
        tuple[PreviousFinding, ...],
        Meta(description="the cited text is still there, or the file was not examined"),
    ] = ()
    fixed_before: Annotated[
        tuple[str, ...], Meta(description="fingerprints of findings fixed in any review so far")
    ] = ()
    passed: Annotated[
        PassedReview | None,
        Meta(
            description="this review, or the newest complete one before it: on unchanged "
            "lines that agents read in it, they report only findings at high or above; "
            "null: none"
        ),
    ] = None
    settles_nothing: Annotated[
        str,
        Meta(
            description="why this review settles no lines; empty: it settles the "
            "lines that agents read"
        ),
    ] = ""
