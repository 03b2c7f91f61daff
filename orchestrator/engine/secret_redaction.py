"""Redaction of the process's own secrets in text and documents, in whatever encoding they appear.

A text is normalized before the search: escapes are resolved, compatible forms of letters
(full-width, mathematical) become ASCII, everything but ASCII letters and digits is removed, and
case is folded. So a secret is found verbatim, with any white space, punctuation, quotes or
zero-width characters between its parts, URL-encoded, and escaped as in JSON, HTML or source code.
Reversed, as hex and as base64 at any offset are further forms that are searched for. A text without
a match costs one pass and one search per form.

A long secret is also searched for by halves: a secret that is split in two leaves one of them
whole. Parts of any size are found across neighboring strings of a document.
"""

import base64
import json
import re
import string
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from orchestrator.engine.types import Json

REDACTED = "[redacted]"

SHORTEST = 8
"""Characters: anything shorter stands in ordinary text."""

SHORTEST_WORD = 12
"""The same for letters alone, or digits alone."""

FILTERED_TEXTS = 128
"""Texts whose filtered form is remembered: journal and requests have the same ones."""

_SMALLEST_INT, _LARGEST_INT = 10 ** (SHORTEST - 1), 1 << 4096
"""Other numbers are not looked at: they are too short, or longer than Python writes as text."""

_ALNUM = string.ascii_letters + string.digits
_PRINTED = "".join(c for c in map(chr, range(33, 127)) if c not in "\"'`+,\\")
# Each alternative begins with a literal: such a pattern is searched for seven times as fast.
_ESCAPE = re.compile(
    r"%([0-9A-Fa-f]{2})"  # URL
    # JSON, source
    r"|\\\\{0,3}u00([0-9A-Fa-f]{2})|\\\\{0,3}x([0-9A-Fa-f]{2})|\\\\{0,3}U000000([0-9A-Fa-f]{2})"
    r"|\\\\{0,3}[ux]\{0{0,6}([0-9A-Fa-f]{2})\}|\\\\{0,3}[nrt]"
    r"|\\\\{0,3}([01][0-7]{2}|[4-7][0-7])"
    # HTML, where the semicolon may be missing
    r"|&#[xX]0{0,6}([0-9A-Fa-f]{2})(?![0-9A-Fa-f]);?|&#0{0,6}([0-9]{2,3})(?![0-9]);?"
    r"|&(amp|lt|gt|quot|apos);"
    r"|0x(?=[0-9A-Fa-f]{2})"  # before hex
)
_BASES = (0, 16, 16, 16, 16, 16, 8, 16, 10)
"""Of the number in each group of ``_ESCAPE``, from 1."""

_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_OTHER_SCRIPTS = re.compile(r"[^\x00-\x7f]+")
_JSON_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|-?[0-9][0-9.eE+-]*', re.DOTALL)


class _Compatible(dict[int, str]):
    """The ASCII form of a character, such as of a full-width or mathematical letter."""

    def __missing__(self, code: int) -> str:
        compatible = unicodedata.normalize("NFKC", chr(code))
        self[code] = compatible.encode("ascii", "ignore").decode()
        return self[code]


_COMPATIBLE = _Compatible()


def _in_ascii(text: str) -> str:
    """The text in ASCII by compatibility (NFKC); characters without such a form are removed."""
    if unicodedata.is_normalized("NFKC", text):
        return text.encode("ascii", "ignore").decode()
    return _OTHER_SCRIPTS.sub(lambda found: found.group().translate(_COMPATIBLE), text)


def _resolved(escape: re.Match[str]) -> str:
    kind = escape.lastindex
    if kind is None:
        if escape.group() == "0x" and escape.string[escape.start() - 1 : escape.start()].isalnum():
            return "0x"  # the middle of another token
        return ""
    if kind == len(_BASES):
        return _ENTITIES[escape.group(kind)]
    code = int(escape.group(kind), _BASES[kind])
    return chr(code) if 0 < code < 128 else ""


class _View:
    """Texts in normalized form, with the position of each character in the original."""

    def __init__(self, kept: str) -> None:
        self._kept = kept
        self._gone = bytes(code for code in range(128) if chr(code) not in kept)
        self._token = re.compile(f"{_ESCAPE.pattern}|[{re.escape(kept)}]")

    def of(self, text: str) -> bytes:
        """What is left of a text."""
        text = text if text.isascii() else _in_ascii(text)
        if "%" in text or "\\" in text or "&" in text or "0x" in text:
            text = _ESCAPE.sub(_resolved, text)
        return text.encode("ascii").translate(None, self._gone).lower()

    def spans(self, text: str, sought: Iterable[bytes]) -> Iterator[tuple[int, int]]:
        """The spans of a text in which any of the parts occurs."""
        left = self.of(text) if sought else b""
        found = [part for part in sought if part in left]
        if not found:
            return
        left, places = self._placed(text)
        for part in found:
            at = left.find(part)
            while at >= 0:
                yield places[at][0], places[at + len(part) - 1][1]
                at = left.find(part, at + 1)

    def _placed(self, text: str) -> tuple[bytes, list[tuple[int, int]]]:
        """What is left of a text, and where in it each character stands (start, end)."""
        left: list[str] = []
        places: list[tuple[int, int]] = []
        shown = text if text.isascii() else "".join(map(_in_ascii, text))
        for token in self._token.finditer(shown):
            (start, end), written = token.span(), token.group()
            if len(written) > 1 and (sign := _resolved(token)) != written:
                left.append(sign if sign and sign in self._kept else "")
                places.extend([(start, end)] * len(left[-1]))
            else:
                left.append(written)
                places.extend((at, at + 1) for at in range(start, end))
        if shown is not text:
            origin = [at for at, char in enumerate(text) for _ in _in_ascii(char)]
            places = [(origin[start], origin[end - 1] + 1) for start, end in places]
        return "".join(left).encode().lower(), places


_VIEWS = _View(_ALNUM), _View(_PRINTED)


def _forms(secret: str) -> Iterator[str]:
    """The forms of a secret that normalization does not cover."""
    raw = secret.encode("utf-8", "surrogateescape")
    # The second and third tell of secrets that themselves look like escapes.
    yield from (secret, secret.replace("%", "%25"), json.dumps(secret)[1:-1])
    yield from (secret[::-1], raw.hex())
    for before, mixed in enumerate((0, 2, 3)):
        # The digits that do not depend on what stands before and after it.
        digits = base64.b64encode(bytes(before) + raw).decode().rstrip("=")
        yield digits[mixed : -1 if (before + len(raw)) % 3 else None]


def _parts(form: bytes) -> Iterator[bytes]:
    middle = len(form) // 2
    yield from (form[:middle], form[middle:]) if middle >= SHORTEST else (form,)


def is_secret(value: str) -> bool:
    """Whether a value is long enough to be distinguished from ordinary text."""
    one_kind = value.isalpha() or value.isdigit()
    return len(value) >= (SHORTEST_WORD if one_kind else SHORTEST)


class Redactor:
    """Replaces secrets in text and documents; without secrets it changes nothing.

    Args:
        secrets: the values; one too short to be distinguished from ordinary text is ignored.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._sought: tuple[dict[bytes, None], ...] = tuple({} for _ in _VIEWS)
        self._filters: list[Callable[[str], str]] = []
        self.add(secrets)

    def add_filter(self, without: Callable[[str], str]) -> None:
        """Add a function that removes other secrets from a text.

        It must be deterministic: a resumed run compares requests.
        """
        self._filters.append(lru_cache(FILTERED_TEXTS)(without))

    def add(self, secrets: Iterable[str]) -> None:
        """Add secrets to redact."""
        for secret in filter(is_secret, map(str.strip, secrets)):
            for form in _forms(secret):
                # A secret of few letters and digits is distinguished by its punctuation.
                for view, sought in zip(_VIEWS, self._sought, strict=True):
                    if len(left := view.of(form)) >= SHORTEST:
                        sought.update(dict.fromkeys(_parts(left)))
                        break

    def __bool__(self) -> bool:
        return bool(self._filters) or any(self._sought)

    def __call__(self, text: str) -> str:
        """The text with every secret in it replaced."""
        return self._clean([text])[0] if self else text

    def _filtered(self, text: str) -> str:
        if len(text) < SHORTEST:
            return text
        for without in self._filters:
            text = without(text)
        return text

    def json(self, value: Json) -> Json:
        """A JSON value with every secret in its strings, numbers and keys replaced."""
        if isinstance(value, str):
            return self(value)
        if self and (number := _number_text(value)) and self._spans(number):
            return REDACTED
        if not self or not isinstance(value, (dict, list, tuple)):
            return value
        texts = _texts(value)
        shown = self._clean(texts)
        return value if shown is texts else _filled(value, deque(shown))

    def _clean(self, texts: list[str]) -> list[str]:
        """Neighboring texts without secrets, including those that span several texts."""
        if self._filters and (filtered := list(map(self._filtered, texts))) != texts:
            texts = filtered
        spans = self._spans("".join(texts))
        if not spans:
            return texts
        shown = [_without(text, ours) for text, ours in _shared_out(texts, spans)]
        # If the result still holds a secret, nothing of it is shown.
        while spans := self._spans("".join(shown)):
            held = shown
            shown = [REDACTED if ours else text for text, ours in _shared_out(held, spans)]
            if shown == held:
                break  # a secret that looks like the replacement itself
        return shown

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """The spans of secrets, in order and without overlaps."""
        merged: list[tuple[int, int]] = []
        pairs = zip(_VIEWS, self._sought, strict=True)
        for start, end in sorted(span for view, parts in pairs for span in view.spans(text, parts)):
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


def _texts(value: Json) -> list[str]:
    """The strings, keys and numbers of a value, level by level, at any depth of nesting."""
    strings: list[str] = []
    keys: list[str] = []
    numbers: list[str] = []
    waiting = deque([value])
    while waiting:
        holder = waiting.popleft()
        if isinstance(holder, dict):
            keys.extend(holder)
            holder = holder.values()
        for item in holder:
            if isinstance(item, str):
                strings.append(item)
            elif isinstance(item, (dict, list, tuple)):
                waiting.append(item)
            elif number := _number_text(item):
                numbers.append(number)
    return strings + keys + numbers


def _number_text(value: Json) -> str:
    """A number as text if it is long enough to be a secret; else empty."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if isinstance(value, int) and not _SMALLEST_INT <= abs(value) <= _LARGEST_INT:
        return ""
    text = repr(value)
    return text if len(text) >= SHORTEST else ""


def _filled(value: Json, shown: deque[str]) -> Json:
    """A copy of a value with its texts replaced, in the order of ``_texts``."""
    top: list[Json] = [value]
    holders: deque[Json] = deque()
    numbers: list[tuple[Json, Json]] = []
    waiting: deque[Json] = deque([top])
    while waiting:
        holder = waiting.popleft()
        holders.append(holder)
        for at, item in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            if isinstance(item, str):
                holder[at] = shown.popleft()
            elif isinstance(item, (dict, list, tuple)):
                holder[at] = dict(item) if isinstance(item, dict) else list(item)
                waiting.append(holder[at])
            elif _number_text(item):
                numbers.append((holder, at))
    keys = [
        [shown.popleft() for _ in holder] if isinstance(holder, dict) else None
        for holder in holders
    ]
    for holder, at in numbers:
        if shown.popleft() != _number_text(holder[at]):
            holder[at] = REDACTED
    for holder, names in zip(holders, keys, strict=True):
        if names is not None:
            items = list(holder.values())
            holder.clear()
            holder.update(zip(names, items, strict=True))
    return top[0]
