"""The argument parser, argument types and options that several commands share."""

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

P = TypeVar("P", bound=argparse.ArgumentParser)

BACKENDS = ("asyncio", "trio")


class HelpFormatter(argparse.HelpFormatter):
    """Wraps each paragraph of a description; a paragraph with indented lines stays as written."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        from textwrap import fill

        return "\n\n".join(
            paragraph if "\n " in paragraph else fill(" ".join(paragraph.split()), width)
            for paragraph in text.split("\n\n")
        )


class Parser(argparse.ArgumentParser):
    """An argument parser with one-line errors and without abbreviated options.

    The help ends with the command's examples.
    """

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", HelpFormatter)
        super().__init__(allow_abbrev=False, **settings)

    def format_help(self) -> str:
        """The help, with what ``help.yaml`` says of the command, and its examples at the end."""
        import yaml

        known = yaml.safe_load(Path(__file__).with_name("help.yaml").read_bytes())[self.prog]
        self.description = known.get("description", self.description)
        self.epilog = known.get("exit_codes", self.epilog)
        lines = [f"  {self.prog} {args}".rstrip() for args in known["examples"]]
        return "\n".join([super().format_help(), "examples:", *lines, ""])

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        options = list(map(str, action.choices))
        hint = did_you_mean(str(value), options)
        if action.dest == "command":
            self.error(f"there is no command {str(value)!r}{hint}")
        allowed = "" if hint else f"; choose from {', '.join(options)}"
        raise argparse.ArgumentError(action, f"invalid choice: {str(value)!r}{hint}{allowed}")

    def _print_message(self, message: str, file: Any = None) -> None:
        from orchestrator.report.terminal_escaping import emit

        emit(message, sys.stderr if file is None else file)

    def error(self, message: str) -> NoReturn:
        """Print the error and how to get help, and exit with code 2."""
        command = self.prog.removeprefix("diffcourt").strip()
        where = f"{command}: " if command else ""
        self.exit(2, f"diffcourt: {where}{message} (see {self.prog} --help)\n")


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """A hint at a similar option, to append to an error; empty if there is none."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(options), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def add_part(parts: "argparse._SubParsersAction[P]", name: str, summary: str, **settings: Any) -> P:
    """Add a command or a subcommand; its summary is its default description."""
    settings.setdefault("description", describe_part(summary))
    return parts.add_parser(name, help=summary, **settings)


def describe_part(summary: str) -> str:
    """The summary as a description: a sentence."""
    return f"{summary[0].upper()}{summary[1:]}."


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


def add_decision(parser: argparse.ArgumentParser) -> None:
    """Add the options of a person's decision on a finding: until when, by whom, of which run."""
    parser.add_argument("--until", default="", metavar="DATE", help="its last day, as 2027-06-30")
    parser.add_argument(
        "--by",
        default="",
        metavar="NAME",
        help="the person responsible; required for a critical finding",
    )
    parser.add_argument(
        "--run", dest="run_id", default="latest", metavar="RUN", help="the run; default: latest"
    )
    add_repo(parser)


def add_run(parser: argparse.ArgumentParser, *, default: str | None = None) -> None:
    """Add the argument that names a run; optional if there is a default."""
    parser.add_argument(
        "run_id",
        nargs="?" if default else None,
        default=default,
        type=name_of("a run (diffcourt runs lists them)"),
        metavar="RUN",
        help="the run's id, a unique prefix of it, or latest"
        + (f"; default: {default}" if default else ""),
    )


def add_json_flag(parser: argparse._ActionsContainer) -> None:
    """Add --json, which prints JSON in place of text."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_json_file(parser: argparse._ActionsContainer, what: str = "full result") -> None:
    """Add --json, which writes a document to a file in addition to the report, or to stdout."""
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help=f"write the {what} as JSON; without a file, or with -, to standard output",
    )


def add_backend(parser: argparse._ActionsContainer) -> None:
    """Add --backend, which chooses the event loop."""
    parser.add_argument(
        "--backend", choices=BACKENDS, default=BACKENDS[0], help="event loop; default: asyncio"
    )
