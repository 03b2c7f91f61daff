"""The ``diffcourt`` command.

A subcommand is an entry in ``COMMAND_GROUPS``. Its module has ``add_arguments(parser)`` and
``run(args) -> exit code``. Only the chosen one is imported, for a fast start.
"""

from __future__ import annotations

import os
import sys

from orchestrator import __version__
from orchestrator.program_search import clean_path

TYPE_CHECKING = False  # importing typing alone would double the start-up time
if TYPE_CHECKING:
    from argparse import _SubParsersAction
    from collections.abc import Sequence

    from orchestrator.cli.arguments import Parser

COMMAND_GROUPS = {
    "review a change": {
        "review": ("review", "review a change; the verdict is merge, needs_changes or block"),
        "resume": ("resume", "resume an interrupted review or answer its question"),
        "show": ("show", "print a run's report and timeline"),
        "fix": ("fix", "apply the verified patches of a run's findings"),
        "export": ("export", "write a verdict in the formats of other tools"),
    },
    "set up": {
        "init": ("init", "add Diffcourt to a repository's CI"),
        "doctor": ("doctor", "check that everything that a review needs is installed"),
        "catalog": ("catalog", "list and validate agents, skills, tools and rubrics"),
        "schema": ("schema", "print a published JSON Schema"),
        "mcp": ("mcp", "list MCP servers, or accept their tools"),
    },
    "decide as a person": {
        "approve": ("approve", "approve a pending irreversible call"),
        "deny": ("approve", "deny a pending irreversible call"),
        "waive": ("waive", "accept a finding, or a rule in some files"),
        "dismiss": ("dismiss", "dismiss a finding, for later reviews as well"),
        "override": ("override", "record a person's decision against a verdict"),
        "feedback": ("feedback", "say whether a finding was useful, or that it is fixed"),
        "remember": ("remember", "propose what to remember from past reviews, as a patch"),
    },
    "manage runs": {
        "runs": ("runs", "list, prune, export or import runs"),
        "view": ("view", "show runs in the browser, and answer their questions there"),
        "stats": ("stats", "print figures over all runs: results, cost, errors, latency"),
        "cancel": ("cancel", "stop a run of another process"),
        "fork": ("fork", "start a new run from an edited checkpoint of another"),
        "rollback": ("rollback", "restore the files that a run's tools changed"),
        "trace": ("trace", "export a run as an OpenTelemetry trace"),
        "audit": ("audit", "verify a run's journal, or list who did what in it"),
    },
    "pull requests": {
        "post": ("post", "post a verdict to a pull or merge request"),
        "comment-command": (
            "comment_command",
            "carry out a command in a comment on a pull request",
        ),
    },
    "tune the judge": {
        "label": ("label", "label runs or items by hand, for rubric tuning"),
        "rubric": ("rubric.command", "validate, score, evaluate and tune a rubric"),
    },
    "a service for an organization": {
        "serve": ("serve", "receive webhooks and enqueue reviews for an organization"),
        "work": ("work", "run the reviews in the service's queue"),
        "queue": ("queue", "list, retry, cancel or park the service's reviews"),
    },
}
"""Heading of the help -> command -> its module below ``cli/commands`` and its summary."""

COMMANDS = {name: command for group in COMMAND_GROUPS.values() for name, command in group.items()}

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
        sys.path[:] = [entry for entry in sys.path if entry not in removed]


def _find_command(args: list[str]) -> str:
    # The first positional argument is the command: no option before it takes a value.
    return next((arg for arg in args if not arg.startswith("-")), "")


def _dispatch(args: list[str]) -> int:
    from importlib import import_module

    from orchestrator.cli.arguments import describe_part, did_you_mean

    chosen = _find_command(args)
    parser, subparsers = _make_parser()
    commands = {
        name: subparsers.add_parser(name, description=describe_part(COMMANDS[name][1]))
        for name in ([chosen] if chosen in COMMANDS else COMMANDS)  # each takes a millisecond
    }
    if chosen in COMMANDS:
        module = import_module(f"orchestrator.cli.commands.{COMMANDS[chosen][0]}")
        module.add_arguments(commands[chosen])
        commands[chosen].set_defaults(run=module.run)
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

    parser = Parser(
        prog="diffcourt",
        usage="diffcourt [-h] [--version] COMMAND ...",
        description="Review a change with analyzers, agents and a judge.",
    )
    parser.add_argument(
        "--version", action="version", version=f"diffcourt {__version__}", help="print the version"
    )
    for heading, group in COMMAND_GROUPS.items():
        rows = [f"  {name:<15}  {summary}" for name, (_, summary) in group.items()]
        parser.add_argument_group(heading, "\n".join(rows))
    commands = parser.add_subparsers(
        prog="diffcourt",
        metavar="COMMAND",
        dest="command",
        required=True,
        parser_class=Parser,
        help=SUPPRESS,  # the groups list them
    )
    return parser, commands
