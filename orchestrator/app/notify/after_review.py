"""Notifies people of a recorded verdict: each event at most once over each channel.

A message is an effect in the run's journal, so a resumed run does not send it again. A failure is
recorded and shown but has no further effect: the verdict is recorded before.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import anyio

from orchestrator.app.configuration_consent import ALLOW_NOTIFYING, read_answer
from orchestrator.app.notify.messages import Notification, messages_of
from orchestrator.app.policy_sources import read_base_layers
from orchestrator.catalog.notify_channels import Channel, NotifyFile, read_channels
from orchestrator.catalog.yaml_validation import read_yaml
from orchestrator.ci_systems import find_ci_system
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.change.git.objects import Objects
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.data_directories import user_directory
from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.engine.journal_keys import NOTIFY, Key
from orchestrator.engine.observer_events import Event, Observer
from orchestrator.engine.task_groups import task_group
from orchestrator.engine.types import Level
from orchestrator.errors import DiffcourtError, Refused

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
        # Imported only if there is a message to send.
        from orchestrator.app.notify.channels import try_send  # noqa: PLC0415

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
