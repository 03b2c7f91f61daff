"""Manifests of Maven and Gradle: packages, versions and repositories."""

from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

from diffchecks.check_io import load_toml, table
from diffchecks.data_files import read_patterns
from diffchecks.dependencies.package_sources import (
    Dependency,
    Manifest,
    SourceSetting,
    declared,
    insecure,
    manifest,
    registry,
)

_ECOSYSTEM = "Maven"
_PATTERNS = read_patterns("jvm_manifests")
_PLUGINS = "org.apache.maven.plugins"
_MAX_NESTED = 200

_NEAR = 40  # characters before a brace that name its block


class _Builder(ElementTree.TreeBuilder):
    """Builds elements without namespaces; refuses a DTD, and what is nested too deeply."""

    depth = 0

    def start(self, tag: str, attrs: dict[Any, Any]) -> ElementTree.Element:
        self.depth += 1
        if self.depth > _MAX_NESTED:
            raise ValueError(f"it is nested deeper than {_MAX_NESTED} levels")
        return super().start(tag.rpartition("}")[2], attrs)

    def end(self, tag: str) -> ElementTree.Element:
        self.depth -= 1
        return super().end(tag.rpartition("}")[2])

    def doctype(self, *_: Any) -> None:
        raise ValueError("it has a DTD, which is not read")


def _text(element: ElementTree.Element, tag: str) -> str:
    """The text of its first child with a tag; empty without one."""
    return (element.findtext(tag) or "").strip()


def maven(text: str) -> Manifest:
    """Read a pom.xml.

    Raises:
        ValueError, ElementTree.ParseError: it is not XML, has a DTD, or is nested too deeply.
    """
    parser = ElementTree.XMLParser(target=_Builder())  # noqa: S314 - it has no DTD
    top = ElementTree.fromstring(text.strip() or "<project/>", parser)  # noqa: S314 - as above
    defined = {
        one.tag: (one.text or "").strip() for group in top.findall("properties") for one in group
    }
    own = _text(top, "groupId") or next((_text(p, "groupId") for p in top.findall("parent")), "")
    defined |= {"project.version": _text(top, "version"), "project.groupId": own}
    scopes = [top, *top.findall("profiles/profile")]
    return manifest(
        _ECOSYSTEM,
        [one for scope in scopes for one in _of_pom(scope, defined)],
        settings=[setting for scope in scopes for setting in _repositories(scope)],
        own_name=f"{own}:{_text(top, 'artifactId')}",
    )


def _of_pom(scope: ElementTree.Element, defined: Mapping[str, str]) -> Iterator[Dependency]:
    listed = [
        *scope.findall("dependencyManagement/dependencies/dependency"),
        *scope.findall("dependencies/dependency"),
        *scope.findall("parent"),
    ]
    plugins = scope.findall("build/plugins/plugin")
    for element in [*listed, *scope.findall("build/pluginManagement/plugins/plugin"), *plugins]:
        group = _resolve(_text(element, "groupId"), defined) or _PLUGINS
        artifact = _resolve(_text(element, "artifactId"), defined)
        written = _text(element, "version")
        version, called = _resolve(written, defined), _PATTERNS["property"].fullmatch(written)
        is_sibling = written == "${project.version}" and group == defined["project.groupId"]
        if artifact and "$" not in group + artifact and not is_sibling:
            version, path = "" if "$" in version else version, _text(element, "systemPath")
            version_name = called[1] if called else ""
            yield _dependency(f"{group}:{artifact}", artifact, version, path, version_name)


def _resolve(text: str, defined: Mapping[str, str]) -> str:
    """A text with its properties substituted, as far as the file defines them."""
    return _PATTERNS["property"].sub(lambda found: defined.get(found[1], found[0]), text)


def _repositories(scope: ElementTree.Element) -> Iterator[SourceSetting]:
    for place in ("repositories/repository", "pluginRepositories/pluginRepository"):
        for element in scope.findall(place):
            yield from _repository(_text(element, "url"))


def _repository(url: str) -> Iterator[SourceSetting]:
    yield from registry("repository", url, "" if _PATTERNS["public"].match(url) else "registry")


def _dependency(
    name: str, written: str, version: str, path: str = "", version_name: str = ""
) -> Dependency:
    """A dependency; a version that each build resolves again has no upper bound."""
    spec = "*" if _PATTERNS["dynamic"].search(version) else version
    return Dependency(name, written, spec, path, version_name)


def gradle(text: str) -> Manifest:
    """Read a Gradle build or settings file in Groovy or Kotlin, by pattern."""
    code = _PATTERNS["comment"].sub("", text)
    given = dict(_PATTERNS["given"].findall(code))
    packages = [*_PATTERNS["coordinates"].findall(code), *_PATTERNS["plugin"].findall(code)]
    named = [(name, name, version) for name, version in packages]
    named += [
        (f"{group}:{name}", name, version)
        for group, name, version in _PATTERNS["map"].findall(code)
    ]
    found = [one for each in named if (one := _of_build(*each, given))]
    urls = _PATTERNS["repository"].findall(_without_publishing(code))
    settings = [setting for url in urls for setting in _repository(url)]
    settings += [
        insecure(option, f"{option}: packages may be downloaded unprotected")
        for option in _PATTERNS["unprotected"].findall(code)
    ]
    return manifest(_ECOSYSTEM, found, settings=settings)


def _of_build(name: str, written: str, version: str, given: Mapping[str, str]) -> Dependency | None:
    """A dependency whose version may be a variable; None if its value is unknown."""
    used = _PATTERNS["variable"].fullmatch(version)
    called = (used[1] or used[2]) if used else ""
    version = given.get(called, version)
    return None if "$" in version else _dependency(name, written, version, version_name=called)


def _without_publishing(code: str) -> str:
    """A program without its blocks for publishing packages."""
    kept, depth, first = [], 0, 0
    for brace in _PATTERNS["brace"].finditer(code):
        at = brace.start()
        if depth:
            depth += 1 if brace[0] == "{" else -1
            first = at + 1
        elif brace[0] == "{" and _PATTERNS["publishing"].search(code[max(0, at - _NEAR) : at]):
            kept.append(code[first:at])
            depth = 1
    return "".join([*kept, "" if depth else code[first:]])


def version_catalog(text: str) -> Manifest:
    """Read a libs.versions.toml."""
    document = load_toml(text)
    libraries = _of_catalog(document, "libraries", "module")
    return manifest(_ECOSYSTEM, [*libraries, *_of_catalog(document, "plugins", "id")])


def _of_catalog(document: Mapping[str, Any], kind: str, key: str) -> Iterator[Dependency]:
    entries, versions = declared(document, dict, kind).values(), table(document, "versions")
    for entry in (one for one in entries if isinstance(one, str | dict)):
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
