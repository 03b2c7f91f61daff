"""Searches a dump of advisories in OSV's format, as osv.dev publishes it, by package.

A dump is one archive (``all.zip``), or a folder with JSON files or such archives, optionally in
subfolders by ecosystem. Nothing is unpacked to disk.
"""

import os
import zipfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

from msgspec import DecodeError, Struct, field
from msgspec.json import Decoder

from diffchecks import name_some
from diffchecks.dependencies.advisories import Advisory, Names, package_key
from diffchecks.dependencies.version_order import ECOSYSTEMS

MAX_ADVISORY_BYTES = 4 << 20  # bytes of one advisory
MAX_BYTES = 4 << 30  # of all that are read
MAX_FILES = 2_000_000
MAX_FOUND = 64 << 20  # bytes of the advisories that are kept
PROBLEMS_SHOWN = 3

_names, _whole = Decoder(Names), Decoder(Advisory)


class Search(Struct):
    """The advisories of a dump for some packages.

    Attributes:
        found: by id.
        read: number of advisories that were read.
        passed_over: folders of other ecosystems than the wanted ones.
        broken: names of files that are no advisories.
        stopped: why the dump was not read to its end; empty if it was.
    """

    found: dict[str, Advisory] = field(default_factory=dict)
    read: int = 0
    ecosystems: set[str] = field(default_factory=set)
    passed_over: int = 0
    broken: list[str] = field(default_factory=list)
    stopped: str = ""

    def problems(self, wanted: Collection[str]) -> list[str]:
        """The parts of the dump that were not read, and the wanted ecosystems that it lacks."""
        found = [self.stopped] if self.stopped else []
        if self.broken:
            shown = name_some(self.broken, PROBLEMS_SHOWN)
            found.append(f"holds files that are no OSV advisories: {shown}; fetch it again")
        if missing := sorted({*wanted} - self.ecosystems):
            found.append(f"has no advisories of {', '.join(missing)}; fetch those too")
        return found


def search_dump(place: Path, wanted: Collection[tuple[str, str]]) -> Search:
    """Read every advisory of a dump, and keep those of the wanted packages.

    Args:
        wanted: ecosystem and name, normalized by the ecosystem's rules.

    Raises:
        OSError: the dump cannot be opened.
    """
    search, ecosystems = Search(), {ecosystem for ecosystem, _ in wanted}
    total = kept = 0
    for name, data in _files(place, ecosystems, search):
        total += len(data)
        if total > MAX_BYTES or search.read + len(search.broken) >= MAX_FILES:
            search.stopped = "is larger than is read; give the folders of your ecosystems alone"
            break
        try:
            names = _names.decode(data)
            search.read += 1
            affected = [one.package for one in names.affected or () if one.package]
            keys = {package_key(one) for one in affected}
            search.ecosystems |= {ecosystem for ecosystem, _ in keys}
            if names.withdrawn or keys.isdisjoint(wanted):
                continue
            search.found[names.id] = _whole.decode(data)
            kept += len(data)
        except (DecodeError, UnicodeDecodeError, RecursionError):
            search.broken.append(name)
        if kept > MAX_FOUND:
            search.stopped = "has more advisories for the changed packages than are read"
            break
    return search


def _files(place: Path, ecosystems: Collection[str], search: Search) -> Iterator[tuple[str, bytes]]:
    """The name and content of each JSON file of a dump; larger ones are broken."""
    if not place.is_dir():
        yield from _members(place, search)
        return
    for folder, directories, names in os.walk(place, onerror=_raise):
        # A folder of an ecosystem that the change does not touch.
        needed = [name for name in directories if name not in ECOSYSTEMS or name in ecosystems]
        search.passed_over += len(directories) - len(needed)
        directories[:] = sorted(needed)
        listed = frozenset(names)
        for name in sorted(names):
            file = os.path.join(folder, name)
            if name.endswith(".json"):
                data = _read(file)
                if len(data) > MAX_ADVISORY_BYTES:
                    search.broken.append(name)
                else:
                    yield name, data
            elif name.endswith(".zip") and not any(one.endswith(".json") for one in listed):
                yield from _members(Path(file), search)


def _read(file: str) -> bytes:
    """The bytes of a file, at most one more than an advisory may have.

    There are thousands of files, so it avoids allocations such as buffers.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(descriptor, min(os.fstat(descriptor).st_size, MAX_ADVISORY_BYTES) + 1)
    finally:
        os.close(descriptor)


def _raise(error: OSError) -> None:
    raise error


def _members(place: Path, search: Search) -> Iterator[tuple[str, bytes]]:
    """The JSON files of an archive; each is read only up to the maximum size of an advisory."""
    try:
        with zipfile.ZipFile(place) as archive:
            for member in archive.infolist():
                if not member.filename.endswith(".json"):
                    continue
                with archive.open(member) as stream:
                    data = stream.read(MAX_ADVISORY_BYTES + 1)
                if len(data) > MAX_ADVISORY_BYTES:
                    search.broken.append(member.filename)
                else:
                    yield member.filename, data
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
        ValueError,
    ):
        search.broken.append(place.name)
