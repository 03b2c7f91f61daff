"""Broken relative links in Markdown: the file or the anchor does not exist."""

import posixpath
import unicodedata
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any
from urllib.parse import unquote, urlsplit

from diffchecks.check_io import CheckReply, Gap, RawFinding, Source, check_files, read
from diffchecks.data_files import read_patterns
from diffchecks.jobs import SideJob
from diffchecks.safe_paths import SafeDirectory

# Site generators omit the page's own extension, or make .html of it.
_ENDINGS = (".html", ".md", ".markdown", ".mdx", ".rst", ".adoc", ".ipynb", "")
_PATTERNS = read_patterns("markdown_links")


def _parser() -> Any:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - only a job with prose needs it

    return MarkdownIt("commonmark", {"html": True}).enable("table")


def _links(source: Source) -> Iterator[tuple[str, int]]:
    """The target of each link or image, with its 1-based line."""
    for block in _parser().parse(source.text):
        if block.type != "inline" or block.map is None:
            continue
        first, last = block.map
        for part in block.children or ():
            target = part.attrs.get("href") or part.attrs.get("src")
            if isinstance(target, str) and target:
                yield target, _line(source, target, first, last)


def _line(source: Source, target: str, first: int, last: int) -> int:
    plain, lines = unquote(target), enumerate(source.lines[first:last], first + 1)
    return next((n for n, line in lines if target in line or plain in line), first + 1)


def make_slug(title: str) -> str:
    """The anchor of a heading, by the rules that code hosts share."""
    return _PATTERNS["not_in_slug"].sub("", title.strip().lower()).replace(" ", "-")


@lru_cache(maxsize=16)  # a page may link a hundred times to one
def find_anchors(text: str) -> frozenset[str]:
    """All anchors of a Markdown text, in lower case."""
    tokens = _parser().parse(text)
    found = {name.lower() for kind in ("id", "attribute") for name in _PATTERNS[kind].findall(text)}
    for at, token in enumerate(tokens):
        if token.type != "heading_open":
            continue
        title = "".join(
            part.content
            for part in tokens[at + 1].children or ()
            if part.type in {"text", "code_inline"}
        )
        name, base, number = make_slug(title), make_slug(title), 0
        while name in found:
            number += 1
            name = f"{base}-{number}"
        found.add(name)
    return frozenset(found)


def _judge(
    source: Source, root: str, files: frozenset[str], sites: tuple[str, ...]
) -> Iterator[RawFinding]:
    if source.suffix not in {".md", ".markdown"}:
        raise Gap("links in this format are not supported")
    for target, line in _links(source):
        parts = urlsplit(target)
        if parts.scheme or parts.netloc or target.startswith(("/", "{", "<")):
            continue
        path = unquote(parts.path)
        page = posixpath.join(posixpath.dirname(source.path), path.removesuffix(".html"))
        place = posixpath.normpath(page)
        if place.startswith("../") or place == ".." or _is_label(source.path, path, files):
            continue  # a label, or outside of the repository: a code host's own pages
        if not path:
            place = source.path
        ways = (way + end for way in (place, "//" + posixpath.basename(place)) for end in _ENDINGS)
        place = next(filter(files.__contains__, ways), place)
        if place not in files and place != ".":
            yield RawFinding(
                "missing-target", source.path, line, f"{path} does not exist", confidence=0.9
            )
        elif parts.fragment and place.endswith((".md", ".markdown")):
            yield from _anchor(source.path, line, root, place, parts.fragment, sites)


def _is_label(page: str, path: str, files: frozenset[str]) -> bool:
    """Whether a target may be a label that Sphinx resolves."""
    if not path or "." in path or "/" in path:
        return False
    return any(f"{directory}/conf.py" in files for directory in _above(page)) or "conf.py" in files


def _anchor(
    page: str, line: int, root: str, place: str, fragment: str, sites: tuple[str, ...]
) -> Iterator[RawFinding]:
    with SafeDirectory(root) as directory:
        if not directory.is_file(place):
            return  # its text is not available, so nothing is reported
    known = find_anchors(Source(place, read(root, place)).text)
    anchor = unquote(fragment).lower()
    if place.startswith(sites):
        anchor, known = _letters(anchor), frozenset(map(_letters, known))
    if anchor not in known and not anchor.startswith(("user-content-", "l")):
        yield RawFinding(
            "missing-anchor", page, line, f"{place} has no heading #{fragment}", confidence=0.8
        )


def _letters(anchor: str) -> str:
    """What anchors of all generators have in common: they differ in what is for punctuation."""
    return _PATTERNS["between_letters"].sub("", unicodedata.normalize("NFKD", anchor))


def run(job: SideJob) -> CheckReply:
    """Check the files of a job (see ``check_io``); ``tree`` names every file of the side."""
    files = frozenset(job.tree).union(*map(_above, job.tree))
    if "mix.exs" in files:  # ExDoc puts all pages, and all images, into one folder
        files |= {"//" + posixpath.basename(path) for path in job.tree}
    sites = tuple({site["docs"] for path in job.tree if (site := _PATTERNS["site"].match(path))})
    return check_files(job, partial(_judge, root=job.root, files=files, sites=sites))


def _above(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path
