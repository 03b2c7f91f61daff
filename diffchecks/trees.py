"""Checking two directory trees in this process: what the second one introduces."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct, convert

from diffchecks import DATA, PREFIX, Severity, enclosing_scopes
from diffchecks.check_io import CheckReply, Gap, RawFinding, read, read_lines
from diffchecks.declarations import CHECKS, Check
from diffchecks.executed_files import PROGRAMS, choose_texts
from diffchecks.jobs import AnyJob, ChangedFile, ExecutedFilesJob, PatternsJob, SideJob
from diffchecks.new_findings import RuledFinding, comparable, find_new, join_many
from diffchecks.path_kinds import path_kinds, vendored_directory
from diffchecks.programs import Ended, find_linter
from diffchecks.rules import Rule, shipped_rules

Run = Callable[[list[str], Path], Ended]
"""Runs a program in a directory, given its name and arguments."""

_START = 8000
"""Bytes of a file in which a zero byte says that it is no text."""


class CheckFinding(Struct, frozen=True):
    """A defect that the second tree introduces.

    Attributes:
        rule: the rule's id, such as ``security.eval``; ``data/rules`` describes it.
        check: the name of the check in ``declarations.CHECKS``.
        path: of the file, below ``head``.
        line, end_line: 1-based and inclusive.
        message: one sentence without a secret.
        fix: what to do.
        cwe: numbers of weaknesses.
        confidence: 0 to 1; below 1 where a name or a place is all there is to go by.
    """

    rule: str
    check: str
    severity: Severity
    title: str
    path: str
    line: int
    end_line: int
    message: str
    fix: str
    cwe: tuple[int, ...]
    confidence: float


def check_trees(
    base: Path | str,
    head: Path | str,
    *,
    paths: Collection[str] | None = None,
    gaps: dict[str, str] | None = None,
    run: Run | None = None,
) -> list[CheckFinding]:
    """Check what differs between two directories, and return what ``head`` introduces.

    All checks of ``declarations.CHECKS`` run but those that judge reports or outputs of programs;
    without ``run``, none that a linter makes. Nothing of the trees is run or imported. Files in
    directories of vendored code, generated files, files with a zero byte and symbolic links are
    left out. The checks run in this process; a file that is made to break a parser can end it. A
    review runs them in confined workers instead.

    Args:
        base, head: directories before and after the change.
        paths: of the files that differ, those to check, below ``head`` (of deleted ones, below
            ``base``); None: all of them.
        gaps: is filled with path → why a check could not read the file.
        run: runs a linter, given its name and arguments, in a directory with copies of files;
            returns exit code, standard output and standard error.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from diffchecks import check_trees
        >>> with TemporaryDirectory() as root:
        ...     base, head = Path(root, "base"), Path(root, "head")
        ...     for tree in (base, head):
        ...         tree.mkdir()
        ...     written = (base / "app.js").write_text("export const f = (x) => x;\\n")
        ...     written = (head / "app.js").write_text("export const f = (x) => eval(x);\\n")
        ...     found = check_trees(base, head)
        >>> [(finding.path, finding.line, finding.severity, finding.rule) for finding in found]
        [('app.js', 1, 'medium', 'security.text-as-code')]
    """
    roots = str(base), str(head)
    trees = sorted(_walk(roots[0])), sorted(_walk(roots[1]))
    files = _compare(*roots, *map(frozenset, trees))
    chosen = [file for file in files if paths is None or file.path in paths]
    change = _Change(roots, trees, chosen, run)
    found = [
        (check, finding)
        for check in CHECKS
        if not check.given and (run or not check.program)
        for finding in _introduced(check, change, {} if gaps is None else gaps)
    ]
    made = [_finding(check, *each) for check, each in found]
    return sorted(set(made), key=lambda one: (one.path, one.line, one.rule, one.message))


class _Change(Struct, frozen=True):
    """Two trees: the names of their files, and those that differ."""

    roots: tuple[str, str]
    trees: tuple[list[str], list[str]]
    files: list[ChangedFile]
    run: Run | None


def _walk(root: str) -> Iterator[str]:
    """The paths of all regular files but those of git."""
    waiting = [""]
    while waiting:
        above = waiting.pop()
        with os.scandir(f"{root}/{above}") as entries:
            for entry in entries:
                path = f"{above}{entry.name}"
                if entry.is_dir(follow_symlinks=False) and entry.name != ".git":
                    waiting.append(f"{path}/")
                elif entry.is_file(follow_symlinks=False):
                    yield path


def _compare(
    base: str, head: str, before: frozenset[str], after: frozenset[str]
) -> Iterator[ChangedFile]:
    """The files that differ and are text."""
    gone = {path: data for path in before - after if (data := _text(base, path)) is not None}
    places = {data: path for path, data in sorted(gone.items(), reverse=True) if data}
    for path in sorted(after):
        new = _text(head, path)
        old = _text(base, path) if path in before else None
        if new is None or new == old:
            continue
        if old is not None:
            added, removed = _differing_lines(old, new)
            yield ChangedFile(path, "modified", old_path=path, added=added, removed=removed)
        elif (moved := places.pop(new, None)) is not None:
            del gone[moved]
            yield ChangedFile(path, "renamed", old_path=moved)
        else:
            yield ChangedFile(path, "added", added=_all_lines(new))
    for path, old in sorted(gone.items()):
        yield ChangedFile(path, "deleted", old_path=path, removed=_all_lines(old))


def _text(root: str, path: str) -> bytes | None:
    """The contents of a text that is to be checked."""
    if vendored_directory(path) or "generated" in path_kinds(path):
        return None
    try:
        data = read(root, path)
    except Gap:
        return None
    return None if b"\0" in data[:_START] else data


def _all_lines(data: bytes) -> tuple[int, ...]:
    return tuple(range(1, data.count(b"\n") + (not data.endswith(b"\n")) + 1)) if data else ()


def _differing_lines(before: bytes, after: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The added and the removed lines."""
    added, removed = list[int](), list[int]()
    old, new = (data.split(b"\n") for data in (before, after))
    for kind, start, end, first, last in SequenceMatcher(None, old, new).get_opcodes():
        if kind != "equal":
            removed += range(start + 1, end + 1)
            added += range(first + 1, last + 1)
    return tuple(added), tuple(removed)


def _introduced(check: Check, change: _Change, gaps: dict[str, str]) -> list[RuledFinding]:
    """What a check finds that is new, with its rules."""
    files = [
        file
        for file in change.files
        if any(path in check.files for path in file.paths)
        if check.lock_files or "lock_files" not in path_kinds(file.path)
    ]
    if not files:
        return []
    if check.compares:
        reply = _run(check, _comparison_job(check, change, files), change)
        gaps |= reply.gaps
        return join_many(_with_rules(check, reply.findings))
    head = [file.path for file in files if file.status != "deleted" and file.path in check.files]
    after = _run(check, _side_job(check, change, 1, head), change)
    gaps |= after.gaps
    findings = _with_rules(check, after.findings)
    if not findings:
        return []
    old = [file.old_path for file in files if file.old_path and file.old_path in check.files]
    before = _run(check, _side_job(check, change, 0, old), change)
    known = _comparable(change.roots[0], _with_rules(check, before.findings))
    return find_new(known, _comparable(change.roots[1], findings), change.files)


def _run(check: Check, job: AnyJob, change: _Change) -> CheckReply:
    if isinstance(job, SideJob) and change.run and check.program:
        return _lint(check, job, change.run)
    module = import_module(f"{PREFIX}{check.module}")
    reply: CheckReply = module.run(job)
    return reply


def _lint(check: Check, job: SideJob, run: Run) -> CheckReply:
    codes = shipped_rules().codes(check.reporter, check.rules_topic)
    with TemporaryDirectory() as name:
        directory = Path(name)
        steps = find_linter(check.program).check(Path(job.root), job.paths, directory, codes)
        step = next(steps)
        while not isinstance(step, CheckReply):
            step = steps.send(run([check.program, *step], directory))
    return step


def _side_job(check: Check, change: _Change, side: int, paths: Sequence[str]) -> AnyJob:
    job = {"root": change.roots[side], "paths": list(paths)}
    if check.needs in {"names", "tree"}:
        tree = change.trees[side]
        job["tree"] = tree if check.needs == "names" else [p for p in tree if p in check.files]
    if check.data:
        job["data"] = sorted(map(str, (DATA / check.data).glob("*.yaml")))
    if issubclass(check.job, PatternsJob):
        job["codes"] = sorted(shipped_rules().codes(check.reporter, check.rules_topic))
    return convert(job, check.job)


def _comparison_job(check: Check, change: _Change, files: list[ChangedFile]) -> AnyJob:
    (base, head), (before, after) = change.roots, change.trees
    sides = {"base_root": base, "head_root": head, "base_tree": before, "head_tree": after}
    job = convert({"files": files, **sides}, check.job)
    if isinstance(job, ExecutedFilesJob):
        job.texts, is_unusual = choose_texts(f.path for f in files if f.status != "deleted")
        job.programs = [p for p in after if p in PROGRAMS] if is_unusual else []
    return job


def _with_rules(check: Check, findings: Sequence[RawFinding]) -> list[RuledFinding]:
    find = partial(shipped_rules().find_for, check.reporter)
    return [(rule, raw) for raw in findings if (rule := find(raw)) is not None]


def _comparable(root: str, findings: Sequence[RuledFinding]) -> list[RuledFinding]:
    lines = enclosing_scopes.lines_without_scope(raw for _, raw in findings)
    found = enclosing_scopes.run({"root": root, "paths": list(lines), "lines": lines})
    scopes = enclosing_scopes.scopes_by_line(found, lines)
    lines_of = cache(lambda path: read_lines(root, path) or [])
    return [(rule, comparable(raw, lines_of, scopes)) for rule, raw in findings]


def _finding(check: Check, rule: Rule, raw: RawFinding) -> CheckFinding:
    return CheckFinding(
        rule=rule.id,
        check=check.name,
        severity=rule.severity_of(raw),
        title=rule.title,
        path=raw.path,
        line=raw.line,
        end_line=raw.end_line,
        message=raw.message,
        fix=rule.advice(raw.code),
        cwe=rule.cwe,
        confidence=raw.confidence,
    )
