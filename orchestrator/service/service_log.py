"""The log of server and workers: one line an event on standard error, without secrets."""

import logging
import os
from copy import copy

from orchestrator.app.process_secrets import make_redactor
from orchestrator.service.job_queue import JobFailed


class _OneLineFormatter(logging.Formatter):
    """Time, level and message on one line; a traceback where there is one."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._redact = make_redactor(os.environ)

    def format(self, record: logging.LogRecord) -> str:
        """The line; of what is a failure of ours and no defect, without a traceback."""
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if isinstance(error, JobFailed):
            record = copy(record)
            record.msg, record.args = f"{record.getMessage()}: {error}", ()
            record.exc_info = record.exc_text = None
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line, printable and without secrets."""
        line = super().formatMessage(record)
        return self._redact("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line))


def log_to_stderr() -> None:
    """Log what the service does; of its libraries, warnings only."""
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLineFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("diffcourt").setLevel(logging.INFO)
