"""Manifests: direct dependencies, install scripts, and indexes.

What counts as pinned follows PEP 440 and the ranges of npm and Cargo.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import Any
from xml.etree.ElementTree import ParseError

from msgspec.structs import replace

from diffchecks.check_io import Gap, Source, load_toml, read, table, tables, text_of
from diffchecks.data_files import read_patterns, read_yaml, vocabulary
from diffchecks.dependencies import jvm_manifests, package_sources
from diffchecks.dependencies.lock_file_entries import LockEntry
from diffchecks.dependencies.package_sources import (
    NOTHING,
    Dependency,
    Manifest,
    declared,
    manifest,
)
from diffchecks.file_patterns import matches

_PATTERNS = read_patterns("manifests")
MEMBERS = ("package.json", "pyproject.toml", "Cargo.toml", "pom.xml", "go.mod")
"""Manifests that name the package which they describe."""
_NPM_GROUPS = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")
_REMOTE, _LOCAL = ("git", "url"), ("path", "workspace")
_NPM_LOCAL = ("workspace:", "file:", "link:", "portal:", "./", "../", "~/", "/")
_NPM_HOOKS = ("preinstall", "install", "postinstall")
_COMPOSER_HOOKS = tuple(read_yaml("names.yaml")["composer_hooks"].split())
_SETUP_LISTS = ("install_requires", "setup_requires", "tests_require")


def is_manifest(path: str) -> bool:
    """Whether a file of this name declares dependencies."""
    return _find_reader(path) is not None


def read_manifest(path: str, text: str) -> Manifest:
    """Parse a manifest of any supported ecosystem.

    Raises:
        Gap: the file is malformed.
    """
    reader = _find_reader(path) or _requirements
    try:
        return reader(text)
    except RecursionError:
        raise Gap("its dependencies could not be read: it is nested too deeply") from None
    except (ValueError, ConfigParserError, ParseError) as error:
        why = " ".join(str(error).split())
        raise Gap(f"its dependencies could not be read: it does not parse: {why}") from None


def find_manifest(root: str, path: str | None) -> Manifest:
    """A manifest of one side; empty if there is none, or it does not parse."""
    if path and is_manifest(path):
        with suppress(Gap):
            return read_manifest(path, Source(path, read(root, path)).text)
    return NOTHING


def _python(requirement: str) -> Dependency | None:
    match = _PATTERNS["pep508"].match(requirement)
    if match is None:
        return None
    written, rest = match.group(1), match.group(2).strip()
    if rest.startswith(("/", ":")) or re.match(r"@\s*(?:file:|[./]|\{root:)", rest):
        return None  # a directory
    name = re.sub(r"[-_.]+", "-", written).lower()
    if rest.startswith("@"):
        return Dependency(name, written, "", rest[1:].strip())
    return Dependency(name, written, rest.strip("() "))


def _requirements(text: str) -> Manifest:
    found: list[Dependency] = []
    for line in text.split("\n"):
        if re.match(r"\s*(?:-e\s+|--editable[\s=]+)?(?:git|hg|svn|bzr)\+|\s*https?://", line):
            source = line.split()[-1]
            name = re.search(r"#egg=([\w.-]+)|/([\w.-]+?)(?:\.git)?(?:@|#|$)", source)
            written = next(filter(None, name.groups()), source) if name else source
            found.append(Dependency(written.lower(), written, "", source))
        elif line.strip() and not line.lstrip().startswith(("#", "-")):
            dependency = _python(line.split(" --hash")[0].rstrip("\\ "))
            found += [dependency] if dependency else []
    return manifest("PyPI", found, settings=package_sources.pip_options("pip_option", text))


def _pyproject(text: str) -> Manifest:
    document = load_toml(text)
    project, tool = table(document, "project"), table(document, "tool")
    places: list[tuple[str, ...]] = [("project", "dependencies"), ("build-system", "requires")]
    for keys in (("project", "optional-dependencies"), ("dependency-groups",)):
        places += [(*keys, name) for name in declared(document, dict, *keys)]
    listed = [item for place in places for item in declared(document, list, *place)]
    found = [one for item in listed if (one := _python(text_of(item)))]
    poetry = table(tool, "poetry")
    groups = [declared(poetry, dict, "dependencies"), declared(poetry, dict, "dev-dependencies")]
    groups += [declared(group, dict, "dependencies") for group in tables(poetry, "group")]
    every = (dependency for group in groups for dependency in _tables(group, _REMOTE))
    found += [dependency for dependency in every if dependency.name != "python"]
    given = table(tool, "uv", "sources").items()
    sources = [(k, v) for k, each in given for v in (each if isinstance(each, list) else [each])]
    found += _tables({k: v for k, v in sources if _has(v, *_REMOTE)}, _REMOTE)
    local = {re.sub(r"[-_.]+", "-", name).lower() for name, v in sources if _has(v, *_LOCAL)}
    found = [dependency for dependency in found if dependency.name not in local]
    settings = package_sources.python_indexes(tool)
    return manifest("PyPI", found, settings=settings, own_name=project.get("name"))


def _has(value: Any, *keys: str) -> bool:
    """Whether a table has one of these keys."""
    return isinstance(value, dict) and not value.keys().isdisjoint(keys)


def _cargo(text: str) -> Manifest:
    document = load_toml(text)
    places = [document, table(document, "workspace"), *tables(document, "target")]
    kinds = ("dependencies", "dev-dependencies", "build-dependencies")
    groups = [declared(place, dict, kind) for place in places for kind in kinds]
    patches = [each for group in tables(document, "patch") for each in group.items()]
    groups.append({name: value for name, value in patches if _has(value, *_REMOTE)})
    local = {name.lower() for name, value in patches if _has(value, *_LOCAL)}
    every = (dependency for group in groups for dependency in _tables(group, ("git",)))
    found = (dependency for dependency in every if dependency.name not in local)
    return manifest("crates.io", found, own_name=table(document, "package").get("name"))


def _tables(group: Mapping[str, Any], keys: Iterable[str]) -> Iterator[Dependency]:
    """Dependencies as TOML tables: ``name = "spec"`` or ``name = {version, git, rev}``."""
    for name, value in group.items():
        if isinstance(value, str):
            yield Dependency(name.lower(), name, value)
        elif isinstance(value, dict) and (_has(value, *_REMOTE) or not _has(value, *_LOCAL)):
            source = next((str(value[key]) for key in keys if key in value), "")
            if source and (pinned := value.get("rev")):
                source = f"{source}@{pinned}"
            yield Dependency(name.lower(), name, str(value.get("version", "")), source)


def _npm(text: str) -> Manifest:
    document = table(json.loads(text.strip() or "{}"))
    found = []
    for group in _NPM_GROUPS:
        for name, given in declared(document, dict, group).items():
            spec = text_of(given)
            if spec.startswith(_NPM_LOCAL):
                continue
            source = spec if _PATTERNS["npm_host"].match(spec) else ""
            found.append(Dependency(name, name, "" if source else spec, source))
    for place in (("overrides",), ("resolutions",), ("pnpm", "overrides")):
        found += _overrides(table(document, *place))
    scripts = table(document, "scripts")
    hooks = {name: text for name in _NPM_HOOKS if (text := text_of(scripts.get(name)))}
    # It also runs in a checkout, usually to build the package or to set up git hooks.
    if _PATTERNS["program"].search(text_of(scripts.get("prepare"))):
        hooks["prepare"] = scripts["prepare"]
    return replace(manifest("npm", found, hooks, (), document.get("name")), scripts=scripts)


def _overrides(given: Mapping[str, Any]) -> Iterator[Dependency]:
    """Where a package.json takes the dependencies of others from; those of one can be nested."""
    for name, value in given.items():
        yield from _overrides(table(given, name))
        last = _PATTERNS["npm_last"].search(name)
        if last and _PATTERNS["npm_host"].match(text_of(value)):
            yield Dependency(last[0], name, "", value)


def _go(text: str) -> Manifest:
    direct = "\n".join(line for line in text.split("\n") if "// indirect" not in line)
    found = (Dependency(one.name, one.name, f"=={one.version}") for one in go_modules(direct))
    own = module[1] if (module := _PATTERNS["go_module"].search(text)) else ""
    return manifest("Go", found, settings=package_sources.go_replacements(text), own_name=own)


def go_modules(text: str) -> Iterator[LockEntry]:
    """Every module that a go.mod requires from elsewhere, including indirect ones."""
    local = set(_PATTERNS["go_local"].findall(text))
    for line in text.split("\n"):
        if (match := _PATTERNS["go_require"].match(line)) and match[1] not in local:
            yield LockEntry(match[1], match[2])


def _composer(text: str) -> Manifest:
    document = table(json.loads(text.strip() or "{}"))
    listed = declared(document, dict, "require") | declared(document, dict, "require-dev")
    # A name without a slash is PHP itself, or an extension of it.
    folders = (one for one in tables(document, "repositories") if one.get("type") == "path")
    # The names of directories, or patterns of these, that hold packages.
    local = [str(one.get("url", "")).rstrip("/").rpartition("/")[2] for one in folders]
    found = (
        Dependency(name.lower(), name, text_of(spec))
        for name, spec in listed.items()
        if "/" in name
        if not any(fnmatchcase(name.rpartition("/")[2], path) for path in filter(None, local))
    )
    hooks = dict[str, str]()
    for name in _COMPOSER_HOOKS:
        given = table(document, "scripts").get(name)
        text = " && ".join(map(str, given)) if isinstance(given, list) else text_of(given)
        hooks |= {name: text} if _PATTERNS["program"].search(text) else {}
    settings = package_sources.composer(document)
    return manifest("Packagist", found, hooks, settings, document.get("name"))


def _gemfile(text: str) -> Manifest:
    found, end_of_paths = [], ""
    for line in text.split("\n"):
        if block := _PATTERNS["gem_paths"].match(line):
            end_of_paths = f"{block[1]}end"
        elif line.rstrip() == end_of_paths:
            end_of_paths = ""
        match = _PATTERNS["gem"].match(line)
        if match and not end_of_paths and not _PATTERNS["gem_path"].search(line, match.end()):
            options = line[match.end() :]
            source = _PATTERNS["gem_source"].search(options)
            reference = _PATTERNS["gem_reference"].search(options)
            where = source[1] + (f"@{reference[1]}" if reference else "") if source else ""
            found.append(Dependency(match[1], match[1], match[2] or "", where))
    return manifest("RubyGems", found, settings=package_sources.bundler(text))


def _pipfile(text: str) -> Manifest:
    document = load_toml(text)
    groups = [declared(document, dict, group) for group in ("packages", "dev-packages")]
    found = (one for group in groups for one in _tables(group, ("git", "file")))
    return manifest("PyPI", found, settings=package_sources.pipenv(document))


def _setup_cfg(text: str) -> Manifest:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.read_string(text)
    listed = [parser.get("options", name, fallback="") for name in _SETUP_LISTS]
    if parser.has_section("options.extras_require"):
        listed += [value for _, value in parser.items("options.extras_require")]
    lines = (line for value in listed for line in value.split("\n"))
    return manifest("PyPI", (one for line in lines if (one := _python(line))))


def _by_expression(ecosystem: str, find: str, text: str) -> Manifest:
    found = re.finditer(find, text, re.MULTILINE)
    listed = (Dependency(written=one["name"], **one.groupdict("")) for one in found)
    return manifest(ecosystem, listed)


_READERS = {
    "pyproject.toml": _pyproject, "Pipfile": _pipfile, "setup.cfg": _setup_cfg,
    "package.json": _npm, "Cargo.toml": _cargo, "go.mod": _go, "composer.json": _composer,
    "Gemfile": _gemfile, "pom.xml": jvm_manifests.maven,
    "libs.versions.toml": jvm_manifests.version_catalog, ".npmrc": package_sources.npmrc,
    ".yarnrc": package_sources.npmrc, ".yarnrc.yml": package_sources.npmrc,
    "pip.conf": package_sources.pip_configuration, "pip.ini": package_sources.pip_configuration,
}  # fmt: skip
_BY_ENDING = dict.fromkeys((".gradle", ".gradle.kts"), jvm_manifests.gradle)
_BY_ENDING[".gemspec"] = _gemfile


def _find_reader(path: str) -> Callable[[str], Manifest] | None:
    name = path.rpartition("/")[2]
    if _PATTERNS["requirements"].fullmatch(path):
        return _requirements
    for ecosystem, each in read_yaml("manifests.yaml").items():
        if matches(name, each["files"]):
            return partial(_by_expression, ecosystem, each["find"])
    kind = "Gemfile" if vocabulary("gemfile").fullmatch(name) else name
    return _READERS.get(kind) or _BY_ENDING.get(next(filter(name.endswith, _BY_ENDING), ""))
