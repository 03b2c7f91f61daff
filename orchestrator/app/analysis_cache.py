"""What analyzers said of files in earlier reviews: the user's, and none of the work tree's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.app import state_directory
from orchestrator.app.types import ReviewOptions
from orchestrator.resources import user_folder
from orchestrator.stores.result_cache import SqliteAnswers, open_answers


@contextmanager
def kept_answers(given: ReviewOptions) -> Iterator[SqliteAnswers | None]:
    """The kept answers for a review, None where it is to do without."""
    folder = user_folder(os.environ, "XDG_CACHE_HOME", ".cache")
    if given.no_cache or folder is None:
        yield None
        return
    with open_answers(folder, outside=state_directory.top(given.repo or Path())) as answers:
        yield answers
