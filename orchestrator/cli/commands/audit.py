"""``diffcourt audit``: verify a run's journal, or list who did what in it."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING

from msgspec import to_builtins

from orchestrator.cli.output import width_of
from orchestrator.errors import EXIT_GATED, EXIT_OK, InputError
from orchestrator.report.terminal_escaping import as_json, emit

if TYPE_CHECKING:
    from orchestrator.engine.journal_verification import Anchor


def run(args: argparse.Namespace) -> int:
    """Run the chosen subcommand."""
    return {"verify": _verify, "show": _show}[args.part](args)


def journal_head(text: str) -> str:
    """Argument type: the hash of a journal's last row."""
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise argparse.ArgumentTypeError(
            "is not a journal head: 64 hexadecimal digits, as in provenance.journal_head"
        )
    return text


def _anchor(args: argparse.Namespace) -> Anchor | None:
    from orchestrator.engine.journal_verification import Anchor

    if (args.head is None) != (args.length is None):
        raise InputError("--head and --length must be given together; or give --verdict")
    if args.head is None:
        return None
    if args.verdict is not None:
        raise InputError(
            "--verdict cannot be combined with --head and --length, since it contains them"
        )
    return Anchor(args.head, args.length)


def _verify(args: argparse.Namespace) -> int:
    from orchestrator.app.audit import verification
    from orchestrator.report.runs_text import render_verification

    done = verification.verify_run(
        args.repo, args.run_id, anchor=_anchor(args), verdict=args.verdict, keys=args.key
    )
    intact = not done.found.errors
    if args.json:
        document = {"run": done.run_id, "intact": intact, "finished": done.finished}
        emit(as_json({**document, "writer": done.writer, **to_builtins(done.found)}), sys.stdout)
    else:
        emit(render_verification(done, width_of(sys.stdout)), sys.stdout)
    return EXIT_OK if intact else EXIT_GATED


def _show(args: argparse.Namespace) -> int:
    from orchestrator.app.audit import verification
    from orchestrator.report.runs_text import render_audit_trail

    trail = verification.load_trail(args.repo, args.run_id)
    if args.json:
        emit(as_json(to_builtins(trail)), sys.stdout)
    else:
        emit(render_audit_trail(trail, width_of(sys.stdout)), sys.stdout)
    return EXIT_OK
