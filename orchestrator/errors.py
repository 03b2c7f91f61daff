"""The exceptions of this package: each class says when it is raised, and with which exit code."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from diffchecks import show_bytes

EXIT_OK: Final = 0
EXIT_GATED: Final = 1
EXIT_USAGE = 2
EXIT_INCOMPLETE: Final = 3
EXIT_INTERRUPTED = 130


class DiffcourtError(Exception):
    """Base of all; ``str()`` is one line that says what to do."""

    exit_code = EXIT_USAGE

    def __init_subclass__(cls, *, exit_code: int | None = None) -> None:
        cls.exit_code = cls.exit_code if exit_code is None else exit_code

    def __str__(self) -> str:
        return show_bytes(super().__str__())


class InputError(DiffcourtError):
    """A ref, patch, path or option that cannot be used."""


class ChangeTimeout(InputError, exit_code=EXIT_INCOMPLETE):
    """The run's time ended before it was known what to review."""


class ConfigError(DiffcourtError):
    """An error in a data file.

    Args:
        message: what is wrong and what is allowed.
        file: the file's name for messages.
        line: the 1-based line, 0 for an error of the whole file.
    """

    def __init__(self, message: str, file: Path | str, line: int = 0) -> None:
        self.file, self.line, self.message = str(file), line, message
        super().__init__(f"{file}:{line}: {message}" if line else f"{file}: {message}")


class StoreError(DiffcourtError, exit_code=EXIT_INCOMPLETE):
    """The journal could not be read or written; what was recorded before is safe."""


class RunNotFound(StoreError, exit_code=EXIT_USAGE):
    """There is no run of that name."""


class RunDamaged(StoreError):
    """A run's entry or rows were altered after they were written; no attempt can read it."""


class RunLocked(StoreError):
    """Another process writes the run; when it has ended, the run can be resumed."""


class ReplayMismatch(DiffcourtError, exit_code=EXIT_INCOMPLETE):
    """The request under a journal key differs from the recorded one, so it is not repeated."""

    def __init__(self, key: str, recorded: object, present: object) -> None:
        self.key, self.recorded, self.present = key, recorded, present
        before, after = _difference(recorded, present), _difference(present, recorded)
        super().__init__(
            f"the recorded request at {key} differs from the present one; "
            f"begin a new run. recorded: {before!r:.300} present: {after!r:.300}"
        )


def _difference(request: object, other: object) -> object:
    """The fields of a request that differ from another request; all of it when it has no fields."""
    if not (isinstance(request, Mapping) and isinstance(other, Mapping)):
        return request
    return {
        name: value for name, value in request.items() if name not in other or other[name] != value
    }


class Interrupted(DiffcourtError, exit_code=EXIT_INTERRUPTED):
    """The user stopped the run; what was recorded is safe.

    Args:
        run_id: the run that can be resumed.
        repo: its repository, when the user named one.
    """

    def __init__(self, run_id: str, repo: Path | None = None) -> None:
        self.run_id, self.repo = run_id, repo
        super().__init__(f"interrupted; continue with: {resume_command(run_id, repo)}")


class RunCancelled(DiffcourtError, exit_code=EXIT_INCOMPLETE):
    """A person cancelled the run before it was known what to review."""


class ApprovalPending(DiffcourtError, PermissionError, exit_code=EXIT_INCOMPLETE):
    """A call waits for a person's approval; everything before it is recorded.

    Args:
        arguments: of the call as it would be performed: guards may have changed the agent's own.
        run_id: the run that waits.
        approval: the short digest of the request, which a person approves.
        tool: the tool that is called.
        why: no decision exists, or it is no longer valid.
        call: the call's key in the journal.
    """

    def __init__(
        self,
        run_id: str,
        approval: str,
        tool: str,
        why: str,
        *,
        call: str,
        arguments: Mapping[str, object],
    ) -> None:
        self.run_id, self.approval, self.call, self.tool = run_id, approval, call, tool
        self.arguments = arguments
        super().__init__(
            f"{tool} needs a person's approval, and {why}; list it with: diffcourt approve {run_id}"
            f", decide with: {approve_command(run_id, approval)} (or deny), then: "
            f"{resume_command(run_id)}, or start the program again whose run it is"
        )


class AnswerPending(DiffcourtError, exit_code=EXIT_INCOMPLETE):
    """The run waits for a person's answer; everything before it is recorded.

    Args:
        run_id: the run that waits.
        questions: name → question, the unanswered ones.
    """

    def __init__(self, run_id: str, questions: Mapping[str, str]) -> None:
        self.run_id, self.questions = run_id, dict(questions)
        several = len(self.questions) > 1
        listed = "; ".join(
            f"({name}) {text} Answer with: {answer_command(run_id, name if several else '')}"
            for name, text in self.questions.items()
        )
        super().__init__(f"a person is asked: {listed}")


def resume_command(run_id: str, repo: Path | None = None) -> str:
    """The command that resumes a run, in the repository that the user named."""
    return f"diffcourt resume {run_id}{_at(repo)}"


def raise_limit_command(run_id: str, why: str) -> str:
    """The command that goes on with more of what a run lacks, by the reason why it stopped."""
    flags = {"tool_calls": "tool-calls", "tokens": "tokens", "usd": "usd", "time": "minutes"}
    option = next((f"{flag} N" for word, flag in flags.items() if word in why), "")
    resumed = option and f"{resume_command(run_id)} --max-{option}"
    return resumed or "diffcourt review --max-iterations N"  # which no resumed run can have


def approve_command(run_id: str, approval: str, repo: Path | None = None) -> str:
    """The command that approves a call, by the short digest of what is requested."""
    return f"diffcourt approve {run_id} {approval}{_at(repo)}"


def answer_command(run_id: str, name: str = "", repo: Path | None = None) -> str:
    """The command that answers a question and resumes the run.

    Args:
        name: the name of the question, when there are several.
        repo: the run's repository, when the user named one.
    """
    to = f" --to {shlex.quote(name)}" if name else ""
    return f"diffcourt resume {run_id} --answer TEXT{to}{_at(repo)}"


def _at(repo: Path | None) -> str:
    return f" --repo {shlex.quote(str(repo))}" if repo else ""


class ProviderRefused(DiffcourtError):
    """No call can succeed until a person changes a setting; nothing was billed."""

    account = False
    """Whether the provider's account is empty or closed."""

    def of(self, run_id: str, repo: Path | None) -> "ProviderRefused":
        """The same error, with the command that resumes the run."""
        return ProviderRefused(f"{self}, then continue with: {resume_command(run_id, repo)}")


class OutputError(DiffcourtError, exit_code=EXIT_INCOMPLETE):
    """The result could not be written to its target; the run itself is kept."""


class FlowError(DiffcourtError):
    """An invalid transition table, or a handler that returned a state outside it."""


class ActionFailed(DiffcourtError):
    """The handler of a registered action failed; what it wrote was rolled back."""


class SandboxError(DiffcourtError):
    """A program could not be started, or was killed because it exceeded a limit."""


class ModelError(DiffcourtError):
    """A model's reply cannot be used, or there is none.

    Args:
        billed: whether its last attempt may have cost something; False for one that was rejected.
            Earlier attempts are accounted for already.
    """

    def __init__(self, message: str, *, billed: bool = True) -> None:
        super().__init__(message)
        self.billed = billed


class ModelUnavailable(ModelError):
    """The provider did not answer in any attempt of a call."""


class VendorDown(ModelError):
    """The provider is down or its account is empty, and another one of the run can replace it."""


class Refused(DiffcourtError):
    """The executor did not perform a call. ``code`` is stable and journaled.

    Args:
        reason: why not.
    """

    code = "refused"
    guard = ""

    def __init_subclass__(cls, *, code: str = "", exit_code: int | None = None) -> None:
        super().__init_subclass__(exit_code=exit_code)
        cls.code = code or cls.code

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class NotRegistered(Refused, code="not_registered"):
    """There is no tool of that name."""


class NotPermitted(Refused, code="not_permitted"):
    """The tool exists, but not for this agent or not in this environment."""


class NotOffered(NotPermitted, code="not_offered"):
    """The tool exists, but the agent's list of tools does not have it."""


class InvalidArguments(Refused, code="invalid_arguments"):
    """The arguments do not match the tool's JSON Schema."""


class GuardRefused(Refused, code="guard_refused"):
    """A guard refused a call, a request of a model, or a report.

    Args:
        guard: the guard's name.
        reason: why it refused.
    """

    def __init__(self, guard: str, reason: str) -> None:
        super().__init__(reason)
        self.args = (guard, reason)
        self.guard = guard

    def __str__(self) -> str:
        return f"{self.guard}: {self.reason}"


class ToolDown(Refused, code="tool_down"):
    """The tool failed too many times in a row and is disabled for a while."""


class BudgetExhausted(Refused, code="budget_exhausted"):
    """The worst case of the call exceeds what is left of a budget."""


class ApprovalRequired(Refused, code="approval_required"):
    """The call is irreversible, and there is no person to ask."""


class Denied(Refused, code="denied"):
    """A person denied the call."""


def refused(code: str, reason: str, guard: str = "") -> Refused:
    """The error that a recorded refusal stands for.

    Args:
        code: of a subclass of ``Refused``; any other gives a plain ``Refused``.
        guard: the guard that refused, empty for other reasons.
    """
    if guard or code == GuardRefused.code:
        return GuardRefused(guard, reason)
    known: list[type[Refused]] = [*Refused.__subclasses__(), NotOffered]
    kinds = {kind.code: kind for kind in known}
    return kinds.get(code, Refused)(reason)
