"""What some of our checks need of a review beyond the two sides of its change."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import anyio.to_thread
from msgspec.structs import replace

from diffchecks.dependencies.manifests import MEMBERS
from diffchecks.executed_files import PROGRAMS, choose_texts
from diffchecks.file_patterns import file_names, matches
from diffchecks.imports.broken_contracts import MARK, find_config_files
from diffchecks.jobs import ChangedFile, GivenCoverage, GivenReport
from orchestrator.code_review.change.contents import SIDES
from orchestrator.code_review.change.git.commands import OID, Git
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.review_workspace import ReviewWorkspace
from orchestrator.code_review.tools.tool_inputs import ToolInputs

MAX_MEMBERS = 1_000
Options = Mapping[str, Any] | None
"""Further parts of a job, see ``ComparisonCheck``."""


async def dependencies(inputs: ToolInputs, change: Change, files: Sequence[ChangedFile]) -> Options:
    """The advisories, and the manifests of head that are of the kinds of changed ones."""
    names = tuple(sorted({PurePath(file.path).name for file in files} & {*MEMBERS}))
    members: list[str] = []
    if names:
        await inputs.workspace.pack_matching("head", names)
        members = [
            path
            for path in await inputs.workspace.contents.regular("head")
            if PurePath(path).name in names and "node_modules/" not in path
        ][:MAX_MEMBERS]
    given = inputs.given.advisories
    if given is None:
        return {"members": members}
    copy = inputs.workspace.copy_report
    path = await anyio.to_thread.run_sync(copy, given.path) if given.path else ""
    return {"members": members, "advisories": path, "advisory_gaps": dict(given.gaps)}


async def executed_files(
    inputs: ToolInputs, change: Change, files: Sequence[ChangedFile]
) -> Options:
    """The programs of head, where a file was changed that one of them might run."""
    changed = (file.path for file in change.files if file.in_head and file.kind == "text")
    texts, is_any_unusual = choose_texts(changed)
    if not is_any_unusual:
        return {"texts": texts, "programs": []}
    await inputs.workspace.pack_matching("head", PROGRAMS.names)
    regular = await inputs.workspace.contents.regular("head")
    return {"texts": texts, "programs": [path for path in regular if path in PROGRAMS]}


async def protections(inputs: ToolInputs, change: Change, files: Sequence[ChangedFile]) -> Options:
    """What security fixes in the history of base did to the changed files."""
    reviewable = inputs.workspace.reviewable
    paths = {
        file.old_path or file.path
        for file in change.files
        if file.in_base and file.in_head and (file.added or file.removed)
        if matches(file.path, file_names("source_code")) and reviewable(file)
    }
    if not paths:
        return {}
    tree = await inputs.workspace.contents.paths("base")
    fixes, unsearched = await inputs.fix_history.find(change, paths, tree)
    return {"fixes": fixes, "history_unsearched": unsearched}


async def imported_reports(
    inputs: ToolInputs, change: Change, files: Sequence[ChangedFile]
) -> Options:
    """The reports, the commit under review, and which results count and how much."""
    reports = await anyio.to_thread.run_sync(_copy, inputs.workspace, inputs.given.imported)
    return {
        "reports": reports,
        "head_commit": change.head if OID.fullmatch(change.head) else "",
        "lines": inputs.settings.imports.lines,
        "severities": inputs.settings.imports.severities,
    }


async def uncovered_lines(
    inputs: ToolInputs, change: Change, files: Sequence[ChangedFile]
) -> Options:
    """The reports, and when head was committed; None where head is not a commit."""
    head_time = None
    if OID.fullmatch(change.head):
        seconds = await Git.of(change).run("show", "-s", "--format=%ct", change.head, "--")
        head_time = float(seconds)
    reports = await anyio.to_thread.run_sync(_copy, inputs.workspace, inputs.given.coverage)
    return {"reports": reports, "head_time": head_time}


def _copy(workspace: ReviewWorkspace, reports: Sequence[GivenReport | GivenCoverage]) -> list[Any]:
    """Copy reports into the review's own directory, to which a worker is confined."""
    return [
        report
        if isinstance(report, GivenReport) and report.error
        else replace(report, path=workspace.copy_report(report.path))
        for report in reports
    ]


async def layering(inputs: ToolInputs, change: Change, files: Sequence[ChangedFile]) -> Options:
    """Nothing more, where base declares contracts; None where it does not."""
    workspace = inputs.workspace
    blobs = await workspace.contents.regular("base")
    found = find_config_files(list(blobs), [file.path for file in files])
    if not any([MARK in await workspace.contents.read(blobs[path]) for path in found]):
        return None
    await workspace.side("base", found)
    for side in SIDES:  # the library that builds the graph looks into directories
        paths = await workspace.contents.paths(side)
        await workspace.side(side, [path for path in paths if path.endswith(".py")])
    return {}
