"""Copies all files that a review is given, before any of them is read."""

from pathlib import Path

from orchestrator.app.review_inputs.advisory_copies import copy_advisories
from orchestrator.app.review_inputs.coverage_report_copies import copy_reports
from orchestrator.app.review_inputs.imported_report_copies import copy_imported_reports
from orchestrator.app.types import ReviewOptions
from orchestrator.catalog.settings import ReviewSettings
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.tools.tool_inputs import GivenFiles
from orchestrator.engine.journal import Journal
from orchestrator.sandbox.worker_pool import WorkerPool


async def copy_given_files(
    options: ReviewOptions,
    settings: ReviewSettings,
    change: Change,
    journal: Journal,
    *,
    pool: WorkerPool,
    root: Path,
    scratch: Path,
) -> GivenFiles:
    """Copy the files that the options and base's settings name, once: a resumed run reads the same.

    Args:
        root: the top of the work tree, to which the paths in base's settings are relative.

    Raises:
        InputError: one that the command line names cannot be read.
        StoreError: a copy cannot be written.
    """
    coverage = await copy_reports(options, settings, journal, root=root, scratch=scratch)
    imported = await copy_imported_reports(options.imports, journal, scratch=scratch)
    advisories = await copy_advisories(
        options, settings, change, journal, pool=pool, root=root, scratch=scratch
    )
    return GivenFiles(coverage, imported, advisories)
