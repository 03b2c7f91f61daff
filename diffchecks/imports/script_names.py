"""Names that a change leaves without a declaration in a module of JavaScript or TypeScript.

A name counts that the change adds, or has in a line that it removes. It is known where a scope
declares it, a host gives it, or a file of base has it as a global name, as scripts of pages do.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from diffchecks.check_io import CheckReply, Gap, RawFinding, Source, parse_program, read
from diffchecks.data_files import read_map, read_yaml
from diffchecks.jobs import ChangedFile, ComparisonJob
from diffchecks.path_kinds import is_product
from diffchecks.patterns import programs_in

if TYPE_CHECKING:
    from ast_grep_py import SgNode

MAX_PARSED = 100  # other files in which a change's names are looked for
_TABLE = read_yaml("script_names.yaml")
_GIVEN = frozenset(word for words in _TABLE["given"].values() for word in words.split())
_WORD = re.compile(r"(?<![\w$.#@])[A-Za-z_$][\w$]*")


def run(job: ComparisonJob) -> CheckReply:
    """Report each such name once in a file, where it is used first."""
    tree, reply = _Tree(job), CheckReply()
    for file in job.files:
        if file.status != "deleted" and file.whole:
            with suppress(Gap, RecursionError):  # other checks report what cannot be read
                reply.findings.extend(_findings(file, tree))
                reply.examined.append(file.path)
    return reply


def _findings(file: ChangedFile, tree: _Tree) -> Iterator[RawFinding]:
    head = Source(file.path, read(tree.job.head_root, file.path))
    old = file.old_path or ""
    base = Source(old, read(tree.job.base_root, old) if old else b"")
    names = _words(head.lines, file.added) | _words(base.lines, file.removed)
    names = names.intersection(_WORD.findall(head.text)) - _GIVEN
    free = free_names(head, names) if names and _says("module", head.text) else {}
    before = free_names(base, free) if free and old else {}
    for name, lines in sorted(free.items()):
        was = next((n for n in file.removed if name in _words(base.lines, [n])), 0)
        line = next((n for n in lines[:9] if not _is_meant(head, n, was == 0)), 0)
        known = name in before or _says("offers", head.text, name) or tree.knows(name, file.path)
        if line and not known and (is_product(file.path) or not _says("missing", name)):
            yield RawFinding(
                "undeclared", file.path, line, f"Nothing declares {name}{' any more' * (was > 0)}",
                removed_path=old if was else "", removed_line=was, confidence=0.9,
            )  # fmt: skip


def _is_meant(head: Source, line: int, is_new: bool) -> bool:
    """Whether a comment tells the project's linter to accept a name that nothing declares there.

    Those that tell of no rule, or of more than a line, count for a new name only.
    """
    near = "\n".join(head.lines[max(line - 4, 0) : line])
    switches = re.findall(_TABLE["switch"], "\n".join(head.lines[:line]))
    silent = _says("silent", near) or switches[-1:] not in ([], ["en"])
    return (silent and is_new) or _says("meant", near)


def _words(lines: Sequence[str], numbers: Iterable[int]) -> set[str]:
    return {word for n in numbers if n <= len(lines) for word in _WORD.findall(lines[n - 1])}


class _Tree:
    """What the files of base, and the changed ones, know of names."""

    def __init__(self, job: ComparisonJob) -> None:
        self.job, self._parsed = job, 0
        here = [(job.base_root, path) for path in job.base_tree if _says("read", path)]
        self._places = [*((job.head_root, file.path) for file in job.files), *here]

    def knows(self, name: str, user: str) -> bool:
        """Whether one of them declares or uses a name as a global one; for a product, no test."""
        return any(
            _says("imports_itself", path) or self._gives(name, root, path)
            for root, path in self._places
            if is_product(path) or not is_product(user) or _says("settings", path)
        )

    def _gives(self, name: str, root: str, path: str) -> bool:
        with suppress(Gap):
            text = (source := Source(path, read(root, path))).text
            if name.lower() in text.lower() and _says("uses", text, name):
                shared = _says("shared", text, name) and not _says("module", text)
                if shared or _says("settings", path) or _says("offers", text, name):
                    return True
                self._parsed += 1
                known = root == self.job.base_root and free_names(source, [name])
                return self._parsed > MAX_PARSED or bool(known)
        return False


def _says(kind: str, text: str, name: str = "") -> bool:
    return re.search(_TABLE[kind].replace("NAME", re.escape(name)), text) is not None


def free_names(source: Source, names: Collection[str]) -> dict[str, list[int]]:
    """Those of some names that a file uses and no scope around it declares → lines of their uses.

    Raises:
        Gap: no grammar reads all of it.
    """
    stores = [name[1:] for name in names if name[0] == "$" and source.path.endswith(".svelte")]
    wanted = "|".join(map(re.escape, sorted({*names, *stores})))
    scopes: dict[str, list[range]] = {}
    used: list[SgNode] = []
    for program in programs_in(source):
        for grammar in _TABLE["grammars"].get(program.suffix, ()):
            root = parse_program(program.text, grammar)
            if root.find(kind="ERROR") is None:
                break
        else:
            raise Gap("no grammar reads all of it")
        rule = {"any": _TABLE["names"][grammar], "regex": f"^({wanted})$"}
        for node in root.find_all({"rule": rule}):  # type: ignore[call-overload]
            if (scope := _scope(node)) is not None:  # the scripts of a component share their names
                scopes.setdefault(node.text(), []).append(scope)
            elif node.text() in names and _is_use(node):
                used.append(node)
    free: dict[str, list[int]] = {}
    for node in used:
        # In a component of Svelte $name is the value of the store that `name` is.
        name, at = node.text(), node.range().start
        stored = scopes.get(name[1:], ()) if name[0] == "$" and name[1:] in stores else ()
        if not any(at.index in each for each in (*scopes.get(name, ()), *stored)):
            free.setdefault(name, []).append(at.line + 1)
    return free


def _scope(node: SgNode) -> range | None:
    """The places at which the name that a node declares is known; None: it declares none."""
    parent = node.parent()
    assert parent is not None  # a name is no whole program
    field = read_map("script_names.yaml", "declares").get(parent.kind())
    part = node if field == "any" else parent.field(field) if field else None
    if part is None or part.range() != node.range():
        return None
    first, *above = node.ancestors()
    around = above if field == "name" else [first, *above]
    kinds = () if first.kind() == "assignment_expression" else _TABLE["scopes"]  # a global name
    span = next((each.range() for each in around if each.kind() in kinds), None)
    # The scripts of a component are one module.
    return range(span.start.index, span.end.index) if span else range(sys.maxsize)


def _is_use(node: SgNode) -> bool:
    """Whether the program has a value under a name that no declaration is."""
    first, *above = node.ancestors()
    kinds = {node.kind(), first.kind(), *(each.kind() for each in above)}
    if not kinds.isdisjoint(_TABLE["no_use"]):
        return False
    if first.kind() == "export_specifier":
        return above[1].field("source") is None
    return not (first.kind().startswith("jsx_") and node.text()[0].islower())
