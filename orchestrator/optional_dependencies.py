"""The command that installs an optional dependency into the environment of this program."""

import os
import re
import shlex
import sys
from collections.abc import Iterator

NAME = "diffcourt"
ANALYZERS = "analyzers"
"""The extra with the programs that a review runs."""
NOT_INSTALLED = " is not installed; run: "
"""In the error of a program that is missing; a command follows."""


def requirements(extra: str) -> list[str]:
    """What an extra installs, as requirements: ``numpy>=2``; empty where nothing is installed."""
    # A twentieth of a review's start to import, and only needed where something is missing.
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415

    try:
        return list(_of_extra(extra, requires(NAME) or []))
    except PackageNotFoundError:  # run from a checkout that is on PYTHONPATH
        return []


def _of_extra(extra: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        requirement, _, marker = line.partition(";")
        if re.search(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]", marker):
            yield requirement.strip()


def minimum_version(extra: str, package: str) -> str:
    """The oldest version of a package that an extra allows; empty when it allows any."""
    for requirement in requirements(extra):
        found = re.search(r">=([\d.]+)", requirement)
        if found and re.split(r"[^\w.-]", requirement)[0] == package:
            return found[1]
    return ""


def install_command(extra: str, *packages: str) -> str:
    """The command that installs an extra, or packages of it, where this program is installed.

    The packages are named, not ``diffcourt[extra]``: no package index has Diffcourt.
    """
    found = requirements(extra)
    if packages:
        found = [
            requirement for requirement in found if re.split(r"[^\w.-]", requirement)[0] in packages
        ]
    names = shlex.join(found or packages or [f".[{extra}]"])
    prefix = sys.prefix
    if os.path.join("pipx", "venvs", "") in prefix:
        return f"pipx inject {NAME} {names}"
    home = os.path.expanduser("~")
    python = os.path.join(prefix, "bin", "python")
    if home != "/" and python.startswith(f"{home}/"):
        python = f"~{python.removeprefix(home)}"
    if _has_pip():
        return f"{python} -P -m pip install {names}"  # a checkout may hold a pip.py
    return f"uv pip install --python {python} {names}"


def _has_pip() -> bool:
    from importlib.util import find_spec  # noqa: PLC0415 - see above

    return find_spec("pip") is not None
