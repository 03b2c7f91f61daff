"""Extracts the shell commands of a Makefile or justfile as a script, keeping line numbers.

Make's variables and functions become the word ``x``: their values are unknown, and the shell does
not split them.
"""

from collections.abc import Iterator
from typing import Final

from diffchecks.data_files import read_patterns

_PATTERNS = read_patterns("makefile_commands")
_SHELL_FUNCTION: Final = "shell "
_SHELL_CALL: Final = f"$({_SHELL_FUNCTION}"
_CLOSING: Final = {"(": ")", "{": "}"}
_STOPS: Final = "set -e"  # make stops at the first failing line


def is_makefile(path: str) -> bool:
    """Whether a file is a Makefile or justfile, by its path."""
    return any(_PATTERNS[kind].search(path) for kind in ("makefile", "justfile"))


def extract_make_commands(path: str, text: str) -> str:
    """The commands of recipes and ``$(shell ...)``; every other line is empty.

    Returns:
        An empty script if a program other than a Unix shell runs the recipes.
    """
    lines = text.split("\n")
    if any(_PATTERNS["other_shell"].match(line) for line in lines):
        return ""
    read = _just_commands if _PATTERNS["justfile"].search(path) else _make_commands
    first, *rest = read(lines)
    return "\n".join([f"{_STOPS}; {first}" if first else _STOPS, *rest])


def _make_commands(lines: list[str]) -> Iterator[str]:
    in_rule = in_recipe = continued = False
    level = begun = 0  # of conditions, and of the one in which a rule begins, which ends it
    for line in lines:
        if not continued:
            in_recipe = in_rule and line.startswith("\t")
        if in_recipe:
            start = 0 if continued else _end_of_prefix(line)
            yield _expand(" " * start + line[start:])
        else:
            yield " ".join(f"x={command};" for command in _shell_functions(line))
            directive = _PATTERNS["directive"].match(line)
            if directive and (word := directive["word"]):
                level -= word == "endif"
                in_rule &= level > begun or (level == begun and word != "else")
                level += word.startswith("if")
            elif not continued and directive is None:  # which is not part of a rule
                in_rule, begun = _PATTERNS["header"].match(line) is not None, level
        continued = line.endswith("\\")


def _just_commands(lines: list[str]) -> Iterator[str]:
    in_recipe = other_language = False
    for line in lines:
        if line[:1].strip():  # a recipe is indented
            in_recipe, other_language = _PATTERNS["header"].match(line) is not None, False
            yield ""
            continue
        other_language |= _PATTERNS["other_shebang"].match(line) is not None
        start = _end_of_prefix(line)
        command = " " * start + _PATTERNS["interpolation"].sub("x", line[start:])
        yield command if in_recipe and not other_language else ""


def _end_of_prefix(line: str) -> int:
    found = _PATTERNS["prefix"].match(line)
    return found.end() if found else 0


def _shell_functions(line: str) -> Iterator[str]:
    """The ``$(shell ...)`` calls of a line, as command substitutions."""
    end = 0
    while (at := line.find(_SHELL_CALL, end)) >= 0:
        end = _end_of_call(line, at + 1)
        yield _expand(line[at:end])


def _end_of_call(text: str, start: int) -> int:
    """The end of the bracket that opens at ``start``; the text's end if it is not closed."""
    opening, depth = text[start], 0
    for at in range(start, len(text)):
        depth += (text[at] == opening) - (text[at] == _CLOSING[opening])
        if not depth:
            return at + 1
    return len(text)


def _expand(text: str) -> str:
    """A line as the shell receives it, as far as known."""
    parts: list[str] = []
    at = 0
    while (found := text.find("$", at)) >= 0 and found + 1 < len(text):
        parts.append(text[at:found])
        follows, at = text[found + 1], found + 2
        if follows == "$":
            parts.append("$")
        elif follows in _CLOSING:
            at = _end_of_call(text, found + 1)
            inner = text[found + 2 : at - 1]
            ran = inner.startswith(_SHELL_FUNCTION)
            parts.append(f"$({_expand(inner.removeprefix(_SHELL_FUNCTION))})" if ran else "x")
        else:
            parts.append("x")
    return "".join(parts) + text[at:]
