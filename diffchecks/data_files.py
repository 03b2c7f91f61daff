"""Reads the files in ``tables``, each once in a process and only when a check needs it."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from diffchecks import TABLES

_NAME = re.compile(r"\{([A-Z]\w*)\}")
_NAMED = re.compile(r"([A-Z]\w*) = (.*)")


@cache
def read_rows(name: str) -> tuple[tuple[str, ...], ...]:
    """The rows of a table as text, of which the last field may hold the separator ``|``.

    A line that begins with ``#`` is a comment; the first one names the fields. After a line
    ``NAME = text``, ``{NAME}`` stands for that text.
    """
    first, *lines = (TABLES / name).read_text("utf-8").splitlines()
    names: dict[str, str] = {}
    rows = []
    for line in lines:
        text = _NAME.sub(lambda found: names[found[1]], line)
        if named := _NAMED.fullmatch(text):
            names[named[1]] = named[2]
        elif not line.startswith("#"):
            rows.append(tuple(text.split(" | ", first.count(" | "))))
    return tuple(rows)


@cache
def read_yaml(name: str) -> Any:
    """The content of a file, which nobody may alter."""
    return parse_yaml((TABLES / name).read_bytes())


@cache
def read_names(kind: str) -> frozenset[str]:
    """A set of names in ``tables/names.yaml``."""
    return frozenset(read_yaml("names.yaml")[kind].split())


@cache
def read_patterns(part: str) -> Mapping[str, re.Pattern[str]]:
    """The regular expressions of a module in ``tables/code_patterns.yaml``, by their names."""
    return {name: re.compile(text) for name, text in read_yaml("code_patterns.yaml")[part].items()}


@cache
def read_map(name: str, kind: str) -> Mapping[str, str]:
    """A map in a table: each word of a key, between white space, with the key's value."""
    rows = read_yaml(name)[kind].items()
    return {word: value for words, value in rows for word in words.split()}


@cache
def any_of(name: str, *keys: str) -> re.Pattern[str]:
    """One expression for a list in a table, of which a match of one is enough."""
    found = read_yaml(name)
    for key in keys:
        found = found[key]
    return re.compile("|".join(found))


@cache
def vocabulary(kind: str) -> re.Pattern[str]:
    """One expression for all of a kind in ``tables/vocabulary.yaml``."""
    any_case, exact = map(read_yaml("vocabulary.yaml").get, ("any_case", "exact"))
    if kind in exact:
        return re.compile("|".join(exact[kind]))
    return re.compile("|".join(any_case[kind]), re.IGNORECASE)


def parse_yaml(text: str | bytes) -> Any:
    """Decode text with the loader in C, which is ten times faster; not every build has it."""
    import yaml  # noqa: PLC0415 - only a process that needs such a file pays for it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, loader)  # noqa: S506 - both are safe ones


def compile_expression(_: type, text: str) -> re.Pattern[str]:
    """For the fields of a declared structure that are regular expressions."""
    return re.compile(text)
