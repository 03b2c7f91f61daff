"""What the ``rubric`` commands share: arguments, and rubric, items and labels read together."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from orchestrator.errors import InputError

if TYPE_CHECKING:
    from orchestrator.engine.types import Rubric
    from orchestrator.tuning.labels import Label
    from orchestrator.tuning.scored_items import Item
    from orchestrator.tuning.training_data import TrainingData


def scale(text: str) -> tuple[float, float]:
    """A range of raw scores, ``0:1`` or ``1:4``."""
    low, colon, high = text.partition(":")
    try:
        ends = float(low), float(high)
    except ValueError:
        ends = math.nan, math.nan
    if not (colon and math.isfinite(ends[0]) and math.isfinite(ends[1]) and ends[0] < ends[1]):
        raise argparse.ArgumentTypeError(f"must be LOW:HIGH, such as 1:4, not {text!r}")
    return ends


def add_items(parser: argparse.ArgumentParser, rubric: bool = True, many: str = "+") -> None:
    """The rubric, the items, and how their scores read."""
    if rubric:
        parser.add_argument(
            "rubric", metavar="RUBRIC", help="a rubric's file, or the name of a shipped one"
        )
    parser.add_argument(
        "items",
        metavar="ITEMS",
        nargs=many,
        type=Path,
        help="scored items: .jsonl, .csv, or verdict documents (.json)",
    )
    parser.add_argument(
        "--scale",
        type=scale,
        default=(0.0, 1.0),
        metavar="LOW:HIGH",
        help="range of the scores in ITEMS; default 0:1",
    )


def add_labels(parser: argparse.ArgumentParser) -> None:
    """Where people's labels are."""
    parser.add_argument(
        "--labels",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a label file of diffcourt label (again for more); default: labels in ITEMS",
    )
    parser.add_argument("--label", metavar="NAME", help="which of several labels in ITEMS")
    parser.add_argument(
        "--accept-at",
        type=float,
        metavar="NUMBER",
        help="the lowest label that accepts; default 3 on a scale of 1 to 5",
    )


class Loaded(Struct, frozen=True):
    """Rubric, items and labels, read and joined."""

    rubric: Rubric
    items: list[Item]
    labels: list[Label]
    data: TrainingData


def rubric_path(text: str) -> Path:
    """The file of a rubric: a path, or a shipped one's name."""
    from orchestrator.resources import data_root

    path = Path(text)
    shipped = data_root() / "rubrics" / f"{text}.yaml"
    return shipped if not path.exists() and shipped.is_file() else path


def load(args: argparse.Namespace) -> Loaded:
    """Read what ``add_items`` and ``add_labels`` named.

    Raises:
        InputError: something cannot be used, or numpy is missing.
    """
    need_numpy()
    from orchestrator.tuning.labels import extract_labels, infer_scale, read_labels
    from orchestrator.tuning.rubric_file import read_rubric
    from orchestrator.tuning.scored_items import read_items
    from orchestrator.tuning.training_data import build_training_data

    rubric = read_rubric(rubric_path(args.rubric))
    items = read_items(args.items, args.scale)
    labels = read_labels(args.labels) if args.labels else extract_labels(items, args.label)
    if not labels:
        raise InputError("there are no labels; give --labels FILE, or make one: diffcourt label")
    return Loaded(
        rubric,
        items,
        labels,
        build_training_data(rubric, items, labels, infer_scale(labels, args.accept_at)),
    )


def write_text(path: Path, text: str) -> None:
    """Write a file that a command was asked for, which may be a device.

    Raises:
        InputError: it cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def need_numpy() -> None:
    """See that the optional part is installed.

    Raises:
        InputError: it is not.
    """
    import os
    from importlib.util import find_spec

    # Fits run in threads of their own; a matrix library's threads beside them only get in the way.
    # It reads this once, when it is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if find_spec("numpy") is None:
        raise InputError("tuning needs numpy; install it: pip install 'diffcourt[tune]'")


def plain(value: Any) -> Any:
    """Structs as JSON data: NaN and infinity, which JSON has no word for, become null."""
    from msgspec import Struct
    from msgspec.structs import asdict

    if isinstance(value, Struct):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
