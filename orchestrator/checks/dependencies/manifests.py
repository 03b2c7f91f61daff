"""What manifests declare: direct dependencies, scripts that installations run, and indexes.

Source for what counts as pinned: PEP 440, the ranges of npm and Cargo.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from orchestrator.checks.check_io import Gap

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


NOTHING = Manifest({}, {}, {})


def is_manifest(path: str) -> bool:
    """Whether a file of this name declares dependencies."""
    name = path.rpartition("/")[2]
    return name in _READERS or bool(_REQUIREMENTS.fullmatch(name))


def read_manifest(path: str, text: str) -> Manifest:
    """Parse a manifest of any supported ecosystem.

    Raises:
        Gap: it does not have the form of its kind.
    """
    reader = _READERS.get(path.rpartition("/")[2], _requirements)
    try:
        return reader(text.removeprefix("\ufeff"))
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
