"""The ``rubric`` commands that only read and write rubrics."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from orchestrator.cli.commands.rubric.arguments import rubric_path, write_text
from orchestrator.cli.output import as_json, emit
from orchestrator.errors import EXIT_GATED, EXIT_OK, EXIT_USAGE, InputError

if TYPE_CHECKING:
    from orchestrator.engine.types import Criterion, Group, Rubric


def check(args: argparse.Namespace, out: TextIO) -> int:
    """Check files; faults go to stderr, and what is stale is said."""
    from orchestrator.report.terminal_escaping import escape_unprintable
    from orchestrator.tuning.rubric_file import find_errors, find_stale_inputs, read_rubric

    bad = False
    for name in args.rubrics:
        path = rubric_path(name)
        faults = find_errors(path)
        bad = bad or bool(faults)
        for fault in faults:
            emit(f"{escape_unprintable(str(fault))}\n", sys.stderr)
        if not faults:
            rubric = read_rubric(path)
            emit(f"{escape_unprintable(str(path))}: {len(rubric.criteria)} criteria, sound\n", out)
            for line in find_stale_inputs(rubric):
                emit(f"{escape_unprintable(str(path))}: stale: {line}\n", out)
    return EXIT_USAGE if bad else EXIT_OK


def show(args: argparse.Namespace, out: TextIO) -> int:
    """Print a rubric's tree."""
    from orchestrator.report.terminal_escaping import escape_line
    from orchestrator.tuning.rubric_file import find_stale_inputs, read_rubric

    rubric = read_rubric(rubric_path(args.rubric))
    lines = [
        f"{rubric.name} version {rubric.version}: {escape_line(rubric.description)}",
        f"accepts at {rubric.threshold:g}",
        *_tree(rubric, None, 1),
    ]
    if rubric.judge:
        lines.append("judge: " + ", ".join(f"{k} {v}" for k, v in sorted(rubric.judge.items())))
    tuned: Any = rubric.provenance.get("tuned")
    if isinstance(tuned, dict):
        counts, held = tuned["counts"], tuned["held_out"]
        lines.append(
            f"tuned from {tuned['from']['name']} on {counts['items']} items of "
            f"{counts['groups']} groups, {counts['raters']} raters: {tuned['method']}; "
            f"seed {tuned['seed']}, penalty {tuned['penalty']}"
        )
        lines.append(f"held out: before {held['before']}, after {held['after']}")
        lines += [f"stale: {line}" for line in find_stale_inputs(rubric)]
    emit("\n".join(escape_line(x) if not x.startswith(" ") else x for x in lines) + "\n", out)
    return EXIT_OK


def _tree(rubric: Rubric, parent: str | None, depth: int) -> list[str]:
    from orchestrator.report.terminal_escaping import escape_line

    pad, lines = "  " * depth, []
    children: list[Criterion | Group] = [c for c in rubric.criteria if c.parent == parent]
    for node in children:
        marks = " blocker" if getattr(node, "blocker", False) else ""
        kind = getattr(node, "kind", "")
        text = escape_line(node.description)
        lines.append(f"{pad}{node.weight:>7.4g}  {node.id} ({kind}{marks}): {text}")
    for group in rubric.groups:
        if group.parent == parent:
            lines.append(f"{pad}{group.weight:>7.4g}  {group.id}/ {escape_line(group.description)}")
            lines += _tree(rubric, group.id, depth + 1)
    return lines


def diff(args: argparse.Namespace, out: TextIO) -> int:
    """Print what differs; exit 1 if anything does."""
    from orchestrator.report.terminal_escaping import escape_line
    from orchestrator.tuning.rubric_file import describe_differences, read_rubric

    old, new = (read_rubric(rubric_path(name)) for name in (args.old, args.new))
    lines = describe_differences(old, new)
    emit("".join(f"{escape_line(line)}\n" for line in lines), out)
    return EXIT_GATED if lines else EXIT_OK


def new(args: argparse.Namespace, out: TextIO) -> int:
    """Write a rubric of equal weights."""
    from orchestrator.engine.types import Criterion, Rubric
    from orchestrator.tuning.rubric_conversion import MET_LEVELS
    from orchestrator.tuning.rubric_file import write_rubric
    from orchestrator.tuning.scored_items import read_items

    items = read_items(args.items, args.scale)
    names = list(dict.fromkeys(name for item in items for name in item.scores))
    if not names:
        raise InputError("the items have no scores, so there are no criteria")
    criteria = tuple(Criterion(n, "judged", n, levels=MET_LEVELS) for n in names)
    if args.out.exists():
        raise InputError(f"{args.out}: is there already; name a new file")
    write_rubric(args.out, Rubric(args.out.stem, 1, "Equal weights, to begin with.", 0.5, criteria))
    emit(f"wrote {args.out}: {len(names)} criteria\n", out)
    return EXIT_OK


def import_(args: argparse.Namespace, out: TextIO) -> int:
    """Import, and list what does not map."""
    from orchestrator.report.terminal_escaping import escape_line
    from orchestrator.tuning.rubric_file import write_rubric
    from orchestrator.tuning.rubric_formats import IMPORTERS

    if not 0.0 <= args.threshold <= 1.0:
        raise InputError(f"--threshold must lie between 0 and 1, not {args.threshold:g}")
    found = IMPORTERS[args.format](_document(args.source), args.out.stem, args.threshold)
    write_rubric(args.out, found.rubric)
    emit(f"wrote {args.out}: {len(found.rubric.criteria)} criteria\n", out)
    if args.items and found.items:
        write_text(args.items, "".join(json.dumps(row) + "\n" for row in found.items))
        emit(f"wrote {args.items}: {len(found.items)} scored item\n", out)
    for line in found.unmapped:
        emit(f"not mapped: {escape_line(line)}\n", sys.stderr)
    return EXIT_OK


def export(args: argparse.Namespace, out: TextIO) -> int:
    """Export to stdout, and list what the target cannot hold."""
    from orchestrator.report.terminal_escaping import escape_line
    from orchestrator.tuning.paperbench import to_paperbench
    from orchestrator.tuning.rubric_file import read_rubric
    from orchestrator.tuning.rubric_formats import EXPORTERS

    rubric = read_rubric(rubric_path(args.rubric))
    if args.items and args.format == "paperbench":
        done = to_paperbench(rubric, _document(args.items))
    elif args.items:
        raise InputError(f"--items goes with paperbench; a {args.format} rubric holds no grades")
    else:
        done = EXPORTERS[args.format](rubric)
    emit(as_json(done.document), out)
    for line in done.unmapped:
        emit(f"not mapped: {escape_line(line)}\n", sys.stderr)
    return EXIT_OK


def _document(path: Path) -> Any:
    """A JSON or YAML document."""
    import yaml

    from orchestrator.tuning.text_files import read_text

    text = read_text(path)
    try:
        return json.loads(text) if path.suffix != ".yaml" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        line = " ".join(str(error).split())
        raise InputError(f"{path}: is not {path.suffix.lstrip('.') or 'JSON'}: {line}") from None
