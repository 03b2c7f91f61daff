"""The ``diffcourt`` command.

A subcommand is an entry in ``COMMANDS``, ``arguments.toml`` and ``help.yaml``. Its module has
``run(args) -> exit code``, or ``run_NAME`` for each of several commands. Only the chosen one is
imported, for a fast start.
"""

from __future__ import annotations

import gc
import os
import sys

from orchestrator import __version__
from orchestrator.program_search import clean_path

TYPE_CHECKING = False  # importing typing alone would double the start-up time
if TYPE_CHECKING:
    from argparse import Namespace, _SubParsersAction
    from collections.abc import Callable, Sequence

    from orchestrator.cli.arguments import Parser

_SEVERAL = {
    "decisions": "approve deny waive dismiss override feedback remember",
    "one_run": "show export schema cancel rollback trace",
    "posting": "post comment-command",
    "review": "review resume fork",
    "rubric.command": "rubric",
    "service": "serve work queue",
}
_OWN = "watch fix init doctor catalog runs view stats audit label mcp"
COMMANDS = {name: name for name in _OWN.split()}
COMMANDS |= {name: module for module, names in _SEVERAL.items() for name in names.split()}
"""Command -> its module below ``cli/commands``."""

_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""Where this program was imported from, which may be a checkout of it."""

RESUMABLE = ("review", "resume", "fork")
"""Commands that leave a run to resume where they are interrupted."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit code: 0 below ``--fail-on``, 1 at or above it, 2 wrong usage, configuration or
        input, 3 incomplete or failed, 130 interrupted.
    """
    _search_no_working_directory()
    args = list(sys.argv[1:] if argv is None else argv)
    if args == ["--version"]:
        try:
            print(f"diffcourt {__version__}", flush=True)  # noqa: T201 - quick, and a constant
        except OSError:
            pass  # argparse's own --version below handles closed pipes and full disks
        else:
            return 0
    # Imports leave hardly any garbage: to look for some as often as Python does takes a fifth of
    # the time that they take.
    gc.set_threshold(100_000)
    try:
        from orchestrator.cli.error_reporting import report_errors
    except KeyboardInterrupt:  # what reports errors is not loaded yet
        print("diffcourt: interrupted", file=sys.stderr)  # noqa: T201 - a constant
        return 130

    with report_errors(resumable=_find_command(args) in RESUMABLE) as outcome:
        outcome.code = _dispatch(args)
    code: int = outcome.code
    return code


def _search_no_working_directory() -> None:
    """Remove the entries of search paths that name a checkout, which may be hostile.

    Libraries start programs by name, such as ``uname``. What Python imported before this function
    came from the unchanged path.
    """
    clean_path()
    entries = os.environ.pop("PYTHONPATH", "").split(os.pathsep)
    kept = [entry for entry in entries if os.path.isabs(entry)]
    if kept:
        os.environ["PYTHONPATH"] = os.pathsep.join(kept)
    if entries not in (kept, [""]):
        try:
            removed = {os.path.abspath(entry) for entry in entries} - set(kept)
        except FileNotFoundError:  # the working directory has been removed
            return
        removed.discard(_HOME)
        sys.path[:] = [entry for entry in sys.path if entry not in removed]


def _find_command(args: list[str]) -> str:
    # The first positional argument is the command: no option before it takes a value.
    return next((arg for arg in args if not arg.startswith("-")), "")


def _load_command(name: str) -> Callable[[Namespace], int]:
    from importlib import import_module

    module = import_module(f"orchestrator.cli.commands.{COMMANDS[name]}")
    own = f"run_{name.replace('-', '_')}"
    run: Callable[[Namespace], int] = getattr(module, own if hasattr(module, own) else "run")
    return run


def _dispatch(args: list[str]) -> int:
    from orchestrator.cli.arguments import add_arguments, did_you_mean

    chosen = _find_command(args)
    parser, subparsers = _make_parser()
    commands = {
        name: subparsers.add_parser(name)
        for name in ([chosen] if chosen in COMMANDS else COMMANDS)  # each takes a millisecond
    }
    if chosen in COMMANDS:
        add_arguments(commands[chosen], chosen)
        commands[chosen].set_defaults(run=_load_command(chosen))
    if not args:
        parser.print_help(sys.stderr)
        return 2
    parsed, unknown = parser.parse_known_args(args)
    if unknown:
        hint = did_you_mean(unknown[0], commands[chosen]._option_string_actions)
        commands[chosen].error(f"unknown arguments: {' '.join(unknown)}{hint}")
    code: int = parsed.run(parsed)
    return code


def _make_parser() -> tuple[Parser, _SubParsersAction[Parser]]:
    from argparse import SUPPRESS

    from orchestrator.cli.arguments import Parser

    parser = Parser(prog="diffcourt", usage="diffcourt [-h] [--version] COMMAND ...")
    parser.add_argument("--version", action="version", version=f"diffcourt {__version__}")
    commands = parser.add_subparsers(
        title=None, prog="diffcourt", metavar="COMMAND", dest="command", parser_class=Parser,
        help=SUPPRESS,  # help.yaml lists them in groups
    )  # fmt: skip
    return parser, commands
