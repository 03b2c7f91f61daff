"""Scripts in SVG images and in the HTML of Markdown, which a browser runs when it shows them."""

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator

from diffchecks.check_io import RawFinding, Source

_HANDLER = r"<[a-zA-Z][^<>]{0,1000}?\son[a-z]{3,20}\s{0,9}=\s{0,9}[\"']?[^\s\"'>]"
_SVG = re.compile(
    rf"(?P<script><(?:\w+:)?script\b)|(?P<handler>{_HANDLER})|<(?P<frame>iframe|embed|object)\b"
    r"|(?:href|src|to|from|values)\s{0,9}=\s{0,9}[\"'](?P<address>[^\"'>]{1,200})",
    re.IGNORECASE,
)
_PROSE = re.compile(
    r"<script(?P<attributes>[^<>]{0,500})>\s{0,99}(?P<script>[^<\s])"
    rf"|(?P<handler>{_HANDLER})"
    r"|(?:\]\(\s{0,9}<?|^[ ]{0,3}\[[^\]\n]{1,200}\]:\s{0,9}<?|\bhref\s{0,9}=\s{0,9}[\"']?)"
    r"(?P<address>[^\s\"'>)]{1,200})",
    re.IGNORECASE | re.MULTILINE,
)
# Components of a site generator, and data that no browser runs.
_NO_SCRIPT = re.compile(
    r"\bsetup\b|\btype\s*=\s*[\"']?(?!text/javascript|module|application/javascript)"
)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_INLINE = re.compile(r"(?<!`)(`{1,3})(?!`)[^\n]{1,2000}?(?<!`)\1(?!`)")
_IGNORED = re.compile(r"[\x00-\x20]")
_RUNS = re.compile(r"(?:java|vb)script:(?!\s*(?:void\b|;|$|//))|data:text/html", re.IGNORECASE)
_WHAT = {
    "script": "A script",
    "handler": "An event handler",
    "frame": "An embedded page",
    "address": "An address that is a script",
}


def find_scripts(source: Source) -> Iterator[RawFinding]:
    """The scripts of an image or of a page of prose."""
    if source.suffix == ".svg":
        yield from _found(source, source.text, _SVG, "image-script", lambda _: True)
    elif source.suffix in {".md", ".markdown"}:
        text = _without_code(source.text)
        yield from _found(source, text, _PROSE, "prose-script", _is_run)


def _found(
    source: Source,
    text: str,
    pattern: re.Pattern[str],
    code: str,
    is_run: Callable[[re.Match[str]], bool],
) -> Iterator[RawFinding]:
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    seen: set[int] = set()
    for found in pattern.finditer(text):
        kind = found.lastgroup or ""
        line = bisect_right(starts, found.start(kind))
        harmless = kind == "address" and not _RUNS.match(_plain(found["address"]))
        if not harmless and line not in seen and is_run(found):
            seen.add(line)
            where = "an image" if code == "image-script" else "a page of prose"
            yield RawFinding(code, source.path, line, f"{_WHAT[kind]} in {where}")


def _plain(address: str) -> str:
    """An address as browsers read it."""
    return _IGNORED.sub("", html.unescape(address))


def _is_run(found: re.Match[str]) -> bool:
    return found["script"] is None or _NO_SCRIPT.search(found["attributes"]) is None


def _without_code(text: str) -> str:
    """Markdown with its code blocks and code spans blanked, which are shown and not run."""
    fence, lines = "", []
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) else fence
            lines.append("")
        elif mark:
            fence = mark[1]
            lines.append("")
        else:
            lines.append("" if line.startswith(("    ", "\t")) else line)
    return _INLINE.sub(_blank, _without_comments("\n".join(lines)))


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def _without_comments(text: str) -> str:
    parts, end = [], 0
    while (start := text.find("<!--", end)) >= 0 and (close := text.find("-->", start)) >= 0:
        parts += [text[end:start], "\n" * text.count("\n", start, close)]
        end = close + 3
    return "".join([*parts, text[end:]])
