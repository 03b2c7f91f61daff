"""Dependencies that the change adds, unpins, or takes from another source than before.

A name that another changed manifest had in base was only moved.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from posixpath import dirname
from typing import Any

from msgspec.structs import replace

from diffchecks.check_io import CheckReply, Gap, RawFinding, Source, read, read_if_possible, text_of
from diffchecks.conflict_markers import find_conflicts
from diffchecks.data_files import read_patterns
from diffchecks.dependencies import lock_files
from diffchecks.dependencies.advisories import find_vulnerable
from diffchecks.dependencies.build_scripts import find_build_code, is_build_script
from diffchecks.dependencies.changed_packages import MAX_LOCK_FILE
from diffchecks.dependencies.lock_file_entries import (
    LockEntry,
    is_lock_file,
    pinned,
    read_entries,
    requirements,
)
from diffchecks.dependencies.look_alikes import find_look_alike
from diffchecks.dependencies.manifests import find_manifest, is_manifest, read_manifest
from diffchecks.dependencies.package_sources import NOTHING, Dependency, Manifest, repository
from diffchecks.jobs import ChangedFile, DependenciesJob

_HOOKS = read_patterns("manifests")


def run(job: DependenciesJob) -> CheckReply:
    """Report what is new in the manifests and lock files of head."""
    reply = CheckReply()
    locked: list[RawFinding] = []
    sides: list[tuple[Source, set[int], Manifest, Manifest]] = []
    at_commits: dict[str, set[str]] = {}  # by directory, what a lock file takes from repositories
    changed = [f.path for f in job.files if f.status != "deleted" and is_manifest(f.path)]
    of_head = [find_manifest(job.head_root, path) for path in (*changed, *job.members)]
    local = {each.own_name.lower() for each in of_head}  # packages of the repository itself
    sources = [one.source for each in of_head for one in each.dependencies.values()]
    sources += [one.written for each in of_head for one in each.settings]
    named = set(map(repository, filter(None, sources)))
    for file in job.files:
        path, old, added = file.path, file.old_path, set(file.added)
        is_read = is_manifest(path) or is_lock_file(path) or is_build_script(path)
        if file.status == "deleted" or not is_read:
            continue
        try:
            head = Source(path, read(job.head_root, path, MAX_LOCK_FILE))
            if is_build_script(path):
                text = read_if_possible(job.base_root, old) if old else b""
                reply.findings.extend(find_build_code(head, added, text))
            elif is_lock_file(path):
                found, now_locked = _compare_lock_files(job, file, head, named, reply)
                locked += found
                of_folder = at_commits.setdefault(dirname(path), set())
                of_folder.update(entry.name for entry in now_locked if entry.git)
                local.update(entry.name.lower() for entry in now_locked if entry.path)
            else:
                in_head = read_manifest(path, head.text)
                in_base = find_manifest(job.base_root, old)
                sides.append((head, added, in_base, in_head))
                locked += _compare_hashes(job, old, head, added)
        except Gap as gap:
            reply.gaps[path] = str(gap)
            continue
        reply.examined.append(path)
    deleted = (file.path for file in job.files if file.status == "deleted")
    gone = (find_manifest(job.base_root, path) for path in deleted)
    before = [*(in_base for *_, in_base, _ in sides), *gone]
    known = {
        (in_base.ecosystem, name): dependency
        for in_base in before
        for name, dependency in in_base.dependencies.items()
    }
    for head, added, in_base, in_head in sides:
        reply.findings.extend(
            finding
            for finding in _compare(head, added, in_base, in_head, known)
            if finding.code not in {"new", "loosened"} or str(finding.key).lower() not in local
            if finding.code != "floating-source"
            or finding.key not in at_commits.get(dirname(head.path), ())
        )
        known |= {(in_head.ecosystem, name): one for name, one in in_head.dependencies.items()}
    reply.findings.extend(locked)
    reply.gaps.update(job.advisory_gaps)
    if job.advisories:
        reply.findings.extend(find_vulnerable(job, reply.gaps))
    return reply


def _compare_lock_files(
    job: DependenciesJob, file: ChangedFile, head: Source, named: Collection[str], reply: CheckReply
) -> tuple[list[RawFinding], list[LockEntry]]:
    """Findings in a lock file, and its entries; a gap if base's version cannot be read."""
    if conflicts := list(find_conflicts(head)):
        reply.gaps[head.path] = "its packages could not be read: it has conflict markers"
        return [replace(conflicts[0], key="conflict")], []
    before, old = list[LockEntry](), file.old_path
    entries = read_entries(head.path, head.text)
    after = [replace(one, declared=repository(one.source) in named) for one in entries]
    if old and is_lock_file(old):
        try:
            before = read_entries(old, Source(old, read(job.base_root, old, MAX_LOCK_FILE)).text)
        except Gap as gap:
            reply.gaps[head.path] = f"it could not be compared, since in base {gap}"
    return list(lock_files.compare(head, file.added, before, after)), after


def _compare_hashes(
    job: DependenciesJob, old: str | None, head: Source, added: Collection[int]
) -> Iterator[RawFinding]:
    """Findings about the hashes of a requirements file that had hashes in base."""
    if not (old and head.name.endswith((".txt", ".in")) and is_manifest(old)):
        return
    with suppress(Gap):
        text = Source(old, read(job.base_root, old, MAX_LOCK_FILE)).text
        if before := list(requirements(text)):
            yield from lock_files.compare(head, added, before, list(pinned(head.text)))


def _compare(
    head: Source,
    added: Collection[int],
    before: Manifest,
    after: Manifest,
    known: Mapping[tuple[str, str], Dependency],
) -> Iterator[RawFinding]:
    """Findings for what is new in a manifest; ``known``: dependencies of all manifests in base."""

    def at(code: str, text: str, message: str, key: str, beside: str = "") -> RawFinding:
        line = _line(head, added, text, beside)
        return RawFinding(code, head.path, line, message, key=key)

    for name, dependency in after.dependencies.items():
        elsewhere = known.get((after.ecosystem, name))
        moved = elsewhere if elsewhere and elsewhere.source == dependency.source else None
        for code, message in (
            *(_judge_new(after.ecosystem, dependency, before is NOTHING) if not elsewhere else ()),
            *_judge_versions(dependency, before.dependencies.get(name, moved)),
        ):
            of_version = code == "loosened" and dependency.version_name
            spec = dependency.spec.lstrip("=")
            yield at(code, of_version or dependency.written, message, name, spec)
    for name in after.hooks:
        command, old = (_runs(name, each.hooks.get(name, ""), head) for each in (after, before))
        same = _steps(command, after.scripts) == _steps(old, before.scripts)
        if not (same or f"{old} && ".startswith(f"{command} && ")):
            yield at("install-script", f'"{name}"', f"Every installation runs {command!r}", name)
    for setting in after.settings:
        if setting not in before.settings:
            yield at(setting.code, setting.written, setting.message, setting.message)


def _runs(name: str, script: str, head: Source) -> str:
    """What an install script runs, without the tools that set up a project nobody installs."""
    local = name == "prepare" or _HOOKS["unpublished"].search(head.text)
    return " && ".join(
        part
        for part in _HOOKS["and"].split(script)
        if not (local and _HOOKS["local"].fullmatch(part))
        and (name.endswith("install") or _HOOKS["program"].search(part))
    )


def _steps(command: str, scripts: Mapping[str, Any]) -> list[str]:
    """What a command runs, in any order; named scripts as what they run, wherever they write it."""
    lines = command.replace(" && ", "\n")
    lines = _HOOKS["runs_script"].sub(lambda one: text_of(scripts.get(one[1])) or one[0], lines)
    return sorted(_HOOKS["writes"].sub("", lines).split("\n"))


def _judge_new(ecosystem: str, dependency: Dependency, first: bool) -> Iterator[tuple[str, str]]:
    """A code and a message for a new dependency; none in a project's first manifest."""
    written = dependency.written
    if look_alike := find_look_alike(ecosystem, dependency.name):
        known = f"a name that looks like the well-known {look_alike}"
        yield "look-alike", f"New dependency: {written}, {known}"
    elif not first and not dependency.source:
        version = f" {dependency.spec}" if dependency.spec else ""
        yield "new", f"New dependency: {written}{version} ({ecosystem})"


def _judge_versions(dependency: Dependency, before: Dependency | None) -> Iterator[tuple[str, str]]:
    """A code and a message if unreviewed versions may be installed."""
    written, source = dependency.written, dependency.source
    if source and (before is None or before.source != source) and _floats(source):
        message = f"{written} comes from {source}, a source whose content can change at any time"
        yield "floating-source", message
    elif before and not source and _has_ceiling(before) and not _has_ceiling(dependency):
        name = dependency.version_name or written
        yield "loosened", f"{name} was {before.spec} and has no upper bound now"


def _has_ceiling(dependency: Dependency) -> bool:
    managed = ":" in dependency.name and not dependency.spec  # Maven takes it from another file
    return managed or _HOOKS["ceiling"].search(dependency.spec) is not None


def _floats(source: str) -> bool:
    """Whether its content can change: no commit, digest or release, or no encryption."""
    return source.startswith("http:") or not (
        _HOOKS["commit"].search(source)
        or _HOOKS["release"].search(source)
        or re.search(r"sha\d+[=-]|\.(?:whl|tgz|zip|tar\.gz)\b", source)
    )


def _line(head: Source, added: Collection[int], text: str, beside: str = "") -> int:
    """The line that contains the text: an added one if there is one, with what is beside it."""
    word = re.compile(rf"(?<![\w-]){re.escape(text)}(?![\w-])", re.IGNORECASE)
    lines = [number for number, line in enumerate(head.lines, 1) if word.search(line)]
    if beside and not set(lines).intersection(added):
        lines += [number for number in added if beside in head.lines[number - 1]]
    return max(lines, key=lambda n: (n in added, beside in head.lines[n - 1]), default=1)
