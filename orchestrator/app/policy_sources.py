"""Whose rules hold: what is shipped, and the repository's ``.diffcourt/`` as it stands in base."""

from __future__ import annotations

import os
from pathlib import Path

from orchestrator.app.state_directory import top
from orchestrator.catalog.data_sources import OVERLAY, Source, overlay, shipped
from orchestrator.catalog.fields import Environment
from orchestrator.resources import FOLDERS
from orchestrator.review.change.contents import listing
from orchestrator.review.change.git.blobs import Blobs
from orchestrator.review.change.git.commands import Git
from orchestrator.review.change.types import Change
from orchestrator.sandbox.safe_paths import Beneath

TIER = "DIFFCOURT_TIER"
"""Environment variable: who the change's author counts as, of the tiers in config/guards.yaml."""


def environment() -> Environment:
    """Where this runs: CI systems say so."""
    return "ci" if os.environ.get("CI") else "local"


def tier() -> str:
    """Who the change's author counts as; empty: as the config says."""
    return os.environ.get(TIER, "").strip()


async def sources(change: Change) -> list[Source]:
    """The layers of a review's catalog. The change itself has no say: base is what is read."""
    if change.policy_commit is None:
        return [shipped()]
    git = Git.of(change)
    entries = await listing(git, change.policy_commit, OVERLAY)
    wanted = {
        path.removeprefix(f"{OVERLAY}/"): blob
        for path, (mode, blob) in entries.items()
        if mode.startswith("100") and _is_policy(path)
    }
    if not wanted:
        return [shipped()]
    async with Blobs(git) as blobs:
        files = {path: await blobs.read(blob) for path, blob in wanted.items()}
    return [shipped(), overlay(OVERLAY, files)]


def _is_policy(path: str) -> bool:
    parts = path.split("/")
    return len(parts) > 2 and parts[0] == OVERLAY and parts[1] in FOLDERS


def on_disk(repo: Path | None) -> list[Source]:
    """The layers as they lie in a work tree: for checking them before they are committed.

    Args:
        repo: a folder of it, None for where we stand.
    """
    root = top(repo or Path()).resolve()
    found = [os.fspath(path.relative_to(root)) for path in sorted((root / OVERLAY).rglob("*"))]
    with Beneath(root) as tree:
        files = {
            path.removeprefix(f"{OVERLAY}/"): tree.read(path)
            for path in found
            if _is_policy(path) and tree.is_file(path)
        }
    return [shipped(), overlay(OVERLAY, files)] if files else [shipped()]
