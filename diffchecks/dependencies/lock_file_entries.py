"""The entries of lock files: each package's version, source and digests, in a common form.

A file that is read line by line raises ``MalformedError`` for an unexpected line, so that a
truncated or badly merged file is not taken for one with fewer packages.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from diffchecks.check_io import Gap, load_toml
from diffchecks.data_files import read_patterns

URL = re.compile(r"[a-z][a-z0-9+.-]*://|git@", re.IGNORECASE)


class LockEntry(Struct, frozen=True):
    """One package of a lock file.

    Attributes:
        name, version: as written.
        source: URL of its registry, archive or repository; empty if the file has none.
        digests: of its content, with which an installer detects a replaced file.
        script: it runs an install script.
        exempt: it needs no digest; nor do a path and a repository at a commit.
        git, unfetched: from a repository; in another package's archive, or for another platform.
        declared: a manifest names the repository.
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
    unfetched: bool = False
    declared: bool = False
    path: str = ""
    urls: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and isinstance(self.version, str)):
            raise TypeError

    @property
    def is_exempt(self) -> bool:
        """Whether it needs no digest."""
        return self.exempt or self.git or bool(self.path)


def digests(*found: Any) -> tuple[str, ...]:
    """The nonempty digests, sorted."""
    return tuple(sorted({str(digest) for digest in found if digest}))


_PATTERNS = read_patterns("lock_file_entries")
_YARN_LOCAL = frozenset({"file", "link", "portal", "workspace"})
_HEX = "https://repo.hex.pm/"
_ARCHIVES = "//codeload.github.com/"  # of commits


class MalformedError(Exception):
    """An unexpected line; ``str()`` says which and why."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(f"line {number} {why}")


def yarn(text: str) -> Iterator[LockEntry]:
    """Read a yarn.lock, of Yarn 1 or later."""
    name, begins, fields = "", 0, dict[str, str]()
    for number, raw in enumerate([*text.split("\n"), '"end@":'], 1):
        line = raw.rstrip("\r")
        if line.count('"') % 2:
            raise MalformedError(number, "has a quote that is not closed")
        if line[:1] in {"", " ", "#"} or line == ":":
            if field := _PATTERNS["yarn_field"].match(line):
                fields[field[1]] = field[2]
            continue
        if name and "version" not in fields:
            raise MalformedError(begins, "begins a package without a version")
        # What is patched has an entry of its own.
        if name and "@patch:" not in fields.get("resolution", ""):
            yield _yarn_entry(name, fields)
        head = _PATTERNS["yarn_head"].match(line)
        if head is None and line != "__metadata:":
            raise MalformedError(number, "names no package")
        name, begins = (head[2] or head[1]) if head else "", number
        fields = {"wanted": line.partition(f"{name}@")[2].strip('":')}


def _yarn_entry(name: str, fields: Mapping[str, str]) -> LockEntry:
    locator = fields.get("resolution", fields["wanted"]).removeprefix(f"{name}@")
    source, _, fragment = fields.get("resolved", locator).partition("#")
    git = source.startswith(("git", "ssh:")) or source.endswith(".git") or _ARCHIVES in source
    found = digests(fields.get("integrity"), fields.get("checksum"), "" if git else fragment)
    # A registry package of Yarn 2 has no URL, and its checksum may be left out by a setting.
    exempt = not URL.match(source) and not found
    kind, _, path = source.partition(":")
    path = path.partition("::")[0] if kind in _YARN_LOCAL else ""
    source = source if URL.match(source) else ""
    entry = LockEntry(name, fields["version"], source, found, exempt=exempt, git=git, path=path)
    # Yarn 2 writes no checksum for a platform that is not its own.
    return replace(entry, unfetched="conditions" in fields)


def pnpm(text: str) -> Iterator[LockEntry]:
    """Read a pnpm-lock.yaml."""
    if "lockfileVersion:" not in text[:200]:
        raise MalformedError(1, "names no version of the format")
    sections, key, begins, block = [""], "", 0, list[str]()
    for number, raw in enumerate([*text.split("\n"), "end:"], 1):
        line = raw.rstrip()
        outer = line[:1] not in {"", " ", "#", "-"}
        inner = sections[-1] == "packages" and bool(_PATTERNS["pnpm_inner"].match(line))
        if not (outer or inner):
            block.append(line)
            continue
        if key:
            yield _pnpm_entry(key, begins, " ".join(block))
        key, begins, block = "", number, []
        if outer:
            sections.append(line.partition(":")[0])
        elif line.endswith(":") or line.startswith("  ? "):
            key = line.strip().removeprefix("? ").removesuffix(":").strip("'\"")
        else:
            raise MalformedError(number, "names no package")
    if (
        _PATTERNS["pnpm_9"].search(text[:200])
        and "packages" in sections
        and "snapshots" not in sections
    ):
        raise MalformedError(text.count("\n") + 1, "ends the file before its snapshots")


def _pnpm_entry(key: str, begins: int, block: str) -> LockEntry:
    if "resolution:" not in block:
        raise MalformedError(begins, "begins a package without a resolution")
    found = _PATTERNS["pnpm_field"].findall(block)
    fields = dict(found)
    key = key.removeprefix("/").partition("(")[0]
    old = _PATTERNS["pnpm_old_key"].match(key)
    # The first letter may be the @ of a scope.
    name, _, version = key[1:].partition("@")
    name, version = old.groups() if old else (key[:1] + name, version)
    git = "repo" in fields or _ARCHIVES in fields.get("tarball", "")
    path = fields.get("directory", "") or (version[5:] if version[:5] == "file:" else "")
    source, script = fields.get("repo") or fields.get("tarball", ""), "requiresBuild: true" in block
    digest = digests(*(value for field, value in found if field == "integrity"))
    return LockEntry(name, version, source, digest, script=script, git=git, path=path)


def go_sum(text: str) -> Iterator[LockEntry]:
    """Read a go.sum."""
    for number, line in enumerate(text.split("\n"), 1):
        found = _PATTERNS["go_sum"].fullmatch(line.rstrip())
        if found:
            yield LockEntry(found[1], found[2], "", (found[3],))
        elif line.strip():
            raise MalformedError(number, "is no module, version and digest")


def gradle(text: str) -> Iterator[LockEntry]:
    """Read a gradle.lockfile."""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        found = _PATTERNS["gradle"].fullmatch(line)
        if found:
            yield LockEntry(found[1], found[2], exempt=True)
        elif line and not line.startswith(("#", "empty=")):
            raise MalformedError(number, "is no module, version and configurations")


def wrapper(text: str) -> Iterator[LockEntry]:
    """Read the properties of a Gradle or Maven wrapper: the build tool that it downloads."""
    found = dict(_PATTERNS["property"].findall(text))
    url = found.get("distributionUrl", "").replace("\\:", ":")
    if not url:
        raise MalformedError(1, "names no distribution")
    named = _PATTERNS["distribution"].search(url)
    name, version = named.groups() if named else ("distributionUrl", "")
    yield LockEntry(name, version, url, digests(found.get("distributionSha256Sum")))


def gems(text: str) -> Iterator[LockEntry]:
    """Read a Gemfile.lock."""
    if not re.search(r"^DEPENDENCIES\r?$", text, re.MULTILINE):
        raise MalformedError(text.count("\n") + 1, "ends the file before its dependencies")
    known = {
        (found[1], found[2]): found[3] or ""
        for line in text.partition("\nCHECKSUMS\n")[2].split("\n")
        if (found := _PATTERNS["gem_digest"].match(line))
    }
    section, sources = "", list[str]()
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.rstrip("\r")
        if line[:1].strip():
            section, sources = line, []
            if not _PATTERNS["gem_section"].fullmatch(line):
                raise MalformedError(number, "names no section")
        elif found := _PATTERNS["gem_source"].match(line):
            sources.append(found[1])  # a gem may come from any of a section's
        elif found := _PATTERNS["gem"].match(line):
            digest = digests(known.get((found[1], found[2])))
            exempt, git = section != "GEM" or not known, section == "GIT"
            first, *others = sources or [""]
            url, path = ("", first) if section == "PATH" else (first, "")
            entry = LockEntry(found[1], found[2], url, digest, exempt=exempt, git=git, path=path)
            yield replace(entry, urls=tuple(others)) if others else entry


def _mix(text: str) -> Iterator[LockEntry]:
    """Read a mix.lock, which has a package in a line."""
    first, *lines, last = text.strip().split("\n") if "\n" in text.strip() else ("", "")
    if (first.rstrip(), last) != ("%{", "}"):
        raise MalformedError(text.count("\n") + 1, "ends the file before its list")
    for number, line in enumerate(lines, 2):
        if found := _PATTERNS["hex"].match(line):
            name, version, inner, registry, outer = found.groups("")
            host, _, organization = registry.partition(":")
            url = f"https://{host}/" if host not in {"", "hexpm"} else _HEX
            yield LockEntry(name, version, url + organization, digests(inner, outer))
        elif found := _PATTERNS["hex_git"].match(line):
            yield LockEntry(found[1], found[3], found[2], exempt=True, git=True)
        else:
            raise MalformedError(number, "names no package")


def requirements(text: str) -> Iterator[LockEntry]:
    """Read the exact versions of a requirements file if some have hashes; else nothing."""
    if "--hash" in text:
        yield from pinned(text)


def pinned(text: str) -> Iterator[LockEntry]:
    """Read the exact versions of a requirements file, with their hashes if they have any."""
    for line in re.sub(r"\\\r?\n", " ", text).split("\n"):
        if found := _PATTERNS["hashed"].match(line):
            yield LockEntry(found[1], found[2], "", digests(*_PATTERNS["hash"].findall(line)))


AGAIN = "lock it again with its package manager"


def read_entries(path: str, text: str) -> list[LockEntry]:
    """Read a lock file by its name.

    Raises:
        Gap: the file is malformed.
    """
    if text.strip() in {"", "{}", "%{}"}:
        return []
    try:
        return list(_READERS[path.rpartition("/")[2]](text))
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, MalformedError) as error:
        raise Gap(f"its packages could not be read, {error}; {AGAIN}") from None
    except RecursionError:
        raise Gap(f"its packages could not be read, it is nested too deeply; {AGAIN}") from None
    except (ValueError, TypeError, AttributeError, LookupError):
        raise Gap(f"its packages could not be read, it has an unknown structure; {AGAIN}") from None


def is_lock_file(path: str) -> bool:
    """Whether a file of this name is a lock file that is read."""
    return path.rpartition("/")[2] in _READERS


def _npm(text: str) -> Iterator[LockEntry]:
    document = json.loads(text)
    if document.keys().isdisjoint(("lockfileVersion", "packages", "dependencies")):
        raise KeyError
    for place, package in document.get("packages", {}).items():
        if place:  # outside of node_modules: a directory of the workspace
            own = {} if "node_modules/" in place else {"resolved": f"file:{place}"}
            yield _npm_entry(place.rpartition("node_modules/")[2], own | package)
    if "packages" not in document:
        waiting = [document.get("dependencies", {})]
        while waiting:
            for name, package in waiting.pop().items():
                yield _npm_entry(name, package)
                waiting.append(package.get("dependencies", {}))


def _npm_entry(name: str, package: Mapping[str, Any]) -> LockEntry:
    version, source = str(package.get("version", "")), str(package.get("resolved", ""))
    source = source or (version if URL.match(version) or version[:5] == "file:" else "")
    path = source.removeprefix("file:") if package.get("link") or source[:5] == "file:" else ""
    name, url = str(package.get("name", name)), "" if path else source
    found, script = digests(package.get("integrity")), bool(package.get("hasInstallScript"))
    # Without a URL it is a workspace's directory, or part of another package.
    exempt, git = not source, source.startswith(("git", "ssh:"))
    unfetched = exempt and bool(package.get("bundled") or package.get("inBundle"))
    return LockEntry(name, version, url, found, script, exempt, git, unfetched, path=path)


_LOCAL_KEYS = ("directory", "path", "editable", "virtual")


def _python(text: str) -> Iterator[LockEntry]:
    """poetry.lock, uv.lock and pdm.lock."""
    document = load_toml(text)
    old = document.get("metadata", {}).get("files", {})
    for package in document.get("package", ()):
        name, source = package["name"], package.get("source", {})
        files = [*package.get("files", old.get(name, ())), *package.get("wheels", ())]
        files += [package["sdist"]] if "sdist" in package else []
        git = "git" in source or source.get("type") == "git" or "git" in package
        local = source.get("type") in {"directory", "file"}
        path = next((str(source[key]) for key in _LOCAL_KEYS if key in source), "")
        path = path or str(package.get("path") or (source.get("url", "") if local else ""))
        url = source.get("url") or source.get("git") or source.get("registry") or package.get("git")
        hashes = tuple((str(f.get("file") or f.get("url")), str(f.get("hash"))) for f in files)
        version, url = str(package.get("version", "")), "" if path else str(url or "")
        found = digests(*(file.get("hash") for file in files))
        urls = _one_of_each_host(str(file["url"]) for file in files if "url" in file)
        yield LockEntry(name, version, url, found, git=git, path=path, urls=urls, files=hashes)


def _pylock(text: str) -> Iterator[LockEntry]:
    """pylock.toml, as PEP 751 has it."""
    for package in load_toml(text)["packages"]:
        vcs, folder = package.get("vcs", {}), package.get("directory", {})
        single = [package[key] for key in ("archive", "sdist") if key in package]
        files = [*package.get("wheels", ()), *single]
        path = next((str(each["path"]) for each in (folder, vcs, *files) if "path" in each), "")
        urls = [str(file["url"]) for file in files if "url" in file]
        found = [f"{k}:{value}" for file in files for k, value in file.get("hashes", {}).items()]
        name, version = str(package["name"]), str(package.get("version", ""))
        url = "" if path else str(vcs.get("url") or package.get("index") or next(iter(urls), ""))
        hosts, git = _one_of_each_host(iter(urls)), bool(vcs)
        yield LockEntry(name, version, url, digests(*found), git=git, path=path, urls=hosts)


def _bun(text: str) -> Iterator[LockEntry]:
    """bun.lock: JSON with commas before closing brackets."""
    strict = _PATTERNS["json_comma"].sub(lambda found: found[1] or "", text)
    for given in json.loads(strict)["packages"].values():
        name, _, version = str(given[0]).rpartition("@")
        local = version.startswith(("workspace:", "file:", "link:"))
        git = version.startswith(("git", "ssh:"))
        registry = given[1] if len(given) > 1 and isinstance(given[1], str) else ""
        url = "" if local else version if git or URL.match(version) else registry
        found = digests(*(item for item in given[2:] if str(item).startswith("sha")))
        path = version.partition(":")[2] if local else ""
        yield LockEntry(name or version, version, url, found, git=git, path=path)


def _one_of_each_host(urls: Iterator[str]) -> tuple[str, ...]:
    return tuple({"/".join(url.split("/", 3)[:3]): url for url in urls}.values())


def _pipfile(text: str) -> Iterator[LockEntry]:
    document = json.loads(text)
    for source in document["_meta"].get("sources", ()):
        yield LockEntry(str(source["name"]), "", str(source["url"]), exempt=True)
    for group in ("default", "develop"):
        for name, package in document.get(group, {}).items():
            git, file = str(package.get("git") or ""), str(package.get("file") or "")
            path = str(package.get("path") or ("" if URL.match(file) else file))
            source, version = git or ("" if path else file), str(package.get("version", ""))
            found, exempt = digests(*package.get("hashes", ())), bool(source)
            yield LockEntry(name, version, source, found, exempt=exempt, git=bool(git), path=path)


def _cargo(text: str) -> Iterator[LockEntry]:
    for package in load_toml(text).get("package", ()):
        kind, _, url = str(package.get("source", "")).partition("+")
        found, path = digests(package.get("checksum")), "" if kind else "."
        version, git = str(package["version"]), kind == "git"
        yield LockEntry(package["name"], version, url, found, git=git, path=path)


def _composer(text: str) -> Iterator[LockEntry]:
    document = json.loads(text)
    for package in [*document["packages"], *document.get("packages-dev", ())]:
        dist, source = package.get("dist") or {}, package.get("source") or {}
        url, local = str(dist.get("url") or source.get("url") or ""), dist.get("type") == "path"
        version = str(package["version"])
        # A branch is locked to a commit that changes with each update.
        branch = version.startswith("dev-") or version.endswith("-dev")
        # Packages from a code host have a commit, and no checksum of their archive.
        found = () if branch else digests(dist.get("shasum"), dist.get("reference"))
        path = url if local else ""
        exempt = branch or not dist
        git, url = not dist and bool(source), "" if local else url
        yield LockEntry(package["name"], version, url, found, exempt=exempt, git=git, path=path)


def _nuget(text: str) -> Iterator[LockEntry]:
    for packages in json.loads(text)["dependencies"].values():  # of a framework
        for name, package in packages.items():
            path = "." if package["type"] == "Project" else ""
            found = digests(package.get("contentHash"))
            yield LockEntry(name, str(package.get("resolved", "")), "", found, path=path)


def _swift(text: str) -> Iterator[LockEntry]:
    document = json.loads(text)
    for pin in document.get("object", document)["pins"]:
        url, state = str(pin.get("location") or pin.get("repositoryURL", "")), pin["state"]
        name, version = pin.get("identity") or pin["package"], state.get("version")
        git = pin.get("kind") != "registry"
        yield LockEntry(name, str(version or state["revision"]), url, exempt=True, git=git)


def _flake(text: str) -> Iterator[LockEntry]:
    for name, node in json.loads(text)["nodes"].items():
        locked = {"rev": "", **node.get("locked", {})}
        git = "owner" in locked or locked.get("type") == "git"
        known = "//{type}/{owner}/{repo}".format_map(locked) if "owner" in locked else ""
        url, path = str(locked.get("url") or known), str(locked.get("path", ""))
        found = digests(locked.get("narHash"))
        yield LockEntry(name, locked["rev"], url, found, exempt=True, git=git, path=path)


_READERS: Mapping[str, Callable[[str], Iterator[LockEntry]]] = {
    "package-lock.json": _npm, "npm-shrinkwrap.json": _npm, "yarn.lock": yarn,
    "pnpm-lock.yaml": pnpm, "poetry.lock": _python, "pdm.lock": _python, "uv.lock": _python,
    "pylock.toml": _pylock, "bun.lock": _bun, "Pipfile.lock": _pipfile, "Cargo.lock": _cargo,
    "go.sum": go_sum, "Gemfile.lock": gems, "composer.lock": _composer, "gradle.lockfile": gradle,
    "gradle-wrapper.properties": wrapper, "maven-wrapper.properties": wrapper, "flake.lock": _flake,
    "go.work.sum": go_sum, "packages.lock.json": _nuget, "Package.resolved": _swift,
    "mix.lock": _mix,
}  # fmt: skip
