"""Checks that everything that a review needs is installed, for ``diffcourt doctor``."""

import os
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct

from diffchecks.programs import TABLES as LINTERS
from orchestrator.app.catalog_listing import list_catalog
from orchestrator.app.policy_sources import read_layers_on_disk
from orchestrator.app.run_one_test import project_tests
from orchestrator.app.runs.state_directory import inside_repository, repo_root, state_dir
from orchestrator.code_review.analyzers.configured_analyzers import linter_program
from orchestrator.code_review.analyzers.configured_programs import find_installed
from orchestrator.code_review.change.change_construction import find_default_branch
from orchestrator.code_review.change.git.commands import MINIMUM, Git, check_git_version, find_git
from orchestrator.code_review.policy_loading import read_catalog
from orchestrator.code_review.tools.repository_navigation import RIPGREP
from orchestrator.data_directories import read_table, user_directory
from orchestrator.errors import DiffcourtError, SandboxError
from orchestrator.optional_dependencies import ANALYZERS, install_command, minimum_version
from orchestrator.sandbox.level_descriptions import SandboxReport
from orchestrator.stores.result_cache import NAME as CACHE_FILE
from orchestrator.stores.result_cache import open_result_cache

Status = Literal["ok", "note", "failed"]
OUTSIDE = "not in a git repository"
MAX_SHOWN = 300
"""Characters of the end of what a failing test prints: its beginning seldom says why."""

_TABLES = read_table(__file__, "installation_checks.yaml")
INSTALLERS: dict[str, Sequence[str]] = _TABLES["installers"]
EXTRAS: dict[str, str] = _TABLES["extras"]


class InstallationCheck(Struct, frozen=True):
    """The result of one check.

    Attributes:
        status: ``note`` when a review works without it.
        remedy: what to do; empty if there is nothing to do.
    """

    name: str
    status: Status
    detail: str
    remedy: str = ""


Found = tuple[Status, str] | tuple[Status, str, str]
"""Status, detail and remedy of a check."""


async def check_installation(repo: Path | None, sandbox: SandboxReport) -> list[InstallationCheck]:
    """All checks, in the order in which a review needs them."""
    start = repo or Path()
    own = await _guarded("your analyzers", partial(_check_configured_analyzers, start))
    tests = await _guarded("tests", partial(_check_tests, start), "note")
    return [
        await _guarded("git", _check_git),
        await _guarded("analyzers", _check_analyzers),
        await _guarded("sandbox", partial(_check_sandbox, sandbox)),
        await _guarded("cache", partial(_check_cache, start)),
        await _guarded("state", partial(_check_state, start)),
        await _guarded("default branch", partial(_check_default_branch, start)),
        await _guarded("configuration", partial(_check_configuration, start)),
        *(check for check in (own, tests) if check.detail),
    ]


async def _guarded(
    name: str, check: Callable[[], Awaitable[Found]], failed: Status = "failed"
) -> InstallationCheck:
    """A check's result; an exception in it is a failed check."""
    try:
        found = await check()
        return InstallationCheck(name, found[0], found[1], found[2] if len(found) == 3 else "")
    except (DiffcourtError, OSError, sqlite3.Error) as error:
        problem, _, remedy = str(error).partition("; ")
        return InstallationCheck(name, failed, problem, remedy or f"correct this: {problem}")


async def _check_git() -> Found:
    version, minimum = await check_git_version(), ".".join(map(str, MINIMUM))
    return "ok", f"{version} in {find_git()} ({minimum} or later is needed)"


async def _check_analyzers() -> Found:
    found, missing, old = [], [], []
    for program in (*map(linter_program, LINTERS), RIPGREP):
        try:
            program.find()
            version = await program.printed_version()
        except SandboxError as error:
            missing.append((program.package, str(error).partition("; ")[0]))
            continue
        needed = minimum_version(ANALYZERS, program.package)
        if _numbers(version) < _numbers(needed):
            old.append((program.package, f"{program.name} {version} is older than {needed}"))
        else:
            found.append(f"{program.name} {version}")
    problems = [*missing, *old]
    detail = ", ".join([*(text for _, text in problems), *found])
    if not problems:
        return "ok", detail
    remedy = f"run: {install_command(ANALYZERS, *(package for package, _ in problems))}"
    return "failed" if missing else "note", detail, remedy


async def _check_configured_analyzers(start: Path) -> Found:
    """Whether the programs of the configuration on disk are installed; no detail without any."""
    if list_catalog(start).problems:
        return "ok", ""  # reported by the check of the configuration
    settings = read_catalog(read_layers_on_disk(start)).settings
    found, missing, lines = [], [], []
    for key, program in settings.programs.items():
        analyzer = key.removeprefix("analyzers.")
        try:
            found.append(f"{analyzer}: {find_installed(program.command[0], lambda _: False).path}")
        except SandboxError as error:
            missing.append(f"{analyzer}: {str(error).partition('; ')[0]}")
            lines.append(_install_line(program.command[0]))
    detail = ", ".join([*missing, *found])
    if not missing:
        return "ok", detail
    remedy = (
        f"{'; '.join(dict.fromkeys(lines))}; or remove it from `analyzers` or `typecheck` in "
        ".diffcourt/config/defaults.yaml"
    )
    return "failed", detail, remedy


async def _check_tests(start: Path) -> Found:
    """Whether one of the project's tests runs in the sandbox; no detail if base configures none."""
    if not inside_repository(start) or list_catalog(start).problems:
        return "ok", ""
    found = await find_default_branch(await Git.open(start))
    tests = read_catalog(read_layers_on_disk(start)).settings.tests
    if found is None or tests is None:
        return "ok", ""
    project = await project_tests(start, found[1], tests)
    if not (path := project.smallest()):
        return "note", f"{found[0]} has no test file to try"
    end, code = await project.run(path, {})
    runner, words = project.single.runner.name, " ".join(end.message.split())
    if len(words) > MAX_SHOWN:
        words = f"... {words[-MAX_SHOWN:].partition(' ')[2]}"
    if code == 0:
        return "ok", f"{runner} ran {path} of {found[0]} in the sandbox"
    remedy = "correct `tests` in .diffcourt/config/defaults.yaml: what it needs goes into reads"
    return "note", f"{runner} fails {path} of {found[0]}: {words}", remedy


def _install_line(program: str) -> str:
    if program in EXTRAS:
        return f"run: {install_command(EXTRAS[program])}"
    installers = (how for how, programs in INSTALLERS.items() if program in programs)
    return next((f"run: {how} {program}" for how in installers), f"install {program}")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part]


async def _check_sandbox(report: SandboxReport) -> Found:
    if not report.level:
        return "failed", report.reason, report.hint or "see docs/sandbox.md"
    reason = f" ({report.reason})" if report.reason else ""
    if report.refusal:
        problem = f"{report.level} refuses every program: {report.refusal}"
        return "failed", problem, report.hint or "see docs/sandbox.md"
    tried = f"{report.level}{reason}; a program ran in it"
    status: Status = "note" if report.level == "none" or report.hint else "ok"
    return status, tried, report.hint


async def _check_cache(start: Path) -> Found:
    directory = user_directory(os.environ, "XDG_CACHE_HOME", ".cache")
    if directory is None:
        return "note", "none: there is no home directory", "set XDG_CACHE_HOME"
    outside = repo_root(start) if inside_repository(start) else directory / "no-repository"
    with open_result_cache(directory, outside=outside) as cache:
        if cache is None:
            problem = (
                f"not used: {directory} is in the repository, or not writable, or others may write"
            )
            return "note", problem, "correct that, or set XDG_CACHE_HOME"
        size = (directory / CACHE_FILE).stat().st_size / 1e6
    return "ok", f"{directory}, writable, {size:.1f} MB"


async def _check_state(start: Path) -> Found:
    if not inside_repository(start):
        return "note", OUTSIDE, "run it in a repository, or name one: --repo"
    return "ok", f"{state_dir(start)}, writable"


async def _check_default_branch(start: Path) -> Found:
    if not inside_repository(start):
        return "note", OUTSIDE
    found = await find_default_branch(await Git.open(start))
    if found is None:
        return "note", "none found", "name one for each review: --base BRANCH"
    return "ok", f"{found[0]}, at {found[1][:12]}"


async def _check_configuration(start: Path) -> Found:
    if problems := list_catalog(start).problems:
        remedy = "correct that file; `diffcourt catalog` lists every error"
        return "failed", str(problems[0]), remedy
    return "ok", "no errors"
