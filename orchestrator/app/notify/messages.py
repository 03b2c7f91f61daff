"""The messages about a verdict: its events, with a link and the command that answers."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from orchestrator.catalog.notify_channels import EventName
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.errors import answer_command, approve_command, raise_limit_command
from orchestrator.wording import count_noun

VIEW = "DIFFCOURT_VIEW_URL"
"""Environment variable: the address of the team's page, to which messages link."""

MAX_CHARACTERS = 500
"""Characters of a text of somebody else in a message."""


class Notification(Struct, frozen=True):
    """One event, sent to every channel that subscribes to it.

    Attributes:
        id: equal for repeated messages of the same event, so that a receiver can deduplicate.
        command: what a person types next; empty if there is nothing to answer.
        link: where to see it; may be empty.
    """

    id: str
    event: EventName
    run_id: str
    title: str
    text: str
    command: str = ""
    link: str = ""

    @property
    def body(self) -> str:
        """The message as plain text."""
        return "\n".join(filter(None, (self.text, self.command, self.link)))


def messages_of(verdict: Verdict, environment: Mapping[str, str]) -> Iterator[Notification]:
    """The events of a verdict that was just recorded."""
    run, link = verdict.run_id, link_to(verdict.run_id, environment)
    for call in verdict.approvals:
        yield Notification(
            f"{run}/approval/{call.approval}", "approval", run,
            f"{call.agent} asks to call {call.tool}",
            "A call that cannot be undone waits for a person, and the review with it.",
            f"diffcourt approve {run}; {approve_command(run, call.approval)}", link,
        )  # fmt: skip
    for question in verdict.questions:
        if not question.answer:
            yield Notification(
                f"{run}/question/{question.name}", "question", run,
                f"{question.agent} asks a question", question.question[:MAX_CHARACTERS],
                answer_command(run, question.name), link,
            )  # fmt: skip
    if verdict.approvals or any(not question.answer for question in verdict.questions):
        return
    stop = f"{verdict.stop.reason}: {verdict.stop.detail}"[:MAX_CHARACTERS]
    tail, show = verdict.digest[:16], f"diffcourt show {run}"
    if verdict.verdict == "block":
        why = "; ".join(verdict.reasons)[:MAX_CHARACTERS]
        yield Notification(
            f"{run}/blocked/{tail}", "blocked", run, "A change is blocked", why, show, link
        )
    if verdict.stop.reason == "budget":
        command = raise_limit_command(run, verdict.stop.detail)
        title = "A review stopped at a limit"
        yield Notification(f"{run}/budget/{tail}", "budget", run, title, stop, command, link)
    elif verdict.status == "incomplete" and verdict.stop.reason != "cancelled":
        gaps = sum(skip.gap for skip in verdict.skipped)
        text = f"{count_noun(gaps, 'gap')}; {stop}"
        title = "A review is incomplete"
        yield Notification(f"{run}/incomplete/{tail}", "incomplete", run, title, text, show, link)


def link_to(run_id: str, environment: Mapping[str, str]) -> str:
    """The page of the run: the team's, else the CI job's; empty without either."""
    if page := environment.get(VIEW, "").strip():
        return f"{page.rstrip('/')}/runs/{run_id}"
    if job := environment.get("CI_JOB_URL", "").strip():
        return job
    server, repo, number = (
        environment.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")
    )
    return f"{server}/{repo}/actions/runs/{number}" if server and repo and number else ""
