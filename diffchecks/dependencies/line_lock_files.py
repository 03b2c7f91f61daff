"""Lock files that are read line by line: Yarn, pnpm, Go, Bundler, and requirements with hashes.

Each reader raises ``MalformedError`` for an unexpected line, so that a truncated or badly merged
file is not taken for one with fewer packages.
"""

import re
from collections.abc import Iterator, Mapping

from diffchecks.dependencies.lock_entry import URL, LockEntry, digests

# ``name@npm:other@range`` is another package under this name.
_YARN_HEAD = re.compile(r'^(?:\? )?"?(@?[^@\s"]+)@(?:npm:(@?[^@\s"]+)@)?[^\n]*?[":]$')
_YARN_FIELD = re.compile(
    r'^  "?(version|resolved|integrity|resolution|checksum)"?:? "?([^"\n]+)"?$'
)
_PNPM_OLD_KEY = re.compile(r"((?:@[^/]+/)?[^/@]+)/(\d[^_(]*)")
_PNPM_FIELD = re.compile(
    r"\b(integrity|tarball|requiresBuild|repo|directory):\s*['\"]?([^,}'\"\s]+)"
)
_PNPM_INNER = re.compile(r"  [^\s#:]")
_PNPM_9 = re.compile(r"lockfileVersion: ['\"]?9")
_GEM_SECTION = re.compile(r"[A-Z][A-Z ]*")
_GEM_SOURCE = re.compile(r"^  remote: (\S+)$")
_GEM = re.compile(r"^    ([\w.-]+) \(([^)]+)\)$")
_GEM_DIGEST = re.compile(r"^  ([\w.-]+) \(([^)]+)\)(?: (\S+))?$")
_GO_SUM = re.compile(r"(\S+) (v\S+) (h1:\S+)")
_GRADLE = re.compile(r"([\w.-]+:[\w.-]+):([^=:\s]+)=\S*")
_PROPERTY = re.compile(r"^\s*(distribution\w+)\s*[=:]\s*(\S+)\s*$", re.MULTILINE)
_DISTRIBUTION = re.compile(r"([\w-]+?)-(\d[\w.-]*?)(?:-(?:bin|all))?\.zip")
_HASHED = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^]]*\])?\s*===?\s*([^\s;\\]+)")
_HASH = re.compile(r"--hash[=\s]+(\w+:\w+)")


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
            if field := _YARN_FIELD.match(line):
                fields[field[1]] = field[2]
            continue
        if name and "version" not in fields:
            raise MalformedError(begins, "begins a package without a version")
        if name:
            yield _yarn_entry(name, fields)
        head = _YARN_HEAD.match(line)
        if head is None and line != "__metadata:":
            raise MalformedError(number, "names no package")
        name, begins, fields = (head[2] or head[1]) if head else "", number, {}


def _yarn_entry(name: str, fields: Mapping[str, str]) -> LockEntry:
    locator = fields.get("resolution", "").removeprefix(f"{name}@")
    source, _, fragment = fields.get("resolved", locator).partition("#")
    git = source.startswith(("git", "ssh:")) or source.endswith(".git")
    found = digests(fields.get("integrity"), fields.get("checksum"), "" if git else fragment)
    # A registry package of Yarn 2 has no URL, and its checksum may be left out by a setting.
    exempt = git or (not URL.match(source) and not found)
    kind, _, path = source.partition(":")
    path = path.partition("::")[0] if kind in {"file", "link", "portal"} else ""
    source = source if URL.match(source) else ""
    return LockEntry(name, fields["version"], source, found, exempt=exempt, git=git, path=path)


def pnpm(text: str) -> Iterator[LockEntry]:
    """Read a pnpm-lock.yaml."""
    if "lockfileVersion:" not in text[:200]:
        raise MalformedError(1, "names no version of the format")
    sections, key, begins, block = [""], "", 0, list[str]()
    for number, raw in enumerate([*text.split("\n"), "end:"], 1):
        line = raw.rstrip()
        outer = line[:1] not in {"", " ", "#", "-"}
        inner = sections[-1] == "packages" and bool(_PNPM_INNER.match(line))
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
    if _PNPM_9.search(text[:200]) and "packages" in sections and "snapshots" not in sections:
        raise MalformedError(text.count("\n") + 1, "ends the file before its snapshots")


def _pnpm_entry(key: str, begins: int, block: str) -> LockEntry:
    if "resolution:" not in block:
        raise MalformedError(begins, "begins a package without a resolution")
    found = _PNPM_FIELD.findall(block)
    fields = dict(found)
    key = key.removeprefix("/").partition("(")[0]
    old = _PNPM_OLD_KEY.match(key)
    # The first letter may be the @ of a scope.
    name, _, version = key[1:].partition("@")
    name, version = old.groups() if old else (key[:1] + name, version)
    git = "repo" in fields or "codeload.github.com" in fields.get("tarball", "")
    path = fields.get("directory", "") or (version[5:] if version[:5] == "file:" else "")
    return LockEntry(
        name,
        version,
        fields.get("repo") or fields.get("tarball", ""),
        digests(*(value for field, value in found if field == "integrity")),
        script=fields.get("requiresBuild") == "true",
        exempt=git or bool(path),
        git=git,
        path=path,
    )


def go_sum(text: str) -> Iterator[LockEntry]:
    """Read a go.sum."""
    for number, line in enumerate(text.split("\n"), 1):
        found = _GO_SUM.fullmatch(line.rstrip())
        if found:
            yield LockEntry(found[1], found[2], "", (found[3],))
        elif line.strip():
            raise MalformedError(number, "is no module, version and digest")


def gradle(text: str) -> Iterator[LockEntry]:
    """Read a gradle.lockfile."""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        found = _GRADLE.fullmatch(line)
        if found:
            yield LockEntry(found[1], found[2], exempt=True)
        elif line and not line.startswith(("#", "empty=")):
            raise MalformedError(number, "is no module, version and configurations")


def wrapper(text: str) -> Iterator[LockEntry]:
    """Read the properties of a Gradle or Maven wrapper: the build tool that it downloads."""
    found = dict(_PROPERTY.findall(text))
    url = found.get("distributionUrl", "").replace("\\:", ":")
    if not url:
        raise MalformedError(1, "names no distribution")
    named = _DISTRIBUTION.search(url)
    name, version = named.groups() if named else ("distributionUrl", "")
    yield LockEntry(name, version, url, digests(found.get("distributionSha256Sum")))


def gems(text: str) -> Iterator[LockEntry]:
    """Read a Gemfile.lock."""
    if not re.search(r"^DEPENDENCIES\r?$", text, re.MULTILINE):
        raise MalformedError(text.count("\n") + 1, "ends the file before its dependencies")
    known = {
        (found[1], found[2]): found[3] or ""
        for line in text.partition("\nCHECKSUMS\n")[2].split("\n")
        if (found := _GEM_DIGEST.match(line))
    }
    section = source = ""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.rstrip("\r")
        if line[:1].strip():
            section, source = line, ""
            if not _GEM_SECTION.fullmatch(line):
                raise MalformedError(number, "names no section")
        elif found := _GEM_SOURCE.match(line):
            source = found[1]
        elif found := _GEM.match(line):
            digest = digests(known.get((found[1], found[2])))
            exempt, path = section != "GEM" or not known, source if section == "PATH" else ""
            url, git = "" if path else source, section == "GIT"
            yield LockEntry(found[1], found[2], url, digest, exempt=exempt, git=git, path=path)


def requirements(text: str) -> Iterator[LockEntry]:
    """Read the exact versions of a requirements file if some have hashes; else nothing."""
    if "--hash" in text:
        yield from pinned(text)


def pinned(text: str) -> Iterator[LockEntry]:
    """Read the exact versions of a requirements file, with their hashes if they have any."""
    for line in re.sub(r"\\\r?\n", " ", text).split("\n"):
        if found := _HASHED.match(line):
            yield LockEntry(found[1], found[2], "", digests(*_HASH.findall(line)))
