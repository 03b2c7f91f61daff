"""The parser and the types of arguments that commands share."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

P = TypeVar("P", bound=argparse.ArgumentParser)

EXIT_CODES = """\
exit codes:
  0    the verdict is below --fail-on
  1    the verdict is at or above --fail-on
  2    wrong usage, configuration or input
  3    incomplete: something was not looked at, or the run failed
  130  interrupted; diffcourt resume goes on\
"""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, and that takes no shortened options."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **settings)

    def _print_message(self, message: str, file: Any = None) -> None:
        try:
            super()._print_message(message, file)
        except (AttributeError, BrokenPipeError):
            return  # the stream is closed, or its reader has left; older Pythons do not mind it

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where the help is; exit 2."""
        command = self.prog.removeprefix("diffcourt").strip()
        where = f"{command}: " if command else ""
        self.exit(2, f"diffcourt: {where}{message} (see {self.prog} --help)\n")


def add_part(parts: argparse._SubParsersAction[P], name: str, summary: str, **settings: Any) -> P:
    """A command, or a part of one; its summary is also what it is described by."""
    settings.setdefault("description", f"{summary[0].upper()}{summary[1:]}.")
    return parts.add_parser(name, help=summary, **settings)


def ref(text: str) -> str:
    """A git ref; an empty one is most often an unset variable."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty; name a commit, branch or tag")
    if text.startswith("-"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a commit, branch or tag")
    return text


def folder(text: str) -> Path:
    """An existing folder."""
    if not text:
        raise argparse.ArgumentTypeError("is empty; name a folder")
    try:
        found = Path(text).is_dir()
    except (OSError, ValueError):
        found = False
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder")
    if not os.access(text, os.R_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"{text!r} may not be looked into by this user")
    return Path(text)


def name_of(what: str) -> Callable[[str], str]:
    """The type of a name that must not be empty."""

    def name(text: str) -> str:
        if not text.strip():
            raise argparse.ArgumentTypeError(f"is empty; name {what}")
        return text

    return name


def count(text: str) -> int:
    """A whole number, at least 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return value


def amount(text: str) -> float:
    """A finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return value


def add_repo(parser: argparse._ActionsContainer) -> None:
    """The option that names the repository."""
    parser.add_argument(
        "--repo", type=folder, metavar="DIR", help="the repository; default: the current folder"
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    """The argument that names a run."""
    parser.add_argument(
        "run_id",
        type=name_of("a run (diffcourt runs lists them)"),
        metavar="RUN",
        help="the run's id, the beginning of one, or latest",
    )


def add_json_flag(parser: argparse.ArgumentParser) -> None:
    """The option of a command that prints."""
    parser.add_argument("--json", action="store_true", help="print JSON")
