"""The output of programs in tool calls, kept in the run's directory for people.

The verdict's outcome and digest do not depend on it.
"""

import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from anyio import to_thread
from msgspec import Struct, to_builtins

from diffchecks.safe_paths import SafeDirectory
from orchestrator.code_review.analyzers.own_checks import call_check
from orchestrator.engine.program_output_collection import ProgramOutput, keep_ends
from orchestrator.engine.secret_redaction import Redactor
from orchestrator.engine.types import Json
from orchestrator.errors import SandboxError
from orchestrator.sandbox.worker_pool import WorkerPool

DIRECTORY = "outputs"
"""Below the run's directory."""
MAX_STREAM_BYTES = 64 << 10
"""Of each stream; of a longer one, the beginning and the end are kept."""
MAX_FILES = 250
MAX_TOTAL_BYTES = 16 << 20
REDACTION_SECONDS = 10.0
WITHHELD = "[withheld: it could not be searched for secrets]\n"


class KeptFile(Struct, frozen=True):
    """A file with the output of a call's programs; ``path`` is below the run's directory."""

    path: str
    sha256: str
    bytes: int


class ProgramOutputs:
    """An ``OutputStore`` in the run's directory.

    Args:
        redact: removes our own secrets; those of the change are found by a check in a worker.
    """

    def __init__(self, run_directory: Path, pool: WorkerPool, redact: Redactor) -> None:
        self._directory, self._pool, self._redact = run_directory, pool, redact

    async def keep(self, ref: str, programs: Sequence[ProgramOutput]) -> Json:
        """Write the output of a call's programs to a file.

        Returns:
            Each program's name and exit status, and the file; no file if nothing was printed, the
            run has its maximum of files, or the file cannot be written.
        """
        kept: dict[str, Json] = {"programs": [[program.name, program.code] for program in programs]}
        printed = [program for program in programs if program.stdout or program.stderr]
        if printed:
            text = await self._redacted("".join(map(_format, printed)))
            data = text.encode("utf-8", "backslashreplace")
            path = f"{DIRECTORY}/{_file_name(ref)}"
            if await to_thread.run_sync(self._write, path, data):
                sha256 = hashlib.sha256(data).hexdigest()
                kept["file"] = to_builtins(KeptFile(path, sha256, len(data)))
        return kept

    async def _redacted(self, text: str) -> str:
        job = {"text": text}
        try:
            text = await call_check(
                self._pool, "redacted_text:redact_output", job, REDACTION_SECONDS, str
            )
        except SandboxError:
            return WITHHELD
        return self._redact(text)

    def _write(self, path: str, data: bytes) -> bool:
        with suppress(OSError), SafeDirectory(self._directory) as run:
            run.make_directory(DIRECTORY)
            sizes = [entry.stat().st_size for entry in (self._directory / DIRECTORY).iterdir()]
            if len(sizes) < MAX_FILES and sum(sizes) + len(data) <= MAX_TOTAL_BYTES:
                run.write(path, data, 0o600)
                return True
        return False


def _format(program: ProgramOutput) -> str:
    status = "ended before it was done" if program.code is None else f"exit status {program.code}"
    streams = (("stdout", program.stdout), ("stderr", program.stderr))
    parts = [f"== {program.name}: {status}\n"]
    parts += [f"-- {name}, {len(data)} bytes\n{_shorten(data)}\n" for name, data in streams if data]
    return "".join(parts)


def _shorten(data: bytes) -> str:
    kept = keep_ends(data, MAX_STREAM_BYTES)
    return kept.decode("utf-8", "backslashreplace").replace("\x00", "\\x00")


def _file_name(ref: str) -> str:
    """A safe and unique file name for a call's key."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", ".", ref).strip(".")[:100]
    return f"{plain}-{hashlib.sha256(ref.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}.txt"
