"""The ``rubric`` subcommands that read and write files: of rubrics, and tables of items."""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

import yaml
from jinja2 import UndefinedError

from orchestrator.cli.commands.rubric.shared_inputs import (
    find_rubric,
    layout_of,
    load_rubric,
    print_lines,
    write_text,
)
from orchestrator.engine.types import Criterion, Rubric
from orchestrator.errors import EXIT_GATED, EXIT_OK, EXIT_USAGE, InputError
from orchestrator.foreign_json import parse_json
from orchestrator.report.page_templates import render_lines, text_macros
from orchestrator.report.terminal_escaping import as_json, emit, emit_line
from orchestrator.tuning.file_formats import rubric_file
from orchestrator.tuning.file_formats.item_files import read_items
from orchestrator.tuning.file_formats.item_tables import check_columns, read_table, write_table
from orchestrator.tuning.file_formats.paperbench import from_paperbench, to_paperbench
from orchestrator.tuning.file_formats.text_files import read_text, reading
from orchestrator.tuning.labels.label_files import extract_labels, read_labels, write_labels


def check(args: argparse.Namespace, out: TextIO) -> int:
    """Validate rubric files: errors to stderr, stale inputs of tuned rubrics to stdout."""
    invalid = False
    for name in args.rubrics:
        path = find_rubric(name)
        errors = rubric_file.find_errors(path)
        invalid = invalid or bool(errors)
        for error in errors:
            emit_line(str(error), sys.stderr)
        if not errors:
            rubric = rubric_file.read_rubric(path)
            emit_line(f"{path}: {len(rubric.criteria)} criteria, valid", out)
            for line in rubric_file.find_stale_inputs(rubric):
                emit_line(f"{path}: stale: {line}", out)
    return EXIT_USAGE if invalid else EXIT_OK


def show(args: argparse.Namespace, out: TextIO) -> int:
    """Print a rubric's tree, and how it was reworded and tuned."""
    rubric = load_rubric(args.rubric)
    stale = rubric_file.find_stale_inputs(rubric)
    with reading(args.rubric, "as tune or rewrite left it; its provenance is damaged"):
        try:
            macros = text_macros("rubric.txt")
            lines = render_lines(layout_of(out), macros, "rubric", rubric, stale)
        except UndefinedError as error:
            raise KeyError(str(error)) from None
    print_lines(lines, out)
    return EXIT_OK


def diff(args: argparse.Namespace, out: TextIO) -> int:
    """Print the differences between two rubrics; exit code 1 if there are any."""
    old, new = (load_rubric(name) for name in (args.old, args.new))
    lines = rubric_file.describe_differences(old, new)
    for line in lines:
        emit_line(line, out)
    return EXIT_GATED if lines else EXIT_OK


def new(args: argparse.Namespace, out: TextIO) -> int:
    """Write a rubric with equal weights."""
    items = read_items(args.items, args.scale)
    names = list(dict.fromkeys(name for item in items for name in item.scores))
    if not names:
        raise InputError("no scores to take criteria from; give columns scores.NAME, or see score")
    criteria = tuple(Criterion(n, "judged", n, levels=rubric_file.MET_LEVELS) for n in names)
    _require_new(args.out)
    rubric_file.write_rubric(args.out, Rubric(args.out.stem, 1, "Equal weights.", 0.5, criteria))
    emit_line(f"wrote {args.out}: {len(names)} criteria", out)
    return EXIT_OK


def _require_new(path: Path) -> None:
    if path.exists():
        raise InputError(f"{path}: already exists; choose another file")


def import_(args: argparse.Namespace, out: TextIO) -> int:
    """Import a task tree of PaperBench, and list what was changed."""
    if not 0.0 <= args.threshold <= 1.0:
        raise InputError(f"--threshold must be between 0 and 1, not {args.threshold:g}")
    with reading(args.source, "a task tree of PaperBench"):
        found = from_paperbench(_read_document(args.source), args.out.stem, args.threshold)
    rubric_file.write_rubric(args.out, found.rubric)
    emit_line(f"wrote {args.out}: {len(found.rubric.criteria)} criteria", out)
    if args.items and found.items:
        write_text(args.items, "".join(json.dumps(row) + "\n" for row in found.items))
        emit_line(f"wrote {args.items}: {len(found.items)} scored item", out)
    for line in found.unmapped:
        emit_line(f"not mapped: {line}", sys.stderr)
    return EXIT_OK


def export(args: argparse.Namespace, out: TextIO) -> int:
    """Export a rubric as a task tree to stdout, and list what this cannot express."""
    rubric = load_rubric(args.rubric)
    what = "an item with the tree's grades" if args.items else "as import left it"
    with reading(args.items or args.rubric, what):
        done = to_paperbench(rubric, _read_document(args.items) if args.items else None)
    emit(as_json(done.document), out)
    examples = [f"{c.id}: examples; a tree has none" for c in rubric.criteria if c.examples]
    for line in (*done.unmapped, *examples):
        emit_line(f"not mapped: {line}", sys.stderr)
    return EXIT_OK


def _read_document(path: Path) -> Any:
    """Read a JSON or YAML document."""
    text = read_text(path)
    try:
        return parse_json(text) if path.suffix != ".yaml" else yaml.safe_load(text)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        line = " ".join(str(error).split())
        raise InputError(f"{path}: invalid {path.suffix.lstrip('.') or 'JSON'}: {line}") from None


_SHOWN = 10


def import_items(args: argparse.Namespace, out: TextIO) -> int:
    """Write items and labels, and list what could not be converted."""
    for path in filter(None, (args.out, args.labels)):
        _require_new(path)
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
