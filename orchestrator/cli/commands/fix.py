"""``diffcourt fix``: show the verified patches of a run, and apply them once a person agrees."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from typing import TYPE_CHECKING

from orchestrator.errors import EXIT_GATED, EXIT_OK, InputError
from orchestrator.report.terminal_escaping import emit, emit_line, quote_path

if TYPE_CHECKING:
    from orchestrator.app.apply_fixes import ChosenFixes
    from orchestrator.code_review.verdict.document_parts import Fix
    from orchestrator.code_review.verdict.model import Finding

_FINDING = re.compile(r"F\d+")
_PATCH_LINE = (" ", "+", "-", "@", "\\")
"""How a line begins that is not prose around the patch, which could look like ours."""


def run(args: argparse.Namespace) -> int:
    """Show the patches, then prove or apply them."""
    import anyio

    from orchestrator.app.apply_fixes import (
        apply_fixes,
        check_applies,
        choose_fixes,
        new_tests,
        prove_claims,
        try_tests,
    )

    run_id, names = _split(args.names)
    fixes = choose_fixes(args.repo, run_id, names)
    if args.base and fixes.proven_here:
        raise InputError("--base is for a verdict from elsewhere; a run here knows its base")
    if not args.check:
        fixes = prove_claims(args.repo, fixes, args.base)
    _show(fixes)
    if not fixes.findings:
        emit_line(
            f"nothing to apply: the run {fixes.verdict.run_id} has no verified patch", sys.stdout
        )
        return EXIT_OK
    if args.check:
        return _check(args, fixes)
    check_applies(args.repo, fixes)
    tests = new_tests(args.repo, fixes) if args.with_test else {}
    for path, (finding, proof) in tests.items():
        emit_line(f"{finding.id} new test {quote_path(path)}", sys.stdout)
        emit("".join(f"+{line}\n" for line in proof.test.splitlines()) + "\n", sys.stdout)
    for line in anyio.run(try_tests, args.repo, fixes, tests, args.base) if tests else ():
        emit_line(line, sys.stdout)
    number = len(fixes.findings)
    count = f"{number} {'patch' if number == 1 else 'patches'}"
    if not args.yes and not _confirmed(f"Apply {count} to the work tree?"):
        emit("nothing was changed\n", sys.stdout)
        return EXIT_OK
    added = {path: proof.test.encode() for path, (_, proof) in tests.items()}
    applied = apply_fixes(args.repo, fixes, added)
    run_id = fixes.verdict.run_id
    paths = shlex.join(applied.paths)
    ids = ", ".join(finding.id for finding in fixes.findings)
    emit_line(f"Applied {count} ({ids}).", sys.stdout)
    emit_line(
        f"  commit: git add -- {paths} && git commit -m 'Fix {ids} of the review'", sys.stdout
    )
    if applied.call:
        emit_line(f"  undo:   diffcourt rollback {run_id} {applied.call}", sys.stdout)
    return EXIT_OK


def _split(given: list[str]) -> tuple[str, list[str]]:
    """The run, and the findings that are named."""
    if given and not _FINDING.fullmatch(given[0]):
        return given[0], given[1:]
    return "latest", given


def _show(fixes: ChosenFixes) -> None:
    """Each finding with its patch, and what is left out."""
    for finding in fixes.findings:
        for line in _heading(finding):
            emit_line(line, sys.stdout)
        assert finding.fix is not None
        rows = finding.fix.patch.rstrip("\n").split("\n")
        shown = [row if row.startswith(_PATCH_LINE) else f"  {row}" for row in rows]
        emit("\n".join(shown) + "\n\n", sys.stdout)
    for name, why in fixes.left_out.items():
        emit_line(f"left out: {name}: {why}", sys.stdout)


def _heading(finding: Finding) -> tuple[str, str]:
    from orchestrator.report.findings_text import name_provers

    fix = finding.fix
    assert fix is not None
    proof = f"applies, not proven to fix it: {fix.reason}"
    if fix.is_verified:
        proof = f"verified by {name_provers(finding)}"
    what = f"{finding.id} {quote_path(finding.path)}:{finding.start_line}: {finding.title}"
    return what, f"  {proof}"


def _check(args: argparse.Namespace, fixes: ChosenFixes) -> int:
    """Prove the patches again and print the results."""
    from orchestrator.app.apply_fixes import prove_again

    proven = prove_again(args.repo, fixes, args.base)
    failed = False
    for finding in fixes.findings:
        fix = proven.get(finding.id)
        if fix is None:
            word = "not proven: analyzers do not report the finding by themselves"
        else:
            word = fix.state + (f": {fix.reason}" if fix.reason else "")
        failed |= _holds_less(finding, fix)
        emit_line(f"{finding.id} {word}", sys.stdout)
    return EXIT_GATED if failed else EXIT_OK


def _holds_less(finding: Finding, new: Fix | None) -> bool:
    """Whether a patch no longer has the state that the run recorded."""
    assert finding.fix is not None
    if finding.fix.is_verified:
        return new is None or not new.is_verified
    return new is not None and new.state == "refused"


def _confirmed(question: str) -> bool:
    """Whether a person at the terminal confirms."""
    if not sys.stdin.isatty():
        raise InputError("nobody can be asked without a terminal: give --yes, or --check")
    emit(f"{question} [y/N] ", sys.stdout)
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
