"""Plans what to post, from the verdict and the present state of the request, and posts it.

Posting again, or after a crash, changes nothing. Forges may alter the text of a suggestion. So
there is one only if every forge commits exactly the proven bytes.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from diffchecks.fixes.patches import CONTEXT_LINES, MAX_CHANGED_LINES
from diffchecks.secrets.live_secrets import redact_live_secrets
from orchestrator.app.process_secrets import make_redactor
from orchestrator.catalog.shared_literals import OUTCOMES, Outcome
from orchestrator.code_review.fixes.patch_files import PatchedLines, only_span
from orchestrator.code_review.verdict.decision import exit_code
from orchestrator.code_review.verdict.model import Finding, SeverityCounts, Verdict, severity_counts
from orchestrator.posting.forge import (
    Comment,
    Conclusion,
    Forge,
    ForgeCheck,
    ForgeError,
    HeadMoved,
    Posted,
    PostedDismissal,
    PullRequest,
    Thread,
)
from orchestrator.report.findings_text import name_provers
from orchestrator.report.formats import FormatInputs, markdown
from orchestrator.report.formats.listing_formats import describe_result
from orchestrator.report.ranking import open_findings, rank_findings
from orchestrator.report.review_gaps_text import describe_depth
from orchestrator.report.terminal_escaping import escape_line

MARKER = "<!-- diffcourt:"
SUMMARY_MARKER = f"{MARKER}summary -->"
ANSWERS = (
    "To accept a finding: `diffcourt waive ID --why REASON`, with the ID after its rule. "
    "What a rule means: `diffcourt catalog RULE`.\n\n"
)
_LAST_MARKER = re.compile(rf"{re.escape(MARKER)}finding ([0-9A-Za-z]+) -->\s*\Z")
INLINE = 5
"""Comments at lines that one verdict may add; the summary has the rest."""
GRAVE_ENOUGH = frozenset({"critical", "high", "medium"})
"""Severities that get a comment of their own: what is below is a matter of taste."""


class PostingPlan(Struct, frozen=True):
    """The changes to make.

    Attributes:
        summary: the summary comment; None: none is written.
        comments: not posted yet.
        resolve: our threads whose findings are fixed, waived, dismissed or rejected.
    """

    check: ForgeCheck
    summary: str | None
    comments: Sequence[Comment]
    resolve: Sequence[Thread]


def plan_posting(
    verdict: Verdict,
    request: PullRequest,
    posted: Posted,
    *,
    inline: int = INLINE,
    always_comment: bool = False,
    trust_override: bool = False,
    suggest_fixes: bool = False,
) -> PostingPlan:
    """Decide what to write.

    A clean change gets no summary comment, unless one exists that must be updated.

    Args:
        inline: maximum number of comments at lines.
        always_comment: write the summary even if there is nothing to report.
        trust_override: the verdict is of a trusted job, so a person's override in it counts.
        suggest_fixes: the same, so verified patches in it can be committed from a comment.
    """
    if not trust_override:
        verdict = replace(verdict, override=None)
    reported = open_findings(verdict)
    verdict = apply_dismissals(verdict, posted.dismissals)
    findings = open_findings(verdict)
    quiet = not reported and verdict.status == "complete" and not posted.summary_id
    summary = None if quiet and not always_comment else render_summary(verdict)
    open_now = {finding.identity for finding in findings}
    return PostingPlan(
        check=describe_check(verdict, dismissed=len(reported) - len(findings)),
        summary=summary,
        comments=_new_comments(verdict, request.lines, posted, inline, suggest=suggest_fixes),
        resolve=[
            thread
            for thread in posted.threads
            if not thread.is_resolved and thread.identity not in open_now
            if _is_settled(verdict, thread.identity)
        ],
    )


def _is_settled(verdict: Verdict, identity: str) -> bool:
    """Whether the review says what happened to a finding that is no longer open."""
    if verdict.status == "complete":
        return True
    gone = [*verdict.findings, *(entry.finding for entry in verdict.rejected)]
    fixed = verdict.previous.fixed if verdict.previous else ()
    known = {finding.identity for finding in gone} | {one.fingerprint for one in fixed}
    return identity in known


def _new_comments(
    verdict: Verdict,
    lines: Mapping[str, frozenset[int]],
    posted: Posted,
    most: int,
    *,
    suggest: bool,
) -> list[Comment]:
    """One comment for each finding told at length, at the first place that the diff shows.

    A thread that a person has resolved is a dismissal, so its finding gets no second one.
    """
    known = {thread.identity for thread in posted.threads}
    chosen: list[Comment] = []
    for cause in rank_findings(verdict).at_length:
        if any(finding.identity in known for finding in cause):
            continue
        fit = [one for one in cause if _can_stand(one, lines.get(one.path, frozenset()))]
        if fit:
            known.add(fit[0].identity)
            others = [one for one in cause if one is not fit[0]]
            chosen.append(_comment(fit[0], others, lines[fit[0].path], suggest=suggest))
    still = {finding.identity for finding in open_findings(verdict)}
    count = sum(not one.is_resolved and one.identity in still for one in posted.threads)
    return chosen[: max(most - count, 0)]  # the threads of what is still open count as well


def _can_stand(finding: Finding, lines: frozenset[int]) -> bool:
    grave = finding.severity in GRAVE_ENOUGH and finding.category != "docs"
    return grave and finding.evidence.side != "base" and finding.end_line in lines


def _comment(
    finding: Finding, others: Sequence[Finding], lines: frozenset[int], *, suggest: bool
) -> Comment:
    """A comment at the finding's lines, up to the first that the diff does not show.

    One with a suggestion is at the lines that the suggestion replaces.
    """
    start, end = finding.end_line, finding.end_line
    while start > finding.start_line and start - 1 in lines:
        start -= 1
    span = find_suggestion(finding, lines) if suggest else None
    if span:
        start, end = span.start, span.end
    text = markdown.describe_finding(finding, *others, quoted=False)
    parts = text, markdown.describe_tests(finding), describe_proof(finding)
    return Comment(
        identity=finding.identity,
        path=finding.path,
        start_line=start,
        end_line=end,
        body="\n\n".join(filter(None, parts)),
        patch=diff_to_read(finding),
        suggestion="".join(span.new).removesuffix("\n") if span else None,
    )


def comment_text(comment: Comment, suggestion: str = "") -> str:
    """A comment as it is posted: its text, the patch, and the marker.

    Args:
        suggestion: how a suggestion begins in the forge; empty: it knows none.
    """
    patch = comment.patch
    if suggestion and comment.suggestion is not None:
        # Neither escaped nor shortened: the forge commits it.
        patch = markdown.code_block(comment.suggestion.split("\n"), suggestion)
    return "\n\n".join(filter(None, (comment.body, patch, marker(comment.identity))))


def marker(identity: str) -> str:
    """The hidden line that identifies a comment."""
    return f"{MARKER}finding {''.join(filter(str.isalnum, identity))} -->"


def identity_of(body: str) -> str:
    """The finding of our own comment; empty for other comments."""
    found = _LAST_MARKER.search(body)
    return found[1] if found else ""


def own_posts(
    comments: Iterable[tuple[object, str]],
    threads: Sequence[Thread],
    dismissals: Sequence[PostedDismissal] = (),
) -> Posted:
    """What is posted already.

    Args:
        comments: id and text of all our comments; the first with the summary's marker is it.
    """
    for number, body in comments:
        if body.rstrip().endswith(SUMMARY_MARKER):
            return Posted(str(number), body, threads, dismissals)
    return Posted(threads=threads, dismissals=dismissals)


def render_summary(verdict: Verdict) -> str:
    """The summary comment."""
    answers = ANSWERS if any(one.state == "open" for one in verdict.findings) else ""
    return f"{markdown.render_markdown(verdict, FormatInputs())}\n{answers}{SUMMARY_MARKER}"


def describe_check(verdict: Verdict, *, dismissed: int = 0) -> ForgeCheck:
    """The check of the commit; neither incomplete nor overridden reviews are a success.

    Args:
        dismissed: number of findings that people have dismissed.
    """
    if override := verdict.override:
        title = escape_line(f"{override.by} decides {override.verdict}: {override.reason}")
        decided: Conclusion = "failure" if override.verdict == "block" else "neutral"
        return ForgeCheck(decided, title[:140], markdown.render_markdown(verdict, FormatInputs()))
    conclusion: Conclusion = "failure" if verdict.exit_code else "success"
    if verdict.status == "incomplete":
        conclusion = "incomplete"
    elif conclusion == "success" and (dismissed or verdict.verdict != "merge"):
        conclusion = "neutral"
    title = escape_line(describe_result(verdict)) + (
        f", {dismissed} dismissed" if dismissed else ""
    )
    if verdict.status == "incomplete":
        read = describe_depth(verdict) or "see what was not reviewed"
        title = escape_line(f"incomplete: {read}")
    return ForgeCheck(conclusion, title[:140], markdown.render_markdown(verdict, FormatInputs()))


def apply_dismissals(verdict: Verdict, dismissals: Iterable[PostedDismissal]) -> Verdict:
    """The verdict with dismissed findings as waived, decided again without them.

    If not only open findings decided the outcome or the exit code, these stay: options of the job
    are unknown here.
    """
    known = {one.identity: one for one in dismissals}
    findings = tuple(_apply(finding, known) for finding in verdict.findings)
    gone = [new.id for old, new in zip(verdict.findings, findings, strict=True) if old != new]
    if not gone:
        return verdict
    marked = replace(
        verdict,
        findings=findings,
        counts=SeverityCounts(**severity_counts(findings)),
        reasons=(*verdict.reasons, f"dismissed in this request: {', '.join(gone)}"),
    )
    if _decide(verdict.findings, verdict.status) != verdict.verdict:
        return marked
    outcome = _decide(findings, verdict.status)
    by_outcome = exit_code(verdict.verdict, verdict.status, verdict.fail_on)
    if by_outcome != verdict.exit_code:
        return replace(marked, verdict=outcome)
    code = exit_code(outcome, verdict.status, verdict.fail_on)
    return replace(marked, verdict=outcome, exit_code=code)


def _apply(finding: Finding, known: Mapping[str, PostedDismissal]) -> Finding:
    found = known.get(finding.identity) or known.get(finding.fingerprint)
    if found is None or finding.state != "open":
        return finding
    return replace(
        finding, state="waived", outcome="merge", waiver=f"dismissed by {found.by}: {found.reason}"
    )


def _decide(findings: Sequence[Finding], status: Literal["complete", "incomplete"]) -> Outcome:
    """The outcome of the open findings; incomplete is never merge."""
    outcomes = [finding.outcome for finding in findings if finding.state == "open"]
    if status == "incomplete":
        outcomes.append("needs_changes")
    return max(outcomes, key=OUTCOMES.index, default="merge")


SHORT = 30
"""Lines of a diff that a comment shows."""
MAX_CHARACTERS = 8_000
"""Of a suggestion."""


def find_suggestion(finding: Finding, lines: frozenset[int]) -> PatchedLines | None:
    """The suggestion for a finding; None if there is none.

    It requires a verified patch with a single place, at the finding and within the lines of the
    request's diff, whose text a forge does not change: forges drop carriage returns, blank lines at
    both ends and a missing last line end, and execute lines that look like commands.

    Args:
        lines: of the finding's file, at which a comment can stand.
    """
    span, fix = only_span(finding), finding.fix
    if span is None or fix is None or "\r" in fix.patch:
        return None
    first, last = span.start - CONTEXT_LINES, span.end + CONTEXT_LINES
    if last < finding.start_line or first > finding.end_line:
        return None
    if not lines.issuperset(range(span.start, span.end + 1)):
        return None
    text = "".join(span.new)
    whole = all(line.endswith("\n") for line in (*span.old, *span.new))
    legible = text.replace("\n", "").replace("\t", "").isprintable()
    short = len(span.new) <= MAX_CHANGED_LINES and len(text) <= MAX_CHARACTERS
    filled = span.new[0].strip() and span.new[-1].strip()
    inert = not any(map(markdown.COMMAND.match, span.new))
    return span if whole and legible and short and filled and inert else None


def describe_proof(finding: Finding) -> str:
    """Which tools verified a finding's patch, as one line of Markdown; empty if none did."""
    if finding.fix is None or not finding.fix.is_verified:
        return ""
    return f"Patch, verified by {markdown.plain(name_provers(finding)[:300])}:"


def diff_to_read(finding: Finding) -> str:
    """The patch as a diff, if it is short, and the command that applies it."""
    if finding.fix is None or not finding.fix.is_verified:
        return ""
    command = markdown.apply_command(finding)
    block = markdown.diff_block(finding.fix, SHORT)
    return f"{block}\n\nApply it: {command}" if block else command


def make_cleaner(environment: Mapping[str, str]) -> Callable[[str], str]:
    """A function that replaces the process's secrets and everything in the format of a token."""
    redact = make_redactor(environment)
    return lambda text: redact_live_secrets(redact(text))


class Receipt(Struct, frozen=True):
    """The part of a plan that the request has, as read back.

    Attributes:
        wanted, found: number of new comments at lines that were planned and that exist.
        refused: places of planned comments that the forge refuses there; the summary has them.
        resolved: number of threads that were resolved.
        summary: whether the request has the summary comment of this verdict.
    """

    wanted: int
    found: int
    resolved: int
    summary: bool
    refused: tuple[str, ...] = ()


def post_verdict(
    verdict: Verdict,
    forge: Forge,
    clean: Callable[[str], str],
    plan_posting: Callable[[Verdict, PullRequest, Posted], PostingPlan] = plan_posting,
) -> Receipt:
    """Write what is missing, update the summary, and read back the result.

    Args:
        clean: replaces secrets in a text; applied to everything that is written.
        plan_posting: decides what to write; the default, or the same with options.

    Raises:
        HeadMoved: the request has another head, or is closed; nothing was written.
        ForgeError: a call failed, or something that was written is missing.
    """
    request = forge.read_pull_request()
    check_head(verdict, request)
    posted = forge.read_posted()
    plan = _cleaned(plan_posting(verdict, request, posted), clean)
    refused = forge.write_comments(request.head, plan.comments) if plan.comments else ()
    if plan.resolve:
        forge.resolve(plan.resolve)
    if plan.summary is not None and not _equal(plan.summary, posted.summary):
        forge.write_summary(plan.summary, posted.summary_id)
    # Last, so that the comments exist when the check appears.
    forge.write_check(request.head, plan.check)
    return _read_back(forge, plan, refused)


def check_head(verdict: Verdict, request: PullRequest) -> None:
    """Check that the verdict is of the request's present head."""
    if not request.is_open:
        raise HeadMoved("the request is closed; nothing was posted")
    if request.head != verdict.change.head:
        raise HeadMoved(
            f"the request's head is {request.head[:12]} and the verdict is of "
            f"{verdict.change.head[:12]}; nothing was posted: review the new head"
        )


def _cleaned(plan: PostingPlan, clean: Callable[[str], str]) -> PostingPlan:
    return replace(
        plan,
        check=replace(plan.check, title=clean(plan.check.title), summary=clean(plan.check.summary)),
        summary=None if plan.summary is None else clean(plan.summary),
        comments=[_cleaned_comment(comment, clean) for comment in plan.comments],
    )


def _cleaned_comment(comment: Comment, clean: Callable[[str], str]) -> Comment:
    """A comment without secrets; a suggestion is left out rather than altered."""
    suggestion = comment.suggestion
    if suggestion is not None and clean(suggestion) != suggestion:
        suggestion = None
    body, patch = clean(comment.body), clean(comment.patch)
    return replace(comment, body=body, patch=patch, suggestion=suggestion)


def _read_back(forge: Forge, plan: PostingPlan, refused: Sequence[Comment]) -> Receipt:
    """Read back the present state."""
    posted = forge.read_posted()
    there = {thread.identity for thread in posted.threads}
    open_now = {thread.id for thread in posted.threads if not thread.is_resolved}
    receipt = Receipt(
        wanted=len(plan.comments),
        found=sum(comment.identity in there for comment in plan.comments),
        resolved=sum(thread.id not in open_now for thread in plan.resolve),
        summary=plan.summary is not None and _equal(posted.summary, plan.summary),
        refused=tuple(f"{comment.path}:{comment.end_line}" for comment in refused),
    )
    lost = plan.summary is not None and not receipt.summary
    if receipt.found + len(refused) < receipt.wanted or lost:
        missing = ", and the summary is not as written" if lost else ""
        raise ForgeError(
            f"{receipt.found} of {receipt.wanted} comments are there{missing}; post again"
        )
    return receipt


def _equal(one: str, other: str) -> bool:
    """Whether two texts are equal except for white space, which forges change."""
    return one.split() == other.split()
