"""Carries out a command that a person wrote as a comment on a pull request, once.

No model takes part, and nothing of the change is checked out or run. Only people with write
permission, as the forge confirms, get an answer.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from diffchecks.rules import Rule
from orchestrator.app.memory.waiver_files import (
    DISMISSAL_FILE,
    Reason,
    make_dismissal,
    render_dismissal,
)
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.posting.comment_commands import (
    SERVICE_USAGE,
    USAGE,
    WORD,
    CommandName,
    CommentCommand,
    CommentEvent,
    WrongCommand,
    answer_marker,
    is_command,
    parse_command,
)
from orchestrator.report.findings_text import format_location
from orchestrator.report.formats.markdown import (
    MAX_CHARACTERS,
    code,
    code_block,
    describe_finding,
    describe_patch,
    describe_tests,
    plain,
)
from orchestrator.report.rules_page import render_rule
from orchestrator.report.terminal_escaping import escape_line

if TYPE_CHECKING:
    from orchestrator.posting.github import GitHubCommands

LISTED = 10
"""Open findings that are named where a command names none of them."""


class Handled(Struct, frozen=True):
    """The result of handling a comment.

    Attributes:
        command: what was done or remains to be done; ``nothing`` if the comment was refused.
        line: for the job's log.
        head: the commit that it concerns.
        run_id: of the review whose verdict the answer needs; 0: none.
    """

    command: Literal[CommandName, "nothing"]
    line: str
    head: str = ""
    run_id: int = 0


class Answering(Struct, frozen=True):
    """The context of answers.

    Attributes:
        clean: replaces secrets in a text; applied to every answer.
        rules: the rules that can be explained, by id.
        of_service: whether ``diffcourt serve`` answers, which supports more commands.
    """

    forge: "GitHubCommands"
    clean: Callable[[str], str]
    rules: Mapping[str, Rule] = {}
    of_service: bool = False


class _Request(Struct, frozen=True):
    """A command to answer, of a person who may give it."""

    comment_id: int
    author: str
    command: CommentCommand
    head: str


def start_command(event: CommentEvent, answering: Answering) -> Handled:
    """Carry out a command that needs no verdict, or return the review whose verdict it needs."""
    request = _read_request(event, answering)
    if isinstance(request, Handled):
        return request
    command = request.command
    if command.name == "pause":
        text = f"No further push is reviewed until somebody asks for it: `{WORD} review`"
        _answer(answering, request.comment_id, text)
        return Handled("pause", "later pushes are not reviewed", request.head)
    run = answering.forge.find_review(request.head)
    if run is None:
        text = (
            f"There is no review of {code(request.head[:12])} yet. Each push starts one; if "
            "none starts, check that the workflow runs for this pull request."
        )
        _answer(answering, request.comment_id, text)
        return Handled("nothing", f"there is no review of {request.head[:12]}")
    if command.name not in {"review", "full"}:
        return Handled(command.name, f"{command.name} needs the verdict", request.head, run.id)
    if not run.is_over:
        text = "A review of this head is running, or waits for a person to approve its run."
        _answer(answering, request.comment_id, text)
        return Handled("nothing", "a review is running")
    answering.forge.run_again(run)
    _answer(answering, request.comment_id, f"The review of {code(request.head[:12])} runs again.")
    return Handled(command.name, f"run {run.id} runs again", request.head)


def finish_command(event: CommentEvent, answering: Answering, verdict: Verdict | None) -> Handled:
    """Answer a command that needs the verdict of the head; all checks are repeated.

    Args:
        verdict: it may be forged; None: the review left none.
    """
    request = _read_request(event, answering)
    if isinstance(request, Handled):
        return request
    command = request.command
    if verdict is None or verdict.change.head != request.head:
        text = (
            f"There is no verdict of {code(request.head[:12])} yet. If no review of it is "
            f"running, request one: `{WORD} review`"
        )
        _answer(answering, request.comment_id, text)
        return Handled("nothing", f"there is no verdict of {request.head[:12]}")
    asked = command.identity
    found = [one for one in verdict.findings if asked in {one.identity, one.fingerprint}]
    if len(found) != 1 or (command.name == "dismiss" and found[0].state != "open"):
        _answer(answering, request.comment_id, _describe_unknown(command, found, verdict))
        return Handled("nothing", f"there is no open finding {command.identity}")
    if command.name == "explain":
        _answer(answering, request.comment_id, explain_finding(found[0], answering.rules))
    elif command.name == "dismiss":
        text = _describe_dismissal(found[0], request.author, command.reason)
        _answer(answering, request.comment_id, text, dismissed=True)
    line = f"{command.name}: {found[0].rule} at {found[0].path}, asked by {request.author}"
    return Handled(command.name, escape_line(line), request.head)


def _read_request(event: CommentEvent, answering: Answering) -> _Request | Handled:
    """The command, read from the forge, if it may be carried out."""
    number, comment_id, forge = event.issue.number, event.comment.id, answering.forge
    is_new = event.action == "created" and event.issue.pull_request is not None
    if not (is_new and is_command(event.comment.body or "")):
        why = (
            "the comment is no command"
            if is_new
            else "only new comments on a pull request are commands"
        )
        return Handled("nothing", why)
    comment = forge.read_comment(comment_id)
    if comment is None or not comment.is_here:
        return Handled("nothing", f"request {number} has no comment {comment_id}")
    if comment.is_edited or comment.body != event.comment.body:
        return Handled("nothing", "the comment was edited; write a new one")
    if not (comment.is_person and forge.may_write(comment.author)):
        line = f"{comment.author} has no write permission; nothing was done"
        return Handled("nothing", escape_line(line))
    state = forge.read_state()
    if state is None or not state.is_open:
        return Handled("nothing", f"there is no open pull request {number}")
    if forge.is_answered(comment_id):
        return Handled("nothing", "the comment is answered already")
    try:
        command = parse_command(comment.body, of_service=answering.of_service)
    except WrongCommand as error:
        usage = SERVICE_USAGE if answering.of_service else USAGE
        _answer(answering, comment_id, f"{error}. {usage}")
        return Handled("nothing", f"answered how commands are written: {error}")
    return _Request(comment_id, comment.author, command, state.head)


def _answer(answering: Answering, comment_id: int, text: str, *, dismissed: bool = False) -> None:
    """Write an answer; its last line marks the comment that it answers."""
    text = answering.clean(text)
    if len(text) > MAX_CHARACTERS:
        text = "The answer is too long for a comment; the verdict's file has the finding."
    mark = answer_marker(comment_id, dismissed=dismissed)
    answering.forge.write_answer(f"{text}\n\n{mark}")


def _describe_unknown(command: CommentCommand, found: list[Finding], verdict: Verdict) -> str:
    """Why a command's finding is unknown, and which findings there are."""
    if found:
        return f"{code(command.identity)} is no longer open, or its ID is not unique."
    lines = [f"The review has no finding {code(command.identity)}. Open findings:", ""]
    open_ones = [finding for finding in verdict.findings if finding.state == "open"]
    lines += [f"- {name_finding(finding)}" for finding in open_ones[:LISTED]] or ["- none"]
    if len(open_ones) > LISTED:
        lines.append(f"- and {len(open_ones) - LISTED:,} more")
    return "\n".join(lines)


def _describe_dismissal(finding: Finding, by: str, reason: str) -> str:
    made = Reason(why=reason, by=by, recorded_by=by)
    entry = render_dismissal(make_dismissal(finding, made), finding)
    how = (
        "It counts no more in this pull request, also after a push. Delete or edit the command "
        f"to take it back. For good, add this to {code(DISMISSAL_FILE.name)} in the base branch:"
    )
    return "\n\n".join(
        [
            f"Dismissed by {code(by)}: {name_finding(finding)}",
            f"> {plain(reason)}",
            how,
            code_block([f"{DISMISSAL_FILE.key}:", *entry.splitlines()], "yaml"),
        ]
    )


def name_finding(finding: Finding) -> str:
    """A finding on one line."""
    where = code(format_location(finding))
    return f"**{finding.severity}: {plain(finding.title)}** {where} {code(finding.identity)}"


def explain_finding(finding: Finding, rules: Mapping[str, Rule]) -> str:
    """The finding with its evidence and fix, and the section of its rule.

    Args:
        rules: those that come with the program, by id; others have no section.
    """
    parts = [describe_finding(finding), "\n".join(f"- {line}" for line in _evidence(finding))]
    parts += [describe_tests(finding), describe_patch(finding)]
    if rule := rules.get(finding.rule):
        parts.append(render_rule(rule).rstrip())
    return "\n\n".join(filter(None, parts))


def _evidence(finding: Finding) -> Iterator[str]:
    """The finding's evidence, and objections to it."""
    by = plain(", ".join(finding.reported_by)) or "nobody"
    yield f"{finding.support_told}, confidence {finding.confidence:.2f}, reported by {by}"
    if finding.confirmed_by:
        yield f"confirmed by {plain(', '.join(finding.confirmed_by))}"
    if finding.state != "open":
        yield plain(f"{finding.state}: {finding.waiver}".removesuffix(": "))
    if cause := finding.because_of:
        yield f"because of {code(f'{cause.path}:{cause.line}')} {code(finding.cause_quote)}"
    if rests := finding.guideline:
        yield f"rests on {code(f'{rests.path}:{rests.line}')}: {plain(rests.quote)}"
    if finding.evidence.tool_calls:
        yield f"shown by the calls {plain(', '.join(finding.evidence.tool_calls))}"
    for objection in finding.objections:
        ruling = f" (kept: {objection.why_not})" if objection.why_not else ""
        yield plain(f"{objection.by} disputes it: {objection.reason}{ruling}")
