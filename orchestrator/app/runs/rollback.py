"""Restores files that a run's writing tools changed, when a person asks for it."""

from collections.abc import Collection
from pathlib import Path

import anyio
from msgspec import to_builtins

from orchestrator.app.human_decisions.approvals import current_user
from orchestrator.app.runs import state_directory
from orchestrator.app.types import check_entry, is_program_run, review_options
from orchestrator.engine.journal import Journal
from orchestrator.engine.ports import RunMeta
from orchestrator.errors import InputError
from orchestrator.sandbox.file_rollback import FileRollback, Restored
from orchestrator.stores.sql_store import RunStore

TOPIC = "rollback"


def make_rollback(
    repo: Path | None, folder: Path, run_id: str, *, only: Collection[str] | None = None
) -> FileRollback:
    """The rollback of a run in the work tree; the original files are in the run's directory.

    Args:
        only: the paths that a call may change; None: any.
    """
    root = state_directory.repo_root(repo or Path())
    return FileRollback(root, folder / "runs" / run_id / "rollback", only=only)


async def restore_calls(
    files: FileRollback, journal: Journal, call: str | None, *, who: str, force: Collection[str]
) -> dict[str, Restored]:
    """Restore what a call changed, or what all calls did, and record who asked for it.

    Raises:
        InputError: no such call changed files, or ``force`` comes without a call.
    """
    if force and call is None:
        raise InputError("name the call whose changes to these files you want to restore")
    committed = [snapshot.ref for snapshot in files.snapshots() if snapshot.state == "committed"]
    chosen = committed[::-1] if call is None else [call]
    if not chosen:
        raise InputError("no call of this run changed files that can be restored")
    restored: dict[str, Restored] = {}
    for ref in chosen:
        restored[ref] = files.restore(ref, force=force)
        journal.add_note(TOPIC, {"who": who, **to_builtins(restored[ref])}, ref)
    await journal.flush()
    return restored


def _files_of(run: RunMeta, state_dir: Path) -> FileRollback:
    """The files that a run's tools may have changed."""
    if not is_program_run(run):
        repo = review_options(run)["repo"]
        return make_rollback(Path(repo) if repo else None, state_dir, run.run_id)
    check_entry(run)
    if run.meta["root"] is None:
        raise InputError(f"no tool of {run.run_id} may change files, so nothing can be restored")
    return FileRollback(Path(run.meta["root"]), state_dir / "runs" / run.run_id / "rollback")


def roll_back(
    repo: Path | None, run_id: str, call: str | None, *, force: Collection[str] = ()
) -> dict[str, Restored]:
    """Restore what a call changed, or what all calls of the run changed, newest first.

    Args:
        force: paths to restore even though they were changed since.

    Returns:
        Call → the restored paths, and those that were kept because they were changed since.

    Raises:
        RunNotFound: no run has that name.
        InputError: no such call changed files, or ``force`` comes without a call.
    """
    folder = state_directory.state_dir(repo)

    async def work(store: RunStore, run: RunMeta) -> dict[str, Restored]:
        files = _files_of(run, folder)
        async with state_directory.open_writing(store, run.run_id) as journal:
            return await restore_calls(files, journal, call, who=current_user(), force=force)

    with state_directory.open_run(repo, run_id) as (store, run):
        return anyio.run(work, store, run)
