"""The process's own secrets, taken out of text and documents however they are written.

A text is compared by what is left of it when escapes are resolved and everything but ASCII letters
and digits is gone, in lower case. So a secret is found verbatim, with any white space, punctuation,
quotes or zero-width characters between its parts, URL-coded, and escaped as in JSON, HTML or
source; reversed, as hex and as base64 at any offset it is looked for in those forms. That takes one
pass and a search per form; only where something is found is more work done.

A long secret is looked for in halves: whoever splits it in two leaves one of them whole, wherever
the other stands. Parts of any size are found across neighboring strings of a document.
"""

import base64
import json
import re
import string
from collections import deque
from collections.abc import Iterable, Iterator

from orchestrator.engine.types import Json

REDACTED = "[redacted]"

SHORTEST = 8
"""Characters: anything shorter stands in ordinary text."""

SHORTEST_WORD = 12
"""The same for letters alone, or digits alone."""

_ALNUM = string.ascii_letters + string.digits
_PRINTED = "".join(c for c in map(chr, range(33, 127)) if c not in "\"'`+,\\")
# Each alternative begins with a literal: such a pattern is searched for seven times as fast.
_ESCAPE = re.compile(
    r"%([0-9A-Fa-f]{2})"  # URL
    r"|\\\\{0,3}u00([0-9A-Fa-f]{2})|\\\\{0,3}x([0-9A-Fa-f]{2})|\\\\{0,3}[nrt]"  # JSON, source
    r"|&#[xX]0{0,6}([0-9A-Fa-f]{2});|&#0{0,6}([0-9]{2,3});"  # HTML
    r"|0x(?=[0-9A-Fa-f]{2})"  # before hex
)


def _resolved(escape: re.Match[str]) -> str:
    url, short, source, html, decimal = escape.groups()
    if escape.group() == "0x" and escape.string[escape.start() - 1 : escape.start()].isalnum():
        return "0x"  # the middle of something else
    code = int(decimal) if decimal else int(url or short or source or html or "0", 16)
    return chr(code) if 0 < code < 128 else ""


class _View:
    """Texts as they are compared: the characters of a kind, escapes resolved, in lower case."""

    def __init__(self, kept: str) -> None:
        self._kept = kept
        self._gone = bytes(code for code in range(128) if chr(code) not in kept)
        self._token = re.compile(f"{_ESCAPE.pattern}|[{re.escape(kept)}]")

    def of(self, text: str) -> bytes:
        """What is left of a text."""
        if "%" in text or "\\" in text or "&#" in text or "0x" in text:
            text = _ESCAPE.sub(_resolved, text)
        return text.encode("ascii", "ignore").translate(None, self._gone).lower()

    def spans(self, text: str, sought: Iterable[bytes]) -> Iterator[tuple[int, int]]:
        """Where in a text any of the parts stands."""
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
        for token in self._token.finditer(text):
            (start, end), written = token.span(), token.group()
            if len(written) > 1 and (sign := _resolved(token)) != written:
                left.append(sign if sign and sign in self._kept else "")
                places.extend([(start, end)] * len(left[-1]))
            else:
                left.append(written)
                places.extend((at, at + 1) for at in range(start, end))
        return "".join(left).encode().lower(), places


_VIEWS = _View(_ALNUM), _View(_PRINTED)


def _forms(secret: str) -> Iterator[str]:
    """How a secret may be written, as far as a view does not see through it."""
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
    """Whether a value is long enough to be told from ordinary text."""
    one_kind = value.isalpha() or value.isdigit()
    return len(value) >= (SHORTEST_WORD if one_kind else SHORTEST)


class Redactor:
    """Takes secrets out of text and documents; without secrets it lets everything pass.

    Args:
        secrets: the values; one too short to be told from ordinary text is passed over.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._sought: tuple[dict[bytes, None], ...] = tuple({} for _ in _VIEWS)
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        """Add secrets to take out."""
        for secret in filter(is_secret, map(str.strip, secrets)):
            for form in _forms(secret):
                # One of few letters and digits is told from other text by its punctuation.
                for view, sought in zip(_VIEWS, self._sought, strict=True):
                    if len(left := view.of(form)) >= SHORTEST:
                        sought.update(dict.fromkeys(_parts(left)))
                        break

    def __bool__(self) -> bool:
        return any(self._sought)

    def __call__(self, text: str) -> str:
        """The text with every secret in it replaced."""
        return self._clean([text])[0] if self else text

    def json(self, value: Json) -> Json:
        """A JSON value with every secret in its strings and keys replaced."""
        if isinstance(value, str):
            return self(value)
        if not self or not isinstance(value, (dict, list, tuple)):
            return value
        texts = _texts(value)
        shown = self._clean(texts)
        return value if shown is texts else _filled(value, deque(shown))

    def _clean(self, texts: list[str]) -> list[str]:
        """Neighboring texts without secrets, be they in one or across several."""
        spans = self._spans("".join(texts))
        if not spans:
            return texts
        shown = [_without(text, ours) for text, ours in _shared_out(texts, spans)]
        # What is left must hold nothing, else nothing of it is shown.
        while spans := self._spans("".join(shown)):
            held = shown
            shown = [REDACTED if ours else text for text, ours in _shared_out(held, spans)]
            if shown == held:
                break  # a secret that reads like the mark itself
        return shown

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Where secrets stand, in order, none touching another."""
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
    """Each text with its own part of the spans over all of them."""
    start = at = 0
    for text in texts:
        end, ours = start + len(text), []
        while at < len(spans) and spans[at][0] < end:
            first, last = spans[at]
            if last > start:
                ours.append((max(first - start, 0), min(last - start, len(text))))
            if last > end:
                break  # the next text has the rest of it
            at += 1
        yield text, ours
        start = end


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    parts, done = [], 0
    for start, end in spans:
        parts += [text[done:start], REDACTED]
        done = end
    return "".join((*parts, text[done:]))


def _texts(value: Json) -> list[str]:
    """The strings of a value level by level, then its keys: no nesting is too deep."""
    strings: list[str] = []
    keys: list[str] = []
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
    return strings + keys


def _filled(value: Json, shown: deque[str]) -> Json:
    """A copy of a value with other texts, in the order of ``_texts``."""
    top: list[Json] = [value]
    holders: deque[Json] = deque()
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
    for holder in holders:
        if isinstance(holder, dict):
            items = list(holder.values())
            holder.clear()
            holder.update((shown.popleft(), item) for item in items)
    return top[0]
