"""Redacts texts before they are posted: our own secrets, and those that are detected."""

from collections.abc import Callable, Mapping

from diffchecks.secrets.private_keys import find_private_keys
from diffchecks.secrets.token_formats import find_tokens
from orchestrator.app.process_secrets import make_redactor


def make_cleaner(environment: Mapping[str, str]) -> Callable[[str], str]:
    """A function that replaces the process's secrets and everything in the format of a token."""
    redact = make_redactor(environment)

    def clean(text: str) -> str:
        text = redact(text)
        hits = [*find_tokens(text), *find_private_keys(text, example=False)]
        for secret in {text[hit.start : hit.end] for hit in hits}:
            text = text.replace(secret, "[redacted]")
        return text

    return clean
