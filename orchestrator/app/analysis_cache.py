"""The cache of analyzer results from earlier reviews, in the user's cache directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.app import state_directory
from orchestrator.app.types import ReviewOptions
from orchestrator.resources import user_folder
from orchestrator.stores.result_cache import SqliteResultCache, open_result_cache


@contextmanager
def open_analysis_cache(given: ReviewOptions) -> Iterator[SqliteResultCache | None]:
    """Open the cache for a review; None where it is turned off or cannot be used."""
    directory = user_folder(os.environ, "XDG_CACHE_HOME", ".cache")
    if given.no_cache or directory is None:
        yield None
        return
    with open_result_cache(directory, outside=state_directory.top(given.repo or Path())) as cache:
        yield cache
