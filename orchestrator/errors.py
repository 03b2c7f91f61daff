"""The exceptions that leave a module of this package.

::

    DiffcourtError                  one clear line for a person; exit code 2 unless said otherwise
    ├── InputError                  a ref, patch, path or flag that cannot be used
    ├── ConfigError                 a fault in config, agent, skill or rubric, with file and line
    ├── StoreError                  the journal could not be read or written (exit 3, resumable)
    │   └── RunNotFound             no run of that name here (exit 2)
    ├── ReplayMismatch              a recorded effect and the present request differ (exit 3)
    ├── Interrupted                 the person stopped it; resumable (exit 130)
    ├── ApprovalPending             the run waits for a person's yes or no (exit 3, resumable)
    ├── AnswerPending               the run waits for a person's answer (exit 3, resumable)
    ├── ProviderRefused             a wrong key or address: no call can work (exit 2, resumable)
    ├── OutputError                 the result could not be written where it was asked for (exit 3)
    ├── FlowError                   a flow's table is wrong, or a handler left it
    ├── ActionFailed                a registered action's handler failed
    ├── SandboxError                a program could not be started or had to be ended
    ├── ModelError                  a model's reply cannot be used
    │   └── ScriptError             a scripted model was asked something it has no line for
    └── Refused                     the executor did not perform a call
        ├── NotRegistered           no such tool
        ├── NotPermitted            not this agent's, or not in this environment
        ├── InvalidArguments        arguments do not fit the tool's schema
        ├── GuardRefused            a guard said no
        ├── ToolDown                the tool keeps breaking and is left alone for a while
        ├── BudgetExhausted         the worst case of the call does not fit what is left
        ├── ApprovalRequired        irreversible, and no person can be asked
        └── Denied                  a person has said no
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

EXIT_OK = 0
EXIT_GATED = 1
EXIT_USAGE = 2
EXIT_INCOMPLETE = 3
EXIT_INTERRUPTED = 130


class DiffcourtError(Exception):
    """Base of all; ``str()`` is one line that says what to do."""

    exit_code = EXIT_USAGE


class InputError(DiffcourtError):
    """What the person named cannot be reviewed."""


class ConfigError(DiffcourtError):
    """A fault in a data file, with its place.

    Args:
        message: what is wrong and what is allowed.
        file: the file at fault.
        line: 1-based line in it, 0 when the whole file is at fault.
    """

    def __init__(self, message: str, file: Path | str, line: int = 0) -> None:
        self.file, self.line, self.message = str(file), line, message
        super().__init__(f"{file}:{line}: {message}" if line else f"{file}: {message}")


class StoreError(DiffcourtError):
    """The journal could not be read or written; what was recorded before is safe."""

    exit_code = EXIT_INCOMPLETE


class RunNotFound(StoreError):
    """No run of that name."""

    exit_code = EXIT_USAGE


class ReplayMismatch(DiffcourtError):
    """The request under a key differs from the recorded one: never re-run silently."""

    exit_code = EXIT_INCOMPLETE

    def __init__(self, key: str, recorded: object, present: object) -> None:
        self.key, self.recorded, self.present = key, recorded, present
        was, now = _only_in(recorded, present), _only_in(present, recorded)
        super().__init__(
            f"the recorded request at {key} differs from the present one; "
            f"start a new review. recorded: {was!r:.300} present: {now!r:.300}"
        )


def _only_in(one: object, other: object) -> object:
    """What one says otherwise than the other, where both say it by name."""
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        return one
    return {name: said for name, said in one.items() if name not in other or other[name] != said}


class Interrupted(DiffcourtError):
    """The person stopped the run; what was recorded is safe.

    Args:
        run_id: the run that can be continued.
        repo: the repository it belongs to, when the person named one.
    """

    exit_code = EXIT_INTERRUPTED

    def __init__(self, run_id: str, repo: Path | None = None) -> None:
        self.run_id, self.repo = run_id, repo
        super().__init__(f"interrupted; continue with: {resume_command(run_id, repo)}")


class ApprovalPending(DiffcourtError):
    """A call that cannot be undone waits for a person; everything before it is recorded.

    Args:
        run_id: the run that waits.
        call: the call's key in its journal.
        tool: what would be done.
        why: nobody has decided, or what was said no longer holds.
    """

    exit_code = EXIT_INCOMPLETE

    def __init__(self, run_id: str, call: str, tool: str, why: str) -> None:
        self.run_id, self.call, self.tool = run_id, call, tool
        super().__init__(
            f"{tool} cannot be undone, and {why}; see `diffcourt audit show {run_id}`, then "
            f"diffcourt approve {run_id} {call} (or deny), then diffcourt resume {run_id}"
        )


class AnswerPending(DiffcourtError):
    """Only a person can say how to go on; everything before it is recorded.

    Args:
        run_id: the run that waits.
        questions: name → question, those that nobody has answered.
    """

    exit_code = EXIT_INCOMPLETE

    def __init__(self, run_id: str, questions: Mapping[str, str]) -> None:
        self.run_id, self.questions = run_id, dict(questions)
        said = "; ".join(f"({name}) {text}" for name, text in self.questions.items())
        super().__init__(f"a person is asked: {said} Answer with: {answer_command(run_id)}")


def resume_command(run_id: str, repo: Path | None = None) -> str:
    """How to go on with a run, in the repository that the person named."""
    return f"diffcourt resume {run_id}{_at(repo)}"


def answer_command(run_id: str, name: str = "", repo: Path | None = None) -> str:
    """How to answer a question and go on with the run.

    Args:
        name: the question's, where several wait.
        repo: the repository of the run, when the person named one.
    """
    to = f" --to {shlex.quote(name)}" if name else ""
    return f"diffcourt resume {run_id} --answer TEXT{to}{_at(repo)}"


def _at(repo: Path | None) -> str:
    return f" --repo {shlex.quote(str(repo))}" if repo else ""


class ProviderRefused(DiffcourtError):
    """No call can work until a person has changed a setting; nothing was billed."""

    def of(self, run_id: str, repo: Path | None) -> ProviderRefused:
        """The same, with how to go on with the run that met it."""
        return ProviderRefused(f"{self}, then go on with: {resume_command(run_id, repo)}")


class OutputError(DiffcourtError):
    """The result could not be written where it was asked for; the run itself is kept."""

    exit_code = EXIT_INCOMPLETE


class FlowError(DiffcourtError):
    """A transition table that is not sound, or a handler that returned a state outside it."""


class ActionFailed(DiffcourtError):
    """The handler of a registered action failed; what it wrote was put back."""


class SandboxError(DiffcourtError):
    """A program could not be started, or was ended for breaking a limit."""


class ModelError(DiffcourtError):
    """A model's reply cannot be used, or there is none.

    Args:
        billed: whether its last try may have cost something; False for one that was turned away.
            Tries before it are accounted for by then.
    """

    def __init__(self, message: str, *, billed: bool = True) -> None:
        super().__init__(message)
        self.billed = billed


class ScriptError(ModelError):
    """A scripted model got a call that it has no line for, or was left with lines unsaid."""


class Refused(DiffcourtError):
    """The executor did not perform a call. ``code`` is stable and journaled.

    Args:
        reason: why not.
    """

    code = "refused"
    guard = ""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NotRegistered(Refused):
    """No tool of that name."""

    code = "not_registered"


class NotPermitted(Refused):
    """The tool exists, but not for this agent or not in this environment."""

    code = "not_permitted"


class InvalidArguments(Refused):
    """The arguments do not fit the tool's JSON Schema."""

    code = "invalid_arguments"


class GuardRefused(Refused):
    """A guard refused a call, a request of a model, or a report.

    Args:
        guard: the guard's name.
        reason: why it refused.
    """

    code = "guard_refused"

    def __init__(self, guard: str, reason: str) -> None:
        super().__init__(reason)
        self.args = (guard, reason)
        self.guard = guard

    def __str__(self) -> str:
        return f"{self.guard}: {self.reason}"


class ToolDown(Refused):
    """The tool broke so often in a row that it is left alone for a while."""

    code = "tool_down"


class BudgetExhausted(Refused):
    """The worst case of the call does not fit what is left."""

    code = "budget_exhausted"


class ApprovalRequired(Refused):
    """The call cannot be undone, and no person can be asked."""

    code = "approval_required"


class Denied(Refused):
    """A person was asked, and has said no."""

    code = "denied"


def refused(code: str, reason: str, guard: str = "") -> Refused:
    """The error that a recorded refusal stands for.

    Args:
        code: of a subclass of ``Refused``; any other gives a plain ``Refused``.
        guard: the guard that refused, empty for other reasons.
    """
    if guard:
        return GuardRefused(guard, reason)
    kinds: dict[str, type[Refused]] = {kind.code: kind for kind in Refused.__subclasses__()}
    return kinds.get(code, Refused)(reason)
