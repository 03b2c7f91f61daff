"""Proposed patches: parsed, applied to files of head, and written as git writes them.

A patch of an agent is untrusted, and its line numbers are often wrong. It applies only where its
old lines match exactly.
"""

import codecs
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from diffchecks import show_bytes
from diffchecks.check_io import Edit
from diffchecks.fixes.smallest_edit import common_prefix
from diffchecks.unified_diff import PatchFile, PatchHunk, PatchRefused, resolve_files

MAX_CHANGED_LINES = 60
"""Lines that a patch removes and adds, together: more is no fix of one finding."""
MAX_PATCH_BYTES = 64 << 10
CONTEXT_LINES = 3

_START = re.compile(rb"@@ -(\d{1,9})")
_FENCE = re.compile(rb"```[a-z]*\r?")
NO_END = b"\\ No newline at end of file\n"


class FileHunks(Struct, frozen=True):
    """What a patch does to one file; ``crlf``: all lines of the patch ended in CR LF."""

    path: str
    hunks: Sequence[PatchHunk]
    crlf: bool = False

    @property
    def changed_lines(self) -> int:
        """Lines that are removed or added."""
        return sum(marker != b" " for hunk in self.hunks for marker, _ in hunk.lines)


def read_patch(text: str) -> list[FileHunks]:
    """The files of a unified diff; the numbers in its hunk headers may be wrong.

    Raises:
        PatchRefused: it is malformed, too large, or does more than change lines of text files.
    """
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise PatchRefused("the patch is not Unicode text") from None
    if len(data) > MAX_PATCH_BYTES:
        raise PatchRefused(f"the patch is larger than {MAX_PATCH_BYTES >> 10} KiB")
    reader, _, resolved = resolve_files(_renumber(data), "the patch")
    if not resolved:
        raise PatchRefused("the patch is empty")
    found = [FileHunks(_only_text_changes(one), one.patch.hunks, reader.crlf) for one in resolved]
    names = [file.path for file in found]
    if len(set(names)) < len(names):
        raise PatchRefused("the patch names a file twice")
    lines = sum(file.changed_lines for file in found)
    if lines > MAX_CHANGED_LINES:
        raise PatchRefused(f"the patch changes {lines} lines, more than {MAX_CHANGED_LINES}")
    if not lines:
        raise PatchRefused("the patch changes nothing")
    return found


def _only_text_changes(file: PatchFile) -> str:
    """The path of a file of which only lines change."""
    path = file.path.decode("utf-8", "surrogateescape")
    if file.patch.binary:
        raise PatchRefused(f"the patch of {path} is binary")
    if file.status != "modified":
        what = {"added": "creates", "deleted": "deletes", "renamed": "renames", "copied": "copies"}
        raise PatchRefused(f"the patch {what.get(file.status, 'changes the mode of')} {path}")
    if file.old_mode != file.new_mode or not str(file.new_mode).startswith("100"):
        raise PatchRefused(f"{path} is not a regular file, or the patch changes its mode")
    return path


def _renumber(patch: bytes) -> bytes:
    """The patch with hunk headers that fit the lines which follow them."""
    lines = _unfenced(patch.split(b"\n"))
    if lines[-1]:
        lines.append(b"")
    shift, least, out = 0, 1, list[bytes]()
    for place, line in enumerate(lines):
        if not line.startswith(b"@@"):
            # Alone, such a line is a removed one of a hunk.
            is_name = line.startswith(b"--- ") and lines[place + 1].startswith(b"+++ ")
            if is_name or line.startswith(b"diff "):
                shift, least = 0, 1
            out.append(line)
            continue
        body = _body(lines[place + 1 :])
        old = sum(row[:1] != b"+" for row in body)
        new = sum(row[:1] != b"-" for row in body)
        stated = _START.match(line)
        start = max(int(stated[1]) if stated else 0, least - (not old))
        first = start + shift + (not old) - (not new)
        end = b"\r" if line.endswith(b"\r") else b""
        out.append(b"@@ -%d,%d +%d,%d @@%s" % (start, old, first, new, end))
        shift, least = shift + new - old, start + old + (not old)
    return b"\n".join(out)


def _unfenced(lines: Sequence[bytes]) -> list[bytes]:
    """The lines of the first fenced block, without surrounding prose; all without a block."""
    fences = [place for place, line in enumerate(lines) if _FENCE.fullmatch(line)]
    if not fences:
        return list(lines)
    end = fences[1] if len(fences) > 1 else len(lines)
    return [*lines[fences[0] + 1 : end], b""]


def _body(lines: Iterable[bytes]) -> list[bytes]:
    """The lines of a hunk, without the marks for a missing last line end."""
    found: list[bytes] = []
    rows = list(lines)
    for line, following in pairwise([*rows, b""]):
        if line[:1] not in {b" ", b"-", b"+", b"\\", b""} or line.startswith(b"diff "):
            break
        if line.startswith(b"--- ") and following.startswith(b"+++ "):
            break
        # An empty line before more of the hunk is context that lost its space, else the end.
        more = following[:1] in {b" ", b"-", b"+"} and not following.startswith(b"--- ")
        if not (more or line.rstrip(b"\r")):
            break
        if not line.startswith(b"\\"):
            found.append(line)
    return found


class LineReplacement(Struct, frozen=True, order=True):
    """Lines of a file, 0-based from ``start`` up to ``end``, and their replacement."""

    start: int
    end: int
    lines: tuple[bytes, ...]


def find_replacements(file: FileHunks, data: bytes) -> list[LineReplacement]:
    """The replacements that a patch makes in a file's contents, without context lines.

    Raises:
        PatchRefused: its old lines are not in the file, or at several places.
    """
    if b"\0" in data:
        raise PatchRefused(f"{file.path} is binary")
    mark = byte_order_mark(data)
    lines = _split(data.removeprefix(mark))
    end = b"\r\n" if file.crlf and b"\r\n" in data else b"\n"
    found, done, shift = list[LineReplacement](), 0, 0
    for hunk in file.hunks:
        texts = [
            (marker, text.removeprefix(mark).removesuffix(b"\n") + end)
            for marker, text in hunk.lines
        ]
        old = [text for marker, text in texts if marker != b"+"]
        place = _find(lines, old, done, hunk.old_start - 1 + shift, file.path)
        shift = place - (hunk.old_start - 1)
        found += changed_parts(texts, place)
        done = place + len(old)
    return found


def changed_parts(texts: Iterable[tuple[bytes, bytes]], place: int) -> Iterator[LineReplacement]:
    """The replacements of one hunk at a line."""
    start, new = place, list[bytes]()
    for marker, text in (*texts, (b" ", b"")):
        if marker == b" ":
            if new or place > start:
                yield LineReplacement(start, place, tuple(new))
            place += 1
            start, new = place, []
        elif marker == b"-":
            place += 1
        else:
            new.append(text)


def apply_replacements(data: bytes, replacements: Iterable[LineReplacement]) -> bytes:
    """The contents with all replacements; equal ones are merged.

    Raises:
        PatchRefused: two change the same lines.
    """
    mark = byte_order_mark(data)
    lines, out, done = _split(data.removeprefix(mark)), list[bytes](), 0
    for part in sorted(set(replacements)):
        if part.start < done:
            raise PatchRefused("another patch changes the same lines")
        out += [*lines[done : part.start], *part.lines]
        done = part.end
    result = b"".join([mark, *out, *lines[done:]])
    return result if data.endswith(b"\n") or not data else result.removesuffix(b"\n")


def byte_order_mark(data: bytes) -> bytes:
    """The UTF-8 mark at the start of a file, which is no part of its first line; often empty."""
    return data[:3] if data.startswith(codecs.BOM_UTF8) else b""


def _split(data: bytes) -> list[bytes]:
    """The lines as git counts them, each with its end."""
    whole = data if data.endswith(b"\n") or not data else data + b"\n"
    return [line + b"\n" for line in whole.split(b"\n")[:-1]]


def _find(lines: Sequence[bytes], old: Sequence[bytes], least: int, stated: int, path: str) -> int:
    """The line at which the old lines of a hunk are, 0-based."""
    if not old:
        raise PatchRefused(f"a hunk of the patch has no context line of {path}")
    places = [at for at in range(least, len(lines) - len(old) + 1) if _stands(lines, old, at)]
    if stated in places:
        return stated
    if len(places) == 1:
        return places[0]
    if places:
        shown = _shown(old[0])
        raise PatchRefused(f"the lines of a hunk are at {len(places)} places in {path}: {shown}")
    plain, other = ([line.replace(b"\r\n", b"\n") for line in side] for side in (old, lines))
    if any(_stands(other, plain, at) for at in range(len(lines) - len(old) + 1)):
        raise PatchRefused(f"the line ends of the patch differ from those of {path}")
    agreeing = max((common_prefix(lines[at:], old) for at in range(least, len(lines))), default=0)
    shown = _shown(old[agreeing])
    raise PatchRefused(f"the lines of a hunk are not in {path} from this one on: {shown}")


def _shown(line: bytes) -> str:
    return line.decode("utf-8", "replace").strip()[:60] or "an empty line"


def _stands(lines: Sequence[bytes], old: Sequence[bytes], at: int) -> bool:
    return lines[at] == old[0] and list(lines[at : at + len(old)]) == list(old)


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """A file's text with an analyzer's edits.

    Raises:
        PatchRefused: they overlap, or name no place in the file.
    """
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)

    def offset(line: int, column: int) -> int:
        if not 1 <= line < len(starts) or column < 1:
            raise PatchRefused("an edit is outside of its file")
        place = starts[line - 1] + column - 1
        if place >= starts[line] and not (place == starts[line] and line == len(starts) - 1):
            raise PatchRefused("an edit is outside of its line")
        return min(place, len(text))

    spans = sorted(
        (offset(edit.start_line, edit.start_column), offset(edit.end_line, edit.end_column), edit)
        for edit in dict.fromkeys(edits)
    )
    if any(end < start for start, end, _ in spans) or any(
        first[1] > second[0] for first, second in pairwise(spans)
    ):
        raise PatchRefused("edits of one fix overlap")
    parts, done = list[str](), 0
    for start, end, edit in spans:
        parts += [text[done:start], edit.text]
        done = end
    return "".join([*parts, text[done:]])


def write_patch(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """The unified diff between versions of files, as git writes it.

    Raises:
        PatchRefused: a file is not UTF-8, or a patch cannot name it.
    """
    parts: list[str] = []
    for path in sorted(after):
        if not path.isprintable() or set('"\\') & set(path):
            raise PatchRefused(show_bytes(f"a patch cannot name {path!r}"))
        try:
            old, new = (_lines(side[path].decode("utf-8")) for side in (before, after))
        except UnicodeDecodeError:
            raise PatchRefused(f"{path} is not UTF-8") from None
        rows = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", n=CONTEXT_LINES)
        parts += [row if row.endswith("\n") else f"{row}\n{NO_END.decode()}" for row in rows]
    return "".join(parts)


def _lines(text: str) -> list[str]:
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
