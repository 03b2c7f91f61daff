"""Notifies people of a recorded verdict: each event at most once over each channel.

A channel is a command, a webhook, or Apprise. A message is an effect in the run's journal, so a
resumed run does not send it again. A failure is recorded and shown but has no further effect: the
verdict is recorded before.
"""

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import anyio
from anyio import to_thread
from msgspec import Struct, to_builtins

from orchestrator.app.configuration_consent import ALLOW_NOTIFYING, read_answer
from orchestrator.app.policy_sources import read_base_layers
from orchestrator.catalog.notify_channels import Channel, EventName, NotifyFile, read_channels
from orchestrator.catalog.yaml_validation import read_yaml
from orchestrator.ci_systems import find_ci_system
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.change.git.objects import Objects
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.data_directories import user_directory
from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.engine.journal_keys import NOTIFY, Key
from orchestrator.engine.observer_events import Event, Observer
from orchestrator.engine.ports import SystemClock
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.types import Level
from orchestrator.errors import (
    DiffcourtError,
    Refused,
    answer_command,
    approve_command,
    raise_limit_command,
)
from orchestrator.foreign_json import escape_surrogates
from orchestrator.optional_dependencies import install_command
from orchestrator.program_search import find_program
from orchestrator.sandbox.process_start import run_process
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

    def tell(event: EventName, of: str, title: str, text: str, command: str) -> Notification:
        shown = escape_surrogates(text)
        return Notification(f"{run}/{event}/{of}", event, run, title, shown, command, link)

    for call in verdict.approvals:
        text = "A call that cannot be undone waits for a person, and the review with it."
        command = f"diffcourt approve {run}; {approve_command(run, call.approval)}"
        title = f"{call.agent} asks to call {call.tool}"
        yield tell("approval", call.approval, title, text, command)
    for question in verdict.questions:
        if not question.answer:
            text, command = question.question[:MAX_CHARACTERS], answer_command(run, question.name)
            title = f"{question.agent} asks a question"
            yield tell("question", question.name, title, text, command)
    if verdict.approvals or any(not question.answer for question in verdict.questions):
        return
    stop = f"{verdict.stop.reason}: {verdict.stop.detail}"[:MAX_CHARACTERS]
    tail, show = verdict.digest[:16], f"diffcourt show {run}"
    if verdict.verdict == "block":
        why = "; ".join(verdict.reasons)[:MAX_CHARACTERS]
        yield tell("blocked", tail, "A change is blocked", why, show)
    if verdict.stop.reason == "budget":
        command = raise_limit_command(run, verdict.stop.detail)
        yield tell("budget", tail, "A review stopped at a limit", stop, command)
    elif verdict.status == "incomplete" and verdict.stop.reason != "cancelled":
        gaps = sum(skip.gap for skip in verdict.skipped)
        text = f"{count_noun(gaps, 'gap')}; {stop}"
        yield tell("incomplete", tail, "A review is incomplete", text, show)


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


ATTEMPTS = 3
FIRST_WAIT = 0.5
"""Seconds before the second attempt; each later wait is twice as long."""


class NotSent(DiffcourtError):
    """A message was not delivered, and a retry would not help."""


class NotSentYet(NotSent):
    """A message was not delivered, but a retry may succeed."""


async def send(channel: Channel, message: Notification, environment: Mapping[str, str]) -> None:
    """Deliver a message, with retries after temporary failures.

    Raises:
        NotSent: it was not delivered; says why in one line, without a secret.
    """
    missing = next((name for name in channel.variables if not environment.get(name)), None)
    if missing is not None:
        raise NotSent(f"the environment variable {missing} is not set")

    async def attempt() -> None:
        try:
            with anyio.fail_after(channel.timeout):
                await _send_once(channel, message, environment)
        except TimeoutError:
            raise NotSentYet(f"no answer within {channel.timeout:g} s") from None

    import tenacity  # noqa: PLC0415 - most reviews tell nobody

    retrying = tenacity.AsyncRetrying(
        sleep=anyio.sleep,
        wait=tenacity.wait_exponential(FIRST_WAIT, 5.0),
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        retry=tenacity.retry_if_exception_type(NotSentYet),
        reraise=True,
    )
    await retrying(attempt)


async def try_send(channel: Channel, message: Notification) -> str:
    """Deliver a message; returns why it was not delivered, empty if it was."""
    try:
        await send(channel, message, os.environ)
    except DiffcourtError as error:
        return str(error)
    except Exception as error:  # whatever a library raises must not end the run
        return f"{type(error).__name__}: {error}"
    return ""


async def _send_once(
    channel: Channel, message: Notification, environment: Mapping[str, str]
) -> None:
    if channel.command:
        await _run_command(channel, message, environment)
    elif channel.apprise_env:
        address = environment[channel.apprise_env]
        await to_thread.run_sync(_apprise, address, message, abandon_on_cancel=True)
    else:
        await _post(channel, message, environment)


async def _run_command(
    channel: Channel, message: Notification, environment: Mapping[str, str]
) -> None:
    name, *arguments = channel.command
    program = find_program(name, environment.get("PATH", os.defpath))
    if program is None:
        raise NotSent(f"{name} cannot be started: no such program on PATH, or no absolute path")
    given = json.dumps(to_builtins(message)).encode()
    try:
        done = await run_process((program, *arguments), env=environment, given=given)
    except OSError as error:
        raise NotSent(f"{name} cannot be started: {error.strerror}") from None
    if done.returncode != 0:
        error_lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise NotSent(f"{name} ended with {done.returncode}: {''.join(error_lines[-1:])}")


async def _post(channel: Channel, message: Notification, environment: Mapping[str, str]) -> None:
    """Post JSON, signed by Standard Webhooks (https://www.standardwebhooks.com)."""
    import httpx2  # noqa: PLC0415 - a review without a webhook need not pay for it

    url = channel.webhook or environment[channel.webhook_env or ""]
    body = json.dumps({**to_builtins(message), "body": message.body}, sort_keys=True).encode()
    at = str(int(SystemClock().now()))
    headers = {
        "content-type": "application/json",
        "webhook-id": message.id,
        "webhook-timestamp": at,
    }
    if channel.secret_env:
        headers["webhook-signature"] = sign(environment[channel.secret_env], message.id, at, body)
    try:
        async with httpx2.AsyncClient(timeout=channel.timeout, follow_redirects=False) as client:
            reply = await client.post(url, content=body, headers=headers)
    except httpx2.InvalidURL:
        raise NotSent("its address is not a web address") from None
    except httpx2.HTTPError as error:
        raise NotSentYet(f"{type(error).__name__}: {error}".replace(url, "its address")) from None
    if reply.status_code >= 500 or reply.status_code in {408, 425, 429}:
        raise NotSentYet(f"it answered {reply.status_code}")
    if not reply.is_success:
        raise NotSent(f"it answered {reply.status_code}")


def sign(secret: str, id_: str, at: str, body: bytes) -> str:
    """The signature of a message: HMAC-SHA256 over ``ID.TIMESTAMP.BODY``, in base64.

    Args:
        secret: the key; with the standard's prefix ``whsec_`` it is in base64.
    """
    coded = secret.removeprefix("whsec_")
    key = base64.b64decode(coded) if coded != secret else secret.encode()
    mac = hmac.new(key, f"{id_}.{at}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(mac.digest()).decode()}"


def _apprise(address: str, message: Notification) -> None:
    try:
        import apprise  # noqa: PLC0415 - heavy, and of an extra
    except ImportError:
        raise NotSent(f"Apprise is not installed; run: {install_command('notify')}") from None
    sender = apprise.Apprise()
    if not sender.add(address):
        raise NotSent("Apprise does not know such an address")
    if not sender.notify(title=f"Diffcourt: {message.title}", body=message.body):
        raise NotSentYet("Apprise could not deliver it")


OWN_FILE = "notify.yaml"
MAX_SECONDS = 30.0
"""How long a run that has ended waits for its channels, all together."""


async def notify_of(
    verdict: Verdict, repo: Path | None, journal: Journal, observer: Observer
) -> None:
    """Send the events of a verdict to all channels; a failing channel raises nothing."""
    try:
        messages = list(messages_of(verdict, os.environ))
        if not messages:
            return
        commit = verdict.provenance.policy_commit
        channels = await find_channels(repo, commit, os.environ)
    except DiffcourtError as error:
        observer(Event("note", journal.elapsed(), detail=f"nobody was notified: {error}"))
        return
    names = [name for channel in channels.values() for name in channel.variables]
    journal.redact.add(os.environ.get(name, "") for name in names)
    with anyio.move_on_after(MAX_SECONDS):
        async with task_group() as group:
            for name, channel in channels.items():
                for message in messages:
                    if message.event in channel.events:
                        group.start_soon(_notify_over, name, channel, message, journal, observer)


async def _notify_over(
    name: str, channel: Channel, message: Notification, journal: Journal, observer: Observer
) -> None:
    request = {"channel": name, "event": message.event, "id": message.id}

    async def perform() -> EffectResult:
        failed = await try_send(channel, message)
        return EffectResult({"sent": not failed, "why": failed})

    key = Key(NOTIFY, subject=f"{message.id.partition('/')[2]}/{name}")
    if journal.recorded(key):
        return
    try:
        # It cannot be undone: if a crash leaves open whether it was sent, it is not sent again.
        done = await journal.effect(key, request, perform, level=Level.WRITE)
    except Refused:
        return
    if not done["sent"]:
        line = f"the channel {name} was not notified ({message.event}): {done['why']}"
        observer(Event("note", journal.elapsed(), detail=line))


async def find_channels(
    repo: Path | None, commit: str | None, environment: Mapping[str, str]
) -> dict[str, Channel]:
    """The active channels: the user's own, and base's if these may be used.

    Args:
        commit: the base commit from which the policy is read; may be None.

    Raises:
        ConfigError: an error in one of the files.
        InputError: ``DIFFCOURT_NOTIFY`` is neither 1 nor 0.
    """
    wish = read_answer(ALLOW_NOTIFYING, environment)
    if wish is False:
        return {}
    base: dict[str, Channel] = {}
    if commit is not None and (wish or find_ci_system(environment)):
        async with Objects(await Git.open(repo or Path())) as objects:
            base = read_channels(await read_base_layers(objects, commit))
    return {**base, **dict(_own_channels(environment))}


def _own_channels(environment: Mapping[str, str]) -> Iterator[tuple[str, Channel]]:
    """The channels of the user's own file, to which a repository cannot add a command."""
    directory = user_directory(environment, "XDG_CONFIG_HOME", ".config")
    if directory is None:
        return
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        data = (directory / OWN_FILE).read_bytes()
        file = read_yaml(NotifyFile, data, os.fspath(directory / OWN_FILE))
        yield from file.channels.items()
