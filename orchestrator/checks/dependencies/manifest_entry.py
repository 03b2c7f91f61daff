"""What a manifest declares, in a form that all kinds of manifests share."""

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

_UNENCRYPTED = re.compile(r"(?:\w+\+)?(?:http|ftp)://(?!localhost\b|127\.|\[::1\])", re.IGNORECASE)


class Dependency(Struct, frozen=True):
    """A dependency that a manifest declares.

    Attributes:
        name: as its ecosystem compares names.
        written: as written in the file, to find its line.
        spec: the versions that it allows; empty for any.
        source: where it comes from when not from the registry; empty else.
        version_name: what its version is called where it stands in another line; empty else.
    """

    name: str
    written: str
    spec: str
    source: str = ""
    version_name: str = ""


class Setting(Struct, frozen=True):
    """Something that a file says about where packages come from, and that is a finding when new.

    Attributes:
        code: of the finding.
        written: as written in the file, to find its line.
        message: of the finding; one sentence.
    """

    code: str
    written: str
    message: str


class Manifest(Struct, frozen=True):
    """What a manifest, or the configuration of a package manager, declares.

    Attributes:
        ecosystem: as advisories call it, such as ``PyPI``.
        dependencies: by name; of several with one name, the last.
        hooks: scripts that run at every installation: name → command.
        settings: where packages are taken from, as far as that is a risk.
    """

    ecosystem: str
    dependencies: Mapping[str, Dependency]
    hooks: Mapping[str, str]
    settings: tuple[Setting, ...]


NOTHING = Manifest("", {}, {}, ())


def manifest(
    ecosystem: str,
    found: Iterable[Dependency] = (),
    hooks: Mapping[str, str] | None = None,
    settings: Iterable[Setting] = (),
) -> Manifest:
    """A manifest of its parts."""
    by_name = {dependency.name: dependency for dependency in found}
    return Manifest(ecosystem, by_name, hooks or {}, tuple(settings))


def registry(option: str, url: str, code: str = "") -> Iterator[Setting]:
    """A registry that packages are taken from.

    Args:
        option: what names it.
        code: of the finding where it is encrypted; empty: none.
    """
    if _UNENCRYPTED.match(url):
        yield insecure(url, f"{option} {url}: packages are downloaded without encryption")
    elif code:
        index = "another index" if code == "extra-index" else "this registry"
        yield Setting(code, url, f"{option} {url}: packages can come from {index}")


def insecure(written: str, message: str) -> Setting:
    """A registry that is not protected by TLS."""
    return Setting("insecure-registry", written, message)
