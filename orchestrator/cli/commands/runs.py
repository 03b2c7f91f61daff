"""``diffcourt runs``: list them, remove old ones, and carry one elsewhere."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import to_builtins

from orchestrator.cli.arguments import add_json_flag, add_part, add_repo, add_run, amount, count
from orchestrator.cli.output import as_json, emit, width_of
from orchestrator.errors import EXIT_OK, InputError
from orchestrator.report.terminal_escaping import quote_path

if TYPE_CHECKING:
    from orchestrator.app.types import RunInfo


LISTED = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options and parts; without a part it lists."""
    parser.description = "List the runs, newest first; or remove, export or import some."
    add_repo(parser)
    add_json_flag(parser)
    parser.add_argument(
        "--limit",
        type=count,
        metavar="N",
        help=f"list the newest N; default: {LISTED}, and all of them with --json",
    )
    parser.set_defaults(do=_list)
    parts = parser.add_subparsers(title="parts", metavar="[PART]", dest="part")
    p = _part(parts, "prune", "remove old runs for good; one that is being written stays")
    which = p.add_mutually_exclusive_group(required=True)
    which.add_argument("--keep", type=count, metavar="N", help="the newest N stay")
    which.add_argument("--older-than", type=amount, metavar="DAYS", help="younger ones stay")
    p.add_argument("--dry-run", action="store_true", help="only say which would go")
    p.set_defaults(do=_prune, keep=None, older_than=None, dry_run=False)
    p = _part(parts, "export", "write a run as a folder that one can read with cat")
    add_run(p)
    p.add_argument("dir", type=Path, metavar="DIR", help="the folder to make")
    p.set_defaults(do=_export)
    p = _part(parts, "import", "enter an exported run, checked against its chain")
    p.add_argument("source", type=Path, metavar="DIR|FILE", help="its folder, or journal.jsonl")
    p.set_defaults(do=_import)


def _part(
    parts: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str
) -> argparse.ArgumentParser:
    # The shared options may stand on either side of the part's name: what is not said after it
    # must not overwrite what was said before.
    p = add_part(parts, name, summary, argument_default=argparse.SUPPRESS)
    add_repo(p)
    add_json_flag(p)
    return p


def run(args: argparse.Namespace) -> int:
    """List, or run the part that was named."""
    if args.part and args.limit is not None:
        raise InputError(f"--limit is for the list, not for {args.part}")
    code: int = args.do(args)
    return code


def _list(args: argparse.Namespace) -> int:
    from orchestrator.app.run_listing import list_newest_runs

    most = LISTED if args.limit is None and not args.json else args.limit
    found, left = list_newest_runs(args.repo, most)
    _print(found, args.json)
    if left and not args.json:
        emit(f"and {left:,} older; --limit {len(found) + left} lists them all\n", sys.stdout)
    return EXIT_OK


def _print(found: list[RunInfo], json: bool) -> None:
    from orchestrator.report.run_list import render_runs

    if json:
        emit(as_json([to_builtins(info) for info in found]), sys.stdout)
    else:
        emit(render_runs(found, width_of(sys.stdout)), sys.stdout)


def _prune(args: argparse.Namespace) -> int:
    from orchestrator.app.run_listing import prune_runs

    gone = prune_runs(args.repo, args.keep, args.older_than, dry=args.dry_run)
    if gone or args.json:
        _print(gone, args.json)
    if not args.json:
        done = "would be removed" if args.dry_run else "removed"
        emit(f"{len(gone)} {'run' if len(gone) == 1 else 'runs'} {done}\n", sys.stdout)
    return EXIT_OK


def _export(args: argparse.Namespace) -> int:
    from orchestrator.app.run_archive import export_run

    name = export_run(args.repo, args.run_id, args.dir)
    _told(args, name, f"run {name} is in {quote_path(str(args.dir))}")
    return EXIT_OK


def _import(args: argparse.Namespace) -> int:
    from orchestrator.app.run_archive import import_run

    name = import_run(args.repo, args.source)
    _told(args, name, f"run {name} is here now; diffcourt show {name}")
    return EXIT_OK


def _told(args: argparse.Namespace, run_id: str, line: str) -> None:
    emit(as_json({"run_id": run_id}) if args.json else f"{line}\n", sys.stdout)
