"""Finds the previous review of the same change, in the store or in a given file."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio.to_thread
from msgspec import Struct, convert, to_builtins

from diffchecks.safe_paths import read_safely
from orchestrator.app.runs.verdict_files import read_verdict
from orchestrator.app.runs.verdict_recording import VERDICT
from orchestrator.app.types import DAMAGE, ReviewOptions
from orchestrator.catalog.shared_literals import HOST
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.findings.carried_findings import (
    NOTHING_HANDED_OVER,
    HandedOver,
    hand_over,
)
from orchestrator.code_review.findings.previous_review import RememberedReview, remember_review
from orchestrator.code_review.verdict.model import Verdict
from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.stores.sql_store import RunStore

KEY = "intake/previous"
NAME_KEY = "intake/change-name"
LATEST_RUNS = 50
"""Runs among which the previous review is looked for."""

_PULL_REQUEST = re.compile(r"refs/(pull/\d+)/\w+")
_OBJECT_ID = re.compile(r"[0-9a-f]{7,64}")
_BRANCH = re.compile(r"ref: refs/heads/([^\n]+)\n?")


class KnownChange(Struct, frozen=True):
    """What a run knows about the change besides its contents.

    Attributes:
        name: of the pull request or branch, equal for all pushes of it; may be empty.
        previous: the previous review; may be None.
        handed_over: what this review takes over from it, or from one of the same head.
    """

    name: str = ""
    previous: RememberedReview | None = None
    handed_over: HandedOver = NOTHING_HANDED_OVER


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
            verdict = await anyio.to_thread.run_sync(read_verdict, Path(options.previous))
            return EffectResult(to_builtins(await know_change(name, verdict, change)))
        by_host = options.provider == HOST
        found = await _look_up(store, name, change.head, by_host) if name else None
        known = KnownChange(name) if found is None else await know_change(name, found, change)
        return EffectResult(to_builtins(known))

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


async def know_change(name: str, verdict: Verdict, change: Change) -> KnownChange:
    """What a run knows about its change from an earlier verdict.

    A repeated job finds its own verdict, which is not of an earlier push, and takes over the same
    as the first time.
    """
    same = verdict.change.head == change.head
    previous = None if same else remember_review(verdict)
    return KnownChange(name, previous, await hand_over(verdict, change))


async def _look_up(store: RunStore, name: str, head: str, by_host: bool) -> Verdict | None:
    """The newest finished review of a change with that name and another head.

    One by the model of a coding agent, which may be its author's, settles nothing for others.
    """
    for run in (await store.runs())[:LATEST_RUNS]:
        try:
            noted = await store.find(run.run_id, NAME_KEY)
            if noted is None or json.loads(noted.body)["name"] != name:
                continue
            row = await store.find(run.run_id, VERDICT)
            if row is None:
                continue
            verdict = convert(json.loads(row.body), Verdict)
        except DAMAGE:
            continue  # damaged, or of another version of this program, which has other fields
        if verdict.change.head != head and (by_host or verdict.provenance.provider != HOST):
            return verdict
    return None


def name_change(options: ReviewOptions, change: Change, environment: Mapping[str, str]) -> str:
    """The pull request of the CI's variables, else the branch under review, else empty.

    What is not committed yet is another change than the branch's commits.
    """
    if found := _PULL_REQUEST.fullmatch(environment.get("GITHUB_REF", "")):
        return found[1]
    if number := environment.get("CI_MERGE_REQUEST_IID"):
        return f"merge_request/{number}"
    if options.diff is not None:
        return ""
    if options.head not in {None, "HEAD"}:
        head = options.head or ""
        return "" if _OBJECT_ID.fullmatch(head) else f"branch/{head.removeprefix('origin/')}"
    try:
        text = read_safely(Path(change.git_dir), "HEAD").decode()
    except (OSError, UnicodeDecodeError):
        return ""
    branch = _BRANCH.fullmatch(text)
    uncommitted = (options.worktree or options.staged) and options.base is None
    part = "uncommitted" if uncommitted else "branch"
    return f"{part}/{branch[1]}" if branch else ""
