"""``diffcourt review``, ``resume`` and ``fork``: review a change; go on, or from a checkpoint."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.output import optional_target, width_of
from orchestrator.cli.review_output import Outputs, open_progress, read_answer, write_verdict
from orchestrator.errors import EXIT_OK, ConfigError, InputError, ReplayMismatch
from orchestrator.report.terminal_escaping import as_json, emit, quote_path

if TYPE_CHECKING:
    from orchestrator.code_review.cost_estimate import ReviewEstimate

MAX_DESCRIPTION = 256 << 10
"""Bytes of ``--description-file``."""


def run(args: argparse.Namespace) -> int:
    """Review the change, or each change of a push, and return the exit code, of several the worst.

    Raises:
        InputError: an option does not go with the others, or cannot be used.
    """
    _apply_range(args)
    if not args.hook:
        return _review(args)
    if args.base or args.head or args.worktree or args.staged or args.diff is not None:
        raise InputError("--hook finds out what to compare; leave out what names it")
    from orchestrator.app.review_inputs.git_hooks import find_pushed

    changes = find_pushed(args.repo or Path(), _read_refs(), os.environ)
    if changes is None:
        args.staged = True
        return _review(args)
    if len(changes) > 1 and (args.json is not None or args.formats):
        raise InputError(
            f"the push sends {len(changes)} changes, and a file holds the verdict of one; push "
            "them one by one, or leave out --json and --format"
        )
    if not changes:
        emit("Nothing to review: the push sends no commit.\n", sys.stdout)
    codes = [EXIT_OK]
    for args.base, args.head in changes:
        codes.append(_review(args))
    return max(codes)


def _read_refs() -> str | None:
    """What git gives the hook pre-push on standard input; None if nothing is connected to it."""
    if sys.stdin is None or sys.stdin.isatty():
        return None
    lines = os.fsdecode(_read("--hook", "-"))
    is_null = not lines and stat.S_ISCHR(os.fstat(sys.stdin.fileno()).st_mode)
    return None if is_null else lines


def _review(args: argparse.Namespace) -> int:
    """Review one change and return the exit code."""
    outputs = Outputs(args.formats, args.json)
    description = _read_description(args)
    diff = None if args.diff is None else _read("--diff", args.diff)

    from orchestrator.app.types import ReviewOptions

    read = {
        "diff": diff,
        "diff_name": "stdin" if args.diff == "-" else args.diff or "",
        "description": description,
        "coverage": [os.path.abspath(name) for name in args.coverage],
        "previous": None if args.previous is None else os.path.abspath(args.previous),
        "advisories": None if args.advisories is None else os.path.abspath(args.advisories),
        "imports": [_absolute_import(given) for given in args.imports],
    }
    given = vars(args) | read
    names = ReviewOptions.__struct_fields__
    options = ReviewOptions(**{name: given[name] for name in names if name in given})
    if args.estimate:
        if args.formats:
            raise InputError("--estimate has no verdict to write with --format; use --json")
        from orchestrator.app.cost_estimate import estimate_cost

        return _estimate(args, estimate_cost(options))
    with open_progress(args) as (observer, pool):
        from orchestrator.app.run_review import run_review  # once the workers are starting

        verdict = run_review(options, observer, pool=pool)
    return write_verdict(args, outputs, verdict)


def _absolute_import(given: str) -> str:
    from orchestrator.app.review_inputs.copied_inputs import split_format

    form, file = split_format(given)
    return f"{form}:{os.path.abspath(file)}" if form else os.path.abspath(file)


def _apply_range(args: argparse.Namespace) -> None:
    """Read RANGE as git users write it into ``base`` and ``head``.

    A range compares with the merge base, so two dots and three mean the same.
    """
    if args.range is None:
        return
    base, dots, head = args.range.partition("..")
    if args.base is not None:
        raise InputError("both RANGE and --base name the base; give one of them")
    if dots and (args.head or args.worktree or args.staged or args.hook or args.diff is not None):
        raise InputError(
            "RANGE names the head; do not add --head, --worktree, --staged, --hook or --diff"
        )
    args.base = base or "HEAD"
    if dots:
        args.head = head.removeprefix(".") or "HEAD"


def _estimate(args: argparse.Namespace, found: ReviewEstimate) -> int:
    """Print an estimate; with ``--json`` it is written in place of the verdict."""
    from orchestrator.report.cost_estimate_text import render_cost_estimate, to_document

    target = optional_target(args.json)
    if target is not None:
        target.write(as_json(to_document(found)))
    if target is None or not target.to_stdout:
        emit(render_cost_estimate(found, width_of(sys.stdout)), sys.stdout)
    return EXIT_OK


def _read_description(args: argparse.Namespace) -> str | None:
    """The text of ``--description-file``, None without one."""
    name = args.description_file
    if name is None:
        return None
    if name == args.diff == "-":
        raise InputError("--diff and --description-file cannot both be standard input")
    data = _read("--description-file", name, MAX_DESCRIPTION + 1)
    if len(data) > MAX_DESCRIPTION:
        most = MAX_DESCRIPTION >> 10
        raise InputError(f"--description-file: {quote_path(name)} is larger than {most} kB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"--description-file: {quote_path(name)} is not UTF-8") from None


def _read(option: str, name: str, most: int = -1) -> bytes:
    """Read the file of an option or, for ``-``, standard input.

    Args:
        most: bytes to read; -1: all.
    """
    try:
        if name != "-":
            with Path(name).open("rb") as file:
                return file.read(most)
        if sys.stdin is None:
            raise InputError(f"{option} -: standard input is closed")
        return sys.stdin.buffer.read(most)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{option}: cannot read {quote_path(name)}: {why}") from None


def run_resume(args: argparse.Namespace) -> int:
    """Resume the review and return the exit code."""
    answer = read_answer(args)
    outputs = Outputs(args.formats, args.json)
    limits = ("max_tool_calls", "max_minutes", "max_tokens", "max_usd")
    grant = {name: value for name in limits if (value := getattr(args, name)) is not None}
    with open_progress(args) as (observer, pool):
        from orchestrator.app.run_review import resume_review  # once the workers are starting

        verdict = resume_review(
            args.repo, args.run_id, observer, answer=answer, grant=grant, pool=pool
        )
    return write_verdict(args, outputs, verdict)


def run_fork(args: argparse.Namespace) -> int:
    """Fork the run, review on, and return the exit code."""
    answer = read_answer(args)
    outputs = Outputs(args.formats, args.json)

    from orchestrator.app.run_review import resume_review
    from orchestrator.app.runs.forking import Fork, fork_run
    from orchestrator.app.runs.stored_runs import prune_runs

    edits = Fork(args.run_id, args.at, args.plan, args.drop, answers=answer is not None)
    fork = fork_run(args.repo, edits)
    try:
        with open_progress(args) as (observer, pool):
            verdict = resume_review(args.repo, fork, observer, answer=answer, pool=pool)
    except (ConfigError, InputError, ReplayMismatch):
        prune_runs(args.repo, None, None, names=[fork])  # nothing was reviewed, or could ever be
        raise
    return write_verdict(args, outputs, verdict)
