"""Lock file entries with a new source, without verification, or with an install script."""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain
from posixpath import normpath
from urllib.parse import urlsplit

from msgspec import Struct

from diffchecks.check_io import RawFinding, Source
from diffchecks.data_files import read_map, read_names, read_patterns
from diffchecks.dependencies.lock_file_entries import LockEntry

ENTRY_LINES = 12
"""The maximum number of lines between an entry's name and its version."""

MAX_FINDINGS = 10
"""The maximum number of findings per code in one lock file; the last one counts the rest."""

LINE_START = 400
"""How many characters at the start of a line are searched for a name."""

MAX_PLACES = 10_000
"""The maximum number of occurrences of one name that are checked for an entry's line."""

# The name at the start of a line of a lock file or manifest: TOML, JSON, Yarn, Bundler, Go.
_HEAD = read_patterns("lock_files")["head"]
_PART_OF_NAME = re.compile(r"[\w.-]")
_UNENCRYPTED = re.compile(r"(?:\w+\+)?(?:http|git|ftp)://")
_STRENGTH = {"md5": 1, "sha1": 2, "hex40": 2, "sha256": 3, "hex64": 3, "sha384": 4, "sha512": 5}
_Found = tuple[str, str, str]
"""A code, the text that identifies the line, and a message."""


class Known(Struct, frozen=True):
    """What is known from base's lock file.

    Attributes:
        hosts: registries that it uses, with their aliases; for a new file, those of most entries.
        left: registries from which no package of head comes.
        official: the public registry's hosts; empty where packages are repositories by nature.
        public: base's packages are not of a private registry, of which the names could be taken.
        plain: hosts from which it downloads without encryption.
        by_name: its entries by the package's name.
        verified: each of its packages has a digest; False for a new file.
    """

    hosts: Collection[str]
    left: Collection[str]
    official: Collection[str]
    public: bool
    plain: Collection[str]
    by_name: Mapping[str, Sequence[LockEntry]]
    verified: bool


def compare(
    head: Source, added: Collection[int], old: Sequence[LockEntry], new: Sequence[LockEntry]
) -> Iterator[RawFinding]:
    """Report differences between the entries of head and those of base."""
    composer = head.name == "composer.lock"
    known, depth = _known(head.name, old, new), head.path.count("/")
    groups: dict[tuple[str, str], list[tuple[LockEntry, str, str]]] = defaultdict(list)
    for entry in new:
        older = known.by_name.get(entry.name, ())
        for code, quoted, message in (
            *_judge_hosts(entry, older, known, composer),
            *_judge_place(entry, older, known, depth),
            *_judge_content(entry, older, known),
        ):
            # A host, or a whole file without digests, is one defect for any number of packages.
            group = {"lock-unverified": ""}.get(code, entry.name)
            group = _host(quoted) if code in {"lock-http", "lock-source", "lock-moved"} else group
            group = "" if code == "lock-script" and not old else group
            groups[code, group].append((entry, quoted, message))
    places = Places(head, added)
    for code, members in _at_most(groups):
        (entry, quoted, message), *others = members
        more = len({other.name for other, *_ in others} - {entry.name})
        tail = f", as with {more} more package{'s' * (more > 1)}" if more else ""
        line = places.line(quoted, entry)
        yield RawFinding(code, head.path, line, message + tail, key=f"{entry.name} {entry.version}")


def _at_most(
    groups: Mapping[tuple[str, str], list[tuple[LockEntry, str, str]]],
) -> Iterator[tuple[str, list[tuple[LockEntry, str, str]]]]:
    """The groups of each code, limited in number; the last one contains all the rest."""
    by_code: dict[str, list[list[tuple[LockEntry, str, str]]]] = defaultdict(list)
    for (code, _), members in groups.items():
        by_code[code].append(members)
    for code, listed in by_code.items():
        yield from ((code, members) for members in listed[: MAX_FINDINGS - 1])
        if rest := listed[MAX_FINDINGS - 1 :]:
            yield code, [member for members in rest for member in members]


def _known(name: str, old: Sequence[LockEntry], new: Sequence[LockEntry]) -> Known:
    by_name: Mapping[str, list[LockEntry]] = defaultdict(list)
    for entry in old:
        by_name[entry.name].append(entry)
    counts = Counter(_host(url) for entry in old or new for url in _urls(entry) if not entry.git)
    del counts[""]
    used = set(counts) if old else {host for host, _ in counts.most_common(1)}
    official = frozenset(read_map("maps.yaml", "official_hosts").get(name, "").split())
    public = name.endswith("-wrapper.properties") or used <= official | read_names("mirrors")
    composer = name == "composer.lock"
    if not old or composer or not used or used & official:
        used |= official
    return Known(
        used | read_names("code_hosts") if composer else used,
        used - {_host(url) for entry in new for url in _urls(entry)},
        official,
        public,
        {_host(url) for entry in old for url in _urls(entry) if _UNENCRYPTED.match(url)},
        by_name,
        bool(old) and all(entry.digests or entry.is_exempt for entry in old),
    )


def _urls(entry: LockEntry) -> tuple[str, ...]:
    return (entry.source, *entry.urls) if entry.source else entry.urls


def _judge_hosts(
    entry: LockEntry, older: Sequence[LockEntry], known: Known, composer: bool
) -> Iterator[_Found]:
    """Findings about the hosts from which an entry is downloaded."""
    name, before = entry.name, {url for one in older for url in _urls(one)}
    for url in _urls(entry):
        host = _host(url)
        if url in before or not host:
            continue
        if _UNENCRYPTED.match(url) and host not in known.plain:
            yield "lock-http", url, f"{name} is downloaded without encryption from {host}"
        elif entry.git or (known.public and host in known.official):
            continue
        elif host not in known.hosts:
            where = "no package of base was" if known.by_name else "most of the file is not"
            code = "lock-outside" if entry.declared else "lock-source"
            yield code, url, f"{name} is downloaded from {host}, as {where}"
        elif not composer and (moved := _moved(host, older, known)):
            same = any(one.version == entry.version for one in older)
            code = "lock-moved" if moved in known.left and not same else "lock-source"
            yield code, url, f"{name} is downloaded from {host}, and in base from {moved}"


def _judge_place(
    entry: LockEntry, older: Sequence[LockEntry], known: Known, depth: int
) -> Iterator[_Found]:
    """Findings about an entry whose source is a repository or a directory."""
    name = entry.name
    same = any(one.git and _place(one) == _place(entry) for one in older)
    if entry.git and not same and (older or known.official):
        registry = any(not one.git and not one.path for one in older)
        instead = "and in base from a registry" if registry else "not from a registry"
        message = f"{name} is taken from the repository {_place(entry)}, {instead}"
        code = "lock-source" if registry and not entry.declared else "lock-outside"
        yield code, entry.source, message
    if entry.path and not any(one.path for one in older):
        if older:
            message = f"{name} is taken from a directory, but in base from a registry"
            yield "lock-outside", entry.path, message
        elif entry.path[:1] == "/" or normpath(entry.path).split("/").count("..") > depth:
            message = f"{name} is taken from {entry.path}, outside of the repository"
            yield "lock-outside", entry.path, message


def _moved(host: str, older: Sequence[LockEntry], known: Known) -> str:
    """The source of the package in base, if that is another registry."""
    hosts = {_host(one.source) for one in older if not one.git} - {""}
    same = known.official if host in known.official else (host,)
    return "" if hosts.intersection(same) else next(iter(sorted(hosts)), "")


def _place(entry: LockEntry) -> str:
    """The URL of a repository without a suffix such as a commit."""
    return re.split(r"[#?]", entry.source)[0].removesuffix(".git")


def _judge_content(entry: LockEntry, older: Sequence[LockEntry], known: Known) -> Iterator[_Found]:
    """Findings about the digests and scripts of an entry."""
    name, version = entry.name, entry.version
    same = [one for one in older if one.version == version]
    before = {digest for one in same for digest in one.digests}
    # Of a repository the commit decides, which the version does not tell.
    if before and entry.digests and not entry.git and (message := _replaced(entry, same, before)):
        yield "lock-digest", entry.digests[0], f"{name} {version} {message}"
    # A package of Yarn 2 needs no checksum, unless it had one.
    is_new = not same and known.verified and not entry.is_exempt
    had = bool(same) and all(one.digests for one in same)  # what another brings along has none
    is_lost = had and not (entry.git or entry.path or entry.unfetched)
    if not entry.digests and (is_new or is_lost):
        lost = "has no digest now, and had one in base" if before else "has no digest"
        yield "lock-unverified", name, f"{name} {version} {lost}"
    if entry.script and not (before.intersection(entry.digests) or any(o.script for o in older)):
        yield "lock-script", name, f"Installing {name} {version} runs a script of it"


def _replaced(entry: LockEntry, same: Sequence[LockEntry], before: Collection[str]) -> str:
    """How the digests of one version differ; empty if they are of the same content."""
    if any(
        one.digests and {*one.digests, *one.files} <= {*entry.digests, *entry.files} for one in same
    ):
        return ""
    files = dict(file for one in same for file in one.files)
    for file, digest in entry.files:
        if files.get(file, digest) != digest and digest not in before:
            return f"has another digest of {file.rpartition('/')[2]} and the same version"
    old, new = _by_kind(before), _by_kind(entry.digests)
    common = old.keys() & new.keys()
    if any(old[kind].isdisjoint(new[kind]) for kind in common):
        return "has a different digest for the same version"
    strongest = [max(_STRENGTH.get(kind, 0) for kind in kinds) for kinds in (old, new)]
    if 0 < strongest[1] < strongest[0]:
        return "has a weaker kind of digest for the same version"
    return ""


def _by_kind(found: Collection[str]) -> Mapping[str, set[str]]:
    """Digests by algorithm; Yarn writes its archive format's version instead of the algorithm."""
    kinds: Mapping[str, set[str]] = defaultdict(set)
    for digest in found:
        kind = re.match(r"(\w+)[-:/](?=.)", digest)
        kinds[kind[1] if kind else f"hex{len(digest)}"].add(digest)
    return kinds


def _host(source: str) -> str:
    """The host of a URL in lower case; empty without a host."""
    source = re.sub(r"^(?:git\+)?(?:ssh://)?git@([^:/]+)[:/]", r"ssh://\1/", source)
    try:
        return (urlsplit(source).hostname or "").lower()
    except ValueError:
        return "an unreadable address"


class Places:
    """The lines of entries in a lock file."""

    def __init__(self, head: Source, added: Collection[int]) -> None:
        self._text, self._lines = head.text, head.lines
        self._added = frozenset(added)
        ends = accumulate(len(line) + 1 for line in self._text.split("\n"))
        self._starts = [0, *ends]

    def line(self, quoted: str, entry: LockEntry) -> int:
        """An added line with the text, or with the entry's version near its name."""
        if quoted and quoted != entry.name:
            for number in self._find(quoted):
                if number in self._added:
                    return number
        version = re.compile(rf"(?<![\w.]){re.escape(entry.version)}(?!\w|\.\w)")
        first, near = 0, 0
        # Lines that begin with the name, then all that contain it, such as in lists of
        # dependencies.
        for at in chain(self._heads.get(entry.name, ()), self._find(entry.name)):
            first = first or at
            for number in range(at, min(at + ENTRY_LINES, len(self._lines) + 1)):
                if number in self._added:
                    near = near or number
                    if version.search(self._lines[number - 1]):
                        return number
        return near or first or 1

    @cached_property
    def _heads(self) -> Mapping[str, Sequence[int]]:
        """Name → the lines that begin with it; computed once, since lock files are large."""
        heads: Mapping[str, list[int]] = defaultdict(list)
        for number, line in enumerate(self._lines, 1):
            if found := _HEAD.match(line[:LINE_START]):
                heads[found[1]].append(number)
        return heads

    def _find(self, word: str) -> Iterator[int]:
        """The lines that contain a word that is not part of a longer name."""
        at = self._text.find(word)
        for _ in range(MAX_PLACES):
            if at < 0:
                return
            around = (
                self._text[max(at - 1, 0) : at] + self._text[at + len(word) : at + len(word) + 1]
            )
            if not _PART_OF_NAME.search(around):
                yield bisect_right(self._starts, at)
            at = self._text.find(word, at + 1)
