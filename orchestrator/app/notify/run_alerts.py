"""Notifies people of an alert once, when it begins to fire; the state records it."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import anyio

from diffchecks.safe_paths import SafeDirectory, read_safely
from orchestrator.app.notify.channels import Notification, find_channels, try_send
from orchestrator.app.runs import state_directory
from orchestrator.app.statistics.threshold_alerts import Alert
from orchestrator.catalog.notify_channels import Channel
from orchestrator.code_review.change.change_construction import find_default_branch
from orchestrator.code_review.change.git.commands import Git
from orchestrator.engine.ports import SystemClock
from orchestrator.errors import DiffcourtError

TOLD = "notified-alerts.json"
"""Channel → the alerts that it was told of and that have fired since; in the state directory."""


def notify_of_alerts(repo: Path | None, alerts: Sequence[Alert]) -> list[str]:
    """Notify each channel of the alerts that began to fire; an alert that ends is forgotten.

    Returns:
        A line for each channel that could not be notified, with the reason.
    """
    try:
        return anyio.run(_notify, repo, alerts)
    except DiffcourtError as error:
        return [f"nobody was notified: {error}"]


async def _notify(repo: Path | None, alerts: Sequence[Alert]) -> list[str]:
    commit = None
    if state_directory.inside_repository(repo or Path()):
        found = await find_default_branch(await Git.open(repo or Path()))
        commit = found[1] if found else None
    channels = await find_channels(repo, commit, os.environ)
    wanted = {name: one for name, one in channels.items() if "alert" in one.events}
    if not wanted:
        return []
    folder = state_directory.state_dir(repo)
    sent, firing = _read(folder), {one.name: one for one in alerts if one.state == "firing"}
    unknown = {one.name for one in alerts if one.state == "unknown"}
    failed: list[str] = []
    for name, channel in wanted.items():
        before = set(sent.get(name, ())) & (firing.keys() | unknown)
        new = [firing[alert] for alert in sorted(firing.keys() - before)]
        why = await _send_alerts(channel, new) if new else ""
        sent[name] = sorted(before | {alert.name for alert in new})
        with SafeDirectory(folder) as root:
            root.write(TOLD, json.dumps(sent, sort_keys=True).encode())
        if why:
            failed.append(f"the channel {name} was not notified (alert): {why}")
    return failed


async def _send_alerts(channel: Channel, alerts: Sequence[Alert]) -> str:
    """Send one message of several alerts; returns why it was not sent, empty if it was."""
    names = ", ".join(alert.name for alert in alerts)
    text = "\n".join(alert.message for alert in alerts)
    message = Notification(
        f"alert/{names}/{SystemClock().now():.0f}",
        "alert",
        "",
        f"Alert: {names}",
        text,
        "diffcourt stats --check",
    )
    return await try_send(channel, message)


def _read(folder: Path) -> dict[str, list[str]]:
    try:
        found = json.loads(read_safely(folder, TOLD))
    except (OSError, ValueError):
        return {}
    return {str(k): [str(v) for v in vs] for k, vs in found.items() if isinstance(vs, list)}
