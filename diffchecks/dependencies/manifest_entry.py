"""The entries of a manifest, in a common form for all kinds of manifests."""

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

_UNENCRYPTED = re.compile(r"(?:\w+\+)?(?:http|ftp)://(?!localhost\b|127\.|\[::1\])", re.IGNORECASE)


class Dependency(Struct, frozen=True):
    """A dependency that a manifest declares.

    Attributes:
        name: as its ecosystem compares names.
        written: as written in the file, to find its line.
        spec: the allowed versions; empty: any.
        source: where it comes from if not from the registry; else empty.
        version_name: the name of its version if another line defines that; else empty.
    """

    name: str
    written: str
    spec: str
    source: str = ""
    version_name: str = ""


class SourceSetting(Struct, frozen=True):
    """A setting about package sources that is a finding if it is new.

    Attributes:
        code: of the finding.
        written: as written in the file, to find its line.
        message: of the finding, one sentence.
    """

    code: str
    written: str
    message: str


class Manifest(Struct, frozen=True):
    """The content of a manifest, or of a package manager's configuration.

    Attributes:
        ecosystem: as advisories call it, such as ``PyPI``.
        dependencies: by name; of several with one name, the last.
        hooks: scripts that run on every installation: name → command.
        settings: risky package sources.
        own_name: of the package that it describes, as far as it says so.
    """

    ecosystem: str
    dependencies: Mapping[str, Dependency]
    hooks: Mapping[str, str]
    settings: tuple[SourceSetting, ...]
    own_name: str = ""


NOTHING = Manifest("", {}, {}, ())


def manifest(
    ecosystem: str,
    found: Iterable[Dependency] = (),
    hooks: Mapping[str, str] | None = None,
    settings: Iterable[SourceSetting] = (),
    own_name: object = "",
) -> Manifest:
    """Build a manifest from its parts."""
    by_name = {dependency.name: dependency for dependency in found}
    return Manifest(ecosystem, by_name, hooks or {}, tuple(settings), str(own_name or ""))


def registry(option: str, url: str, code: str = "") -> Iterator[SourceSetting]:
    """A registry from which packages are installed.

    Args:
        option: the option that names it.
        code: of the finding if it is encrypted; empty: none.
    """
    if _UNENCRYPTED.match(url):
        yield insecure(url, f"{option} {url}: packages are downloaded without encryption")
    elif code:
        index = "another index" if code == "extra-index" else "this registry"
        yield SourceSetting(code, url, f"{option} {url}: packages can come from {index}")


def insecure(written: str, message: str) -> SourceSetting:
    """A registry without TLS."""
    return SourceSetting("insecure-registry", written, message)
