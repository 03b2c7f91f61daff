"""One package of a lock file, in a form that all kinds of lock files share."""

import re
import tomllib
from typing import Any

from msgspec import Struct

URL = re.compile(r"[a-z][a-z0-9+.-]*://|git@", re.IGNORECASE)


# Reading a key takes the square of its parts.
_LONG_KEY = re.compile(r"""(?<!["'\w.-])(?:["'\w-]++[ \t]*+\.[ \t]*+){200}""")


def load_toml(text: str) -> dict[str, Any]:
    """Parse TOML in a time that its size bounds.

    Raises:
        TOMLDecodeError: it is none.
        RecursionError: it is nested too deeply, or has keys of hundreds of parts.
    """
    if _LONG_KEY.search(text):
        raise RecursionError
    return tomllib.loads(text)


class Entry(Struct, frozen=True):
    """One package of a lock file.

    Attributes:
        name, version: as written.
        source: URL of its registry, archive or repository; empty where the file names none.
        digests: of its content, by which an installer notices a replaced file.
        script: it runs a script of its own when it is installed.
        exempt: it is a local folder or a repository at a commit, so that it has no digest.
        git: the source is a repository.
        path: the local folder or file that it is taken from; empty: none.
        urls: where its files are downloaded from, one URL of each host.
        files: the digest of each file by its name, where the lock file has several.
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
    """The digests that are there, sorted."""
    return tuple(sorted({str(digest) for digest in found if digest}))
