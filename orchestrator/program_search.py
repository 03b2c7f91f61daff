"""Where programs of ours are searched: never in what the author of a change may have written.

That is the checkout around the working directory, and each repository that was opened, by whatever
name or link they are reached. Only the directories of our own installation may lie there.
"""

import os
import sys

SAFE_PATH = "/usr/local/bin:/usr/bin:/bin"
# Not resolved: the interpreter of a virtualenv is a link to one outside of it.
_OWN = os.path.dirname(sys.executable)

_distrusted: set[str] = set()
_given: dict[str, str] = {}
"""``PATH`` as it was cleaned -> as this process got it."""


def distrust(directory: str) -> None:
    """Take no program of ours from below a directory any more.

    Args:
        directory: absolute, and without links.
    """
    if directory not in _distrusted:
        _distrusted.add(directory)
        if _given:
            clean_path()


def _and_above(path: str) -> list[str]:
    """An absolute path and all directories above it."""
    found = [path]
    while (above := os.path.dirname(found[-1])) != found[-1]:
        found.append(above)
    return found


def _of_working_directory() -> set[str]:
    """The checkout around the working directory; without one, that directory.

    The latter does not hold for what contains a person's home or the system's programs.
    """
    try:
        places = _and_above(os.path.realpath(os.getcwd()))
    except OSError:  # it has been removed
        return set()
    for folder in places:
        if os.path.lexists(os.path.join(folder, ".git")):
            return {folder}
    known = (os.path.expanduser("~"), *SAFE_PATH.split(os.pathsep))
    above = {place for it in known for place in _and_above(os.path.realpath(it))}
    return {places[0]} - above


def is_trusted(path: str) -> bool:
    """Whether a program at this absolute path, or in this directory, may be one of ours."""
    directory = os.path.dirname(path)
    if _OWN in {path, directory}:
        return True
    # The last one: a link that lies in a distrusted directory, which is reached by another link.
    forms = {os.path.normpath(path), os.path.realpath(path), os.path.realpath(directory)}
    places = {place for form in forms for place in _and_above(form)}
    return not places & (_distrusted | _of_working_directory())


def absolute_entries(path: str) -> str:
    """A search path written as in ``PATH`` without its empty and relative entries.

    They would find files in the working directory.
    """
    return os.pathsep.join(filter(os.path.isabs, path.split(os.pathsep)))


def trusted_entries(path: str) -> str:
    """``absolute_entries`` without those below distrusted directories."""
    entries = absolute_entries(path).split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if entry and is_trusted(entry))


def clean_path() -> None:
    """Remove from our own ``PATH`` what is not trusted: libraries start programs by name."""
    path = given_path()
    kept = trusted_entries(path)
    _given[kept] = path
    if kept:
        os.environ["PATH"] = kept
    else:
        os.environ.pop("PATH", None)  # then the system's own directories are searched


def given_path() -> str:
    """``PATH`` as this process got it, for programs that base's configuration may name."""
    path = os.environ.get("PATH", "")
    return _given.get(path, absolute_entries(path or os.defpath))


def find_program(name: str, path: str, *, in_checkout: bool = False) -> str | None:
    """The absolute path of a program; None when there is none.

    Args:
        name: looked up in the absolute entries of ``path``; or an absolute path.
        path: written as in ``PATH``.
        in_checkout: also from below distrusted directories. The caller finds out whether the change
            may have written it.
    """
    if os.sep in name:
        entries = [""] if os.path.isabs(name) else []
    else:
        entries = absolute_entries(path).split(os.pathsep)
    for entry in entries:
        program = os.path.join(entry, name)
        runs = os.path.isabs(program) and os.path.isfile(program) and os.access(program, os.X_OK)
        if runs and (in_checkout or is_trusted(program)):
            return program
    return None
