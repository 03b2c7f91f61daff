"""The entries of a manifest, in a common form for all kinds, and where packages come from."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from diffchecks.check_io import Gap, table, tables, text_of
from diffchecks.data_files import read_patterns

_PATTERNS = read_patterns("package_sources")


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
        scripts: every one that it names.
    """

    ecosystem: str
    dependencies: Mapping[str, Dependency]
    hooks: Mapping[str, str]
    settings: tuple[SourceSetting, ...]
    own_name: str = ""
    scripts: Mapping[str, Any] = {}


def repository(source: str) -> str:
    """The host and path of a repository, in whatever way it is written; of GitHub, the path."""
    found = _PATTERNS["repository"].fullmatch(source)
    return found["place"].lower() if found else ""


NOTHING = Manifest("", {}, {}, ())


def declared(document: Any, kind: type, *keys: str) -> Any:
    """The dependencies under nested keys, in a list or a table; empty without any.

    Raises:
        Gap: they are in something of another kind.
    """
    found = table(document, *keys[:-1]).get(keys[-1]) or kind()
    if not isinstance(found, kind):
        what = f"{'.'.join(keys)} is no {'list' if kind is list else 'table'}"
        raise Gap(f"its dependencies could not be read: {what}")
    return found


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
        code: of the finding if it is encrypted; empty: none.
    """
    if _PATTERNS["unencrypted"].match(url):
        yield insecure(url, f"{option} {url}: packages are downloaded without encryption")
    elif code:
        index = "another index" if code == "extra-index" else "this registry"
        yield SourceSetting(code, url, f"{option} {url}: packages can come from {index}")


def insecure(written: str, message: str) -> SourceSetting:
    """A registry without TLS."""
    return SourceSetting("insecure-registry", written, message)


def pip_configuration(text: str) -> Manifest:
    """A pip.conf."""
    return manifest("PyPI", settings=pip_options("pip_setting", text, ""))


def pip_options(kind: str, text: str, dashes: str = "--") -> Iterator[SourceSetting]:
    """Options in a requirements file, or settings of another kind."""
    for option, value in _PATTERNS[kind].findall(text):
        name = f"{dashes if len(option) > 1 else '-'}{option}"
        if option == "trusted-host":
            yield insecure(value, f"{name} {value}: its certificate is not verified")
        else:
            yield from registry(name, value, "extra-index" if option == "extra-index-url" else "")


def python_indexes(tool: Mapping[str, Any]) -> Iterator[SourceSetting]:
    """Indexes that ``[tool]`` of a pyproject.toml gives to Poetry, uv and PDM."""
    listed = [*tables(tool, "uv", "index"), *tables(tool, "pdm", "source")]
    for index in [*tables(tool, "poetry", "source"), *listed]:
        # An index that is named for each package, or replaces the default one, adds no names.
        chosen = index.get("explicit") or index.get("default") or index.get("name") == "pypi"
        chosen = chosen or text_of(index.get("priority")) in {"explicit", "default"}
        url = str(index.get("url", ""))
        yield from registry("index", url, "" if chosen or "//pypi.org/" in url else "extra-index")
        if index.get("verify_ssl") is False:
            yield insecure("verify_ssl", f"index {url}: its certificate is not verified")
    uv = table(tool, "uv")
    for url in declared(uv, list, "extra-index-url"):
        yield from registry("extra-index-url", str(url), "extra-index")
    yield from registry("index-url", text_of(uv.get("index-url")))


def pipenv(document: Mapping[str, Any]) -> Iterator[SourceSetting]:
    """Sources of a Pipfile; each package uses the first one unless it names another."""
    for source in tables(document, "source"):
        url = str(source.get("url", ""))
        yield from registry("source", url)
        if source.get("verify_ssl") is False:
            yield insecure("verify_ssl", f"source {url}: its certificate is not verified")


def npmrc(text: str) -> Manifest:
    """An .npmrc, also of pnpm, or a .yarnrc or .yarnrc.yml of Yarn."""
    found: list[SourceSetting] = []
    for option, url in _PATTERNS["npm_registry"].findall(text):
        known = option.startswith("@") or _PATTERNS["npm_hosts"].match(url)
        found += registry(option, url, "" if known else "registry")
    for option in _PATTERNS["npm_unverified"].findall(text):
        found.append(insecure(option, f"{option}: packages are downloaded unprotected"))
    return manifest("npm", settings=found)


def composer(document: Mapping[str, Any]) -> Iterator[SourceSetting]:
    """Repositories and settings of a composer.json."""
    for repository in tables(document, "repositories"):
        if repository.get("type") != "path":
            archive = table(repository, "package", "dist").get("url", "")
            url = str(repository.get("url", archive))
            yield from registry("repository", url, "registry" if "://" in url else "")
    settings = table(document, "config")
    for option, value in (("secure-http", False), ("disable-tls", True)):
        if settings.get(option) is value:
            yield insecure(option, f"{option}: packages may be downloaded without encryption")


def bundler(text: str) -> Iterator[SourceSetting]:
    """Sources of a Gemfile; with two global sources, either may provide a gem."""
    count = 0
    for url, block in _PATTERNS["gem_source"].findall(text):
        count += not block
        yield from registry("source", url, "extra-index" if count > 1 and not block else "")
    for url in _PATTERNS["gem_option"].findall(text):
        yield from registry("source", url)


def go_replacements(text: str) -> Iterator[SourceSetting]:
    """Modules that a go.mod replaces with another module, not with a directory."""
    for module, other in _PATTERNS["go_replacement"].findall(text):
        if other != module:  # otherwise it only pins a version
            yield SourceSetting("replaced", other, f"{module} is replaced by {other}")
