"""``diffcourt init``: add Diffcourt to a repository's CI, or to its coding agents."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import EXIT_OK, InputError
from orchestrator.report.terminal_escaping import emit, emit_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NAMES = ("github", "gitlab", "forgejo", "pre-commit")
HOSTS = ("claude", "codex", "cursor", "gemini", "opencode")


def run(args: argparse.Namespace) -> int:
    """Write the files and say what to do next."""
    from orchestrator.app.agent_files import write_agent_files, write_plugin
    from orchestrator.app.runs.state_directory import inside_repository, repo_root
    from orchestrator.app.test_detection import find_tests, write_tests

    start = args.repo or Path()
    if not args.plugin and not inside_repository(start):
        raise InputError(f"{start} is not in a git repository; name one with --repo")
    top = args.plugin or repo_root(start)
    lines: Iterable[str]
    if args.plugin:
        lines = write_plugin(top, force=args.force)
    elif args.tests:
        lines = write_tests(top, find_tests(top))
    elif args.agents is not None:
        lines = write_agent_files(top, args.agents or HOSTS, force=args.force)
    else:
        lines = _write_ci(args, top)
    for line in lines:
        emit_line(line, sys.stdout)
    return EXIT_OK


def _write_ci(args: argparse.Namespace, top: Path) -> list[str]:
    from orchestrator.app import ci_files

    ci = args.ci or _ask("Which CI system?", NAMES, ci_files.detect_ci(top) or "github", "--ci")
    system = ci_files.ci_systems()[ci]
    if not args.force and not system.is_shared:
        ci_files.require_new(top, system.review.values())  # before more is asked
    answer = args.comments or "no"
    if args.comments is None and system.comments:
        answer = _ask("Post findings as comments?", ("yes", "no"), "no", "--comments")
    commands = args.commands or "no"
    if args.commands is None and args.comments is None and answer == "yes" and system.commands:
        commands = _ask("Carry out commands in comments?", ("yes", "no"), "no", "--commands")
    source = args.source or ci_files.installed_from()
    files = ci_files.make_ci_files(
        ci,
        comments=answer == "yes",
        source=source,
        commands=commands == "yes",
        gate=answer == "gate",
        stage=ci_files.find_gitlab_stage(top),
    )
    lines = _put(top, files, shared=system.is_shared, source=source, force=args.force)
    lines.append(f"Next: {system.next_step}.")
    if answer == "yes" and system.comments_step:
        lines.append(f"And: {system.comments_step}.")
    return lines


def _put(
    top: Path, files: Mapping[str, str], *, shared: bool, source: str | None, force: bool
) -> list[str]:
    """Write the files, or leave the one with others' hooks; returns what a person is told."""
    from orchestrator.app.ci_files import HOOK, HOOKS, PLACEHOLDER, has_line, write_ci_files

    there = next((name for name in files if shared and (top / name).exists()), None)
    if there and has_line(top / there, HOOK):
        return [f"{there} has the hook already"]
    if there:  # with hooks of others
        is_list = has_line(top / there, HOOKS)
        lines = [f"Add to {'repos in ' * is_list}{there}:", *files[there].splitlines()[is_list:]]
    else:
        write_ci_files(top, files, force=force)
        lines = [f"Wrote {name}" for name in files]
    if source is None:
        lines.append(
            f"Replace {' and '.join(PLACEHOLDER)} there by the address and a commit of your copy "
            "of Diffcourt, or run this again with --from git+https://HOST/PATH@COMMIT --force."
        )
    return lines


def _ask(question: str, answers: Sequence[str], default: str, option: str) -> str:
    """What a person answers on the terminal."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise InputError(f"there is no terminal to ask on; give {option}")
    while True:
        emit(f"{question} {', '.join(answers)} [{default}] ", sys.stdout)
        line = sys.stdin.readline()
        if not line:
            raise InputError(f"no answer; give {option}")
        given = line.strip().lower() or default
        found = [answer for answer in answers if answer.startswith(given)]
        if len(found) == 1 or given in answers:
            return given if given in answers else found[0]
        emit_line(f"Answer with one of these; {given!r} is none.", sys.stdout)
        if not found and option == "--ci":
            job = 'diffcourt review --base "origin/$TARGET"'
            emit_line(f"Any other CI system can run, after a full fetch: {job}", sys.stdout)
