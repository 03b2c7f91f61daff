"""``diffcourt waive``: accept a finding, or a rule in some files, in the repository's waivers."""

import argparse
import re
import sys

from orchestrator.cli.arguments import add_decision, name_of
from orchestrator.errors import EXIT_OK, InputError
from orchestrator.report.terminal_escaping import emit

_FINDING = re.compile(r"F\d+")
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("target", type=name_of("what to waive"), metavar="FINDING")
    parser.add_argument("--why", type=name_of("a reason"), required=True)
    parser.add_argument("--path", dest="paths", action="append", default=[])
    add_decision(parser)


def run(args: argparse.Namespace) -> int:
    """Append the waiver and print it."""
    from orchestrator.app.catalog_listing import list_rules
    from orchestrator.app.memory.waiver_files import (
        NAME,
        NewWaiver,
        add_waiver,
        make_waiver,
        waiver_of_finding,
    )
    from orchestrator.app.runs.stored_runs import load_verdict

    if _FINDING.fullmatch(args.target):
        if args.paths:
            raise InputError("--path is for a rule or a fingerprint; a finding has its own path")
        verdict = load_verdict(args.repo, args.run_id)
        new = waiver_of_finding(verdict, args.target, args.why, args.by, args.until)
    elif _FINGERPRINT.fullmatch(args.target):
        new = NewWaiver(
            make_waiver(args.why, args.by, args.until, fingerprint=args.target, paths=args.paths)
        )
    else:
        known = {rule.id for rule in list_rules(args.repo)}
        if args.target not in known and not args.target.startswith("import."):
            raise InputError(
                f"{args.target} is not a finding (F3), fingerprint (16 digits) or rule; "
                "diffcourt catalog --rules lists the rules"
            )
        new = NewWaiver(
            make_waiver(args.why, args.by, args.until, rule=args.target, paths=args.paths)
        )
    entry = add_waiver(args.repo, new)
    emit(f"{entry}Added to {NAME}; it takes effect once it is in the base branch.\n", sys.stdout)
    return EXIT_OK
