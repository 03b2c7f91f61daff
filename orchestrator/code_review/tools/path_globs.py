"""Globs that a model writes, read as ``.gitignore`` does, with alternatives in braces."""

import re
from collections.abc import Callable

from pathspec.patterns.gitignore.basic import GitIgnoreBasicPattern

from orchestrator.errors import InputError

ALTERNATIVES_AT_MOST = 200

_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


def path_matcher(pattern: str) -> Callable[[str], bool]:
    """Compile a glob into a function of a path.

    Without a slash it matches a name in any directory; ``*`` matches within a name, ``**`` any
    directories; a directory matches all files below it; ``{a,b}`` matches either.

    Raises:
        InputError: it can match nothing.
    """
    globs = [GitIgnoreBasicPattern(alternative) for alternative in _expand_braces(pattern)]
    if not all(glob.include for glob in globs):
        raise InputError(f"the pattern {pattern!r} cannot match a path; an example is src/**/*.py")
    return lambda path: any(glob.match_file(path) is not None for glob in globs)


def _expand_braces(pattern: str) -> list[str]:
    waiting, expanded = [pattern], []
    while waiting:
        part = waiting.pop()
        braces = _BRACES.search(part)
        if braces is None:
            expanded.append(part)
            continue
        head, tail = part[: braces.start()], part[braces.end() :]
        waiting += [f"{head}{option}{tail}" for option in braces[1].split(",")]
        if len(waiting) + len(expanded) > ALTERNATIVES_AT_MOST:
            raise InputError(f"the pattern has more than {ALTERNATIVES_AT_MOST} alternatives")
    return expanded
