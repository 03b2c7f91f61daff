"""The repository's guidance for changes, read from base: AGENTS.md, CONTRIBUTING and so on.

The texts of its memory (``.diffcourt/memory/``) are guidance as well. Agents are shown it as data.
Like the policy it is never read from the change, and it cannot affect checks, tools, severities or
the outcome.
"""

import hashlib
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from diffchecks.check_io import decode_text
from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.data_file_layers import Layer, locate_text
from orchestrator.catalog.effort import EFFORT_FILE
from orchestrator.catalog.settings import ReviewSettings
from orchestrator.catalog.yaml_validation import split_front_matter
from orchestrator.code_review.change.change_description import storable
from orchestrator.code_review.change.git.objects import Commits, Objects, list_tree
from orchestrator.code_review.change.numbered_diff import shorten_line
from orchestrator.code_review.change.types import Change
from orchestrator.code_review.tools.path_globs import path_matcher
from orchestrator.code_review.verdict.document_parts import GuidanceFile
from orchestrator.data_directories import (
    CONVENTIONS,
    FAILURES,
    MEMORY,
    OVERLAY,
    PREFERENCES,
    read_table,
)
from orchestrator.engine.field_types import shared_fields
from orchestrator.errors import ConfigError, InputError

FILE_CHARACTERS = 6_000
ALL_CHARACTERS = 24_000
"""Characters that are shown of one file, and of all together: some 1,500 and 6,000 tokens."""

MAX_FILES = 40

SETTINGS_FILE = "config/defaults.yaml"
"""Where the policy's own instructions for paths are written."""

_IN_DIRECTORIES = ("AGENTS.md", "CLAUDE.md")
_FIRST = ("REVIEW.md", *_IN_DIRECTORIES)
_LAST = (
    ".github/copilot-instructions.md",
    *(f"{folder}CONTRIBUTING.{kind}" for folder in ("", ".github/", "docs/")
      for kind in ("md", "rst")),
)  # fmt: skip
_MEMORY = tuple(f"{OVERLAY}/{name}" for name in (CONVENTIONS, PREFERENCES, FAILURES))
_COPILOT = ".github/instructions/"
_FOLDERS = (".github", ".github/instructions", "docs", OVERLAY, f"{OVERLAY}/{MEMORY}")
_GENERAL = {*_IN_DIRECTORIES, *map(posixpath.basename, _LAST)}
"""Files that also hold what does not concern a change."""
_HASHES = re.compile(r"(#{1,6})\s")
_UNDERLINE = re.compile(r"([=~^\"-])\1{2,}")
_WORD = re.compile(r"\w")
_HEADINGS = read_table(__file__, "guidance_headings.yaml")
_OF = {kind: re.compile(rf"(?i)\b(?:{'|'.join(words)})(?!\w)") for kind, words in _HEADINGS.items()}
_NO_RULES = re.compile(
    r"^ *(```|~~~) *([\w-]*).*?^ *\1|<!--(?:(?!<!--).)*?-->|^\[[^\]\n]+\]: \S+$"
    rf"|^( *)\.\. code(?:-block)?:: (?:{'|'.join(_HEADINGS['shells'])})$(?:\n+\3 +[^\n]*)+",
    re.DOTALL | re.MULTILINE,
)
"""Code, and what no reader of the page sees."""
MAX_EXAMPLE = 12
"""Lines of code that can show a rule; commands to run show none."""
_LANGUAGES = {name: tuple(ends.split()) for name, ends in _HEADINGS["languages"].items()}
_COMMA = re.compile(r",(?![^{}]*\})")
"""Between globs, not between the alternatives of one."""


class Guidance(Struct, frozen=True):
    """A text of base in which maintainers state what they expect of changes.

    Attributes:
        first_line: the 1-based line of the file at which ``lines`` begin.
        applies_to: globs or a directory; empty: the whole change.
        sha256: of the file, or of the instruction.
        kept: indexes of the lines that concern the change.
        shown: number of those that agents are shown, the first ones.
        why_not: why agents are not shown all lines.
    """

    path: str
    lines: tuple[str, ...]
    sha256: str
    first_line: int = 1
    applies_to: str = ""
    kept: tuple[int, ...] = ()
    shown: int = 0
    why_not: str = ""

    def to_entry(self) -> GuidanceFile:
        """Its entry in the verdict."""
        fields = shared_fields(self, GuidanceFile)
        return GuidanceFile(**{**fields, "lines": len(self.lines)})

    def numbered(self) -> Iterator[str]:
        """The lines with text that are shown, each with its number."""
        for at in filter(lambda at: self.lines[at].strip(), self.kept[: self.shown]):
            yield f"{self.first_line + at}: {shorten_line(self.lines[at])}"


async def read_guidance(
    change: Change, objects: Objects, settings: ReviewSettings, layers: Sequence[Layer]
) -> tuple[Guidance, ...]:
    """Base's guidance for this change, by weight and within the bounds; ``objects`` reads it."""
    changed = change.names
    found = list(_instructions(settings, layers, changed))
    if settings.guidance and change.policy_commit is not None:
        found += await _read_files(objects, change.policy_commit, changed)
    return tuple(_fit(found, changed))


def check_globs(catalog: Catalog, layers: Sequence[Layer]) -> None:
    """Check the globs of the policy's instructions for paths and of its effort."""
    settings, areas = catalog.settings, catalog.effort.areas
    globs = [("instructions", SETTINGS_FILE, one.path) for one in settings.instructions]
    globs += [("effort.paths", SETTINGS_FILE, glob) for glob in settings.effort.paths]
    globs += [(f"areas.{key}", EFFORT_FILE, glob) for key in areas for glob in areas[key].paths]
    for key, file, glob in globs:
        try:
            path_matcher(glob)
        except InputError as error:
            raise ConfigError(f"{key}: {error}", *locate_text(layers, file, glob)) from None


def _instructions(
    settings: ReviewSettings, layers: Sequence[Layer], changed: Collection[str]
) -> Iterator[Guidance]:
    """The policy's own instructions for the changed files."""
    for one in settings.instructions:
        if any(map(path_matcher(one.path), changed)):
            text = one.text.strip()
            file, line = locate_text(layers, SETTINGS_FILE, text.split("\n")[0])
            if not line:  # it is written with escapes
                file, line = locate_text(layers, SETTINGS_FILE, one.path)
            yield Guidance(file, _lines_of(text), _sha256(text.encode()), max(line, 1), one.path)


async def _read_files(objects: Objects, commit: str, changed: Collection[str]) -> list[Guidance]:
    parents = {str(one) for path in changed for one in PurePosixPath(path).parents if one.name}

    def descend(path: str) -> bool:
        return path in parents or path in _FOLDERS or path.startswith(_COPILOT)

    found: list[Guidance] = []
    entries = await list_tree(objects, await Commits(objects).tree(commit), descend)
    blobs = {path: blob for path, (mode, blob) in entries.items() if mode.startswith("100")}
    # One text under two names, as CLAUDE.md often is AGENTS.md, is read once.
    texts = {(posixpath.dirname(path), blobs[path]): path
             for path in reversed(list(_candidates(blobs, parents)))}  # fmt: skip
    paths = list(reversed(texts.values()))
    for path in paths[:MAX_FILES]:
        try:
            found += _interpret(path, await objects.read(blobs[path]), changed)
        except InputError as error:
            found.append(Guidance(path, (), "", why_not=str(error)))
    if rest := paths[MAX_FILES:]:
        why = f"only {MAX_FILES} files are read; it is the first of {len(rest)} others"
        found.append(Guidance(rest[0], (), "", why_not=why))
    return found


def _candidates(blobs: Mapping[str, str], parents: Collection[str]) -> Iterator[str]:
    """The paths of guidance files, by weight: of directories, the deepest first."""
    yield from (path for path in (*_FIRST, *_MEMORY) if path in blobs)
    for folder in sorted(parents, key=lambda path: (-path.count("/"), path)):
        yield from (path for name in _IN_DIRECTORIES if (path := f"{folder}/{name}") in blobs)
    yield from (path for path in blobs if _is_copilot(path))
    yield from (path for path in _LAST if path in blobs)


def _is_copilot(path: str) -> bool:
    return path.startswith(_COPILOT) and path.endswith(".instructions.md")


def _interpret(path: str, data: bytes, changed: Collection[str]) -> Iterator[Guidance]:
    """The guidance in a file, if it applies to a changed file."""
    guidance = Guidance(path, _lines_of(decode_text(data)), _sha256(data))
    if path in _MEMORY:
        if (text := _below_front_matter(path, data, guidance)).lines:
            yield text
        return
    if not _is_copilot(path):
        local = path not in {*_FIRST, *_LAST}
        yield replace(guidance, applies_to=f"{posixpath.dirname(path)}/" if local else "")
        return
    try:
        globs = _globs_of(path, data)
        matchers = [path_matcher(glob) for glob in globs]
    except (ConfigError, InputError) as error:
        yield replace(guidance, why_not=f"its front matter cannot be used: {error}")
        return
    if any(matches(name) for matches in matchers for name in changed):
        yield replace(guidance, applies_to=", ".join(globs))


def _below_front_matter(path: str, data: bytes, guidance: Guidance) -> Guidance:
    """A text of the memory without its front matter."""
    if not data.startswith(b"---"):
        return guidance
    try:
        page = split_front_matter(data, path)
    except ConfigError as error:
        return replace(guidance, why_not=f"its front matter cannot be used: {error}")
    lines = _lines_of(page.body) if page.body else ()
    return replace(guidance, lines=lines, first_line=page.line)


def _globs_of(path: str, data: bytes) -> list[str]:
    """The globs of ``applyTo``; none if the file is not meant for reviews."""
    head = split_front_matter(data, path).head.value
    if not isinstance(head, dict) or head.get("excludeAgent") == "code-review":
        return []
    given = head.get("applyTo", "")
    names = given if isinstance(given, list) else _COMMA.split(str(given))
    return [name for one in names if (name := str(one).strip())]


def _fit(found: Iterable[Guidance], changed: Collection[str]) -> Iterator[Guidance]:
    """Each text with as many of the lines that concern these files as fit."""
    left = ALL_CHARACTERS
    for one in found:
        if one.why_not:
            yield one
            continue
        room, shown = min(FILE_CHARACTERS, left), 0
        name, kept = posixpath.basename(one.path), tuple(range(len(one.lines)))
        if name in _GENERAL:
            guide = name.startswith("CONTRIBUTING")
            text = "\n".join(one.lines)
            read = _NO_RULES.sub(_without_rules, text).split("\n")
            kept = tuple(_concerning(read, changed, guide=guide))
            kept = tuple(at for at in kept if read[at] == one.lines[at] or _WORD.search(read[at]))
        for at in kept:
            size = len(shorten_line(one.lines[at])) + len("1234: \n")
            room -= size
            if room < 0:
                break
            left -= size
            shown += 1
        fitted = replace(one, kept=kept, shown=shown)
        yield replace(fitted, why_not=_why_cut(fitted))


def _without_rules(found: re.Match[str]) -> str:
    """Empty lines for what holds no rule, or a short example as it is."""
    breaks = found[0].count("\n")
    kept = found[1] and breaks <= MAX_EXAMPLE and found[2].lower() not in _HEADINGS["shells"]
    return found[0] if kept else "\n" * breaks


def _why_cut(one: Guidance) -> str:
    if one.kept and not one.shown:
        return f"all guidance together has {ALL_CHARACTERS} characters at most"
    why = ["sections that do not concern the change are left out"] * (
        len(one.kept) < len(one.lines)
    )
    if one.shown < len(one.kept):
        last = one.first_line + one.kept[one.shown - 1]
        why.append(f"cut after line {last} of {one.first_line + len(one.lines) - 1}")
    return "; ".join(why)


def _concerning(lines: Sequence[str], changed: Collection[str], *, guide: bool) -> Iterator[int]:
    """The indexes of the lines of sections that concern these files.

    A section is left out with those below it if its heading is about how to take part in the
    project, or names only languages that none of the files has. One that names a file, or its
    directory, stays. A heading without text is left out.

    Args:
        guide: for contributors; where headings say what a change has to be like, only these and
            those below count.
    """
    places = {*changed, *(f"{folder}/" for path in changed if (folder := posixpath.dirname(path)))}
    headings = [*_headings(lines), (len(lines), 0)]
    yield from range(headings[0][0])
    kinds = [_concerns_changes(lines[first], guide) for first, _ in headings[:-1]]
    if kinds and [level for _, level in headings].count(headings[0][1]) == 1:
        kinds[0] = None  # the title of the page
    sections: list[tuple[int, int, int]] = []
    left_out_below, decided, wanted = 0, 0, kinds[0] if kinds else None
    for ((first, level), (end, _)), kind in zip(pairwise(headings), kinds, strict=True):
        is_foreign = bool(left_out_below and level > left_out_below)
        if not is_foreign:
            is_foreign, left_out_below = _is_foreign(lines[first], changed), 0
        if kind is not None or level <= decided:
            decided, wanted = level, kind
        named = any(place in "\n".join(lines[first:end]) for place in places)
        if wanted is not False and (
            named or (not is_foreign and (wanted or not guide or True not in kinds))
        ):
            sections.append((first, end, level))
        elif is_foreign:
            left_out_below = left_out_below or level
    for (first, end, level), (_, _, below) in pairwise([*sections, (0, 0, 0)]):
        if below > level or any(map(_WORD.search, lines[first + 1 : end])):
            yield from range(first, end)


def _concerns_changes(heading: str, guide: bool) -> bool | None:
    """Whether it says what a change has to be like; None: it does not tell."""
    if guide:
        is_rule = _OF["of_changes"].search(heading) or _OF["languages"].search(heading)
        return False if _OF["of_work"].search(heading) else bool(is_rule) or None
    return bool(_OF["rules"].search(heading)) or (
        False if _OF["commands"].search(heading) else None
    )


def _headings(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Index and level of each heading, marked by ``#`` or by the line below it."""
    fenced, underlines = False, ""
    for at, line in enumerate(lines):
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        below = lines[at + 1] if at + 1 < len(lines) else ""
        if fenced:
            continue
        if mark := _HASHES.match(line):
            yield at, len(mark[1])
        elif _UNDERLINE.fullmatch(below.rstrip()) and _WORD.match(line):
            underlines += below[0] if below[0] not in underlines else ""
            yield at, underlines.index(below[0]) + 1


def _is_foreign(heading: str, changed: Collection[str]) -> bool:
    """Whether a section with this heading cannot concern these files."""
    if _OF["taking_part"].search(heading.rstrip(" #:")):
        return True
    named = [endings for name, endings in _LANGUAGES.items() if name in heading.split()]
    return bool(named) and not any(path.endswith(ends) for ends in named for path in changed)


def _lines_of(text: str) -> tuple[str, ...]:
    """The lines as git and editors count them; control characters are escaped."""
    return tuple(storable(line.removesuffix("\r")) for line in text.rstrip("\n").split("\n"))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
