"""Decides which values in a template are dangerous in their context.

Where escaping for HTML does not help, a value's name decides whether people type its text: others
(a key, a code, an object's representation) mostly come from the program itself.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from functools import cached_property

from diffchecks.check_io import RawFinding
from diffchecks.data_files import read_map, read_names, read_patterns
from diffchecks.templates.dialects import Dialect
from diffchecks.templates.page_scanner import Attribute, Element, Tag, TagPlace, TemplatePage

_PATTERNS = read_patterns("judging")

# `user.name`; in contrast, `user_name` is mostly a login name of letters and digits.
_LOGINS = frozenset(["author", "member", "owner", "sender", "user"])
_OF_PROGRAM = re.compile(rf".*(?:{'|'.join(sorted(read_names('of_program')))})s?")


def is_typed(value: str) -> bool:
    """Whether the last name in a value says that people type the text."""
    identifiers = _PATTERNS["identifier"].findall(_PATTERNS["quoted"].sub("", value))
    names = map(_PATTERNS["word"].findall, identifiers)
    path = [[word.lower() for word in words] for words in names if words]
    while len(path) > 1 and path[-1][-1] in read_names("text_forms"):
        path.pop()
    if not path:
        return False
    *before, last = [owner[-1] for owner in path[:-1]] + path[-1]
    is_login = len(path[-1]) > 1 and path[-1][-2] in _LOGINS
    if any(map(_OF_PROGRAM.fullmatch, before)):
        return False
    if last == "name":
        return not read_names("named_by_people").isdisjoint(before[-1:]) and not is_login
    return last in read_names("typed_texts")


_BY_NAME = 0.45  # confidence in what the name of a value says: it is reported, and does not decide
_SHOWN = 3  # lines of a tag that identify it
_LOOKED_AT = 1000  # characters of a value, and around a tag in a script, that are examined
_ASSIGNED_IN = 1 << 18  # characters of a page that are searched for assigned values
_NAMED = 60  # maximum characters of a value in a message

_ADDRESSES = frozenset({"href", "src", "action", "formaction", "xlink:href"})
_IN_SCRIPT = frozenset({"script", "string", "template"})
_QUOTES = frozenset("'\"`")

_PRINTED = frozenset({"raw", "unquoted", "handler"})


def find_in_page(
    page: TemplatePage, dialect: Dialect, prefix: str, path: str
) -> Iterator[RawFinding]:
    """Find the defects in a template; codes consist of the dialect and the kind of defect."""
    judge = _Judge(page, dialect)
    for kind, start, end, value in judge.all():
        first, last = judge.line(start), judge.line(end - 1)
        shown = " ".join(value.split())
        shown = shown if len(shown) <= _NAMED else f"{shown[:_NAMED]}…"
        says = read_map("texts.yaml", "template_defects")[kind]
        message = f"{says}: {shown}" if shown else says
        yield RawFinding(
            f"{prefix}-{kind}",
            path,
            first + 1,
            message,
            min(last, first + _SHOWN - 1) + 1,
            start - judge.line_starts[first] + 1,
            from_request=judge.is_requested(value) or judge.is_typed(value),
            confidence=_BY_NAME if kind == "raw" and judge.is_typed(value) else 1.0,
        )


def find_printed(
    page: TemplatePage, dialect: Dialect, *, escaped: bool = True
) -> Iterator[tuple[int, str]]:
    """The values that a template prints without the escaping that their context needs, by place.

    Args:
        escaped: whether the program has values escaped that ask for nothing else.
    """
    return _Judge(page, dialect).printed(escaped=escaped)


Found = tuple[str, int, int, str]
"""The kind of a defect, its start and end, and the value."""


class _Judge:
    def __init__(self, page: TemplatePage, dialect: Dialect) -> None:
        self._page, self._dialect = page, dialect

    @cached_property
    def line_starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self._page.text))]

    def line(self, at: int) -> int:
        """The 0-based line of a place."""
        return bisect_right(self.line_starts, at) - 1

    def is_typed(self, value: str) -> bool:
        """Whether people type a value, as its name says."""
        return is_typed(_base(value)) or self._dialect.typed.search(value) is not None

    def all(self) -> Iterator[Found]:
        spans = [found.span() for found in _PATTERNS["subject"].finditer(self._page.text)]
        for opened, end, value in self._unescaped_blocks():
            spans.append((opened.start, end))
            if value:
                yield "autoescape", opened.start, opened.end, value
        at = 0
        for tag in self._page.tags:
            while at < len(spans) and spans[at][1] <= tag.start:
                at += 1
            inside = at < len(spans) and spans[at][0] <= tag.start
            place = self._page.place_of(tag)
            if tag.kind != "comment" and not inside and place.where != "comment":
                kind, value = self._judged(tag, place)
                if kind:
                    yield kind, tag.start, tag.end, value
        for element in self._page.elements:
            for attribute in element.attributes:
                yield from self._of_attribute(attribute)
        if self._dialect.form_token:
            yield from self._forms(self._dialect.form_token)

    def printed(self, *, escaped: bool) -> Iterator[tuple[int, str]]:
        """Where values are printed without the escaping that their place needs."""
        yield from ((start, value) for kind, start, _, value in self.all() if kind in _PRINTED)
        tags = self._page.tags
        starts = [tag.start for tag in tags]
        spans = [(opened.start, end) for opened, end, _ in self._unescaped_blocks()]
        for begin, end in spans if escaped else [(-1, len(self._page.text))]:
            for tag in tags[bisect_right(starts, begin) : bisect_left(starts, end)]:
                if tag.kind == "value" and not self._is_harmless(tag):
                    yield tag.start, self._value(tag)

    def _judged(self, tag: Tag, place: TagPlace) -> tuple[str, str]:
        """The kind of defect of a tag (empty: none), and its value."""
        dialect = self._dialect
        if dialect.encoded.search(tag.source):
            return "", ""
        for way in dialect.unescaped:
            found = way.fullmatch(tag.source)
            if found:
                return self._unescaped(tag, found["value"].strip()[:_LOOKED_AT], place)
        if tag.kind != "value":
            return "", ""
        value = self._value(tag)
        if self._is_constant(value):
            return "", ""
        if dialect.substitutes:
            return self._kind_by_place(value, tag, place), value
        return "", ""

    def _unescaped(self, tag: Tag, value: str, place: TagPlace) -> tuple[str, str]:
        beyond = self._dialect.request.search(tag.source, _LOOKED_AT)
        if beyond or self._adds_request(value):
            return "request", value
        if self._dialect.harmless.search(tag.source) or self._is_constant(value):
            return "", ""
        if self.is_requested(value):
            return "request", value
        in_script = place.where in _IN_SCRIPT and self._runs(place.element)
        if in_script and self._dialect.number.search(value):
            return "", ""
        return "raw", value

    def _adds_request(self, value: str) -> bool:
        """Whether data of a request stands beside something else, or in a translated text."""
        parts = _concatenated(value)
        for part in parts:
            text = _PATTERNS["translates"].match(part)
            given = part[text.end() :] if text else part
            comes = self._dialect.request.search(given) if text else self.is_requested(part)
            if comes and (text or len(parts) > 1) and not self._dialect.harmless.search(given):
                return True
        return False

    def is_requested(self, value: str) -> bool:
        """Whether a value comes from a request; the condition of a conditional is ignored."""
        base = _base(value)
        _, is_choice, answers = " ".join(base.split()).partition(" ? ")
        parts = answers.split(" : ") if is_choice else [base]
        return any(self._dialect.request.fullmatch(part) for part in parts)

    def _kind_by_place(self, value: str, tag: Tag, place: TagPlace) -> str:
        """The kind of defect of an escaped value in its context; empty: none."""
        dialect, attribute = self._dialect, place.attribute
        requested = self.is_requested(value)
        if attribute is not None:
            whole = self._is_all_of(attribute.start, attribute.end, tag)
            chosen = requested and not _PATTERNS["own_address"].search(value)
            if whole and chosen and attribute.name in _ADDRESSES:
                return "address"
        in_script = place.where in _IN_SCRIPT and self._runs(place.element)
        where: str = place.where if in_script else ""
        if attribute is not None:
            where = self._where_in_handler(attribute, tag)
        if where:
            return self._kind_in_script(value, where, requested=requested)
        if (
            place.where != "unquoted"
            or attribute is None
            or attribute.name in read_names("numeric_attributes")
        ):
            return ""
        if attribute.name in _ADDRESSES and self._is_all_of(attribute.start, attribute.end, tag):
            return ""  # a URL that the program builds has no spaces
        quiet = dialect.number.search(value) or dialect.word.search(value)
        return "" if quiet or self._is_component(place.element) else "unquoted"

    def _where_in_handler(self, attribute: Attribute, tag: Tag) -> str:
        """The context of a tag in a script in an attribute; empty if it is not in a script."""
        text = self._page.text
        before = text[max(attribute.start, tag.start - _LOOKED_AT) : tag.start]
        if _PATTERNS["javascript"].match(text, attribute.start, tag.start):
            alone = _PATTERNS["javascript"].fullmatch(before) is not None
            return "template" if alone or _in_string(before) else "script"
        if _PATTERNS["handler"].fullmatch(attribute.name):
            return "template" if _in_string(before) else "script"
        return ""

    def _kind_in_script(self, value: str, where: str, *, requested: bool) -> str:
        """The kind of defect in a script, where escaping does not help in every string."""
        if self._is_plain(value):
            return ""
        if requested and where in {"script", "template"}:
            return "request"
        return "handler" if where == "template" else "script"

    def _is_plain(self, value: str) -> bool:
        dialect = self._dialect
        known = (dialect.number, dialect.word, dialect.address)
        return any(each.search(value) for each in known)

    def _is_component(self, element: Element | None) -> bool:
        """Whether it is not an HTML element but a component of the template language."""
        if element is None:
            return False
        name = self._page.text[element.start + 1 : element.start + 1 + len(element.name)]
        return name != element.name or ":" in name

    def _of_attribute(self, attribute: Attribute) -> Iterator[Found]:
        dialect = self._dialect
        name, value = attribute.name, self._text(attribute)
        if dialect.attributes.fullmatch(name):
            value = value.strip()[:_LOOKED_AT]
            harmless = dialect.harmless.search(value) or self._is_constant(value)
            if value and not harmless:
                kind = "request" if dialect.request.fullmatch(value) else "raw"
                yield kind, attribute.at, attribute.end + len(attribute.quote), value
            return
        bound = dialect.bound.fullmatch(name)
        if bound and bound["name"] in _ADDRESSES and dialect.request.fullmatch(value.strip()):
            yield "address", attribute.at, attribute.end + len(attribute.quote), value.strip()

    def _unescaped_blocks(self) -> Iterator[tuple[Tag, int, str]]:
        """Blocks that turn escaping off, their end, and the first dangerous value in them."""
        opened: Tag | None = None
        value = ""
        for tag in self._page.tags:
            if opened is None:
                opened, value = (tag if self._turns_off(tag) else None), ""
            elif any(each.ends.fullmatch(tag.source) for each in self._dialect.escaping_off):
                yield opened, tag.start, value
                opened = None
            elif tag.kind == "value" and not value and not self._is_harmless(tag):
                value = self._value(tag)
        if opened is not None:
            yield opened, len(self._page.text), value

    def _turns_off(self, tag: Tag) -> bool:
        return (
            tag.kind == "code"
            and any(each.begins.fullmatch(tag.source) for each in self._dialect.escaping_off)
            and self._page.place_of(tag).where != "comment"
        )

    def _is_harmless(self, tag: Tag) -> bool:
        dialect, value = self._dialect, self._value(tag)
        encoded = dialect.encoded.search(tag.source) or dialect.harmless.search(tag.source)
        return bool(encoded) or self._is_plain(value) or self._is_constant(value)

    def _forms(self, token: re.Pattern[str]) -> Iterator[Found]:
        page = self._page
        sends_token = "X-CSRFToken" in page.text or "csrfmiddlewaretoken" in page.text
        if token.search(page.text) and sends_token:  # in a script
            return
        opened: Element | None = None
        for element in page.elements:
            if element.name != "form":
                continue
            if opened is not None and element.closes:
                content = page.text[opened.start : element.end]
                unsure = token.search(content) or self._dialect.form_unknown.search(content)
                if not unsure and self._is_posted_here(opened):
                    yield "form", opened.start, opened.end, ""
            opened = None if element.closes else element

    def _is_posted_here(self, form: Element) -> bool:
        method, action = form.find("method"), form.find("action")
        if method is None or self._text(method).strip().lower() != "post":
            return False
        if any(_PATTERNS["sent_by_script"].match(attribute.name) for attribute in form.attributes):
            return False
        if form.find("id") is not None or self._page.text[form.start - 1 : form.start] in _QUOTES:
            return False  # a script outside of this page may send or write it
        names = form.find("class")
        classes = self._text(names).split() if names else []
        if any(f"{quote}.{name}" in self._page.text for name in classes for quote in "'\""):
            return False  # a script of this page selects it, and may send it
        if action is None:
            return True
        address = self._text(action).strip()
        # A page that is only displayed receives nothing.
        return _PATTERNS["own_action"].fullmatch(address) is not None and not address.endswith(
            ".html"
        )

    def _is_all_of(self, start: int, end: int, tag: Tag) -> bool:
        """Whether a tag is all that is between two places, except white space."""
        text = self._page.text
        return not (
            text[max(start, tag.start - _LOOKED_AT) : tag.start].strip()
            or text[tag.end : min(end, tag.end + _LOOKED_AT)].strip()
        )

    def _runs(self, script: Element | None) -> bool:
        """Whether a script element contains code and not data."""
        kind = script.find("type") if script else None
        return (
            kind is None
            or _PATTERNS["script_types"].fullmatch(self._text(kind).strip().lower()) is not None
        )

    def _text(self, attribute: Attribute) -> str:
        return self._page.text[attribute.start : attribute.end]

    def _value(self, tag: Tag) -> str:
        kinds = [each for each in self._dialect.tags if tag.source.startswith(each.opens)]
        kind = max(kinds, key=lambda each: len(each.opens))
        value = tag.source.removeprefix(kind.opens).removesuffix(kind.closes)
        return value.strip(" \t\r\n-+=")[:_LOOKED_AT]

    def _is_constant(self, value: str) -> bool:
        base = _base(value)
        return bool(self._dialect.constant.fullmatch(base)) or base in self._safe_names

    @cached_property
    def _safe_names(self) -> frozenset[str]:
        """The names that this page itself gives values that do no harm, and no others."""
        all_values, safe_values = Counter[str](), Counter[str]()
        for found in self._dialect.assigned.finditer(self._page.text, 0, _ASSIGNED_IN):
            name = next(filter(None, found.groups()))
            all_values[name] += 1
            if self._dialect.assigned_safe.match(self._page.text, found.end()):
                safe_values[name] += 1
        return frozenset(name for name, count in all_values.items() if safe_values[name] == count)


def _concatenated(value: str) -> list[str]:
    """The parts that a value puts together, by operators outside of quotes and brackets."""
    outer, inner = "", value
    while outer != inner:
        outer, inner = inner, _PATTERNS["enclosed"].sub(lambda found: "_" * len(found[0]), inner)
    cuts = [0, *(at for one in re.finditer(r"\s*\+\s*|\s[.~&]\s", outer) for at in one.span())]
    return [value[start:end] for start, end in zip(cuts[::2], [*cuts[1::2], None], strict=True)]


def _base(value: str) -> str:
    """A value without its filters; a doubled bar is an operator."""
    return re.split(r"(?<!\|)\|(?!\|)", value, maxsplit=1)[0].strip()


def _in_string(before: str) -> bool:
    """Whether a string is open at a place."""
    quote = ""
    for found in _PATTERNS["quote"].finditer(before):
        if found[0].startswith("\\"):
            continue
        if not quote:
            quote = found[0]
        elif found[0] == quote:
            quote = ""
    return bool(quote)
