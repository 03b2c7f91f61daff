"""Checks the verifier's verdicts: that a text exists shows nothing, so quotations must connect.

A confirmation quotes the finding's own place, and another one that shares a name with it or lies in
a function that it calls. A refutation quotes other code, connected in the same way or of the same
function. Comments, and prose about code, show nothing; but what the author says, and tests and
documents of the change, show what is intended.
"""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import partial
from itertools import chain, islice, pairwise
from keyword import kwlist

from msgspec import Struct
from msgspec.structs import replace

from diffchecks.path_kinds import is_code, is_test
from orchestrator.catalog.shared_literals import SEVERE
from orchestrator.code_review.agent_report_contracts import ClaimVerdict, QuotedCode, VerifierReport
from orchestrator.code_review.change.contents import SideName
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.change.history import author_says
from orchestrator.code_review.findings.citations import MAX_SHOWN_QUOTE, changed_lines, read_lines
from orchestrator.code_review.findings.evidence_from_journal import has_printed
from orchestrator.code_review.findings.finding_context import (
    enclosing_names,
    find_block,
    find_statement,
    heads,
)
from orchestrator.code_review.findings.quote_location import find_quote, lines_between
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.tools.run_snippet import RUN_SNIPPET
from orchestrator.code_review.verdict.model import Finding
from orchestrator.data_directories import read_table

MAX_LINES = 20
"""Of one quotation; a vague range shows nothing."""
SHOWN = 40
"""Characters by which a quotation is named."""
MIN_ASKING = 3
"""Words of a quotation that asks for what a claim says."""
AUTHOR_SAYS = "author_says"
"""The file of a quotation of the change's title, description or commits; the fact of that name."""
MAX_CALLS = 200
"""Lines that name a claim's function, and whose own functions count as callers."""

_PROSE = re.compile(r"(?i)(?!.*(?:requirements|constraints|cmakelists)).*\.(?:md|rst|txt|adoc)")
_COMMENT = re.compile(r"(?:^|(?<=\s))(?:#(?!\[|\w)|//|--\s|/\*|\*\s|<!--).*", re.MULTILINE)
_NAME = re.compile(r"[^\W\d][\w$]{2,}")
_LOCAL = re.compile(r"[^\W\d][\w$]+")  # also ``fd``, which is another in another function
_CALLED = re.compile(rf"({_NAME.pattern})\s*\(")
_TABLE = read_table(__file__, "common_names.yaml")
_TOKEN, _LEAVES = re.compile(_TABLE["token"]), frozenset(_TABLE["leaves"].split())
_LOOPS = re.compile(_TABLE["loops"])
_WORDS = frozenset(kwlist).union(_TABLE["languages"].split())
_COMMON = _WORDS.union(_TABLE["trivial"].split())


class _Code(Struct, frozen=True):
    """Lines of a file, and the names in them and around them.

    Attributes:
        text: without comments and docstrings.
        within: names of the functions, types and keys that they are in.
        function: the innermost function.
        around: names in it or, outside of functions, near them.
    """

    side: SideName
    path: str
    first: int
    last: int
    names: frozenset[str] = frozenset()
    within: frozenset[str] = frozenset()
    function: str = ""
    around: frozenset[str] = frozenset()
    text: str = ""

    def overlaps(self, other: "_Code") -> bool:
        same = (self.side, self.path) == (other.side, other.path)
        return same and self.first <= other.last and other.first <= self.last

    def is_in(self, other: "_Code") -> bool:
        return self.overlaps(other) and other.first <= self.first and self.last <= other.last


class _Place(Struct, frozen=True):
    """A finding's lines, and what belongs to them.

    Attributes:
        own: with the names in the statement that begins there.
        names: these, and those of what it is in and of what calls its function.
        leads: the condition or definition that it stands below, and the line that causes it.
        changed: the change touches it or its function.
    """

    own: _Code
    block: _Code
    names: frozenset[str]
    leads: Sequence[_Code]
    changed: bool

    def connects(self, quotes: Sequence[_Code]) -> bool:
        """Whether one of these shares a name with it, leads to it, or lies in what it calls."""
        return any(self._is_tied(one) or any(map(one.overlaps, self.leads)) for one in quotes)

    def _is_tied(self, quoted: _Code) -> bool:
        same = quoted.is_in(self.block)  # there a variable with a common name is the same one
        called = quoted.function in self.own.around and not same
        shared = quoted.names & self.names or quoted.within & self.own.names
        local = same and _words(quoted.text, _LOCAL) & _words(self.own.text, _LOCAL)
        return bool(not self.is_prose(quoted) and (local or (quoted.names and (called or shared))))

    def is_prose(self, quoted: _Code) -> bool:
        """Whether that is prose, which says nothing of what code does."""
        return bool(_PROSE.fullmatch(quoted.path) and not _PROSE.fullmatch(self.own.path))


async def check_verdicts(
    workspace: ReviewWorkspace, report: VerifierReport, asked: Mapping[str, Finding]
) -> tuple[Mapping[str, ClaimVerdict], list[tuple[str, str]]]:
    """The verdicts that count, by the claim's id, and an id and why for each that does not.

    Args:
        asked: id → finding, of the claims that the verifier was asked about.
    """
    valid: dict[str, ClaimVerdict] = {}
    faults: list[tuple[str, str]] = []
    by_claim: dict[str, list[ClaimVerdict]] = {name: [] for name in asked}
    for one in report.verdicts:
        by_claim.setdefault(one.finding, []).append(one)
    for name, given in by_claim.items():
        if name not in asked:
            whys = ["there is no such claim"]
        elif not given:
            whys = ["nothing is said of it"]
            if asked[name].is_tested:
                continue  # the test speaks for it
        elif len(given) > 1:
            whys = [f"it has {len(given)} verdicts"]
        else:
            whys = [_opposite(given[0], by_claim), *await _faults(workspace, given[0], asked)]
        if any(whys):
            faults.append((name, "; ".join(filter(None, whys))))
        else:
            ran, told = _printed(given[0], asked[name]), replace(given[0], one_place="")
            quotes = [one for one in given[0].quotes if one.file != RUN_SNIPPET or one in ran]
            if told.verdict == "confirmed" and await _faults(workspace, told, asked):  # no path
                quotes = [one for one in quotes if one.file == asked[name].path][:1]
            valid[name] = replace(given[0], quotes=quotes)
    return valid, faults


def _opposite(given: ClaimVerdict, by_claim: Mapping[str, Sequence[ClaimVerdict]]) -> str:
    """Why a verdict contradicts that on its duplicate; empty if it does not."""
    for others in by_claim.values():
        for other in others:
            linked = other.finding == given.duplicate_of or other.duplicate_of == given.finding
            both = {given.verdict, other.verdict}
            if linked and "confirmed" in both and both - {"confirmed", "cannot_tell"}:
                return f"it is {given.verdict}, and {other.finding}, the same, {other.verdict}"
    return ""


async def _faults(
    workspace: ReviewWorkspace, given: ClaimVerdict, asked: Mapping[str, Finding]
) -> list[str]:
    """All that is wrong with a verdict, for it is sent back once; nothing if it counts."""
    # Imported here because only reviews with a model need its phrases.
    from orchestrator.guards.prompt_injection import InjectionGuard  # noqa: PLC0415

    other, claim, found = given.duplicate_of, asked[given.finding], list[str]()
    if other and (other not in asked or other == given.finding):
        found.append(f"there is no other claim {other!r}")
    if not given.reason.strip():
        found.append("it gives no reason")
    if InjectionGuard().detect(f"{given.reason}\n{given.one_place}"):
        found.append("its reason gives instructions to its reader")
    if given.verdict == "cannot_tell":
        return found
    found += _too_light(given.verdict, claim)
    # What a run printed shows what the place does.
    ran = "".join(one.quote for one in _printed(given, claim)[:1])
    of_code = [one for one in given.quotes if one.file != RUN_SNIPPET]
    given = replace(given, quotes=of_code, one_place=given.one_place or ran)
    if not given.quotes:
        return [*found, "it quotes no code"]
    if given.verdict == "intended":
        return [*found, *await _not_intended(workspace, given.quotes)]
    older = given.verdict == "older"
    located = [await _locate(workspace, quoted, claim, older) for quoted in given.quotes]
    quotes = [one for one in located if isinstance(one, _Code)]
    if len(quotes) < len(located):  # what the others lead to is not known yet
        return [*found, *(one for one in located if isinstance(one, str))]
    place = await _place_of(workspace, claim)
    lack = {one: why for one in quotes if (why := _lacks(workspace, one, place, given.verdict))}
    code = [one for one in quotes if one not in lack]
    if older:
        whys = [await _not_in_base(workspace, claim, code, place.own.function)]
    elif given.verdict == "confirmed":
        whys = _not_shown(place, code, given)
    else:
        whys = [_not_stopped(place, code, given)]
    shown = dict.fromkeys(lack.values())
    return [*found, *((shown or whys) if any(whys) else ())]


def _too_light(verdict: str, claim: Finding) -> list[str]:
    """Why a claim is too grave for a verdict, or is shown by a test.

    Authors of a hostile change can ask for any harm and make it look small, so severe claims and
    those of security stay. What a test shows may only be another harm than the claim's.
    """
    security = "security" in {claim.category, *claim.reported_by}  # so does one of its reports
    grave, found = security or claim.cwe or claim.severity in SEVERE, list[str]()
    if grave and verdict in {"intended", "minor"}:
        found.append(f"what {claim.id} says has to be weighed, whoever wants it or thinks it small")
    if claim.is_tested and verdict not in {"confirmed", "refuted"}:
        found.append(f"a test shows {claim.id}: it is confirmed, refuted or you cannot_tell")
    return found


def _lacks(workspace: ReviewWorkspace, quoted: _Code, place: _Place, verdict: str) -> str:
    """Why a quotation shows nothing: no word of the change about itself makes a harm small."""
    minor = verdict == "minor"
    added = changed_lines(workspace, "head", quoted.path) if quoted.side == "head" else frozenset()
    comment = not quoted.text.strip() and (minor or not quoted.overlaps(place.own))
    test = minor and is_test(quoted.path) and added & {*range(quoted.first, quoted.last + 1)}
    what = "a comment" if comment else "a test of the change" if test else ""
    return f"its quotation of {quoted.path} is {what}, which shows nothing" if what else ""


def _printed(given: ClaimVerdict, claim: Finding) -> list[QuotedCode]:
    """The quotations of what a run of the claim printed."""
    runs = [one for one in given.quotes if one.file == RUN_SNIPPET]
    return [one for one in runs if any(has_printed(run, one.quote) for run in claim.runs)]


def _not_shown(place: _Place, quotes: Sequence[_Code], given: ClaimVerdict) -> list[str]:
    """Why a path does not lead to the finding."""
    where = f"{place.own.path}:{place.own.first}"
    others = [one for one in quotes if not one.overlaps(place.own)]
    away = f"it quotes nothing at {where}, the place of the claim"
    found = [away] if len(others) == len(quotes) else []
    if place.connects(others):
        return found
    if not given.one_place.strip():
        what = f"no other quotation shares a name with {where}" if others else "it quotes one place"
        advice = "quote what leads to it, or say in one_place why that is enough"
        return [*found, f"{what}; {advice}"]
    if found or not place.changed:
        what = "it quotes one place, which the change does not touch; quote what the change does"
        return found or [what]
    named = any(_words(one.text) for one in quotes if one not in others)
    return [] if named else ["its quotation names nothing, and so shows nothing alone"]


def _not_stopped(place: _Place, quotes: Sequence[_Code], given: ClaimVerdict) -> str:
    """Why quotations do not refute a finding."""
    others = [one for one in quotes if not one.is_in(place.own)]
    if not others and quotes and given.verdict == "minor" and given.one_place.strip():
        return ""  # such as the wording of a message, which its own lines show
    if not others:
        return f"it quotes only the claim's own lines; quote what stops {given.finding}"
    if all(map(place.is_prose, others)):
        return "texts about code say nothing about what it does; quote code"
    if place.connects(others) or any(one.is_in(place.block) for one in others):
        return ""
    return "its quotations share no name with the claim's place; quote what stops it there"


async def _not_intended(workspace: ReviewWorkspace, quotes: Sequence[QuotedCode]) -> list[str]:
    """Why quotations do not show that the change asks for what a claim says."""
    found = list[str]()
    for one in quotes:
        if one.file == AUTHOR_SAYS:
            lines = "\n".join((await author_says(workspace.change)).values()).splitlines()
            asks = bool(find_quote(lines, one.quote))
        else:
            path = await workspace.known_path(one.file)
            added = changed_lines(workspace, "head", path)
            places = find_quote(await read_lines(workspace, "head", path), one.quote)
            asks = any(added.issuperset(range(first, last + 1)) for first, last in places)
            asks &= is_test(path) or bool(_PROSE.fullmatch(path))
        if not asks or len(one.quote.split()) < MIN_ASKING:
            found.append(
                f"its quotation of {one.file} is not {MIN_ASKING} words of {AUTHOR_SAYS}, or of "
                "lines that the change adds to a test or document"
            )
    return found


async def _not_in_base(
    workspace: ReviewWorkspace, claim: Finding, quotes: Sequence[_Code], function: str
) -> str:
    """Why code of base does not do what a claim, and the line that causes it, does on head.

    Code that the change replaces need not have names that no file of base has. It has to call what
    the claim's code calls, and to be in its function or share a name with it.
    """
    if claim.evidence.side == "base" or (claim.because_of and claim.because_of.removed):
        return "the change removes what the claim is about, so base does not have the defect"
    text, git = f"{claim.evidence.quote}\n{claim.cause_quote}", Git.of(workspace.change)
    needed, renamed = telling_names(text), set[str]()
    if any(map(_LOOPS.search, (one.text for one in quotes))):  # an element has any name
        needed -= {*_NAME.findall(" ".join(chain(*_LOOPS.findall(text))))}
    head = await read_lines(workspace, "head", claim.path)
    for one in quotes:
        base = await read_lines(workspace, "base", one.path)
        for at in range(one.first, one.last + 1):
            renamed |= renamed_parameters(head, claim.start_line, base, at)
    missing = sorted(needed.difference(renamed, *(one.names for one in quotes)))
    near = [one for one in quotes if one.names & needed or one.function == function != ""]
    removed = [(one, n) for one in near for n in changed_lines(workspace, "base", one.path)]
    if any(one.first <= n <= one.last for one, n in removed):
        grep = ("grep", "-qwF", "-f", "-", workspace.change.base_tree, "--")
        missing = [
            name
            for name in missing
            if name in _CALLED.findall(text)
            or (await git.attempt(*grep, stdin=name.encode())).code != 1  # not found
        ]
    if missing:
        return f"its quotations lack {', '.join(missing)}, which the claim's code has"
    why = "its quotations are compared by names, and the claim's code has none"
    return "" if needed else why


def renamed_parameters(head: Sequence[str], at: int, base: Sequence[str], was: int) -> Set[str]:
    """What head calls parameters, where its line ``at`` is otherwise the same as base's ``was``.

    So are the functions' first lines, and those above it that set such a parameter or may leave.
    """
    parts = [lines[find_block(lines, n, n).start - 1 : n] for lines, n in ((head, at), (base, was))]
    own, old = ([_TOKEN.findall(line) for line in lines] for lines in parts)
    names = {one: two for one, two in zip(own[0], old[0], strict=False) if one != two}
    theirs, near = {*names.values()}, {*pairwise(own[0])}
    others = any({("=", one), (one, "(")} & near for one in names)  # a default, or the function
    mixed = {*names}.intersection(chain(*old)) or theirs.intersection(chain(*own))
    if others or mixed or not all(one.isidentifier() and one[0].islower() for one in theirs):
        return frozenset()
    mapped = [[names.get(token, token) for token in line] for line in own]
    decide = [
        [line for line in lines if _LEAVES & {*line} or ("=" in line and theirs & {*line})]
        for lines in (mapped, old)
    ]
    ends = [(lines[0], lines[-1]) for lines in (mapped, old)]
    return frozenset(names if ends[0] == ends[1] and decide[0] == decide[1] else ())


async def _place_of(workspace: ReviewWorkspace, finding: Finding) -> _Place:
    side, path, cause = finding.evidence.side, finding.path, finding.because_of
    lines = await read_lines(workspace, side, path)
    start, end, last = find_statement(lines, finding.start_line, finding.end_line)
    own = _code(side, path, lines, start, end)
    names = telling_names("\n".join(lines[finding.start_line - 1 : last]))
    own = replace(own, first=finding.start_line, names=names)
    block = find_block(lines, start, end)
    names |= own.within
    if not (own.function or (own.names and is_code(path))):
        names |= own.around
    calls = [n for n, text in enumerate(lines, 1) if own.function in _NAME.findall(text)]
    callers = {find_block(lines, n, n).name for n in calls[:MAX_CALLS]} - _COMMON
    leads = [_Code(side, path, *head) for head in islice(heads(lines, start), 1)]
    if cause:
        of: SideName = "base" if cause.removed else "head"
        leads.append(_Code(of, cause.path, cause.line, cause.line))
    within = _Code(side, path, block.start, block.end)
    changed = any(block.start <= n <= block.end for n in changed_lines(workspace, side, path))
    return _Place(own, within, names | callers, leads, changed)


def _code(side: SideName, path: str, lines: Sequence[str], first: int, last: int) -> _Code:
    """Lines of a file, with the names that connect them."""
    from diffchecks.removed_controls.lost_wrapping import without_comments  # noqa: PLC0415 - verifier only

    block = find_block(lines, first, last)
    within = (enclosing_names(lines, first) | {block.name}) - _COMMON
    around = telling_names("\n".join(lines[block.start - 1 : block.end]))
    text = "\n".join(lines[first - 1 : last])
    names = telling_names(text)
    if not _PROSE.fullmatch(path):
        bare = without_comments(path, [*lines])[first - 1 : last]
        text = _COMMENT.sub("", "\n".join(bare))
    return _Code(side, path, first, last, names, within, block.name, around, text)


async def _locate(
    workspace: ReviewWorkspace, quoted: QuotedCode, finding: Finding, in_base: bool
) -> _Code | str:
    """A quotation at its place, nearest to the finding's, or why it has none."""
    path = await workspace.known_path(quoted.file)
    place = finding.start_line, finding.end_line
    old = {file.path: file.old_path or file.path for file in workspace.change.files}
    sides: list[tuple[SideName, str]] = [("base", old.get(path, path)), ("head", path)]
    sides = sorted(sides[: 2 - in_base], key=lambda one: one[0] != finding.evidence.side)
    for side, name in sides:
        lines = await read_lines(workspace, side, name)
        places = find_quote(lines, quoted.quote) if _NAME.search(quoted.quote) else []
        if places:
            near = min(places, key=partial(lines_between, other=place))
            if near[1] - near[0] >= MAX_LINES:
                return f"its quotation of {quoted.file} has more than {MAX_LINES} lines"
            return _code(side, name, lines, *near)
    return f"its quotation {quoted.quote[:SHOWN]!r} is not in {quoted.file}{' of base' * in_base}"


def _words(text: str, name: re.Pattern[str] = _NAME) -> frozenset[str]:
    return frozenset(name.findall(text)) - _WORDS


def telling_names(text: str) -> frozenset[str]:
    """The names in a text without its comments, except those that every function has."""
    return _words(_COMMENT.sub("", text)) - _COMMON


def as_lines(faults: Iterable[tuple[str, str]]) -> list[str]:
    """Why verdicts do not count, in a line each; an invented id may have several."""
    return [f"verdict on {' '.join(name[:SHOWN].split())}: {why}" for name, why in faults]


def as_evidence(quotes: Sequence[QuotedCode]) -> tuple[str, ...]:
    """Quotations in a line each, for a person."""
    return tuple(f"{one.file}: {one.quote[:MAX_SHOWN_QUOTE]}" for one in quotes)
