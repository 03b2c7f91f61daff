"""One package of a lock file, in a common form for all kinds of lock files."""

import re
from typing import Any

from msgspec import Struct

URL = re.compile(r"[a-z][a-z0-9+.-]*://|git@", re.IGNORECASE)


class LockEntry(Struct, frozen=True):
    """One package of a lock file.

    Attributes:
        name, version: as written.
        source: URL of its registry, archive or repository; empty if the file has none.
        digests: of its content, with which an installer detects a replaced file.
        script: it runs an install script.
        exempt: it needs no digest, since it is a local directory or a repository at a commit.
        git: the source is a repository.
        path: the local directory or file of its source; empty: none.
        urls: download locations of its files, one URL for each host.
        files: file name → digest, if the lock file has several.
    """

    name: str
    version: str
    source: str = ""
    digests: tuple[str, ...] = ()
    script: bool = False
    exempt: bool = False
    git: bool = False
    path: str = ""
    urls: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()


def digests(*found: Any) -> tuple[str, ...]:
    """The nonempty digests, sorted."""
    return tuple(sorted({str(digest) for digest in found if digest}))
