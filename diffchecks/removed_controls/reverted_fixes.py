"""Earlier security fixes that a change reverts: it removes their lines or restores removed ones."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set

from msgspec import Struct
from msgspec.structs import replace

from diffchecks import name_some
from diffchecks.check_io import RawFinding
from diffchecks.data_files import read_names, read_patterns, vocabulary
from diffchecks.file_patterns import file_names, matches
from diffchecks.past_fixes import PastFix
from diffchecks.path_kinds import path_kinds
from diffchecks.removed_controls.lost_wrapping import ChangedText, LineRange, strip_whitespace
from diffchecks.secrets.redaction import redact_secrets
from diffchecks.secrets.secret_scan import secrets_in

SUBJECT = 100  # characters of a subject in a message
_NOT_IN = frozenset({"tests", "samples", "documents", "generated"})
_PATTERNS = read_patterns("reverted_fixes")
_DEFINES = read_patterns("enclosing_scopes")["defines"]
_SHOWN_FILES = 5
MIN_WORDS, MOST = 3, 0.75  # that a fix brought, and their share in another file


class Undone(Struct, frozen=True):
    """How much of a fix of a file a change reverts.

    Attributes:
        gone: lines of base that the fix added and that head no longer has.
        back: lines of head that the fix removed.
        of_added, of_removed: the fix's numbers of added and removed lines of code.
        hunk: the place of the first of them.
    """

    fix: PastFix
    gone: tuple[int, ...]
    back: tuple[int, ...]
    of_added: int
    of_removed: int
    hunk: LineRange


def add_history(
    findings: Iterable[RawFinding],
    texts: Mapping[str, ChangedText],
    fixes: Iterable[PastFix],
    came: Sequence[ChangedText],
) -> list[RawFinding]:
    """Add reverted fixes to the findings; a finding and a fix at the same place become one.

    A commit that is reverted in several files is one finding.

    Args:
        texts: the changed files by their path in base.
        came: all changed files of head.
    """
    result = list(findings)
    alone: dict[str, list[tuple[Undone, RawFinding]]] = {}
    for old_path, undone in find_undone(texts, fixes, came):
        own = as_finding(old_path, texts[old_path], undone)
        here, was = {own.line, *undone.hunk.head}, undone.hunk.base
        of_file = [n for n, one in enumerate(result) if one.path == own.path]
        same = [n for n in of_file if result[n].line in here or result[n].removed_line in was]
        for n in same:
            known = result[n]
            detail = "\n".join(filter(None, (known.detail, own.message)))
            confidence = max(known.confidence, own.confidence)
            result[n] = replace(known, detail=detail, confidence=confidence)
        if not same:
            alone.setdefault(undone.fix.commit, []).append((undone, own))
    return [*result, *map(_as_one, alone.values())]


def _as_one(reverted: Sequence[tuple[Undone, RawFinding]]) -> RawFinding:
    """The finding for a commit, at the file that it concerns most, with the other places."""
    first = max(reverted, key=lambda each: _weight(each[0]))
    others = [f"{own.path}:{own.line}" for one in reverted if one is not first for own in one[1:]]
    more = [f"also at {name_some(others, _SHOWN_FILES)}"] if others else []
    return replace(first[1], detail="\n".join([first[1].detail, *more]))


def find_undone(
    texts: Mapping[str, ChangedText], fixes: Iterable[PastFix], came: Sequence[ChangedText]
) -> Iterator[tuple[str, Undone]]:
    """Path in base → a fix that the change reverts; of those that share lines, the most."""
    added = Counter(_key(line) for text in came for line in text.added_text.split("\n"))
    code = [text for text in came if path_kinds(text.path).isdisjoint(_NOT_IN)]
    idle = _PATTERNS["idle"]
    words = {
        text.path: _words(line for line in text.added_text.split("\n") if not idle.match(line))
        for text in code
    }
    by_path: dict[str, list[PastFix]] = {}
    for fix in fixes:
        by_path.setdefault(fix.path, []).append(fix)
    ended = _ended(texts.values(), added) if by_path else {}
    for path, of_file in by_path.items():
        text = texts.get(path)
        if text is None or not path_kinds(text.path).isdisjoint(_NOT_IN):
            continue
        idle_now = ended[text]
        left = (line for n, line in enumerate(text.base, 1) if n not in idle_now)
        sides = _code(left), _code(text.head)
        elsewhere = [known for other, known in words.items() if other != text.path]
        found = [one for fix in of_file if (one := _compare(text, sides, fix, added, idle_now))]
        found = [one for one in found if one.back or not _lives_on(one.fix, elsewhere)]
        taken = set[int]()
        for one in sorted(found, key=_weight, reverse=True):
            lines = {*one.gone, *(-line for line in one.back)}
            if taken.isdisjoint(lines):
                taken |= lines
                yield path, one


def _ended(texts: Collection[ChangedText], came: Counter[str]) -> dict[ChangedText, set[int]]:
    """The lines of base that protect nothing once what they stand in, or are for, is gone.

    Those of functions that go as a whole, are not called where lines go, and do not come elsewhere;
    and those that make a token which such a function asked for.
    """
    gone = [(text, n, text.base[n - 1]) for text in texts for n in sorted(text.removed)]
    calls = Counter(name for _, _, line in gone for name in _PATTERNS["called"].findall(line))
    ended: dict[ChangedText, set[int]] = {text: set() for text in texts}
    asked = set[str]()
    for text, first, line in gone:
        found = _DEFINES.match(line)
        if found is None or calls[found[found.lastindex or 0]] > 1:
            continue
        body = _body(text.base, first)
        keys = {n: _key(text.base[n - 1]) for n in body if _tells(text.base[n - 1])}
        moves = 2 * sum(came[key] > 0 for key in keys.values()) >= len(keys)
        if text.removed.issuperset(keys) and not moves:
            ended[text].update(body)
            asked.update(_PATTERNS["quoted"].findall("\n".join(text.base[n - 1] for n in body)))
    for text, number, line in gone:
        if asked.issuperset(tokens := _PATTERNS["token"].findall(line)) and tokens:
            ended[text].add(number)
    return ended


def _body(lines: Sequence[str], first: int) -> range:
    """The lines of the definition that begins at a line, by their indentation."""
    indent = len(lines[first - 1]) - len(lines[first - 1].lstrip())
    for number in range(first + 1, len(lines) + 1):
        line = lines[number - 1]
        deeper = len(line) - len(line.lstrip()) > indent
        if line.strip() and not deeper and not _PATTERNS["closes"].match(line):
            return range(first, number)
    return range(first, len(lines) + 1)


def _words(lines: Iterable[str]) -> frozenset[str]:
    """The texts in quotes and the names of what is called: what stays where code moves."""
    return frozenset(_PATTERNS["moves_along"].findall("\n".join(lines)))


def _lives_on(fix: PastFix, elsewhere: Iterable[Set[str]]) -> bool:
    """Whether most of the words that a fix brought come in one other file."""
    brought = _words(fix.added) - _words(fix.removed)
    return len(brought) >= MIN_WORDS and any(
        len(brought & words) >= MOST * len(brought) for words in elsewhere
    )


def _weight(undone: Undone) -> tuple[bool, int]:
    return undone.fix.statement == "security", len(undone.gone) + len(undone.back)


def _compare(
    text: ChangedText,
    sides: tuple[Counter[str], Counter[str]],
    fix: PastFix,
    came: Counter[str],
    ended: Set[int],
) -> Undone | None:
    """What a change reverts of a fix of the same file; None: nothing significant.

    Args:
        sides: the lines of code of base, without those that ended, and of head.
    """
    added, removed = _code(fix.added), _code(fix.removed)
    added, removed = _without(added - removed, fix.removed), _without(removed - added, fix.added)
    base, head = sides
    there = {line for line in added if base[line]}
    lost = {line for line in there if head[line] < base[line] and not came[line]}
    again = {line for line in removed if head[line] > base[line]}
    if not again and matches(text.path, file_names("manifests")):
        lost = {line for line in lost if not _PATTERNS["required"].search(line)}
    if not lost and not again:
        return None
    gone, back, new = list[int](), list[int](), 0
    first: LineRange | None = None
    part = {*map(_key, fix.removed)} - again  # of a statement that the fix laid out in fewer lines
    lines = (text.head[n - 1] for hunk in text.hunks() for n in hunk.head)
    new_lines = [line for line in lines if _key(line) not in again]
    for hunk in text.hunks():
        if text.only_escapes_less(hunk) or (hunk.base and ended >= set(hunk.base)):
            continue
        out = [
            n
            for n in hunk.base
            if n not in ended and _key(text.base[n - 1]) in lost
            if not any(_extends(line, text.base[n - 1]) for line in new_lines)
        ]
        into = [n for n in hunk.head if _key(text.head[n - 1]) in again]
        goes = [n for n in hunk.base if n not in ended and _tells(text.base[n - 1])]
        comes = [
            n for n in hunk.head if _tells(text.head[n - 1]) and _key(text.head[n - 1]) not in part
        ]
        # Only the fix is removed, only what it removed is restored, and no definition moved.
        undoes = 2 * len(out) >= len(goes) and len(comes) <= len(into)
        if undoes and (out or into) and not _moves(text, out, into):
            gone += out
            back += into
            first = first or hunk
        else:
            new += len(comes)
    own = "\n".join([*(text.base[n - 1] for n in gone), *(text.head[n - 1] for n in back)])
    checks = vocabulary("may_protect").search(own) or _PATTERNS["checks"].search(own)
    if first is None or (fix.statement == "stricter" and not checks):
        return None
    undone = Undone(fix, tuple(gone), tuple(back), len(added), len(removed), first)
    return undone if _enough(undone, len(there), new) else None


def _extends(line: str, old: str) -> bool:
    """Whether a line still has all of another one in a longer expression; a condition may not."""
    keyword = _PATTERNS["keyword"].match(line)
    if keyword and "return" not in keyword[0]:
        return False
    whole = _PATTERNS["keyword"].sub("", old.strip(), count=1).rstrip(":{;, ")
    return bool(whole) and re.search(rf"(?<!\w){re.escape(whole)}(?!\w)", line) is not None


def _moves(text: ChangedText, gone: Sequence[int], back: Sequence[int]) -> bool:
    """Whether head uses a name that a removed line defines and no restored line defines."""
    names = _defined(text.base, gone) - _defined(text.head, back)
    return bool(names) and not names.isdisjoint(_PATTERNS["word"].findall("\n".join(text.head)))


def _defined(lines: Sequence[str], numbers: Iterable[int]) -> set[str]:
    return {found[1] for n in numbers if (found := _PATTERNS["defines"].match(lines[n - 1]))}


def _enough(undone: Undone, there: int, new: int) -> bool:
    """Whether so much is reverted that it is not an ordinary later edit.

    Args:
        there: lines of the fix that base contains.
        new: other lines of code that the change adds to the file.
    """
    gone, back = len(undone.gone), len(undone.back)
    sure = undone.fix.statement == "security"
    if not gone:
        return sure and not there and 2 * back >= undone.of_removed
    if sure:
        return back > 0 or 2 * gone >= there
    most = 2 * there >= undone.of_added and 3 * gone >= 2 * there
    whole = gone >= undone.of_added and not new
    return most and (back > 0 or whole) and 2 * new <= gone + back


def _code(lines: Iterable[str]) -> Counter[str]:
    """The distinctive lines of code, without white space."""
    return Counter(_key(line) for line in lines if _tells(line))


def _without(lines: Counter[str], others: Iterable[str]) -> Counter[str]:
    """Lines that are not parts of other ones, which were only laid out differently."""
    text = "".join(strip_whitespace(line) for line in others).replace("'", '"')
    return Counter({line: count for line, count in lines.items() if line not in text})


def _key(line: str) -> str:
    """Equal for lines that differ only in their layout, quotes and what may change a variable."""
    return strip_whitespace(_PATTERNS["mutable"].sub("", line)).rstrip(",;:{").replace("'", '"')


def _tells(line: str) -> bool:
    words = map(str.lower, _PATTERNS["word"].findall(line))
    return not (_PATTERNS["idle"].match(line) or read_names("common_code_words").issuperset(words))


def as_finding(old_path: str, text: ChangedText, undone: Undone) -> RawFinding:
    """The finding at the place of the lines, with the commit that added them."""
    line, back = undone.gone[0] if undone.gone else 0, len(undone.back)
    counts = [f"that the commit added here and that are gone: {len(undone.gone)}"] * bool(line)
    counts += [f"that it removed and that are back: {back}"] * bool(back)
    return RawFinding(
        "fix-reverted",
        text.path,
        text.place_of(undone.hunk),
        describe(undone),
        confidence=0.9 if undone.fix.statement == "security" else 0.7,
        removed_path=old_path if line else "",
        removed_line=line,
        detail=f"lines {'; '.join(counts)}",
    )


def describe(undone: Undone) -> str:
    """The commit in one sentence, with a redacted subject of bounded length."""
    fix = undone.fix
    subject = "".join(c if c.isprintable() else " " for c in fix.subject)
    subject = redact_secrets(subject, secrets_in("message", subject))
    if len(subject) > SUBJECT:
        subject = subject[: SUBJECT - 1] + "…"
    what = "a security fix" if fix.statement == "security" else "a stricter check"
    other = [name for name in fix.identifiers if name not in subject.upper()]
    named = f" ({', '.join(other[:3])})" if other else ""
    return f'Lines of {what} are reverted: {fix.commit[:12]} of {fix.date} "{subject}"{named}'
