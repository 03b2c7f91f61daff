"""Channels over which people are told of runs (``config/notify.yaml``, and a user's own file)."""

from collections.abc import Sequence
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

from msgspec import Meta, field

from orchestrator.catalog.data_file_layers import Layer, read_merged
from orchestrator.engine.field_types import NonEmptyStr, PositiveFloat, Strict
from orchestrator.errors import ConfigError

NOTIFY_FILE = "config/notify.yaml"

EventName = Literal["approval", "question", "budget", "incomplete", "alert", "blocked"]
EVENTS: tuple[EventName, ...] = get_args(EventName)

ChannelName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
Variable = Annotated[str, Meta(pattern="^[A-Z][A-Z0-9_]*$")]

OWN_VARIABLES = "DIFFCOURT_NOTIFY_"
"""How the variables begin that a repository's configuration may name: never any other secret."""

LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class Channel(Strict, frozen=True, kw_only=True):
    """One channel: a command, a webhook, or a service that Apprise knows.

    Attributes:
        command: a program and its arguments, which gets the message as JSON on standard input.
        webhook: address to post the message to, as JSON.
        webhook_env: the environment variable that holds that address, where it is a secret.
        secret_env: the variable of the key that signs the webhook's messages; None: not signed.
        apprise_env: the variable that holds an Apprise address, of a mail server too.
        events: those that the channel is told of.
        timeout: seconds for one attempt.
    """

    command: tuple[NonEmptyStr, ...] = ()
    webhook: NonEmptyStr | None = None
    webhook_env: Variable | None = None
    secret_env: Variable | None = None
    apprise_env: Variable | None = None
    events: Annotated[tuple[EventName, ...], Meta(min_length=1)] = EVENTS
    timeout: PositiveFloat = 10.0

    def __post_init__(self) -> None:
        kinds = [self.command, self.webhook, self.webhook_env, self.apprise_env]
        if sum(map(bool, kinds)) != 1:
            raise ValueError(
                "needs one of command, webhook, webhook_env and apprise_env, and only one"
            )
        if self.webhook is not None:
            parts = urlsplit(self.webhook)
            local = parts.scheme == "http" and parts.hostname in LOOPBACK
            if parts.scheme != "https" and not local:
                raise ValueError("webhook must begin with https://; http:// is for this machine")

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that it reads."""
        named = (self.webhook_env, self.secret_env, self.apprise_env)
        return tuple(name for name in named if name)


class NotifyFile(Strict, frozen=True):
    """The whole of a file of channels."""

    channels: dict[ChannelName, Channel] = field(default_factory=dict)


def read_channels(layers: Sequence[Layer]) -> dict[str, Channel]:
    """The channels that base configures.

    Raises:
        ConfigError: an error in the file, a command, or a variable that base may not name.
    """
    channels = read_merged(layers, NOTIFY_FILE, NotifyFile).channels
    for name, channel in channels.items():
        where = f"channels.{name}"
        if channel.command:
            raise ConfigError(
                f"{where} has a command, which only a user's own file may have", NOTIFY_FILE
            )
        odd = next((one for one in channel.variables if not one.startswith(OWN_VARIABLES)), None)
        if odd is not None:
            raise ConfigError(
                f"{where} names the variable {odd}; those that a repository names must begin with "
                f"{OWN_VARIABLES}",
                NOTIFY_FILE,
            )
    return dict(channels)
