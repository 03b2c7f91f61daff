"""The verdicts of past reviews, with their days, from which memory entries are proposed."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import anyio
from msgspec import Struct, field

from orchestrator.app.human_decisions.feedback_notes import (
    FindingFeedback,
    newest_feedback,
    read_feedback,
)
from orchestrator.app.memory.reviewed_findings import DatedVerdict
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.stored_runs import parse_verdict
from orchestrator.app.runs.verdict_files import read_verdict
from orchestrator.app.runs.verdict_recording import VERDICT
from orchestrator.engine.journal_keys import FEEDBACK
from orchestrator.engine.ports import RunMeta
from orchestrator.errors import InputError
from orchestrator.stores.base import RunStore

MAX_RUNS = 500
"""Of all runs, the newest that are read."""

_DAY = re.compile(r"(\d{4})(\d{2})(\d{2})-\d{6}-")


class PastReviews(Struct):
    """Verdicts, the newest first.

    Attributes:
        passed_over: runs whose verdict is from another version of this program.
        feedback: identity of a finding → the newest feedback.
    """

    verdicts: list[DatedVerdict]
    passed_over: int = 0
    feedback: dict[str, FindingFeedback] = field(default_factory=dict)


def load_reviews(repo: Path | None, names: Sequence[str]) -> PastReviews:
    """The reviews of a repository.

    Args:
        names: of runs, or files with verdicts; none: all finished runs in the store.

    Raises:
        InputError: there is no repository, or what is named has no verdict.
        RunNotFound: there is neither a file nor a run of that name.
    """
    if not state_directory.inside_repository(repo or Path()):
        raise InputError(f"{repo or '.'} is not a git repository; name one with --repo")
    files = [name for name in names if name != state_directory.LATEST and Path(name).is_file()]
    found = PastReviews([_read_file(Path(name)) for name in files])
    runs = [name for name in names if name not in files]
    with state_directory.open_store(repo) as store:
        if runs or not names:
            anyio.run(_load, store, runs, found)
    found.verdicts.sort(key=lambda one: one.day, reverse=True)
    return found


def _read_file(path: Path) -> DatedVerdict:
    """A verdict in a file; its run's id begins with the day."""
    verdict = read_verdict(path)
    day = _DAY.match(verdict.run_id)
    return DatedVerdict(verdict, "-".join(day.groups()) if day else "")


async def _load(store: RunStore, names: Sequence[str], found: PastReviews) -> None:
    """Add the verdicts of runs, and what was said of their findings; without names, of all."""
    runs = await store.runs()
    chosen = [state_directory.find_run(name, runs) for name in names] or runs[:MAX_RUNS]
    for run in chosen:
        row = await store.find(run.run_id, VERDICT)
        if row is None:
            if names:
                raise InputError(f"{run.run_id} has no verdict yet; finish it first")
            continue
        try:
            found.verdicts.append(DatedVerdict(parse_verdict(row), _day_of(run)))
        except InputError:
            if names:
                raise
            found.passed_over += 1
            continue
        said = read_feedback(await store.find(run.run_id, FEEDBACK))
        older_first = sorted([*found.feedback.values(), *said], key=lambda one: one.at)
        found.feedback = newest_feedback(older_first)


def _day_of(run: RunMeta) -> str:
    return datetime.fromtimestamp(run.started, UTC).date().isoformat()
