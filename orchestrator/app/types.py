"""Options and results of the app as plain data; importing them is cheap."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, convert
from msgspec.structs import asdict, force_setattr

from orchestrator.code_review.change.change_description import storable
from orchestrator.engine.field_types import check_amounts
from orchestrator.engine.ports import RunMeta
from orchestrator.errors import DiffcourtError, InputError, RunDamaged

if TYPE_CHECKING:
    from orchestrator.code_review.verdict.model import Verdict
    from orchestrator.errors import ConfigError

PROGRAM = "program"
"""The kind of run that a program keeps with the library; a review's entry has no kind."""

DAMAGE = (ValueError, KeyError, TypeError, AttributeError, OverflowError)
"""What interpreting an altered row can raise."""

ENTRY_DAMAGED = "its entry in the store is damaged, or of another version of Diffcourt"


def describe_damage(run_id: str, error: Exception) -> str:
    """Why a run cannot be read, with the command that says more."""
    if isinstance(error, DiffcourtError):
        return str(error)
    return f"its journal cannot be read ({error}); see: diffcourt audit verify {run_id}"


def is_program_run(run: RunMeta) -> bool:
    """Whether a run is of a program that uses the library, and not a review."""
    return isinstance(run.meta, dict) and run.meta.get("kind") == PROGRAM


def is_readable(run: RunMeta) -> bool:
    """Whether a run's entry in the store has the form of one."""
    if is_program_run(run):
        return isinstance(run.meta.get("root", 0), str | None)
    options = run.meta.get("options") if isinstance(run.meta, dict) else None
    return isinstance(options, dict) and "has_diff" in options


def check_entry(run: RunMeta) -> None:
    """Raise ``RunDamaged`` where ``is_readable`` does not take a run's entry."""
    if not is_readable(run):
        raise RunDamaged(f"run {run.run_id} cannot be used: {ENTRY_DAMAGED}")


def review_options(run: RunMeta) -> Mapping[str, Any]:
    """The options of a review, in the form of ``ReviewOptions.as_meta``.

    Raises:
        InputError: the run is no review.
        RunDamaged: its entry cannot be read.
    """
    if is_program_run(run):
        raise InputError(
            f"{run.run_id} belongs to another program and is not a review; restart that program "
            "to continue it"
        )
    options: dict[str, Any] = run.meta["options"] if is_readable(run) else {}
    with suppress(ValueError):
        if options.keys() == ReviewOptions().as_meta().keys():
            convert({**options, "repo": None}, ReviewOptions)
            return options
    raise RunDamaged(f"run {run.run_id} cannot be used: {ENTRY_DAMAGED}")


class ReviewOptions(Struct, frozen=True):
    """What to review and how; None leaves a setting to the policy.

    Attributes:
        repo: a directory of the repository; None: the current directory.
        base: the git ref to compare with; None: the merge base with the default branch.
        head: the git ref to review; None: HEAD.
        worktree: review the files of the work tree, committed or not, in place of ``head``.
        staged: review what is staged for the next commit, in place of ``head``.
        diff: a unified diff to review in place of refs.
        diff_name: the name of that diff in messages; empty without one.
        paths: directories or files of the repository to which the review is limited; empty: all.
        title, description: the author's title and description; None: those of the CI's variables.
        models: models in place of base's, each for all agents or, as ``AGENT=MODEL``, for one.
        max_minutes: wall time in minutes.
        coverage: absolute paths of coverage reports.
        imports: absolute paths of other analyzers' reports, each alone or as ``FORMAT:PATH``.
        advisories: absolute path of a dump of advisories; None: that of the configuration, if any.
        previous: the path of a verdict to compare with; None: the newest in the store, if any.
        no_cache: ignore the analyzer results of earlier reviews.
        no_proofs: no agent writes tests that prove findings.
        run_tests: base's test command and agents' snippets may run; None: the environment decides.
        run_analyzers: the analyzers and type checker of base may run; None: as ``run_tests``.
        allow_spending: base may choose a paid provider and raise bounds; None: as ``run_tests``.
    """

    repo: Path | None = None
    base: str | None = None
    head: str | None = None
    worktree: bool = False
    staged: bool = False
    diff: bytes | None = None
    diff_name: str = ""
    paths: Sequence[str] = ()
    title: str | None = None
    description: str | None = None
    provider: str | None = None
    models: Sequence[str] = ()
    pattern: str | None = None
    effort: str | None = None
    max_iterations: int | None = None
    max_tool_calls: int | None = None
    max_minutes: float | None = None
    max_tokens: int | None = None
    max_usd: float | None = None
    coverage: Sequence[str] = ()
    imports: Sequence[str] = ()
    advisories: str | None = None
    previous: str | None = None
    no_cache: bool = False
    no_proofs: bool = False
    run_tests: bool | None = None
    run_analyzers: bool | None = None
    allow_spending: bool | None = None

    def __post_init__(self) -> None:
        limits = ("max_iterations", "max_tool_calls", "max_minutes", "max_tokens", "max_usd")
        check_amounts(self, *(name for name in limits if getattr(self, name) is not None))
        for name in ("title", "description"):
            if (text := getattr(self, name)) is not None:
                force_setattr(self, name, storable(text))

    def as_meta(self) -> dict[str, Any]:
        """The options as JSON for the store's index, which does not hold the diff itself."""
        plain = {
            name: value for name, value in asdict(self).items() if name not in {"diff", "repo"}
        }
        repo = os.fspath(self.repo.absolute()) if self.repo else None
        return {**plain, "repo": repo, "has_diff": self.diff is not None}

    @classmethod
    def of_meta(cls, meta: Mapping[str, Any], diff: bytes | None) -> ReviewOptions:
        """The options from the store's index and the diff that was saved beside it."""
        given = {**meta, "diff": diff, "repo": Path(meta["repo"]) if meta["repo"] else None}
        del given["has_diff"]
        return cls(**given)


class Answer(Struct, frozen=True):
    """A person's answer to a question of a run; ``to`` is its name, empty for the only one."""

    text: str
    to: str = ""


class RunInfo(Struct, frozen=True):
    """One run in the list of runs.

    Attributes:
        started: ISO 8601 time.
        change: a short description of the change.
        state: ``finished``, ``waiting`` for a person, ``interrupted``, ``cancelled``, ``running``
            or ``unreadable``.
        verdict: None while there is none; of a waiting run, the partial one.
        findings: number of open findings, None while there is no verdict.
        is_read: an agent with a model read the change.
    """

    run_id: str
    started: str
    change: str
    state: str
    verdict: str | None
    findings: int | None
    is_read: bool = False


class TimelineEntry(Struct, frozen=True):
    """One effect of a run.

    Attributes:
        seq: its row number in the journal.
        at: seconds since the run started.
        key: its journal key, such as ``2/act/security/turn3/model``.
        seconds: its duration; None where it was not measured.
    """

    seq: int
    at: float
    kind: str
    key: str
    summary: str
    seconds: float | None


class ShownRun(Struct, frozen=True):
    """One run in full; ``verdict`` is None while there is none."""

    info: RunInfo
    verdict: Verdict | None
    timeline: list[TimelineEntry]


class CatalogListing(Struct, frozen=True):
    """The entries of the catalog as (name, description), and every error in it."""

    tools: list[tuple[str, str]]
    problems: list[ConfigError] = []
    agents: list[tuple[str, str]] = []
    skills: list[tuple[str, str]] = []
    rubrics: list[tuple[str, str]] = []
