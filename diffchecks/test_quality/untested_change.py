"""Source changes that no test in the change covers."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain

from diffchecks import name_some
from diffchecks.check_io import RawFinding
from diffchecks.data_files import read_names
from diffchecks.jobs import ComparisonJob
from diffchecks.path_kinds import is_product, is_test
from diffchecks.python.imported_files import module_index, scan_imports
from diffchecks.python.source_definitions import ChangedModule, ParsedModule
from diffchecks.python.syntax_tree_cache import all_blocks

MIN_LINES = 15
FILES_SHOWN = 3

_LAYOUT = re.compile(r"[\s()\"']+|,(?=[\])}])")
_QUIET = tuple(getattr(ast, name) for name in read_names("quiet_nodes"))


Unit = tuple[str, frozenset[int]]
"""A simple statement or the header of a compound one: its normalized text, and its lines."""


class UntestedCode:
    """Collects changed sources and tests, and decides once all files are known."""

    def __init__(self, job: ComparisonJob) -> None:
        self._has_tests = any(path.endswith(".py") and is_test(path) for path in job.head_tree)
        # Many of them, or data of tests, may reach the code by what they call.
        self._test_lines = sum(len(file.added) for file in job.files if is_test(file.path))
        self._index = module_index(job.head_tree)
        self._removed: Counter[str] = Counter()
        self._added: dict[str, list[Unit]] = {}
        self._named: set[str] = set()

    def add(self, pair: ChangedModule) -> None:
        """Record what one file adds and removes, as source or as test."""
        if not self._has_tests:
            return
        if pair.head and is_test(pair.path):
            self._learn(pair, pair.head)
        elif is_product(pair.path):
            if pair.removed and (base := pair.base()):
                self._removed.update(text for text, _ in _units(base, pair.removed))
            if pair.head and not pair.path.endswith("__main__.py"):
                self._added[pair.path] = list(_units(pair.head, pair.added))

    def _grown(self) -> Iterator[tuple[str, set[int]]]:
        """Sources with enough lines that were neither moved nor only reformatted, and these."""
        known = self._removed.copy()
        for path, units in sorted(self._added.items()):
            new: set[int] = set()
            for text, lines in units:
                if known[text]:
                    known[text] -= 1
                else:
                    new |= lines
            if len(new) >= MIN_LINES:
                yield path, new

    def _learn(self, pair: ChangedModule, head: ParsedModule) -> None:
        """Record the modules that a changed test imports, and its own name after ``test_``."""
        if not pair.added:
            return
        stem = pair.path.rpartition("/")[2].removesuffix(".py")
        self._named.add(stem.removeprefix("test_").removesuffix("_test"))
        for statement in scan_imports(head.text):
            self._named |= {
                statement.module,
                *(f"{statement.module}.{name}" for name in statement.names),
            }

    def findings(self) -> Iterator[RawFinding]:
        """One finding for the whole change, at the source file that grew most."""
        sources = [(path, new) for path, new in self._grown() if not self._is_named(path)]
        if not sources or self._test_lines >= MIN_LINES:
            return
        sources.sort(key=lambda source: (-len(source[1]), source[0]))
        grown = [f"{path} (+{len(new)} lines)" for path, new in sources]
        path, new = sources[0]
        yield RawFinding(
            "untested-change",
            path,
            min(new),
            "No test of the change imports or names the code that it changes: "
            + name_some(grown, FILES_SHOWN),
            key="untested-change",
            confidence=0.7,
        )

    def _is_named(self, path: str) -> bool:
        """Whether a changed test imports the module or a package above it, and so may reach it."""
        dotted = self._index.dotted(path)
        parts = dotted.split(".")
        names = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
        return not self._named.isdisjoint(names | {parts[-1]})


def _units(source: ParsedModule, numbers: frozenset[int]) -> Iterator[Unit]:
    """The code on these lines, without imports and docstrings."""
    for node in chain.from_iterable(all_blocks(source.tree)):
        if isinstance(node, _QUIET):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.AnnAssign) and node.value is None:
            continue
        body = getattr(node, "body", None)
        last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
        own = range(node.lineno, max(last, node.lineno) + 1)
        if lines := numbers.intersection(own):
            text = "".join(source.lines[own.start - 1 : own.stop - 1])
            if isinstance(node, ast.AnnAssign) and node.value:
                text = f"{ast.unparse(node.target)}={ast.unparse(node.value)}"
            yield _LAYOUT.sub("", text), lines
