"""Packages that a change adds or updates, from its lock files, else from exact pins."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial

from msgspec import Struct

from diffchecks.check_io import CheckReply, Gap, Source, read
from diffchecks.data_files import any_of, read_map, read_names
from diffchecks.dependencies.lock_file_entries import LockEntry, is_lock_file, read_entries
from diffchecks.dependencies.lock_files import Places
from diffchecks.dependencies.manifests import find_manifest, go_modules, is_manifest, read_manifest
from diffchecks.jobs import ChangedFile, ComparisonJob

MAX_LOCK_FILE = 24 << 20  # bytes


class Package(Struct, frozen=True):
    """One version of a package, and where head requests it.

    Attributes:
        name: normalized for its ecosystem.
        line: returns the line in ``path``.
        before: its versions in the same file of base.
    """

    ecosystem: str
    name: str
    version: str
    path: str
    line: Callable[[], int]
    before: tuple[str, ...] = ()


def run(job: ComparisonJob) -> CheckReply:
    """The ecosystems and names of what ``list_changed`` finds, as the fact ``packages``."""
    return CheckReply(
        facts={"packages": sorted({(p.ecosystem, p.name) for p in list_changed(job)})}
    )


def list_changed(job: ComparisonJob) -> list[Package]:
    """Packages at versions that the same file of base did not have, each version once.

    Unreadable files are left out: the check ``dependencies`` reports them.
    """
    files = [file for file in job.files if file.status != "deleted"]
    locked: set[tuple[str, str, str]] = set()
    found: dict[tuple[str, str, str], Package] = {}
    for file in files:
        with suppress(Gap):
            for package in _of_lock_file(job, file, locked):
                found.setdefault((package.ecosystem, package.name, package.version), package)
    for file in files:
        with suppress(Gap):
            for package in _of_manifest(job, file):
                if not _is_locked(package, locked):
                    found.setdefault((package.ecosystem, package.name, package.version), package)
    return list(found.values())


def _is_locked(package: Package, locked: Collection[tuple[str, str, str]]) -> bool:
    """Whether a lock file beside a manifest, or in a directory above it, pins the version."""
    folder = package.path
    while folder:
        folder = folder.rpartition("/")[0]
        if (package.ecosystem, package.name, folder) in locked:
            return True
    return False


def _of_lock_file(
    job: ComparisonJob, file: ChangedFile, locked: set[tuple[str, str, str]]
) -> Iterator[Package]:
    """The changed packages of one lock file; adds all its packages to ``locked``."""
    path, old = file.path, file.old_path
    kind = path.rpartition("/")[2]
    if not (is_lock_file(path) or kind == "go.mod") or kind in read_names("no_packages"):
        return
    ecosystem = read_map("file_kinds.yaml", "ecosystems").get(kind, "PyPI")
    head = Source(path, read(job.head_root, path, MAX_LOCK_FILE))
    before: Mapping[str, set[str]] = defaultdict(set)
    if old and old.rpartition("/")[2] == kind:
        with suppress(Gap):
            base = Source(old, read(job.base_root, old, MAX_LOCK_FILE))
            for entry in _entries(base):
                before[entry.name].add(_version(entry))
    places, folder = Places(head, set(file.added)), path.rpartition("/")[0]
    for entry in _entries(head):
        name = normalize(ecosystem, entry.name)
        locked.add((ecosystem, name, folder))
        version, known = _version(entry), before.get(entry.name, ())
        if version and version not in known and not (entry.git or entry.path):
            locate = partial(places.line, "", entry)
            yield Package(ecosystem, name, version, path, locate, tuple(sorted(known)))


def _version(entry: LockEntry) -> str:
    """The version without the operator of a Pipfile.lock, or the peers of pnpm."""
    return entry.version.removeprefix("==").partition("(")[0]


def _entries(source: Source) -> list[LockEntry]:
    if source.path.endswith("go.mod"):
        return list(go_modules(source.text))
    return read_entries(source.path, source.text)


def _of_manifest(job: ComparisonJob, file: ChangedFile) -> Iterator[Package]:
    path, old = file.path, file.old_path
    if not is_manifest(path) or path.endswith("go.mod"):
        return
    head, before = Source(path, read(job.head_root, path)), find_manifest(job.base_root, old)
    pins = {name: dependency.spec for name, dependency in before.dependencies.items()}
    after = read_manifest(path, head.text)
    exact = any_of("file_kinds.yaml", "exact_pins", after.ecosystem)
    places = Places(head, set(file.added))
    for name, dependency in after.dependencies.items():
        found = exact.fullmatch(dependency.spec.strip())
        if found and not dependency.source and pins.get(name) != dependency.spec:
            entry = LockEntry(dependency.written, found[1])
            old_pin = exact.fullmatch(pins.get(name, "").strip())
            known, locate = (old_pin[1],) if old_pin else (), partial(places.line, "", entry)
            own = normalize(after.ecosystem, name)
            yield Package(after.ecosystem, own, found[1], path, locate, known)


def normalize(ecosystem: str, name: str) -> str:
    """A package's name as its ecosystem compares names."""
    if ecosystem == "PyPI":
        return re.sub(r"[-_.]+", "-", name).lower()
    return name.lower() if ecosystem == "Packagist" else name
