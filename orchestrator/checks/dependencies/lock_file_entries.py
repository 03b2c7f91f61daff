"""What lock files record of each package: its version, where it comes from, and its digests."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from orchestrator.checks.check_io import Gap


class Entry(Struct, frozen=True):
    """One package of a lock file.

    Attributes:
        name, version: as written.
        source: URL that it is downloaded from; empty where the file names none.
        digests: of its content, by which an installer notices a replaced file.
        script: it runs a script of its own when it is installed.
        exempt: it is a local folder or a repository at a commit, so that it has no digest.
    """

    name: str
    version: str
    source: str = ""
    digests: tuple[str, ...] = ()
    script: bool = False
    exempt: bool = False


_URL = re.compile(r"[a-z][a-z0-9+.-]*://|git@", re.IGNORECASE)
_YARN_HEAD = re.compile(r'^"?(@?[^@\s"]+)@[^\n]*:$')
_YARN_FIELD = re.compile(
    r'^  "?(version|resolved|integrity|resolution|checksum)"?:? "?([^"\n]+)"?$'
)
_PNPM_HEAD = re.compile(r"^  '?/?(@?[^@\s':]+)[@/]([^:\s'(]+)[^:\s]*'?:$")
_PNPM_FIELD = re.compile(r"\b(integrity|tarball|requiresBuild):\s*['\"]?([^,}'\"\s]+)")
_GEM_SOURCE = re.compile(r"^  remote: (\S+)$")
_GEM = re.compile(r"^    ([\w.-]+) \(([^)]+)\)$")
_GEM_DIGEST = re.compile(r"^  ([\w.-]+) \(([^)]+)\)(?: (\S+))?$")
_GO_SUM = re.compile(r"^(\S+) (v\S+) (h1:\S+)$")


def read_entries(path: str, text: str) -> list[Entry]:
    """Read a lock file by its name.

    Raises:
        Gap: it does not have the form of its kind.
    """
    try:
        return list(_READERS[path.rpartition("/")[2]](text))
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise Gap(f"its packages could not be read: {type(error).__name__}") from None


def is_lock_file(path: str) -> bool:
    """Whether a file of this name is a lock file that is read."""
    return path.rpartition("/")[2] in _READERS


def _npm(text: str) -> Iterator[Entry]:
    document = json.loads(text)
    for place, package in document.get("packages", {}).items():
        if place and not package.get("link"):
            yield _npm_entry(place.rpartition("node_modules/")[2], package)
    if "packages" not in document:
        waiting = [document.get("dependencies", {})]
        while waiting:
            for name, package in waiting.pop().items():
                yield _npm_entry(name, package)
                waiting.append(package.get("dependencies", {}))


def _npm_entry(name: str, package: Mapping[str, Any]) -> Entry:
    version, source = str(package.get("version", "")), str(package.get("resolved", ""))
    source = source or (version if _URL.match(version) else "")
    script = bool(package.get("hasInstallScript"))
    # Without a URL it is a workspace's folder, or part of another package.
    exempt = not source or source.startswith(("git", "file:"))
    return Entry(name, version, source, _digests(package.get("integrity")), script, exempt)


def _digests(*found: Any) -> tuple[str, ...]:
    return tuple(sorted(str(digest) for digest in found if digest))


def _yarn(text: str) -> Iterator[Entry]:
    name, fields = "", dict[str, str]()
    for line in [*text.split("\n"), '"end@":']:
        if head := _YARN_HEAD.match(line.rstrip("\r")):
            if name and "version" in fields:
                yield _yarn_entry(name, fields)
            name, fields = head[1], {}
        elif field := _YARN_FIELD.match(line.rstrip("\r")):
            fields[field[1]] = field[2]


def _yarn_entry(name: str, fields: Mapping[str, str]) -> Entry:
    locator = fields.get("resolution", "").removeprefix(f"{name}@")
    source, _, fragment = fields.get("resolved", locator).partition("#")
    exempt = not _URL.match(source) or source.startswith("git")
    digests = _digests(fields.get("integrity"), fields.get("checksum"), fragment)
    # A registry package of Yarn 2 has no URL, and its checksum may be left out by a setting.
    source = source if _URL.match(source) else ""
    return Entry(name, fields["version"], source, digests, exempt=exempt and not digests)


def _pnpm(text: str) -> Iterator[Entry]:
    section, head, fields = "", ("", ""), dict[str, str]()
    for line in [*text.split("\n"), "end:"]:
        if (found := _PNPM_HEAD.match(line)) or (line[:1].strip() and line[:1] != "#"):
            if head[0] and section == "packages:":
                yield _pnpm_entry(*head, fields)
            head, fields = ((found[1], found[2]) if found else ("", "")), {}
            section = section if found else line.strip()
        for key, value in _PNPM_FIELD.findall(line):
            fields[key] = value


def _pnpm_entry(name: str, version: str, fields: Mapping[str, str]) -> Entry:
    tarball = fields.get("tarball", "")
    digests = _digests(fields.get("integrity"))
    script = fields.get("requiresBuild") == "true"
    exempt = version.startswith(("file:", "link:")) or "codeload.github.com" in tarball
    return Entry(name, version, tarball, digests, script, exempt)


def _python(text: str) -> Iterator[Entry]:
    """poetry.lock, uv.lock and pdm.lock."""
    document = tomllib.loads(text)
    old = document.get("metadata", {}).get("files", {})
    for package in document.get("package", ()):
        name, source = package["name"], package.get("source", {})
        files = [*package.get("files", old.get(name, ())), *package.get("wheels", ())]
        files += [package["sdist"]] if "sdist" in package else []
        url = source.get("url") or source.get("git") or source.get("registry") or ""
        urls = [str(file["url"]) for file in files if "url" in file]
        strange = next((one for one in urls if one.startswith("http:")), "")
        local = any(key in source for key in ("editable", "virtual", "directory", "path", "git"))
        exempt = local or source.get("type") in {"git", "directory"}
        digests = _digests(*(file.get("hash") for file in files))
        yield Entry(name, str(package.get("version", "")), strange or url, digests, exempt=exempt)


def _pipfile(text: str) -> Iterator[Entry]:
    document = json.loads(text)
    for source in document["_meta"].get("sources", ()):
        yield Entry(str(source["name"]), "", str(source["url"]), exempt=True)
    for group in ("default", "develop"):
        for name, package in document.get(group, {}).items():
            source = str(package.get("git") or package.get("file") or "")
            exempt = bool(source) or "path" in package
            digests = _digests(*package.get("hashes", ()))
            yield Entry(name, str(package.get("version", "")), source, digests, exempt=exempt)


def _cargo(text: str) -> Iterator[Entry]:
    for package in tomllib.loads(text).get("package", ()):
        source = str(package.get("source", "")).partition("+")
        exempt = source[0] in {"", "git"}
        digests = _digests(package.get("checksum"))
        yield Entry(package["name"], str(package["version"]), source[2], digests, exempt=exempt)


def _go(text: str) -> Iterator[Entry]:
    for line in text.split("\n"):
        if found := _GO_SUM.match(line.rstrip()):
            yield Entry(found[1], found[2], "", (found[3],))


def _gems(text: str) -> Iterator[Entry]:
    digests = {
        (found[1], found[2]): found[3] or ""
        for line in text.partition("\nCHECKSUMS\n")[2].split("\n")
        if (found := _GEM_DIGEST.match(line))
    }
    section = source = ""
    for line in text.split("\n"):
        if line[:1].strip():
            section, source = line.strip(), ""
        elif found := _GEM_SOURCE.match(line):
            source = found[1]
        elif found := _GEM.match(line):
            exempt = section != "GEM" or not digests
            digest = _digests(digests.get((found[1], found[2])))
            yield Entry(
                found[1], found[2], "" if section == "PATH" else source, digest, exempt=exempt
            )


def _composer(text: str) -> Iterator[Entry]:
    document = json.loads(text)
    for package in [*document.get("packages", ()), *document.get("packages-dev", ())]:
        dist, source = package.get("dist") or {}, package.get("source") or {}
        url = str(dist.get("url") or source.get("url") or "")
        exempt = dist.get("type") == "path" or not dist
        # Packages from a code host have a commit, and no checksum of their archive.
        digests = _digests(dist.get("shasum"), dist.get("reference"))
        yield Entry(package["name"], str(package["version"]), url, digests, exempt=exempt)


_READERS: Mapping[str, Callable[[str], Iterator[Entry]]] = {
    "package-lock.json": _npm,
    "npm-shrinkwrap.json": _npm,
    "yarn.lock": _yarn,
    "pnpm-lock.yaml": _pnpm,
    "poetry.lock": _python,
    "pdm.lock": _python,
    "uv.lock": _python,
    "Pipfile.lock": _pipfile,
    "Cargo.lock": _cargo,
    "go.sum": _go,
    "Gemfile.lock": _gems,
    "composer.lock": _composer,
}
