"""Writes the constants of a Terraform file where the file names them, keeping line numbers."""

import re
from collections.abc import Iterator

_BLOCK = re.compile(r"(?P<locals>locals)\s*\{|variable\s+\"(?P<variable>\w+)\"\s*\{")
_LITERAL = r"(?P<value>\"[^\"$%\\]*\"|\[[^\[\]{}$%]*\]|true|false|\d+)[ \t]*(?:#.*|//.*)?"
_ASSIGNED = re.compile(rf"\s*(?P<name>\w+)\s*=\s*{_LITERAL}")
_NAMED = re.compile(r"(?<![\w.\"{])(?P<name>(?:local|var)\.\w+)(?![\w.\[]|\s*[?(])")


def insert_constants(text: str) -> str:
    """The file with locals, and defaults of variables, in place of their names."""
    constants = dict(_constants(text.split("\n")))
    if not constants:
        return text
    return _NAMED.sub(lambda found: constants.get(found["name"], found["name"]), text)


def _constants(lines: list[str]) -> Iterator[tuple[str, str]]:
    """The names and values of constants that are written in one line."""
    prefix, variable = "", ""
    for line in lines:
        if block := _BLOCK.match(line):
            prefix, variable = ("local.", "") if block["locals"] else ("var.", block["variable"])
        elif line.startswith("}"):
            prefix = ""
        elif prefix and (found := _ASSIGNED.fullmatch(line)):
            if not variable:
                yield prefix + found["name"], found["value"]
            elif found["name"] == "default":
                yield prefix + variable, found["value"]
