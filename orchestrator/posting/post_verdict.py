"""Posts a verdict to a pull request; posting it again, or after a crash, changes nothing."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from diffchecks.secrets.live_secrets import redact_live_secrets
from orchestrator.app.process_secrets import make_redactor
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.posting.forge import Comment, Forge, ForgeError, HeadMoved, Posted, PullRequest
from orchestrator.posting.posting_plan import PostingPlan, plan_posting


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
    """Check that the verdict is of the request's present head.

    Raises:
        HeadMoved: it is not.
    """
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
    """Read back the present state.

    Raises:
        ForgeError: a part of the plan is missing that the forge has not refused.
    """
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
