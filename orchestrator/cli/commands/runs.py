"""``diffcourt runs``: list them, remove old ones, and carry one elsewhere."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from msgspec import to_builtins

from orchestrator.cli.output import width_of
from orchestrator.errors import EXIT_OK, InputError
from orchestrator.report.terminal_escaping import as_json, emit, emit_line, quote_path
from orchestrator.wording import count_noun

if TYPE_CHECKING:
    from orchestrator.app.types import RunInfo

LISTED = 20


def run(args: argparse.Namespace) -> int:
    """List the runs, or run the chosen subcommand."""
    if args.part and args.limit is not None:
        raise InputError(f"--limit does not apply to {args.part}")
    parts = {"prune": _prune, "repair": _repair, "export": _export, "import": _import}
    return parts.get(args.part, _list)(args)


def _list(args: argparse.Namespace) -> int:
    from orchestrator.app.runs.stored_runs import list_newest_runs
    from orchestrator.stores.sqlite_journal import HIDDEN, REPAIR

    most = LISTED if args.limit is None and not args.json else args.limit
    found, left = list_newest_runs(args.repo, most)
    _print(found, args.json)
    if left and not args.json:
        every = f"--limit {len(found) + left} lists all"
        emit_line(f"and {count_noun(left, 'older run')}; {every}", sys.stdout)
    for name in (info.run_id for info in found if info.state == "unreadable"):
        check, remove = f"diffcourt audit verify {name}", f"diffcourt runs prune --run {name}"
        todo = f"check it with: {check}; remove it with: {remove}"
        if name.startswith(HIDDEN):
            todo = f"keep a copy, and take over what can be read, with: {REPAIR}"
        emit_line(f"run {name} cannot be read; {todo}", sys.stderr)
    return EXIT_OK


def _print(found: list[RunInfo], json: bool) -> None:
    from orchestrator.report.runs_text import render_runs

    if json:
        emit(as_json([to_builtins(info) for info in found]), sys.stdout)
    else:
        emit(render_runs(found, width_of(sys.stdout)), sys.stdout)


def _prune(args: argparse.Namespace) -> int:
    from orchestrator.app.runs.stored_runs import prune_runs

    deleted = prune_runs(args.repo, args.keep, args.older_than, names=args.names, dry=args.dry_run)
    if deleted or args.json:
        _print(deleted, args.json)
    if not args.json:
        done = "would be deleted" if args.dry_run else "deleted"
        emit_line(f"{count_noun(len(deleted), 'run')} {done}", sys.stdout)
    return EXIT_OK


def _repair(args: argparse.Namespace) -> int:
    from orchestrator.app.runs.state_directory import repair_store

    done = repair_store(args.repo)
    if args.json:
        emit(as_json(to_builtins(done, enc_hook=str)), sys.stdout)
    elif done.copy is None:
        emit_line("the journal is not damaged", sys.stdout)
    else:
        lost = f"; not in it: {', '.join(done.lost)}" if done.lost else ""
        what = f"runs in the new journal: {len(done.taken)}{lost}; copy of the damaged one: "
        emit_line(f"{what}{quote_path(str(done.copy))}", sys.stdout)
    return EXIT_OK


def _export(args: argparse.Namespace) -> int:
    from orchestrator.app.runs.run_archive import export_run

    name = export_run(args.repo, args.run_id, args.dir)
    _print_run_id(args, name, f"exported run {name} to {quote_path(str(args.dir))}")
    return EXIT_OK


def _import(args: argparse.Namespace) -> int:
    from orchestrator.app.runs.run_archive import import_run

    name = import_run(args.repo, args.source)
    _print_run_id(args, name, f"imported run {name}; show it with: diffcourt show {name}")
    return EXIT_OK


def _print_run_id(args: argparse.Namespace, run_id: str, line: str) -> None:
    if args.json:
        emit(as_json({"run_id": run_id}), sys.stdout)
    else:
        emit_line(line, sys.stdout)
