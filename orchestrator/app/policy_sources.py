"""Where the policy comes from: shipped files, and the repository's ``.diffcourt/`` in base."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from orchestrator.app.state_directory import repo_root
from orchestrator.app.types import ReviewOptions
from orchestrator.catalog.data_file_layers import Layer, make_overlay, read_shipped_layer
from orchestrator.catalog.settings import Settings
from orchestrator.catalog.shared_literals import Environment
from orchestrator.code_review.change.contents import list_tree
from orchestrator.code_review.change.git.blobs import Blobs
from orchestrator.code_review.change.git.commands import Git
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.policy_loading import Policy, read_policy
from orchestrator.resources import DATA_DIRECTORIES, OVERLAY
from orchestrator.sandbox.safe_paths import SafeDirectory

TIER = "DIFFCOURT_TIER"
"""Environment variable: the trust tier of the change's author, named in config/guards.yaml."""


def detect_environment() -> Environment:
    """``ci`` where the environment variable CI is set, as CI systems do; else ``local``."""
    return "ci" if os.environ.get("CI") else "local"


def detect_author_tier() -> str:
    """The trust tier of the change's author; empty: the default of the configuration."""
    return os.environ.get(TIER, "").strip()


def load_policy(layers: Sequence[Layer], options: ReviewOptions) -> Policy:
    """Read the policy of a review, the options of its command line applied.

    Raises:
        ConfigError: the first error in a file.
    """
    policy = read_policy(layers, environment=detect_environment(), author_tier=detect_author_tier())
    return replace(policy, settings=_apply_options(policy.settings, options))


def _apply_options(settings: Settings, options: ReviewOptions) -> Settings:
    bounds = {
        "iterations": options.max_iterations,
        "tool_calls": options.max_tool_calls,
        "minutes": options.max_minutes,
        "usd": options.max_usd,
    }
    chosen: dict[str, Any] = {"provider": options.provider, "pattern": options.pattern}
    given_bounds = {name: value for name, value in bounds.items() if value is not None}
    given = {name: value for name, value in chosen.items() if value is not None}
    return replace(settings, bounds=replace(settings.bounds, **given_bounds), **given)


async def read_layers(change: Change) -> list[Layer]:
    """The layers of a review's policy, read from the base commit, never from the change."""
    if change.policy_commit is None:
        return [read_shipped_layer()]
    git = Git.of(change)
    entries = await list_tree(git, change.policy_commit, OVERLAY)
    blob_ids = {
        path.removeprefix(f"{OVERLAY}/"): blob
        for path, (mode, blob) in entries.items()
        if mode.startswith("100") and _is_policy(path)
    }
    if not blob_ids:
        return [read_shipped_layer()]
    async with Blobs(git) as blobs:
        files = {path: await blobs.read(blob) for path, blob in blob_ids.items()}
    return [read_shipped_layer(), make_overlay(OVERLAY, files)]


def _is_policy(path: str) -> bool:
    parts = path.split("/")
    return len(parts) > 2 and parts[0] == OVERLAY and parts[1] in DATA_DIRECTORIES


def read_layers_on_disk(repo: Path | None) -> list[Layer]:
    """The layers as they are in a work tree, to check them before they are committed."""
    root = repo_root(repo or Path()).resolve()
    found = [os.fspath(path.relative_to(root)) for path in sorted((root / OVERLAY).rglob("*"))]
    with SafeDirectory(root) as tree:
        files = {
            path.removeprefix(f"{OVERLAY}/"): tree.read(path)
            for path in found
            if _is_policy(path) and tree.is_file(path)
        }
    return [read_shipped_layer(), make_overlay(OVERLAY, files)] if files else [read_shipped_layer()]
