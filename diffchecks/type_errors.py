"""Type errors that a change introduces in any file: those of head that base does not have.

A changed signature breaks callers in unchanged files, so all files count. An error is not new if
base has one of the same kind at a line with the same text, or with the same message in the same
file: then it only moved, or its line was rewritten. mypy, pyright and tsc print text or JSON.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from posixpath import normpath

from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import decode

from diffchecks.check_io import CheckReply, RawFinding, read_lines
from diffchecks.data_files import read_patterns
from diffchecks.imported_reports.result import one_line
from diffchecks.jobs import TypeCheckJob, TypeCheckRun
from diffchecks.new_findings import unmatched
from diffchecks.secrets.secret_scan import secrets_in

_PATTERNS = read_patterns("type_errors")
MAX_CHARACTERS = 4000  # of a line
MAX_LINES = 20  # of a message


class NotPrintedByCheckerError(Exception):
    """The output is not the checker's; ``str()`` is the reason, to be shown after its name."""


class PrintedError(Struct, frozen=True):
    """An error that a checker printed.

    Attributes:
        path: as printed.
        line, column: 1-based; column 0: not known.
        code: the checker's error code; empty: none.
    """

    path: str
    line: int
    column: int
    code: str
    message: str


def read_errors(checker: str, data: bytes) -> list[PrintedError]:
    """Read the errors in a checker's output, without warnings and notes.

    Raises:
        NotPrintedByCheckerError: it looks like JSON, but not like the checker's.
    """
    text = _PATTERNS["color"].sub("", data.decode("utf-8", "replace"))
    try:
        if text.lstrip().startswith("{") and checker in _JSON:
            return list(_JSON[checker](text))
    except (ValidationError, DecodeError, RecursionError) as error:
        raise NotPrintedByCheckerError(f"printed JSON that is not {checker}'s: {error}") from None
    return list(_TEXT[checker](text))


class _MypyError(Struct):
    file: str
    line: int
    message: str
    severity: str
    column: int = -1
    code: str | None = None


def _mypy_json(text: str) -> Iterator[PrintedError]:
    for line in text.splitlines():
        if line.startswith("{"):
            one = decode(line, type=_MypyError)
            if one.severity == "error":
                yield PrintedError(one.file, one.line, one.column + 1, one.code or "", one.message)


def _mypy_text(text: str) -> Iterator[PrintedError]:
    for line in text.splitlines():
        if found := _PATTERNS["mypy"].match(line[:MAX_CHARACTERS]):
            path, number, column, message = found.groups()
            code = _PATTERNS["mypy_code"].search(message)
            words = message[: code.start()] if code else message
            yield PrintedError(path, int(number), int(column or 0), code[1] if code else "", words)


class _Position(Struct):
    line: int
    character: int


class _Range(Struct):
    start: _Position


class _PyrightError(Struct):
    file: str
    severity: str
    message: str
    range: _Range | None = None
    rule: str = ""


class _PyrightReport(Struct, rename={"diagnostics": "generalDiagnostics"}):
    diagnostics: list[_PyrightError]


def _pyright_json(text: str) -> Iterator[PrintedError]:
    for one in decode(text, type=_PyrightReport).diagnostics:
        if one.severity == "error":
            start = one.range.start if one.range else _Position(-1, -1)
            place = (one.file, start.line + 1, start.character + 1)
            yield PrintedError(*place, one.rule, one.message)


def _pyright_text(text: str) -> Iterator[PrintedError]:
    lines = text.splitlines()
    for at, line in enumerate(lines):
        found = _PATTERNS["pyright"].match(line[:MAX_CHARACTERS])
        if found and found[4] == "error":
            # The rule is at the end, and the message may continue on lines with more indentation,
            # also by no-break spaces.
            further = lines[at + 1 : at + MAX_LINES]
            more = takewhile(lambda one: one.strip() and not one[:4].strip(), further)
            message = " ".join([found[5] or "", *(one.strip()[:MAX_CHARACTERS] for one in more)])
            code = _PATTERNS["pyright_code"].search(message)
            words = message[: code.start()] if code else message
            place = (found[1], int(found[2]), int(found[3]))
            yield PrintedError(*place, code[1] if code else "", words)


def _tsc_text(text: str) -> Iterator[PrintedError]:
    for line in text.splitlines():
        if found := _PATTERNS["tsc"].match(line[:MAX_CHARACTERS]):
            path, number, column, pretty, pretty_column, code, message = found.groups()
            place = (path, int(number or pretty), int(column or pretty_column))
            yield PrintedError(*place, code, message)
        elif nowhere := _PATTERNS["tsc_nowhere"].match(line[:MAX_CHARACTERS]):
            yield PrintedError("", 0, 0, nowhere[1], nowhere[2])


_JSON: Mapping[str, Callable[[str], Iterator[PrintedError]]] = {
    "mypy": _mypy_json,
    "pyright": _pyright_json,
}
_TEXT: Mapping[str, Callable[[str], Iterator[PrintedError]]] = {
    "mypy": _mypy_text,
    "pyright": _pyright_text,
    "tsc": _tsc_text,
}

MAX_FINDINGS = 100  # findings of one review
NAME = "typecheck"
_EXAMPLES = 3


class Error(PrintedError, frozen=True):
    """An error at a line of one side.

    Attributes:
        path: in head.
        text: its line without white space.
    """

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
        new, rest = unmatched(rest, new, key)
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
            lines[path] = read_lines(root, path) or ()
        errors.append(_placed(printed, path, renamed.get(path, path), lines[path]))
    if not errors:
        raise NotPrintedByCheckerError(
            f"ended with exit code {given.code} and reports no error in a file, as if it had "
            f"failed: {(elsewhere or [given.last])[0]}"
        )
    return _Side(errors, elsewhere)


def _placed(printed: PrintedError, path: str, in_head: str, lines: Sequence[str]) -> Error:
    text = lines[printed.line - 1] if printed.line <= len(lines) else ""
    message = one_line(printed.message).rstrip(".")
    code = one_line(printed.code, 80)
    return Error(in_head, printed.line, printed.column, code, message, "".join(text.split()))


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
        redact=tuple(sorted(secrets_in(one.path, one.message))),
    )
