"""The verdicts of past reviews, and what happened to their findings: fixed, or merged unchanged.

That is derived from the verdicts of later pushes and from the files of the base branch.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Literal

import anyio
from msgspec import Struct, field

from diffchecks.check_io import decode_text
from diffchecks.new_findings import remove_white_space
from orchestrator.app.human_decisions.run_decisions import (
    FindingFeedback,
    newest_feedback,
    read_feedback,
)
from orchestrator.app.runs import state_directory
from orchestrator.app.runs.stored_runs import parse_verdict
from orchestrator.app.runs.verdict_files import read_verdict
from orchestrator.app.runs.verdict_recording import VERDICT
from orchestrator.code_review.change.change_construction import find_default_branch
from orchestrator.code_review.change.git.commands import OID, Git
from orchestrator.code_review.change.git.objects import Commits, Objects, list_tree
from orchestrator.code_review.findings.quote_location import MIN_QUOTE, find_quote
from orchestrator.code_review.verdict.model import Finding, Verdict
from orchestrator.engine.journal_keys import FEEDBACK
from orchestrator.errors import InputError
from orchestrator.stores.sql_store import RunStore

Outcome = Literal["fixed", "merged"]


class ReviewedFinding(Struct, frozen=True):
    """A finding and what people did about it.

    Attributes:
        name: its rule, or its title if an agent named none.
        day: of the newest review that shows it, YYYY-MM-DD.
        identity: equal for the finding in all reviews of its change.
    """

    name: str
    path: str
    outcome: Outcome
    day: str
    identity: str


class DatedVerdict(Struct, frozen=True):
    """The verdict of a run, and the day on which it began, YYYY-MM-DD; empty: unknown."""

    verdict: Verdict
    day: str


async def find_outcomes(
    repo: Path, reviews: Sequence[DatedVerdict]
) -> tuple[list[ReviewedFinding], str]:
    """What happened to the open findings of reviews, each once, and why base gives no signal.

    A fix in a later push takes precedence over base.
    """
    outcomes: dict[str, ReviewedFinding] = {}
    for review in reviews:
        before = review.verdict.previous
        for one in before.fixed if before else ():
            name, key = one.counted_as, one.fingerprint
            outcomes[key] = ReviewedFinding(name, one.path, "fixed", review.day, key)
    try:
        async with Objects(await Git.open(repo)) as objects:
            base = _Base(objects)
            found = await find_default_branch(objects.git)
            if found is None:
                return list(
                    outcomes.values()
                ), "there is no default branch (origin/HEAD, main, master)"
            for review in reviews:
                for finding in _open_ones(review.verdict):
                    name, key = finding.counted_as, finding.identity
                    if key in outcomes:
                        continue
                    if outcome := await base.tell(finding, review.verdict, found[1]):
                        outcomes[key] = ReviewedFinding(
                            name, finding.path, outcome, review.day, key
                        )
    except InputError as error:
        return list(outcomes.values()), str(error)
    return list(outcomes.values()), ""


def _open_ones(verdict: Verdict) -> Iterable[Finding]:
    return (
        one
        for one in verdict.findings
        if one.state == "open"
        and one.evidence.side == "head"
        and len(remove_white_space([one.evidence.quote])) >= MIN_QUOTE
    )


class _Base:
    """The files of commits, each read once."""

    def __init__(self, objects: Objects) -> None:
        self._objects, self._commits = objects, Commits(objects)
        self._files: dict[tuple[str, str], list[str] | None] = {}
        self._inside: dict[tuple[str, str], bool] = {}

    async def tell(self, finding: Finding, verdict: Verdict, tip: str) -> Outcome | None:
        """What base shows about a finding; None if nothing.

        It was merged if base has its text now and did not before, and fixed if base contains the
        reviewed commit and the file without the text.
        """
        new = await self._lines(tip, finding.path)
        if new is None:
            return None
        if find_quote(new, finding.evidence.quote):
            before = await self._lines(verdict.change.base, finding.path)
            known = before is not None and bool(find_quote(before, finding.evidence.quote))
            return None if known else "merged"
        return "fixed" if await self._has(tip, verdict.change.head) else None

    async def _has(self, tip: str, commit: str) -> bool:
        if (tip, commit) not in self._inside:
            self._inside[tip, commit] = await self._is_ancestor(tip, commit)
        return self._inside[tip, commit]

    async def _is_ancestor(self, tip: str, commit: str) -> bool:
        if not OID.fullmatch(commit):
            return False
        try:
            return await self._commits.merge_base(tip, commit) == commit
        except InputError:
            return False  # of a work tree, or not in this clone

    async def _lines(self, commit: str, path: str) -> list[str] | None:
        if (commit, path) not in self._files:
            self._files[commit, path] = await self._read(commit, path)
        return self._files[commit, path]

    async def _read(self, commit: str, path: str) -> list[str] | None:
        if not OID.fullmatch(commit):
            return None
        parents = {str(parent) for parent in PurePosixPath(path).parents}
        try:
            tree = await self._commits.tree(commit)
            entries = await list_tree(self._objects, tree, lambda folder: folder in parents)
            mode, blob = entries.get(path, ("", ""))
            return (
                decode_text(await self._objects.read(blob)).split("\n")
                if mode[:3] == "100"
                else None
            )
        except InputError:
            return None


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
            day = datetime.fromtimestamp(run.started, UTC).date().isoformat()
            found.verdicts.append(DatedVerdict(parse_verdict(row), day))
        except InputError:
            if names:
                raise
            found.passed_over += 1
            continue
        feedback = read_feedback(await store.find(run.run_id, FEEDBACK))
        older_first = sorted([*found.feedback.values(), *feedback], key=lambda one: one.at)
        found.feedback = newest_feedback(older_first)
