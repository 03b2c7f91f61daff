"""Our own secrets in every encoding: none is left in text, documents, journals, requests, verdicts.

Most cases hide one secret in one text or document. Every thousandth is a whole review of a change
that holds it, by a model that says it wherever a model can say anything.
"""

import base64
import json
import random
import string
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from urllib.parse import quote

import anyio
from msgspec import to_builtins
from msgspec.structs import replace

from orchestrator.catalog.settings import ReviewSettings
from orchestrator.engine.observer_events import Event
from orchestrator.engine.ports import Model, SystemClock
from orchestrator.engine.secret_redaction import REDACTED, Redactor
from orchestrator.engine.types import Json, Response
from orchestrator.stores.sqlite_journal import MemoryStore
from tests.review.review_kit import change, review
from tests.scripted_model import ScriptedModel, ScriptError, text_reply, tool_call_reply

FULL = 20_000
SAMPLE = 160
REVIEW_EVERY = 1000
BEFORE, AFTER = "Words that stay before,", "and words that stay after."


def _b64(secret: str, before: str, *, url: bool = False) -> str:
    encode = base64.urlsafe_b64encode if url else base64.b64encode
    return encode(f"{before}{secret}".encode()).decode()


def _bold(char: str) -> str:
    """A letter or digit in mathematical bold."""
    for first, bold in (("a", 0x1D41A), ("A", 0x1D400), ("0", 0x1D7CE)):
        if char.isalnum() and 0 <= ord(char) - ord(first) < (10 if first == "0" else 26):
            return chr(bold + ord(char) - ord(first))
    return char


def _bytes(row: bytes) -> str:
    return f"{row[:8].hex(' ')}  {row[8:].hex(' ')}".rstrip()


def _words(row: bytes) -> str:
    row += bytes(len(row) % 2)
    return " ".join(f"{row[at + 1]:02x}{row[at]:02x}" for at in range(0, len(row), 2))


def _dump(
    secret: str, body: Callable[[bytes], str], *, after: str = "", spelled: bool = False
) -> str:
    """A secret with other bytes around it, as a program prints them: 16 in a line."""
    raw = f"key={secret};".encode()
    rows = [raw[at : at + 16] for at in range(0, len(raw), 16)]
    ends = [f"  |{row.decode('ascii', 'replace')}|" if spelled else "" for row in rows]
    lines = [
        f"{at * 16:08x}{after} {body(row)}{end}"
        for at, (row, end) in enumerate(zip(rows, ends, strict=True))
    ]
    return "\n" + "\n".join(lines) + "\n"


_ENTITIES = {
    "-": "&hyphen;", "_": "&lowbar;", ".": "&period;", "!": "&excl;", "$": "&dollar;", "#": "&num;",
    "%": "&percnt;", "&": "&amp;", "/": "&sol;", "@": "&commat;", "a": "&aopf;", "b": "&bfr;",
    "c": "&Copf;", "k": "&kscr;", "z": "&zopf;",
}  # fmt: skip
_CYRILLIC = str.maketrans("aAeEoOpPcCyYxXiIsSjBHKMT", "аАеЕоОрРсСуУхХіІѕЅјВНКМТ")
_GREEK = str.maketrans("oOvABEHIKMNPTXYZ", "οΟνΑΒΕΗΙΚΜΝΡΤΧΥΖ")

ENCODINGS: dict[str, Callable[[str], str]] = {
    "verbatim": str,
    "base64": lambda s: _b64(s, ""),
    "base64 at 1": lambda s: _b64(s, "u"),
    "base64 at 2": lambda s: _b64(s, "u:"),
    "base64 within": lambda s: _b64(f"{s}@host", "user:"),
    "base64 url": lambda s: _b64(s, "", url=True).rstrip("="),
    "base64 lines": lambda s: "\n".join(_pieces(_b64(s, "key="), 12)),
    "hex": lambda s: s.encode().hex(),
    "HEX": lambda s: s.encode().hex().upper(),
    "hex bytes": lambda s: s.encode().hex(" "),
    "byte list": lambda s: ", ".join(f"0x{b:02x}" for b in s.encode()),
    "url": lambda s: "".join(c if c.isalnum() else f"%{ord(c):02X}" for c in s),
    "url whole": lambda s: "".join(f"%{b:02x}" for b in s.encode()),
    "json": lambda s: json.dumps(s)[1:-1],
    "unicode": lambda s: "".join(f"\\u{ord(c):04x}" for c in s),
    "source": lambda s: "".join(f"\\x{ord(c):02x}" for c in s),
    "html": lambda s: "".join(f"&#{ord(c)};" for c in s),
    "html open": lambda s: "".join(f"&#{ord(c)} " for c in s),
    "html decimal": lambda s: "".join(f"&#{ord(c)}" for c in s),
    "html padded": lambda s: "".join(f"&#x{ord(c):020x}" for c in s),
    "html soft hyphens": "&shy".join,
    "html hex": lambda s: "".join(f"&#x{ord(c):X}" for c in s),
    "octal": lambda s: "".join(f"\\{ord(c):o}" for c in s),
    "long unicode": lambda s: "".join(f"\\U{ord(c):08x}" for c in s),
    "braces": lambda s: "".join(f"\\u{{{ord(c):x}}}" for c in s),
    "full width": lambda s: "".join(chr(ord(c) + 0xFEE0) for c in s),
    "bold": lambda s: "".join(_bold(c) for c in s),
    "html names": lambda s: "".join(_ENTITIES.get(c, c) for c in s) + "&zwnj;",
    "html between": "&#8203;".join,
    "unicode between": "\\u200b".join,
    "code points": lambda s: " ".join(f"U+{ord(c):04X}" for c in s),
    "css": lambda s: "".join(f"\\{ord(c):x} " for c in s),
    "css long": lambda s: "".join(f"\\{ord(c):06x}" for c in s),
    "named characters": lambda s: "".join(f"\\N{{{unicodedata.name(c)}}}" for c in s),
    "tags between": "<b></b>".join,
    "tags around": lambda s: "".join(f"<i class='x'>{c}</i>" for c in s),
    "terminal codes": lambda s: "".join(f"\x1b[3{n % 8}m{c}" for n, c in enumerate(s)),
    "terminal codes in source": lambda s: "".join(f"{c}\\x1b[0m" for c in s),
    "tag characters": lambda s: "".join(chr(0xE0000 + ord(c)) for c in s),
    "tag characters in JSON": lambda s: json.dumps("".join(chr(0xE0000 + ord(c)) for c in s)),
    "Cyrillic": lambda s: s.translate(_CYRILLIC),
    "Greek": lambda s: s.translate(_GREEK),
    "Cyrillic in URL": lambda s: quote(s.translate(_CYRILLIC)),
    "full width in source": lambda s: json.dumps("".join(chr(ord(c) + 0xFEE0) for c in s)),
    "marks": lambda s: unicodedata.normalize("NFC", "\u0301".join(s)),
    "base32": lambda s: base64.b32encode(f"u:{s}".encode()).decode(),
    "base32hex": lambda s: base64.b32hexencode(f"key={s}".encode()).decode(),
    "base85": lambda s: base64.b85encode(f"{s}".encode()).decode(),
    "ascii85": lambda s: base64.a85encode(f"key={s}".encode(), wrapcol=20).decode(),
    "base64 of UTF-16": lambda s: base64.b64encode(f"k={s}".encode("utf-16-le")).decode(),
    "UTF-16": lambda s: s.encode("utf-16-be").hex(),
    "UTF-16 little": lambda s: s.encode("utf-16-le").hex(" "),
    "decimal list": lambda s: json.dumps(list(s.encode())),
    "octal list": lambda s: ", ".join(f"0o{b:o}" for b in s.encode()),
    "octal of od": lambda s: " ".join(f"{b:03o}" for b in s.encode()),
    "binary list": lambda s: " ".join(f"{b:08b}" for b in s.encode()),
    "calls": lambda s: "+".join(f"chr({b})" for b in s.encode()),
    "calls of hex": lambda s: " & ".join(f"Chr(0X{b:X})" for b in s.encode()),
    "hexdump -C": lambda s: _dump(s, _bytes, spelled=True),
    "xxd": lambda s: _dump(s, lambda row: row.hex(" ", -2), after=":"),
    "od -x": lambda s: _dump(s, _words),
    "od -b": lambda s: _dump(s, lambda row: " ".join(f"{b:03o}" for b in row)),
    "od -c": lambda s: _dump(s, lambda row: "   ".join(row.decode())),
    "reversed": lambda s: s[::-1],
    "upper": str.upper,
    "spaced": " ".join,
    "lines": lambda s: "\n".join(_pieces(s, 5)),
    "zero width": "\u200b".join,
    "concatenated": lambda s: " + ".join(f'"{piece}"' for piece in _pieces(s, 7)),
    "adjacent": lambda s: "' '".join(_pieces(s, 6)),
}  # fmt: skip


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def secret_of(draw: random.Random) -> str:
    """A key, a token, a password: of the shapes that people have."""
    letters = string.ascii_letters + string.digits
    kind = draw.randrange(4)
    if kind == 0:
        return "sk-" + "".join(draw.choices(letters + "-_", k=draw.randint(20, 60))) + "9Zx"
    if kind == 1:
        return draw.randbytes(draw.randint(8, 32)).hex()
    if kind == 2:
        return _b64("", draw.randbytes(draw.randint(12, 40)).hex())
    return "p4!" + "".join(draw.choices(letters + "-._~$#%&/", k=draw.randint(9, 30)))


# --- the judge: it knows nothing of how the redactor works ----------------------------------------


def forms(secret: str) -> Iterator[str]:
    """What must not stand anywhere, white space and quotes left out."""
    for name, encode in ENCODINGS.items():
        if not name.startswith("base64"):
            yield encode(secret)
    for before in ("", "u", "u:"):
        whole = _b64(secret, before).rstrip("=")
        inner = whole[3 if before else 0 : -2]
        yield from (inner, inner.replace("+", "-").replace("/", "_"))


_SPLITTING = str.maketrans("", "", "\"'+ ,\t\n\\\u200b")


def bare(text: str) -> str:
    return text.translate(_SPLITTING)


@lru_cache(maxsize=8)
def bare_forms(secret: str) -> list[tuple[str, str]]:
    return [(form, bare(form)) for form in forms(secret)]


def leaks(text: str, secret: str) -> list[str]:
    """The forms of a secret that a text still has, in one piece or split."""
    shown = bare(text)
    return [form for form, bared in bare_forms(secret) if bared in shown]


def strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for below in value.values():
            yield from strings(below)
    elif isinstance(value, list):
        for below in value:
            yield from strings(below)


# --- one text, one document -----------------------------------------------------------------------


def in_text(draw: random.Random, secret: str, encoded: str) -> str:
    """What is wrong with how a text comes out, or empty."""
    # Not closed by a bracket: a secret's own would make a tag with it, which hides what is in it.
    text = f"{BEFORE} x=<{encoded}| {AFTER}"
    shown = Redactor([secret])(text)
    if found := leaks(shown, secret):
        return f"left in a text: {found}"
    if not shown.startswith(BEFORE) or not shown.endswith(AFTER) or REDACTED not in shown:
        return f"more than the secret is gone: {shown}"
    return ""


def in_document(draw: random.Random, secret: str, encoded: str) -> str:
    cut = draw.randint(1, len(encoded) - 1)
    first, second = encoded[:cut], encoded[cut:]
    document: Json = draw.choice(
        [
            {"title": first, "detail": second, "kept": BEFORE},
            {"kept": BEFORE, "items": [first, second]},
            {"items": [{"text": first}, {"text": second}], "kept": BEFORE},
            {"kept": BEFORE, encoded: {"a": encoded}},
            {"items": [encoded, "4beef"], "kept": BEFORE},
        ]
    )
    shown = Redactor([secret]).json(document)
    if found := leaks("".join(strings(shown)), secret):
        return f"left in {document}: {found}"
    if shown["kept"] != BEFORE or len(shown) != len(document):
        return f"more than the secret is gone: {shown}"
    return ""


# --- a whole review -------------------------------------------------------------------------------


def hostile(secret: str) -> dict[str, Sequence[Response]]:
    """A reviewer that says the secret in every way, wherever it can."""
    said = [encode(secret) for encode in ENCODINGS.values()]
    half = len(secret) // 2
    finding = {
        "path": "app.py",
        "start_line": 1,
        "end_line": 1,
        "quote": said[0],
        "title": secret[:half],
        "severity": "high",
        "detail": secret[half:],
        "category": said[1],
        "rule": said[2],
    }
    report = {
        "summary": " and ".join(said),
        "findings": [
            *({**finding, "quote": text, "title": text, "fix_suggestion": text} for text in said),
            {**finding, "fix_suggestion": " ".join(said)},
        ],
        "checked": said,
        "gaps": [{"why": text, "path": text, "tool": text} for text in said],
    }
    return {
        "generalist": [
            tool_call_reply(
                ("search", {"pattern": secret}),
                ("read_file", {"path": "app.py"}),
                *((text[:60], {text: [text]}) for text in said),
            ),
            text_reply(f"{secret[:half]}\n{secret[half:]}"),
            text_reply(json.dumps(report)),
            # Its quotations stand nowhere, so it is sent back once, with the lines as they stand.
            text_reply(json.dumps(report)),
        ]
    }


def alone(settings: ReviewSettings) -> ReviewSettings:
    return replace(settings, pattern="single", judge=False, provider="scripted")


async def reviewed(folder: Path, secret: str, model: Model) -> list[str]:
    """Everything that a review of a change with the secret in it let out: rows, events, verdict."""
    lines = [f"A{n} = {encode(secret)!r}" for n, encode in enumerate(ENCODINGS.values())]
    halves = f"{secret[: len(secret) // 2]}\n{secret[len(secret) // 2 :]}\n"
    repo = change(folder, {}, {"app.py": "\n".join(lines), f"{secret[3:15]}.txt": halves})
    out: list[str] = []

    def watch(event: Event) -> None:
        out.append(f"{event.agent} {event.tool} {event.detail}")

    store = MemoryStore(SystemClock())
    await store.create("run", 0.0, {})
    verdict = await review(repo, model, adjust=alone, store=store, observer=watch, secrets=[secret])
    out += ["".join(strings(json.loads(row.body))) for row in await store.rows("run")]
    document = to_builtins(verdict)
    return [*out, "".join(strings(document)), json.dumps(document)]


def in_review(secret: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        model = ScriptedModel(hostile(secret))
        out = anyio.run(reviewed, Path(folder), secret, model)
        try:
            model.finish()
        except ScriptError as fault:
            return str(fault)
    out += [repr(request) for request in model.requests]
    found = [form for text in out for form in leaks(text, secret)]
    return f"left by a review: {found[:3]}" if found else ""


def run(count: int, tell: Callable[[str], object] = print) -> tuple[int, int]:
    """Hide that many secrets; returns how many were taken out, and how many were not."""
    failed = 0
    for seed in range(count):
        draw = random.Random(seed)
        secret = secret_of(draw)
        name = draw.choice(list(ENCODINGS))
        case = draw.choice([in_text, in_document])
        whole = partial(in_review, secret)
        one = partial(case, draw, secret, ENCODINGS[name](secret))
        if fault := (whole if seed % REVIEW_EVERY == REVIEW_EVERY - 1 else one)():
            failed += 1
            tell(f"case {seed}, {name} of {secret!r}: {fault}")
    return count - failed, failed
