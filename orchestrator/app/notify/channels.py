"""Send a message over a channel: a command, a webhook, or Apprise."""

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Mapping

import anyio
from anyio import to_thread
from msgspec import to_builtins
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from orchestrator.app.notify.messages import Notification
from orchestrator.catalog.notify_channels import Channel
from orchestrator.engine.ports import SystemClock
from orchestrator.errors import DiffcourtError
from orchestrator.optional_dependencies import install_command
from orchestrator.program_search import find_program
from orchestrator.sandbox.process_start import run_process

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

    retrying = AsyncRetrying(
        sleep=anyio.sleep,
        wait=wait_exponential(FIRST_WAIT, 5.0),
        stop=stop_after_attempt(ATTEMPTS),
        retry=retry_if_exception_type(NotSentYet),
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
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise NotSent(f"{name} ended with {done.returncode}: {''.join(said[-1:])}")


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
    told = apprise.Apprise()
    if not told.add(address):
        raise NotSent("Apprise does not know such an address")
    if not told.notify(title=f"Diffcourt: {message.title}", body=message.body):
        raise NotSentYet("Apprise could not deliver it")
