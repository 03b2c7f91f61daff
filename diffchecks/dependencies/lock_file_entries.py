"""The entries of lock files: each package's version, source and digests."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from diffchecks.check_io import Gap, load_toml
from diffchecks.dependencies import line_lock_files
from diffchecks.dependencies.lock_entry import URL, LockEntry, digests

_JSON_COMMA = re.compile(r"(\"(?:[^\"\\]|\\.?)*(?:\"|\Z))|,(?=\s*[}\]])", re.DOTALL)
"""Strings, of which one without an end goes on to the text's, and needless commas."""
AGAIN = "lock it again with its package manager"


def read_entries(path: str, text: str) -> list[LockEntry]:
    """Read a lock file by its name.

    Raises:
        Gap: the file is malformed.
    """
    try:
        return list(_READERS[path.rpartition("/")[2]](text))
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, line_lock_files.MalformedError) as error:
        raise Gap(f"its packages could not be read, {error}; {AGAIN}") from None
    except RecursionError:
        raise Gap(f"its packages could not be read, it is nested too deeply; {AGAIN}") from None
    except (ValueError, TypeError, AttributeError, KeyError):
        raise Gap(f"its packages could not be read, it has an unknown structure; {AGAIN}") from None


def is_lock_file(path: str) -> bool:
    """Whether a file of this name is a lock file that is read."""
    return path.rpartition("/")[2] in _READERS


def _npm(text: str) -> Iterator[LockEntry]:
    document = json.loads(text)
    if document.keys().isdisjoint(("lockfileVersion", "packages", "dependencies")):
        raise KeyError
    for place, package in document.get("packages", {}).items():
        if place:
            yield _npm_entry(place.rpartition("node_modules/")[2], package)
    if "packages" not in document:
        waiting = [document.get("dependencies", {})]
        while waiting:
            for name, package in waiting.pop().items():
                yield _npm_entry(name, package)
                waiting.append(package.get("dependencies", {}))


def _npm_entry(name: str, package: Mapping[str, Any]) -> LockEntry:
    version, source = str(package.get("version", "")), str(package.get("resolved", ""))
    source = source or (version if URL.match(version) else "")
    path = source.removeprefix("file:") if package.get("link") or source[:5] == "file:" else ""
    git = source.startswith(("git", "ssh:"))
    return LockEntry(
        str(package.get("name", name)),
        version,
        "" if path else source,
        digests(package.get("integrity")),
        script=bool(package.get("hasInstallScript")),
        # Without a URL it is a workspace's directory, or part of another package.
        exempt=not source or git or bool(path),
        git=git,
        path=path,
    )


def _python(text: str) -> Iterator[LockEntry]:
    """poetry.lock, uv.lock and pdm.lock."""
    document = load_toml(text)
    old = document.get("metadata", {}).get("files", {})
    for package in document.get("package", ()):
        name, source = package["name"], package.get("source", {})
        files = [*package.get("files", old.get(name, ())), *package.get("wheels", ())]
        files += [package["sdist"]] if "sdist" in package else []
        git = "git" in source or source.get("type") == "git" or "git" in package
        folder = source.get("type") == "directory"
        path = next((str(source[k]) for k in ("directory", "path", "editable") if k in source), "")
        path = path or str(package.get("path") or (source.get("url", "") if folder else ""))
        url = source.get("url") or source.get("git") or source.get("registry") or package.get("git")
        hashes = tuple((str(f.get("file") or f.get("url")), str(f.get("hash"))) for f in files)
        yield LockEntry(
            name,
            str(package.get("version", "")),
            "" if path else str(url or ""),
            digests(*(file.get("hash") for file in files)),
            exempt=git or bool(path) or "virtual" in source,
            git=git,
            path=path,
            urls=_one_of_each_host(str(file["url"]) for file in files if "url" in file),
            files=hashes,
        )


def _pylock(text: str) -> Iterator[LockEntry]:
    """pylock.toml, as PEP 751 has it."""
    for package in load_toml(text)["packages"]:
        vcs, folder = package.get("vcs", {}), package.get("directory", {})
        single = [package[key] for key in ("archive", "sdist") if key in package]
        files = [*package.get("wheels", ()), *single]
        path = str(folder.get("path") or vcs.get("path") or "")
        urls = [str(file["url"]) for file in files if "url" in file]
        found = [f"{k}:{value}" for file in files for k, value in file.get("hashes", {}).items()]
        yield LockEntry(
            str(package["name"]),
            str(package.get("version", "")),
            "" if path else str(vcs.get("url") or package.get("index") or next(iter(urls), "")),
            digests(*found),
            exempt=bool(vcs or folder),
            git=bool(vcs),
            path=path,
            urls=_one_of_each_host(iter(urls)),
        )


def _bun(text: str) -> Iterator[LockEntry]:
    """bun.lock: JSON with commas before closing brackets."""
    strict = _JSON_COMMA.sub(lambda found: found[1] or "", text)
    for given in json.loads(strict)["packages"].values():
        name, _, version = str(given[0]).rpartition("@")
        local = version.startswith(("workspace:", "file:", "link:"))
        git = version.startswith(("git", "ssh:"))
        registry = given[1] if len(given) > 1 and isinstance(given[1], str) else ""
        url = version if URL.match(version) else registry
        found = digests(*(item for item in given[2:] if str(item).startswith("sha")))
        yield LockEntry(
            name or version,
            version,
            "" if local else url,
            found,
            exempt=local or git,
            git=git,
            path=version.partition(":")[2] if local else "",
        )


def _one_of_each_host(urls: Iterator[str]) -> tuple[str, ...]:
    return tuple({"/".join(url.split("/", 3)[:3]): url for url in urls}.values())


def _pipfile(text: str) -> Iterator[LockEntry]:
    document = json.loads(text)
    for source in document["_meta"].get("sources", ()):
        yield LockEntry(str(source["name"]), "", str(source["url"]), exempt=True)
    for group in ("default", "develop"):
        for name, package in document.get(group, {}).items():
            git, path = str(package.get("git") or ""), str(package.get("path") or "")
            source = git or str(package.get("file") or "")
            yield LockEntry(
                name,
                str(package.get("version", "")),
                source,
                digests(*package.get("hashes", ())),
                exempt=bool(source or path),
                git=bool(git),
                path=path,
            )


def _cargo(text: str) -> Iterator[LockEntry]:
    for package in load_toml(text).get("package", ()):
        kind, _, url = str(package.get("source", "")).partition("+")
        exempt = kind in {"", "git"}
        found = digests(package.get("checksum"))
        version, path = str(package["version"]), "" if kind else "."
        yield LockEntry(
            package["name"], version, url, found, exempt=exempt, git=kind == "git", path=path
        )


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
        exempt = local or branch or not dist
        source_url = "" if local else url
        yield LockEntry(package["name"], version, source_url, found, exempt=exempt, path=path)


_READERS: Mapping[str, Callable[[str], Iterator[LockEntry]]] = {
    "package-lock.json": _npm,
    "npm-shrinkwrap.json": _npm,
    "yarn.lock": line_lock_files.yarn,
    "pnpm-lock.yaml": line_lock_files.pnpm,
    "poetry.lock": _python,
    "pdm.lock": _python,
    "uv.lock": _python,
    "pylock.toml": _pylock,
    "bun.lock": _bun,
    "Pipfile.lock": _pipfile,
    "Cargo.lock": _cargo,
    "go.sum": line_lock_files.go_sum,
    "Gemfile.lock": line_lock_files.gems,
    "composer.lock": _composer,
    "gradle.lockfile": line_lock_files.gradle,
    "gradle-wrapper.properties": line_lock_files.wrapper,
    "maven-wrapper.properties": line_lock_files.wrapper,
}
