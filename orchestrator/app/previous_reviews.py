"""Finds the previous review of the same change, in the store or in a given file."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio.to_thread
from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from diffchecks.safe_paths import read_safely
from orchestrator.app.runs.verdict_files import read_verdict
from orchestrator.app.runs.verdict_recording import VERDICT
from orchestrator.app.types import DAMAGE, ReviewOptions
from orchestrator.catalog.shared_literals import HOST, OFFLINE
from orchestrator.ci_systems import find_ci_system, name_request
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.findings.carried_findings import (
    NOTHING_HANDED_OVER,
    HandedOver,
    hand_over,
)
from orchestrator.code_review.findings.previous_review import RememberedReview, remember_review
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.canonical_json import canonical
from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.stores.sql_store import RunStore

KEY = "intake/previous"
NAME_KEY = "intake/change-name"
UNNAMED = (
    "no branch names this change, so what earlier reviews of it found is not taken over; name the "
    "branch with --head, or the verdict of one with --previous"
)

_OBJECT_ID = re.compile(r"[0-9a-f]{7,64}")
_BRANCH = re.compile(r"ref: refs/heads/([^\n]+)\n?")


class KnownChange(Struct, frozen=True):
    """What a run knows about the change besides its contents.

    Attributes:
        name: of the pull request or branch, equal for all pushes of it; may be empty.
        handed_over: what this review takes over from it, or from one of the same head.
    """

    name: str = ""
    previous: RememberedReview | None = None
    handed_over: HandedOver = NOTHING_HANDED_OVER

    def note_unnamed(self, change: Change, options: ReviewOptions, provider: str) -> Change:
        """The change, with a note where agents read it and no earlier review of it can be known."""
        known = self.name or options.previous is not None or options.diff is not None
        known = known or provider == OFFLINE
        return change if known else replace(change, notes=(*change.notes, UNNAMED))


async def find_previous(
    options: ReviewOptions,
    change: Change,
    store: RunStore,
    journal: Journal,
    environment: Mapping[str, str],
) -> KnownChange:
    """Name the change and find its previous review; recorded, so a resumed run uses the same.

    Raises:
        InputError: the verdict that the options name cannot be used.
    """

    async def perform() -> EffectResult:
        name = await anyio.to_thread.run_sync(name_change, options, change, environment)
        if options.previous is not None:
            found = [await anyio.to_thread.run_sync(read_verdict, Path(options.previous))]
        else:
            by_host = options.provider == HOST
            found = await _look_up(store, name, change.head, by_host) if name else []
        return EffectResult(to_builtins(await know_change(name, found, change)))

    # Not durable: after a crash, another search finds the same or a newer review.
    recorded: Any = await journal.effect(KEY, {"file": options.previous}, perform, durable=False)
    known = convert(recorded, KnownChange)
    journal.note(NAME_KEY, {"name": known.name})
    return known


def noted_change_name(journal: Journal) -> str:
    """The name of a recorded run's pull request or branch; may be empty."""
    noted: Any = journal.noted(NAME_KEY)
    return "" if noted is None else str(noted["name"])


def noted_hand_over(journal: Journal) -> HandedOver:
    """What a recorded run took over from the previous review."""
    recorded = journal.outcomes(KEY).get(KEY)
    return NOTHING_HANDED_OVER if recorded is None else convert(recorded, KnownChange).handed_over


async def know_change(name: str, earlier: Sequence[Verdict], change: Change) -> KnownChange:
    """What a run knows about its change from earlier verdicts, the newest of which hands over.

    A repeated job finds its own verdict. That is of no earlier push, but a model that forgets what
    it found on the same head does not undo it.
    """
    pushes = (one for one in earlier if one.change.head != change.head)
    previous = next(map(remember_review, pushes), None)
    handed = await hand_over(earlier[0], change) if earlier else NOTHING_HANDED_OVER
    return KnownChange(name, previous, handed)


async def _look_up(store: RunStore, name: str, head: str, by_host: bool) -> list[Verdict]:
    """The newest finished reviews of a change with that name, up to one of another head.

    One by the model of a coding agent, which may be its author's, settles nothing for others.
    """
    found: list[Verdict] = []
    for run in await store.runs_with(NAME_KEY, canonical({"name": name})):
        try:
            row = await store.find(run, VERDICT)
            verdict = None if row is None else convert(json.loads(row.body), Verdict)
        except DAMAGE:
            continue  # damaged, or of another version of this program, which has other fields
        if verdict and (by_host or verdict.provenance.provider != HOST):
            found = [*found[:1], verdict]
            if verdict.change.head != head:
                break
    return found


def name_change(options: ReviewOptions, change: Change, environment: Mapping[str, str]) -> str:
    """The pull request of the CI's variables, else the branch under review, else empty.

    The branch of a detached HEAD is that of the CI's variables. What is not committed yet is
    another change than the branch's commits.
    """
    if request := name_request(environment):
        return request
    if options.diff is not None:
        return ""
    if options.head not in {None, "HEAD"}:
        head = options.head or ""
        return "" if _OBJECT_ID.fullmatch(head) else f"branch/{head.removeprefix('origin/')}"
    try:
        text = read_safely(Path(change.git_dir), "HEAD").decode()
    except (OSError, UnicodeDecodeError):
        return ""
    found, system = _BRANCH.fullmatch(text), find_ci_system(environment)
    branch = found[1] if found else environment.get(system.branch if system else "", "")
    uncommitted = (options.worktree or options.staged) and options.base is None
    part = "uncommitted" if uncommitted else "branch"
    return f"{part}/{branch.removeprefix('refs/heads/')}" if branch else ""
