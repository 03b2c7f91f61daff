"""The ``diffcourt`` command.

A subcommand is an entry in ``COMMANDS``, its module's name below ``cli/commands`` and its summary.
The module has ``add_arguments(parser)`` and ``run(args) -> exit code``. Only the chosen one is
imported, for a fast start.
"""

from __future__ import annotations

import sys

from orchestrator import __version__

TYPE_CHECKING = False  # importing typing alone would double the start-up time
if TYPE_CHECKING:
    from argparse import _SubParsersAction
    from collections.abc import Sequence

    from orchestrator.cli.arguments import Parser

COMMANDS = {
    "review": ("review", "review a change; the verdict is merge, needs_changes or block"),
    "resume": ("resume", "resume an interrupted review or answer its question"),
    "cancel": ("cancel", "stop a run that another process is working on"),
    "fork": ("fork", "start a new run from a checkpoint of another, edited"),
    "approve": ("approve", "approve a pending irreversible call"),
    "deny": ("approve", "deny a pending irreversible call"),
    "fix": ("fix", "apply the proven patches of a run's findings"),
    "rollback": ("rollback", "restore the files that a run's tools changed"),
    "runs": ("runs", "list, prune, export or import runs"),
    "stats": ("stats", "print figures over all runs: results, cost, errors, latency"),
    "view": ("view", "show runs in the browser, and decide what waits there"),
    "show": ("show", "print a run's report and timeline"),
    "trace": ("trace", "export a run as an OpenTelemetry trace"),
    "waive": ("waive", "accept a finding, or a rule in some files"),
    "dismiss": ("dismiss", "dismiss a finding, for later reviews as well"),
    "feedback": ("feedback", "say whether a finding was useful, or that it is fixed"),
    "remember": ("remember", "propose what to remember of past reviews, as a patch"),
    "override": ("override", "record a person's decision against a verdict"),
    "export": ("export", "write a verdict in the formats of other programs"),
    "post": ("post", "post a verdict to a pull or merge request"),
    "comment-command": ("comment_command", "carry out a command in a comment on a pull request"),
    "audit": ("audit", "verify a run's journal, or list who did what in it"),
    "catalog": ("catalog", "list and validate agents, skills, tools and rubrics"),
    "label": ("label", "label runs or items by hand, for rubric tuning"),
    "rubric": ("rubric.command", "validate, score, evaluate and tune a rubric"),
    "schema": ("schema", "print a published JSON Schema"),
    "mcp": ("mcp", "list MCP servers, or accept their tools"),
    "serve": ("serve", "take webhooks and enqueue reviews for an organization"),
    "queue": ("queue", "list, retry, cancel or park the service's reviews"),
    "work": ("work", "work on the service's queue of reviews"),
    "init": ("init", "add Diffcourt to a repository's CI"),
    "doctor": ("doctor", "check that everything a review needs is here"),
}

RESUMABLE = ("review", "resume", "fork")
"""Commands that leave a run to resume where they are interrupted."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit code: 0 below ``--fail-on``, 1 at or above it, 2 wrong usage, configuration or
        input, 3 incomplete or failed, 130 interrupted.
    """
    args = list(sys.argv[1:] if argv is None else argv)
    if args == ["--version"]:
        try:
            print(f"diffcourt {__version__}", flush=True)
        except OSError:
            pass  # argparse's own --version below handles closed pipes and full disks
        else:
            return 0
    from orchestrator.cli.error_reporting import report_errors

    return report_errors(lambda: _dispatch(args), resumable=_find_command(args) in RESUMABLE)


def _find_command(args: list[str]) -> str:
    # The first positional argument is the command: no option before it takes a value.
    return next((arg for arg in args if not arg.startswith("-")), "")


def _dispatch(args: list[str]) -> int:
    from importlib import import_module

    from orchestrator.cli.arguments import add_part, did_you_mean

    chosen = _find_command(args)
    parser, subparsers = _make_parser()
    commands = {
        name: add_part(subparsers, name, summary) for name, (_, summary) in COMMANDS.items()
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
    from orchestrator.cli.arguments import EXIT_CODES, Parser

    parser = Parser(
        prog="diffcourt",
        description="Review a change with analyzers, agents and a judge.",
        epilog=EXIT_CODES,
    )
    parser.add_argument(
        "--version", action="version", version=f"diffcourt {__version__}", help="print the version"
    )
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True, parser_class=Parser
    )
    return parser, commands
