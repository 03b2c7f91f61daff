"""``rubric import-items`` and ``export-items``: items and labels as tables of other tools."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from orchestrator.cli.commands.rubric.shared_inputs import add_items, write_text
from orchestrator.errors import EXIT_OK, InputError
from orchestrator.report.terminal_escaping import emit_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FORMATS = ("csv", "jsonl")
_SHOWN = 10


def add_exchange_commands(part: Callable[[str], argparse.ArgumentParser]) -> None:
    """Add the subcommands and their options."""
    p = part("import-items")
    p.add_argument("source", type=Path, metavar="FILE")
    p.add_argument("--from", dest="format", choices=FORMATS, required=True)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--labels", type=Path)
    _add_map(p)
    p.set_defaults(do=import_items)
    p = part("export-items")
    add_items(p, rubric=False)
    p.add_argument("--labels", type=Path, action="append", default=[])
    p.add_argument("--format", choices=FORMATS, required=True)
    p.add_argument("--out", type=Path, required=True)
    _add_map(p)
    p.set_defaults(do=export_items)


def _add_map(p: argparse.ArgumentParser) -> None:
    p.add_argument("--map", action="append", default=[], type=_pair)


def _pair(text: str) -> tuple[str, str]:
    ours, equals, theirs = text.partition("=")
    if not (ours and equals and theirs):
        raise argparse.ArgumentTypeError(f"must be OURS=THEIRS, such as text=answer, not {text!r}")
    return ours, theirs


def import_items(args: argparse.Namespace, out: TextIO) -> int:
    """Write items and labels, and list what could not be converted."""
    from orchestrator.tuning.file_formats.item_tables import read_table
    from orchestrator.tuning.labels.label_files import write_labels

    for path in filter(None, (args.out, args.labels)):
        if path.exists():
            raise InputError(f"{path}: already exists; choose another file")
    found = read_table(args.source, args.format, dict(args.map))
    if not found.items:
        raise InputError(f"{args.source}: contains no items")
    rows = (json.dumps(row, ensure_ascii=False) + "\n" for row in found.items)
    write_text(args.out, "".join(rows))
    emit_line(f"wrote {args.out}: {len(found.items)} items", out)
    if args.labels:
        write_labels(args.labels, found.labels)
        emit_line(f"wrote {args.labels}: {len(found.labels)} labels", out)
    elif found.labels:
        emit_line(f"{len(found.labels)} labels not written; name a file with --labels", out)
    _list_unmapped(found.unmapped)
    return EXIT_OK


def export_items(args: argparse.Namespace, out: TextIO) -> int:
    """Write items and labels for another tool, and list what it cannot hold."""
    from orchestrator.tuning.file_formats.item_files import read_items
    from orchestrator.tuning.file_formats.item_tables import check_columns, write_table
    from orchestrator.tuning.labels.label_files import extract_labels, read_labels

    columns = dict(args.map)
    check_columns(columns)
    items = read_items(args.items, args.scale)
    labels = read_labels(args.labels) if args.labels else extract_labels(items, None)
    text, unmapped = write_table(items, labels, args.format, columns)
    write_text(args.out, text)
    emit_line(f"wrote {args.out}: {len({i.id for i in items})} items, {len(labels)} labels", out)
    _list_unmapped(unmapped)
    return EXIT_OK


def _list_unmapped(unmapped: Iterable[str]) -> None:
    lines = list(unmapped)
    for line in lines[:_SHOWN]:
        emit_line(f"not mapped: {line}", sys.stderr)
    if len(lines) > _SHOWN:
        emit_line(f"not mapped: and {len(lines) - _SHOWN:,} more", sys.stderr)
