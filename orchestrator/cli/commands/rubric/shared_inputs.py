"""Shared by the ``rubric`` commands: reading rubric, items and labels, and showing a result."""

from __future__ import annotations

import math
import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from msgspec import Struct
from msgspec.structs import asdict

from orchestrator.cli.output import OutputTarget, optional_target, width_of
from orchestrator.engine.types import Rubric
from orchestrator.errors import EXIT_GATED, EXIT_INCOMPLETE, EXIT_OK, InputError
from orchestrator.report.terminal_escaping import as_json, emit, emit_line, use_color
from orchestrator.report.text_layout import TextLayout
from orchestrator.tuning.file_formats.item_files import Item, read_items, select_judge
from orchestrator.tuning.file_formats.rubric_file import is_id, make_id, read_rubric
from orchestrator.tuning.labels.label_files import (
    Label,
    Scale,
    extract_labels,
    infer_scale,
    read_labels,
    settle_labels,
)
from orchestrator.wording import count_noun

if TYPE_CHECKING:
    from orchestrator.tuning.training_data import TrainingData

TRUST_CODES = {True: EXIT_OK, False: EXIT_GATED, None: EXIT_INCOMPLETE}
"""Exit codes of a result that is trusted, not trusted, or cannot tell."""


def require_freezable(path: Path, force: bool) -> None:
    """Require that freezing replaces nothing, or may."""
    if path.exists() and not force:
        raise InputError(f"{path}: already exists; to freeze the present state instead: --force")


class TuningInputs(Struct, frozen=True):
    """Rubric, items and labels, and the training data made from them."""

    rubric: Rubric
    items: list[Item]
    labels: list[Label]
    data: TrainingData


def load_rubric(text: str) -> Rubric:
    """Read a rubric, named as for ``find_rubric``."""
    return read_rubric(find_rubric(text))


def find_rubric(text: str) -> Path:
    """The path of a rubric file, given as a path or as the name of a shipped rubric.

    Raises:
        InputError: it is the name of neither.
    """
    from orchestrator.data_directories import data_root

    path = Path(text)
    shipped = {file.stem: file for file in sorted((data_root() / "rubrics").glob("*.yaml"))}
    if path.suffix or path.exists():
        return path
    if text not in shipped:
        raise InputError(
            f"there is no rubric {text}: name a file, or a shipped one: {', '.join(shipped)}"
        )
    return shipped[text]


def load_inputs(args: Namespace) -> TuningInputs:
    """Read the rubric, the items and their labels."""
    from orchestrator.tuning.training_data import build_training_data

    rubric = load_rubric(args.rubric)
    items = select_judge(read_items(args.items, args.scale), args.judge, rubric.criteria)
    labels = select_labels(args, items)
    scale = read_label_scale(args, labels)
    return TuningInputs(rubric, items, labels, build_training_data(rubric, items, labels, scale))


def read_label_scale(args: Namespace, labels: list[Label]) -> Scale:
    """The scale of the labels.

    Raises:
        InputError: it is not clear, or --accept-at has no effect.
    """
    scale = infer_scale(labels, args.accept_at)
    if args.accept_at is not None and isinstance(scale.values[0], str):
        words = ", ".join(map(str, scale.values))
        raise InputError(f"--accept-at is for labels that are numbers; these are {words}")
    return scale


def select_labels(args: Namespace, items: list[Item]) -> list[Label]:
    """The labels of these items: of the label files, or else of the items' own rows.

    Raises:
        InputError: there is none, or a label is invalid.
    """
    given = read_labels(args.labels) if args.labels else extract_labels(items, args.label)
    if not given:
        raise InputError("no labels; give columns label and rater, or --labels (diffcourt label)")
    known = {item.id for item in items}
    labels = settle_labels(label for label in given if label.item in known)
    others = [label for label in given if label.item not in known]
    if not labels:
        one = others[0]
        raise InputError(f"{one.location}: the labeled item {one.item!r} is not in the items")
    if others:
        note = (
            f"{count_noun(len(others), 'label')} of items that are not in ITEMS not used, such as"
        )
        emit_line(f"{note} {others[0].item!r} ({others[0].location})", sys.stderr)
    own = sum(bool(item.human) for item in items)
    if args.labels and own:
        emit_line(f"--labels is given, so the labels in {own} rows of ITEMS not used", sys.stderr)
    return labels


def check_outputs(args: Namespace) -> None:
    """Check the files that a subcommand will write, before it works or a model costs money.

    Raises:
        InputError: one cannot be written, or is also read, or is named twice; or no command would
            read the rubric.
    """
    writes_rubric = args.part in {"tune", "rewrite", "new", "import"} and args.out
    if writes_rubric and not is_id(args.out.stem):
        better = args.out.with_name(f"{make_id(args.out.stem) or 'rubric'}.yaml")
        raise InputError(
            f"--out: no command would read {args.out}: a rubric's file name has small letters, "
            f"digits, and single -, _ or . between them, 64 at most; write {better}"
        )
    written = {"out", "report", "json"}
    written |= {"import-items": {"labels"}, "import": {"items"}}.get(args.part, set())
    if getattr(args, "freeze", False):
        written |= {"anchors", "baseline"}
    taken = {
        os.path.realpath(path): "already exists, and is an input"
        for name, value in vars(args).items()
        if name not in written
        for path in _existing_files(value)
    }
    for name in sorted(written):
        given = getattr(args, name, None)
        if not isinstance(given, (str, Path)):
            continue
        if name != "json" and str(given) == "-":
            raise InputError(f"--{name}: name a file; - is not allowed")
        place = OutputTarget(str(given), f"--{name}").place
        if place in taken and (Path(place).is_file() or not Path(place).exists()):
            raise InputError(f"--{name}: {given} {taken[place]}; name another file to write")
        taken[place] = "is named twice"


def _existing_files(value: object) -> Iterator[str]:
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, (str, Path)) and os.path.isfile(one):
            yield str(one)


def write_text(path: Path, text: str) -> None:
    """Write an output file that the user named, completely or not at all."""
    OutputTarget(str(path), "output").write(text)


def layout_of(stream: TextIO) -> TextLayout:
    """The layout for a stream."""
    return TextLayout(width_of(stream), use_color(stream))


def print_lines(lines: Iterable[str], stream: TextIO) -> None:
    """Write lines to a stream."""
    emit("".join(f"{line}\n" for line in lines), stream)


def show(
    args: Namespace, macro: str, found: Any, out: TextIO, *more: Any, wrote: Path | None = None
) -> bool:
    """Print a result, unless its JSON takes the place of it, and write the JSON.

    Args:
        macro: of the template ``tuning.txt``; ``more`` are its values after the result.
        wrote: a file that was written, to be named at the end.

    Returns:
        Whether it was printed.
    """
    target = optional_target(args.json)
    is_printed = target is None or not target.to_stdout
    if is_printed:
        from orchestrator.report.tuning.text_report import render_report

        lines = render_report(layout_of(out), macro, found, *more)
        print_lines(lines + (["", f"wrote {wrote}"] if wrote else []), out)
    if target is not None:
        data = to_json_data(found)
        if hasattr(found, "is_trusted"):
            data = {"trusted": found.is_trusted, "sentence": found.plain_sentence()} | data
        target.write(as_json(data))
    return is_printed


def require_numpy() -> None:
    """Require the optional dependency numpy."""
    from importlib.util import find_spec

    from orchestrator.optional_dependencies import install_command

    # Fits run in their own threads; further threads of OpenBLAS would only compete with them.
    # OpenBLAS reads this variable once, when numpy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if find_spec("numpy") is None:
        raise InputError(f"tuning requires numpy; run: {install_command('tune')}")


def to_json_data(value: Any) -> Any:
    """Structs and numpy's values as JSON data; NaN and infinity, which JSON lacks, become null."""
    if isinstance(value, Struct):
        return to_json_data(asdict(value))
    if isinstance(value, dict):
        return {str(k): to_json_data(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json_data(v) for v in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    # numpy, which is optional, need not be imported to know its scalars and arrays.
    return to_json_data(value.tolist()) if hasattr(value, "tolist") else value
