"""The verifier: an agent that did not make a claim, and confirms or refutes it by quotations.

It has one request for all claims. It is shown place, claim, code and what the author says, and not
the finder's argument, confidence, severity or name. Code decides what its verdicts are worth.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain, product, zip_longest

from msgspec import Struct
from msgspec.structs import replace

from diffchecks.path_kinds import is_code
from orchestrator.catalog.shared_literals import Severity, is_as_severe
from orchestrator.code_review.agent_report_contracts import VerifierReport, as_form
from orchestrator.code_review.agents.briefs import (
    MIN_SEVERITY,
    Span,
    ask_about,
    number_runs,
    severe_findings,
    spans_around,
)
from orchestrator.code_review.agents.files_read import lines_looked_up
from orchestrator.code_review.agents.names_across_files import TELLING, defined_in
from orchestrator.code_review.agents.participants import has_verifier, named_vendors
from orchestrator.code_review.agents.prover import LINES_AROUND
from orchestrator.code_review.change.contents import SIDES, SideName
from orchestrator.code_review.change.history import author_says
from orchestrator.code_review.findings.agent_reports import MAX_DETAIL, shorten
from orchestrator.code_review.findings.citations import read_lines
from orchestrator.code_review.findings.finding_context import find_block
from orchestrator.code_review.findings.located_findings import Verification
from orchestrator.code_review.findings.verification import (
    AUTHOR_SAYS,
    as_evidence,
    as_lines,
    check_verdicts,
    telling_names,
)
from orchestrator.code_review.review_state import ReviewState
from orchestrator.code_review.verdict.decision import outcome_of
from orchestrator.code_review.verdict.model import Finding
from orchestrator.engine.types import AgentSpec

MAX_CHARACTERS, MAX_OF_ALL = 6_000, 18_000
"""For one finding, and for all."""

MAX_WEAKER = 5
"""How many times less than the best block for a finding another may have in common with it."""

MAX_WHOLE = 40
"""Lines of a function that is shown whole; of a longer one, those around the names."""

RARE, NEAR, NEAR_COMMON = 6, 5, 2
"""Blocks that have a rare name; lines around it in a longer function, and around another name."""

_NAMED = re.compile(rf"{TELLING.pattern}|(?<![\w.])\w{{3,}}(?=[(`])")
"""What prose calls a function of its own: no plain word, and no method of another object."""


class _Block(Struct, frozen=True):
    """A function, or lines outside of functions, and the names in each of its lines.

    Attributes:
        name: the function's; empty outside of functions.
    """

    path: str
    side: SideName
    name: str
    first: int
    lines: Sequence[str]
    names: Sequence[Set[str]]

    @property
    def all_names(self) -> Set[str]:
        return frozenset[str]().union(*self.names)

    def near(self, wanted: Mapping[str, int]) -> set[int]:
        """The numbers of a short block's lines; of a longer one's first, and those near names."""
        numbers = range(self.first, self.first + len(self.lines))
        if len(numbers) <= MAX_WHOLE:
            return {*numbers}
        widths = (max((wanted.get(name, -1) for name in names), default=-1) for names in self.names)
        around = (range(at - most, at + most + 1) for at, most in zip(numbers, widths, strict=True))
        return ({*chain.from_iterable(around)} & {*numbers}) | {*numbers[: bool(self.name)]}


async def choose_looked_up(
    state: ReviewState, findings: Sequence[Finding], around: int
) -> list[Span]:
    """What concerns the findings in what agents read and in the change's files, best by turns.

    A verifier would look most of it up again. It is chosen by the names in a claim and its
    argument, which the verifier is not shown, and it is code only.

    A block counts by the names that it shares with a finding; one that few blocks have counts most,
    and that of a function itself, unless many have that name. Of equal ones the change's are first.

    Args:
        around: lines before and after each finding that are shown anyway.
    """
    blocks = await _blocks(state, findings)
    having = Counter(name for block in blocks for name in block.all_names)
    defined, changed = Counter(block.name for block in blocks), state.given.workspace.files
    ranked = list[list[tuple[_Block, Mapping[str, int]]]]()
    for finding in findings:
        said, quoted = f"{finding.title}\n{finding.detail}", finding.evidence.quote
        wanted = {n for n in telling_names(said) if n in defined or TELLING.fullmatch(n)}
        if is_code(finding.path):
            wanted |= telling_names(f"{quoted}\n{finding.cause_quote}")
        named = {name: 1 / defined[name] for name in wanted & {*defined}}
        score = {
            at: sum((1 / having[n] for n in block.all_names & wanted), named.get(block.name, 0))
            for at, block in enumerate(blocks)
        }
        least = max(score.values(), default=0) / MAX_WEAKER
        order = {at: (-score[at], blocks[at].path not in changed) for at in score}
        best = sorted((at for at in score if score[at] > least), key=order.__getitem__)
        around_it = {name: NEAR if having[name] <= RARE else NEAR_COMMON for name in wanted}
        ranked.append([(blocks[at], around_it) for at in best])
    shown = defaultdict[tuple[str, SideName], set[int]](set)
    for path, side, first, last in spans_around(findings, around):
        shown[path, side].update(range(first, last + 1))
    tops = [(x.path, x.evidence.side, x.context.start_line) for x in findings if x.context]
    chosen = [(path, side, top, top + NEAR_COMMON) for path, side, top in tops]  # its head
    room = min(MAX_OF_ALL, MAX_CHARACTERS * len(findings))
    for block, wanted in filter(None, chain.from_iterable(zip_longest(*ranked))):
        place = block.path, block.side
        fresh = block.near(wanted) - shown[place]
        if (size := sum(len(block.lines[number - block.first]) for number in fresh)) <= room:
            room -= size
            shown[place] |= fresh
            chosen += ((*place, number, number) for number in fresh)
    return chosen


async def _blocks(state: ReviewState, findings: Sequence[Finding]) -> list[_Block]:
    """What agents looked up, and what findings name that the change's files define."""
    found, places = list[_Block](), lines_looked_up(state)
    said = {*_NAMED.findall("\n".join(f"{one.title}\n{one.detail}" for one in findings))}
    for side, file in product(SIDES, state.given.workspace.change.files):
        path = file.path if side == "head" else file.old_path or file.path
        if is_code(path) and not state.given.workspace.left_out(file):
            texts = enumerate(await read_lines(state.given.workspace, side, path), 1)
            named = {number for number, text in texts if said.intersection(defined_in(text))}
            places.setdefault((side, path), set()).update(named)
    for (side, path), numbers in places.items():
        lines, last = await read_lines(state.given.workspace, side, path), 0
        for number in sorted(n for n in numbers if n <= len(lines)):
            if number <= last or not lines[number - 1].strip():
                continue
            block = find_block(lines, number, number)
            first, last = max(block.start, last + 1), max(block.end, number)
            own = lines[first - 1 : last]
            found.append(_Block(path, side, block.name, first, own, [*map(telling_names, own)]))
    # Head's lines are shown with those that the change removes.
    in_head = {(one.path, one.name) for one in found if one.name and one.side == "head"}
    return [one for one in found if one.side == "head" or (one.path, one.name) not in in_head]


MAX_SAID = 1_500
"""Characters of each text of the author."""
SILENT = "it says nothing of it"
_SENTENCE = re.compile(r"(?<=[.!?])(?<!\.\.)(?<!e\.g\.)(?<!i\.e\.)\s(?![a-z])")


async def verify_findings(state: ReviewState) -> None:
    """Have the verifier look at what only agents claim, and store what counts."""
    due = findings_to_verify(state)
    if not due:
        return
    state.focus.asked = {finding.id: finding for finding in due}
    spec = choose_verifier(state, {name for finding in due for name in finding.reported_by})
    ran, numbers = number_runs(due)
    claims = [_shown(finding) | numbers[finding.id] for finding in due]
    said = await author_says(state.given.workspace.change)
    facts = {AUTHOR_SAYS: {name: shorten(text, MAX_SAID) for name, text in said.items()}}
    seen = await choose_looked_up(state, due, LINES_AROUND)
    result = await ask_about(
        state, spec, "verify", due, LINES_AROUND, seen, claims=claims, runs=ran, **facts
    )
    state.verifier_note = ""
    if result.status != "ok":
        ids = ", ".join(state.focus.asked)
        state.verifier_note = f"{ids} not verified: the verifier {result.status}: {result.detail}"
        return
    report = as_form(VerifierReport, result.report)
    valid, faults = await check_verdicts(state.given.workspace, report, state.focus.asked)
    found: dict[str, Verification] = {}
    for finding in due:
        made = Verification("cannot_tell", dict(faults).get(finding.id, SILENT), finding.severity)
        if given := valid.get(finding.id):
            other = state.focus.asked.get(given.duplicate_of)
            made = Verification(
                given.verdict,
                shorten(given.reason, MAX_DETAIL),
                finding.severity,
                as_evidence(given.quotes),
                other.fingerprint if other else "",
            )
        # It was told the claims of all reports that are this finding now, and of no later one.
        names = [name for name, kept in state.synthesis.ids.items() if kept == finding.id]
        found.update(dict.fromkeys(names, made))
    state.iteration.verified, state.iteration.verdict_errors = found, as_lines(faults)


def findings_to_verify(state: ReviewState) -> list[Finding]:
    """Open findings of at least medium severity that nothing proves, and none has been asked about.

    One that has become more severe is asked about again. An analyzer's finding is asked about where
    an agent disputes it with evidence, and an argument can outweigh it; one that would block by a
    model's test, since what fails there may not be the harm.
    """
    settings = state.given.settings
    if not has_verifier(settings):
        return []
    asked: dict[str, Severity] = {
        name: one.severity for done in state.iterations for name, one in done.verified.items()
    }
    return [
        finding
        for finding in severe_findings(state)
        if finding.context is not None  # its file can be read
        and (finding.support in {"claimed", "agreed"} or _may_be_doubted(state, finding))
        and not is_as_severe(asked.get(finding.fingerprint, "info"), finding.severity)
    ][: settings.verify.findings]


def _may_be_doubted(state: ReviewState, finding: Finding) -> bool:
    """Whether a test makes it block, or an agent disputes what an argument can outweigh."""
    if finding.is_tested:
        return outcome_of(finding, state.given.catalog.verdict_policy)[0] == "block"
    return (
        finding.severity == MIN_SEVERITY
        and finding.category != "security"
        and any(one.refutes for one in finding.objections)
        and not state.given.workspace.rules.is_fact(finding.rule)
    )


def choose_verifier(state: ReviewState, finders: Iterable[str] = ()) -> AgentSpec:
    """Who verifies: at a provider of the review that no finder's model is at, if there is one."""
    catalog, settings = state.given.catalog, state.given.settings
    spec = state.agent(str(settings.verify.agent))
    theirs = {state.family_of(name) for name in finders}
    vendors = [name for name, agents in named_vendors(catalog, settings).items() if agents]
    other = next((name for name in vendors if name not in theirs), "")
    named = catalog.models.split(spec.model)[0]
    return spec if named or not other else replace(spec, model=f"{other}:{spec.model}")


def _shown(finding: Finding) -> dict[str, object]:
    """A claim with its place; of its detail the first sentence, what is wrong.

    Not its severity and argument, nor who makes it.
    """
    claims = [(one.title, one.detail) for one in finding.reports if not one.proved]
    told = [(finding.title, finding.detail), *claims]
    wrong = [_SENTENCE.split(detail, maxsplit=1)[0][:MAX_DETAIL] for _, detail in told]
    tests = [
        {name: getattr(one, name) for name in ("claim", "test", "base", "head")}
        for one in finding.proofs
        if one.is_reproduced
    ]
    return {
        **({"tests": tests} if tests else {}),
        **{name: getattr(finding, name) for name in ("id", "path", "start_line", "end_line")},
        "side": finding.evidence.side,
        "claim": "; ".join(dict(told)),
        "goes_wrong": " ".join(dict.fromkeys(filter(None, wrong))),
    }
