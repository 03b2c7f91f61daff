"""Dependencies that the change adds, lets float, or takes from somewhere else than before.

A name that another changed manifest had in base has only moved. Source for what counts as pinned:
PEP 440, the ranges of npm and Cargo.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from orchestrator.checks.check_io import CheckReply, Gap, RawFinding, Source, read
from orchestrator.checks.dependencies import lock_files
from orchestrator.checks.dependencies.lock_file_entries import is_lock_file, read_entries
from orchestrator.checks.python.source_definitions import Job

NAMES_SHOWN = 5

_COMMIT = re.compile(r"[@#=][0-9a-f]{40}\b")
_CEILING = re.compile(r"==|~=|<|\^|~|(?<![<>=!])=(?!=)|^v?\d")
_REQUIREMENTS = re.compile(r"[\w.-]*requirements[\w.-]*\.(?:txt|in)")
_PEP508 = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^]]*\])?\s*(@\s*\S+|[^;#]*)")
_GO_REQUIRE = re.compile(r"^\s*(?:require\s+)?([\w.-]+\.[\w.-]+/\S+)\s+(v\S+)")
_INDEX = re.compile(r"^\s*(--extra-index-url|--trusted-host)[\s=]+(\S+)")
_NPM_GROUPS = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")
_NPM_HOOKS = ("preinstall", "install", "postinstall")
_NPM_HOST = re.compile(r"^(?:[\w-]+/[\w.-]+(?:#.*)?$|(?:git|github|gitlab|bitbucket|https?)[+:])")


class Dependency(Struct, frozen=True):
    """A dependency that a manifest declares.

    Attributes:
        name: as its ecosystem compares names.
        written: as written in the file, to find its line.
        spec: the versions that it allows; empty for any.
        source: where it comes from when not from the registry; empty else.
    """

    name: str
    written: str
    spec: str
    source: str = ""


class Manifest(Struct, frozen=True):
    """The dependencies, hooks and indexes that a manifest declares.

    Attributes:
        dependencies: by name; of several with one name, the last.
        hooks: scripts that run at every installation: name → command.
        indexes: options that widen where packages are taken from: option → value.
    """

    dependencies: Mapping[str, Dependency]
    hooks: Mapping[str, str]
    indexes: Mapping[str, str]


_NOTHING = Manifest({}, {}, {})


def run(job: Job) -> CheckReply:
    """Report what is new in the manifests of head."""
    gaps: dict[str, str] = {}
    examined: list[str] = []
    locked: list[RawFinding] = []
    sides: list[tuple[str, Source, set[int], Manifest, Manifest]] = []
    for file in job["files"]:
        path, old = file["path"], file["old_path"]
        if file["status"] == "deleted" or not (is_manifest(path) or is_lock_file(path)):
            continue
        try:
            head = Source(path, read(job["head_root"], path))
            if is_lock_file(path):
                locked += _compare_lock_files(job, old, head, set(file["added"]))
                examined.append(path)
                continue
            now = read_manifest(path, head.text)
        except Gap as gap:
            gaps[path] = str(gap)
            continue
        sides.append((path, head, set(file["added"]), _before(job, old), now))
        examined.append(path)
    known = {name for *_, was, _ in sides for name in was.dependencies}
    found = [finding for side in sides for finding in _compare(*side, known)]
    return CheckReply([*found, *locked], examined, gaps)


def _compare_lock_files(
    job: Job, old: str | None, head: Source, added: set[int]
) -> Iterable[RawFinding]:
    was = []
    if old and is_lock_file(old):
        with suppress(Gap):
            was = read_entries(old, Source(old, read(job["base_root"], old)).text)
    return lock_files.compare(head, added, was, read_entries(head.path, head.text))


def _before(job: Job, path: str | None) -> Manifest:
    """What base declared; a file that did not parse there declared nothing that is known."""
    if path and is_manifest(path):
        with suppress(Gap):
            return read_manifest(path, Source(path, read(job["base_root"], path)).text)
    return _NOTHING


def _compare(
    path: str, head: Source, added: set[int], was: Manifest, now: Manifest, known: set[str]
) -> Iterator[RawFinding]:
    def at(code: str, text: str, message: str, key: str) -> RawFinding:
        return RawFinding(code, path, _line(head, added, text), message, key=key)

    new = [dependency for name, dependency in now.dependencies.items() if name not in known]
    if was is not _NOTHING and (
        plain := [dependency for dependency in new if not dependency.source]
    ):
        listed = ", ".join(dependency.written for dependency in plain[:NAMES_SHOWN])
        more = f" and {len(plain) - NAMES_SHOWN} more" if len(plain) > NAMES_SHOWN else ""
        yield at("new", plain[0].written, f"New dependency: {listed}{more}", listed)
    for name, dependency in now.dependencies.items():
        before = was.dependencies.get(name)
        if (
            dependency.source
            and (before is None or before.source != dependency.source)
            and _floats(dependency.source)
        ):
            source = f"{dependency.source}, a source that can change at any time"
            message = f"{dependency.written} comes from {source}"
            yield at("floating-source", dependency.written, message, name)
        elif (
            before
            and _has_ceiling(before)
            and not dependency.source
            and not _has_ceiling(dependency)
        ):
            message = f"{dependency.written} was {before.spec} and has no upper bound now"
            yield at("loosened", dependency.written, message, name)
    for name, command in now.hooks.items():
        if was.hooks.get(name) != command:
            yield at("install-script", f'"{name}"', f"Every installation runs {command!r}", name)
    for option, value in now.indexes.items():
        if option not in was.indexes:
            message = f"{option} {value}: packages can come from another index"
            yield at("extra-index", option, message, option)


def _has_ceiling(dependency: Dependency) -> bool:
    return (
        bool(dependency.spec) and dependency.spec != "*" and bool(_CEILING.search(dependency.spec))
    )


def _floats(source: str) -> bool:
    """Whether the content behind it may be replaced: no commit, no digest, or no encryption."""
    return source.startswith("http:") or not (
        _COMMIT.search(source) or re.search(r"sha\d+[=-]|\.(?:whl|tgz|zip|tar\.gz)\b", source)
    )


def _line(head: Source, added: set[int], text: str) -> int:
    """The first added line that holds the text, else any line that does, else the first."""
    word = re.compile(rf"(?<![\w-]){re.escape(text)}(?![\w-])", re.IGNORECASE)
    lines = [number for number, line in enumerate(head.lines, 1) if word.search(line)]
    return next((number for number in lines if number in added), lines[0] if lines else 1)


def is_manifest(path: str) -> bool:
    """Whether a file of this name declares dependencies."""
    name = path.rpartition("/")[2]
    return name in _READERS or bool(_REQUIREMENTS.fullmatch(name))


def read_manifest(path: str, text: str) -> Manifest:
    """Parse a manifest of any supported ecosystem."""
    reader = _READERS.get(path.rpartition("/")[2], _requirements)
    try:
        return reader(text)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Gap(f"its dependencies could not be read: {type(error).__name__}") from None


def _manifest(
    found: Iterable[Dependency],
    hooks: Mapping[str, str] | None = None,
    indexes: Mapping[str, str] | None = None,
) -> Manifest:
    return Manifest(
        {dependency.name: dependency for dependency in found}, hooks or {}, indexes or {}
    )


def _python(requirement: str) -> Dependency | None:
    match = _PEP508.match(requirement)
    if match is None:
        return None
    written, rest = match.group(1), match.group(2).strip()
    name = re.sub(r"[-_.]+", "-", written).lower()
    if rest.startswith("@"):
        return Dependency(name, written, "", rest[1:].strip())
    return Dependency(name, written, rest.strip("() "))


def _requirements(text: str) -> Manifest:
    found: list[Dependency] = []
    indexes: dict[str, str] = {}
    for line in text.split("\n"):
        if option := _INDEX.match(line):
            indexes[option.group(1)] = option.group(2)
        elif re.match(r"\s*(?:-e\s+|--editable[\s=]+)?(?:git|hg|svn|bzr)\+|\s*https?://", line):
            source = line.split()[-1]
            name = re.search(r"#egg=([\w.-]+)|/([\w.-]+?)(?:\.git)?(?:@|#|$)", source)
            written = next(filter(None, name.groups()), source) if name else source
            found.append(Dependency(written.lower(), written, "", source))
        elif line.strip() and not line.lstrip().startswith(("#", "-")):
            dependency = _python(line.split(" --hash")[0].rstrip("\\ "))
            found += [dependency] if dependency else []
    return _manifest(found, indexes=indexes)


def _pyproject(text: str) -> Manifest:
    document = tomllib.loads(text)
    project, tool = document.get("project", {}), document.get("tool", {})
    listed = [
        *project.get("dependencies", ()),
        *document.get("build-system", {}).get("requires", ()),
        *(item for group in project.get("optional-dependencies", {}).values() for item in group),
        *(item for group in document.get("dependency-groups", {}).values() for item in group),
    ]
    found = [
        dependency for item in listed if isinstance(item, str) and (dependency := _python(item))
    ]
    poetry = tool.get("poetry", {})
    groups = [poetry.get("dependencies", {}), poetry.get("dev-dependencies", {})]
    groups += [group.get("dependencies", {}) for group in poetry.get("group", {}).values()]
    for group in groups:
        found += [
            dependency
            for dependency in _tables(group, ("git", "url"))
            if dependency.name != "python"
        ]
    return _manifest(found)


def _cargo(text: str) -> Manifest:
    document = tomllib.loads(text)
    places = [document, document.get("workspace", {}), *document.get("target", {}).values()]
    kinds = ("dependencies", "dev-dependencies", "build-dependencies")
    return _manifest(
        dependency
        for place in places
        for kind in kinds
        for dependency in _tables(place.get(kind, {}), ("git",))
    )


def _tables(group: Mapping[str, Any], keys: Iterable[str]) -> Iterator[Dependency]:
    """Dependencies as TOML tables: ``name = "spec"`` or ``name = {version, git, rev}``."""
    for name, value in group.items():
        if isinstance(value, str):
            yield Dependency(name.lower(), name, value)
        elif isinstance(value, dict):
            source = next((str(value[key]) for key in keys if key in value), "")
            pinned = value.get("rev")
            yield Dependency(
                name.lower(),
                name,
                str(value.get("version", "")),
                f"{source}@{pinned}" if source and pinned else source,
            )


def _npm(text: str) -> Manifest:
    document = json.loads(text)
    found = []
    for group in _NPM_GROUPS:
        for name, spec in document.get(group, {}).items():
            elsewhere = bool(_NPM_HOST.match(spec))
            found.append(
                Dependency(name, name, "" if elsewhere else spec, spec if elsewhere else "")
            )
    scripts = document.get("scripts", {})
    return _manifest(found, {name: scripts[name] for name in _NPM_HOOKS if name in scripts})


def _go(text: str) -> Manifest:
    lines = (_GO_REQUIRE.match(line) for line in text.split("\n") if "// indirect" not in line)
    return _manifest(
        Dependency(match.group(1), match.group(1), f"=={match.group(2)}")
        for match in lines
        if match
    )


_READERS = {"pyproject.toml": _pyproject, "package.json": _npm, "Cargo.toml": _cargo, "go.mod": _go}
