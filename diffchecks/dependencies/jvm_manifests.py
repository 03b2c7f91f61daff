"""Manifests of Maven and Gradle: packages, versions and repositories."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from xml.parsers import expat

from diffchecks.check_io import load_toml
from diffchecks.dependencies.manifest_entry import (
    Dependency,
    Manifest,
    SourceSetting,
    insecure,
    manifest,
    registry,
)

_ECOSYSTEM = "Maven"
_PUBLIC = re.compile(
    r"https://(?:repo1?\.maven\.(?:apache\.)?org|maven\.google\.com|dl\.google\.com|plugins\.gradle\.org)\b"
)
_PROPERTY = re.compile(r"\$\{([\w.-]+)\}")
_PLUGINS = "org.apache.maven.plugins"
_MAX_NESTED = 200

_COORDINATES = re.compile(
    r"""["']([A-Za-z][\w.-]*:[A-Za-z][\w.-]*):([^"':@\s]+)(?:[:@][^"']*)?["']"""
)
_PLUGIN = re.compile(
    r"""\bid\s*\(?\s*["']([\w.-]+)["']\s*\)?\s*version\s*\(?\s*["']([^"'$]+)["']"""
)
_MAP = re.compile(
    r"""\bgroup\s*[:=]\s*["']([\w.-]+)["']\s*,\s*name\s*[:=]\s*["']([\w.-]+)["']"""
    r"""(?:\s*,\s*version\s*[:=]\s*["']([^"']+)["'])?"""
)
_GIVEN = re.compile(r"""\b(?!(?:group|name|version)\s*:)(\w+)["']?\s*[=:]\s*["']([\w.+-]+)["']""")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(?:\w+\.)*(\w+)\})")
_REPOSITORY = re.compile(
    r"""\bmaven\s*(?:\{[^{}]*?\b(?:url|setUrl)\b[\s=(]*(?:uri\s*\(\s*)?|\(\s*)["']([^"']+)["']"""
)
_UNPROTECTED = re.compile(r"\b((?:isA|a)llowInsecureProtocol)\b\s*(?:=\s*|\(\s*)?true")
_COMMENT = re.compile(r"/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)|(?<!:)//[^\n]*")
_BRACE = re.compile(r"[{}]")
_PUBLISHING = re.compile(r"\bpublishing\s*\Z")
_NEAR = 40  # characters before a brace that name its block
_DYNAMIC = re.compile(r"\+$|^latest\.|-SNAPSHOT$|^(?:LATEST|RELEASE)$")


class _Element:
    """An element of XML: its children by tag, and its text."""

    def __init__(self) -> None:
        self.children: dict[str, list[_Element]] = {}
        self.parts: list[str] = []

    def all(self, *path: str) -> list["_Element"]:
        """The elements below it at a path of tags."""
        found = [self]
        for tag in path:
            found = [child for element in found for child in element.children.get(tag, ())]
        return found

    def get(self, tag: str) -> str:
        """The text of its first child with a tag; empty without one."""
        return next((child.text for child in self.all(tag)), "")

    @property
    def text(self) -> str:
        """Its own text, without the space around it."""
        return "".join(self.parts).strip()


def maven(text: str) -> Manifest:
    """Read a pom.xml.

    Raises:
        ValueError: it is not XML, has a DTD, or is nested too deeply.
    """
    project = _parse(text).all("project")
    top = project[0] if project else _Element()
    defined = {
        name: elements[-1].text
        for group in top.all("properties")
        for name, elements in group.children.items()
    }
    own = top.get("groupId") or next((p.get("groupId") for p in top.all("parent")), "")
    defined |= {"project.version": top.get("version"), "project.groupId": own}
    scopes = [top, *top.all("profiles", "profile")]
    return manifest(
        _ECOSYSTEM,
        [one for scope in scopes for one in _of_pom(scope, defined)],
        settings=[setting for scope in scopes for setting in _repositories(scope)],
    )


def _of_pom(scope: _Element, defined: Mapping[str, str]) -> Iterator[Dependency]:
    listed = [
        *scope.all("dependencyManagement", "dependencies", "dependency"),
        *scope.all("dependencies", "dependency"),
        *scope.all("parent"),
    ]
    plugins = scope.all("build", "plugins", "plugin")
    for element in [
        *listed,
        *scope.all("build", "pluginManagement", "plugins", "plugin"),
        *plugins,
    ]:
        group = _resolve(element.get("groupId"), defined) or _PLUGINS
        artifact = _resolve(element.get("artifactId"), defined)
        written = element.get("version")
        version, called = _resolve(written, defined), _PROPERTY.fullmatch(written)
        is_sibling = written == "${project.version}" and group == defined["project.groupId"]
        if artifact and "$" not in group + artifact and not is_sibling:
            yield _dependency(
                f"{group}:{artifact}",
                artifact,
                "" if "$" in version else version,
                element.get("systemPath"),
                called[1] if called else "",
            )


def _resolve(text: str, defined: Mapping[str, str]) -> str:
    """A text with its properties substituted, as far as the file defines them."""
    return _PROPERTY.sub(lambda found: defined.get(found[1], found[0]), text)


def _repositories(scope: _Element) -> Iterator[SourceSetting]:
    for element in (
        *scope.all("repositories", "repository"),
        *scope.all("pluginRepositories", "pluginRepository"),
    ):
        yield from _repository(element.get("url"))


def _repository(url: str) -> Iterator[SourceSetting]:
    yield from registry("repository", url, "" if _PUBLIC.match(url) else "registry")


def _dependency(
    name: str, written: str, version: str, path: str = "", version_name: str = ""
) -> Dependency:
    """A dependency; a version that each build resolves again has no upper bound."""
    spec = "*" if _DYNAMIC.search(version) else version
    return Dependency(name, written, spec, path, version_name)


def _parse(text: str) -> _Element:
    root = _Element()
    opened = [root]

    def begin(tag: str, _: Mapping[str, str]) -> None:
        if len(opened) > _MAX_NESTED:
            raise ValueError
        child = _Element()
        opened[-1].children.setdefault(tag.rpartition(":")[2], []).append(child)
        opened.append(child)

    def add(data: str) -> None:
        opened[-1].parts.append(data)

    def refuse(*_: Any) -> None:
        raise ValueError

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = begin, lambda _: opened.pop()
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = add, refuse
    try:
        parser.Parse(text, True)
    except expat.ExpatError:
        raise ValueError from None
    return root


def gradle(text: str) -> Manifest:
    """Read a Gradle build or settings file in Groovy or Kotlin, by pattern."""
    code = _COMMENT.sub("", text)
    given = dict(_GIVEN.findall(code))
    packages = [*_COORDINATES.findall(code), *_PLUGIN.findall(code)]
    named = [(name, name, version) for name, version in packages]
    named += [(f"{group}:{name}", name, version) for group, name, version in _MAP.findall(code)]
    found = [one for each in named if (one := _of_build(*each, given))]
    urls = _REPOSITORY.findall(_without_publishing(code))
    settings = [setting for url in urls for setting in _repository(url)]
    settings += [
        insecure(option, f"{option}: packages may be downloaded unprotected")
        for option in _UNPROTECTED.findall(code)
    ]
    return manifest(_ECOSYSTEM, found, settings=settings)


def _of_build(name: str, written: str, version: str, given: Mapping[str, str]) -> Dependency | None:
    """A dependency whose version may be a variable; None if its value is unknown."""
    used = _VARIABLE.fullmatch(version)
    called = (used[1] or used[2]) if used else ""
    version = given.get(called, version)
    return None if "$" in version else _dependency(name, written, version, version_name=called)


def _without_publishing(code: str) -> str:
    """A program without its blocks for publishing packages."""
    kept, depth, first = [], 0, 0
    for brace in _BRACE.finditer(code):
        at = brace.start()
        if depth:
            depth += 1 if brace[0] == "{" else -1
            first = at + 1
        elif brace[0] == "{" and _PUBLISHING.search(code[max(0, at - _NEAR) : at]):
            kept.append(code[first:at])
            depth = 1
    return "".join([*kept, "" if depth else code[first:]])


def version_catalog(text: str) -> Manifest:
    """Read a libs.versions.toml."""
    document = load_toml(text)
    versions = document.get("versions", {})
    found: list[Dependency] = []
    for kind, key in (("libraries", "module"), ("plugins", "id")):
        found += _of_catalog(document.get(kind, {}).values(), key, versions)
    return manifest(_ECOSYSTEM, found)


def _of_catalog(
    entries: Iterable[Any], key: str, versions: Mapping[str, Any]
) -> Iterator[Dependency]:
    for entry in entries:
        called = ""
        if isinstance(entry, str):
            name, _, version = entry.rpartition(":")
        else:
            name = str(entry.get(key) or f"{entry.get('group')}:{entry.get('name')}")
            given = entry.get("version", "")
            if isinstance(given, dict) and "ref" in given:
                called = str(given["ref"])
                given = versions.get(called, "")
            if isinstance(given, dict):
                given = given.get("strictly") or given.get("require") or ""
            version = str(given)
        yield _dependency(name, name.rpartition(":")[2], version, version_name=called)
