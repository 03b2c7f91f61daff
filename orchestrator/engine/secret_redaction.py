"""Redaction of the process's own secrets in text and documents, in whatever encoding they appear.

Secrets are searched for in the readings of a text (``secret_forms``), with everything removed that
may stand between letters, and case folded. A text without a match costs one pass for each reading
that applies to it, however many secrets there are.

A long secret is also searched for by halves: a secret that is split in two leaves one of them
whole. Parts of any size are found across neighboring strings of a document.
"""

import json
import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache, reduce
from itertools import accumulate, pairwise, product

from orchestrator.engine.secret_forms import (
    KINDS,
    LETTERS,
    MAIN,
    NUMBERS,
    PRINTED,
    READINGS,
    Step,
    ends_open,
    fold,
    forms,
    number_forms,
)
from orchestrator.engine.types import Json

REDACTED = "[redacted]"

MIN_CHARACTERS = 8
"""Characters: anything shorter stands in ordinary text."""

MIN_WORD = 12
"""The same for letters alone, or digits alone."""

FILTERED_TEXTS = 128
"""Texts whose filtered form is remembered: journal and requests have the same ones."""

AROUND = 1024
"""Characters before and after a notation that are read with it."""

_SMALLEST_INT, _MAX_INT = 10 ** (MIN_CHARACTERS - 1), 1 << 4096
"""Other numbers are not looked at: they are too short, or longer than Python writes as text."""

_JSON_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|-?[0-9][0-9.eE+-]*', re.DOTALL)


class _Parts:
    """Byte strings that are all searched for in one pass over a text.

    A part of 2 W - 1 bytes contains W bytes that begin at a multiple of W in the text. Only those
    are looked up, as integers. The parts all of whose integers occur are then searched for.

    Args:
        width: W, 4 or 8. With few kinds of bytes, integers of four occur anywhere.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._all: set[int] = set()
        self._by_first: dict[int, set[tuple[int, bytes]]] = {}

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, part: bytes) -> None:
        """Add a part; one that is too short is ignored."""
        if len(part) < max(MIN_CHARACTERS, 2 * self._width - 1):
            return
        for at in range(self._width):
            integers = self._integers(part[at:])
            self._by_first.setdefault(integers[0], set()).add((at, part))
            self._all.update(integers)

    def find(self, text: bytes) -> list[bytes]:
        """The parts that a text contains."""
        hits = self._all.intersection(self._integers(text))
        entries = (entry for hit in hits for entry in self._by_first.get(hit, ()))
        likely = {part for at, part in entries if hits.issuperset(self._integers(part[at:]))}
        return [part for part in likely if part in text]

    def _integers(self, text: bytes) -> Sequence[int]:
        whole = memoryview(text[: len(text) // self._width * self._width])
        return whole.cast("I" if self._width == 4 else "Q")


_GONE = [bytes(code for code in range(128) if chr(code) not in kept) for kept in KINDS]


def _left(text: str, kind: int) -> bytes:
    return text.encode("ascii").translate(None, _GONE[kind]).lower()


Places = list[tuple[int, int]]
"""Where in the original text each character stands (start, end)."""


def _resolved(shown: str, places: Places, steps: Iterable[Step]) -> tuple[str, Places]:
    for step in steps:
        left: list[str] = []
        moved: Places = []
        done = 0
        for found in step.pattern.finditer(shown):
            left += [shown[done : found.start()], sign := step.written(found)]
            moved += places[done : found.start()]
            done = found.end()
            moved += [(places[found.start()][0], places[done - 1][1])] * len(sign)
        shown, places = "".join((*left, shown[done:])), moved + places[done:]
    return shown, places


def _windows(text: str, sign: re.Pattern[str]) -> Iterator[slice]:
    """The parts of a text around all places of a notation."""
    start = end = at = 0
    while found := sign.search(text, at):
        if found.start() - AROUND > end:
            if end:
                yield slice(start, end)
            start = found.start() - AROUND
        end = found.end() + 4 * AROUND
        at = max(found.end(), end - AROUND)
    if end:
        yield slice(start, end)


def _resolve(text: str, steps: Iterable[Step]) -> str:
    return reduce(lambda shown, step: step(shown), steps, text)


def _find(text: str, sought: Sequence[_Parts]) -> Iterator[tuple[int, int]]:
    """The spans of a text in which any of the parts of each kind occurs."""
    folded = fold(text)
    main = _resolve(folded, MAIN)

    @cache
    def placed(of_main: bool) -> tuple[str, Places]:
        signs = [char if char < "\x80" else fold(char) for char in text]
        places = [(at, at + 1) for at, sign in enumerate(signs) for _ in sign]
        return _resolved("".join(signs), places, MAIN if of_main else ())

    for reading in READINGS:
        read = main if reading.of_main else folded
        windows = _windows(read, reading.sign) if reading.sign else [slice(0, len(read))]
        for window, kind in product(windows, reading.kinds):
            if not sought[kind]:
                continue
            left = _left(_resolve(read[window], reading.steps), kind)
            if not (parts := sought[kind].find(left)):
                continue
            whole, places = placed(reading.of_main)
            shown, places = _resolved(whole[window], places[window], reading.steps)
            kept = [at for at, sign in zip(places, shown, strict=True) if sign in KINDS[kind]]
            for part in parts:
                at = left.find(part)
                while at >= 0:
                    yield kept[at][0], kept[at + len(part) - 1][1]
                    at = left.find(part, at + 1)


def _parts(form: bytes) -> Iterator[bytes]:
    middle = len(form) // 2
    yield from (form[:middle], form[middle:]) if middle >= MIN_CHARACTERS else (form,)


def is_secret(value: str) -> bool:
    """Whether a value is long enough to be distinguished from ordinary text."""
    one_kind = value.isalpha() or value.isdigit()
    return len(value) >= (MIN_WORD if one_kind else MIN_CHARACTERS)


class Redactor:
    """Replaces secrets in text and documents; without secrets it changes nothing.

    Args:
        secrets: the values; one too short to be distinguished from ordinary text is ignored.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._sought = [_Parts(8 if kind == NUMBERS else 4) for kind in range(len(KINDS))]
        self._filters: list[Callable[[str], str]] = []
        self._has_any = False
        self.add(secrets)

    def add_filter(self, without: Callable[[str], str]) -> None:
        """Add a function that removes other secrets from a text.

        It must be deterministic: a resumed run compares requests.
        """
        self._filters.append(lru_cache(FILTERED_TEXTS)(without))
        self._has_any = True

    def add(self, secrets: Iterable[str]) -> None:
        """Add secrets to redact."""
        for secret in filter(is_secret, map(str.strip, secrets)):
            for number in number_forms(secret):
                self._sought[NUMBERS].add(number.encode())
            for form in forms(secret):
                folded = fold(form)
                # Of a text, only what follows the notation that hides it is resolved once more.
                rests = (MAIN[at:] for at, step in enumerate(MAIN) if step.sign in folded)
                for shown in {folded, *(_resolve(folded, steps) for steps in rests)}:
                    # A secret of few letters and digits is distinguished by its punctuation.
                    for kind in (LETTERS, PRINTED):
                        if len(left := _left(shown, kind)) >= MIN_CHARACTERS:
                            for part in _parts(left):
                                self._sought[kind].add(part)
                            break
        self._has_any = bool(self._filters) or any(self._sought)

    def __bool__(self) -> bool:
        return self._has_any

    def __call__(self, text: str) -> str:
        """The text with every secret in it replaced."""
        return self._clean([text])[0] if self._has_any else text

    def _filtered(self, text: str) -> str:
        if len(text) < MIN_CHARACTERS:
            return text
        for without in self._filters:
            text = without(text)
        return text

    def json(self, value: Json) -> Json:
        """A JSON value with every secret in its strings, numbers and keys replaced."""
        if not self._has_any:
            return value
        if isinstance(value, str):
            return self(value)
        if (number := _number_text(value)) and self._spans([number]):
            return REDACTED
        if not isinstance(value, (dict, list, tuple)):
            return value
        copies = _copy(value)
        places = [(holder, at, item) for holder in copies for at, item in _entries(holder)]
        strings = [place for place in places if isinstance(place[2], str)]
        objects = [holder for holder in copies if isinstance(holder, dict)]
        numbers = [
            (holder, at, text) for holder, at, item in places if (text := _number_text(item))
        ]
        texts = [text for *_, text in strings]
        texts += [key for holder in objects for key in holder]
        texts += [text for *_, text in numbers]
        if (cleaned := self._clean(texts)) is texts:
            return value
        shown = iter(cleaned)
        for holder, at, _ in strings:
            holder[at] = next(shown)
        keys = [[next(shown) for _ in holder] for holder in objects]
        for holder, at, text in numbers:
            if next(shown) != text:
                holder[at] = REDACTED
        for holder, names in zip(objects, keys, strict=True):
            items = dict(zip(names, holder.values(), strict=True))
            holder.clear()
            holder.update(items)
        return copies[0][0]

    def _clean(self, texts: list[str]) -> list[str]:
        """Neighboring texts without secrets, including those that span several texts."""
        if self._filters and (filtered := list(map(self._filtered, texts))) != texts:
            texts = filtered
        if not (spans := self._spans(texts)):
            return texts
        shown = [_without(text, ours) for text, ours in _shared_out(texts, spans)]
        # If the result still holds a secret, nothing of it is shown.
        while spans := self._spans(shown):
            held = shown
            shown = [REDACTED if ours else text for text, ours in _shared_out(held, spans)]
            if shown == held:
                break  # a secret that looks like the replacement itself
        return shown

    def _spans(self, texts: Sequence[str]) -> list[tuple[int, int]]:
        """The spans of secrets in texts that are joined, in order and without overlaps."""
        if not any(self._sought):
            return []
        whole, merged = "".join(texts), list[tuple[int, int]]()
        found = list(_find(whole, self._sought))
        if ends := [end for end in accumulate(map(len, texts)) if ends_open(whole, end)]:
            pieces = (whole[start:end] for start, end in pairwise((0, *ends, len(whole))))
            marks = [end + before for before, end in enumerate(ends)]
            for span in _find("\0".join(pieces), self._sought):
                start, end = (at - bisect_left(marks, at) for at in span)
                found.append((start, end))
        for start, end in sorted(found):
            if merged and start <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        return merged


def _shared_out(
    texts: list[str], spans: list[tuple[int, int]]
) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Each text with its part of the spans, which run over all texts joined."""
    start = at = 0
    for text in texts:
        end, ours = start + len(text), []
        while at < len(spans) and spans[at][0] < end:
            first, last = spans[at]
            ours.append((max(first - start, 0), min(last - start, len(text))))
            if last > end:
                break  # the rest is in the next text
            at += 1
        yield text, ours
        start = end


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The text with the spans replaced; JSON, such as a report, stays JSON."""
    if spans and _is_json(text):
        for whole in (False, True):
            shown = _cut(text, _in_tokens(text, spans, whole=whole))
            if _is_json(shown):  # not where a cut goes through an escape
                return shown
    return _cut(text, [(start, end, REDACTED) for start, end in spans])


def _cut(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    parts, done = [], 0
    for start, end, mark in edits:
        parts += [text[done:start], mark]
        done = end
    return "".join((*parts, text[done:]))


def _is_json(text: str) -> bool:
    """Whether a text is a JSON object or array, perhaps fenced as in Markdown."""
    text = text.strip()
    if text.startswith("```"):
        text = text.strip("`").removeprefix("json").strip()
    try:
        return text.startswith(("{", "[")) and bool(json.loads(text) or True)
    except (ValueError, RecursionError):
        return False


def _in_tokens(
    text: str, spans: Iterable[tuple[int, int]], *, whole: bool
) -> Iterator[tuple[int, int, str]]:
    """The parts of the spans in strings and numbers of JSON, with the replacements.

    Args:
        whole: replace a whole string that a span overlaps, as for numbers.
    """
    waiting = deque(spans)
    for token in _JSON_TOKEN.finditer(text):
        is_string = token.group(1) is not None
        start, end = token.span(1 if is_string else 0)
        while waiting and waiting[0][1] <= start:
            waiting.popleft()
        for first, last in waiting:
            if first >= end:
                break
            if whole or not is_string:
                yield start, end, REDACTED if is_string else f'"{REDACTED}"'
                break
            yield max(first, start), min(last, end), REDACTED


def _copy(value: Json) -> list[Json]:
    """Copies of all objects and arrays, at any depth; the first holds nothing but the value."""
    copies: list[Json] = [[value]]
    for holder in copies:  # grows meanwhile
        for at, item in _entries(holder):
            if isinstance(item, (dict, list, tuple)):
                holder[at] = dict(item) if isinstance(item, dict) else list(item)
                copies.append(holder[at])
    return copies


def _entries(holder: Json) -> list[tuple[Json, Json]]:
    return list(holder.items() if isinstance(holder, dict) else enumerate(holder))


def _number_text(value: Json) -> str:
    """A number as text if it is long enough to be a secret; else empty."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if isinstance(value, int) and not _SMALLEST_INT <= abs(value) <= _MAX_INT:
        return ""
    text = repr(value)
    return text if len(text) >= MIN_CHARACTERS else ""
