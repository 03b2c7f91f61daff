"""The configuration of server and workers: one YAML file; secrets are in files or variables."""

import os
from pathlib import Path
from typing import Literal

from msgspec import field

from orchestrator.catalog.yaml_validation import read_yaml
from orchestrator.engine.field_types import PositiveFloat, PositiveInt, Strict
from orchestrator.errors import InputError
from orchestrator.service.changes import Enqueuing
from orchestrator.service.job_queue import QueueTimes
from orchestrator.service.local_postgres import start_local_postgres


class NoSecret(InputError):
    """A secret is missing, perhaps only temporarily, as in a rotation."""


class Secret(Strict, frozen=True):
    """The place of a secret, which is read on each use, so that it can be rotated.

    Attributes:
        file: the path of a file with the secret.
        env: the environment variable with the secret.
    """

    file: str = ""
    env: str = ""

    def __post_init__(self) -> None:
        if bool(self.file) == bool(self.env):
            raise ValueError("name the file of the secret, or its environment variable (env)")

    def read(self) -> str:
        """The secret itself.

        Raises:
            NoSecret: it is not where the configuration says.
        """
        if self.file:
            try:
                value = Path(self.file).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                why = getattr(error, "strerror", "") or error
                raise NoSecret(f"the secret {self.file} cannot be read: {why}") from None
            if not value:
                raise NoSecret(f"the secret {self.file} is empty")
            return value
        value = os.environ.get(self.env, "").strip() if self.env else ""
        if not value:
            raise NoSecret(f"the secret {self.env} is not set; set that environment variable")
        return value


class Database(Secret, frozen=True):
    """Where the service's tables and the journals are.

    Attributes:
        local: a directory for a PostgreSQL of our own, in place of ``file`` or ``env``, which hold
            the address of a server.
    """

    local: str = ""

    def __post_init__(self) -> None:
        if [bool(self.file), bool(self.env), bool(self.local)].count(True) != 1:
            raise ValueError("give one of local, file and env")

    def read(self) -> str:
        """The address; a server of our own is started where it is not running.

        Raises:
            InputError: there is none.
            StoreError: our own does not start.
        """
        return start_local_postgres(Path(self.local)) if self.local else super().read()


class ForgeSettings(Strict, frozen=True):
    """One forge.

    Attributes:
        kind: whose API and webhooks it has.
        url: address of its API (GitHub) or of its web pages.
        webhook_secret: with which it signs, or which it sends.
        token: of the bot that reads and posts; not for a GitHub App.
        app_id, private_key: of a GitHub App, in place of the token.
    """

    kind: Literal["github", "gitlab", "forgejo"]
    url: str
    webhook_secret: Secret
    token: Secret | None = None
    app_id: int | None = None
    private_key: Secret | None = None

    def __post_init__(self) -> None:
        if (self.app_id is None) != (self.private_key is None):
            raise ValueError("a GitHub App needs both app_id and private_key")
        if not self.url.startswith(("https://", "http://")):
            raise ValueError("url must begin with https:// or http://")


class ServiceReviews(Strict, frozen=True):
    """How changes are reviewed; None leaves it to the policy of each repository's base.

    Attributes:
        max_usd, max_minutes: of one review.
        allow_spending: base's policy may choose a paid provider.
        env: environment variables that reviews are passed, such as a provider's key.
    """

    provider: str | None = None
    max_usd: PositiveFloat | None = None
    max_minutes: PositiveFloat | None = None
    allow_spending: bool = False
    env: dict[str, Secret] = field(default_factory=dict)


class InstallationSettings(Strict, frozen=True):
    """What is an installation's own.

    Attributes:
        env: environment variables of its reviews, in place of those of all.
    """

    env: dict[str, Secret] = field(default_factory=dict)


class SpendingLimits(Strict, frozen=True):
    """What reviews may cost, and how many may begin; None: no limit.

    Attributes:
        installation_daily_usd, repository_daily_usd: in a day of UTC, in US dollars.
        installation_hourly, repository_hourly: reviews that begin within an hour; more wait.
    """

    installation_daily_usd: PositiveFloat | None = None
    repository_daily_usd: PositiveFloat | None = None
    installation_hourly: PositiveInt | None = None
    repository_hourly: PositiveInt | None = None


class WorkerSettings(Strict, frozen=True):
    """What one worker does.

    Attributes:
        cache: directory of the clones, at the same path on all workers.
        concurrency: jobs at a time.
        grace: seconds that running jobs get when the worker is asked to end.
        most_crashes: deaths of workers or reviews on one head until it is parked.
        alive_file: a file that is touched as long as the worker works, for a probe; empty: none.
    """

    cache: str = "/var/cache/diffcourt"
    concurrency: PositiveInt = 2
    grace: PositiveFloat = 20.0
    most_crashes: PositiveInt = 3
    alive_file: str = ""


class ServiceSettings(Strict, frozen=True):
    """The whole file.

    Attributes:
        tenants: the key from which passwords of each installation's own role are made; None: all
            journals are in one schema.
        installations: FORGE:INSTALLATION → what is its own.
        traces: address of an OTLP collector for traces from webhook to post; empty: none.
    """

    database: Database
    forges: dict[str, ForgeSettings]
    tenants: Secret | None = None
    installations: dict[str, InstallationSettings] = field(default_factory=dict)
    traces: str = ""
    limits: SpendingLimits = field(default_factory=SpendingLimits)
    review: ServiceReviews = field(default_factory=ServiceReviews)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    queue: QueueTimes = field(default_factory=QueueTimes)
    enqueuing: Enqueuing = field(default_factory=Enqueuing)


def load_settings(path: Path) -> ServiceSettings:
    """Read the configuration file.

    Raises:
        ConfigError: it is invalid; says where.
        InputError: it cannot be read, or its times contradict each other.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"the configuration {path} cannot be read: {error.strerror}; name another with --config"
        ) from None
    settings = read_yaml(ServiceSettings, data, str(path))
    times, worker = settings.queue, settings.worker
    if times.stalled < 3 * times.heartbeat or worker.grace >= times.stalled:
        raise InputError(
            f"{path}: queue.stalled ({times.stalled:g}) must be at least three heartbeats "
            f"({times.heartbeat:g}) and above worker.grace ({worker.grace:g})"
        )
    return settings
