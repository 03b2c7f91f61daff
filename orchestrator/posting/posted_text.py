"""Redacts texts before they are posted: our own secrets, and those that are detected."""

from collections.abc import Callable, Mapping

from diffchecks.secrets.live_secrets import redact_live_secrets
from orchestrator.app.process_secrets import make_redactor


def make_cleaner(environment: Mapping[str, str]) -> Callable[[str], str]:
    """A function that replaces the process's secrets and everything in the format of a token."""
    redact = make_redactor(environment)

    def clean(text: str) -> str:
        return redact_live_secrets(redact(text))

    return clean
