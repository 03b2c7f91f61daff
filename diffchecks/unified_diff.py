"""A strict reader of unified diffs, plain or git's: what it does not understand is an error.

Half a patch must never be reviewed as if it were the whole. Every hunk holds exactly the lines that
its header promises, its numbers follow from the hunks before, and nothing but known lines stands
between files.
"""

import os
import re
from collections.abc import Iterator, Sequence
from typing import NoReturn

from msgspec import Struct, field

from diffchecks import shorten
from diffchecks.data_files import read_patterns, read_yaml
from diffchecks.jobs import Status
from diffchecks.safe_paths import unsafe_path_reason
from diffchecks.skipped_files import LINK, SUBMODULE


class PatchRefused(Exception):
    """The patch cannot be used; ``str()`` says why in one line."""


Names = tuple[bytes | None, bytes | None]  # old and new, None for /dev/null

_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPES = {
    bytes([name]): bytes([code]) for name, code in zip(b"abtnvfr", b"\a\b\t\n\v\f\r", strict=True)
}
_PLAIN = frozenset(range(0x20, 0x7F)) - frozenset(b'"\\')
_QUOTED = rb'"(?:[^"\\]|\\.)*"'
_PAIR = re.compile(rb"(%s|\S+) (%s|\S+)" % (_QUOTED, _QUOTED))
_PREFIXES = [pair.split() for pair in (b"a/ b/", b"i/ w/", b"c/ i/", b"c/ w/", b"o/ w/", b"1/ 2/")]


def unquote(name: bytes) -> bytes:
    """The name itself, of one that git may have quoted."""
    if len(name) < 2 or not (name.startswith(b'"') and name.endswith(b'"')):
        return name

    def plain(escape: re.Match[bytes]) -> bytes:
        code = escape[1]
        return bytes([int(code, 8) & 255]) if len(code) == 3 else _ESCAPES.get(code, code)

    return _ESCAPE.sub(plain, name[1:-1])


def quote(name: bytes) -> bytes:
    """The name in git's C style, always quoted."""
    return b'"%s"' % b"".join(bytes([c]) if c in _PLAIN else b"\\%03o" % c for c in name)


def parse_header_name(text: bytes) -> bytes | None:
    """The name in a ``---`` or ``+++`` line without its time stamp, None for /dev/null."""
    name = text if text.startswith(b'"') else text.split(b"\t", 1)[0]
    return None if name == b"/dev/null" else unquote(name.rstrip(b"\t"))


def parse_opening_names(text: bytes) -> Names | None:
    """The two names of a ``diff --git`` line, None when they cannot be distinguished.

    They are equal but for their prefixes there, unless the file was renamed.
    """
    pair = _PAIR.fullmatch(text)
    if pair:
        return unquote(pair[1]), unquote(pair[2])
    middle = len(text) // 2
    old, new = text[:middle], text[middle + 1 :]
    same = old == new or old.partition(b"/")[2] == new.partition(b"/")[2]
    return (old, new) if same and text[middle : middle + 1] == b" " else None


def _has_prefixes(pair: Names) -> bool:
    old, new = pair
    return any(
        (old is None or old.startswith(before)) and (new is None or new.startswith(after))
        for before, after in _PREFIXES
    )


def strip_level(pairs: Sequence[Names]) -> int:
    """How many leading components are prefixes: 0 or 1, for the whole patch."""
    if all(_has_prefixes(pair) for pair in pairs):
        return 1
    if any(old == new or old is None or new is None for old, new in pairs):
        return 0
    return int(all(b"/" in name for pair in pairs for name in pair if name))


def strip(name: bytes | None, level: int) -> bytes | None:
    """The name without its prefix; as it is when it has none."""
    return None if name is None else name.split(b"/", level)[-1]


class PatchHunk(Struct):
    """Lines that belong together.

    Attributes:
        line: 1-based line of its header in the patch.
        old_start, old_count, new_start, new_count: as its header says.
        lines: marker (``b" "``, ``b"-"`` or ``b"+"``) and contents with their line end.
        end: 1-based line after its last one.
    """

    line: int
    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: list[tuple[bytes, bytes]] = field(default_factory=list)
    end: int = 0


class FilePatch(Struct):
    """What a patch says of one file.

    Attributes:
        line: 1-based line in the patch at which it begins.
        end: 1-based line after its last one.
        names: as they stand in the patch, prefix included.
        created, deleted: it has no old, or no new side.
        header: git's extended header lines, key → value.
        binary: it holds a binary patch, or says only that two binary files differ.
        has_data: False when it says only that binary files differ.
        hunks: in order.
    """

    line: int
    end: int = 0
    names: Names = (None, None)
    created: bool = False
    deleted: bool = False
    header: dict[str, bytes] = field(default_factory=dict)
    binary: bool = False
    has_data: bool = True
    hunks: list[PatchHunk] = field(default_factory=list)


MAX_LINE = 1_000_000  # larger line numbers are nobody's source code

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(?: .*)?")
_TEXTS = read_patterns("unified_diff")
_OPENING, _EXTENDED = (re.compile(one.pattern.encode()) for one in _TEXTS.values())
_PREAMBLE = re.compile(rb"(?:From|commit) [0-9a-f]{7,}(?: .*)?|-- ")
_BETWEEN = re.compile(rb"(?:diff (?:-|[a-z])|Index: |=== ).*|={20,}|")
_NEVER = re.compile(rb"\t(?:1970-01-01|1969-12-31) ")
_BINARY = re.compile(rb"Binary files (.+) and (.+) differ")
_BASE85 = re.compile(rb"[A-Za-z][0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]+")
_REFUSED = [(start.encode(), why) for start, why in read_yaml("refused_diffs.yaml").items()]
_TOGETHER = (("rename from", "rename to"), ("copy from", "copy to"), ("old mode", "new mode"))
_CUT = "the patch was cut short"
_EMPTY = (
    b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    b"473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
)


class Reader:
    """Walks over the lines of one patch.

    Attributes:
        lines: its lines without line ends.
        crlf: every line ended in CR LF, of which the carriage returns are left out.
    """

    def __init__(self, patch: bytes, name: str) -> None:
        self._name = name
        self.lines = patch.split(b"\n")
        self._whole = self.lines[-1] == b""
        if self._whole:
            self.lines.pop()
        self.crlf = bool(self.lines) and all(line.endswith(b"\r") for line in self.lines)
        if self.crlf:
            self.lines = [line[:-1] for line in self.lines]
        self._at = 0

    def files(self) -> Iterator[FilePatch]:
        """Every file of the patch.

        Raises:
            PatchRefused: the patch is malformed or cut short; names the line.
        """
        first = next((n for n, line in enumerate(self.lines) if line.strip()), None)
        if first is None:
            return
        if b"\x1b[" in self.lines[first]:
            self._fail("this diff is colored; make it with git diff --no-color", first)
        if not _OPENING.match(self.lines[first]):
            self._fail("this is not a unified diff; make one with git diff or diff -ruN", first)
        preamble, found = True, False  # a commit message, the head of a mail: anything but a diff
        while self._at < len(self.lines):
            file = self._file()
            if file:
                file.end = self._at + 1
                preamble, found = False, True
                yield file
                continue
            line = self._header()
            preamble = preamble or _PREAMBLE.fullmatch(line) is not None
            if not preamble and not _BETWEEN.fullmatch(line):
                self._fail(f"a line that belongs to no hunk: {shorten(repr(line)[1:], 60)}")
            self._at += 1
        if not (self._whole or preamble):
            self._fail(f"the last line has no end; {_CUT}", len(self.lines) - 1)
        if not found:
            self._fail("it contains no diff; make one with git diff or diff -ruN", first)

    def _fail(self, why: str, at: int | None = None) -> NoReturn:
        raise PatchRefused(f"{self._name}:{(self._at if at is None else at) + 1}: {why}")

    def _header(self, ahead: int = 0) -> bytes:
        """A line that is no contents: a carriage return at its end means nothing."""
        place = self._at + ahead
        return self.lines[place].removesuffix(b"\r") if place < len(self.lines) else b""

    def _file(self) -> FilePatch | None:
        line = self._header()
        for starts, why in _REFUSED:
            if line.startswith(starts):
                self._fail(why)
        if line.startswith(b"diff --git "):
            return self._git_file()
        if line.startswith(b"--- ") and self._header(1).startswith(b"+++ "):
            return self._plain_file()
        if match := _BINARY.fullmatch(line):
            self._at += 1
            names = parse_header_name(match[1]), parse_header_name(match[2])
            return FilePatch(self._at, names=names, binary=True, has_data=False)
        return None

    def _plain_file(self) -> FilePatch:
        file = FilePatch(self._at + 1)
        # With -N a file that is not there has its would-be name and the time zero.
        never = [_NEVER.search(self._header(ahead)) is not None for ahead in (0, 1)]
        self._named_hunks(file)
        file.created = file.names[0] is None or never[0]
        file.deleted = file.names[1] is None or never[1]
        self._check_sides(file)
        return file

    def _check_sides(self, file: FilePatch) -> None:
        olds = file.created and any(hunk.old_count for hunk in file.hunks)
        if olds or (file.deleted and any(hunk.new_count for hunk in file.hunks)):
            self._fail("a hunk with lines on the side that does not exist", file.line - 1)

    def _named_hunks(self, file: FilePatch) -> None:
        if not self._header(1).startswith(b"+++ "):
            self._fail(_CUT)
        file.names = parse_header_name(self._header()[4:]), parse_header_name(self._header(1)[4:])
        if b"" in file.names:
            self._fail("no file name after --- or +++; make one with git diff, or give both names")
        if file.names == (None, None):
            self._fail("neither side is a file")
        self._at += 2
        self._hunks(file)
        if not file.hunks:
            self._fail(f"a file header without a hunk; {_CUT}")

    def _git_file(self) -> FilePatch:
        file = FilePatch(self._at + 1)
        opening = parse_opening_names(self._header()[len(b"diff --git ") :])
        self._at += 1
        while match := _EXTENDED.fullmatch(self._header()):
            file.header[match[1].decode()] = match[2]
            self._at += 1
        if self._header().startswith(b"--- "):
            self._named_hunks(file)
        elif self._header() == b"GIT binary patch":
            self._binary(file)
        elif self._header().startswith(b"Binary files "):
            file.binary, file.has_data = True, False
            self._at += 1
        elif not file.header:
            self._fail(f"a file header with nothing after it; {_CUT}")
        file.created = "new file mode" in file.header
        file.deleted = "deleted file mode" in file.header
        self._check(file, opening)
        self._check_sides(file)
        file.names = opening or file.names
        return file

    def _check(self, file: FilePatch, opening: Names | None) -> None:
        """Hold git's own header lines against each other and against the rest."""
        says, at = file.header, file.line - 1
        for first, second in _TOGETHER:
            if (first in says) != (second in says):
                self._fail(f"{first!r} or {second!r} is missing; {_CUT}", at)
        if file.hunks and (file.names[0] is None, file.names[1] is None) != (
            file.created,
            file.deleted,
        ):
            self._fail("its header and its names disagree on which side exists", at)
        if opening is None and not file.hunks and "rename to" not in says and "copy to" not in says:
            self._fail("its names cannot be distinguished", at)
        if not (file.hunks or file.binary):
            self._check_hollow(file)

    def _check_hollow(self, file: FilePatch) -> None:
        """A file without hunks must be one whose contents did not change, or are empty."""
        says = file.header
        if not (file.created or file.deleted or {"old mode", "rename to", "copy to"} & says.keys()):
            self._fail(f"a file header without content; {_CUT}")
        if says.get("similarity index", b"100%") != b"100%" or (
            (file.created or file.deleted) and "index" not in says and self._at >= len(self.lines)
        ):
            self._fail(f"a file header without a hunk; {_CUT}")
        blobs = says.get("index", b"").split(b" ")[0].split(b"..")
        filled = [blob for blob in blobs if blob.strip(b"0")]
        nothing = all(any(empty.startswith(blob) for empty in _EMPTY) for blob in filled)
        if blobs[0] != blobs[-1] and not (nothing and (file.created or file.deleted)):
            self._fail(f"its contents changed but it has no hunk; {_CUT}")

    def _hunks(self, file: FilePatch) -> None:
        next_old, shift, sealed = 1, 0, set[bytes]()
        while self._header().startswith(b"@@ "):
            match = _HUNK.fullmatch(self._header())
            if match is None:
                self._fail("an unreadable hunk header")
            old, olds, new, news = (1 if n is None else int(n) for n in match.groups())
            if max(old + olds, new + news) > MAX_LINE:
                self._fail(f"a line number above {MAX_LINE}")
            if (olds and not old) or (news and not new) or not (olds or news):
                self._fail("an impossible hunk header")
            # A side without lines names the line before: its first line would be the next one.
            first_old, first_new = old + (not olds), new + (not news)
            if first_old < next_old or first_new != first_old + shift:
                self._fail("its line numbers do not follow from the hunk before; one is missing")
            hunk = PatchHunk(self._at + 1, old, olds, new, news)
            self._at += 1
            self._body(hunk, sealed)
            hunk.end = self._at + 1
            file.hunks.append(hunk)
            next_old, shift = first_old + olds, shift + news - olds

    def _body(self, hunk: PatchHunk, sealed: set[bytes]) -> None:
        """Read as many lines as the header says; ``sealed``: sides whose last line was seen."""
        left = {b"-": hunk.old_count, b"+": hunk.new_count}
        while any(left.values()):
            last = len(self.lines) - 1
            if self._at > last or (self._at == last and not self._whole):
                missing = f"{left[b'-']} old and {left[b'+']} new lines"
                self._fail(f"{_CUT}: the hunk of line {hunk.line} lacks {missing}", last)
            line = self.lines[self._at]
            # Some mailers take the one space from an empty context line.
            marker, text = (line[:1], line[1:]) if line.rstrip(b"\r") else (b" ", line)
            if marker not in {b" ", b"-", b"+"}:
                self._fail(f"the hunk of line {hunk.line} is shorter than its header says")
            sides = {b"-", b"+"} if marker == b" " else {marker}
            if sides & sealed or any(not left[side] for side in sides):
                self._fail(f"the hunk of line {hunk.line} does not fit its header")
            self._at += 1
            for side in sides:
                left[side] -= 1
            if self._header().startswith(b"\\ "):
                sealed |= sides
                self._at += 1
            else:
                text += b"\n"
            hunk.lines.append((marker, text))

    def _binary(self, file: FilePatch) -> None:
        file.binary = True
        self._at += 1
        parts = 0
        while re.fullmatch(rb"(?:literal|delta) \d+", self._header()):
            self._at += 1
            while _BASE85.fullmatch(line := self._header()):
                count = line[0] - (64 if line[0] < 91 else 70)  # A to Z: 1 to 26, a to z: 27 to 52
                if len(line) - 1 != -(-count // 4) * 5:
                    self._fail("a line of a binary patch that was cut short")
                self._at += 1
            if self._at >= len(self.lines) or self._header():
                self._fail("a binary patch that was cut short")
            self._at += 1
            parts += 1
        if not parts:
            self._fail("a binary patch without contents")


_MODES = frozenset({"100644", "100755", LINK, SUBMODULE})


class PatchFile(Struct, frozen=True):
    """A file of a patch, with the names it has in the two trees.

    Attributes:
        patch: as read.
        old, new: paths without prefixes, None on the side where it does not exist.
        old_mode, new_mode: git's, ``100644`` where the patch is silent.
        status: how it changed.
    """

    patch: FilePatch
    old: bytes | None
    new: bytes | None
    old_mode: str | None
    new_mode: str | None
    status: Status

    @property
    def path(self) -> bytes:
        """Its name in head, in base when it was deleted."""
        return self.new or self.old or b""


def resolve_names(file: FilePatch, level: int, name: str) -> PatchFile:
    """Work out names, modes and status of a file of a patch.

    Args:
        file: as read.
        level: leading components of its names that are prefixes.
        name: of the patch, for messages.
    """
    says = file.header
    old, new = (strip(part, level) for part in file.names)
    moved = next((what for what in ("rename", "copy") if f"{what} from" in says), None)
    if moved:
        old, new = unquote(says[f"{moved} from"]), unquote(says[f"{moved} to"])
    elif not (file.created or file.deleted):
        old = new = new or old  # plain diffs may compare x.orig with x: one file all the same
    old, new = None if file.created else old, None if file.deleted else new
    for path in (old, new):
        why = unsafe_path_reason(os.fsdecode(path)) if path is not None else None
        if why:
            raise PatchRefused(f"{name}:{file.line}: {shorten(repr(path)[1:], 80)}: {why}")
    index = says.get("index", b"").split(b" ")
    common = index[1] if len(index) == 2 else b"100644"
    before = says.get("old mode", says.get("deleted file mode", common)).decode("ascii", "replace")
    after = says.get("new mode", says.get("new file mode", common)).decode("ascii", "replace")
    if not {before, after} <= _MODES:
        raise PatchRefused(f"{name}:{file.line}: a file mode that git does not know")
    status: Status = "modified"
    if file.created or file.deleted:
        status = "added" if file.created else "deleted"
    elif moved:
        status = "renamed" if moved == "rename" else "copied"
    elif before != after and not file.hunks and not file.binary:
        status = "mode"
    old_mode, new_mode = before if old is not None else None, after if new is not None else None
    return PatchFile(file, old, new, old_mode, new_mode, status)


def resolve_files(patch: bytes, name: str) -> tuple[Reader, int, list[PatchFile]]:
    """Read a patch: its lines, how many leading components of names are prefixes, its files.

    Raises:
        PatchRefused: it is malformed or cut short; names the line.
    """
    reader = Reader(patch, name)
    files = list(reader.files())
    level = strip_level([file.names for file in files]) if files else 1
    return reader, level, [resolve_names(file, level, name) for file in files]
