"""Runs that were resumed from a page, each in its own process."""

import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from orchestrator.app.human_decisions.approvals import ACTING_FOR
from orchestrator.errors import EXIT_INCOMPLETE
from orchestrator.program_search import given_path
from orchestrator.sandbox.process_start import ISOLATED_PYTHON, start_process
from orchestrator.web.access import PROXY_SECRET

LAST_CHARACTERS = 600


class ProcessState(Struct):
    """A process that continues a run; ``code`` is None while it runs."""

    code: int | None = None
    said: str = ""


class RunProcesses:
    """Starts ``diffcourt resume``, so that the pages stay responsive while a review runs."""

    def __init__(self) -> None:
        self._states: dict[str, ProcessState] = {}
        self._lock = threading.Lock()

    def state_of(self, run_id: str) -> ProcessState | None:
        """The state of a run's last process; None if there was none."""
        return self._states.get(run_id)

    def resume(self, repo: Path, run_id: str, person: str = "", more: Sequence[str] = ()) -> bool:
        """Continue a run; False while it is being continued.

        Args:
            person: the person who acts, if not the user of this program.
            more: further options of the command.
        """
        with self._lock:
            known = self._states.get(run_id)
            if known is not None and known.code is None:
                return False
            state = self._states[run_id] = ProcessState()
        command = (*ISOLATED_PYTHON, "-m", "orchestrator", "resume", run_id)
        options = ("--repo", str(repo.absolute()), "--quiet", *more)
        environment = {name: value for name, value in os.environ.items() if name != PROXY_SECRET}
        environment["PATH"] = given_path()  # base's configuration may name programs on it
        if person:
            environment[ACTING_FOR] = person
        try:
            process = start_process(
                (*command, *options), env=environment, stdout=subprocess.DEVNULL
            )
        except OSError as error:
            state.code, state.said = EXIT_INCOMPLETE, f"it could not be started: {error.strerror}"
            return True
        threading.Thread(target=_watch, args=(process, state), daemon=True).start()
        return True


def _watch(process: "subprocess.Popen[bytes]", state: ProcessState) -> None:
    _, errors = process.communicate()
    state.said = errors.decode("utf-8", "replace").strip()[-LAST_CHARACTERS:]
    state.code = process.returncode
