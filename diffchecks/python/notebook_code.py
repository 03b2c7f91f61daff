"""Extracts the code of a Jupyter notebook, each line on the line of the JSON file that holds it.

So a finding in the code has the line of the notebook. Jupyter writes one line of code per line of
JSON; a notebook that was saved otherwise is a gap.
"""

import json
from collections.abc import Iterator, Sequence, Set
from typing import Any, Final

from msgspec import Struct

from diffchecks.check_io import Gap, table
from diffchecks.data_files import read_patterns

_OWN_MAGICS: Final = frozenset({"capture", "prun", "time", "timeit"})
"""The magics whose cell is still Python."""
_UNKNOWN_NAMES: Final = "from unknown import *"
"""Stands for a magic after which names are known that no cell defines."""
_SHELLS: Final = frozenset({"bash", "sh"})
_PATTERNS = read_patterns("notebook_code")


class NotebookCode(Struct, frozen=True):
    """The programs of a notebook, as texts whose lines are those of its file.

    Attributes:
        python: code cells without magics; None where the notebook is in another language.
        shell: ``!`` lines and cells that a shell runs.
    """

    python: str | None
    shell: str


class _Line(Struct):
    """A line of a cell, on this 0-based line of the file."""

    number: int
    text: str


def extract_notebook_code(text: str) -> NotebookCode:
    """The code of a notebook.

    Raises:
        Gap: it is no notebook of format 4, or several of its lines of code share a line.
    """
    try:
        document = json.loads(text.strip() or '{"cells": []}')
        cells = document["cells"]
        kernel = table(document, "metadata", "kernelspec").get("language", "python")
        language = table(document, "metadata", "language_info").get("name") or kernel
        kinds = [cell["cell_type"] for cell in cells]
    except (ValueError, RecursionError) as error:
        raise Gap(f"does not parse as JSON: {error}") from None
    except (LookupError, TypeError, AttributeError):
        raise Gap("it is no notebook of format 4; save it with a current Jupyter") from None
    rows = text.count("\n") + 1
    python, shell = [""] * rows, [""] * rows
    code = {number for number, kind in enumerate(kinds) if kind == "code"}
    for lines in _sources(text, code).values():
        _add_cell(lines, python, shell)
    is_python = str(language).lower() in {"python", "ipython", "python3"}
    return NotebookCode("\n".join(python) if is_python else None, "\n".join(shell))


def _sources(text: str, code: Set[int]) -> dict[int, list[_Line]]:
    """The lines of each cell of code, by its number."""
    cells: dict[int, list[_Line]] = {}
    last = -1
    for path, number, value in _strings(text):
        is_source = path[:1] == ["cells"] and path[2:3] == ["source"]
        if is_source and path[1] in code and value:
            if number == last or "\n" in value[:-1]:
                raise Gap(
                    "several lines of its code share a line of the file; save it with Jupyter, "
                    "which writes them apart"
                )
            cells.setdefault(path[1], []).append(_Line(number, value.removesuffix("\n")))
            last = number
    return cells


def _strings(text: str) -> Iterator[tuple[list[Any], int, str]]:
    """The strings in a valid JSON text that are values: keys and indexes, 0-based line, content."""
    path: list[Any] = []  # a key or an index for each open container; None: a key is next
    decoder = json.JSONDecoder()
    line, counted, at = 0, 0, 0
    while match := _PATTERNS["token"].search(text, at):
        at = match.end()
        match match[0]:
            case "{":
                path.append(None)
            case "[":
                path.append(0)
            case "}" | "]":
                path.pop()
            case ",":
                path[-1] = path[-1] + 1 if isinstance(path[-1], int) else None
            case _:
                value, at = decoder.raw_decode(text, match.start())
                if path and path[-1] is None:
                    path[-1] = value
                else:
                    line += text.count("\n", counted, match.start())
                    counted = match.start()
                    yield path, line, value


def _add_cell(lines: Sequence[_Line], python: list[str], shell: list[str]) -> None:
    """Put the lines of a code cell on their lines of the programs."""
    first = next((line for line in lines if line.text.strip()), None)
    magic = _PATTERNS["cell_magic"].match(first.text) if first else None
    if magic and magic[1] not in _OWN_MAGICS:
        for line in lines if magic[1] in _SHELLS else ():
            shell[line.number] = "" if line is first else line.text
        return
    indent = first.text[: len(first.text) - len(first.text.lstrip())] if first else ""
    before = ""  # the command or magic that the line before begins or continues
    for line in lines:
        text = line.text.removeprefix(indent)
        command = _PATTERNS["command"].match(text)
        if before:
            shell[line.number] = text if before == "command" else ""
        else:
            python[line.number] = _as_python(text)
            shell[line.number] = command["command"] if command else ""
            before = "command" if command else "magic" if _PATTERNS["magic"].match(text) else ""
        before = before if text.endswith("\\") else ""


def _as_python(text: str) -> str:
    """A line as Python, in which a magic or a command becomes a statement that does nothing."""
    if _PATTERNS["adds_names"].match(text):
        return _UNKNOWN_NAMES
    magic = _PATTERNS["command"].match(text) or _PATTERNS["magic"].match(text)
    if magic is None:
        return text
    return magic["indent"] + (f"{magic['name']} None" if magic["name"] else "pass")
