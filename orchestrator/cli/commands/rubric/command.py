"""``diffcourt rubric``: check, show, compare, convert, score, evaluate, tune and gate rubrics.

The subcommands are ``COMMANDS``; only the module of the chosen one is imported.
"""

import argparse
import math
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from orchestrator.catalog.shared_literals import OFFLINE
from orchestrator.cli.arguments import amount, count, directory, name_of
from orchestrator.cli.commands.posting import FORGES
from orchestrator.errors import EXIT_INTERRUPTED
from orchestrator.report.terminal_escaping import emit

Arguments = dict[str, Mapping[str, Any]]
"""The name of each argument and its settings for ``add_argument``."""


def parse_scale(text: str) -> tuple[float, float]:
    """Parse a range of raw scores, such as ``0:1`` or ``1:4``."""
    low, colon, high = text.partition(":")
    try:
        ends = float(low), float(high)
    except ValueError:
        ends = math.nan, math.nan
    if not (colon and math.isfinite(ends[0]) and math.isfinite(ends[1]) and ends[0] < ends[1]):
        raise argparse.ArgumentTypeError(f"must be LOW:HIGH, such as 1:4, not {text!r}")
    return ends


def _drop(text: str) -> float:
    value = amount(text)
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"must be between 0 and 1, not {text}")
    return value


def _pair(text: str) -> tuple[str, str]:
    ours, equals, theirs = text.partition("=")
    if not (ours and equals and theirs):
        raise argparse.ArgumentTypeError(f"must be OURS=THEIRS, such as text=answer, not {text!r}")
    return ours, theirs


def _judge_cost(text: str) -> tuple[str, float]:
    name, _, usd = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"must be JUDGE=USD, such as small=0.002, not {text!r}")
    return name, amount(usd)


_FLAG: Mapping[str, Any] = {"action": "store_true"}
_FILE: Mapping[str, Any] = {"type": Path}
_FILES: Mapping[str, Any] = {"nargs": "+", "type": Path}
_EACH: Mapping[str, Any] = {"action": "append", "default": []}
_RUBRIC: Arguments = {"rubric": {}}
SCALE: Arguments = {"--scale": {"type": parse_scale, "default": (0.0, 1.0)}}
_ITEMS: Arguments = {"items": _FILES, **SCALE}
_ANY_ITEMS: Arguments = {"items": {"nargs": "*", "type": Path}, **SCALE}
_LABEL_FILES: Arguments = {"--labels": {**_EACH, "type": Path}}
_WHICH_LABELS: Arguments = {"--label": {}, "--accept-at": {"type": float}}
_LABELS: Arguments = _LABEL_FILES | {"--judge": {}} | _WHICH_LABELS
_OUT: Arguments = {"--out": _FILE}
_WRITTEN: Arguments = {"--out": {"type": Path, "required": True}}
_JSON: Arguments = {"--json": {"nargs": "?", "const": "-"}}
_PAGE: Arguments = {"--report": _FILE} | _JSON
_FREEZE: Arguments = {"--freeze": _FLAG, "--force": _FLAG}
_ALL: Arguments = {"--all": _FLAG}
_ASSUME: Arguments = {"--assume-random": _FLAG}
_REPO: Arguments = {"--repo": {"type": directory}}
_PROVIDER: Arguments = {"--provider": {"type": name_of("a provider"), "default": OFFLINE}}
JUDGING: Arguments = {
    "--model": _EACH,
    "--prompt": {**_EACH, "type": Path},
    "--concurrency": {"type": count},
    "--batch": _FLAG,
    "--round": {"type": name_of("a round")},
    "--allow-spending": {"action": "store_true", "default": None},
    "--max-usd": {"type": amount},
    "--max-tokens": {"type": count},
    "--estimate": _FLAG,
}
"""Which model judges items, and what it may cost."""
_MAP: Arguments = {"--map": {**_EACH, "type": _pair}}
_FORMATS = ("csv", "jsonl")
INTERRUPTED = "\ninterrupted; run the same command again: what is scored is kept, batches go on\n"

COMMANDS: Mapping[str, tuple[str, Mapping[str, Mapping[str, Any]]]] = {
    "check": ("file_commands:check", {"rubrics": {"nargs": "+", "metavar": "RUBRIC"}}),
    "show": ("file_commands:show", _RUBRIC),
    "diff": ("file_commands:diff", {"old": {}, "new": {}}),
    "new": ("file_commands:new", _ITEMS | _WRITTEN),
    "import": (
        "file_commands:import_",
        {"source": {"type": Path, "metavar": "FILE"}, **_WRITTEN}
        | {"--items": _FILE, "--threshold": {"type": float, "default": 0.5}},
    ),
    "export": ("file_commands:export", _RUBRIC | {"--items": _FILE}),
    "score": (
        "scoring:score",
        _RUBRIC | _ANY_ITEMS | {"--runs": {"nargs": "*"}} | _REPO | _PROVIDER
        | {"--repeat": {"type": count, "default": 0}, "--within": {"type": amount}} | JUDGING | _OUT
        | {"--probes": _FLAG, "--json": _FLAG},
    ),
    "compare": (
        "scoring:compare",
        {"a": {}, "b": {}, "--items": {**_EACH, "type": Path}, "--rubric": _EACH, "--judge": _EACH}
        | _LABEL_FILES | SCALE | _WHICH_LABELS | {"--margin": {"type": amount, "default": 0.05}}
        | _REPO | _PROVIDER | JUDGING | _PAGE,
    ),
    "rewrite": (
        "scoring:rewrite",
        _RUBRIC | {"criterion": {}, "items": _FILES} | _LABEL_FILES | SCALE | _WHICH_LABELS | _REPO
        | _PROVIDER
        | {"--rounds": {"type": count, "default": 3}, "--proposals": {"type": count, "default": 2}}
        | JUDGING | _OUT | _JSON,
    ),
    "eval": ("tuning:evaluate", _RUBRIC | _ITEMS | _LABELS | {"--trees": _FLAG} | _PAGE),
    "disagree": ("tuning:disagree", _RUBRIC | _ITEMS | _LABELS | _ALL | _PAGE),
    "lint": ("tuning:lint", _RUBRIC | _ANY_ITEMS | _LABELS | _ALL | _JSON),
    "rate": ("tuning:rate", _RUBRIC | _ITEMS | _LABELS | _ASSUME | _PAGE),
    "drift": (
        "tuning:drift",
        _RUBRIC | _ITEMS | _LABELS | {"--anchors": _FILE} | _FREEZE
        | {"--since": {"default": ""}} | _PAGE,
    ),
    "jury": (
        "tuning:jury",
        _RUBRIC | _ITEMS | _LABEL_FILES | _WHICH_LABELS
        | {"--cost": {**_EACH, "type": _judge_cost}} | _PAGE,
    ),
    "feedback": (
        "tuning:feedback",
        {"runs": {"nargs": "*", "metavar": "RUN"}} | _OUT | _LABEL_FILES
        | {"--accept-at": {"type": float}} | _ASSUME | _JSON | _REPO
        | {"--from": {"dest": "forge", "choices": FORGES},
           "--project": {"type": name_of("a project")}, "--request": {"type": count},
           "--url": {"type": name_of("an address")}},
    ),
    "import-items": (
        "file_commands:import_items",
        {"source": {"type": Path, "metavar": "FILE"},
         "--from": {"dest": "format", "choices": _FORMATS, "required": True}}
        | _WRITTEN | {"--labels": _FILE} | _MAP,
    ),
    "export-items": (
        "file_commands:export_items",
        _ITEMS | _LABEL_FILES | {"--format": {"choices": _FORMATS, "required": True}} | _WRITTEN
        | _MAP,
    ),
    "tune": (
        "tuning:tune",
        _RUBRIC | _ITEMS | _LABELS
        | {"--cost-false-merge": {"type": amount}, "--cost-false-block": {"type": amount},
           "--penalties": _FLAG}
        | _OUT | _PAGE
        | {"--seed": {"type": int}, "--refits": {"type": count, "default": 1000}},
    ),
    "gate": (
        "tuning:gate",
        _RUBRIC | _ITEMS | _LABELS | {"--baseline": {"type": Path, "required": True}} | _FREEZE
        | {"--margin": {"type": _drop}} | _JSON,
    ),
}  # fmt: skip
"""Subcommand → its function, below this package, and its arguments; their help is in help.yaml."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands and their arguments."""
    parts = parser.add_subparsers(metavar="COMMAND")
    for name, (_, arguments) in COMMANDS.items():
        part = parts.add_parser(name)
        for argument, settings in arguments.items():
            part.add_argument(argument, **settings)


def run(args: argparse.Namespace) -> int:
    """Run the selected subcommand."""
    from orchestrator.cli.commands.rubric.shared_inputs import check_outputs, require_numpy

    check_outputs(args)
    module, _, name = COMMANDS[args.part][0].partition(":")
    if module != "file_commands":
        require_numpy()
    found = import_module(f"orchestrator.cli.commands.rubric.{module}")
    try:
        code: int = getattr(found, name)(args, sys.stdout)
    except KeyboardInterrupt:
        if getattr(args, "provider", OFFLINE) == OFFLINE:
            raise
        emit(INTERRUPTED, sys.stderr)
        return EXIT_INTERRUPTED
    return code
