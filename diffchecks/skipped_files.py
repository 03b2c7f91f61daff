"""Which changed files no analyzer looks at, and the one sentence that says why.

Policy comes from base: a change cannot excuse itself. A header that says "generated" counts when
the file carried it in base, ``.gitattributes`` is the one of base, and a vendored directory is one
that stood there before.
"""

import codecs
import hashlib
import posixpath
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from diffchecks import name_some, shorten
from diffchecks.data_files import read_map, read_names, read_yaml
from diffchecks.file_patterns import file_names, matches
from diffchecks.jobs import ChangedFile
from diffchecks.path_kinds import build_directory, is_code, is_test, path_kinds, vendored_directory

BIG_FILE_BYTES = 5 << 20  # bytes; git neither diffs a larger file nor holds it whole

LOCK_FILE = "lock file"
"""Why agents and most analyzers do not look into a lock file."""
GENERATED, VENDORED = "generated: ", "vendored: "
"""What begins the reason why agents and most analyzers leave out code that others write."""
_WHYS = read_map("texts.yaml", "skipped")
MARKED = GENERATED + _WHYS["marked"]
LINK, SUBMODULE = "120000", "160000"

_HEADER_LINES = 10
# The build of a library names it, its version and its license in a comment.
_LIBRARY = re.compile(
    rb"\s{0,9}/\*[!*](?=(?:(?!\*/)[\s\S]){0,400}\bv?\d+\.\d+\.\d)"
    rb"(?=(?:(?!\*/)[\s\S]){0,400}(?:\(c\)|copyright|licen[sc]e))",
    re.IGNORECASE,
)
_GENERATED = re.compile(rb"@generated\b|\bDO NOT EDIT\b")
# Such a header is of what the file makes.
_OF_OUTPUT = re.compile(
    rb"<%|\{%|\{\{[ \t]*[\w.$#/-]|\[\[\w{1,40}\]\]|@@\w"
    rb"|=[ \t]*[\"'`][^\n]{0,200}(?:@generated|DO NOT EDIT)"
)
_KINDS = read_yaml("file_kinds.yaml")
# No program: TypeScript refuses it.
_TRANSLATION = re.compile(rb"(?:\xef\xbb\xbf)?<\?xml[^>]{0,100}>\s{0,9}<!DOCTYPE TS>")


def _named(kind: str) -> re.Pattern[str]:
    return re.compile(_KINDS[kind], re.IGNORECASE)


def _magic(beginnings: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(beginning.encode("latin-1") for beginning in beginnings)


_SOURCE = _named("source")
_MINIFIED, _NAMED_ANEW = (re.compile(_KINDS[kind]) for kind in ("minified", "named_anew"))
_BUNDLE = re.compile(r"\.(?:[cm]?js|css)\Z")
PACKED, LONG_BUNDLE = 1_000, 5_000  # bytes of a line, on average, and of a file
UTF_16, TOO_LARGE = "UTF-16 text", "too large: "
_MEDIA = {suffix: _magic(beginnings) for suffix, beginnings in _KINDS["media"].items()}
_COMPILED, _COMPILED_NAME = _magic(_KINDS["compiled"]), _named("compiled_name")
_ARCHIVE, _ARCHIVE_NAME = _magic(_KINDS["archive"]), _named("archive_name")
_TAR, _TAR_AT = b"ustar", 257
_PACKED_DATA, _ZIPPED_DATA = _named("packed_data"), re.compile(_KINDS["zipped_data"].encode())
# Both headers of a zip's entry, which end where its name begins, with the size of that.
_ENTRY = re.compile(rb"PK(?:(\x03\x04)..|\x01\x02.{4}).{20}(..)(?(1)..|.{16})", re.DOTALL)
DATA, PUBLISHED = "data", "published"
_LFS_POINTER = re.compile(_KINDS["lfs_pointer"].encode())
_VERSION = re.compile(r"\d+(?:\.\d+)+|(?<=[-.])[\w-]{8,}(?=(?:\.\w+){1,2}$)")
_LONG_LINE = 500
_CONTROL = bytes(set(range(32)) - set(b"\t\n\f\r\b\x1b"))
_KEPT = 265  # first bytes: no link needs more, and a tar archive is known by them
_NAMED = 3  # files in a note
_SNIFFED = 8000  # as many bytes as git looks at

MAX_NESTED, MAX_CONTINUED, MIN_BYTES_A_NUL = 2_000, 5_000, 1_000
_ONLY_BRACKETS = bytes(set(range(256)) - set(b"([{)]}"))
_CONTINUED = re.compile(rb"(?:^[^\n]*+(?:(?<=\\)|(?<=\\\r))\n)++", re.MULTILINE)
_COLORS = b"\x1b["  # a terminal's, in recorded output


class ContentInfo(Struct, frozen=True):
    """What one blob is like.

    Attributes:
        size: bytes.
        lines: how many lines it has; 0 when it is binary or was not read.
        binary: why it is no text, else None.
        stray: it would be text, if a NUL in 1,000 bytes or fewer did not make it binary.
        generated: its first lines say so.
        library: they name a library, its version and its license, as those of a build do.
        long_lines: it has a line of 500 bytes or more, as minified code does.
        packed: its lines have over 1,000 bytes on average, so that nobody wrote them.
        bomb: why no parser may have it, else empty.
        target: the first bytes, for a link's target.
        packs: ``DATA`` alone, what others have ``PUBLISHED``, or as a gzip stream this blob.
    """

    size: int
    lines: int = 0
    binary: str | None = None
    stray: bool = False
    generated: bool = False
    library: bool = False
    long_lines: bool = False
    packed: bool = False
    bomb: str = ""
    target: bytes = b""
    packs: str = ""


def _bomb(data: bytes) -> str:
    """Why a text would break parsers, whatever its language; empty: it would not.

    Of 101,352 files of distributions none comes near: brackets in texts count as well.
    """
    if sum(map(data.count, (b"(", b"[", b"{"))) > MAX_NESTED:
        level = 0
        for bracket in data.replace(_COLORS, b"").translate(None, _ONLY_BRACKETS):
            level = level + 1 if bracket in b"([{" else max(level - 1, 0)
            if level > MAX_NESTED:
                return f"nested too deeply to be parsed: over {MAX_NESTED} open brackets"
    continued = data.count(b"\\\n") + data.count(b"\\\r\n") > MAX_CONTINUED
    runs = _CONTINUED.finditer(data) if continued else ()
    if any(run[0].count(b"\n") > MAX_CONTINUED for run in runs):
        return f"too long to be parsed: a line continued over more than {MAX_CONTINUED} lines"
    return ""


def _binary_reason(data: bytes) -> str | None:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _WHYS["wide"]
    start = data[:_SNIFFED]
    if b"\0" in start:  # as git says
        return "binary"
    if len(start.translate(None, _CONTROL)) >= 0.7 * len(start):
        return None
    try:
        data.decode()
    except UnicodeDecodeError:
        return "binary"
    return None  # control characters, yet valid text: hiding behind them must not help


def _what_it_packs(data: bytes) -> str:
    if hashlib.sha256(data).hexdigest() in read_names("published_wrappers"):
        return PUBLISHED
    stream = zlib.decompressobj(wbits=31)
    try:
        held = stream.decompress(data, BIG_FILE_BYTES)
    except zlib.error:
        found = [
            _ZIPPED_DATA.fullmatch(data, at.end(), at.end() + int.from_bytes(at[2], "little"))
            for at in _ENTRY.finditer(data)
        ]
        return DATA if _ENTRY.match(data) and all(found) else ""
    alone = not stream.unused_data  # otherwise another one goes on with what it holds
    runs = held.startswith((b"#!", *_COMPILED, *_ARCHIVE)) or held.startswith(_TAR, _TAR_AT)
    if alone and not runs and _binary_reason(held) == "binary":
        return DATA
    blob = hashlib.sha1(b"blob %d\0%b" % (len(held), held), usedforsecurity=False)
    return blob.hexdigest() if alone and stream.eof else ""


def inspect_content(data: bytes) -> ContentInfo:
    """Look at the bytes of one blob."""
    binary = _binary_reason(data)
    stray = binary == "binary" and 0 < data.count(b"\0") * MIN_BYTES_A_NUL <= len(data)
    stray = stray and not _binary_reason(data.translate(None, b"\0"))
    if binary and not stray:
        packs = "" if data.startswith(_TAR, _TAR_AT) else _what_it_packs(data)
        return ContentInfo(len(data), binary=binary, target=data[:_KEPT], packs=packs)
    head = b"\n".join(data[:4096].split(b"\n")[:_HEADER_LINES])
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    return ContentInfo(
        len(data),
        lines=lines,
        binary=binary,
        stray=stray,
        generated=bool(_GENERATED.search(head) and not _OF_OUTPUT.search(head)),
        library=_LIBRARY.match(head) is not None,
        long_lines=max(map(len, data.split(b"\n"))) >= _LONG_LINE,
        packed=len(data) > PACKED * lines,
        bomb=_bomb(data),
        target=data[:_KEPT],
    )


class AttributePolicy(Struct, frozen=True):
    """What base says about the changed paths.

    Attributes:
        generated: path → whether ``.gitattributes`` of base marks it ``linguist-generated``; a path
            it says nothing about is not in here.
        directories: those of the changed files' directories that stand in base.
        minified: ``without_version`` of a changed file with long lines in base → whether packed.
        beside: a changed file's path with ``.gz`` → its blob in head.
    """

    generated: Mapping[str, bool]
    directories: frozenset[str]
    minified: Mapping[str, bool]
    beside: Mapping[str, str | None]


def without_version(path: str) -> str:
    """Equal for the paths of two versions of a library, or of two builds of a bundle."""
    return _VERSION.sub("", path)


def _link_or_submodule(file: ChangedFile, after: ContentInfo | None) -> ChangedFile:
    if SUBMODULE in {file.new_mode, file.old_mode} and file.new_mode != LINK:
        old = (file.old_blob or "")[:12] if file.old_mode == SUBMODULE else ""
        new = (file.new_blob or "")[:12] if file.new_mode == SUBMODULE else ""
        return replace(file, kind="submodule", size=0, skip=f"submodule {old}..{new}")
    target = (after.target if after else b"").decode("utf-8", "backslashreplace")
    hides = _hidden_by_link(file, target) if file.new_mode == LINK else ""
    skip = f"symbolic link to {shorten(target, 120)}{hides}"
    return replace(file, kind="symlink", skip=skip, gap=bool(hides))


def _hidden_by_link(file: ChangedFile, target: str) -> str:
    """Why a changed link is a gap: what is read through it is not what the review has read."""
    if file.old_mode == LINK and file.old_blob == file.new_blob:
        return ""
    place = posixpath.normpath(posixpath.join(posixpath.dirname(file.path), target))
    if place.startswith("/") or place.split("/")[0] in {"..", ".git"} or len(target) >= _KEPT:
        return ", outside of the repository's files"
    both, containers = (file.path, target), file_names("container_files")
    differ = len({PurePosixPath(path).suffix for path in both}) > 1
    if _SOURCE.search(file.path) and differ and not all(matches(path, containers) for path in both):
        return ", although its name says that it is source"
    return ""


def _generated(
    file: ChangedFile, old: ContentInfo | None, new: ContentInfo, policy: AttributePolicy
) -> str | None:
    marked = policy.generated.get(file.path)
    if marked is not None:
        return MARKED if marked else None
    by_name, runs = _MINIFIED.search(file.path), not file.path.endswith(".css")
    before = without_version(file.path) in policy.minified or (old and old.long_lines)
    packed = policy.minified.get(without_version(file.path)) or (old and old.packed)
    if new.long_lines and (by_name or (before and _NAMED_ANEW.search(file.path))):
        return f"{GENERATED}minified" if before or not runs else _WHYS["newly_minified"]
    bundled = new.size > LONG_BUNDLE and runs
    if new.packed and _BUNDLE.search(file.path) and (packed or bundled):
        return f"{GENERATED}minified" if packed else _WHYS["newly_minified"]
    if old and old.generated and new.generated:
        return f"{GENERATED}its header says so, in base as well"
    return None


def _by_policy(
    file: ChangedFile, old: ContentInfo | None, new: ContentInfo, policy: AttributePolicy
) -> str | None:
    if "lock_files" in path_kinds(file.path):
        return LOCK_FILE
    directory = vendored_directory(file.path) or (new.library and build_directory(file.path))
    if directory in policy.directories:
        return f"{VENDORED}{shorten(directory or '', 80)}/ existed in base as well"
    return _generated(file, old, new, policy)


def describe_size_limit(size: int, most: int) -> str:
    """The sentence about a file of which nothing is read, sizes in bytes."""
    return f"{TOO_LARGE}{size / 1e6:.1f} MB, and files above {most / 1e6:.1f} MB are not read"


def is_settled(file: ChangedFile) -> bool:
    """Whether head has nothing new of a file, and no check misses it: a test, Python's names."""
    missed = (is_test(file.path) and is_code(file.path)) or file.path.endswith((".py", ".pyi"))
    return (file.status == "deleted" or file.only_moved) and not missed


def _is_test_data(path: str) -> bool:
    return not path_kinds(path).isdisjoint(("tests", "samples"))


def _what_it_hides(file: ChangedFile, new: ContentInfo) -> str:
    """Why a program or an archive is not read; empty for those of tests and samples: data."""
    if _is_test_data(file.path):
        return ""
    if new.target.startswith(_COMPILED) or _COMPILED_NAME.search(file.path):
        return _WHYS["compiled"]
    packed = new.target.startswith(_ARCHIVE) or new.target.startswith(_TAR, _TAR_AT)
    known = new.packs == DATA or _PACKED_DATA.search(file.path)
    return _WHYS["archive"] if not known and (packed or _ARCHIVE_NAME.search(file.path)) else ""


def is_text(path: str, content: ContentInfo) -> bool:
    """Whether it can be read. Compilers refuse a NUL in code; shells and browsers ignore it."""
    return not content.binary or (content.stray and matches(path, file_names("nul_refused")))


def _as_binary(file: ChangedFile, old: ContentInfo | None, new: ContentInfo) -> ChangedFile:
    """A binary file, which is a gap where it ought to be text: then it could hide what it does."""
    suffix = PurePosixPath(file.path).suffix.lower()
    broken_image = suffix in _MEDIA and _is_test_data(file.path)
    skip, gap = new.binary or "", new.binary == _WHYS["wide"] and not broken_image
    if file.only_moved:
        return replace(file, kind="binary", skip=_WHYS["moved"])
    if "lock_files" in path_kinds(file.path) and new.binary == "binary":
        return replace(file, kind="binary", skip=LOCK_FILE)
    if new.packs == PUBLISHED:  # as little to read in it as in an image
        return replace(file, kind="media", skip=_WHYS["wrapper"])
    if file.new_blob and old and is_text(file.path, old) and 0 < old.size <= BIG_FILE_BYTES:
        skip, gap = f"{skip}, although it was text in base", True
    elif _SOURCE.search(file.path) or new.target.startswith(b"#!"):
        skip, gap = f"{skip}, although its name or first line says that it is source", True
    elif new.target.startswith(_MEDIA.get(suffix, ())):
        return replace(file, kind="media", skip=_WHYS["media"])
    elif new.binary == "binary" and (hidden := _what_it_hides(file, new)):
        skip, gap = hidden, True
    return replace(file, kind="binary", skip=skip, gap=gap and bool(file.new_blob))


def classify_unseen(file: ChangedFile, has_data: bool) -> ChangedFile:
    """A file whose contents in head a patch does not give: a gap unless it is named like media.

    The author of a change chooses, in ``.gitattributes``, of which files ``git diff`` leaves the
    contents out.

    Args:
        file: with path and status set.
        has_data: whether the patch holds them in git's binary format.
    """
    media = PurePosixPath(file.path).suffix.lower() in _MEDIA
    skip = _WHYS["encoded"] if has_data else _WHYS["no_contents"]
    gap = file.status != "deleted" and not media
    return replace(file, kind="binary", whole=False, skip=skip, gap=gap)


def classify(
    file: ChangedFile, looks: Mapping[str, ContentInfo], policy: AttributePolicy
) -> ChangedFile:
    """The file with its kind, size and reason to be skipped.

    Args:
        file: with modes and blobs set.
        looks: blob → what it is like, for both sides of the file.
        policy: what base says.
    """
    old, new = looks.get(file.old_blob or ""), looks.get(file.new_blob or file.old_blob or "")
    mode = file.new_mode or file.old_mode
    if mode in {LINK, SUBMODULE} or new is None:
        return _link_or_submodule(replace(file, size=new.size if new else 0), new)
    file = replace(file, size=new.size)
    if not is_text(file.path, new):
        twin = new.packs == policy.beside.get(file.path)
        return _as_binary(file, old, replace(new, packs=DATA) if twin else new)
    if _TRANSLATION.match(new.target) and file.path.endswith(".ts"):
        return replace(file, kind="media", skip="media: a translation of Qt")
    if _LFS_POINTER.fullmatch(new.target):
        gap = bool(file.new_blob and _SOURCE.search(file.path))
        media = PurePosixPath(file.path).suffix.lower() in _MEDIA
        return replace(file, kind="media" if media else "binary", skip=_WHYS["lfs"], gap=gap)
    if bomb := new.bomb or (old and old.bomb):
        return replace(file, skip=bomb, gap=not is_settled(file))
    by_policy = _by_policy(file, old, new, policy)
    if by_policy == _WHYS["newly_minified"] and file.new_blob:
        return replace(file, skip=by_policy, gap=True)
    if by_policy is None and new.size > BIG_FILE_BYTES:
        why = describe_size_limit(new.size, BIG_FILE_BYTES)
        return replace(file, skip=why, gap=not is_settled(file))
    return replace(file, kind="text", skip=by_policy, script=new.target.startswith(b"#!"))


def describe_modes(files: Sequence[ChangedFile]) -> tuple[str, ...]:
    """A note on each change of mode that no line of a diff shows, one for all files alike."""
    plain, program = "100644", "100755"
    ends = {(plain, program): "executable now", (program, plain): "not executable any more"}
    notes = []
    for modes, what in ends.items():
        paths = [shorten(file.path) for file in files if (file.old_mode, file.new_mode) == modes]
        if paths:
            verb = "is" if len(paths) == 1 else "are"
            notes.append(f"{name_some(paths, _NAMED)} {verb} {what}")
    return tuple(notes)
