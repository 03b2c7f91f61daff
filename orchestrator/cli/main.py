"""The ``diffcourt`` command.

A subcommand is one line in ``COMMANDS`` and a module with ``add_arguments(parser)`` and
``run(args) -> exit code``. Only the chosen one's module is imported, since start-up counts.
"""

from __future__ import annotations

import sys

from orchestrator import __version__

TYPE_CHECKING = False  # importing typing alone would double the start-up time
if TYPE_CHECKING:
    from argparse import _SubParsersAction
    from collections.abc import Sequence
    from typing import NoReturn

    from orchestrator.cli.arguments import Parser

COMMANDS = {
    "review": (
        "orchestrator.cli.commands.review",
        "review a change and say merge, needs changes or block",
    ),
    "resume": (
        "orchestrator.cli.commands.resume",
        "go on with a review that was cut off, or asks something",
    ),
    "approve": (
        "orchestrator.cli.commands.approve",
        "say yes to a call that cannot be undone, once",
    ),
    "deny": ("orchestrator.cli.commands.approve", "say no to a call that waits for a person"),
    "rollback": (
        "orchestrator.cli.commands.rollback",
        "put back what a run's writing tools changed",
    ),
    "runs": ("orchestrator.cli.commands.runs", "list the runs, newest first"),
    "show": ("orchestrator.cli.commands.show", "print a run's report and timeline"),
    "audit": (
        "orchestrator.cli.commands.audit",
        "check a run's journal, and list who did what in it",
    ),
    "catalog": (
        "orchestrator.cli.commands.catalog",
        "list and check agents, skills, tools and rubrics",
    ),
    "label": ("orchestrator.cli.commands.label", "say what people think of items, for tuning"),
    "rubric": (
        "orchestrator.cli.commands.rubric.command",
        "check, score, evaluate and tune a rubric",
    ),
    "schema": ("orchestrator.cli.commands.schema", "print a published JSON Schema"),
    "mcp": ("orchestrator.cli.commands.mcp", "list the servers of tools, and accept their tools"),
    "doctor": (
        "orchestrator.cli.commands.doctor",
        "say which model providers are configured, and try them",
    ),
}


def process() -> NoReturn:
    """The command as a process, which ends with it.

    At once: to take a thousand modules apart first takes a tenth of a second.
    """
    code = main()
    import atexit
    import os

    atexit._run_exitfuncs()
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments without the program's name; the process's own when None.

    Returns:
        The exit code: 0 below ``--fail-on``, 1 at or above it, 2 wrong usage, configuration or
        input, 3 incomplete or failed, 130 interrupted.
    """
    args = list(sys.argv[1:] if argv is None else argv)
    if args == ["--version"]:
        try:
            print(f"diffcourt {__version__}", flush=True)
        except OSError:
            pass  # the long way round deals with readers that left and full disks
        else:
            return 0
    from orchestrator.cli.error_reporting import report_faults

    return report_faults(lambda: _dispatch(args))


def _dispatch(args: list[str]) -> int:
    from importlib import import_module

    from orchestrator.cli.arguments import add_part

    # The first word is the command: no option that comes before it takes a value.
    chosen = next((arg for arg in args if not arg.startswith("-")), "")
    parser, subparsers = _top()
    commands = {
        name: add_part(subparsers, name, summary) for name, (_, summary) in COMMANDS.items()
    }
    if chosen in COMMANDS:
        module = import_module(COMMANDS[chosen][0])
        module.add_arguments(commands[chosen])
        commands[chosen].set_defaults(run=module.run)
    if not args:
        parser.print_help(sys.stderr)
        return 2
    parsed, unknown = parser.parse_known_args(args)
    if unknown:
        commands[chosen].error(f"unknown: {' '.join(unknown)}")
    code: int = parsed.run(parsed)
    return code


def _top() -> tuple[Parser, _SubParsersAction[Parser]]:
    from orchestrator.cli.arguments import EXIT_CODES, Parser

    parser = Parser(
        prog="diffcourt",
        description="Review a change with analyzers, agents and a judge. The verdict is computed.",
        epilog=EXIT_CODES,
    )
    parser.add_argument(
        "--version", action="version", version=f"diffcourt {__version__}", help="print the version"
    )
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True, parser_class=Parser
    )
    return parser, commands
