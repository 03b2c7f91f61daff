"""Consent: what base's configuration may do on this machine, as the user who runs it allows.

Base may belong to somebody else. So running its commands, spending money, notifying over its
channels and starting its MCP servers each need a consent of their own, and none implies another.
A consent is an option of the command, an environment variable or, where noted, a job of a known CI
system, whose owner wrote both the job and base.
"""

import os
import pwd
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from orchestrator.app.audit.signing_keys import KEY_FILE
from orchestrator.app.runs import state_directory
from orchestrator.app.types import ReviewOptions
from orchestrator.ci_systems import find_ci_system
from orchestrator.data_directories import user_directory
from orchestrator.errors import InputError

MCP_SERVERS = "DIFFCOURT_MCP"
"""Environment variable: the MCP servers that may be started, separated by commas; in CI too."""

RUN_TESTS = "DIFFCOURT_RUN_TESTS"
"""Environment variable: 1 lets base's test command run, 0 does not, also in CI."""

RUN_ANALYZERS = "DIFFCOURT_RUN_ANALYZERS"
"""Environment variable: 1 lets the analyzers run that base configures, 0 does not, also in CI."""

ALLOW_SPENDING = "DIFFCOURT_ALLOW_SPENDING"
"""Environment variable: 1 lets base choose a paid provider and raise bounds, 0 does not."""

ALLOW_NOTIFYING = "DIFFCOURT_NOTIFY"
"""Environment variable: 1 uses base's channels outside of CI too, 0 notifies nobody."""

HOW_TO_ALLOW_SPENDING = f"allow it with --allow-spending or {ALLOW_SPENDING}=1"

_ANSWERS = {"1": True, "true": True, "0": False, "false": False}


def allowed_servers(environment: Mapping[str, str]) -> frozenset[str]:
    """The MCP servers that may be started."""
    return frozenset(word.strip() for word in environment.get(MCP_SERVERS, "").split(","))


def decide_consent(options: ReviewOptions, environment: Mapping[str, str]) -> ReviewOptions:
    """The options with undecided consents filled in from the environment, else by whether it is CI.

    A new run records them, so that it is resumed with the same consents.

    Raises:
        InputError: a variable is neither 1 nor 0, or the name of one is misspelled, so that what it
            forbids would be allowed.
    """
    variables = {
        "run_tests": RUN_TESTS,
        "run_analyzers": RUN_ANALYZERS,
        "allow_spending": ALLOW_SPENDING,
    }
    _refuse_misspelled(environment, variables.values())
    ci = find_ci_system(environment) is not None
    decided = {}
    for name, variable in variables.items():
        if getattr(options, name) is None:
            answer = read_answer(variable, environment)
            decided[name] = ci if answer is None else answer
    return replace(options, **decided)


def _refuse_misspelled(environment: Mapping[str, str], names: Collection[str]) -> None:
    for given in environment:
        if not given.startswith("DIFFCOURT_") or given in names:
            continue
        from difflib import get_close_matches  # noqa: PLC0415 - most environments have none

        if near := get_close_matches(given, names, cutoff=0.9):
            raise InputError(f"there is no variable {given}; did you mean {near[0]}?")


def read_answer(variable: str, environment: Mapping[str, str]) -> bool | None:
    """What an environment variable allows or forbids; None when it is not set.

    Raises:
        InputError: it is neither 1 nor 0.
    """
    given = environment.get(variable, "").strip().lower()
    if given and given not in _ANSWERS:
        raise InputError(f"{variable} must be 1 or 0, not {given[:20]!r}")
    return _ANSWERS.get(given)


def private_paths(repo: Path | None, environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Paths that no code of a change may read: the user's home, key, repository, state and cache.

    Args:
        repo: a directory of the repository; None: the current directory.
    """
    found = [state_directory.repo_root(repo or Path())]
    named = (environment.get("HOME", ""), _home(), environment.get(KEY_FILE, ""))
    found += [Path(name) for name in named if os.path.isabs(name)]
    for variable, below in (("XDG_CACHE_HOME", ".cache"), ("XDG_STATE_HOME", ".local/state")):
        if directory := user_directory(environment, variable, below):
            found.append(directory)
    return tuple(dict.fromkeys(found))


def _home() -> str:
    with suppress(KeyError):  # a container's user often has no entry
        return pwd.getpwuid(os.geteuid()).pw_dir
    return ""
