"""Tokens with which jobs read and post: of a bot, or of an installation of a GitHub App."""

import time
from collections.abc import Mapping

import httpx2

from orchestrator.errors import DiffcourtError, InputError
from orchestrator.optional_dependencies import install_command
from orchestrator.service.changes import StoredChange
from orchestrator.service.settings import ForgeSettings

READING: Mapping[str, str] = {"contents": "read"}
LISTING: Mapping[str, str] = {"pull_requests": "read"}
POSTING: Mapping[str, str] = {"checks": "write", "pull_requests": "write"}

MARGIN_SECONDS = 600.0
"""A token is not handed out when it is valid for less than this."""

VALID_SECONDS = 3600.0
"""How long GitHub's tokens of installations are valid."""

CALL_SECONDS = 20.0


class NoToken(DiffcourtError, exit_code=3):
    """The forge gave no token; another attempt may get one."""


class ForgeTokens:
    """Tokens, cached while they are valid; of an App, one for each repository and purpose."""

    def __init__(self) -> None:
        # By forge, installation, repository and purpose: the token, and until when it is valid.
        self._kept: dict[tuple[object, ...], tuple[str, float]] = {}

    def get(
        self, forge: ForgeSettings, change: StoredChange, permissions: Mapping[str, str]
    ) -> str:
        """The token for a change's repository; blocks while the forge is asked.

        Args:
            permissions: of a GitHub App's token; no more than the job needs.

        Raises:
            InputError: the configuration names no usable token.
            NoToken: the forge does not answer.
        """
        if forge.app_id is None:
            return forge.token.read() if forge.token else ""
        name = (change.forge, change.installation, change.repository, tuple(permissions.items()))
        token, until = self._kept.get(name, ("", 0.0))
        if until < time.monotonic() + MARGIN_SECONDS:
            until = time.monotonic() + VALID_SECONDS
            token = _ask(forge, change, permissions)
            self._kept[name] = token, until
        return token


def _ask(forge: ForgeSettings, change: StoredChange, permissions: Mapping[str, str]) -> str:
    """A new token of a GitHub App's installation, for one repository."""
    if not change.installation.isdecimal():
        raise InputError(f"{change.change} names no installation of the App; install it there")
    address = f"{forge.url.rstrip('/')}/app/installations/{change.installation}/access_tokens"
    try:
        answer = httpx2.post(
            address,
            headers={"Authorization": f"Bearer {_app_token(forge)}"},
            json={
                "repositories": [change.repository.rpartition("/")[2]],
                "permissions": dict(permissions),
            },
            timeout=CALL_SECONDS,
        )
        if answer.status_code < 500 and answer.status_code not in {201, 403, 429}:
            raise InputError(
                f"{forge.url} gives no token for {change.repository} ({answer.status_code}); "
                "check app_id, private_key and the App's permissions"
            )
        answer.raise_for_status()
        return str(answer.json()["token"])
    except (httpx2.HTTPError, ValueError, KeyError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise NoToken(f"{forge.url} gives no token now: {why}") from None


def _app_token(forge: ForgeSettings) -> str:
    """The signed token of the App itself, valid for minutes."""
    try:
        from github import Auth  # noqa: PLC0415 - an extra
    except ImportError:
        why = f"a GitHub App needs PyGithub; run: {install_command('github')}"
        raise InputError(why) from None
    assert forge.private_key is not None  # as the settings require
    assert forge.app_id is not None
    try:
        return Auth.AppAuth(forge.app_id, forge.private_key.read()).token
    except (ValueError, TypeError) as error:
        raise InputError(f"the App's private key cannot be used: {error}") from None
