"""Shared by ``review``, ``resume`` and ``fork``: options, progress, outputs and exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from orchestrator.catalog.shared_literals import OUTCOMES
from orchestrator.cli.arguments import did_you_mean
from orchestrator.cli.output import OutputTarget, width_of
from orchestrator.errors import InputError, OutputError
from orchestrator.report.formats import FORMATS, HOLDS_COMMANDS, FormatInputs, render_format
from orchestrator.report.terminal_escaping import (
    emit,
    emit_line,
    escape_line,
    quote_path,
    use_color,
)

if TYPE_CHECKING:
    from orchestrator.app.types import Answer
    from orchestrator.code_review.verdict.model import Verdict
    from orchestrator.engine.observer_events import Observer
    from orchestrator.sandbox.worker_pool import WorkerPool


class Outputs:
    """All outputs of a verdict; checked before any work that they can be written.

    Args:
        formats: ``FORMAT`` or ``FORMAT=FILE``, as the user gave them.
        json: the file of ``--json``, None without that option.

    Raises:
        InputError: there is no such format, a file cannot be written, or is given twice.
    """

    def __init__(self, formats: Sequence[str], json: str | None = None) -> None:
        self._outputs = [] if json is None else [("json", OutputTarget(json))]
        for given in formats:
            name, _, file = given.partition("=")
            if name not in FORMATS:
                hint = did_you_mean(name, FORMATS) or f"; use {', '.join(FORMATS)}"
                raise InputError(f"--format: there is no format {name!r}{hint}")
            if "=" in given and not file:
                raise InputError(f"--format {name}=: name a file after the equals sign")
            self._outputs.append((name, OutputTarget(file or "-", f"--format {name}")))
        places = [target.place for _, target in self._outputs]
        for place in places:
            if places.count(place) > 1:
                where = "standard output" if place == "-" else quote_path(place)
                raise InputError(f"--format: two formats go to {where}; name a file for each")

    def __bool__(self) -> bool:
        return bool(self._outputs)

    @property
    def to_stdout(self) -> bool:
        """Whether one of them is standard output, so that the report goes to standard error."""
        return any(target.to_stdout for _, target in self._outputs)

    def write(self, verdict: Verdict, repo: Path | None = None) -> None:
        """Write every format; an error in one does not prevent the others.

        Args:
            repo: the repository, of whose commits a page shows excerpts.
        """
        formats, sources = dict(self._outputs), FormatInputs()
        if "sarif" in formats:
            from orchestrator.app.catalog_listing import shipped_rules

            sources = replace(sources, rules=shipped_rules())
        if "html" in formats:
            from orchestrator.app.finding_excerpts import read_excerpts

            sources = replace(sources, excerpts=read_excerpts(repo, verdict))

        def write_one(name: str, target: OutputTarget) -> None:
            text = render_format(name, verdict, sources)
            target.write(text, commands=name in HOLDS_COMMANDS)

        write_all(*(partial(write_one, *output) for output in self._outputs))


def write_all(*writes: Callable[[], None]) -> None:
    """Make all calls, even if one fails.

    Raises:
        OutputError: the errors of the failed ones.
    """
    errors: list[str] = []
    for write in writes:
        try:
            write()
        except OutputError as error:
            errors.append(str(error))
    if errors:
        raise OutputError("; ".join(errors))


def write_job_files(verdict: Verdict, environment: Mapping[str, str]) -> None:
    """Append to the files that a step of GitHub Actions names: its summary and its outputs."""
    values = {
        "verdict": verdict.verdict,
        "status": verdict.status,
        "exit-code": str(verdict.exit_code),
        "findings": str(sum(finding.state == "open" for finding in verdict.findings)),
        "run-id": verdict.run_id,
    }

    def append_summary() -> None:
        if summary := environment.get("GITHUB_STEP_SUMMARY"):
            text = render_format("markdown", verdict, FormatInputs())
            _append(summary, "GITHUB_STEP_SUMMARY", text)

    write_all(append_summary, partial(append_outputs, values, environment))


def append_outputs(values: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Append to the outputs of a step of GitHub Actions; elsewhere nothing is done."""
    if outputs := environment.get("GITHUB_OUTPUT"):
        lines = [f"{name}={escape_line(value)}\n" for name, value in values.items()]
        _append(outputs, "GITHUB_OUTPUT", "".join(lines))


def _append(name: str, variable: str, text: str) -> None:
    """Append to an existing file of the runner, all or nothing."""
    size = None
    try:
        descriptor = os.open(Path(name), os.O_WRONLY | os.O_APPEND)
        size = os.fstat(descriptor).st_size
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except (OSError, ValueError) as error:
        if size is not None:
            with suppress(OSError):  # a device has no size
                os.truncate(name, size)
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise OutputError(f"cannot write {quote_path(name)} of {variable}: {why}") from None


def read_answer(args: argparse.Namespace) -> Answer | None:
    """The answer that the options give, if any.

    Raises:
        InputError: a question is named without an answer.
    """
    if args.to is not None and args.answer is None:
        raise InputError("--to requires --answer TEXT")
    from orchestrator.app.types import Answer

    return None if args.answer is None else Answer(args.answer, args.to or "")


def fail_on(text: str) -> str:
    """Argument type: an outcome, ``never``, or bars by severity and category."""
    if text in {*OUTCOMES, "never"}:
        return text
    from orchestrator.code_review.verdict.decision import parse_bars

    try:
        parse_bars(text)
    except ValueError as error:
        named = ", ".join((*OUTCOMES, "never"))
        raise argparse.ArgumentTypeError(f"{error}; or {named}") from None
    return text


@contextmanager
def open_progress(args: argparse.Namespace) -> Iterator[tuple[Observer, WorkerPool]]:
    """A progress view and trace of a review, and its workers, which start during the imports."""
    from orchestrator.app.check_worker_startup import start_workers

    with start_workers(args.repo) as pool:
        from orchestrator.app import run_review  # noqa: F401 - imports, while workers start
        from orchestrator.report.progress_view import choose_progress_view

        with choose_progress_view(sys.stderr, args.quiet) as view, _traced(args) as follow:
            yield follow(view), pool


def write_verdict(args: argparse.Namespace, outputs: Outputs, verdict: Verdict) -> int:
    """Write a verdict to all outputs, and return the exit code."""
    from orchestrator.code_review.verdict.decision import exit_code

    fail_on = args.fail_on or verdict.fail_on
    code = exit_code(
        verdict.verdict, verdict.status, fail_on, verdict.findings, only_new=args.only_new
    )
    verdict = replace(verdict, exit_code=code)
    write_all(
        partial(outputs.write, verdict, args.repo),
        partial(_print_report, args, outputs, verdict),
        partial(write_job_files, verdict, os.environ),
    )
    return code


@contextmanager
def _traced(args: argparse.Namespace) -> Iterator[Callable[[Observer], Observer]]:
    """Export the run while it runs, if the options or the environment request it."""
    if args.otel is None and not os.environ.get("DIFFCOURT_OTEL"):
        yield lambda observer: observer
        return
    from orchestrator.app.tracing.export import live_trace

    live = live_trace(args.repo, args.otel, os.environ)
    try:
        yield live.follow if live is not None else lambda observer: observer
    finally:
        if live is not None and (failed := live.finish()):
            emit_line(f"diffcourt: {failed}", sys.stderr)


def _print_report(args: argparse.Namespace, outputs: Outputs, verdict: Verdict) -> None:
    """Print the report; if a format goes to stdout, to stderr, or not at all with ``--quiet``."""
    if outputs.to_stdout and args.quiet:
        return
    from orchestrator.report.verdict_text import DETAILS, render_verdict

    stream = sys.stderr if outputs.to_stdout else sys.stdout
    text = render_verdict(
        verdict,
        width=width_of(stream),
        color=use_color(stream),
        repo=args.repo,
        detail=next((detail for detail in DETAILS if getattr(args, detail, False)), "brief"),
    )
    emit(text, stream)
