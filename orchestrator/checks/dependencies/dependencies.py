"""Dependencies that the change adds, lets float, or takes from somewhere else than before.

A name that another changed manifest had in base has only moved. Source for what counts as pinned:
PEP 440, the ranges of npm and Cargo.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from orchestrator.checks.check_protocol import CheckReply, Gap, RawFinding, Source, read
from orchestrator.checks.dependencies.manifests import (
    Declared,
    Manifest,
    is_manifest,
    read_manifest,
)
from orchestrator.checks.python.source import Job

NAMES_SHOWN = 5

_NOTHING = Manifest({}, {}, {})
_COMMIT = re.compile(r"[@#=][0-9a-f]{40}\b")
_CEILING = re.compile(r"==|~=|<|\^|~|(?<![<>=!])=(?!=)|^v?\d")


def run(job: Job) -> CheckReply:
    """Report what is new in the manifests of head."""
    gaps: dict[str, str] = {}
    examined: list[str] = []
    sides: list[tuple[str, Source, set[int], Manifest, Manifest]] = []
    for file in job["files"]:
        path, old = file["path"], file["old_path"]
        if file["status"] == "deleted" or not is_manifest(path):
            continue
        try:
            head = Source(path, read(job["head_root"], path))
            now = read_manifest(path, head.text)
        except Gap as gap:
            gaps[path] = str(gap)
            continue
        sides.append((path, head, set(file["added"]), _before(job, old), now))
        examined.append(path)
    known = {name for *_, was, _ in sides for name in was.dependencies}
    found = [one for side in sides for one in _compare(*side, known)]
    return CheckReply(found, examined, gaps)


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

    new = [one for name, one in now.dependencies.items() if name not in known]
    if was is not _NOTHING and (plain := [one for one in new if not one.source]):
        listed = ", ".join(one.written for one in plain[:NAMES_SHOWN])
        more = f" and {len(plain) - NAMES_SHOWN} more" if len(plain) > NAMES_SHOWN else ""
        yield at("new", plain[0].written, f"New dependency: {listed}{more}", listed)
    for name, one in now.dependencies.items():
        before = was.dependencies.get(name)
        if one.source and (before is None or before.source != one.source) and _floats(one.source):
            message = f"{one.written} comes from {one.source}, which may change at any time"
            yield at("floating-source", one.written, message, name)
        elif before and _has_ceiling(before) and not one.source and not _has_ceiling(one):
            message = f"{one.written} was {before.spec} and may be any later version now"
            yield at("loosened", one.written, message, name)
    for name, command in now.hooks.items():
        if was.hooks.get(name) != command:
            yield at("install-script", f'"{name}"', f"Every installation runs {command!r}", name)
    for option, value in now.indexes.items():
        if option not in was.indexes:
            message = f"{option} {value}: a package may now come from a place of another's choice"
            yield at("extra-index", option, message, option)


def _has_ceiling(one: Declared) -> bool:
    return bool(one.spec) and one.spec != "*" and bool(_CEILING.search(one.spec))


def _floats(source: str) -> bool:
    """Whether what stands there may be replaced: no commit, no digest, or no encryption."""
    return source.startswith("http:") or not (
        _COMMIT.search(source) or re.search(r"sha\d+[=-]|\.(?:whl|tgz|zip|tar\.gz)\b", source)
    )


def _line(head: Source, added: set[int], text: str) -> int:
    """The first added line that holds the text, else any line that does, else the first."""
    word = re.compile(rf"(?<![\w-]){re.escape(text)}(?![\w-])", re.IGNORECASE)
    lines = [number for number, line in enumerate(head.lines, 1) if word.search(line)]
    return next((number for number in lines if number in added), lines[0] if lines else 1)
