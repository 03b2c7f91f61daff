"""Reads a template: its tags, and the HTML context of each.

It is tolerant, as browsers are, and takes linear time. An element that another template closes is
not an error; a tag that is not closed is one.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from diffchecks.check_io import Gap
from diffchecks.data_files import read_patterns
from diffchecks.templates.dialects import Delimiters, Dialect, TagKind

Where = Literal[
    "text", "comment", "style", "tag", "attribute", "unquoted", "script", "string", "template"
]
"""The context of a tag: a comment, a style sheet, an element's attributes, an attribute's value, or
a script: its code, a string in it, or a template literal."""

# Placeholders for tags while the page is read; each has the length of its tag.
_VALUE, _CODE = "\ue000", "\ue001"
_OURS = re.compile(f"[{_VALUE}{_CODE}]")

_PATTERNS = read_patterns("page_scanner")
_GAP = re.compile(rf"[\s/{_CODE}]*")
_NAME = re.compile(rf"[^\s/>=\"'{_CODE}]+")
_RAW = frozenset({"script", "style"})
_IN_SCRIPT: Mapping[str, Where] = {
    "comment": "comment", "string": "string", "template": "template",
}  # fmt: skip
_OPENED_BY = {"}": "{", ")": "("}
_QUOTED = r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"


class Tag(Struct, frozen=True):
    """A tag of a template, with its delimiters."""

    kind: TagKind
    start: int
    source: str

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.start + len(self.source)


class Attribute(Struct, frozen=True):
    """An attribute; its value is ``page[start:end]``; ``quote`` is empty if it is unquoted."""

    name: str
    at: int
    start: int
    end: int
    quote: str


class Element(Struct, frozen=True):
    """The opening or closing tag of an element."""

    name: str
    start: int
    end: int
    attributes: tuple[Attribute, ...]
    closes: bool = False

    def find(self, name: str) -> Attribute | None:
        """Find an attribute by name."""
        return next((each for each in self.attributes if each.name == name), None)


class TagPlace(Struct, frozen=True):
    """Where a tag stands."""

    where: Where
    start: int
    end: int
    element: Element | None = None
    attribute: Attribute | None = None


class TemplatePage(Struct, frozen=True):
    """A parsed template; ``places`` are in order and do not overlap."""

    text: str
    tags: tuple[Tag, ...]
    elements: tuple[Element, ...]
    places: tuple[TagPlace, ...]
    starts: tuple[int, ...]

    def place_of(self, tag: Tag) -> TagPlace:
        """Where a tag stands."""
        at = bisect_right(self.starts, tag.start) - 1
        if at >= 0 and tag.start < self.places[at].end:
            return self.places[at]
        return TagPlace("text", tag.start, tag.end)


def read_page(text: str, dialect: Dialect) -> TemplatePage:
    """Read a template.

    Raises:
        Gap: a tag, a quote, or a separately read script is not closed.
    """
    text = _OURS.sub("\ufffd", text)
    tags = tuple(_tags(text, dialect))
    reader = _Reader(_hide(text, tags))
    reader.read()
    places = tuple(sorted(reader.places, key=lambda place: place.start))
    starts = tuple(place.start for place in places)
    return TemplatePage(text, tags, tuple(reader.elements), places, starts)


def line_of(text: str, at: int) -> int:
    """The 1-based line of a place."""
    return text.count("\n", 0, at) + 1


def _hide(text: str, tags: tuple[Tag, ...]) -> str:
    parts, at = [], 0
    for tag in tags:
        parts.append(text[at : tag.start])
        parts.append((_VALUE if tag.kind == "value" else _CODE) * len(tag.source))
        at = tag.end
    return "".join([*parts, text[at:]])


def _tags(text: str, dialect: Dialect) -> Iterator[Tag]:
    if not dialect.tags:
        return
    kinds = sorted(dialect.tags, key=lambda each: -len(each.opens))
    ways = (  # a group for each kind of tag
        f"(?P<k{at}>{re.escape(kind.opens)}(?msx:{kind.rest.pattern}))"
        for at, kind in enumerate(kinds)
    )
    opening = re.compile("|".join(ways))
    apart = _RawSections(text) if dialect.scripts_apart else None
    at = 0
    while found := opening.search(text, at):
        skipped = apart.end_around(found.start()) if apart else None
        if skipped is not None:
            at = skipped
            continue
        tag = _tag(text, found, kinds[int((found.lastgroup or "")[1:])])
        yield tag
        at = _after_verbatim(text, tag, dialect)


def _tag(text: str, opened: re.Match[str], kind: Delimiters) -> Tag:
    start, inside = opened.span()
    balanced = kind.closes[:1] in _OPENED_BY and kind.kind == "value"
    end = _balanced(text, inside, kind.closes) if balanced else text.find(kind.closes, inside)
    if end < 0:
        raise Gap(f"the tag {kind.opens} in line {line_of(text, start)} is not closed")
    return Tag(kind.kind, start, text[start : end + len(kind.closes)])


def _balanced(text: str, at: int, closes: str) -> int:
    """The start of a tag's closing delimiter outside of brackets and strings; -1: none."""
    shuts, opens = closes[0], _OPENED_BY[closes[0]]
    depth = 0
    for found in re.compile(rf"{_QUOTED}|\{opens}|\{shuts}").finditer(text, at):
        if found[0] == opens:
            depth += 1
        elif found[0] == shuts:
            if not depth and text.startswith(closes, found.start()):
                return found.start()
            depth = max(0, depth - 1)
    return text.find(closes, at)


def _after_verbatim(text: str, tag: Tag, dialect: Dialect) -> int:
    for block in dialect.verbatim:
        if block.begins.fullmatch(tag.source):
            end = block.ends.search(text, tag.end)
            if end is None:
                why = (
                    f"the block of {tag.source[:40]} in line {line_of(text, tag.start)} has no end"
                )
                raise Gap(why)
            return end.start()
    return tag.end


class _RawSections:
    """The contents of scripts and styles, found on demand in order."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._begins = re.compile(r"<(script|style)\b[^>]*>", re.IGNORECASE)
        self._section = self._next()

    def end_around(self, at: int) -> int | None:
        """The end of the section that contains a place; None: none does."""
        while self._section and self._section[1] <= at:
            self._section = self._next()
        return self._section[1] if self._section and self._section[0] <= at else None

    def _next(self) -> tuple[int, int] | None:
        found = self._begins.search(self._text, self._at)
        if found is None:
            return None
        if found[0].endswith("/>"):
            self._at = found.end()
            return self._next()
        end = re.compile(rf"</{found[1]}", re.IGNORECASE).search(self._text, found.end())
        if end is None:
            raise Gap(
                f"the <{found[1]}> in line {line_of(self._text, found.start())} is not closed"
            )
        self._at = end.end()
        return found.start(), end.start()


class _Reader:
    """Reads elements in order, with tags replaced by placeholders."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.elements: list[Element] = []
        self.places: list[TagPlace] = []

    def read(self) -> None:
        text, at = self._text, 0
        while found := _PATTERNS["mark"].search(text, at):
            if found[0] == "<!--":
                end = text.find("-->", found.end())
                at = len(text) if end < 0 else end + 3
                self.places.append(TagPlace("comment", found.start(), at))
                continue
            element = self._element(found)
            self.elements.append(element)
            at = element.end
            if element.name in _RAW and not element.closes and text[at - 2 : at] != "/>":
                at = self._raw(element)

    def _element(self, found: re.Match[str]) -> Element:
        text, at = self._text, found.end()
        attributes: list[Attribute] = []
        while True:
            gap = _GAP.match(text, at)
            assert gap is not None
            at = gap.end()
            if at >= len(text) or text[at] in "<>":
                break
            name = _NAME.match(text, at)
            if name is None:  # a stray quote or equals sign
                at += 1
                continue
            attribute = self._attribute(name)
            attributes.append(attribute)
            at = attribute.end + len(attribute.quote)
        end = at + 1 if text[at : at + 1] == ">" else at
        element = Element(
            found[2].lower(), found.start(), end, tuple(attributes), closes=bool(found[1])
        )
        self._place(element)
        return element

    def _attribute(self, name: re.Match[str]) -> Attribute:
        text = self._text
        equals = _PATTERNS["equals"].match(text, name.end())
        if equals is None:
            return Attribute(name[0].lower(), name.start(), name.end(), name.end(), "")
        start = equals.end()
        quote = text[start : start + 1]
        if quote not in {'"', "'"}:
            bare = _PATTERNS["bare"].match(text, start)
            assert bare is not None
            return Attribute(name[0].lower(), name.start(), start, bare.end(), "")
        end = text.find(quote, start + 1)
        if end < 0:
            raise Gap(f"the quote {quote} in line {line_of(text, start)} is not closed")
        return Attribute(name[0].lower(), name.start(), start + 1, end, quote)

    def _place(self, element: Element) -> None:
        at = element.start
        for each in element.attributes:
            self.places.append(TagPlace("tag", at, each.start, element))
            where: Where = "attribute" if each.quote else "unquoted"
            self.places.append(TagPlace(where, each.start, each.end, element, each))
            at = each.end
        self.places.append(TagPlace("tag", at, element.end, element))

    def _raw(self, element: Element) -> int:
        """The content of a script or style; if it is not closed, all that follows."""
        text = self._text
        ends = re.compile(rf"</{element.name}", re.IGNORECASE).search(text, element.end)
        end = ends.start() if ends else len(text)
        if element.name != "script":
            self.places.append(TagPlace("style", element.end, end, element))
            return end
        at = element.end
        for found in _PATTERNS["script"].finditer(text, at, end):
            self.places.append(TagPlace("script", at, found.start(), element))
            where = _IN_SCRIPT[found.lastgroup or ""]
            self.places.append(TagPlace(where, found.start(), found.end(), element))
            at = found.end()
        self.places.append(TagPlace("script", at, end, element))
        return end
