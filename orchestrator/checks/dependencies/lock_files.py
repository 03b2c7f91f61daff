"""Packages that a change of a lock file takes from elsewhere, unverified, or with a script."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from orchestrator.checks.check_io import RawFinding, Source
from orchestrator.checks.dependencies.lock_file_entries import Entry

# The hosts that the package managers download from as they are installed, or that they lead to.
REGISTRIES = frozenset(
    [
        "registry.npmjs.org",
        "registry.yarnpkg.com",
        "npm.pkg.github.com",
        "registry.npmmirror.com",
        "pypi.org",
        "files.pythonhosted.org",
        "github.com",
        "api.github.com",
        "codeload.github.com",
        "index.crates.io",
        "static.crates.io",
        "rubygems.org",
        "repo.packagist.org",
        "gitlab.com",
        "bitbucket.org",
    ]
)

ENTRY_LINES = 12
"""An entry's version is at most so many lines below its name."""


def compare(
    head: Source, added: Collection[int], was: Sequence[Entry], now: Sequence[Entry]
) -> Iterator[RawFinding]:
    """Report what the entries of head have, or lack, that those of base do not."""
    hosts = REGISTRIES | {_host(entry.source) for entry in was}
    known = {(entry.name, entry.source) for entry in was}
    before: dict[tuple[str, str], Entry] = {(entry.name, entry.version): entry for entry in was}
    by_name: Mapping[str, list[Entry]] = defaultdict(list)
    for entry in was:
        by_name[entry.name].append(entry)
    groups: dict[tuple[str, str], list[tuple[Entry, str, str]]] = defaultdict(list)
    for entry in now:
        same, older = before.get((entry.name, entry.version)), by_name.get(entry.name, [])
        for code, quoted, message in _judge(entry, same, older, hosts, known, bool(was)):
            # A host or a whole file without digests is one defect, however many packages it has.
            group = {"lock-unverified": ""}.get(code, entry.name)
            group = _host(entry.source) if code in {"lock-http", "lock-source"} else group
            groups[code, group].append((entry, quoted, message))
    for (code, _), ((entry, quoted, message), *others) in groups.items():
        more = len({other.name for other, *_ in others} - {entry.name})
        tail = f", as with {more} more packages" if more else ""
        line = _line(head, added, quoted, entry)
        yield RawFinding(code, head.path, line, message + tail, key=f"{entry.name} {entry.version}")


def _judge(
    entry: Entry,
    same: Entry | None,
    older: Sequence[Entry],
    hosts: Collection[str],
    known: Collection[tuple[str, str]],
    compares: bool,
) -> Iterator[tuple[str, str, str]]:
    """A code, the text whose line it is on, and a message, for each thing wrong with an entry."""
    name, host = entry.name, _host(entry.source)
    if (name, entry.source) not in known:
        if re.match(r"(?:git\+)?(?:http|git|ftp)://", entry.source):
            yield "lock-http", entry.source, f"{name} is downloaded without encryption from {host}"
        elif host and host not in hosts:
            yield (
                "lock-source",
                entry.source,
                f"{name} is downloaded from {host}, no known registry",
            )
    quoted = entry.digests[0] if entry.digests else name
    if same and same.digests and entry.digests and not {*same.digests} & {*entry.digests}:
        message = f"{name} {entry.version} has another digest and the same version"
        yield "lock-digest", quoted, message
    verified = same.digests if same else all(one.digests or one.exempt for one in older)
    if not entry.digests and not entry.exempt and compares and verified:
        yield "lock-unverified", name, f"{name} {entry.version} has no digest"
    if entry.script and not any(one.script for one in older):
        yield "lock-script", name, f"Installing {name} {entry.version} runs a script of it"


def _host(source: str) -> str:
    """The host of a URL in lower case; empty where it names none."""
    source = re.sub(r"^(?:git\+)?(?:ssh://)?git@([^:/]+)[:/]", r"ssh://\1/", source)
    try:
        return (urlsplit(source).hostname or "").lower()
    except ValueError:
        return "an unreadable address"


def _line(head: Source, added: Collection[int], quoted: str, entry: Entry) -> int:
    """The line of an entry: an added one with the text, or with its version near its name."""
    lines = head.lines
    name = re.compile(rf"(?<![\w.-]){re.escape(entry.name)}(?![\w.-])")
    named = [number for number, line in enumerate(lines, 1) if name.search(line)]
    new = [number for number in sorted(added) if number <= len(lines)]
    if quoted != entry.name and (exact := [n for n in new if quoted in lines[n - 1]]):
        return exact[0]
    near = [n for n in new if any(n - ENTRY_LINES < at <= n for at in named)]
    return next(
        (n for n in near if entry.version in lines[n - 1]), next(iter(near), [*named, 1][0])
    )
