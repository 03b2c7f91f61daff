"""Which findings a change introduces: those of head that base does not have.

A finding is told from others by its rule, the cited text and the enclosing scope, without line
numbers or indentation, so that moved code causes no new finding. A finding is new if these occur
more often in head than in base. The rest is compared again without the scope and without what a
formatter changes, for code that was moved or whose function was renamed. A password that base has
in another statement is a sample that was moved, or known for long, as is a key in the same file.
Finally, uncertain findings (of tools that recognize calls by name only) are compared by message:
the same call in the same function of a file, written differently, is not new, unless the file
moved. So is a finding that names the same value, and markup of the same values, and a command of
a script with other constants. Taint analysis reports new data that flows into it. A file that did
not parse stays so.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from posixpath import basename
from typing import TypeVar

from msgspec.structs import replace

from diffchecks import name_some
from diffchecks.check_io import RawFinding
from diffchecks.data_files import read_patterns
from diffchecks.jobs import ChangedFile
from diffchecks.rules import Rule
from diffchecks.secrets.secret_plausibility import PASSWORDS

MANY = 20
"""Findings of a kind in one file, above which they are one."""

MAX_CONTINUED = 20
"""Lines by which a statement is followed before a finding, and after it."""

MINOR = frozenset({"low", "info"})
"""Severities of which many files with the same finding are one finding as well."""

MIN_DIALECT = 2
"""How often base has something, such as a file that did not parse, that is no defect then."""

ALIKE, MAX_COMPARED = 0.75, 4000
"""How much of the shorter of two is in both where one is the other, edited; characters of both."""

_NAMED_LINES = 12  # of the other places
_LOGGED = 532  # CWE: something private in a log
_UNVERIFIED = 295  # CWE: a certificate that is not verified
_PATTERNS = read_patterns("new_findings")
T = TypeVar("T")

RuledFinding = tuple[Rule, RawFinding]
"""A finding under its rule, comparable between base and head: ``key`` is the cited text without
white space, unless the reporter has its own, and ``scope`` is known."""

Key = Callable[[RuledFinding], tuple[str, ...]]


def identity(finding: RuledFinding) -> tuple[str, ...]:
    """Equal for the same finding in base and head."""
    rule, raw = finding
    return rule.id, raw.key or "", raw.scope or ""


def remove_white_space(lines: Iterable[str]) -> str:
    """Text without any white space: code that was indented or wrapped differently is equal."""
    return _PATTERNS["blank"].sub("", "".join(lines))


def comparable(
    raw: RawFinding, lines_of: Callable[[str], Sequence[str]], scopes: Mapping[tuple[str, int], str]
) -> RawFinding:
    """The finding with what it is compared by: the cited text and its scope, or its own key."""
    if raw.key is not None:
        return replace(raw, scope="")
    lines, first, last = lines_of(raw.path), raw.line, raw.end_line
    cited = remove_white_space(lines[first - 1 : last])
    goes_on = _PATTERNS["goes_on"].search
    while raw.line - first < MAX_CONTINUED and goes_on("\n".join(lines[max(first - 2, 0) : first])):
        first -= 1
    while last - raw.line < MAX_CONTINUED and goes_on("\n".join(lines[last - 1 : last + 1])):
        last += 1
    scope = scopes.get((raw.path, raw.line), "") if raw.scope is None else raw.scope
    statement = remove_white_space(lines[first - 1 : last])
    return replace(raw, key=cited, scope=scope, statement=statement)


def find_new(
    base: Sequence[RuledFinding], head: Sequence[RuledFinding], files: Collection[ChangedFile]
) -> list[RuledFinding]:
    """The findings of head that have no counterpart in base.

    Args:
        files: the changed ones. Of several equal findings, those on added lines are the new ones.
    """
    added = {file.path: frozenset(file.added) for file in files}

    def unchanged_lines_first(finding: RuledFinding) -> tuple[bool, bool, str, int]:
        raw = finding[1]  # what has no message is for comparison only
        return raw.message != "", raw.line in added.get(raw.path, ()), raw.path, raw.line

    new, rest = list(head), list(base)
    keys: list[Key] = [lambda one: (one[1].path, *identity(one)), identity, _text_identity]
    keys.append(lambda one: (one[1].path, *_text_identity(one, one[1].statement)))
    for key in keys:
        new, rest = unmatched(rest, sorted(new, key=unchanged_lines_first), key)
    known = {secret for finding in base for secret in _secrets(finding)}
    new = [f for f in new if f[1].message and not known.issuperset(_secrets(f) or {""})]
    new, rest = unmatched(rest, new, _message_identity)
    new = _without_edited(rest, new)
    usual = Counter(raw.code for _, raw in base if _is_dialect(raw))
    return join_many([f for f in new if not _is_dialect(f[1]) or usual[f[1].code] < MIN_DIALECT])


def find_moved(files: Collection[ChangedFile]) -> dict[str, str]:
    """Path in base → path in head of what moved, as git says or by its name alone."""
    came = {basename(file.path): file.path for file in files if file.status == "added"}
    gone = (file.path for file in files if file.status == "deleted")
    moved = {path: came[basename(path)] for path in gone if basename(path) in came}
    return moved | {file.old_path or "": file.path for file in files if file.status == "renamed"}


def _is_dialect(raw: RawFinding) -> bool:
    """Whether it is none where base has several: of another language, of a logger of its own."""
    return _is_about_file(raw) or bool(_PATTERNS["dialect"].match(f"{raw.code} {raw.key}"))


def _is_about_file(raw: RawFinding) -> bool:
    """Whether a finding says that its file could not be parsed."""
    return raw.scope == raw.path


def join_many(new: Sequence[RuledFinding]) -> list[RuledFinding]:
    """One finding, at the first place, for many of a kind; secrets and others' reports stay apart.

    For more than ``MANY`` in a file, for minor ones in more than ``MANY`` files, or for two where
    the rule says that they belong together.
    """
    said = {(rule.id, raw.message, raw.path) for rule, raw in new if rule.severity in MINOR}
    files = Counter(each[:2] for each in said)
    kinds: dict[tuple[str, ...], list[RuledFinding]] = {}
    joined = [finding for finding in new if finding[1].reported]
    for rule, raw in (finding for finding in new if not finding[1].reported):
        wide = rule.together in {"change", "message"} or files[rule.id, raw.message] > MANY
        says = () if rule.together in {"file", "change"} else (raw.message, *raw.redact)
        kind = (rule.id, "" if wide else raw.path, *says)
        kinds.setdefault(kind, []).append((rule, raw))
    for found in kinds.values():
        most = 1 if found[0][0].together else MANY
        joined += _joined(found) if len(found) > most else found
    return joined


def _joined(found: Sequence[RuledFinding]) -> list[RuledFinding]:
    (rule, first), *rest = sorted(found, key=lambda finding: (finding[1].path, finding[1].line))
    others = sorted({raw.path for _, raw in rest} - {first.path})
    many, lines = "s" * (len(rest) > 1), [str(raw.line) for _, raw in rest]
    where = f"(line{many} {name_some(lines, _NAMED_LINES)})"
    also = f"also at {len(rest)} other place{many} in the file {where}"
    if others:
        also = f"{len(found)} places, also in {name_some(others, _NAMED_LINES)}"
    return [(rule, replace(first, message=f"{first.message}; {also}"))]


def chosen_passwords(finding: RuledFinding) -> frozenset[str]:
    """The passwords that a finding is about; none if it is about a key, a token or no secret."""
    raw = finding[1]
    return frozenset(raw.redact if raw.code in PASSWORDS else ())


def _secrets(finding: RuledFinding) -> frozenset[str]:
    """What it is about: passwords, or else keys and tokens, which are known only in their file."""
    raw = finding[1]
    return chosen_passwords(finding) or frozenset(f"{raw.path}: {each}" for each in raw.redact)


def _text_identity(finding: RuledFinding, statement: str = "") -> tuple[str, ...]:
    """Equal for the same statement elsewhere, in another formatter's layout and quotes."""
    rule, text, _ = identity(finding)
    return rule, _PATTERNS["layout"].sub("", statement or text).replace("'", '"')


def _message_identity(finding: RuledFinding) -> tuple[str, ...]:
    """The key of an uncertain finding, or one about a file, without how a statement is written."""
    rule, raw = finding
    if _is_about_file(raw):
        return "file", rule.id, raw.path
    place, markup = (rule.id, raw.path, raw.scope or ""), 79 in rule.cwe
    if raw.confidence < 1 and raw.scope:
        return "message", *place, raw.message
    inserted = _PATTERNS["inserted"].findall
    code = _PATTERNS["text"].sub(lambda text: " ".join(inserted(text[0])), raw.key or "")
    if _LOGGED in rule.cwe:  # what else the line says is no news
        return "logged", *place, *sorted(_PATTERNS["logged"].findall(code))
    says, _, value = raw.message.partition(": ")
    if value and not markup:
        # What is read of one object, and its text, is one value; other data of a request is not.
        value, code = (_PATTERNS["as_text"].sub("", text) for text in (value, code))
        value, code = (_PATTERNS["attribute"].sub(r"\1.", text) for text in (value, code))
        # Of several values, the message names one. A call that is gone may have made it safe.
        parts = sorted(_PATTERNS["parts"].findall(code))
        several = sum(not part.endswith("(") for part in parts) > 1
        told = parts if several else len(_PATTERNS["calls"].findall(code))
        return "value", *place, says, value, f"{told} {raw.from_request}"
    return ("values", *place, code) if markup else identity(finding)


def _without_edited(
    base: Iterable[RuledFinding], head: Iterable[RuledFinding]
) -> list[RuledFinding]:
    """Those of head but commands and connections of base that have other constants by them."""
    waiting, kept = list(base), []
    for finding in head:
        old = next((old for old in waiting if _is_edited(old, finding)), None)
        if old is None:
            kept.append(finding)
        else:
            waiting.remove(old)
    return kept


def _is_edited(old: RuledFinding, finding: RuledFinding) -> bool:
    """Whether they are one command or connection, of which no variable is new in head."""
    (before, had), (rule, raw) = old, finding
    script = raw.code.startswith(("shell-", "SC"))
    same = (before.id, had.code, had.path, had.message) == (
        rule.id,
        raw.code,
        raw.path,
        raw.message,
    )
    if not same or not (script or (_UNVERIFIED in rule.cwe and had.scope == raw.scope)):
        return False
    was, now, values = had.statement, raw.statement, _PATTERNS["expansion"].findall
    if len(was + now) > MAX_COMPARED or not {*values(now)} <= {*values(was)}:
        return False
    blocks = SequenceMatcher(None, was, now, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) > ALIKE * min(len(was), len(now))


def unmatched(
    base: Iterable[T], head: Iterable[T], key: Callable[[T], tuple[str, ...]]
) -> tuple[list[T], list[T]]:
    """Match what has equal keys one to one; the rest of head in its order, and the rest of base."""
    known: dict[tuple[str, ...], list[T]] = {}
    for one in base:
        known.setdefault(key(one), []).append(one)
    new: list[T] = []
    for one in head:
        if counterparts := known.get(key(one)):
            counterparts.pop()
        else:
            new.append(one)
    return new, [one for rest in known.values() for one in rest]
