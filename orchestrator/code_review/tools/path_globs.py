"""Globs of a policy or a model, read as ``.gitignore`` does; a model's may have braces."""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from pathspec.patterns.gitignore.basic import GitIgnoreBasicPattern

from orchestrator.errors import InputError

ALTERNATIVES_AT_MOST = 200

_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


@lru_cache(maxsize=512)
def _glob(pattern: str) -> GitIgnoreBasicPattern:
    return GitIgnoreBasicPattern(pattern)


def matches_any(path: str, patterns: Iterable[str]) -> bool:
    """Whether one of a policy's globs matches a path; a negated one matches nothing."""
    globs = map(_glob, patterns)
    return any(glob.include and glob.match_file(path) is not None for glob in globs)


def path_matcher(pattern: str) -> Callable[[str], bool]:
    """Compile a glob into a function of a path.

    Without a slash it matches a name in any directory; ``*`` matches within a name, ``**`` any
    directories; a directory matches all files below it; ``{a,b}`` matches either.

    Raises:
        InputError: it can match nothing.
    """
    globs = [_glob(alternative) for alternative in _expand_braces(pattern)]
    if not all(glob.include for glob in globs):
        raise InputError(f"the pattern {pattern!r} cannot match a path; an example is src/**/*.py")
    return lambda path: any(glob.match_file(path) is not None for glob in globs)


def searched_matcher(pattern: str) -> Callable[[str], bool]:
    """As ``path_matcher``; ``!`` before the glob takes all other paths, as ripgrep does."""
    matches = path_matcher(pattern.removeprefix("!"))
    return (lambda path: not matches(path)) if pattern.startswith("!") else matches


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
