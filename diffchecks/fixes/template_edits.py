"""Proposes edits for findings, by the templates of their rules (see ``template_loading``)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct, convert
from msgspec.structs import replace

from diffchecks.check_io import Edit, Gap, Source, read
from diffchecks.fixes.program_tree import (
    ImportPlace,
    ProgramTree,
    drop_import,
    find_import_place,
    is_taken,
)
from diffchecks.fixes.smallest_edit import are_apart, smallest_edit
from diffchecks.fixes.template_loading import Derivation, FixTemplates, Template, load_templates
from diffchecks.patterns import programs_in

if TYPE_CHECKING:
    from ast_grep_py import SgNode

MAX_PROPOSALS = 3
MAX_FINDINGS = 100  # of one file
MAX_BYTES = 2 << 20
_MAX_LINE = 2000
_VARIABLE = re.compile(r"(,\s*)?\$\$\$([A-Z_][A-Z0-9_]*)(,\s*)?|\$([A-Z_][A-Z0-9_]*)")

Values = Callable[[str], str | None]
"""Name of a variable -> its text."""


class TargetFinding(Struct, frozen=True):
    """A finding to fix; lines and columns as in ``RawFinding``."""

    fingerprint: str
    path: str
    rule: str
    line: int
    end_line: int
    column: int = 0


class _Match(Struct, frozen=True):
    """A place that a template matches.

    Attributes:
        start, end: offsets in the file.
        text: the replacement by ``regex``; None: variables have yet to be filled in.
        tree: the syntax tree, if it is that of the whole file.
        node: matched by ``match``.
    """

    start: int
    end: int
    values: Values = lambda name: None
    text: str | None = None
    tree: ProgramTree | None = None
    node: SgNode | None = None


def run(job: Mapping[str, Any]) -> dict[str, list[list[Edit]]]:
    """Propose edits for findings.

    Args:
        job: ``{"root": directory, "paths": [path below it], "templates": [paths of data files],
            "findings": [{"fingerprint", "path", "rule", "line", "end_line", "column"}]}``; findings
            of other paths are left alone.

    Returns:
        Fingerprint -> at most three proposals, the best first; each is a list of edits of the
        finding's file that belong together, in order, of which no two overlap. A finding without
        any is left out. No file raises an error; what cannot be read or parsed gets no proposal.
    """
    wanted: dict[str, list[TargetFinding]] = {path: [] for path in job["paths"]}
    findings = convert(job["findings"], list[TargetFinding])
    for finding in findings:
        if finding.path in wanted:
            wanted[finding.path].append(finding)
    rules = frozenset(finding.rule for finding in findings)
    loaded = (load_templates(file, rules) for file in job["templates"])
    files = [templates for templates in loaded if templates]
    proposals: dict[str, list[list[Edit]]] = {}
    for path, here in wanted.items():
        try:
            proposals.update(_propose(job["root"], path, here[:MAX_FINDINGS], files))
        except (Gap, RecursionError, MemoryError):
            continue
    return proposals


def _propose(
    root: str, path: str, findings: Sequence[TargetFinding], files: Sequence[FixTemplates]
) -> Iterator[tuple[str, list[list[Edit]]]]:
    rules = {finding.rule for finding in findings}
    known = [(file, fix) for file in files for fix in file.fixes if fix.rule in rules]
    if not known:
        return
    target = _Target(Source(path, read(root, path, MAX_BYTES)))
    for finding in findings:
        fitting = ((file, fix) for file, fix in known if fix.rule == finding.rule)
        found = (edits for file, fix in fitting for edits in target.edits(file, fix, finding))
        proposals: list[list[Edit]] = []
        for edits in found:
            if edits and edits not in proposals:
                proposals.append(edits)
            if len(proposals) == MAX_PROPOSALS:
                break
        if proposals:
            yield finding.fingerprint, proposals


class _Target:
    """A file with findings; its programs are parsed once."""

    def __init__(self, source: Source) -> None:
        self.source, self.text = source, source.text
        self._tree_of = cache(ProgramTree)
        self._fitting: dict[int, bool] = {}
        self._places: dict[tuple[str, ...], ImportPlace | None] = {}
        self._matches: dict[tuple[int, int, int], list[_Match]] = {}

    @cached_property
    def starts(self) -> list[int]:
        """The offset of each line, and of the end of the file."""
        starts = [0]
        for line in self.text.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        return starts

    @cached_property
    def line_end(self) -> str:
        """The line end of the file."""
        return "\r\n" if "\r\n" in self.text else "\n"

    def edits(
        self, file: FixTemplates, fix: Template, finding: TargetFinding
    ) -> Iterator[list[Edit]]:
        """The edits of a template at each place in a finding's lines that it matches."""
        if not 1 <= finding.line <= finding.end_line < len(self.starts):
            return
        if not self._fits(fix):
            return
        first, last = self.starts[finding.line - 1], self.starts[finding.end_line]
        if max(map(len, self.text[first:last].split("\n"))) > _MAX_LINE:
            return
        if fix.regex:
            matches = list(self._search(file, fix, first, last))
        else:
            matches = list(self._find(file, fix, finding))
        at = first + max(0, finding.column - 1)
        near = [match for match in matches if match.start < last and match.end > first]
        for match in sorted(near, key=lambda m: (not m.start <= at < m.end, abs(at - m.start))):
            yield self._apply(file, fix, match)

    def _fits(self, fix: Template) -> bool:
        """Whether the file satisfies a template's ``when`` and ``unless``."""
        if id(fix) not in self._fitting:
            asked = fix.when is None or fix.when.search(self.text) is not None
            self._fitting[id(fix)] = asked and not (fix.unless and fix.unless.search(self.text))
        return self._fitting[id(fix)]

    def _search(self, file: FixTemplates, fix: Template, first: int, last: int) -> Iterator[_Match]:
        name = self.source.name
        if not any(fnmatchcase(name, pattern) for pattern in file.files) and (
            self.source.suffix not in file.grammars
        ):
            return
        assert fix.regex is not None
        for found in fix.regex.finditer(self.text[first:last].rstrip("\r\n")):
            start, end = found.span()
            yield _Match(first + start, first + end, text=found.expand(fix.replace))

    def _find(self, file: FixTemplates, fix: Template, finding: TargetFinding) -> Iterator[_Match]:
        for number, program in enumerate(self._programs):
            grammars = file.grammars.get(program.suffix)
            if not grammars:
                continue
            tree = self._tree_of(program.text, grammars)
            whole = tree if program.text == self.text else None
            for part in tree.parts(finding.line - 1, finding.end_line - 1):
                key = (id(fix), number, part.range().start.index)
                if key not in self._matches:
                    self._matches[key] = list(self._matches_in(part, fix, whole))
                yield from self._matches[key]

    @cached_property
    def _programs(self) -> list[Source]:
        # Text that is put into a notebook would have to be written as JSON.
        return [] if self.source.suffix == ".ipynb" else programs_in(self.source)

    def _matches_in(
        self, part: SgNode, fix: Template, whole: ProgramTree | None
    ) -> Iterator[_Match]:
        for node in part.find_all(dict(fix.config)):  # type: ignore[call-overload]
            start = self._place(node)
            if start is not None:
                yield _Match(
                    start, start + len(node.text()), _variables(node), tree=whole, node=node
                )

    def _place(self, node: SgNode) -> int | None:
        """The place of a program's node in the file, which may contain more than the program."""
        text, at = node.text(), node.range().start
        if at.line + 1 >= len(self.starts):
            return None
        first, last = self.starts[at.line], self.starts[at.line + 1]
        if self.text.startswith(text, first + at.column):
            return first + at.column
        # The program has only part of a line that also contains markup or an instruction.
        line = self.text[first:last]
        return first + line.index(text) if text and line.count(text) == 1 else None

    def _apply(self, file: FixTemplates, fix: Template, match: _Match) -> list[Edit]:
        line = self._line_of(match.start)
        before = self.text[self.starts[line] : match.start]
        mark = before[: len(before) - len(before.lstrip(" \t-"))]
        indent = mark.replace("-", " ") if mark == before else mark.partition("-")[0]
        values = _derived(fix, match)
        if values is None:
            return []
        text = match.text
        if text is None:
            text = _fill(fix.replace.replace("\n", f"\n{indent}"), values)
        place = (match.start, match.end) if text.strip() else self._whole_line(match, line)
        changes = [(*place, text), *self._rewritten(fix, match, values)]
        for each in fix.also:
            found = each.regex.search(self.text)
            if found:
                changes.append((*found.span(), found.expand(each.replace)))
        added = self._imports(file, fix, match)
        if added is None:
            return []
        return self._as_edits([*changes, *added])

    def _rewritten(
        self, fix: Template, match: _Match, values: Values
    ) -> Iterator[tuple[int, int, str]]:
        """The additional edits outside of the place itself."""
        for name, text in fix.rewrites.items():
            node = match.node.get_match(name) if match.node else None
            start = self._place(node) if node else None
            if node and start is not None:
                yield start, start + len(node.text()), _fill(text, values)

    def _imports(
        self, file: FixTemplates, fix: Template, match: _Match
    ) -> list[tuple[int, int, str]] | None:
        """Edits that insert missing imports; None if there is no place for them."""
        if not fix.imports:
            return []
        if match.tree is None:
            return None
        if fix.imports not in self._places:
            found = find_import_place(match.tree.top, file, fix.imports)
            taken = found and any(is_taken(self.text, line) for line in found.missing)
            self._places[fix.imports] = None if taken else found
        place = self._places[fix.imports]
        if place is None:
            return None
        lines = "".join(f"{line}\n" for line in place.missing)
        rest = self.text[: match.start] + self.text[match.end :]
        dropped = drop_import(fix.drops, self.text, rest) if fix.drops else None
        if dropped is not None:
            start, end, replacement = dropped
            return [(start, end, replacement + lines)]
        at = self.starts[place.line]
        return [(at, at, lines)] if lines else []

    def _line_of(self, offset: int) -> int:
        """The 0-based line of an offset."""
        return bisect_right(self.starts, offset, hi=len(self.starts) - 1) - 1

    def _whole_line(self, match: _Match, line: int) -> tuple[int, int]:
        """The place extended to whole lines, if they contain nothing else."""
        start, end = (
            self.starts[line],
            self.starts[self._line_of(max(match.start, match.end - 1)) + 1],
        )
        rest = self.text[start : match.start] + self.text[match.end : end]
        return (
            (match.start, match.end)
            if rest.strip(" \t\r\n;")
            else (start, min(end, len(self.text)))
        )

    def _as_edits(self, changes: Iterable[tuple[int, int, str]]) -> list[Edit]:
        edits = []
        for start, end, text in sorted(changes):
            line = self._line_of(start)
            place = (line + 1, start - self.starts[line] + 1)
            old, new = self.text[start:end], text.replace("\r\n", "\n")
            if "\r" in old:
                new = new.replace("\n", self.line_end)
            if old != new:
                edit = smallest_edit(place, old, new)
                if "\r" not in old:
                    edit = replace(edit, text=edit.text.replace("\n", self.line_end))
                edits.append(edit)
        return edits if are_apart(edits) else []


def _derived(fix: Template, match: _Match) -> Values | None:
    """The variables after all steps; None if a step does not apply."""
    values = match.values
    for step in fix.derive:
        derived = _derive(step, values)
        if derived is None:
            return None
        values = _layered(derived, values)
    known = f"{fix.config} {' '.join(step.collect for step in fix.derive)}"
    for _, _, _, name in _VARIABLE.findall(fix.replace):
        # A dollar sign may also be part of the language.
        if name and values(name) is None and re.search(rf"\b{name}\b", known):
            return None
    return values


def _variables(node: SgNode) -> Values:
    def value(name: str) -> str | None:
        one = node.get_match(name)
        if one is not None:
            return one.text()
        several = node.get_multiple_matches(name)
        if not several:
            return None
        first, last = several[0].range().start.index, several[-1].range().end.index
        offset = node.range().start.index
        return node.text()[first - offset : last - offset].rstrip(", \t\r\n")

    return value


def _layered(over: Mapping[str, str], under: Values) -> Values:
    return lambda name: over[name] if name in over else under(name)


def _derive(step: Derivation, values: Values) -> dict[str, str] | None:
    """The variables that a step writes; None if it does not apply."""
    text = values(step.of)
    if text is None:
        return None
    places = list(step.find.finditer(text))
    if not places and not step.optional:
        return None
    parts, at = [], 0
    for number, place in enumerate(places, 1):
        parts += [text[at : place.start()], place.expand(step.put).replace("<n>", str(number))]
        at = place.end()
    result = "".join([*parts, text[at:]])
    if step.fits and not step.fits.fullmatch(result):
        return None
    derived = {step.name or step.of: result}
    if step.collect:
        derived[step.collect] = ", ".join(place[1] for place in places)
    return derived


def _fill(text: str, values: Values) -> str:
    def put(found: re.Match[str]) -> str:
        before, several, after, one = found.groups()
        if several is None:
            value = values(one)
            return found[0] if value is None else value
        value = values(several) or ""
        if value:
            return f"{before or ''}{value}{after or ''}"
        return before if before and after else ""

    return _VARIABLE.sub(put, text)
