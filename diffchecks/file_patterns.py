"""Which files an analyzer reads: patterns of names, and files that may be scripts."""

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import cache, lru_cache
from posixpath import splitext

from diffchecks.data_files import read_yaml, vocabulary

TEMPLATE_DIRECTORY = re.compile(r"(?:^|/)(?:templates?|jinja2?|views)/")


@cache
def file_names(kind: str) -> tuple[str, ...]:
    """A set of ``tables/file_patterns.yaml``, each pattern once."""
    found: list[str] = []
    for word in read_yaml("file_patterns.yaml")[kind].split():
        found += file_names(word[1:-1]) if word.startswith("{") else (word,)
    return tuple(dict.fromkeys(found))


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether a path matches a pattern with a slash, or the last part of it one without."""
    names, paths = _compiled(tuple(patterns))
    return names.match(path, path.rfind("/") + 1) is not None or paths.match(path) is not None


@lru_cache(maxsize=256)
def _compiled(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """One expression for the patterns of names, and one for those of paths."""
    names = (translate(pattern) for pattern in patterns if "/" not in pattern)
    paths = (translate(pattern) for pattern in patterns if "/" in pattern)
    return re.compile("|".join(names) or "(?!)"), re.compile("|".join(paths) or "(?!)")


def suffix_of(name: str) -> str:
    """The ending of a file's name in lower case, with its dot; empty: no language has it."""
    last = name.rpartition("/")[2]
    ending = splitext(last)[1].lower()
    named = vocabulary("whole_name").fullmatch(last) or vocabulary("no_suffix").fullmatch(ending)
    return "" if named else ending


def may_be_script(path: str) -> bool:
    """Whether a file may be a script by its name: it has no suffix; its contents decide."""
    name = path.rpartition("/")[2]
    named = vocabulary("no_script").fullmatch(name) or matches(name, file_names("ruby_files"))
    return not (suffix_of(name) or named)
