"""Starts every process of ours, so that none finds a program or a module in a checkout.

A checkout holds what the author of a change wrote, and it often is the working directory. So a
program is named by its absolute path, Python does not import from the working directory or from
what its variables name, and a process works in ``/`` unless it is told otherwise.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process

from orchestrator.program_search import SAFE_PATH, absolute_entries

ISOLATED_PYTHON = (sys.executable, "-I")
"""Our interpreter, without its variables, the user's packages and the working directory."""

CONFIGURED_PYTHON = (sys.executable, "-P", "-s")
"""The same with its variables, for an environment in which nothing is inherited."""


def _surroundings(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path | str = "/"
) -> dict[str, Any]:
    """Environment, directory and session of a process, by the names of the arguments.

    The variables are without the name of this working directory; PATH has absolute entries only.
    """
    if not os.path.isabs(argv[0]):
        raise ValueError(f"a program must be named by its absolute path: {argv[0]!r}")
    variables = {name: value for name, value in env.items() if name not in {"PWD", "OLDPWD"}}
    # An empty PATH means the working directory.
    variables["PATH"] = absolute_entries(env.get("PATH", "")) or SAFE_PATH
    return {"env": variables, "cwd": cwd, "start_new_session": True}


def start_process(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.PIPE,
    pass_fds: Sequence[int] = (),
) -> "subprocess.Popen[bytes]":
    """Start a process in ``/`` and a session of its own; its standard error is a pipe."""
    around = _surroundings(argv, env)
    around |= {"stdin": stdin, "stdout": stdout, "stderr": subprocess.PIPE, "pass_fds": pass_fds}
    return subprocess.Popen([*argv], **around)


async def start_asyncio_process(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.PIPE,
) -> asyncio.subprocess.Process:
    """``start_process`` for asyncio."""
    around = _surroundings(argv, env)
    around |= {"stdin": stdin, "stdout": stdout, "stderr": subprocess.PIPE}
    program, *arguments = argv
    return await asyncio.create_subprocess_exec(program, *arguments, **around)


async def open_process(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> Process:
    """``start_process`` for any event loop, in a directory of ours, with three pipes."""
    return await anyio.open_process([*argv], **_surroundings(argv, env, cwd))


async def run_process(
    argv: Sequence[str], *, env: Mapping[str, str], given: bytes
) -> "subprocess.CompletedProcess[bytes]":
    """``start_process`` for any event loop, to its end; the caller checks the exit code.

    Args:
        given: its standard input.
    """
    return await anyio.run_process([*argv], input=given, check=False, **_surroundings(argv, env))
