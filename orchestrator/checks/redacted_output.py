"""Redacts secrets in a program's output."""

from typing import Any

from orchestrator.checks.check_io import Source
from orchestrator.checks.secrets.redaction import redact_secrets
from orchestrator.checks.secrets.secret_scan import find_secrets_by_line


def run(job: dict[str, Any]) -> str:
    """The job's ``text`` without secrets."""
    source = Source("output.txt", job["text"].encode("utf-8", "surrogateescape"))
    return redact_secrets(job["text"], {secret for _, secret in find_secrets_by_line(source)})
