"""Broken relative links in Markdown: the file or the anchor does not exist."""

import posixpath
import re
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any
from urllib.parse import unquote, urlsplit

from diffchecks.check_io import CheckReply, Gap, RawFinding, Source, check_files, read
from diffchecks.jobs import SideJob
from diffchecks.safe_paths import SafeDirectory

# Site generators omit the page's own extension, or make .html of it.
_ENDINGS = ("", ".html", ".md", ".markdown", ".mdx", ".rst", ".adoc", ".ipynb")
_TITLE = re.compile(r"[^\w\- ]")
_ID = re.compile(r"""(?:id|name)=["']([^"']+)["']""")
# Attributes after a heading or block, as MkDocs, Kramdown and Pandoc read them.
_ATTRIBUTE_ID = re.compile(r"\{:?[^{}\n]*?#([\w.:-]+)[^{}\n]*\}")


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
    return _TITLE.sub("", title.strip().lower()).replace(" ", "-")


@lru_cache(maxsize=16)  # a page may link a hundred times to one
def find_anchors(text: str) -> frozenset[str]:
    """All anchors of a Markdown text, in lower case."""
    tokens = _parser().parse(text)
    found = {name.lower() for name in (*_ID.findall(text), *_ATTRIBUTE_ID.findall(text))}
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
    source: Source, root: str, files: frozenset[str], directories: frozenset[str]
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
        place = next((page for end in _ENDINGS if (page := place + end) in files), place)
        if place not in files and place not in directories and place != ".":
            yield RawFinding(
                "missing-target", source.path, line, f"{path} does not exist", confidence=0.9
            )
        elif parts.fragment and place.endswith((".md", ".markdown")):
            yield from _anchor(source.path, line, root, place, parts.fragment)


def _is_label(page: str, path: str, files: frozenset[str]) -> bool:
    """Whether a target may be a label that Sphinx resolves."""
    if not path or "." in path or "/" in path:
        return False
    return any(f"{directory}/conf.py" in files for directory in _above(page)) or "conf.py" in files


def _anchor(page: str, line: int, root: str, place: str, fragment: str) -> Iterator[RawFinding]:
    with SafeDirectory(root) as directory:
        if not directory.is_file(place):
            return  # its text is not available, so nothing is reported
    known = find_anchors(Source(place, read(root, place)).text)
    anchor = unquote(fragment).lower()
    if anchor not in known and not anchor.startswith(("user-content-", "l")):
        yield RawFinding(
            "missing-anchor", page, line, f"{place} has no heading #{fragment}", confidence=0.8
        )


def run(job: SideJob) -> CheckReply:
    """Check the files of a job (see ``check_io``); ``tree`` names every file of the side."""
    files = frozenset(job.tree)
    directories = frozenset(up for path in files for up in _above(path))
    return check_files(job, partial(_judge, root=job.root, files=files, directories=directories))


def _above(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path
