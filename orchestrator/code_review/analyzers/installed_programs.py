"""Finds the programs that base's configuration names, and the directories that they need."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from orchestrator.code_review.analyzers import program_execution
from orchestrator.errors import SandboxError
from orchestrator.program_search import SAFE_PATH, find_program, given_path
from orchestrator.sandbox.process_confinement import program_files

_FIRST_LINE = 256  # bytes of a script's first line, which the kernel reads as well
_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")
"""What marks a directory that holds a program, its interpreter and its libraries."""
_TLS_FILES = program_execution.TABLES["configured"]["tls_files"].split()
_NODE_MODULES = "node_modules"


class InstalledProgram(Struct, frozen=True):
    """A program, and what it needs besides the system's programs and libraries.

    Attributes:
        path: absolute; may be a link if it is not a script, such as a virtualenv's interpreter.
        needs: directories and files that it reads and starts programs from.
        search: directories for ``PATH``.
    """

    path: str
    needs: tuple[Path, ...]
    search: str


def find_installed(
    name: str, in_change: Callable[[str], bool], section: str = "analyzers"
) -> InstalledProgram:
    """Find a program on ``PATH`` or else beside our interpreter, or at its absolute path.

    Args:
        in_change: whether a path of the repository is a file of the change's tree; such a program,
            or one whose interpreter is, is ignored, since the change could have written it.
        section: the section of base's configuration that names it.

    Raises:
        SandboxError: it is not installed; says what to do.
    """
    entries = [os.path.dirname(name)]
    if not os.path.isabs(name):
        entries = [*given_path().split(os.pathsep), *program_execution.OWN_DIRECTORIES]
    found = (find_program(os.path.basename(name), it, in_checkout=True) for it in entries)
    candidates = [program for program in found if program]
    for program in candidates:
        parts = filter(None, (program, _interpreter(program)))
        if not any(in_change(place) for part in parts for place in _places_in_checkouts(part)):
            return _installed(program)
    if candidates:
        raise SandboxError(
            f"{name} is only found in the change's own tree ({candidates[0]}), from which "
            "nothing is run; install it elsewhere"
        )
    where = "there is no such program" if os.path.isabs(name) else "it is not on PATH"
    raise SandboxError(
        f"{name} is not installed: {where}; install it, or remove it from `{section}` in base's "
        ".diffcourt/config/defaults.yaml"
    )


def _places_in_checkouts(program: str) -> Iterator[str]:
    """A program's path and the target of its link, relative to each checkout that has them."""
    for path in {Path(program), Path(os.path.realpath(program))}:
        for directory in path.parents:
            if os.path.lexists(directory / ".git"):
                yield path.relative_to(directory).as_posix()


def _installed(program: str) -> InstalledProgram:
    programs = [program]
    path = program
    if interpreter := _interpreter(program):
        programs.append(interpreter)
        path = os.path.realpath(program)  # Node looks for a script's modules beside the real one
    needs = [need for one in programs for need in _needs(one)]
    forms = [form for one in programs for form in (one, os.path.realpath(one))]
    directories = dict.fromkeys(os.path.dirname(form) for form in forms)
    search = os.pathsep.join((*directories, SAFE_PATH))
    needs += [
        name
        for name in program_execution.TABLES["configured"]["tls_files"].split()
        if os.path.exists(name)
    ]
    places = dict.fromkeys(Path(os.path.realpath(need)) for need in needs)
    return InstalledProgram(path, tuple(places), search)


def _interpreter(program: str) -> str | None:
    """The interpreter of a script, by its first line; None if it is no script."""
    try:
        with open(program, "rb") as file:
            line = file.readline(_FIRST_LINE)
    except OSError:
        return None
    words = os.fsdecode(line.removeprefix(b"#!")).split() if line.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == "env":
        names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        return find_program(names[0], given_path(), in_checkout=True) if names else None
    return words[0] if words and os.path.isabs(words[0]) else None


def _needs(program: str) -> Iterator[str]:
    """The directories of a program, of its environment, and of its libraries."""
    real = os.path.realpath(program)
    yield program
    yield from program_files(program)
    for path in dict.fromkeys((program, real)):
        prefix = os.path.dirname(os.path.dirname(path))
        if any(os.path.exists(os.path.join(prefix, mark)) for mark in _ENVIRONMENTS):
            yield prefix
    before, modules, _ = real.partition(f"/{_NODE_MODULES}/")
    if modules:
        yield f"{before}/{_NODE_MODULES}"
