"""What a project promises: programs are packaged as well, and have modules for themselves alone."""

import re
from collections.abc import Iterable
from functools import cached_property

from diffchecks.check_io import read_if_possible
from diffchecks.data_files import vocabulary

MANIFESTS = ("pyproject.toml", "setup.py", "setup.cfg")
_IMPORT = r"import (?:(?!import )[^\n])*\b"  # a page may be one line with many


class Promises:
    """Which names users of a side may count on where its code declares nothing.

    Args:
        root: the side's directory.
    """

    def __init__(self, root: str, paths: Iterable[str]) -> None:
        self._root, self._paths = root, frozenset(paths)
        self._naming: dict[str, list[str]] = {}

    def has_commands(self, project: str) -> bool:
        """Whether a project installs commands; ``project`` is how the paths of its files begin."""
        texts = (self._text(path) for name in MANIFESTS if (path := project + name) in self._paths)
        return any(map(vocabulary("installs_commands").search, texts))

    def documents(self, dotted: str, name: str = "") -> bool:
        """Whether a page names a module, and there this name or all that the module holds."""
        whole = rf"(?:automodule::|:::) *{re.escape(dotted)}\s"
        held = rf"(?:[.`]|:: *|{_IMPORT}){re.escape(name)}\b" if name else ""
        if dotted not in self._naming:
            package, _, last = map(re.escape, dotted.rpartition("."))
            named = rf"(?<![\w.])(?:{re.escape(dotted)}|from {package} {_IMPORT}{last})(?!\w)"
            naming = (page for page in self._pages if last in page and re.search(named, page))
            self._naming[dotted] = list(naming)
        return any(re.search(f"{whole}|{held}", page) for page in self._naming[dotted])

    def mentions(self, name: str) -> int:
        """How often the notes on releases name something."""
        return sum(len(re.findall(rf"\b{re.escape(name)}\b", text)) for text in self._notes)

    @cached_property
    def _notes(self) -> list[str]:
        named = vocabulary("release_notes").search
        return [self._text(path) for path in sorted(self._paths) if named(path)]

    @cached_property
    def _pages(self) -> list[str]:
        pages = (path for path in sorted(self._paths) if path.endswith((".md", ".rst", ".txt")))
        return [self._text(path) for path in pages]

    def _text(self, path: str) -> str:
        return read_if_possible(self._root, path).decode("utf-8", "replace")
