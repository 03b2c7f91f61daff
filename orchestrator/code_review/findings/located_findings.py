"""Located findings: the form in which agents, the journal and merging have findings."""

import re
from typing import Any, Literal

from msgspec import Struct, convert, field, to_builtins

from diffchecks.check_io import Edit, FlowStep
from orchestrator.catalog.shared_literals import Ruling, Severity
from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.verdict.document_parts import Guideline, Objection, SnippetRun
from orchestrator.code_review.verdict.model import Cause
from orchestrator.data_directories import read_table
from orchestrator.engine.field_types import UnitFloat
from orchestrator.engine.types import Json

_WEAKNESSES = read_table(__file__, "weakness_kinds.yaml")
_WEAKNESS_OF = {number: kind for kind, some in _WEAKNESSES["numbers"].items() for number in some}
_WEAKNESS_WORDS = {
    kind: re.compile(words, re.IGNORECASE) for kind, words in _WEAKNESSES["words"].items()
}


class LocatedFinding(Struct, frozen=True, kw_only=True):
    """A finding of an analyzer or an agent at lines of head, in the terms of the rule table.

    It holds no secret, so the journal may keep it.

    Attributes:
        fingerprint: equal for the same finding across runs and line moves.
        rule: the rule's id; ``CATEGORY.reported`` for an agent's finding without one.
        side: whose text ``path``, lines and quote are; base where they are removed.
        start_line, end_line: of that side, 1-based and inclusive.
        start_column: 1-based, in characters; 0: not known.
        quote: the cited text; an analyzer's is shortened and has its secrets redacted.
        because_of: the changed line that causes a finding outside of the added lines.
        cause_quote: the text of that line.
        guideline: the line of the repository's guidance on which it is based.
        steps: the data flow from a source, as taint analysis traced it.
        edits: a fix in its file that an analyzer proposes.
        patch: a fix that an agent proposes, as a unified diff against head.
        runs: snippets that its reporter ran, and whose output it quotes.
        older: its author says that base has it too.
        lowered_from: its author's severity, where it is info as one too many, or low as stopped.
        refined_because: why its author has changed it since it reported it.
    """

    fingerprint: str
    rule: str
    severity: Severity
    category: str
    cwe: tuple[int, ...] = ()
    confidence: UnitFloat
    title: str
    detail: str = ""
    fix_suggestion: str = ""
    path: str
    side: SideName = "head"
    start_line: int
    end_line: int
    start_column: int = 0
    quote: str
    because_of: Cause | None = None
    cause_quote: str = ""
    guideline: Guideline | None = None
    steps: tuple[FlowStep, ...] = ()
    edits: tuple[Edit, ...] = ()
    patch: str = ""
    runs: tuple[SnippetRun, ...] = ()
    older: bool = False
    lowered_from: Severity | None = None
    refined_because: str = ""


def names_other_weakness(one: LocatedFinding, other: LocatedFinding) -> bool:
    """Whether both findings name weaknesses, but none of the same kind."""
    kinds, others = _weakness_kinds(one), _weakness_kinds(other)
    return bool(kinds and others and not kinds & others)


def names_same_weakness(one: LocatedFinding, other: LocatedFinding) -> bool:
    """Whether two findings name weaknesses of the same kind."""
    return bool(_weakness_kinds(one) & _weakness_kinds(other))


def _weakness_kinds(finding: LocatedFinding) -> set[str | int]:
    """The kinds of its CWE numbers; without any, those that its rule or title names."""
    if finding.cwe:
        return {
            _WEAKNESS_OF.get(number, number)
            for number in finding.cwe
            if number not in _WEAKNESSES["general"]
        }
    text = f"{finding.rule.replace('-', ' ')} {finding.title}"
    return {kind for kind, words in _WEAKNESS_WORDS.items() if words.search(text)}


class ProposedFix(Struct, frozen=True):
    """A fix that a reporter proposes: edits of the finding's file, or a patch as text."""

    source: str
    path: str
    edits: tuple[Edit, ...] = ()
    patch: str = ""


class Carried(Struct, frozen=True):
    """What an earlier review recorded of a finding that is carried over.

    Attributes:
        reported_by: the agents that reported it then.
        confirmed_by: who confirmed it then.
        objections: the objections then, which did not refute it.
    """

    reported_by: tuple[str, ...]
    confirmed_by: tuple[str, ...] = ()
    objections: tuple[Objection, ...] = ()


class Verification(Struct, frozen=True):
    """What the verifier says of a claim, checked by code.

    Attributes:
        severity: that the claim had then; it says nothing of a more severe one.
        evidence: its quotations.
        duplicate_of: fingerprint of the finding that it repeats; empty: none.
    """

    verdict: Ruling
    reason: str
    severity: Severity
    evidence: tuple[str, ...] = ()
    duplicate_of: str = ""


class Rejection(Struct, frozen=True):
    """Why a finding does not count; ``cause`` is one of a verdict's."""

    cause: Literal["unverified", "outside", "older", "constant", "withdrawn", "settled"]
    reason: str


class FindingTarget(Struct, frozen=True):
    """A finding that a response can refer to.

    Attributes:
        agents: who reports it.
        proved: an analyzer reports it.
        why_rejected: empty where it counts.
        carried: an earlier review reported it.
    """

    agents: frozenset[str] = frozenset()
    proved: bool = False
    why_rejected: str = ""
    carried: bool = False


class RejectedFinding(Struct, frozen=True):
    """A finding that does not count, with the reason."""

    finding: LocatedFinding
    reason: str


class Lead(Struct, frozen=True, order=True):
    """A hit of an analyzer at a changed line under no rule: a hint for agents, no finding.

    It does not have the analyzer's message, which could contain a secret.
    """

    path: str
    line: int
    tool: str
    code: str


class AnalysisResult(Struct, frozen=True):
    """The result of one call of an analyzer's tool; the journal records it as JSON.

    Attributes:
        tool: the analyzer's name, which several tools may share; empty where it did not run.
        findings: introduced by the change.
        rejected: findings whose lines have no text to quote.
        read: the examined files that it read as code, in their language.
        given: paths of the files that the analyzer was given.
        gaps: path → why the file could not be examined.
        known_gaps: path → why, for files that it could not read in base either, or not compare with
            base's version, which does not parse.
        compares: it reads both sides itself, and does not report on which one a file is unreadable.
        error: why the analyzer failed; empty if it did not.
        facts: further results.
        leads: hits that no rule counts.
    """

    tool: str = ""
    version: str = ""
    findings: tuple[LocatedFinding, ...] = ()
    rejected: tuple[RejectedFinding, ...] = ()
    examined: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    gaps: dict[str, str] = field(default_factory=dict)
    known_gaps: dict[str, str] = field(default_factory=dict)
    compares: bool = False
    error: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    leads: tuple[Lead, ...] = ()

    def to_json(self) -> Json:
        """The form in which the journal keeps it."""
        return to_builtins(self)

    @classmethod
    def from_json(cls, data: Json) -> "AnalysisResult":
        """Read it back from the journal; None, of a call that never ran, gives an empty result."""
        return cls() if data is None else convert(data, cls)
