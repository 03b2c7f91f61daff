"""Find the change to review, within the time that the command line or base's policy allows."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import anyio
from msgspec.structs import replace

from diffchecks import name_some, shorten
from orchestrator.app.policy_sources import is_policy, read_base_layers, read_minutes
from orchestrator.app.review_inputs.git_hooks import find_index
from orchestrator.app.runs import state_directory
from orchestrator.app.types import ReviewOptions
from orchestrator.catalog.data_file_layers import Layer, read_shipped_layer
from orchestrator.code_review.change.change_construction import OnBase, from_refs, from_worktree
from orchestrator.code_review.change.change_description import describe_change
from orchestrator.code_review.change.change_from_patch import from_patch
from orchestrator.code_review.change.git.objects import Objects
from orchestrator.code_review.change.path_limits import limit_to_paths, normalize_path
from orchestrator.code_review.change.types import Change, change_from_json, change_to_json
from orchestrator.engine.journal import EffectResult, Journal
from orchestrator.engine.journal_keys import INTAKE
from orchestrator.errors import ChangeTimeout

BASE_SECONDS = 300.0
"""For finding base and reading its policy, which says how long the rest may take."""


async def resolve_change(options: ReviewOptions, scratch: Path, journal: Journal) -> Change:
    """The change to review, by object ids; determined once, and the same in a resumed run.

    Raises:
        InputError: the change, or a path that limits it, cannot be used.
        ChangeTimeout: it took longer than the run may.
    """
    paths = [normalize_path(path) for path in options.paths]

    async def perform() -> EffectResult:
        limit = _TimeLimit(options, journal)
        with limit.scope:
            if options.diff is not None and not _has_repository(options):
                limit.set(read_minutes([read_shipped_layer()], options))
            found = await _find_change(options, scratch, limit.read_policy)
            altered = _note_policy(found)
            found = await limit_to_paths(found, paths)
            notes = (*altered, *_note_subdirectory(options), *found.notes)
            found = replace(found, notes=notes)
            described = describe_change(options.title, options.description, os.environ)
            notes = (*found.notes, *described.notes)
            found = replace(found, title=described.title, description=described.text, notes=notes)
            return EffectResult(change_to_json(found))
        raise limit.error()

    names = ("base", "head", "worktree", "staged", "title", "description")
    diff = hashlib.sha256(options.diff).hexdigest() if options.diff is not None else None
    request = {name: getattr(options, name) for name in names} | {"diff": diff, "paths": paths}
    return change_from_json(await journal.effect(INTAKE, request, perform))


class _TimeLimit:
    """The time that is left for finding the change.

    ``--max-minutes`` is known at once. Without it, the limit is known when base's policy is.
    """

    def __init__(self, options: ReviewOptions, journal: Journal) -> None:
        self._options, self._journal = options, journal
        self.scope = anyio.CancelScope()
        self._minutes = options.max_minutes
        if self._minutes is None:
            self.scope.deadline = anyio.current_time() + BASE_SECONDS
        else:
            self.set(self._minutes)

    def set(self, minutes: float) -> None:
        """Set the limit in minutes, counted from the run's start."""
        self._minutes = minutes
        self.scope.deadline = anyio.current_time() + minutes * 60 - self._journal.elapsed()

    async def read_policy(self, objects: Objects, commit: str | None) -> None:
        """Set the limit of base's policy, unless the command line set one."""
        if self._options.max_minutes is None:
            layers: Sequence[Layer] = await read_base_layers(objects, commit)
            self.set(read_minutes(layers, self._options))

    def error(self) -> ChangeTimeout:
        """The error for an exceeded limit."""
        if self._minutes is None:
            return ChangeTimeout(
                f"finding base and reading its policy took longer than {BASE_SECONDS:g} s; nothing "
                "was reviewed: allow more with --max-minutes"
            )
        whose = "--max-minutes" if self._options.max_minutes is not None else "bounds.minutes"
        return ChangeTimeout(
            f"finding out what to review took longer than {whose} {self._minutes:g}; nothing was "
            "reviewed: allow more with --max-minutes, or name a smaller change"
        )


def _note_policy(change: Change) -> Sequence[str]:
    """A note where the change alters files that count once they are in base."""
    names = change.names
    altered = sorted(filter(is_policy, names))
    if not altered:
        return ()
    named = name_some([shorten(name) for name in altered], 3)
    return (f"the policy of later reviews is changed: {named}; check it: diffcourt catalog",)


def _note_subdirectory(options: ReviewOptions) -> Sequence[str]:
    """A note for a user who named, or is in, a subdirectory of the repository."""
    start = (options.repo or Path()).resolve()
    if options.repo is None or options.paths or not _has_repository(options):
        return ()
    below = start.relative_to(state_directory.repo_root(start)).as_posix()
    if below == ".":
        return ()
    return (f"all of the repository is reviewed; for {below} alone, add --path {below}",)


def _has_repository(options: ReviewOptions) -> bool:
    return state_directory.inside_repository(options.repo or Path())


async def _find_change(options: ReviewOptions, scratch: Path, on_base: OnBase) -> Change:
    repo = options.repo or Path()
    if options.diff is not None:
        inside = repo if _has_repository(options) else None
        name, base = options.diff_name, options.base
        return await from_patch(options.diff, name, inside, base, scratch, on_base)
    if options.worktree or options.staged:
        index = find_index(options.repo, os.environ) if options.staged else None
        return await from_worktree(repo, options.base, scratch, on_base, index=index)
    return await from_refs(repo, options.base, options.head, on_base)
