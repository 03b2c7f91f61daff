"""Protection that a change removes: access control, escaping, safe calls, earlier fixes."""

import os
from collections.abc import Iterable
from itertools import chain

from diffchecks.check_io import NOTE, CheckReply, Gap, Source, read
from diffchecks.data_files import read_patterns, vocabulary
from diffchecks.file_patterns import file_names, matches
from diffchecks.jobs import ProtectionsJob
from diffchecks.path_kinds import path_kinds
from diffchecks.python.source_definitions import parse_text
from diffchecks.removed_controls.forgotten_failures import find_forgotten_failures
from diffchecks.removed_controls.lost_declarations import (
    GRAMMARS,
    Declarations,
    DeclaringFile,
    find_lost_declarations,
    read_other,
    read_python,
)
from diffchecks.removed_controls.lost_wrapping import ChangedText, find_lost_wrapping, name_once
from diffchecks.removed_controls.removed_checks import find_lost_settings, find_removed_checks
from diffchecks.removed_controls.reverted_fixes import add_history
from diffchecks.removed_controls.unsafe_replacements import find_unsafe_replacements

_NOT_IN = frozenset({"tests", "samples"})  # as in the rules; reading them takes half of the time

MAX_LINE = 20_000  # characters; longer lines are generated, and take minutes
_PACKED = f"a changed line is longer than {MAX_LINE} characters"
_is_text = read_patterns("lost_wrapping")["one_text"].fullmatch
_NOT_COMPARED = "lost lines were not compared with earlier security fixes"


def run(job: ProtectionsJob) -> CheckReply:
    """Report protection that the changed files lost."""
    texts: list[ChangedText] = []
    old_texts: dict[str, ChangedText] = {}
    declaring: list[DeclaringFile] = []
    gaps: dict[str, str] = {}
    for file in job.files:
        if file.status in {"deleted", "mode"}:
            continue
        try:
            head, old = Source(file.path, read(job.head_root, file.path)).lines, file.old_path
            base = Source(old, read(job.base_root, old)).lines if old else []
            numbers = frozenset(file.removed), frozenset(file.added)
            text = ChangedText(file.path, base, head, *numbers)
            texts.append(text)
            if file.old_path:
                old_texts[file.old_path] = text
            if changed := read_changed_file(file.old_path, text):
                declaring.append(changed)
        except Gap as gap:
            gaps[file.path] = str(gap)
    code = [text for text in texts if matches(text.path, file_names("guarded_code"))]
    bare = [text.code for text in code]
    findings = list(find_lost_wrapping(bare))
    findings += chain.from_iterable(find_unsafe_replacements(text.code) for text in texts)
    findings += chain.from_iterable(map(find_forgotten_failures, bare))
    known = {(finding.path, finding.line) for finding in findings}
    lost = [*find_lost_declarations(declaring), *find_lost_settings([text.code for text in texts])]
    findings += (finding for finding in lost if (finding.path, finding.line) not in known)
    if job.fixes:
        findings = add_history(findings, old_texts, job.fixes, code)
    known = {(finding.path, finding.line) for finding in findings}
    leads = (lead for lead in find_removed_checks(bare) if (lead.path, lead.line) not in known)
    facts = {NOTE: f"{_NOT_COMPARED}: {why}"} if (why := job.history_unsearched) else {}
    examined = [text.path for text in texts if text.path not in gaps]
    return CheckReply([*name_once(findings), *leads], examined, gaps, facts)


def read_changed_file(old_path: str | None, text: ChangedText) -> DeclaringFile | None:
    """Read the declarations of a changed file on both sides; None if there is nothing to compare.

    Raises:
        Gap: a version cannot be read. The review notes it even if base's version cannot be read
            either.
    """
    suffix = os.path.splitext(text.path)[1].lower()
    if suffix not in GRAMMARS or not path_kinds(text.path).isdisjoint(_NOT_IN):
        return None
    code, hunks = text.code, [*text.hunks()]
    touched_head = _touched(hunk.head for hunk in hunks)
    touched_base = _touched(hunk.base for hunk in hunks)
    if suffix != ".py":
        packed = _is_packed(code.head, touched_head), _is_packed(code.base, touched_base)
        if all(packed):
            return None  # it was generated in base already
        if any(packed):
            raise Gap(_PACKED)
    head = _read(suffix, text.head, code.head, touched_head)
    try:
        base = _read(suffix, text.base, code.base, touched_base)
    except Gap as gap:
        raise Gap(f"the base version {gap}") from None
    return DeclaringFile(old_path or text.path, code, base, head)


def _read(suffix: str, whole: list[str], lines: list[str], touched: frozenset[int]) -> Declarations:
    """Read the declarations of one version, from its ``lines`` without comments.

    A syntax tree of Python has no comments; that of the ``whole`` text is shared with other checks.
    """
    try:
        if suffix != ".py":
            return read_other(GRAMMARS[suffix], lines, touched)
        # Bytes of another encoding than UTF-8 stand in texts and comments only.
        read = read_python(parse_text("\n".join(whole).encode("utf-8", "replace").decode()))
        near = touched.intersection(range(1, len(lines) + 1))
        if vocabulary("may_refuse").search("\n".join(lines[n - 1] for n in near)):
            read.refusals = read_other(GRAMMARS[suffix], lines, near).refusals
    except (RecursionError, MemoryError):
        raise Gap("does not parse: nested too deeply") from None
    except ValueError as error:
        raise Gap(f"does not parse: line 1: {error}") from None
    return read


def _is_packed(lines: list[str], touched: frozenset[int]) -> bool:
    """Whether a differing line, or one next to it, is generated; one text is data, however long."""
    packed = (n for n, line in enumerate(lines, 1) if len(line) > MAX_LINE and not _is_text(line))
    return not touched.isdisjoint(packed)


def _touched(ranges: Iterable[range]) -> frozenset[int]:
    """The differing lines of one side, and those next to insertions on the other side."""
    return frozenset(line for lines in ranges for line in range(lines.start - 1, lines.stop + 1))
