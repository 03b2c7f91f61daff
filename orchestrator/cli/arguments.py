"""The argument parser, argument types and options that several commands share."""

import argparse
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

P = TypeVar("P", bound=argparse.ArgumentParser)

BACKENDS = ("asyncio", "trio")

EXIT_CODES = """\
exit codes:
  0    the verdict is below --fail-on
  1    the verdict is at or above --fail-on
  2    wrong usage, configuration or input
  3    incomplete: something was not reviewed, or the run failed
  130  interrupted; continue with diffcourt resume\
"""


class Parser(argparse.ArgumentParser):
    """An argument parser with one-line errors and without abbreviated options."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **settings)

    def _print_message(self, message: str, file: Any = None) -> None:
        try:
            super()._print_message(message, file)
        except (AttributeError, BrokenPipeError):
            return  # the stream is closed, or the reader of the pipe has exited

    def error(self, message: str) -> NoReturn:
        """Print the error and how to get help, and exit with code 2."""
        command = self.prog.removeprefix("diffcourt").strip()
        where = f"{command}: " if command else ""
        self.exit(2, f"diffcourt: {where}{message} (see {self.prog} --help)\n")


def add_part(parts: "argparse._SubParsersAction[P]", name: str, summary: str, **settings: Any) -> P:
    """Add a command or a subcommand; its summary is its default description."""
    settings.setdefault("description", f"{summary[0].upper()}{summary[1:]}.")
    return parts.add_parser(name, help=summary, **settings)


def ref(text: str) -> str:
    """Argument type: a git ref. An empty one is most often an unset variable."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty; name a commit, branch or tag")
    if text.startswith("-"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a commit, branch or tag")
    return text


def directory(text: str) -> Path:
    """Argument type: an existing directory."""
    if not text:
        raise argparse.ArgumentTypeError("is empty; name a directory")
    try:
        found = Path(text).is_dir()
    except (OSError, ValueError):
        found = False
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a directory")
    if not os.access(text, os.R_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be read by this user")
    return Path(text)


def name_of(what: str) -> Callable[[str], str]:
    """An argument type: a name that must not be empty."""

    def name(text: str) -> str:
        if not text.strip():
            raise argparse.ArgumentTypeError(f"is empty; name {what}")
        return text

    return name


def count(text: str) -> int:
    """Argument type: a whole number, at least 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return value


def amount(text: str) -> float:
    """Argument type: a finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return value


def add_repo(parser: argparse._ActionsContainer) -> None:
    """Add --repo, which names the repository."""
    parser.add_argument(
        "--repo",
        type=directory,
        metavar="DIR",
        help="the repository; default: the current directory",
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names a run."""
    parser.add_argument(
        "run_id",
        type=name_of("a run (diffcourt runs lists them)"),
        metavar="RUN",
        help="the run's id, a unique prefix of it, or latest",
    )


def add_json_flag(parser: argparse.ArgumentParser) -> None:
    """Add --json, for a command that prints a result."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_backend(parser: argparse._ActionsContainer) -> None:
    """Add --backend, which chooses the event loop."""
    parser.add_argument(
        "--backend", choices=BACKENDS, default=BACKENDS[0], help="event loop; default: asyncio"
    )
