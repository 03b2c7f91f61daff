"""Type errors that a change introduces in any file: those of head that base does not have.

A changed signature breaks callers in unchanged files, so all files count. An error is not new if
base has one of the same kind at a line with the same text, or with the same message in the same
file: then it only moved, or its line was rewritten.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from posixpath import normpath

from msgspec import Struct

from diffchecks.check_io import CheckReply, Gap, RawFinding, Source, read
from diffchecks.imported_reports.result import one_line
from diffchecks.jobs import TypeCheckJob, TypeCheckRun
from diffchecks.secrets.secret_scan import find_secrets_by_line
from diffchecks.type_errors.printed_errors import (
    NotPrintedByCheckerError,
    PrintedError,
    read_errors,
)

MAX_FINDINGS = 100  # findings of one review
NAME = "typecheck"
_EXAMPLES = 3


class Error(Struct, frozen=True):
    """An error at a line of one side.

    Attributes:
        path: in head.
        text: its line without white space.
    """

    path: str
    line: int
    column: int
    code: str
    message: str
    text: str


class _Side(Struct, frozen=True):
    """The errors of one side; ``elsewhere``: those outside of the tree's files."""

    errors: Sequence[Error] = ()
    elsewhere: Sequence[str] = ()


def run(job: TypeCheckJob) -> CheckReply:
    """Report new errors; a run without usable output is a gap under the tool's name."""
    if job.refused:
        return CheckReply(gaps={NAME: job.refused})
    added = {file.path: frozenset(file.added) for file in job.files}
    try:
        head = _read_side(job.head_run, job.checker, {})
    except NotPrintedByCheckerError as why:
        return CheckReply(gaps={NAME: str(why)})
    base, reasons = _Side(), list[str]()
    new = list(head.errors)
    why_not = job.base_refused
    if job.base_run:
        renamed = {file.old_path or file.path: file.path for file in job.files}
        try:
            base = _read_side(job.base_run, job.checker, renamed)
        except NotPrintedByCheckerError as why:
            why_not = str(why)
    if why_not:
        reasons.append(f"on base: {why_not}; so only errors at added lines count")
        new = [one for one in new if one.line in added.get(one.path, ())]
    else:
        new = find_new(base.errors, new, lambda path: added.get(path, frozenset()))
    reasons += _left_out(base, head, new)
    findings = [_finding(one, job.checker, one.path in added) for one in new[:MAX_FINDINGS]]
    gaps = {NAME: "; ".join(reasons)} if reasons else {}
    examined = [] if gaps else [file.path for file in job.files]
    return CheckReply(findings, examined, gaps, {"errors": len(head.errors), "new": len(new)})


def find_new(
    base: Sequence[Error], head: Sequence[Error], added: Callable[[str], frozenset[int]]
) -> list[Error]:
    """The errors of head without a counterpart in base, in reading order.

    Args:
        added: path in head → added lines; of equal errors, those on added lines are new.
    """
    keys: list[Callable[[Error], tuple[str, ...]]] = [
        lambda one: (one.path, one.code, one.text),
        lambda one: (one.code, one.text),
        lambda one: (one.path, one.code, one.message),
    ]
    new = sorted(head, key=lambda one: (one.line in added(one.path), one.path, one.line))
    rest = list(base)
    for key in keys:
        known: dict[tuple[str, ...], list[Error]] = {}
        for one in rest:
            known.setdefault(key(one), []).append(one)
        unmatched: list[Error] = []
        for one in new:
            if counterparts := known.get(key(one)):
                counterparts.pop()
            else:
                unmatched.append(one)
        new, rest = unmatched, [one for left in known.values() for one in left]
    return sorted(new, key=lambda one: (one.path, one.line, one.column, one.code))


def _read_side(given: TypeCheckRun | None, checker: str, renamed: Mapping[str, str]) -> _Side:
    """The errors of one run.

    Args:
        renamed: path on this side → path in head, if they differ.
    """
    if given is None or not given.code:  # the exit code decides
        return _Side()
    tree, lines = frozenset(given.tree), dict[str, Sequence[str]]()
    root, errors, elsewhere = given.root, list[Error](), list[str]()
    for printed in read_errors(checker, Path(given.output).read_bytes()):
        path = normpath(printed.path.replace("\\", "/").removeprefix(f"{root}/"))
        if path not in tree or printed.line < 1:
            elsewhere.append(one_line(f"{printed.path} {printed.message}".strip(), 120))
            continue
        if path not in lines:
            lines[path] = _lines(root, path)
        errors.append(_placed(printed, path, renamed.get(path, path), lines[path]))
    if not errors:
        raise NotPrintedByCheckerError(
            f"ended with exit code {given.code} and reports no error in a file, as if it had "
            f"failed: {(elsewhere or [given.last])[0]}"
        )
    return _Side(errors, elsewhere)


def _placed(printed: PrintedError, path: str, in_head: str, lines: Sequence[str]) -> Error:
    text = lines[printed.line - 1] if printed.line <= len(lines) else ""
    said = one_line(printed.message).rstrip(".")
    code = one_line(printed.code, 80)
    return Error(in_head, printed.line, printed.column, code, said, "".join(text.split()))


def _lines(root: str, path: str) -> Sequence[str]:
    try:
        return Source(path, read(root, path)).lines
    except Gap:
        return ()


def _left_out(base: _Side, head: _Side, new: Sequence[Error]) -> Iterator[str]:
    """What is left out, and why."""
    known = set(base.elsewhere)
    elsewhere = [one for one in head.elsewhere if one not in known]
    if elsewhere:
        shown = "; ".join(elsewhere[:_EXAMPLES])
        yield f"left out errors that are in no file of the tree: {len(elsewhere)}, such as {shown}"
    if len(new) > MAX_FINDINGS:
        yield f"left out errors beyond the first {MAX_FINDINGS}: {len(new) - MAX_FINDINGS}"


def _finding(one: Error, checker: str, in_change: bool) -> RawFinding:
    named = f" as {one.code}" if one.code else ""
    where = "" if in_change else ", in a file that the change leaves alone"
    return RawFinding(
        code=one.code or "error",
        path=one.path,
        line=one.line,
        column=max(one.column, 0),
        message=one.message,
        detail=f"Reported by {checker}{named}{where}",
        redact=tuple(sorted(_secrets(one.path, [one.message]))),
    )


def _secrets(path: str, texts: Iterable[str]) -> set[str]:
    scanned = Source(path, "\n".join(texts).encode("utf-8", "surrogateescape"))
    return {secret for _, secret in find_secrets_by_line(scanned)}
